//! Common code of all lists of the Data API: parts, pages and page tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::{YoutubeSettings, refusal};
use crate::http::Response;
use crate::rng::Rng;
use crate::routes::Call;

pub(super) type YoutubeCall<'a> = Call<'a, YoutubeSettings>;

const RESULTS_DEFAULT: usize = 5;
const RESULTS_MAX: usize = 50;
/// Every part that any resource can have.
const PARTS: &[&str] = &[
    "id",
    "snippet",
    "contentDetails",
    "statistics",
    "status",
    "player",
    "topicDetails",
    "brandingSettings",
    "localizations",
    "subscriberSnippet",
];

/// One page of resources with the requested parts.
pub(super) fn list(call: &YoutubeCall<'_>, kind: &str, resources: &[Value]) -> Response {
    let parts = match parts(call) {
        Ok(parts) => parts,
        Err(refused) => return refused,
    };
    let (begin, limit) = match page(call) {
        Ok(page) => page,
        Err(refused) => return refused,
    };
    let some = resources.iter().skip(begin).take(limit);
    let items: Vec<Value> = some.map(|resource| with_parts(resource, &parts)).collect();
    let more = begin + limit < resources.len() && limit > 0;
    answer(call, kind, &items, resources.len(), (begin, limit, more))
}

/// A response without `items`, as for unknown channels.
pub(super) fn nothing(call: &YoutubeCall<'_>, kind: &str) -> Response {
    let body = json!({
        "kind": format!("youtube#{kind}ListResponse"),
        "etag": etag(call.sim.seed, 0),
        "pageInfo": { "totalResults": 0, "resultsPerPage": 5 },
    });
    Response::json(200, &body)
}

fn answer(
    call: &YoutubeCall<'_>,
    kind: &str,
    items: &[Value],
    total: usize,
    (begin, limit, more): (usize, usize, bool),
) -> Response {
    let mut body = Map::new();
    body.insert("kind".to_owned(), json!(format!("youtube#{kind}ListResponse")));
    body.insert("etag".to_owned(), json!(etag(call.sim.seed, begin)));
    if more {
        body.insert("nextPageToken".to_owned(), json!(token(begin + limit)));
    }
    if begin > 0 {
        body.insert("prevPageToken".to_owned(), json!(token(begin.saturating_sub(limit))));
    }
    let info = json!({ "totalResults": total, "resultsPerPage": limit });
    body.insert("pageInfo".to_owned(), info);
    body.insert("items".to_owned(), json!(items));
    Response::json(200, &Value::Object(body))
}

fn parts(call: &YoutubeCall<'_>) -> Result<Vec<String>, Response> {
    let said = call.request.values("part").collect::<Vec<_>>().join(",");
    if said.is_empty() {
        let message = "No filter selected. Expected one of: part";
        return Err(refusal(400, "missingRequiredParameter", message));
    }
    let parts: Vec<String> = said.split(',').map(|part| part.trim().to_owned()).collect();
    match parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        Some(unknown) => {
            let message = format!("'{unknown}'");
            Err(refusal(400, "unknownPart", &message))
        }
        None => Ok(parts),
    }
}

fn page(call: &YoutubeCall<'_>) -> Result<(usize, usize), Response> {
    let limit = call.number("maxResults", RESULTS_DEFAULT, 0..=RESULTS_MAX).map_err(|said| {
        let message =
            format!("Invalid value '{said}'. Values must be within the range: [0, {RESULTS_MAX}]");
        refusal(400, "invalidParameter", &message)
    })?;
    let begin = match call.request.value("pageToken") {
        None => Some(0),
        Some(token) => read_token(token),
    };
    let begin = begin.ok_or_else(|| {
        refusal(400, "invalidPageToken", "The request specifies an invalid page token.")
    })?;
    Ok((begin, limit))
}

fn token(begin: usize) -> String {
    URL_SAFE_NO_PAD.encode(format!("sandbox:{begin}"))
}

fn read_token(token: &str) -> Option<usize> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    text.strip_prefix("sandbox:")?.parse().ok()
}

fn with_parts(resource: &Value, parts: &[String]) -> Value {
    let Some(fields) = resource.as_object() else { return Value::Null };
    let wanted = |name: &str| {
        !PARTS.contains(&name) || name == "id" || parts.iter().any(|part| part == name)
    };
    let kept = fields.iter().filter(|(name, _)| wanted(name));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn etag(seed: u64, number: usize) -> String {
    Rng::stream(seed, "etag", i64::try_from(number).unwrap_or(0)).word(27)
}

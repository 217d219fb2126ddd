//! The endpoints of API v2: authorization, rate limits and responses.

use serde_json::json;

use super::collection::{Entry, PageQuery, read_token};
use super::{Kind, Whoop, WhoopState, stream};
use crate::http::{Request, Response};
use crate::limits::RateLimitStatus;
use crate::oauth::Bearer;
use crate::timestamp;

const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 25;

/// The endpoint of a path.
#[derive(Debug, PartialEq, Eq)]
enum Endpoint<'a> {
    Profile,
    Body,
    Revoke,
    Page(Kind),
    One(Kind, &'a str),
    Of(Kind, &'a str),
    Stream(&'a str),
    Mapping(&'a str),
}

/// Every endpoint: method, version, path segments. Anything else is 404.
fn endpoint<'a>(method: &str, parts: &[&'a str]) -> Option<Endpoint<'a>> {
    Some(match (method, parts) {
        ("GET", ["v2", "user", "profile", "basic"]) => Endpoint::Profile,
        ("GET", ["v2", "user", "measurement", "body"]) => Endpoint::Body,
        ("DELETE", ["v2", "user", "access"]) => Endpoint::Revoke,
        ("GET", ["v2", "cycle"]) => Endpoint::Page(Kind::Cycle),
        ("GET", ["v2", "cycle", id]) => Endpoint::One(Kind::Cycle, id),
        ("GET", ["v2", "cycle", id, "sleep"]) => Endpoint::Of(Kind::Sleep, id),
        ("GET", ["v2", "cycle", id, "recovery"]) => Endpoint::Of(Kind::Recovery, id),
        ("GET", ["v2", "recovery"]) => Endpoint::Page(Kind::Recovery),
        ("GET", ["v2", "activity", "sleep"]) => Endpoint::Page(Kind::Sleep),
        ("GET", ["v2", "activity", "sleep", id]) => Endpoint::One(Kind::Sleep, id),
        ("GET", ["v2", "activity", "sleep", id, "stream"]) => Endpoint::Stream(id),
        ("GET", ["v2", "activity", "workout"]) => Endpoint::Page(Kind::Workout),
        ("GET", ["v2", "activity", "workout", id]) => Endpoint::One(Kind::Workout, id),
        ("GET", ["v1", "activity-mapping", id]) => Endpoint::Mapping(id),
        _ => return None,
    })
}

/// The scope that an endpoint needs; none if any token is accepted.
fn scope(endpoint: &Endpoint<'_>) -> Option<&'static str> {
    match endpoint {
        Endpoint::Profile => Some("read:profile"),
        Endpoint::Body => Some("read:body_measurement"),
        Endpoint::Page(kind) | Endpoint::One(kind, _) | Endpoint::Of(kind, _) => Some(match kind {
            Kind::Cycle => "read:cycles",
            Kind::Sleep => "read:sleep",
            Kind::Recovery => "read:recovery",
            Kind::Workout => "read:workout",
        }),
        Endpoint::Stream(_) => Some("read:sleep"),
        Endpoint::Revoke | Endpoint::Mapping(_) => None,
    }
}

pub(super) fn answer(whoop: &Whoop, request: &Request, now_us: i64) -> Response {
    let Some(parts) = request.parts("/developer/") else { return not_found() };
    let Some(endpoint) = endpoint(&request.method, &parts) else { return not_found() };
    let Some(bearer) = whoop.provider.authenticate(request, now_us) else { return unauthorized() };
    if scope(&endpoint).is_some_and(|needed| !bearer.scopes.iter().any(|scope| scope == needed)) {
        return unauthorized();
    }
    let rate_limit = whoop.limits.take(now_us);
    let state = whoop.up_to(now_us);
    let exceeded = rate_limit.as_ref().is_some_and(|rate_limit| rate_limit.exceeded);
    let response = if exceeded {
        Response::problem(429, "Too Many Requests")
    } else {
        serve(whoop, &state, &endpoint, request, &bearer, now_us)
    };
    match rate_limit {
        Some(rate_limit) => with_limits(response, &rate_limit, state.settings.retry_after),
        None => response,
    }
}

fn serve(
    whoop: &Whoop,
    state: &WhoopState,
    endpoint: &Endpoint<'_>,
    request: &Request,
    bearer: &Bearer,
    now_us: i64,
) -> Response {
    match endpoint {
        Endpoint::Profile => Response::json(200, &whoop.person.profile()),
        Endpoint::Body => Response::json(200, &whoop.person.body()),
        Endpoint::Revoke => {
            whoop.provider.revoke(bearer);
            Response::empty(204)
        }
        Endpoint::Page(kind) => match page_query(request, now_us) {
            Ok(page_query) => page(state, *kind, &page_query),
            Err(refused) => refused,
        },
        Endpoint::One(kind, id) => match id_of(*kind, id) {
            Some(id) => found(state.collections.of(*kind).get(&id)),
            None => bad_request("the id is not of the right form"),
        },
        Endpoint::Of(kind, id) => match id.parse::<i64>() {
            Ok(cycle) => {
                let of_cycle = |entry: &&Entry| entry.cycle == cycle && entry.main;
                found(state.collections.of(*kind).entries().iter().find(of_cycle))
            }
            Err(_) => bad_request("the id is not of the right form"),
        },
        Endpoint::Stream(id) => match id_of(Kind::Sleep, id) {
            Some(_) if !state.settings.stream => {
                Response::json(403, &json!({ "error": "deactivated_user" }))
            }
            Some(id) => match state.collections.sleeps.get(&id) {
                Some(entry) => stream::answer(whoop.seed, &whoop.person, entry, request),
                None => not_found(),
            },
            None => bad_request("the id is not of the right form"),
        },
        Endpoint::Mapping(id) => mapping(state, id),
    }
}

fn mapping(state: &WhoopState, id: &str) -> Response {
    let Ok(v1) = id.parse::<i64>() else { return not_found() };
    let sleeps = state.collections.sleeps.entries().iter();
    let mut all = sleeps.chain(state.collections.workouts.entries());
    match all.find(|entry| entry.v1 == Some(v1)) {
        Some(entry) => Response::json(200, &json!({ "v2_activity_id": entry.id })),
        None => not_found(),
    }
}

/// Parses the parameters of a collection. An invalid instant is 404, as the live service does for a plain
/// date.
fn page_query(request: &Request, now_us: i64) -> Result<PageQuery, Response> {
    let limit = match request.value("limit") {
        None => LIMIT_DEFAULT,
        Some(text) => match text.parse() {
            Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => limit,
            _ => return Err(bad_request("limit must be a whole number from 1 to 25")),
        },
    };
    let instant = |name| match request.value(name) {
        None => Ok(None),
        Some(text) => timestamp::read(text).map(Some).ok_or_else(not_found),
    };
    let (start_ms, end_ms) = (instant("start")?, instant("end")?);
    let after = match request.value("nextToken") {
        None | Some("") => None,
        Some(token) => {
            let known = read_token(token);
            Some(known.ok_or_else(|| bad_request("nextToken was not given out here"))?)
        }
    };
    Ok(PageQuery { start_ms, end_ms: end_ms.unwrap_or(now_us.div_euclid(1_000)), limit, after })
}

/// Records are stored serialized, so that a page is cheap.
fn page(state: &WhoopState, kind: Kind, page_query: &PageQuery) -> Response {
    let (entries, next) = state.collections.of(kind).page(page_query);
    let records: Vec<&str> = entries.iter().map(|entry| entry.body.as_str()).collect();
    let body = format!("{{\"records\":[{}],\"next_token\":{}}}", records.join(","), json!(next));
    Response::raw(200, body)
}

fn found(entry: Option<&Entry>) -> Response {
    entry.map_or_else(not_found, |entry| Response::raw(200, entry.body.clone()))
}

/// The id as stored: numbers for cycles, lower-case UUIDs for the rest.
fn id_of(kind: Kind, id: &str) -> Option<String> {
    if kind == Kind::Cycle {
        return id.parse::<i64>().ok().map(|id| id.to_string());
    }
    let dashes = [8, 13, 18, 23];
    let fits = |(at, c): (usize, char)| {
        if dashes.contains(&at) { c == '-' } else { c.is_ascii_hexdigit() }
    };
    (id.len() == 36 && id.chars().enumerate().all(fits)).then(|| id.to_ascii_lowercase())
}

/// The documented format: the closest limit first, then each with its window.
fn with_limits(response: Response, rate_limit: &RateLimitStatus, retry_after: bool) -> Response {
    let each = rate_limit
        .all
        .iter()
        .map(|limit| format!(", {};window={}", limit.requests, limit.window_s));
    let limits = format!("{}{}", rate_limit.closest.requests, each.collect::<String>());
    let response = response
        .with("x-ratelimit-limit", limits)
        .with("x-ratelimit-remaining", rate_limit.remaining.to_string())
        .with("x-ratelimit-reset", rate_limit.reset_s.to_string());
    if rate_limit.exceeded && retry_after {
        return response.with("retry-after", rate_limit.reset_s.to_string());
    }
    response
}

fn not_found() -> Response {
    Response::problem(404, "Not Found")
}

fn bad_request(message: &str) -> Response {
    Response::problem(400, message)
}

fn unauthorized() -> Response {
    Response::problem(401, "Authorization was not valid")
}

#[cfg(test)]
mod tests {
    use super::{endpoint, id_of};
    use crate::services::whoop::Kind;

    #[test]
    fn unknown_endpoints_do_not_exist() {
        for (method, path) in [
            ("GET", "v2/recovery/1"),
            ("POST", "v2/cycle"),
            ("GET", "v1/recovery"),
            ("GET", "v2/user/access"),
            ("GET", "v2"),
        ] {
            let parts: Vec<&str> = path.split('/').collect();
            assert_eq!(endpoint(method, &parts), None, "{method} {path}");
        }
    }

    #[test]
    fn ids_have_their_format() {
        assert_eq!(id_of(Kind::Cycle, "93845").as_deref(), Some("93845"));
        assert_eq!(id_of(Kind::Cycle, "x"), None);
        let upper = "ECFC6A15-4661-442F-A9A4-F160DD7AFAE8";
        assert_eq!(id_of(Kind::Sleep, upper), Some(upper.to_lowercase()));
        assert_eq!(id_of(Kind::Sleep, "ecfc6a15_4661-442f-a9a4-f160dd7afae8"), None);
        assert_eq!(id_of(Kind::Workout, "1"), None);
    }
}

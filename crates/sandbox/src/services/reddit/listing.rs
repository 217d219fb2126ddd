//! The listing endpoints: things of different kinds, paged by full name.

use serde_json::{Value, json};

use super::{RedditSettings, generate, problem};
use crate::http::Response;
use crate::rng::Rng;
use crate::routes::Call;
use crate::simulation::GenerateParams;
use crate::timestamp::DAY_MS;

type RedditCall<'a> = Call<'a, RedditSettings>;

const LIMIT_DEFAULT: usize = 25;
const LIMIT_MAX: usize = 100;
/// Older things cannot be reached, whatever the number of pages.
const LISTING_MAX: usize = 1_000;
/// Texts in which Reddit escapes `&` as `&amp;` unless `raw_json` is set.
const TEXTS: &[&str] =
    &["title", "selftext", "body", "link_title", "public_description", "subject"];

pub(super) fn subscribed(call: &mut RedditCall<'_>) -> Response {
    listing(call, call.state.records.all("subscribed").to_vec())
}

pub(super) fn moderated(call: &mut RedditCall<'_>) -> Response {
    listing(call, call.state.records.all("moderated").to_vec())
}

pub(super) fn contributor(call: &mut RedditCall<'_>) -> Response {
    listing(call, call.state.records.all("contributor").to_vec())
}

pub(super) fn submitted(call: &mut RedditCall<'_>) -> Response {
    written(call, &["post"])
}

pub(super) fn comments(call: &mut RedditCall<'_>) -> Response {
    written(call, &["comment"])
}

pub(super) fn overview(call: &mut RedditCall<'_>) -> Response {
    written(call, &["post", "comment"])
}

pub(super) fn saved(call: &mut RedditCall<'_>) -> Response {
    own(call, "saved")
}

pub(super) fn hidden(call: &mut RedditCall<'_>) -> Response {
    own(call, "hidden")
}

pub(super) fn upvoted(call: &mut RedditCall<'_>) -> Response {
    own(call, "upvoted")
}

pub(super) fn downvoted(call: &mut RedditCall<'_>) -> Response {
    own(call, "downvoted")
}

pub(super) fn inbox(call: &mut RedditCall<'_>) -> Response {
    listing(call, newest_first(call.state.records.all("inbox")))
}

pub(super) fn unread(call: &mut RedditCall<'_>) -> Response {
    let mut messages = newest_first(call.state.records.all("inbox"));
    messages.retain(generate::is_new);
    listing(call, messages)
}

pub(super) fn sent(call: &mut RedditCall<'_>) -> Response {
    listing(call, newest_first(call.state.records.all("sent")))
}

fn newest_first(list: &[Value]) -> Vec<Value> {
    list.iter().rev().cloned().collect()
}

fn is_owner(call: &RedditCall<'_>) -> bool {
    call.id().eq_ignore_ascii_case(&generate::name(call.sim.seed))
}

/// Lists that only the owner may see.
fn own(call: &mut RedditCall<'_>, kind: &str) -> Response {
    if is_owner(call) {
        return listing(call, newest_first(call.state.records.all(kind)));
    }
    let known = generate::OTHERS.contains(&call.id());
    if known { problem(403, "Forbidden") } else { problem(404, "Not Found") }
}

/// The posts and comments of a user, in the requested order.
fn written(call: &mut RedditCall<'_>, kinds: &[&str]) -> Response {
    let mut things: Vec<Value> = if is_owner(call) {
        kinds.iter().flat_map(|kind| call.state.records.all(kind).to_vec()).collect()
    } else {
        match generate::OTHERS.iter().find(|other| **other == call.id()) {
            Some(other) => of_other(call, other, kinds),
            None => return problem(404, "Not Found"),
        }
    };
    let figure = |thing: &Value, name: &str| {
        thing.pointer(&format!("/data/{name}")).and_then(Value::as_f64).unwrap_or(0.0)
    };
    let by = match call.request.value("sort") {
        Some("top" | "hot") => "score",
        Some("controversial") => "controversiality",
        _ => "created_utc",
    };
    things.sort_by(|a, b| figure(b, by).total_cmp(&figure(a, by)));
    listing(call, things)
}

fn of_other(call: &RedditCall<'_>, other: &str, kinds: &[&str]) -> Vec<Value> {
    let now_ms = call.now_us / 1_000;
    let params = GenerateParams { seed: call.sim.seed, first_day: now_ms / DAY_MS - 30, now_ms };
    let at_ms = |n: i64| {
        (params.first_day - n) * DAY_MS + Rng::stream(params.seed, other, n).whole(0, DAY_MS - 1)
    };
    let posts = (0..12).map(|n| generate::post(params, other, n, at_ms(n), other));
    let comments = (0..30).map(|n| generate::comment(params, other, n, at_ms(n), other));
    let mut all: Vec<Value> = Vec::new();
    if kinds.contains(&"post") {
        all.extend(posts);
    }
    if kinds.contains(&"comment") {
        all.extend(comments);
    }
    all
}

/// One page of a listing. An invalid limit is the default, one that is too large is the maximum.
fn listing(call: &RedditCall<'_>, mut things: Vec<Value>) -> Response {
    things.truncate(LISTING_MAX);
    let limit = call.request.value("limit").and_then(|text| text.parse::<usize>().ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
    let name = |thing: &Value| {
        thing.pointer("/data/name").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let place =
        |text: Option<&str>| text.and_then(|text| things.iter().position(|one| name(one) == text));
    let (begin, end) =
        match (place(call.request.value("after")), place(call.request.value("before"))) {
            (Some(after), _) => (after + 1, after + 1 + limit),
            (None, Some(before)) => (before.saturating_sub(limit), before),
            // A name that is not in the listing gives an empty page.
            (None, None) if call.request.value("after").is_some() => (things.len(), things.len()),
            (None, None) => (0, limit),
        };
    let more = end < things.len();
    let mut page: Vec<Value> = things.into_iter().take(end).skip(begin).collect();
    let edge = |thing: Option<&Value>| thing.map(name);
    let after = edge(page.last()).filter(|_| more);
    let before = edge(page.first()).filter(|_| begin > 0);
    let raw = call.request.value("raw_json") == Some("1");
    for thing in &mut page {
        finish(thing, raw);
    }
    Response::json(
        200,
        &json!({ "kind": "Listing", "data": {
            "after": after,
            "dist": page.len(),
            "modhash": null,
            "geo_filter": "",
            "children": page,
            "before": before,
        } }),
    )
}

/// Removes internal fields, and escapes texts unless raw ones were requested.
fn finish(thing: &mut Value, raw: bool) {
    if let Some(thing) = thing.as_object_mut() {
        thing.shift_remove("at");
    }
    let Some(data) = thing.pointer_mut("/data").and_then(Value::as_object_mut) else { return };
    for (_, value) in data.iter_mut().filter(|(name, _)| !raw && TEXTS.contains(&name.as_str())) {
        if let Value::String(text) = value {
            *text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        }
    }
}

//! The endpoints that are listings: things of different kinds, page by page behind a full name.

use serde_json::{Value, json};

use super::{Settings, problem, world};
use crate::chance::Chance;
use crate::http::Reply;
use crate::moment::DAY_MS;
use crate::room::Ask;
use crate::routes::Call;

type Calling<'a> = Call<'a, Settings>;

const LIMIT_DEFAULT: usize = 25;
const LIMIT_MAX: usize = 100;
/// Nothing older can be reached, however many pages are read.
const LISTING_MAX: usize = 1_000;
/// Texts in which Reddit writes `&amp;` for `&` unless it is asked not to.
const TEXTS: &[&str] =
    &["title", "selftext", "body", "link_title", "public_description", "subject"];

pub(super) fn subscribed(call: &mut Calling<'_>) -> Reply {
    listing(call, call.inner.shelves.all("subscribed").to_vec())
}

pub(super) fn moderated(call: &mut Calling<'_>) -> Reply {
    listing(call, call.inner.shelves.all("moderated").to_vec())
}

pub(super) fn contributor(call: &mut Calling<'_>) -> Reply {
    listing(call, call.inner.shelves.all("contributor").to_vec())
}

pub(super) fn submitted(call: &mut Calling<'_>) -> Reply {
    written(call, &["post"])
}

pub(super) fn comments(call: &mut Calling<'_>) -> Reply {
    written(call, &["comment"])
}

pub(super) fn overview(call: &mut Calling<'_>) -> Reply {
    written(call, &["post", "comment"])
}

pub(super) fn saved(call: &mut Calling<'_>) -> Reply {
    own(call, "saved")
}

pub(super) fn hidden(call: &mut Calling<'_>) -> Reply {
    own(call, "hidden")
}

pub(super) fn upvoted(call: &mut Calling<'_>) -> Reply {
    own(call, "upvoted")
}

pub(super) fn downvoted(call: &mut Calling<'_>) -> Reply {
    own(call, "downvoted")
}

pub(super) fn inbox(call: &mut Calling<'_>) -> Reply {
    listing(call, newest_first(call.inner.shelves.all("inbox")))
}

pub(super) fn unread(call: &mut Calling<'_>) -> Reply {
    let mut messages = newest_first(call.inner.shelves.all("inbox"));
    messages.retain(world::is_new);
    listing(call, messages)
}

pub(super) fn sent(call: &mut Calling<'_>) -> Reply {
    listing(call, newest_first(call.inner.shelves.all("sent")))
}

fn newest_first(list: &[Value]) -> Vec<Value> {
    list.iter().rev().cloned().collect()
}

fn is_owner(call: &Calling<'_>) -> bool {
    call.id().eq_ignore_ascii_case(&world::name(call.room.seed))
}

/// Lists that nobody but the owner may see.
fn own(call: &mut Calling<'_>, kind: &str) -> Reply {
    if is_owner(call) {
        return listing(call, newest_first(call.inner.shelves.all(kind)));
    }
    let known = world::OTHERS.contains(&call.id());
    if known { problem(403, "Forbidden") } else { problem(404, "Not Found") }
}

/// What somebody wrote, in the order that was asked for.
fn written(call: &mut Calling<'_>, kinds: &[&str]) -> Reply {
    let mut things: Vec<Value> = if is_owner(call) {
        kinds.iter().flat_map(|kind| call.inner.shelves.all(kind).to_vec()).collect()
    } else {
        match world::OTHERS.iter().find(|other| **other == call.id()) {
            Some(other) => of_other(call, other, kinds),
            None => return problem(404, "Not Found"),
        }
    };
    let figure = |thing: &Value, name: &str| {
        thing.pointer(&format!("/data/{name}")).and_then(Value::as_f64).unwrap_or(0.0)
    };
    let by = match call.asked.value("sort") {
        Some("top" | "hot") => "score",
        Some("controversial") => "controversiality",
        _ => "created_utc",
    };
    things.sort_by(|a, b| figure(b, by).total_cmp(&figure(a, by)));
    listing(call, things)
}

fn of_other(call: &Calling<'_>, other: &str, kinds: &[&str]) -> Vec<Value> {
    let now_ms = call.now_us / 1_000;
    let ask = Ask { seed: call.room.seed, first_day: now_ms / DAY_MS - 30, now_ms };
    let at_ms =
        |n: i64| (ask.first_day - n) * DAY_MS + Chance::of(ask.seed, other, n).whole(0, DAY_MS - 1);
    let posts = (0..12).map(|n| world::post(ask, other, n, at_ms(n), other));
    let comments = (0..30).map(|n| world::comment(ask, other, n, at_ms(n), other));
    let mut all: Vec<Value> = Vec::new();
    if kinds.contains(&"post") {
        all.extend(posts);
    }
    if kinds.contains(&"comment") {
        all.extend(comments);
    }
    all
}

/// One page of a listing. A limit that is none is the default, one that is too large is the most.
fn listing(call: &Calling<'_>, mut things: Vec<Value>) -> Reply {
    things.truncate(LISTING_MAX);
    let limit = call.asked.value("limit").and_then(|text| text.parse::<usize>().ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
    let name = |thing: &Value| {
        thing.pointer("/data/name").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let place =
        |text: Option<&str>| text.and_then(|text| things.iter().position(|one| name(one) == text));
    let (begin, end) = match (place(call.asked.value("after")), place(call.asked.value("before"))) {
        (Some(after), _) => (after + 1, after + 1 + limit),
        (None, Some(before)) => (before.saturating_sub(limit), before),
        // A name that is not in the listing leads to its end.
        (None, None) if call.asked.value("after").is_some() => (things.len(), things.len()),
        (None, None) => (0, limit),
    };
    let more = end < things.len();
    let mut page: Vec<Value> = things.into_iter().take(end).skip(begin).collect();
    let edge = |thing: Option<&Value>| thing.map(name);
    let after = edge(page.last()).filter(|_| more);
    let before = edge(page.first()).filter(|_| begin > 0);
    let raw = call.asked.value("raw_json") == Some("1");
    for thing in &mut page {
        finish(thing, raw);
    }
    Reply::json(
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

/// Takes out what is ours alone, and escapes the texts unless they are wanted as they are.
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

//! The read endpoints: profile, top items, saved things, playlists and recent plays.

use serde_json::{Value, json};

use super::catalogue::{ARTISTS, Catalogue, TRACKS};
use super::{Mode, SpotifySettings, refusal};
use crate::http::Response;
use crate::rng::Rng;
use crate::routes::Call;
use crate::timestamp;

type SpotifyCall<'a> = Call<'a, SpotifySettings>;

const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: usize = 50;
const OFFSET_MAX: usize = 100_000;
/// Only this many plays are readable.
const PLAYS_KEPT: usize = 50;
const TOP_MAX: usize = 99;

pub(super) fn me(call: &mut SpotifyCall<'_>) -> Response {
    let music = Catalogue(call.sim.seed);
    let mut me = music.user(0);
    let granted = |scope: &str| call.scopes.iter().any(|known| known == scope);
    if let Some(me) = me.as_object_mut() {
        me.insert("account_id".to_owned(), json!(music.id("account", 0)));
        if granted("user-read-email") {
            me.insert("email".to_owned(), json!("listener@example.com"));
        }
        if granted("user-read-private") {
            me.insert("country".to_owned(), json!("DE"));
            me.insert("product".to_owned(), json!("premium"));
            let explicit = json!({ "filter_enabled": false, "filter_locked": false });
            me.insert("explicit_content".to_owned(), explicit);
        }
    }
    Response::json(200, &me)
}

pub(super) fn user(call: &mut SpotifyCall<'_>) -> Response {
    match number_of_user(call) {
        Some(number) => Response::json(200, &Catalogue(call.sim.seed).user(number)),
        None => refusal(404, "Resource not found"),
    }
}

pub(super) fn user_playlists(call: &mut SpotifyCall<'_>) -> Response {
    if number_of_user(call).is_none() {
        return refusal(404, "Resource not found");
    }
    let all =
        call.state.records.all("playlist").iter().chain(call.state.records.all("other_playlist"));
    let of_user = |list: &&Value| {
        list.pointer("/owner/id").and_then(Value::as_str) == Some(call.id())
            && list.get("public") == Some(&json!(true))
    };
    let mut lists: Vec<Value> = all.filter(of_user).cloned().collect();
    lists.dedup_by_key(|list| list.get("id").cloned());
    page(call, &lists)
}

fn number_of_user(call: &SpotifyCall<'_>) -> Option<i64> {
    let music = Catalogue(call.sim.seed);
    (0..8).find(|number| music.user_id(*number) == call.id())
}

/// The top items of a time range: a different order for each, the same for the same seed.
pub(super) fn top(call: &mut SpotifyCall<'_>) -> Response {
    let range = call.request.value("time_range").unwrap_or("medium_term");
    if !["short_term", "medium_term", "long_term"].contains(&range) {
        return refusal(400, "Invalid time range");
    }
    let music = Catalogue(call.sim.seed);
    let (count, one): (i64, fn(Catalogue, i64) -> Value) = match call.id() {
        "artists" => (ARTISTS, Catalogue::artist),
        "tracks" => (TRACKS, Catalogue::track),
        _ => return refusal(400, "Invalid type"),
    };
    let mut numbers: Vec<i64> = (0..count).collect();
    numbers.sort_by_cached_key(|number| Rng::stream(call.sim.seed, range, *number).next());
    let things: Vec<Value> =
        numbers.into_iter().take(TOP_MAX).map(|number| one(music, number)).collect();
    page(call, &things)
}

pub(super) fn tracks(call: &mut SpotifyCall<'_>) -> Response {
    saved(call, "saved_track")
}

pub(super) fn albums(call: &mut SpotifyCall<'_>) -> Response {
    saved(call, "saved_album")
}

pub(super) fn shows(call: &mut SpotifyCall<'_>) -> Response {
    saved(call, "saved_show")
}

pub(super) fn episodes(call: &mut SpotifyCall<'_>) -> Response {
    if !call.scopes.iter().any(|scope| scope == "user-library-read") {
        return refusal(403, "Insufficient client scope");
    }
    saved(call, "saved_episode")
}

pub(super) fn audiobooks(call: &mut SpotifyCall<'_>) -> Response {
    saved(call, "saved_audiobook")
}

/// Newest first.
fn saved(call: &mut SpotifyCall<'_>, kind: &str) -> Response {
    let list: Vec<Value> = call.state.records.all(kind).iter().rev().cloned().collect();
    page(call, &list)
}

pub(super) fn playlists(call: &mut SpotifyCall<'_>) -> Response {
    let private = call.scopes.iter().any(|scope| scope == "playlist-read-collaborative");
    let shown = |list: &&Value| private || list.get("collaborative") != Some(&json!(true));
    let lists: Vec<Value> =
        call.state.records.all("playlist").iter().filter(shown).cloned().collect();
    page(call, &lists)
}

pub(super) fn playlist(call: &mut SpotifyCall<'_>) -> Response {
    match found(call) {
        Ok(list) => Response::json(200, &list),
        Err(refused) => refused,
    }
}

/// The entries of a playlist: `item` where the path says `items`, `track` where it says `tracks`.
pub(super) fn items(call: &mut SpotifyCall<'_>) -> Response {
    let list = match found(call) {
        Ok(list) => list,
        Err(refused) => return refused,
    };
    let own = list.pointer("/owner/id") == Some(&json!(Catalogue(call.sim.seed).user_id(0)))
        || list.get("collaborative") == Some(&json!(true));
    if !own && call.state.settings.mode == Mode::Development {
        return refusal(403, "Forbidden");
    }
    let old = call.request.path.ends_with("/tracks");
    let of_list = |entry: &&Value| entry.get("playlist").and_then(Value::as_str) == Some(call.id());
    let entries = call.state.records.all("playlist_item").iter().filter(of_list);
    let entries = entries.filter_map(|entry| entry.get("entry").cloned()).map(|mut entry| {
        if let Some(entry) = entry.as_object_mut().filter(|_| old) {
            let track = entry.shift_remove("item").unwrap_or_default();
            entry.insert("track".to_owned(), track);
        }
        entry
    });
    let entries: Vec<Value> = entries.collect();
    page(call, &entries)
}

fn found(call: &SpotifyCall<'_>) -> Result<Value, Response> {
    if !is_id(call.id()) {
        return Err(refusal(400, "Invalid base62 id"));
    }
    let records = &call.state.records;
    let list =
        records.get("playlist", call.id()).or_else(|| records.get("other_playlist", call.id()));
    list.cloned().ok_or_else(|| refusal(404, "Resource not found"))
}

pub(super) fn is_id(text: &str) -> bool {
    text.len() == 22 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// One page of a list by `limit` and `offset`.
pub(super) fn page(call: &SpotifyCall<'_>, list: &[Value]) -> Response {
    let Ok(limit) = call.number("limit", LIMIT_DEFAULT, 1..=LIMIT_MAX) else {
        return refusal(400, "Invalid limit");
    };
    let Ok(offset) = call.number("offset", 0, 0..=OFFSET_MAX) else {
        return refusal(400, "Invalid offset");
    };
    let address = |offset: usize| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in &call.request.query {
            if name != "limit" && name != "offset" {
                query.append_pair(name, value);
            }
        }
        query.append_pair("offset", &offset.to_string()).append_pair("limit", &limit.to_string());
        call.sim.address(&format!("{}?{}", call.request.path, query.finish()))
    };
    let items: Vec<&Value> = list.iter().skip(offset).take(limit).collect();
    let more = offset.saturating_add(limit) < list.len();
    Response::json(
        200,
        &json!({
            "href": address(offset),
            "items": items,
            "limit": limit,
            "next": more.then(|| address(offset + limit)),
            "offset": offset,
            "previous": (offset > 0).then(|| address(offset.saturating_sub(limit))),
            "total": list.len(),
        }),
    )
}

/// The newest plays, by time: `before` and `after` in milliseconds since 1970.
pub(super) fn plays(call: &mut SpotifyCall<'_>) -> Response {
    let Ok(limit) = call.number("limit", LIMIT_DEFAULT, 1..=LIMIT_MAX) else {
        return refusal(400, "Invalid limit");
    };
    let (before, after) = (call.request.value("before"), call.request.value("after"));
    if before.is_some() && after.is_some() {
        return refusal(400, "before and after are mutually exclusive");
    }
    let Some(bound) = before.or(after).map_or(Some(i64::MAX), |text| text.parse::<i64>().ok())
    else {
        return refusal(400, "Invalid cursor");
    };
    let at = |play: &Value| {
        play.get("played_at").and_then(Value::as_str).and_then(timestamp::read).unwrap_or(0)
    };
    let all = call.state.records.all("play").iter().rev().take(PLAYS_KEPT);
    let of_side =
        all.filter(|play| if after.is_some() { at(play) > bound } else { at(play) < bound });
    let mut plays: Vec<&Value> = of_side.collect();
    let more = plays.len() > limit;
    if after.is_some() {
        // The oldest ones after the time, still newest first.
        plays.drain(..plays.len().saturating_sub(limit));
    }
    plays.truncate(limit);
    let edge = |play: Option<&&Value>| play.map(|play| at(play).to_string());
    let cursors = edge(plays.first()).zip(edge(plays.last()));
    let next = cursors.as_ref().filter(|_| more).map(|(newest, oldest)| {
        let (name, value) = if after.is_some() { ("after", newest) } else { ("before", oldest) };
        call.sim.address(&format!("{}?{name}={value}&limit={limit}", call.request.path))
    });
    Response::json(
        200,
        &json!({
            "items": plays,
            "next": next,
            "cursors": cursors.map(|(after, before)| json!({ "after": after, "before": before })),
            "limit": limit,
            "href": call.sim.address(&format!("{}?limit={limit}", call.request.path)),
        }),
    )
}

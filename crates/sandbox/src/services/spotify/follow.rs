//! The endpoints that follow, unfollow, save and remove: the old ones by id and those of 2026 by URI.

use serde_json::{Value, json};

use super::catalogue::{ARTISTS, Catalogue};
use super::library::is_id;
use super::{SpotifySettings, refusal};
use crate::http::Response;
use crate::routes::Call;
use crate::timestamp;

type SpotifyCall<'a> = Call<'a, SpotifySettings>;

const URIS_MAX: usize = 40;
const IDS_MAX: usize = 50;
const LIMIT_MAX: usize = 50;

/// The record kind of a type, and the pointer to its URI.
const KINDS_BY_TYPE: &[(&str, &str, &str)] = &[
    ("track", "saved_track", "/track/uri"),
    ("album", "saved_album", "/album/uri"),
    ("show", "saved_show", "/show/uri"),
    ("episode", "saved_episode", "/episode/uri"),
    ("audiobook", "saved_audiobook", "/audiobook/uri"),
    ("artist", "followed_artist", "/uri"),
    ("user", "followed_user", "/uri"),
    ("playlist", "playlist", "/uri"),
];

/// Followed artists, by cursor: the last id of the previous page.
pub(super) fn artists(call: &mut SpotifyCall<'_>) -> Response {
    if call.request.value("type") != Some("artist") {
        return refusal(400, "Missing or invalid type");
    }
    let Ok(limit) = call.number("limit", 20, 1..=LIMIT_MAX) else {
        return refusal(400, "Invalid limit");
    };
    let all = call.state.records.all("followed_artist");
    let id_of = |artist: &Value| artist.get("id").and_then(Value::as_str).map(str::to_owned);
    let begin = match call.request.value("after") {
        None => 0,
        Some(after) => {
            match all.iter().position(|artist| id_of(artist).as_deref() == Some(after)) {
                Some(place) => place + 1,
                None => return refusal(400, "Invalid after"),
            }
        }
    };
    let items: Vec<&Value> = all.iter().skip(begin).take(limit).collect();
    let after = items.last().filter(|_| begin + limit < all.len()).and_then(|last| id_of(last));
    let path = format!("{}?type=artist&limit={limit}", call.request.path);
    let next = after.as_ref().map(|after| call.sim.address(&format!("{path}&after={after}")));
    Response::json(
        200,
        &json!({ "artists": {
            "href": call.sim.address(&path),
            "items": items,
            "limit": limit,
            "next": next,
            "cursors": { "after": after },
            "total": all.len(),
        } }),
    )
}

pub(super) fn follow(call: &mut SpotifyCall<'_>) -> Response {
    by_ids(call, true)
}

pub(super) fn unfollow(call: &mut SpotifyCall<'_>) -> Response {
    by_ids(call, false)
}

/// Ids are in the query or in the body.
fn by_ids(call: &mut SpotifyCall<'_>, have: bool) -> Response {
    let kind = call.request.value("type").unwrap_or_default().to_owned();
    if kind != "artist" && kind != "user" {
        return refusal(400, "Missing or invalid type");
    }
    let body = call.request.json().and_then(|body| body.get("ids").cloned());
    let ids: Vec<String> = match (call.request.value("ids"), body) {
        (Some(ids), _) => ids.split(',').map(str::to_owned).collect(),
        (None, Some(ids)) => serde_json::from_value(ids).unwrap_or_default(),
        (None, None) => Vec::new(),
    };
    if ids.is_empty() || ids.len() > IDS_MAX {
        return refusal(400, "Missing or too many ids");
    }
    if kind == "artist" && ids.iter().any(|id| !is_id(id)) {
        return refusal(400, "Invalid base62 id");
    }
    for id in &ids {
        change(call, &kind, id, have);
    }
    Response::empty(204)
}

pub(super) fn follow_playlist(call: &mut SpotifyCall<'_>) -> Response {
    playlist(call, true)
}

pub(super) fn unfollow_playlist(call: &mut SpotifyCall<'_>) -> Response {
    playlist(call, false)
}

fn playlist(call: &mut SpotifyCall<'_>, have: bool) -> Response {
    let id = call.id().to_owned();
    if !is_id(&id) {
        return refusal(400, "Invalid base62 id");
    }
    let known = ["playlist", "other_playlist"]
        .iter()
        .any(|kind| call.state.records.get(kind, &id).is_some());
    if !known {
        return refusal(404, "Resource not found");
    }
    change(call, "playlist", &id, have);
    Response::raw(200, "")
}

pub(super) fn save(call: &mut SpotifyCall<'_>) -> Response {
    by_uris(call, true)
}

pub(super) fn drop(call: &mut SpotifyCall<'_>) -> Response {
    by_uris(call, false)
}

fn by_uris(call: &mut SpotifyCall<'_>, have: bool) -> Response {
    let uris = match uris(call) {
        Ok(uris) => uris,
        Err(refused) => return refused,
    };
    let artists = call.state.settings.artist_uris;
    if uris.iter().any(|(kind, _)| kind == "artist" && !artists) {
        return refusal(400, "Unsupported uri type: artist");
    }
    for (kind, id) in &uris {
        change(call, kind, id, have);
    }
    Response::raw(200, "")
}

pub(super) fn contains(call: &mut SpotifyCall<'_>) -> Response {
    let uris = match uris(call) {
        Ok(uris) => uris,
        Err(refused) => return refused,
    };
    let held = |(kind, id): &(String, String)| {
        let uri = json!(format!("spotify:{kind}:{id}"));
        let place = KINDS_BY_TYPE.iter().find(|(of, ..)| of == kind);
        place.is_some_and(|(_, shelf, pointer)| {
            let all = call.state.records.all(shelf);
            all.iter().any(|record| record.pointer(pointer) == Some(&uri))
        })
    };
    Response::json(200, &Value::Array(uris.iter().map(|uri| json!(held(uri))).collect()))
}

/// Types and ids of the `uris` of a request, 40 at most.
fn uris(call: &SpotifyCall<'_>) -> Result<Vec<(String, String)>, Response> {
    let said = call.request.value("uris").filter(|uris| !uris.is_empty());
    let said = said.ok_or_else(|| refusal(400, "Missing required field: uris"))?;
    let uris: Vec<&str> = said.split(',').collect();
    if uris.len() > URIS_MAX {
        return Err(refusal(400, "Too many uris requested"));
    }
    let read = |uri: &&str| {
        let (kind, id) = uri.strip_prefix("spotify:")?.split_once(':')?;
        let known = KINDS_BY_TYPE.iter().any(|(of, ..)| *of == kind);
        let good = if kind == "user" { is_user(id) } else { is_id(id) };
        (known && good).then(|| (kind.to_owned(), id.to_owned()))
    };
    let read: Option<Vec<_>> = uris.iter().map(read).collect();
    read.ok_or_else(|| refusal(400, "Invalid uri"))
}

fn is_user(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.bytes().all(good)
}

/// Adds a thing to the library or removes it; idempotent.
fn change(call: &mut SpotifyCall<'_>, kind: &str, id: &str, have: bool) {
    let Some((_, shelf, pointer)) = KINDS_BY_TYPE.iter().find(|(of, ..)| *of == kind) else {
        return;
    };
    let key = id.to_owned();
    let held = call.state.records.get(shelf, &key).is_some();
    if !have && held {
        // An unfollowed playlist still exists and can be followed again.
        if let Some(list) = call.state.records.get("playlist", &key).cloned() {
            call.state.records.put("other_playlist", list);
        }
        let _ = call.state.records.remove(shelf, &key);
    }
    if !have || held {
        return;
    }
    let thing = known(call, kind, id);
    let record = match pointer.trim_start_matches('/').split_once('/') {
        Some((inside, _)) => {
            json!({ "added_at": timestamp::seconds(call.now_us / 1_000), (inside): thing })
        }
        None => thing,
    };
    call.state.records.put(shelf, record);
}

/// The thing, if it is known here.
fn known(call: &SpotifyCall<'_>, kind: &str, id: &str) -> Value {
    let music = Catalogue(call.sim.seed);
    let found = match kind {
        "playlist" => call.state.records.get("other_playlist", id).cloned(),
        "artist" => (0..ARTISTS).find(|n| music.id("artist", *n) == id).map(|n| music.artist(n)),
        "user" => (0..8).find(|n| music.user_id(*n) == id).map(|n| music.user(n)),
        _ => None,
    };
    found
        .unwrap_or_else(|| json!({ "id": id, "type": kind, "uri": format!("spotify:{kind}:{id}") }))
}

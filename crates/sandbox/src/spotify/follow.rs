//! The endpoints that follow, unfollow, save and drop: the old ones by id and the ones of 2026 by
//! address.

use serde_json::{Value, json};

use super::catalogue::{ARTISTS, Catalogue};
use super::library::is_id;
use super::{Settings, refusal};
use crate::http::Reply;
use crate::moment;
use crate::routes::Call;

type Calling<'a> = Call<'a, Settings>;

const URIS_MAX: usize = 40;
const IDS_MAX: usize = 50;
const LIMIT_MAX: usize = 50;

/// Where a thing of a type is kept, and where in a record its address is.
const PLACES: &[(&str, &str, &str)] = &[
    ("track", "saved_track", "/track/uri"),
    ("album", "saved_album", "/album/uri"),
    ("show", "saved_show", "/show/uri"),
    ("episode", "saved_episode", "/episode/uri"),
    ("audiobook", "saved_audiobook", "/audiobook/uri"),
    ("artist", "followed_artist", "/uri"),
    ("user", "followed_user", "/uri"),
    ("playlist", "playlist", "/uri"),
];

/// Followed artists, by a cursor: the last id of the page before.
pub(super) fn artists(call: &mut Calling<'_>) -> Reply {
    if call.asked.value("type") != Some("artist") {
        return refusal(400, "Missing or invalid type");
    }
    let Ok(limit) = call.number("limit", 20, 1..=LIMIT_MAX) else {
        return refusal(400, "Invalid limit");
    };
    let all = call.inner.shelves.all("followed_artist");
    let id_of = |artist: &Value| artist.get("id").and_then(Value::as_str).map(str::to_owned);
    let begin = match call.asked.value("after") {
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
    let path = format!("{}?type=artist&limit={limit}", call.asked.path);
    let next = after.as_ref().map(|after| call.room.address(&format!("{path}&after={after}")));
    Reply::json(
        200,
        &json!({ "artists": {
            "href": call.room.address(&path),
            "items": items,
            "limit": limit,
            "next": next,
            "cursors": { "after": after },
            "total": all.len(),
        } }),
    )
}

pub(super) fn follow(call: &mut Calling<'_>) -> Reply {
    by_ids(call, true)
}

pub(super) fn unfollow(call: &mut Calling<'_>) -> Reply {
    by_ids(call, false)
}

/// Ids come in the query or in a body.
fn by_ids(call: &mut Calling<'_>, have: bool) -> Reply {
    let kind = call.asked.value("type").unwrap_or_default().to_owned();
    if kind != "artist" && kind != "user" {
        return refusal(400, "Missing or invalid type");
    }
    let body = call.asked.json().and_then(|body| body.get("ids").cloned());
    let ids: Vec<String> = match (call.asked.value("ids"), body) {
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
    Reply::empty(204)
}

pub(super) fn follow_playlist(call: &mut Calling<'_>) -> Reply {
    playlist(call, true)
}

pub(super) fn unfollow_playlist(call: &mut Calling<'_>) -> Reply {
    playlist(call, false)
}

fn playlist(call: &mut Calling<'_>, have: bool) -> Reply {
    let id = call.id().to_owned();
    if !is_id(&id) {
        return refusal(400, "Invalid base62 id");
    }
    let known = ["playlist", "other_playlist"]
        .iter()
        .any(|kind| call.inner.shelves.one(kind, &id).is_some());
    if !known {
        return refusal(404, "Resource not found");
    }
    change(call, "playlist", &id, have);
    Reply::raw(200, "")
}

pub(super) fn save(call: &mut Calling<'_>) -> Reply {
    by_uris(call, true)
}

pub(super) fn drop(call: &mut Calling<'_>) -> Reply {
    by_uris(call, false)
}

fn by_uris(call: &mut Calling<'_>, have: bool) -> Reply {
    let uris = match uris(call) {
        Ok(uris) => uris,
        Err(refused) => return refused,
    };
    let artists = call.inner.settings.artist_uris;
    if uris.iter().any(|(kind, _)| kind == "artist" && !artists) {
        return refusal(400, "Unsupported uri type: artist");
    }
    for (kind, id) in &uris {
        change(call, kind, id, have);
    }
    Reply::raw(200, "")
}

pub(super) fn contains(call: &mut Calling<'_>) -> Reply {
    let uris = match uris(call) {
        Ok(uris) => uris,
        Err(refused) => return refused,
    };
    let held = |(kind, id): &(String, String)| {
        let uri = json!(format!("spotify:{kind}:{id}"));
        let place = PLACES.iter().find(|(of, ..)| of == kind);
        place.is_some_and(|(_, shelf, pointer)| {
            let all = call.inner.shelves.all(shelf);
            all.iter().any(|record| record.pointer(pointer) == Some(&uri))
        })
    };
    Reply::json(200, &Value::Array(uris.iter().map(|uri| json!(held(uri))).collect()))
}

/// Types and ids of the `uris` of a request, 40 at most.
fn uris(call: &Calling<'_>) -> Result<Vec<(String, String)>, Reply> {
    let said = call.asked.value("uris").filter(|uris| !uris.is_empty());
    let said = said.ok_or_else(|| refusal(400, "Missing required field: uris"))?;
    let uris: Vec<&str> = said.split(',').collect();
    if uris.len() > URIS_MAX {
        return Err(refusal(400, "Too many uris requested"));
    }
    let read = |uri: &&str| {
        let (kind, id) = uri.strip_prefix("spotify:")?.split_once(':')?;
        let known = PLACES.iter().any(|(of, ..)| *of == kind);
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

/// Puts a thing into the library or takes it out; what is so already stays so.
fn change(call: &mut Calling<'_>, kind: &str, id: &str, have: bool) {
    let Some((_, shelf, pointer)) = PLACES.iter().find(|(of, ..)| *of == kind) else { return };
    let key = id.to_owned();
    let held = call.inner.shelves.one(shelf, &key).is_some();
    if !have && held {
        // A playlist that was let go is still there, and can be followed again.
        if let Some(list) = call.inner.shelves.one("playlist", &key).cloned() {
            call.inner.shelves.put("other_playlist", list);
        }
        let _ = call.inner.shelves.remove(shelf, &key);
    }
    if !have || held {
        return;
    }
    let thing = known(call, kind, id);
    let record = match pointer.trim_start_matches('/').split_once('/') {
        Some((inside, _)) => {
            json!({ "added_at": moment::seconds(call.now_us / 1_000), (inside): thing })
        }
        None => thing,
    };
    call.inner.shelves.put(shelf, record);
}

/// The thing itself, as far as it is known here.
fn known(call: &Calling<'_>, kind: &str, id: &str) -> Value {
    let music = Catalogue(call.room.seed);
    let found = match kind {
        "playlist" => call.inner.shelves.one("other_playlist", id).cloned(),
        "artist" => (0..ARTISTS).find(|n| music.id("artist", *n) == id).map(|n| music.artist(n)),
        "user" => (0..8).find(|n| music.user_id(*n) == id).map(|n| music.user(n)),
        _ => None,
    };
    found
        .unwrap_or_else(|| json!({ "id": id, "type": kind, "uri": format!("spotify:{kind}:{id}") }))
}

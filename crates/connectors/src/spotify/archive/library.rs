//! The library and the playlists of the account data. They lack the time of saving; records from the
//! API have more fields, so an import does not overwrite them.

use std::collections::HashMap;

use serde_json::{Value, json};
use store::records::{ARCHIVED, RecordsError, Window};

use super::super::NAME;
use super::super::mirror::{ALBUMS, EPISODES, FOLLOWED_ARTISTS, SHOWS, TRACKS};
use super::super::playlists::{PLAYLIST_ITEMS, PLAYLISTS};
use crate::ConnectorContext;
use crate::personal::archive::{Intake, OpenFile, Stop, each_entry, short_digest};
use crate::personal::mirror::{List, Whole, text_at};

/// One entry of `YourLibrary.json`; `section` names its list.
pub(super) fn saved(
    section: &str,
    item: &Value,
    intake: &mut Intake<'_>,
) -> Result<(), RecordsError> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let artists = || json!([{ "name": text("artist") }]);
    let uri = text("uri").unwrap_or_default();
    let id = id_of(uri);
    let (list, entry): (&'static List, Value) = match section {
        "tracks" => (
            &TRACKS,
            json!({ "track": {
                "id": id, "uri": uri, "name": text("track"), "artists": artists(),
                "album": { "name": text("album") },
            } }),
        ),
        "albums" => (
            &ALBUMS,
            json!({ "album": { "id": id, "uri": uri, "name": text("album"), "artists": artists() } }),
        ),
        "shows" => (
            &SHOWS,
            json!({ "show": { "id": id, "uri": uri, "name": text("name"), "publisher": text("publisher") } }),
        ),
        "episodes" => (
            &EPISODES,
            json!({ "episode": {
                "id": id, "uri": uri, "name": text("name"), "show": { "name": text("show") },
            } }),
        ),
        "artists" => (&FOLLOWED_ARTISTS, json!({ "id": id, "uri": uri, "name": text("name") })),
        _ => return Ok(()),
    };
    if id.is_some() {
        return intake.fill(list, entry);
    }
    intake.odd(list);
    Ok(())
}

/// `spotify:track:ID`; local files have none.
fn id_of(uri: &str) -> Option<&str> {
    let mut fields = uri.split(':');
    let (scheme, kind, id) = (fields.next()?, fields.next()?, fields.next()?);
    let is_id = id.len() == 22 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (scheme == "spotify" && kind != "local" && is_id).then_some(id)
}

/// `Playlist1.json`: the playlists with their entries, by name only.
pub(super) fn playlists(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    let known = known(intake.ctx)?;
    each_entry(file, &mut |section, playlist| {
        let name = playlist.get("name").and_then(Value::as_str).unwrap_or_default();
        if section != "playlists" || name.is_empty() {
            return Ok(());
        }
        let id = match known.get(name) {
            Some(Some(id)) => id.clone(),
            _ => unnamed(name),
        };
        let entries = playlist.get("items").and_then(Value::as_array);
        let entries: Vec<Value> = entries.into_iter().flatten().filter_map(entry).collect();
        intake.fill(
            &PLAYLISTS,
            json!({
                "id": id,
                "name": name,
                "description": playlist.get("description"),
                "items": { "total": entries.len() },
            }),
        )?;
        let whole = Whole { parent: &id, title: Some(name), items: entries };
        for item in whole.marked(|item| text_at(item, "/item/uri")) {
            intake.fill(&PLAYLIST_ITEMS, item)?;
        }
        Ok(())
    })
}

/// An entry in the form of the API.
fn entry(entry: &Value) -> Option<Value> {
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str);
    let added = text("/addedDate");
    let item = if let Some(uri) = text("/track/trackUri") {
        json!({
            "type": "track", "uri": uri, "id": id_of(uri), "name": text("/track/trackName"),
            "artists": [{ "name": text("/track/artistName") }],
            "album": { "name": text("/track/albumName") },
        })
    } else if let Some(uri) = text("/episode/episodeUri") {
        json!({
            "type": "episode", "uri": uri, "id": id_of(uri), "name": text("/episode/episodeName"),
            "show": { "name": text("/episode/showName") },
        })
    } else {
        let uri = text("/localTrack/uri")?;
        json!({ "type": "track", "uri": uri, "name": uri })
    };
    Some(json!({ "added_at": added, "item": item }))
}

/// The synced playlists by name; `None` where two have the same name.
fn known(ctx: &ConnectorContext) -> Result<HashMap<String, Option<String>>, RecordsError> {
    let mut known = HashMap::new();
    let window = Window { except_state: Some(ARCHIVED), ..Window::default() };
    for row in ctx.records.window(NAME, PLAYLISTS.kind, &window)? {
        let raw: Value = serde_json::from_str(&row.raw).unwrap_or_default();
        let Some(name) = text_at(&raw, "/name") else { continue };
        known.entry(name).and_modify(|id| *id = None).or_insert(Some(row.id));
    }
    Ok(known)
}

/// A placeholder id for a playlist known only by name; a sync replaces it.
fn unnamed(name: &str) -> String {
    format!("archive:{}", short_digest(name))
}

//! The Spotify mirror: every play (Spotify itself keeps 50), the library, the playlists and followed
//! artists.

use serde_json::{Map, Value, json};
use store::export::{ExportKind, ServiceExports};
use store::records::{Column, View};

use super::api;
use super::archive::{STREAMS, STREAMS_VIEW};
use super::playlists::{self, PLAYLIST_ITEMS, PLAYLISTS};
use super::{NAME, lists};
use crate::ConnectorContext;
use crate::fetch::WaitPolicy;
use crate::personal::mirror::{Forgets, List, Page, Stamp, at, derived, names, walk};
use crate::personal::{Problem, events};
use crate::sync::{Mirror, ResourceError, SyncJob, SyncResource};

const PAGE: &str = "50";
const SAVED: &str = "/added_at";

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        SyncResource::list("plays", |job| Box::pin(plays(job))),
        SyncResource::list("saved_tracks", |job| Box::pin(saved(job, &TRACKS, "tracks"))),
        SyncResource::list("saved_albums", |job| Box::pin(saved(job, &ALBUMS, "albums"))),
        SyncResource::list("saved_shows", |job| Box::pin(saved(job, &SHOWS, "shows"))),
        SyncResource::list("saved_episodes", |job| Box::pin(saved(job, &EPISODES, "episodes"))),
        SyncResource::list("saved_audiobooks", |job| {
            Box::pin(saved(job, &AUDIOBOOKS, "audiobooks"))
        }),
        SyncResource::list("followed_artists", |job| {
            Box::pin(walk(job, &FOLLOWED_ARTISTS, |after| playlists::artists_page(job.ctx, after)))
        }),
        SyncResource::list("playlists", |job| {
            Box::pin(walk(job, &PLAYLISTS, |offset| playlists::playlists_page(job.ctx, offset)))
        }),
        SyncResource::list("playlist_items", |job| Box::pin(playlists::items(job))),
    ],
    events: |ctx, asked| events(ctx, NAME, LISTS, asked),
    export: &EXPORTS,
    more_views: &[],
    version: VERSION,
    derive: |kind, raw| derived(LISTS, kind, raw),
    offset_s: None,
    doubtful: None,
};

pub(crate) const LISTS: &[&List] = &[
    &PLAYS,
    &TRACKS,
    &ALBUMS,
    &SHOWS,
    &EPISODES,
    &AUDIOBOOKS,
    &FOLLOWED_ARTISTS,
    &PLAYLISTS,
    &PLAYLIST_ITEMS,
    &STREAMS,
];
/// Increase when the columns change.
pub(crate) const VERSION: u32 = 2;

const PLAYS: List = List {
    kind: "plays",
    id: |play| {
        let track = play.pointer("/track/id").and_then(Value::as_str).unwrap_or("local");
        Some(format!("{} {track}", play.get("played_at")?.as_str()?))
    },
    at: "/played_at",
    stamp: Stamp::FromItem,
    parent: None,
    flat: |play| object(serde_json::to_value(lists::play(play)).unwrap_or_default()),
    forgets: Forgets::Never,
};
pub(super) const TRACKS: List = List {
    kind: "saved_tracks",
    id: |entry| id(entry, "/track/id"),
    at: SAVED,
    stamp: Stamp::FromItem,
    parent: None,
    flat: |entry| {
        object(json!({
            "id": at(entry, "/track/id"),
            "added_at": at(entry, SAVED),
            "name": at(entry, "/track/name"),
            "artists": names(entry, "/track/artists"),
            "album": at(entry, "/track/album/name"),
            "duration_ms": at(entry, "/track/duration_ms"),
        }))
    },
    forgets: Forgets::Missing,
};
pub(super) const ALBUMS: List = List {
    kind: "saved_albums",
    id: |entry| id(entry, "/album/id"),
    at: SAVED,
    stamp: Stamp::FromItem,
    parent: None,
    flat: |entry| {
        object(json!({
            "id": at(entry, "/album/id"),
            "added_at": at(entry, SAVED),
            "name": at(entry, "/album/name"),
            "artists": names(entry, "/album/artists"),
            "release_date": at(entry, "/album/release_date"),
            "total_tracks": at(entry, "/album/total_tracks"),
        }))
    },
    forgets: Forgets::Missing,
};
pub(super) const SHOWS: List = List {
    kind: "saved_shows",
    id: |entry| id(entry, "/show/id"),
    at: SAVED,
    stamp: Stamp::FromItem,
    parent: None,
    flat: |entry| {
        object(json!({
            "id": at(entry, "/show/id"),
            "added_at": at(entry, SAVED),
            "name": at(entry, "/show/name"),
            "total_episodes": at(entry, "/show/total_episodes"),
        }))
    },
    forgets: Forgets::Missing,
};
pub(super) const EPISODES: List = List {
    kind: "saved_episodes",
    id: |entry| id(entry, "/episode/id"),
    at: SAVED,
    stamp: Stamp::FromItem,
    parent: None,
    flat: |entry| {
        object(json!({
            "id": at(entry, "/episode/id"),
            "added_at": at(entry, SAVED),
            "name": at(entry, "/episode/name"),
            "show": at(entry, "/episode/show/name"),
            "release_date": at(entry, "/episode/release_date"),
            "duration_ms": at(entry, "/episode/duration_ms"),
        }))
    },
    forgets: Forgets::Missing,
};
const AUDIOBOOKS: List = List {
    kind: "saved_audiobooks",
    id: |entry| book(entry, "id").as_str().map(str::to_owned),
    at: SAVED,
    stamp: Stamp::FromItem,
    parent: None,
    flat: |entry| {
        object(json!({
            "id": book(entry, "id"),
            "added_at": at(entry, SAVED),
            "name": book(entry, "name"),
            "authors": names(entry, "/audiobook/authors"),
            "total_chapters": book(entry, "total_chapters"),
        }))
    },
    forgets: Forgets::Missing,
};

pub(super) const FOLLOWED_ARTISTS: List = List {
    kind: "followed_artists",
    id: |artist| id(artist, "/id"),
    at: "",
    stamp: Stamp::FirstSeen,
    parent: None,
    flat: |artist| {
        let genres = artist.get("genres").and_then(Value::as_array);
        let genres: Vec<&str> = genres.into_iter().flatten().filter_map(Value::as_str).collect();
        object(json!({
            "id": at(artist, "/id"),
            "name": at(artist, "/name"),
            "genres": genres.join(", "),
            "uri": at(artist, "/uri"),
        }))
    },
    forgets: Forgets::Missing,
};

/// Some responses wrap the book in an entry, some return the book itself.
fn book(entry: &Value, name: &str) -> Value {
    let inside = entry.pointer(&format!("/audiobook/{name}"));
    inside.or_else(|| entry.get(name)).cloned().unwrap_or_default()
}

fn id(entry: &Value, pointer: &str) -> Option<String> {
    entry.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

async fn plays(job: &SyncJob<'_>) -> Result<Option<String>, ResourceError> {
    let page = |before: Option<String>| plays_page(job.ctx, before);
    walk(job, &PLAYS, page).await
}

/// Newest first; a page without a cursor is the last.
async fn plays_page(ctx: &ConnectorContext, before: Option<String>) -> Result<Page, Problem> {
    let mut query = vec![("limit", PAGE)];
    query.extend(before.as_deref().map(|before| ("before", before)));
    let path = ["me", "player", "recently-played"];
    let found = api::get_with(ctx, &path, &query, WaitPolicy::SYNC).await?;
    let items = items(&found);
    let before = found.pointer("/cursors/before").and_then(Value::as_str).map(str::to_owned);
    let next = before.filter(|_| !items.is_empty() && !at(&found, "/next").is_null());
    Ok(Page { items, next, total: None })
}

async fn saved(
    job: &SyncJob<'_>,
    list: &'static List,
    what: &'static str,
) -> Result<Option<String>, ResourceError> {
    walk(job, list, |offset| saved_page(job.ctx, what, offset)).await
}

pub(super) async fn saved_page(
    ctx: &ConnectorContext,
    what: &'static str,
    offset: Option<String>,
) -> Result<Page, Problem> {
    let offset = offset.unwrap_or_else(|| "0".to_owned());
    let query = [("limit", PAGE), ("offset", offset.as_str())];
    let found = api::get_with(ctx, &["me", what], &query, WaitPolicy::SYNC).await?;
    let items = items(&found);
    let begin: usize = offset.parse().unwrap_or_default();
    let is_last = items.is_empty() || at(&found, "/next").is_null();
    let next = (!is_last).then(|| (begin + items.len()).to_string());
    Ok(Page { items, next, total: found.get("total").and_then(Value::as_u64) })
}

pub(super) fn items(found: &Value) -> Vec<Value> {
    found.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
}

const PLAYS_VIEW: View = View::of(
    "spotify_plays",
    NAME,
    "plays",
    &[
        Column::text("played_at"),
        Column::text("track_id"),
        Column::text("track_name"),
        Column::text("artists"),
        Column::text("album"),
        Column::integer("duration_ms"),
    ],
);
const TRACKS_VIEW: View = View::of(
    "spotify_saved_tracks",
    NAME,
    "saved_tracks",
    &[
        Column::text("id"),
        Column::text("added_at"),
        Column::text("name"),
        Column::text("artists"),
        Column::text("album"),
        Column::integer("duration_ms"),
    ],
);
const ALBUMS_VIEW: View = View::of(
    "spotify_saved_albums",
    NAME,
    "saved_albums",
    &[
        Column::text("id"),
        Column::text("added_at"),
        Column::text("name"),
        Column::text("artists"),
        Column::text("release_date"),
        Column::integer("total_tracks"),
    ],
);
const SHOWS_VIEW: View = View::of(
    "spotify_saved_shows",
    NAME,
    "saved_shows",
    &[
        Column::text("id"),
        Column::text("added_at"),
        Column::text("name"),
        Column::integer("total_episodes"),
    ],
);
const EPISODES_VIEW: View = View::of(
    "spotify_saved_episodes",
    NAME,
    "saved_episodes",
    &[
        Column::text("id"),
        Column::text("added_at"),
        Column::text("name"),
        Column::text("show"),
        Column::text("release_date"),
        Column::integer("duration_ms"),
    ],
);
const AUDIOBOOKS_VIEW: View = View::of(
    "spotify_saved_audiobooks",
    NAME,
    "saved_audiobooks",
    &[
        Column::text("id"),
        Column::text("added_at"),
        Column::text("name"),
        Column::text("authors"),
        Column::integer("total_chapters"),
    ],
);

const FOLLOWED_ARTISTS_VIEW: View = View::of(
    "spotify_followed_artists",
    NAME,
    "followed_artists",
    &[Column::text("id"), Column::text("name"), Column::text("genres"), Column::text("uri")],
);
const PLAYLISTS_VIEW: View = View::of(
    "spotify_playlists",
    NAME,
    "playlists",
    &[
        Column::text("id"),
        Column::text("name"),
        Column::text("description"),
        Column::text("owner"),
        Column::text("owner_id"),
        Column::bool("public"),
        Column::bool("collaborative"),
        Column::integer("total_items"),
    ],
);
const PLAYLIST_ITEMS_VIEW: View = View::of(
    "spotify_playlist_items",
    NAME,
    "playlist_items",
    &[
        Column::text("playlist_id"),
        Column::text("playlist"),
        Column::integer("position"),
        Column::text("added_at"),
        Column::text("type"),
        Column::text("name"),
        Column::text("artists"),
        Column::text("album"),
        Column::text("uri"),
    ],
);

/// Everything that can be exported.
pub const EXPORTS: ServiceExports = ServiceExports {
    service: NAME,
    kinds: &[
        ExportKind::list("plays", &PLAYS_VIEW),
        ExportKind::list("saved_tracks", &TRACKS_VIEW),
        ExportKind::list("saved_albums", &ALBUMS_VIEW),
        ExportKind::list("saved_shows", &SHOWS_VIEW),
        ExportKind::list("saved_episodes", &EPISODES_VIEW),
        ExportKind::list("saved_audiobooks", &AUDIOBOOKS_VIEW),
        ExportKind::list("followed_artists", &FOLLOWED_ARTISTS_VIEW),
        ExportKind::list("playlists", &PLAYLISTS_VIEW),
        ExportKind::list("playlist_items", &PLAYLIST_ITEMS_VIEW),
        ExportKind::list("streams", &STREAMS_VIEW),
    ],
};

//! What is kept of Spotify: every play, which Spotify itself forgets after 50, the library, the
//! playlists and the artists followed.

use serde_json::{Map, Value, json};
use store::export::{Kind as File, Shelf};
use store::records::{Column, View};

use super::api;
use super::archive::{STREAMS, STREAMS_VIEW};
use super::playlists::{self, PLAYLIST_ITEMS, PLAYLISTS};
use super::{NAME, lists};
use crate::Desk;
use crate::fetch::Patience;
use crate::personal::mirror::{Forgets, List, Page, Stamp, at, names, walk};
use crate::personal::{Problem, events};
use crate::sync::{EventsAsked, Fault, Mirror, Resource, Turn};

const PAGE: &str = "50";
const SAVED: &str = "/added_at";

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        Resource { name: "plays", since: None, fetch: |turn| Box::pin(plays(turn)) },
        Resource {
            name: "saved_tracks",
            since: None,
            fetch: |turn| Box::pin(saved(turn, &TRACKS, "tracks")),
        },
        Resource {
            name: "saved_albums",
            since: None,
            fetch: |turn| Box::pin(saved(turn, &ALBUMS, "albums")),
        },
        Resource {
            name: "saved_shows",
            since: None,
            fetch: |turn| Box::pin(saved(turn, &SHOWS, "shows")),
        },
        Resource {
            name: "saved_episodes",
            since: None,
            fetch: |turn| Box::pin(saved(turn, &EPISODES, "episodes")),
        },
        Resource {
            name: "saved_audiobooks",
            since: None,
            fetch: |turn| Box::pin(saved(turn, &AUDIOBOOKS, "audiobooks")),
        },
        Resource {
            name: "followed_artists",
            since: None,
            fetch: |turn| {
                Box::pin(walk(turn, &FOLLOWED_ARTISTS, |after| {
                    playlists::artists_page(turn.desk, after)
                }))
            },
        },
        Resource {
            name: "playlists",
            since: None,
            fetch: |turn| {
                Box::pin(walk(turn, &PLAYLISTS, |offset| {
                    playlists::playlists_page(turn.desk, offset)
                }))
            },
        },
        Resource {
            name: "playlist_items",
            since: None,
            fetch: |turn| Box::pin(playlists::items(turn)),
        },
    ],
    events: changed,
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
/// Grows when the columns do.
pub(crate) const VERSION: u32 = 2;

const PLAYS: List = List {
    kind: "plays",
    id: |play| {
        let track = play.pointer("/track/id").and_then(Value::as_str).unwrap_or("local");
        Some(format!("{} {track}", play.get("played_at")?.as_str()?))
    },
    at: "/played_at",
    stamp: Stamp::Said,
    parent: None,
    flat: |play| object(lists::play(play)),
    forgets: Forgets::Never,
};
pub(super) const TRACKS: List = List {
    kind: "saved_tracks",
    id: |entry| id(entry, "/track/id"),
    at: SAVED,
    stamp: Stamp::Said,
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
    stamp: Stamp::Said,
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
    stamp: Stamp::Said,
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
    stamp: Stamp::Said,
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
    stamp: Stamp::Said,
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
    stamp: Stamp::Seen,
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

/// Some answers hold the book in the entry, some are the book.
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

async fn plays(turn: &Turn<'_>) -> Result<Option<String>, Fault> {
    let page = |before: Option<String>| plays_page(turn.desk, before);
    walk(turn, &PLAYS, page).await
}

/// Backwards in time; a page without a cursor is the last.
async fn plays_page(desk: &Desk, before: Option<String>) -> Result<Page, Problem> {
    let mut query = vec![("limit", PAGE)];
    query.extend(before.as_deref().map(|before| ("before", before)));
    let path = ["me", "player", "recently-played"];
    let found = api::get_with(desk, &path, &query, Patience::SYNC).await?;
    let items = items(&found);
    let before = found.pointer("/cursors/before").and_then(Value::as_str).map(str::to_owned);
    let next = before.filter(|_| !items.is_empty() && !at(&found, "/next").is_null());
    Ok(Page { items, next, total: None })
}

async fn saved(
    turn: &Turn<'_>,
    list: &'static List,
    what: &'static str,
) -> Result<Option<String>, Fault> {
    walk(turn, list, |offset| saved_page(turn.desk, what, offset)).await
}

pub(super) async fn saved_page(
    desk: &Desk,
    what: &'static str,
    offset: Option<String>,
) -> Result<Page, Problem> {
    let offset = offset.unwrap_or_else(|| "0".to_owned());
    let query = [("limit", PAGE), ("offset", offset.as_str())];
    let found = api::get_with(desk, &["me", what], &query, Patience::SYNC).await?;
    let items = items(&found);
    let begin: usize = offset.parse().unwrap_or_default();
    let is_last = items.is_empty() || at(&found, "/next").is_null();
    let next = (!is_last).then(|| (begin + items.len()).to_string());
    Ok(Page { items, next, total: found.get("total").and_then(Value::as_u64) })
}

pub(super) fn items(found: &Value) -> Vec<Value> {
    found.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn changed(desk: &Desk, asked: &EventsAsked<'_>) -> Result<Value, Fault> {
    let kinds: Vec<&'static str> = LISTS.iter().map(|list| list.kind).collect();
    events(desk, NAME, &kinds, asked)
}

const fn view(name: &'static str, kind: &'static str, columns: &'static [Column]) -> View {
    View { name, service: NAME, kind, columns, except_state: None }
}

const fn file(name: &'static str, view: &'static View) -> File {
    File { name, file: name, is_snapshot: false, view }
}

const PLAYS_VIEW: View = view(
    "spotify_plays",
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
const TRACKS_VIEW: View = view(
    "spotify_saved_tracks",
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
const ALBUMS_VIEW: View = view(
    "spotify_saved_albums",
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
const SHOWS_VIEW: View = view(
    "spotify_saved_shows",
    "saved_shows",
    &[
        Column::text("id"),
        Column::text("added_at"),
        Column::text("name"),
        Column::integer("total_episodes"),
    ],
);
const EPISODES_VIEW: View = view(
    "spotify_saved_episodes",
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
const AUDIOBOOKS_VIEW: View = view(
    "spotify_saved_audiobooks",
    "saved_audiobooks",
    &[
        Column::text("id"),
        Column::text("added_at"),
        Column::text("name"),
        Column::text("authors"),
        Column::integer("total_chapters"),
    ],
);

const FOLLOWED_ARTISTS_VIEW: View = view(
    "spotify_followed_artists",
    "followed_artists",
    &[Column::text("id"), Column::text("name"), Column::text("genres"), Column::text("uri")],
);
const PLAYLISTS_VIEW: View = view(
    "spotify_playlists",
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
const PLAYLIST_ITEMS_VIEW: View = view(
    "spotify_playlist_items",
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

/// Everything that can be taken out.
pub const SHELF: Shelf = Shelf {
    service: NAME,
    kinds: &[
        file("plays", &PLAYS_VIEW),
        file("saved_tracks", &TRACKS_VIEW),
        file("saved_albums", &ALBUMS_VIEW),
        file("saved_shows", &SHOWS_VIEW),
        file("saved_episodes", &EPISODES_VIEW),
        file("saved_audiobooks", &AUDIOBOOKS_VIEW),
        file("followed_artists", &FOLLOWED_ARTISTS_VIEW),
        file("playlists", &PLAYLISTS_VIEW),
        file("playlist_items", &PLAYLIST_ITEMS_VIEW),
        file("streams", &STREAMS_VIEW),
    ],
};

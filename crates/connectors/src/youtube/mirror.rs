//! What is kept of YouTube: the owner's subscriptions and playlists, and the likes with the moment of
//! each.

use serde_json::Value;
use store::export::{Kind as File, Shelf};
use store::records::{Column, View};

use super::archive::{SEARCHES, SEARCHES_VIEW, WATCHES, WATCHES_VIEW};
use super::{NAME, api, playlists, public};
use crate::Desk;
use crate::fetch::Patience;
use crate::personal::mirror::{Forgets, List, Page, Stamp, at, columns, id_of, text_at, walk};
use crate::personal::{Problem, events};
use crate::sync::{EventsAsked, Fault, Mirror, Resource};

const PUBLISHED: &str = "/snippet/publishedAt";
/// The list of likes, which says when each was given.
const LIKES_LIST: &str = "LL";

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        Resource {
            name: "subscriptions",
            since: None,
            fetch: |turn| {
                let query = &[("part", "snippet,contentDetails"), ("mine", "true")];
                let page = |token| page(turn.desk, "subscriptions", query, token);
                Box::pin(walk(turn, &SUBSCRIPTIONS, page))
            },
        },
        Resource {
            name: "likes",
            since: None,
            fetch: |turn| {
                let query = &[("part", "snippet,contentDetails"), ("playlistId", LIKES_LIST)];
                let page = |token| page(turn.desk, "playlistItems", query, token);
                Box::pin(walk(turn, &LIKES, page))
            },
        },
        Resource {
            name: "playlists",
            since: None,
            fetch: |turn| {
                let query = &[("part", "snippet,contentDetails,status"), ("mine", "true")];
                let page = |token| page(turn.desk, "playlists", query, token);
                Box::pin(walk(turn, &PLAYLISTS, page))
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

pub(crate) const LISTS: &[&List] =
    &[&SUBSCRIPTIONS, &LIKES, &PLAYLISTS, &PLAYLIST_ITEMS, &WATCHES, &SEARCHES];
/// Grows when the columns do.
pub(crate) const VERSION: u32 = 2;

pub(super) const SUBSCRIPTIONS: List = List {
    kind: "subscriptions",
    id: |item| text_at(item, "/snippet/resourceId/channelId"),
    at: PUBLISHED,
    stamp: Stamp::Said,
    parent: None,
    flat: |item| {
        columns([
            ("channel_id", at(item, "/snippet/resourceId/channelId")),
            ("channel_title", at(item, "/snippet/title")),
            ("subscribed_at", at(item, PUBLISHED)),
            ("description", at(item, "/snippet/description")),
        ])
    },
    forgets: Forgets::Missing,
};
pub(super) const LIKES: List = List {
    kind: "likes",
    id: |item| text_at(item, "/snippet/resourceId/videoId"),
    at: PUBLISHED,
    stamp: Stamp::Said,
    parent: None,
    flat: |item| {
        columns([
            ("video_id", at(item, "/snippet/resourceId/videoId")),
            ("title", at(item, "/snippet/title")),
            ("channel", at(item, "/snippet/videoOwnerChannelTitle")),
            ("liked_at", at(item, PUBLISHED)),
        ])
    },
    forgets: Forgets::Missing,
};
pub(super) const PLAYLISTS: List = List {
    kind: "playlists",
    id: |item| text_at(item, "/id"),
    at: PUBLISHED,
    stamp: Stamp::Seen,
    parent: None,
    flat: |item| {
        columns([
            ("playlist_id", at(item, "/id")),
            ("title", at(item, "/snippet/title")),
            ("description", at(item, "/snippet/description")),
            ("created_at", at(item, PUBLISHED)),
            ("privacy", at(item, "/status/privacyStatus")),
            ("videos", at(item, "/contentDetails/itemCount")),
        ])
    },
    forgets: Forgets::Missing,
};
pub(super) const PLAYLIST_ITEMS: List = List {
    kind: "playlist_items",
    id: |item| id_of(item, item.pointer("/snippet/resourceId/videoId")?.as_str()?),
    at: PUBLISHED,
    stamp: Stamp::Seen,
    parent: Some("/playlist_id"),
    flat: |item| {
        columns([
            ("playlist_id", at(item, "/playlist_id")),
            ("playlist", at(item, "/playlist")),
            ("position", at(item, "/position")),
            ("video_id", at(item, "/snippet/resourceId/videoId")),
            ("title", at(item, "/snippet/title")),
            ("channel", at(item, "/snippet/videoOwnerChannelTitle")),
            ("added_at", at(item, PUBLISHED)),
        ])
    },
    forgets: Forgets::Missing,
};

pub(super) async fn page(
    desk: &Desk,
    what: &str,
    query: &[(&str, &str)],
    token: Option<String>,
) -> Result<Page, Problem> {
    let mut query = query.to_vec();
    query.push(("maxResults", "50"));
    query.extend(token.as_deref().map(|token| ("pageToken", token)));
    let found = api::own_with(desk, what, &query, Patience::SYNC).await?;
    let next = found.get("nextPageToken").and_then(Value::as_str).map(str::to_owned);
    let mut items = public::items(&found).to_vec();
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        // It changes with things that nobody sees.
        item.shift_remove("etag");
    }
    Ok(Page { items, next, total: public::total(&found).as_u64() })
}

fn changed(desk: &Desk, asked: &EventsAsked<'_>) -> Result<Value, Fault> {
    let kinds: Vec<&'static str> = LISTS.iter().map(|list| list.kind).collect();
    events(desk, NAME, &kinds, asked)
}

const fn view(name: &'static str, kind: &'static str, columns: &'static [Column]) -> View {
    View { name, service: NAME, kind, columns, except_state: None }
}

const SUBSCRIPTIONS_VIEW: View = view(
    "youtube_subscriptions",
    "subscriptions",
    &[
        Column::text("channel_id"),
        Column::text("channel_title"),
        Column::text("subscribed_at"),
        Column::text("description"),
    ],
);
const LIKES_VIEW: View = view(
    "youtube_likes",
    "likes",
    &[
        Column::text("video_id"),
        Column::text("title"),
        Column::text("channel"),
        Column::text("liked_at"),
    ],
);
const PLAYLISTS_VIEW: View = view(
    "youtube_playlists",
    "playlists",
    &[
        Column::text("playlist_id"),
        Column::text("title"),
        Column::text("description"),
        Column::text("created_at"),
        Column::text("privacy"),
        Column::integer("videos"),
    ],
);
const PLAYLIST_ITEMS_VIEW: View = view(
    "youtube_playlist_items",
    "playlist_items",
    &[
        Column::text("playlist_id"),
        Column::text("playlist"),
        Column::integer("position"),
        Column::text("video_id"),
        Column::text("title"),
        Column::text("channel"),
        Column::text("added_at"),
    ],
);

const fn file(name: &'static str, view: &'static View) -> File {
    File { name, file: name, is_snapshot: false, view }
}

/// Everything that can be taken out.
pub const SHELF: Shelf = Shelf {
    service: NAME,
    kinds: &[
        file("subscriptions", &SUBSCRIPTIONS_VIEW),
        file("likes", &LIKES_VIEW),
        file("playlists", &PLAYLISTS_VIEW),
        file("playlist_items", &PLAYLIST_ITEMS_VIEW),
        file("watches", &WATCHES_VIEW),
        file("searches", &SEARCHES_VIEW),
    ],
};

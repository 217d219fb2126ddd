//! The YouTube mirror: the owner's subscriptions and playlists, and the likes with the time of each.

use serde_json::Value;
use store::export::{ExportKind, ServiceExports};
use store::records::{Column, View};

use super::archive::{SEARCHES, SEARCHES_VIEW, WATCHES, WATCHES_VIEW};
use super::{NAME, api, playlists, public};
use crate::ConnectorContext;
use crate::fetch::WaitPolicy;
use crate::personal::mirror::{
    Forgets, List, Page, Stamp, at, columns, derived, id_of, text_at, walk,
};
use crate::personal::{Problem, events};
use crate::sync::{Mirror, SyncResource};

const PUBLISHED: &str = "/snippet/publishedAt";
/// The playlist of likes, which has the time of each like.
const LIKES_LIST: &str = "LL";

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        SyncResource::list("subscriptions", |job| {
            let query = &[("part", "snippet,contentDetails"), ("mine", "true")];
            let page = |token| page(job.ctx, "subscriptions", query, token);
            Box::pin(walk(job, &SUBSCRIPTIONS, page))
        }),
        SyncResource::list("likes", |job| {
            let query = &[("part", "snippet,contentDetails"), ("playlistId", LIKES_LIST)];
            let page = |token| page(job.ctx, "playlistItems", query, token);
            Box::pin(walk(job, &LIKES, page))
        }),
        SyncResource::list("playlists", |job| {
            let query = &[("part", "snippet,contentDetails,status"), ("mine", "true")];
            let page = |token| page(job.ctx, "playlists", query, token);
            Box::pin(walk(job, &PLAYLISTS, page))
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

pub(crate) const LISTS: &[&List] =
    &[&SUBSCRIPTIONS, &LIKES, &PLAYLISTS, &PLAYLIST_ITEMS, &WATCHES, &SEARCHES];
/// Increase when the columns change.
pub(crate) const VERSION: u32 = 2;

pub(super) const SUBSCRIPTIONS: List = List {
    kind: "subscriptions",
    id: |item| text_at(item, "/snippet/resourceId/channelId"),
    at: PUBLISHED,
    stamp: Stamp::FromItem,
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
    stamp: Stamp::FromItem,
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
    stamp: Stamp::FirstSeen,
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
    stamp: Stamp::FirstSeen,
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
    ctx: &ConnectorContext,
    what: &str,
    query: &[(&str, &str)],
    token: Option<String>,
) -> Result<Page, Problem> {
    let mut query = query.to_vec();
    query.push(("maxResults", "50"));
    query.extend(token.as_deref().map(|token| ("pageToken", token)));
    let found = api::own_with(ctx, what, &query, WaitPolicy::SYNC).await?;
    let next = found.get("nextPageToken").and_then(Value::as_str).map(str::to_owned);
    let mut items = public::items(&found).to_vec();
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        // The etag changes without a visible change.
        item.shift_remove("etag");
    }
    Ok(Page { items, next, total: u64::try_from(public::total(&found)).ok() })
}

const SUBSCRIPTIONS_VIEW: View = View::of(
    "youtube_subscriptions",
    NAME,
    "subscriptions",
    &[
        Column::text("channel_id"),
        Column::text("channel_title"),
        Column::text("subscribed_at"),
        Column::text("description"),
    ],
);
const LIKES_VIEW: View = View::of(
    "youtube_likes",
    NAME,
    "likes",
    &[
        Column::text("video_id"),
        Column::text("title"),
        Column::text("channel"),
        Column::text("liked_at"),
    ],
);
const PLAYLISTS_VIEW: View = View::of(
    "youtube_playlists",
    NAME,
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
const PLAYLIST_ITEMS_VIEW: View = View::of(
    "youtube_playlist_items",
    NAME,
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

/// Everything that can be exported.
pub const EXPORTS: ServiceExports = ServiceExports {
    service: NAME,
    kinds: &[
        ExportKind::list("subscriptions", &SUBSCRIPTIONS_VIEW),
        ExportKind::list("likes", &LIKES_VIEW),
        ExportKind::list("playlists", &PLAYLISTS_VIEW),
        ExportKind::list("playlist_items", &PLAYLIST_ITEMS_VIEW),
        ExportKind::list("watches", &WATCHES_VIEW),
        ExportKind::list("searches", &SEARCHES_VIEW),
    ],
};

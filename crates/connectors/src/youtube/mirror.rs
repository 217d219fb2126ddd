//! What is kept of YouTube: the owner's subscriptions, and the likes with the moment of each.

use serde_json::{Map, Value, json};
use store::export::{Kind as File, Shelf};
use store::records::{Column, View};

use super::archive::{SEARCHES, SEARCHES_VIEW, WATCHES, WATCHES_VIEW};
use super::{NAME, api, public};
use crate::Desk;
use crate::fetch::Patience;
use crate::personal::mirror::{List, Page, at, walk};
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
    ],
    events: changed,
};

pub(crate) const LISTS: &[&List] = &[&SUBSCRIPTIONS, &LIKES, &WATCHES, &SEARCHES];
/// Grows when the columns do.
pub(crate) const VERSION: u32 = 1;

const SUBSCRIPTIONS: List = List {
    kind: "subscriptions",
    id: |item| item.pointer("/snippet/resourceId/channelId")?.as_str().map(str::to_owned),
    at: PUBLISHED,
    flat: |item| {
        object(json!({
            "channel_id": at(item, "/snippet/resourceId/channelId"),
            "channel_title": at(item, "/snippet/title"),
            "subscribed_at": at(item, PUBLISHED),
            "description": at(item, "/snippet/description"),
        }))
    },
    forgets: true,
};
const LIKES: List = List {
    kind: "likes",
    id: |item| item.pointer("/snippet/resourceId/videoId")?.as_str().map(str::to_owned),
    at: PUBLISHED,
    flat: |item| {
        object(json!({
            "video_id": at(item, "/snippet/resourceId/videoId"),
            "title": at(item, "/snippet/title"),
            "channel": at(item, "/snippet/videoOwnerChannelTitle"),
            "liked_at": at(item, PUBLISHED),
        }))
    },
    forgets: true,
};

pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

async fn page(
    desk: &Desk,
    what: &'static str,
    query: &[(&'static str, &'static str)],
    token: Option<String>,
) -> Result<Page, Problem> {
    let mut query = query.to_vec();
    query.push(("maxResults", "50"));
    query.extend(token.as_deref().map(|token| ("pageToken", token)));
    let found = api::own_with(desk, what, &query, Patience::SYNC).await?;
    let next = found.get("nextPageToken").and_then(Value::as_str).map(str::to_owned);
    Ok(Page { items: public::items(&found).to_vec(), next, total: public::total(&found).as_u64() })
}

fn changed(desk: &Desk, asked: &EventsAsked<'_>) -> Result<Value, Fault> {
    let kinds: Vec<&'static str> = LISTS.iter().map(|list| list.kind).collect();
    events(desk, NAME, &kinds, asked)
}

const SUBSCRIPTIONS_VIEW: View = View {
    name: "youtube_subscriptions",
    service: NAME,
    kind: "subscriptions",
    columns: &[
        Column::text("channel_id"),
        Column::text("channel_title"),
        Column::text("subscribed_at"),
        Column::text("description"),
    ],
    except_state: None,
};
const LIKES_VIEW: View = View {
    name: "youtube_likes",
    service: NAME,
    kind: "likes",
    columns: &[
        Column::text("video_id"),
        Column::text("title"),
        Column::text("channel"),
        Column::text("liked_at"),
    ],
    except_state: None,
};

/// Everything that can be taken out.
pub const SHELF: Shelf = Shelf {
    service: NAME,
    kinds: &[
        File {
            name: "subscriptions",
            file: "subscriptions",
            is_snapshot: false,
            view: &SUBSCRIPTIONS_VIEW,
        },
        File { name: "likes", file: "likes", is_snapshot: false, view: &LIKES_VIEW },
        File { name: "watches", file: "watches", is_snapshot: false, view: &WATCHES_VIEW },
        File { name: "searches", file: "searches", is_snapshot: false, view: &SEARCHES_VIEW },
    ],
};

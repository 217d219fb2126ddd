//! The owner's subscriptions, playlists and likes, page by page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::api;
use super::public::{PAGE_MAX, Video, channel_url, things, thumbnail, total, video};
use crate::arguments::{IgnoredSecret, Limit};
use crate::personal::{Problem, field};
use crate::tool::Json;
use crate::{ConnectorContext, ToolCall};

const LIKED_DEFAULT: usize = 20;

// Subscriptions and playlists have longer default pages than likes.
#[derive(Deserialize, JsonSchema)]
pub(super) struct YoutubePageArgs<const DEFAULT: usize> {
    /// How many to return.
    #[serde(default)]
    max_results: Limit<DEFAULT, PAGE_MAX>,
    /// next_page_token of an earlier answer.
    page_token: Option<String>,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Subscriptions {
    total_subscriptions: i64,
    subscriptions: Vec<Subscription>,
    next_page_token: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Subscription {
    channel_id: String,
    channel_title: Option<String>,
    description: Option<String>,
    subscribed_at: Option<String>,
    thumbnail: Option<String>,
    channel_url: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Playlists {
    total_playlists: i64,
    playlists: Vec<Playlist>,
    next_page_token: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Playlist {
    playlist_id: String,
    title: Option<String>,
    description: Option<String>,
    created_at: Option<String>,
    video_count: Option<i64>,
    thumbnail: Option<String>,
    url: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Liked {
    total_liked_videos: i64,
    liked_videos: Vec<Video>,
    next_page_token: Option<String>,
}

async fn page<const DEFAULT: usize>(
    ctx: &ConnectorContext,
    what: &str,
    query: &[(&str, &str)],
    args: &YoutubePageArgs<DEFAULT>,
) -> Result<Value, Problem> {
    let limit = args.max_results.get().to_string();
    let mut query = query.to_vec();
    query.push(("maxResults", limit.as_str()));
    query.extend(args.page_token.as_deref().map(|token| ("pageToken", token)));
    api::own(ctx, what, &query).await
}

pub(super) async fn subscriptions(
    call: ToolCall<'_>,
    args: YoutubePageArgs<PAGE_MAX>,
) -> Result<Json<Subscriptions>, Problem> {
    let query = [("part", "snippet,contentDetails"), ("mine", "true")];
    let found = page(call.ctx, "subscriptions", &query, &args).await?;
    Ok(Json(Subscriptions {
        total_subscriptions: total(&found),
        subscriptions: things(&found).into_iter().filter_map(subscription).collect(),
        next_page_token: field::word(&found, "/nextPageToken"),
    }))
}

fn subscription(item: &Value) -> Option<Subscription> {
    let id = field::word(item, "/snippet/resourceId/channelId")?;
    Some(Subscription {
        channel_url: channel_url(&id),
        channel_id: id,
        channel_title: field::word(item, "/snippet/title"),
        description: field::word(item, "/snippet/description"),
        subscribed_at: field::word(item, "/snippet/publishedAt"),
        thumbnail: thumbnail(item, "medium"),
    })
}

pub(super) async fn playlists(
    call: ToolCall<'_>,
    args: YoutubePageArgs<PAGE_MAX>,
) -> Result<Json<Playlists>, Problem> {
    let query = [("part", "snippet,contentDetails"), ("mine", "true")];
    let found = page(call.ctx, "playlists", &query, &args).await?;
    Ok(Json(Playlists {
        total_playlists: total(&found),
        playlists: things(&found).into_iter().filter_map(playlist).collect(),
        next_page_token: field::word(&found, "/nextPageToken"),
    }))
}

fn playlist(item: &Value) -> Option<Playlist> {
    let id = field::word(item, "/id")?;
    Some(Playlist {
        url: format!("https://www.youtube.com/playlist?list={id}"),
        playlist_id: id,
        title: field::word(item, "/snippet/title"),
        description: field::word(item, "/snippet/description"),
        created_at: field::word(item, "/snippet/publishedAt"),
        video_count: field::int(item, "/contentDetails/itemCount"),
        thumbnail: thumbnail(item, "medium"),
    })
}

pub(super) async fn liked(
    call: ToolCall<'_>,
    args: YoutubePageArgs<LIKED_DEFAULT>,
) -> Result<Json<Liked>, Problem> {
    let query = [("part", "snippet,statistics"), ("myRating", "like")];
    let found = page(call.ctx, "videos", &query, &args).await?;
    Ok(Json(Liked {
        total_liked_videos: total(&found),
        liked_videos: things(&found).into_iter().filter_map(video).collect(),
        next_page_token: field::word(&found, "/nextPageToken"),
    }))
}

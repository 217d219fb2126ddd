//! What is the owner's: subscriptions, playlists and likes, page by page.

use serde_json::{Value, json};

use super::public::{PAGE_MAX, at, channel_url, things, thumbnail, total, video};
use super::{NAME, api};
use crate::Ask;
use crate::personal::{Given, Outcome, Problem, field};

const LIKED_DEFAULT: usize = 20;

async fn page(
    ask: &Ask<'_>,
    what: &str,
    query: &[(&str, &str)],
    default: usize,
) -> Result<Value, Problem> {
    let given = Given::new(NAME, ask.arguments);
    let limit = given.limit_of("max_results", default, PAGE_MAX)?.to_string();
    let mut query = query.to_vec();
    query.push(("maxResults", limit.as_str()));
    query.extend(given.text("page_token")?.map(|token| ("pageToken", token)));
    api::own(ask.desk, what, &query).await
}

pub(super) async fn subscriptions(ask: Ask<'_>) -> Outcome {
    let query = [("part", "snippet,contentDetails"), ("mine", "true")];
    let found = page(&ask, "subscriptions", &query, PAGE_MAX).await?;
    let all: Vec<Value> = things(&found).into_iter().filter_map(subscription).collect();
    Ok(json!({
        "total_subscriptions": total(&found),
        "subscriptions": all,
        "next_page_token": at(&found, "/nextPageToken"),
    }))
}

fn subscription(item: &Value) -> Option<Value> {
    let id = field::word(item, "/snippet/resourceId/channelId")?;
    Some(json!({
        "channel_id": id,
        "channel_title": at(item, "/snippet/title"),
        "description": at(item, "/snippet/description"),
        "subscribed_at": at(item, "/snippet/publishedAt"),
        "thumbnail": thumbnail(item, "medium"),
        "channel_url": channel_url(&id),
    }))
}

pub(super) async fn playlists(ask: Ask<'_>) -> Outcome {
    let query = [("part", "snippet,contentDetails"), ("mine", "true")];
    let found = page(&ask, "playlists", &query, PAGE_MAX).await?;
    let all: Vec<Value> = things(&found).into_iter().filter_map(playlist).collect();
    Ok(json!({
        "total_playlists": total(&found),
        "playlists": all,
        "next_page_token": at(&found, "/nextPageToken"),
    }))
}

fn playlist(item: &Value) -> Option<Value> {
    let id = field::word(item, "/id")?;
    Some(json!({
        "playlist_id": id,
        "title": at(item, "/snippet/title"),
        "description": at(item, "/snippet/description"),
        "created_at": at(item, "/snippet/publishedAt"),
        "video_count": field::whole(item, "/contentDetails/itemCount"),
        "thumbnail": thumbnail(item, "medium"),
        "url": format!("https://www.youtube.com/playlist?list={id}"),
    }))
}

pub(super) async fn liked(ask: Ask<'_>) -> Outcome {
    let query = [("part", "snippet,statistics"), ("myRating", "like")];
    let found = page(&ask, "videos", &query, LIKED_DEFAULT).await?;
    let all: Vec<Value> = things(&found).into_iter().filter_map(video).collect();
    Ok(json!({
        "total_liked_videos": total(&found),
        "liked_videos": all,
        "next_page_token": at(&found, "/nextPageToken"),
    }))
}

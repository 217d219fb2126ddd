//! The endpoints of the Data API: search, videos, channels, subscriptions, playlists.

use serde_json::{Value, json};

use super::list::{YoutubeCall, list, nothing};
use super::{generate, refusal};
use crate::http::Response;
use crate::rng::Rng;

const IDS_MAX: usize = 50;
/// The most results of a search.
const SEARCH_MAX: usize = 500;
const CHART_MAX: usize = 200;

/// Videos that share a word with the query.
pub(super) fn search(call: &mut YoutubeCall<'_>) -> Response {
    let kind = call.request.value("type").unwrap_or("video");
    let text = call.request.value("q").unwrap_or_default().to_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    let order = call.request.value("order").unwrap_or("relevance");
    if !["relevance", "date", "rating", "title", "videoCount", "viewCount"].contains(&order) {
        return refusal(400, "invalidParameter", &format!("Invalid value '{order}'"));
    }
    let shelf = match kind {
        "video" => "video",
        "channel" => "channel",
        _ => return list(call, "search", &[]),
    };
    let hits = |thing: &Value| {
        let said = ["title", "channelTitle", "description"].map(|name| {
            thing.pointer(&format!("/snippet/{name}")).and_then(Value::as_str).unwrap_or_default()
        });
        let said = said.join(" ").to_lowercase();
        words.iter().filter(|word| said.contains(**word)).count()
    };
    let found = call.state.records.all(shelf).iter().map(|thing| (hits(thing), thing));
    let mut found: Vec<(usize, &Value)> =
        found.filter(|(hits, _)| *hits > 0 || words.is_empty()).collect();
    let text_of = |thing: &Value, pointer: &str| {
        thing.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match order {
        "date" => found
            .sort_by_key(|(_, thing)| std::cmp::Reverse(text_of(thing, "/snippet/publishedAt"))),
        "title" => found.sort_by_key(|(_, thing)| text_of(thing, "/snippet/title")),
        "viewCount" | "rating" => found.sort_by_key(|(_, thing)| {
            std::cmp::Reverse(text_of(thing, "/statistics/viewCount").parse::<u64>().unwrap_or(0))
        }),
        _ => found.sort_by_key(|(hits, _)| std::cmp::Reverse(*hits)),
    }
    let results: Vec<Value> = found
        .into_iter()
        .take(SEARCH_MAX)
        .map(|(_, thing)| generate::result(kind, thing))
        .collect();
    list(call, "search", &results)
}

pub(super) fn videos(call: &mut YoutubeCall<'_>) -> Response {
    let request = call.request;
    match (request.value("id"), request.value("chart"), request.value("myRating")) {
        (Some(ids), None, None) => by_ids(call, "video", ids),
        (None, Some("mostPopular"), None) => chart(call),
        (None, None, Some("like")) => match signed_in(call, "myRating") {
            Ok(()) => list(call, "video", &liked(call)),
            Err(refused) => refused,
        },
        (None, None, Some("dislike")) => list(call, "video", &[]),
        (None, None, None) => no_filter("chart, id, myRating"),
        _ => refusal(400, "invalidParameter", "Incompatible parameters specified in the request"),
    }
}

/// Newest like first.
fn liked(call: &YoutubeCall<'_>) -> Vec<Value> {
    let likes = call.state.records.all("like").iter().rev();
    likes.filter_map(|like| like.get("video").cloned()).collect()
}

fn chart(call: &YoutubeCall<'_>) -> Response {
    let region = call.request.value("regionCode").unwrap_or("US");
    if region.len() != 2 || !region.bytes().all(|byte| byte.is_ascii_uppercase()) {
        let words = "The <code>regionCode</code> parameter specifies an invalid region code.";
        return refusal(400, "invalidRegionCode", words);
    }
    let id = |video: &Value| video.get("id").map(Value::to_string).unwrap_or_default();
    let mut videos = call.state.records.all("video").to_vec();
    videos.sort_by_cached_key(|video| {
        Rng::stream(call.sim.seed, &format!("{region}{}", id(video)), 0).next()
    });
    videos.truncate(CHART_MAX);
    list(call, "video", &videos)
}

/// The owner's ratings of videos.
pub(super) fn rating(call: &mut YoutubeCall<'_>) -> Response {
    if let Err(refused) = signed_in(call, "id") {
        return refused;
    }
    let Some(ids) = call.request.value("id") else { return no_filter("id") };
    let rated = |id: &str| {
        let rating = if call.state.records.get("like", id).is_some() { "like" } else { "none" };
        json!({ "videoId": id, "rating": rating })
    };
    let items: Vec<Value> = ids.split(',').map(rated).collect();
    Response::json(
        200,
        &json!({ "kind": "youtube#videoGetRatingResponse", "etag": "sandbox", "items": items }),
    )
}

pub(super) fn channels(call: &mut YoutubeCall<'_>) -> Response {
    let request = call.request;
    if let Some(ids) = request.value("id") {
        return by_ids(call, "channel", ids);
    }
    if let Some(handle) = request.value("forHandle").or(request.value("forUsername")) {
        let handle = json!(format!("@{}", handle.trim_start_matches('@')));
        let all = call.state.records.all("channel").iter();
        let found: Vec<Value> =
            all.filter(|one| one.pointer("/snippet/customUrl") == Some(&handle)).cloned().collect();
        return if found.is_empty() {
            nothing(call, "channel")
        } else {
            list(call, "channel", &found)
        };
    }
    if request.value("mine") != Some("true") {
        return no_filter("forHandle, id, mine");
    }
    match signed_in(call, "mine") {
        Ok(()) => {
            let own: Vec<Value> =
                call.state.records.all("channel").iter().take(1).cloned().collect();
            list(call, "channel", &own)
        }
        Err(refused) => refused,
    }
}

fn by_ids(call: &YoutubeCall<'_>, kind: &str, ids: &str) -> Response {
    let ids: Vec<&str> = ids.split(',').collect();
    if ids.len() > IDS_MAX {
        return refusal(400, "invalidParameter", "The request specifies too many ids.");
    }
    let found: Vec<Value> =
        ids.iter().filter_map(|id| call.state.records.get(kind, id)).cloned().collect();
    // Unknown videos give an empty list; unknown channels give no list.
    if found.is_empty() && kind == "channel" {
        return nothing(call, kind);
    }
    list(call, kind, &found)
}

pub(super) fn subscriptions(call: &mut YoutubeCall<'_>) -> Response {
    let forbidden = || {
        let words = "The requester is not allowed to access the requested subscriptions.";
        refusal(403, "subscriptionForbidden", words)
    };
    match (call.request.value("mine"), call.request.value("channelId")) {
        (Some("true"), None) => match signed_in(call, "mine") {
            Ok(()) if call.state.settings.subscriptions_private => forbidden(),
            Ok(()) => list(call, "subscription", call.state.records.all("subscription")),
            Err(refused) => refused,
        },
        (None, Some(id)) if call.state.records.get("channel", id).is_some() => forbidden(),
        (None, Some(_)) => refusal(
            404,
            "subscriberNotFound",
            "The subscriber identified with the request cannot be found.",
        ),
        _ => no_filter("channelId, id, mine"),
    }
}

pub(super) fn playlists(call: &mut YoutubeCall<'_>) -> Response {
    let request = call.request;
    match (request.value("mine"), request.value("id"), request.value("channelId")) {
        (Some("true"), None, None) => match signed_in(call, "mine") {
            Ok(()) => list(call, "playlist", call.state.records.all("playlist")),
            Err(refused) => refused,
        },
        (None, Some(ids), None) => by_ids(call, "playlist", ids),
        (None, None, Some(_)) => list(call, "playlist", &[]),
        _ => no_filter("channelId, id, mine"),
    }
}

/// `LL` is the list of likes, with the time of each.
pub(super) fn playlist_items(call: &mut YoutubeCall<'_>) -> Response {
    let Some(id) = call.request.value("playlistId") else { return no_filter("id, playlistId") };
    if id == "LL" {
        if let Err(refused) = signed_in(call, "playlistId") {
            return refused;
        }
        let likes = call.state.records.all("like").iter().rev().enumerate();
        let items: Vec<Value> =
            likes.map(|(place, like)| generate::liked_item(place, like)).collect();
        return list(call, "playlistItem", &items);
    }
    if call.state.records.get("playlist", id).is_none() {
        let words = "The playlist identified with the request's <code>playlistId</code> parameter cannot be found.";
        return refusal(404, "playlistNotFound", words);
    }
    let of_list =
        |item: &&Value| item.pointer("/snippet/playlistId").and_then(Value::as_str) == Some(id);
    let items: Vec<Value> =
        call.state.records.all("playlist_item").iter().filter(of_list).cloned().collect();
    list(call, "playlistItem", &items)
}

fn signed_in(call: &YoutubeCall<'_>, parameter: &str) -> Result<(), Response> {
    if call.scopes.is_empty() {
        let words = format!(
            "The request uses the <code>{parameter}</code> parameter but is not properly authorized."
        );
        return Err(refusal(401, "authorizationRequired", &words));
    }
    Ok(())
}

fn no_filter(expected: &str) -> Response {
    let words = format!("No filter selected. Expected one of: {expected}");
    refusal(400, "missingRequiredParameter", &words)
}

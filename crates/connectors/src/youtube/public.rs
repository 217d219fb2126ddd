//! What anybody may see: searches, videos, channels and charts.

use serde_json::{Value, json};

use super::{NAME, SERVICE, api};
use crate::Ask;
use crate::personal::{self, Code, Given, Outcome, Problem, field, is_id, standing};

/// No page of YouTube's is longer.
pub(super) const PAGE_MAX: usize = 50;
const DEFAULT: usize = 10;
const DESCRIPTION_CHARS_MAX: usize = 200;
const NOT_KNOWN: &str = "N/A";

pub(super) async fn search(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let text = given.needed("query")?;
    let limit = given.limit_of("max_results", DEFAULT, PAGE_MAX)?.to_string();
    let mut query = vec![
        ("q", text),
        ("part", "snippet"),
        ("type", "video"),
        ("maxResults", limit.as_str()),
        ("order", "relevance"),
    ];
    query.extend(given.text("page_token")?.map(|token| ("pageToken", token)));
    let found = api::open(ask.desk, "search", &query).await?;
    let videos: Vec<Value> = things(&found).into_iter().filter_map(result).collect();
    Ok(json!({
        "query": text,
        "total_results": total(&found),
        "videos": videos,
        "next_page_token": field::text(&found, "/nextPageToken"),
    }))
}

/// A result that is no video is none.
fn result(item: &Value) -> Option<Value> {
    let id = field::word(item, "/id/videoId")?;
    Some(json!({
        "video_id": id,
        "title": plain(&text(item, "/snippet/title")),
        "channel": plain(&text(item, "/snippet/channelTitle")),
        "description": cut(&plain(&text(item, "/snippet/description"))),
        "published_at": at(item, "/snippet/publishedAt"),
        "thumbnail": thumbnail(item, "medium"),
        "url": watch(&id),
    }))
}

pub(super) async fn details(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let id = video_id(given.needed("video_id")?)
        .ok_or_else(|| given.wrong("video_id", "the id of a video or its address"))?;
    let query = [("id", id.as_str()), ("part", "snippet,statistics,contentDetails")];
    let found = api::open(ask.desk, "videos", &query).await?;
    let video = things(&found).into_iter().next().ok_or_else(|| missing("video"))?;
    Ok(json!({
        "video_id": id,
        "title": at(video, "/snippet/title"),
        "channel": at(video, "/snippet/channelTitle"),
        "description": at(video, "/snippet/description"),
        "published_at": at(video, "/snippet/publishedAt"),
        "duration": at(video, "/contentDetails/duration"),
        "view_count": count(video, "viewCount", NOT_KNOWN),
        "like_count": count(video, "likeCount", NOT_KNOWN),
        "comment_count": count(video, "commentCount", NOT_KNOWN),
        "thumbnail": thumbnail(video, "high"),
        "url": watch(&id),
        "tags": tags(video),
    }))
}

pub(super) async fn channel(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let said = given.needed("channel_id")?;
    let (by, id) = channel_id(said)
        .ok_or_else(|| given.wrong("channel_id", "the id of a channel, its handle or address"))?;
    let query = [(by, id.as_str()), ("part", "snippet,statistics,contentDetails")];
    let found = api::open(ask.desk, "channels", &query).await?;
    let channel = things(&found).into_iter().next().ok_or_else(|| missing("channel"))?;
    let id = field::word(channel, "/id").unwrap_or(id);
    Ok(json!({
        "channel_id": id,
        "title": at(channel, "/snippet/title"),
        "description": at(channel, "/snippet/description"),
        "published_at": at(channel, "/snippet/publishedAt"),
        "subscriber_count": count(channel, "subscriberCount", "Hidden"),
        "video_count": count(channel, "videoCount", NOT_KNOWN),
        "view_count": count(channel, "viewCount", NOT_KNOWN),
        "thumbnail": thumbnail(channel, "high"),
        "url": channel_url(&id),
        "country": at(channel, "/snippet/country"),
    }))
}

pub(super) async fn trending(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let region = given.text("region_code")?.unwrap_or("US").to_ascii_uppercase();
    if region.len() != 2 || !region.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(given.wrong("region_code", "two letters, such as US or DE"));
    }
    let limit = given.limit_of("max_results", DEFAULT, PAGE_MAX)?.to_string();
    let mut query = vec![
        ("part", "snippet,statistics"),
        ("chart", "mostPopular"),
        ("regionCode", region.as_str()),
        ("maxResults", limit.as_str()),
    ];
    query.extend(given.text("page_token")?.map(|token| ("pageToken", token)));
    let found = api::open(ask.desk, "videos", &query).await?;
    let videos: Vec<Value> = things(&found).into_iter().filter_map(video).collect();
    Ok(json!({
        "region": region,
        "trending_videos": videos,
        "next_page_token": field::text(&found, "/nextPageToken"),
    }))
}

/// A video in a list.
pub(super) fn video(item: &Value) -> Option<Value> {
    let id = field::word(item, "/id")?;
    Some(json!({
        "video_id": id,
        "title": at(item, "/snippet/title"),
        "channel": at(item, "/snippet/channelTitle"),
        "published_at": at(item, "/snippet/publishedAt"),
        "view_count": count(item, "viewCount", NOT_KNOWN),
        "like_count": count(item, "likeCount", NOT_KNOWN),
        "thumbnail": thumbnail(item, "medium"),
        "url": watch(&id),
    }))
}

fn tags(video: &Value) -> Vec<&str> {
    let tags = video.pointer("/snippet/tags").and_then(Value::as_array);
    tags.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Tries what there is for real: the login first, then the key.
pub(super) async fn test(ask: Ask<'_>) -> Result<String, Problem> {
    let key = personal::value(ask.desk, &SERVICE, "api_key").is_some();
    let login = api::own(ask.desk, "channels", &[("part", "id"), ("mine", "true")]).await;
    match login {
        Ok(_) => return Ok("YouTube works: the login was accepted.".to_owned()),
        Err(problem) if problem.code != Code::NotConfigured || !key => return Err(problem),
        Err(_) => {}
    }
    let query = [("part", "id"), ("chart", "mostPopular"), ("maxResults", "1")];
    api::open(ask.desk, "videos", &query).await?;
    Ok("YouTube works with the API key: public tools only. `tollgate connect youtube` adds your subscriptions, playlists and likes.".to_owned())
}

/// What is set up, without asking Google and without showing any of it.
pub(super) fn config(ask: &Ask<'_>) -> String {
    let key = personal::value(ask.desk, &SERVICE, "api_key");
    let status = standing(ask.desk, &SERVICE);
    let login = status.pointer("/token_info/state").and_then(Value::as_str).unwrap_or_default();
    let key = if key.is_some() { "set" } else { "not set" };
    format!(
        "API key: {key} (search, videos, channels, charts). Login: {login} (subscriptions, playlists, likes; public tools too). Google offers no watch history; `tollgate connect youtube` signs in."
    )
}

fn missing(what: &str) -> Problem {
    Problem::new(
        Code::NotFound,
        NAME,
        format!("there is no such {what}"),
        "check the id; it may be private or removed",
    )
}

/// A video's id, alone or in one of the addresses people copy.
fn video_id(said: &str) -> Option<String> {
    let id = match url::Url::parse(said) {
        Err(_) => said.to_owned(),
        Ok(url) => match url.host_str()?.trim_start_matches("www.").trim_start_matches("m.") {
            "youtu.be" => url.path().trim_matches('/').to_owned(),
            "youtube.com" => {
                let asked = url.query_pairs().find(|(name, _)| name == "v");
                let last = || url.path_segments()?.next_back().map(str::to_owned);
                asked.map(|(_, id)| id.into_owned()).or_else(last)?
            }
            _ => return None,
        },
    };
    is_id(&id).then_some(id)
}

/// The parameter that finds a channel, and its value.
fn channel_id(said: &str) -> Option<(&'static str, String)> {
    let said = said.split_once("youtube.com/").map_or(said, |(_, path)| path);
    let said = said.trim_start_matches("channel/").split(['/', '?']).next()?;
    if let Some(handle) = said.strip_prefix('@') {
        let is_good = (1..=60).contains(&handle.chars().count())
            && !handle.chars().any(|c| c.is_control() || c.is_whitespace());
        return is_good.then(|| ("forHandle", said.to_owned()));
    }
    is_id(said).then(|| ("id", said.to_owned()))
}

pub(super) fn items(found: &Value) -> &[Value] {
    found.get("items").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Those that are something; what is gone may be null.
pub(super) fn things(found: &Value) -> Vec<&Value> {
    field::objects(found, "/items")
}

pub(super) fn total(found: &Value) -> Value {
    let told = field::int(found, "/pageInfo/totalResults");
    told.map_or_else(|| json!(items(found).len()), |total| json!(total))
}

pub(super) fn at(item: &Value, pointer: &str) -> Value {
    field::text(item, pointer)
}

pub(super) fn text(item: &Value, pointer: &str) -> String {
    field::word(item, pointer).unwrap_or_default()
}

/// The picture of the size wanted, another one, or none: some items have no pictures at all.
pub(super) fn thumbnail(item: &Value, size: &str) -> Value {
    let sizes = [size, "high", "medium", "default"];
    let url = |size: &str| field::word(item, &format!("/snippet/thumbnails/{size}/url"));
    json!(sizes.into_iter().find_map(url))
}

fn count(item: &Value, name: &str, otherwise: &str) -> Value {
    let found = field::word(item, &format!("/statistics/{name}"));
    json!(found.unwrap_or_else(|| otherwise.to_owned()))
}

fn watch(id: &str) -> String {
    format!("https://www.youtube.com/watch?v={id}")
}

pub(super) fn channel_url(id: &str) -> String {
    format!("https://www.youtube.com/channel/{id}")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Search writes its texts for web pages.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    // The ampersand comes last, so that nothing is undone twice.
    for (written, meant) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        text = text.replace(written, meant);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn videos_and_channels_are_found_as_people_name_them() {
        for (said, id) in [
            ("dQw4w9WgXcQ", Some("dQw4w9WgXcQ")),
            ("https://www.youtube.com/watch?v=dQw4w9WgXcQ&t=1", Some("dQw4w9WgXcQ")),
            ("https://youtu.be/dQw4w9WgXcQ", Some("dQw4w9WgXcQ")),
            ("https://www.youtube.com/shorts/dQw4w9WgXcQ", Some("dQw4w9WgXcQ")),
            ("https://evil.example/watch?v=dQw4w9WgXcQ", None),
            ("a,b", None),
            ("../x", None),
        ] {
            assert_eq!(video_id(said).as_deref(), id, "{said}");
        }
        for (said, expected) in [
            ("UCabc", Some(("id", "UCabc"))),
            ("@Some.One", Some(("forHandle", "@Some.One"))),
            ("https://www.youtube.com/@one/videos", Some(("forHandle", "@one"))),
            ("https://www.youtube.com/channel/UCabc", Some(("id", "UCabc"))),
            ("a b", None),
        ] {
            let found = channel_id(said);
            assert_eq!(found.as_ref().map(|(by, id)| (*by, id.as_str())), expected, "{said}");
        }
    }

    #[test]
    fn texts_of_web_pages_become_plain_and_long_ones_are_cut_between_letters() {
        assert_eq!(plain("A &amp; B: &quot;x&quot; &amp;lt;"), "A & B: \"x\" &lt;");
        assert_eq!(cut(&"ü".repeat(201)), format!("{}...", "ü".repeat(200)));
        assert_eq!(cut("short"), "short");
    }
}

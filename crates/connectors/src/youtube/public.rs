//! Public data: searches, videos, channels and charts.

use std::future::{Ready, ready};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{NAME, SERVICE, api};
use crate::ToolCall;
use crate::arguments::{BadArgument, Limit, NoArgs};
use crate::personal::{self, Code, Problem, field, is_id, login_status};
use crate::tool::{Json, NoData, Text};

/// YouTube's page limit.
pub(super) const PAGE_MAX: usize = 50;
const DEFAULT: usize = 10;
const DESCRIPTION_CHARS_MAX: usize = 200;
const NOT_KNOWN: &str = "N/A";

#[derive(Deserialize, JsonSchema)]
pub(super) struct SearchArgs {
    /// What to look for.
    query: String,
    /// How many to return.
    #[serde(default)]
    max_results: Limit<DEFAULT, PAGE_MAX>,
    /// next_page_token of an earlier answer.
    page_token: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct VideoArgs {
    /// The video's id or address.
    video_id: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ChannelArgs {
    /// The channel's id, @handle or address.
    channel_id: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RegionArgs {
    /// Two letters, such as DE.
    #[schemars(extend("default" = "US"))]
    region_code: Option<String>,
    /// How many to return.
    #[serde(default)]
    max_results: Limit<DEFAULT, PAGE_MAX>,
    /// next_page_token of an earlier answer.
    page_token: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SearchResults {
    query: String,
    total_results: i64,
    videos: Vec<SearchResult>,
    next_page_token: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct SearchResult {
    video_id: String,
    title: String,
    channel: String,
    description: String,
    published_at: Option<String>,
    thumbnail: Option<String>,
    url: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct VideoDetails {
    video_id: String,
    title: Option<String>,
    channel: Option<String>,
    description: Option<String>,
    published_at: Option<String>,
    /// ISO 8601.
    duration: Option<String>,
    view_count: String,
    like_count: String,
    comment_count: String,
    thumbnail: Option<String>,
    url: String,
    tags: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Channel {
    channel_id: String,
    title: Option<String>,
    description: Option<String>,
    published_at: Option<String>,
    subscriber_count: String,
    video_count: String,
    view_count: String,
    thumbnail: Option<String>,
    url: String,
    country: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Trending {
    region: String,
    trending_videos: Vec<Video>,
    next_page_token: Option<String>,
}

// A video in a list.
#[derive(Serialize, JsonSchema)]
pub(super) struct Video {
    video_id: String,
    title: Option<String>,
    channel: Option<String>,
    published_at: Option<String>,
    view_count: String,
    like_count: String,
    thumbnail: Option<String>,
    url: String,
}

pub(super) async fn search(
    call: ToolCall<'_>,
    args: SearchArgs,
) -> Result<Json<SearchResults>, Problem> {
    let limit = args.max_results.get().to_string();
    let mut query = vec![
        ("q", args.query.as_str()),
        ("part", "snippet"),
        ("type", "video"),
        ("maxResults", limit.as_str()),
        ("order", "relevance"),
    ];
    query.extend(args.page_token.as_deref().map(|token| ("pageToken", token)));
    let found = api::open(call.ctx, "search", &query).await?;
    Ok(Json(SearchResults {
        query: args.query,
        total_results: total(&found),
        videos: things(&found).into_iter().filter_map(result).collect(),
        next_page_token: field::word(&found, "/nextPageToken"),
    }))
}

/// `None` for a result that is not a video.
fn result(item: &Value) -> Option<SearchResult> {
    let id = field::word(item, "/id/videoId")?;
    Some(SearchResult {
        url: watch(&id),
        video_id: id,
        title: plain(&text(item, "/snippet/title")),
        channel: plain(&text(item, "/snippet/channelTitle")),
        description: cut(&plain(&text(item, "/snippet/description"))),
        published_at: field::word(item, "/snippet/publishedAt"),
        thumbnail: thumbnail(item, "medium"),
    })
}

pub(super) async fn details(
    call: ToolCall<'_>,
    args: VideoArgs,
) -> Result<Json<VideoDetails>, Problem> {
    let wrong = || BadArgument::new("video_id", "the id of a video or its address").problem(NAME);
    let id = video_id(&args.video_id).ok_or_else(wrong)?;
    let query = [("id", id.as_str()), ("part", "snippet,statistics,contentDetails")];
    let found = api::open(call.ctx, "videos", &query).await?;
    let video = things(&found).into_iter().next().ok_or_else(|| missing("video"))?;
    Ok(Json(VideoDetails {
        url: watch(&id),
        video_id: id,
        title: field::word(video, "/snippet/title"),
        channel: field::word(video, "/snippet/channelTitle"),
        description: field::word(video, "/snippet/description"),
        published_at: field::word(video, "/snippet/publishedAt"),
        duration: field::word(video, "/contentDetails/duration"),
        view_count: count(video, "viewCount", NOT_KNOWN),
        like_count: count(video, "likeCount", NOT_KNOWN),
        comment_count: count(video, "commentCount", NOT_KNOWN),
        thumbnail: thumbnail(video, "high"),
        tags: tags(video),
    }))
}

pub(super) async fn channel(
    call: ToolCall<'_>,
    args: ChannelArgs,
) -> Result<Json<Channel>, Problem> {
    let expected = "the id of a channel, its handle or address";
    let wrong = || BadArgument::new("channel_id", expected).problem(NAME);
    let (by, id) = channel_id(&args.channel_id).ok_or_else(wrong)?;
    let query = [(by, id.as_str()), ("part", "snippet,statistics,contentDetails")];
    let found = api::open(call.ctx, "channels", &query).await?;
    let channel = things(&found).into_iter().next().ok_or_else(|| missing("channel"))?;
    let id = field::word(channel, "/id").unwrap_or(id);
    Ok(Json(Channel {
        url: channel_url(&id),
        channel_id: id,
        title: field::word(channel, "/snippet/title"),
        description: field::word(channel, "/snippet/description"),
        published_at: field::word(channel, "/snippet/publishedAt"),
        subscriber_count: count(channel, "subscriberCount", "Hidden"),
        video_count: count(channel, "videoCount", NOT_KNOWN),
        view_count: count(channel, "viewCount", NOT_KNOWN),
        thumbnail: thumbnail(channel, "high"),
        country: field::word(channel, "/snippet/country"),
    }))
}

pub(super) async fn trending(
    call: ToolCall<'_>,
    args: RegionArgs,
) -> Result<Json<Trending>, Problem> {
    let region = args.region_code.as_deref().unwrap_or("US").to_ascii_uppercase();
    if region.len() != 2 || !region.bytes().all(|byte| byte.is_ascii_uppercase()) {
        let expected = "two letters, such as US or DE";
        return Err(BadArgument::new("region_code", expected).problem(NAME));
    }
    let limit = args.max_results.get().to_string();
    let mut query = vec![
        ("part", "snippet,statistics"),
        ("chart", "mostPopular"),
        ("regionCode", region.as_str()),
        ("maxResults", limit.as_str()),
    ];
    query.extend(args.page_token.as_deref().map(|token| ("pageToken", token)));
    let found = api::open(call.ctx, "videos", &query).await?;
    Ok(Json(Trending {
        trending_videos: things(&found).into_iter().filter_map(video).collect(),
        next_page_token: field::word(&found, "/nextPageToken"),
        region,
    }))
}

pub(super) fn video(item: &Value) -> Option<Video> {
    let id = field::word(item, "/id")?;
    Some(Video {
        url: watch(&id),
        video_id: id,
        title: field::word(item, "/snippet/title"),
        channel: field::word(item, "/snippet/channelTitle"),
        published_at: field::word(item, "/snippet/publishedAt"),
        view_count: count(item, "viewCount", NOT_KNOWN),
        like_count: count(item, "likeCount", NOT_KNOWN),
        thumbnail: thumbnail(item, "medium"),
    })
}

fn tags(video: &Value) -> Vec<String> {
    let tags = video.pointer("/snippet/tags").and_then(Value::as_array);
    tags.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Checks the login, else the key, with a request.
pub(super) async fn test(call: ToolCall<'_>, _: NoArgs) -> Result<Text<NoData>, Problem> {
    let key = personal::value(call.ctx, &SERVICE, "api_key").is_some();
    let login = api::own(call.ctx, "channels", &[("part", "id"), ("mine", "true")]).await;
    match login {
        Ok(_) => return Ok("YouTube works: the login was accepted.".to_owned().into()),
        Err(problem) if problem.code != Code::NotConfigured || !key => return Err(problem),
        Err(_) => {}
    }
    let query = [("part", "id"), ("chart", "mostPopular"), ("maxResults", "1")];
    api::open(call.ctx, "videos", &query).await?;
    Ok("YouTube works with the API key: public tools only. `tollgate connect youtube` adds your subscriptions, playlists and likes.".to_owned().into())
}

/// Which settings exist, without a request and without their values.
pub(super) fn config(call: ToolCall<'_>, _: NoArgs) -> Ready<Result<Text<NoData>, Problem>> {
    let key = personal::value(call.ctx, &SERVICE, "api_key");
    let login = login_status(call.ctx, &SERVICE).token_info.state.as_str();
    let key = if key.is_some() { "set" } else { "not set" };
    let text = format!(
        "API key: {key} (search, videos, channels, charts). Login: {login} (subscriptions, playlists, likes; public tools too). Google offers no watch history; `tollgate connect youtube` signs in."
    );
    ready(Ok(text.into()))
}

fn missing(what: &str) -> Problem {
    Problem::new(
        Code::NotFound,
        NAME,
        format!("there is no such {what}"),
        "check the id; it may be private or removed",
    )
}

/// A video's id, alone or from one of the usual URLs.
fn video_id(given: &str) -> Option<String> {
    let id = match url::Url::parse(given) {
        Err(_) => given.to_owned(),
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

/// The request parameter that selects a channel, and its value.
fn channel_id(given: &str) -> Option<(&'static str, String)> {
    let given = given.split_once("youtube.com/").map_or(given, |(_, path)| path);
    let given = given.trim_start_matches("channel/").split(['/', '?']).next()?;
    if let Some(handle) = given.strip_prefix('@') {
        let is_good = (1..=60).contains(&handle.chars().count())
            && !handle.chars().any(|c| c.is_control() || c.is_whitespace());
        return is_good.then(|| ("forHandle", given.to_owned()));
    }
    is_id(given).then(|| ("id", given.to_owned()))
}

pub(super) fn items(found: &Value) -> &[Value] {
    found.get("items").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The non-null items; removed ones may be null.
pub(super) fn things(found: &Value) -> Vec<&Value> {
    field::objects(found, "/items")
}

pub(super) fn total(found: &Value) -> i64 {
    let listed = || i64::try_from(items(found).len()).unwrap_or(i64::MAX);
    field::int(found, "/pageInfo/totalResults").unwrap_or_else(listed)
}

pub(super) fn text(item: &Value, pointer: &str) -> String {
    field::word(item, pointer).unwrap_or_default()
}

/// The picture of the given size, else another one; some items have none.
pub(super) fn thumbnail(item: &Value, size: &str) -> Option<String> {
    let sizes = [size, "high", "medium", "default"];
    let url = |size: &str| field::word(item, &format!("/snippet/thumbnails/{size}/url"));
    sizes.into_iter().find_map(url)
}

fn count(item: &Value, name: &str, otherwise: &str) -> String {
    let found = field::word(item, &format!("/statistics/{name}"));
    found.unwrap_or_else(|| otherwise.to_owned())
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

/// Search escapes its texts for HTML.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    // The ampersand comes last, so that nothing is unescaped twice.
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
    fn videos_and_channels_are_found_by_id_handle_and_url() {
        for (given, id) in [
            ("dQw4w9WgXcQ", Some("dQw4w9WgXcQ")),
            ("https://www.youtube.com/watch?v=dQw4w9WgXcQ&t=1", Some("dQw4w9WgXcQ")),
            ("https://youtu.be/dQw4w9WgXcQ", Some("dQw4w9WgXcQ")),
            ("https://www.youtube.com/shorts/dQw4w9WgXcQ", Some("dQw4w9WgXcQ")),
            ("https://evil.example/watch?v=dQw4w9WgXcQ", None),
            ("a,b", None),
            ("../x", None),
        ] {
            assert_eq!(video_id(given).as_deref(), id, "{given}");
        }
        for (given, expected) in [
            ("UCabc", Some(("id", "UCabc"))),
            ("@Some.One", Some(("forHandle", "@Some.One"))),
            ("https://www.youtube.com/@one/videos", Some(("forHandle", "@one"))),
            ("https://www.youtube.com/channel/UCabc", Some(("id", "UCabc"))),
            ("a b", None),
        ] {
            let found = channel_id(given);
            assert_eq!(found.as_ref().map(|(by, id)| (*by, id.as_str())), expected, "{given}");
        }
    }

    #[test]
    fn texts_are_unescaped_and_cut_at_character_boundaries() {
        assert_eq!(plain("A &amp; B: &quot;x&quot; &amp;lt;"), "A & B: \"x\" &lt;");
        assert_eq!(cut(&"ü".repeat(201)), format!("{}...", "ü".repeat(200)));
        assert_eq!(cut("short"), "short");
    }
}

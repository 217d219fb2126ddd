//! Videos: details, favourites and the watch-later list.

use std::future::{Ready, ready};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::people::{BilibiliUserPageArgs, PAGES_MAX, picture_at, whose};
use super::{NAME, api, moment, plain};
use crate::ToolCall;
use crate::arguments::{BadArgument, Limit, NoArgs};
use crate::personal::{Problem, field, is_id};
use crate::tool::Json;

#[derive(Deserialize, JsonSchema)]
pub(super) struct BilibiliVideoArgs {
    /// The id of the video, or its address.
    bvid: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct BilibiliSearchArgs {
    /// What to search for.
    #[serde(rename = "keyword")]
    _keyword: String,
    /// Which page, from 1.
    #[serde(default, rename = "page")]
    _page: Limit<1, PAGES_MAX>,
    #[serde(rename = "order")]
    #[schemars(extend(
        "enum" = ["totalrank", "click", "pubdate", "dm", "stow", "", null],
        "default" = "totalrank"
    ))]
    _order: Option<Order>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    TotalRank,
    Click,
    PubDate,
    Dm,
    Stow,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct UserVideosArgs {
    /// The number of the user.
    #[serde(rename = "uid")]
    #[schemars(range(min = 1))]
    _uid: i64,
    /// Which page, from 1.
    #[serde(default, rename = "page")]
    _page: Limit<1, PAGES_MAX>,
}

// Never returned: Bilibili gives these lists to signed requests only.
#[derive(Serialize, JsonSchema)]
pub(super) struct NoVideos {}

#[derive(Serialize, JsonSchema)]
pub(super) struct BilibiliVideo {
    bvid: String,
    aid: Option<i64>,
    title: Option<String>,
    description: Option<String>,
    duration: Option<i64>,
    owner: Owner,
    stats: VideoStats,
    pubdate: Option<i64>,
    published_at: Option<String>,
    pic: Option<String>,
    url: String,
}

#[derive(Serialize, JsonSchema)]
struct Owner {
    mid: Option<i64>,
    name: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct VideoStats {
    view: Option<i64>,
    danmaku: Option<i64>,
    reply: Option<i64>,
    favorite: Option<i64>,
    coin: Option<i64>,
    share: Option<i64>,
    like: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct OwnerWithFace {
    pub(super) mid: Option<i64>,
    pub(super) name: Option<String>,
    pub(super) face: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Folders {
    uid: i64,
    page: usize,
    next_page: Option<usize>,
    total_count: usize,
    favorite_folders: Vec<Folder>,
}

#[derive(Serialize, JsonSchema)]
struct Folder {
    id: Option<i64>,
    fid: Option<i64>,
    title: Option<String>,
    description: Option<String>,
    cover: Option<String>,
    media_count: Option<i64>,
    view_count: Option<i64>,
    like_count: Option<i64>,
    fav_state: Option<i64>,
    ctime: Option<i64>,
    mtime: Option<i64>,
    state: Option<i64>,
    r#type: Option<i64>,
    is_private: Option<bool>,
    upper: OwnerWithFace,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ToView {
    total_count: usize,
    toview_videos: Vec<ToViewVideo>,
}

#[derive(Serialize, JsonSchema)]
struct ToViewVideo {
    bvid: Option<String>,
    aid: Option<i64>,
    title: Option<String>,
    description: Option<String>,
    duration: Option<i64>,
    owner: Owner,
    stat: VideoStats,
    pubdate: Option<i64>,
    add_at: Option<i64>,
    added_at: Option<String>,
    progress: Option<i64>,
    pic: Option<String>,
    url: Option<String>,
}

pub(super) async fn video(
    call: ToolCall<'_>,
    args: BilibiliVideoArgs,
) -> Result<Json<BilibiliVideo>, Problem> {
    let given = args.bvid.as_str();
    let address = given.split(['?', '#']).next().unwrap_or(given).trim_end_matches('/');
    let bvid = address.rsplit('/').next().unwrap_or(address);
    if !is_id(bvid) || !bvid.starts_with("BV") {
        let expected = "the id of a video, such as BV1xx411c7mD, or its address";
        return Err(BadArgument::new("bvid", expected).problem(NAME));
    }
    let found = api::get(call.ctx, &["x", "web-interface", "view"], &[("bvid", bvid)]).await?;
    if found.get("title").is_none() {
        return Err(api::unreadable());
    }
    Ok(Json(BilibiliVideo {
        bvid: field::word(&found, "/bvid").unwrap_or_else(|| bvid.to_owned()),
        aid: field::int(&found, "/aid"),
        title: title_of(&found),
        description: field::word(&found, "/desc"),
        duration: field::int(&found, "/duration"),
        owner: owner(&found),
        stats: stats(&found),
        pubdate: field::int(&found, "/pubdate"),
        published_at: field::int(&found, "/pubdate").and_then(moment),
        pic: picture_at(&found, "/pic"),
        url: watch(bvid),
    }))
}

pub(super) fn watch(bvid: &str) -> String {
    format!("https://www.bilibili.com/video/{bvid}")
}

pub(super) fn title_of(video: &Value) -> Option<String> {
    field::word(video, "/title").map(|title| plain(&title))
}

fn owner(video: &Value) -> Owner {
    Owner { mid: field::int(video, "/owner/mid"), name: field::word(video, "/owner/name") }
}

fn stats(video: &Value) -> VideoStats {
    VideoStats {
        view: field::int(video, "/stat/view"),
        danmaku: field::int(video, "/stat/danmaku"),
        reply: field::int(video, "/stat/reply"),
        favorite: field::int(video, "/stat/favorite"),
        coin: field::int(video, "/stat/coin"),
        share: field::int(video, "/stat/share"),
        like: field::int(video, "/stat/like"),
    }
}

/// Favourite folders; for other users only the public ones.
pub(super) async fn favourites(
    call: ToolCall<'_>,
    args: BilibiliUserPageArgs,
) -> Result<Json<Folders>, Problem> {
    const FOLDERS: usize = 50;
    let page = args.page.get();
    let uid = whose(call.ctx, args.uid).await?;
    let text = uid.to_string();
    let path = ["x", "v3", "fav", "folder", "created", "list-all"];
    let found = api::get(call.ctx, &path, &[("up_mid", &text), ("type", "2")]).await?;
    let all = field::objects(&found, "/list");
    let shown = all.iter().copied().skip((page - 1).saturating_mul(FOLDERS)).take(FOLDERS);
    let is_more = page.saturating_mul(FOLDERS) < all.len();
    Ok(Json(Folders {
        uid,
        page,
        next_page: is_more.then_some(page + 1),
        total_count: all.len(),
        favorite_folders: shown.map(folder).collect(),
    }))
}

fn folder(folder: &Value) -> Folder {
    let int = |pointer: &str| field::int(folder, pointer);
    Folder {
        id: int("/id"),
        fid: int("/fid"),
        title: field::word(folder, "/title"),
        description: field::word(folder, "/intro"),
        cover: picture_at(folder, "/cover"),
        media_count: int("/media_count"),
        view_count: int("/cnt_info/play"),
        like_count: int("/cnt_info/thumb_up"),
        fav_state: int("/fav_state"),
        ctime: int("/ctime"),
        mtime: int("/mtime"),
        state: int("/state"),
        r#type: int("/type"),
        is_private: int("/attr").map(|attr| attr % 2 == 1),
        upper: OwnerWithFace {
            mid: int("/mid"),
            name: field::word(folder, "/upper/name"),
            face: picture_at(folder, "/upper/face"),
        },
    }
}

pub(super) async fn to_view(call: ToolCall<'_>, _: NoArgs) -> Result<Json<ToView>, Problem> {
    api::signed_in(call.ctx)?;
    let found = api::get(call.ctx, &["x", "v2", "history", "toview"], &[]).await?;
    let list: Vec<ToViewVideo> =
        field::objects(&found, "/list").into_iter().map(to_view_video).collect();
    Ok(Json(ToView { total_count: list.len(), toview_videos: list }))
}

fn to_view_video(video: &Value) -> ToViewVideo {
    let int = |pointer: &str| field::int(video, pointer);
    let bvid = field::word(video, "/bvid");
    ToViewVideo {
        url: bvid.as_deref().map(watch),
        bvid,
        aid: int("/aid"),
        title: title_of(video),
        description: field::word(video, "/desc"),
        duration: int("/duration"),
        owner: owner(video),
        stat: stats(video),
        pubdate: int("/pubdate"),
        add_at: int("/add_at"),
        added_at: int("/add_at").and_then(moment),
        progress: int("/progress"),
        pic: picture_at(video, "/pic"),
    }
}

const SIGNED_HINT: &str = "get_bilibili_video_info takes an id, get_bilibili_watch_history, get_bilibili_favorites and get_bilibili_toview_list show the owner's videos";

pub(super) fn search(
    _: ToolCall<'_>,
    _: BilibiliSearchArgs,
) -> Ready<Result<Json<NoVideos>, Problem>> {
    ready(Err(api::unsupported("searches", SIGNED_HINT)))
}

pub(super) fn of_user(
    _: ToolCall<'_>,
    _: UserVideosArgs,
) -> Ready<Result<Json<NoVideos>, Problem>> {
    ready(Err(api::unsupported("for the videos of a user", SIGNED_HINT)))
}

//! Videos: one of them, what was watched, what was kept and what was put aside.

use serde_json::{Value, json};

use super::people::{page, whose};
use super::{NAME, api, moment, picture, plain};
use crate::Ask;
use crate::personal::{Given, Outcome, Problem, field, is_id};

const HISTORY_PAGE: usize = 20;
/// Pages of the history are walked to, because Bilibili knows only a cursor.
const HISTORY_PAGES_MAX: usize = 50;

pub(super) async fn video(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let said = given.needed("bvid")?;
    let address = said.split(['?', '#']).next().unwrap_or(said).trim_end_matches('/');
    let bvid = address.rsplit('/').next().unwrap_or(address);
    if !is_id(bvid) || !bvid.starts_with("BV") {
        return Err(given.wrong("bvid", "the id of a video, such as BV1xx411c7mD, or its address"));
    }
    let found = api::get(ask.desk, &["x", "web-interface", "view"], &[("bvid", bvid)]).await?;
    if found.get("title").is_none() {
        return Err(api::unreadable());
    }
    let (text, whole) = (|at: &str| field::text(&found, at), |at: &str| field::whole(&found, at));
    Ok(json!({
        "bvid": field::word(&found, "/bvid").unwrap_or_else(|| bvid.to_owned()),
        "aid": whole("/aid"),
        "title": plain(&text("/title")),
        "description": text("/desc"),
        "duration": whole("/duration"),
        "owner": { "mid": whole("/owner/mid"), "name": text("/owner/name") },
        "stats": stats(&found),
        "pubdate": whole("/pubdate"),
        "published_at": moment(&whole("/pubdate")),
        "pic": picture(&text("/pic")),
        "url": format!("https://www.bilibili.com/video/{bvid}"),
    }))
}

fn stats(video: &Value) -> Value {
    let at = |name: &str| field::whole(video, &format!("/stat/{name}"));
    json!({
        "view": at("view"),
        "danmaku": at("danmaku"),
        "reply": at("reply"),
        "favorite": at("favorite"),
        "coin": at("coin"),
        "share": at("share"),
        "like": at("like"),
    })
}

/// Where the page before ended.
struct Cursor {
    max: String,
    view_at: String,
    business: String,
}

pub(super) async fn history(ask: Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let page = given.limit_of("page", 1, HISTORY_PAGES_MAX)?;
    api::signed_in(ask.desk)?;
    let (mut cursor, mut reached) = (None, 0);
    let mut list = Vec::new();
    for _ in 0..page {
        let found = entries(&ask, cursor.as_ref()).await?;
        list = field::objects(&found, "/list").into_iter().cloned().collect::<Vec<_>>();
        // Bilibili may send fewer than were asked for; what is over is empty.
        cursor = cursor_of(&found).filter(|_| !list.is_empty());
        reached += 1;
        if cursor.is_none() {
            break;
        }
    }
    // Pages behind the last one are empty, whatever the last one holds.
    if reached < page {
        list.clear();
    }
    let is_there = !list.is_empty();
    let entries: Vec<Value> = list.iter().map(entry).collect();
    Ok(json!({
        "page": page,
        "total_count": entries.len(),
        "next_page": (cursor.is_some() && is_there && page < HISTORY_PAGES_MAX).then_some(page + 1),
        "watch_history": entries,
    }))
}

async fn entries(ask: &Ask<'_>, cursor: Option<&Cursor>) -> Result<Value, Problem> {
    let size = HISTORY_PAGE.to_string();
    let mut query = vec![("ps", size.as_str())];
    if let Some(cursor) = cursor {
        query.push(("max", &cursor.max));
        query.push(("view_at", &cursor.view_at));
        query.push(("business", &cursor.business));
    }
    api::get(ask.desk, &["x", "web-interface", "history", "cursor"], &query).await
}

fn cursor_of(found: &Value) -> Option<Cursor> {
    let cursor = found.get("cursor")?;
    let view_at = field::int(cursor, "/view_at").filter(|at| *at > 0)?;
    Some(Cursor {
        max: field::int(cursor, "/max").unwrap_or(0).to_string(),
        view_at: view_at.to_string(),
        business: field::word(cursor, "/business").unwrap_or_default(),
    })
}

fn entry(entry: &Value) -> Value {
    let at = |pointer: &str| entry.pointer(pointer).cloned().unwrap_or_default();
    let business = at("/history/business");
    let kind = match business.as_str() {
        Some("archive") => "video",
        Some("pgc") => "series",
        Some("live") => "live",
        Some("article" | "article-list") => "article",
        _ => "other",
    };
    let bvid = at("/history/bvid").as_str().filter(|id| is_id(id)).map(str::to_owned);
    let url = match &bvid {
        Some(bvid) if kind == "video" => json!(format!("https://www.bilibili.com/video/{bvid}")),
        _ => at("/uri"),
    };
    let progress = at("/progress");
    json!({
        "type": kind,
        "title": plain(&at("/title")),
        "cover": picture(&at("/cover")),
        "uri": at("/uri"),
        "history": {
            "oid": at("/history/oid"),
            "bvid": at("/history/bvid"),
            "page": at("/history/page"),
            "cid": at("/history/cid"),
            "part": at("/history/part"),
            "business": business,
            "dt": at("/history/dt"),
        },
        // Minus one means seen to the end.
        "is_finished": progress == json!(-1),
        "progress": progress,
        "duration": at("/duration"),
        "viewed_at": moment(&at("/view_at")),
        "owner": { "mid": at("/author_mid"), "name": at("/author_name"), "face": picture(&at("/author_face")) },
        "live_status": if kind == "live" { at("/live_status") } else { Value::Null },
        "url": url,
    })
}

/// The folders; of others only the public ones.
pub(super) async fn favourites(ask: Ask<'_>) -> Outcome {
    const FOLDERS: usize = 50;
    let given = Given::new(NAME, ask.arguments);
    let page = page(&given)?;
    let uid = whose(&ask, &given).await?;
    let text = uid.to_string();
    let path = ["x", "v3", "fav", "folder", "created", "list-all"];
    let found = api::get(ask.desk, &path, &[("up_mid", &text), ("type", "2")]).await?;
    let all = field::objects(&found, "/list");
    let shown = all.iter().copied().skip((page - 1).saturating_mul(FOLDERS)).take(FOLDERS);
    let folder = |folder: &Value| {
        let at = |pointer: &str| folder.pointer(pointer).cloned().unwrap_or_default();
        let is_private = field::int(folder, "/attr").map(|attr| attr % 2 == 1);
        json!({
            "id": at("/id"),
            "fid": at("/fid"),
            "title": at("/title"),
            "description": at("/intro"),
            "cover": picture(&at("/cover")),
            "media_count": at("/media_count"),
            "view_count": at("/cnt_info/play"),
            "like_count": at("/cnt_info/thumb_up"),
            "fav_state": at("/fav_state"),
            "ctime": at("/ctime"),
            "mtime": at("/mtime"),
            "state": at("/state"),
            "type": at("/type"),
            "is_private": is_private,
            "upper": { "mid": at("/mid"), "name": at("/upper/name"), "face": picture(&at("/upper/face")) },
        })
    };
    let folders: Vec<Value> = shown.map(folder).collect();
    let is_more = page.saturating_mul(FOLDERS) < all.len();
    Ok(json!({
        "uid": uid,
        "page": page,
        "next_page": is_more.then_some(page + 1),
        "total_count": all.len(),
        "favorite_folders": folders,
    }))
}

pub(super) async fn to_view(ask: Ask<'_>) -> Outcome {
    api::signed_in(ask.desk)?;
    let found = api::get(ask.desk, &["x", "v2", "history", "toview"], &[]).await?;
    let one = |video: &Value| {
        let (text, whole) = (|at: &str| field::text(video, at), |at: &str| field::whole(video, at));
        let bvid = text("/bvid");
        json!({
            "bvid": bvid,
            "aid": whole("/aid"),
            "title": plain(&text("/title")),
            "description": text("/desc"),
            "duration": whole("/duration"),
            "owner": { "mid": whole("/owner/mid"), "name": text("/owner/name") },
            "stat": stats(video),
            "pubdate": whole("/pubdate"),
            "add_at": whole("/add_at"),
            "added_at": moment(&whole("/add_at")),
            "progress": whole("/progress"),
            "pic": picture(&text("/pic")),
            "url": bvid.as_str().map(|bvid| format!("https://www.bilibili.com/video/{bvid}")),
        })
    };
    let list: Vec<Value> = field::objects(&found, "/list").into_iter().map(one).collect();
    Ok(json!({ "total_count": list.len(), "toview_videos": list }))
}

const SIGNED_HINT: &str = "get_bilibili_video_info takes an id, get_bilibili_watch_history, get_bilibili_favorites and get_bilibili_toview_list show the owner's videos";

pub(super) fn search(ask: &Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    given.needed("keyword")?;
    page(&given)?;
    given.word("order", &["totalrank", "click", "pubdate", "dm", "stow"], "totalrank")?;
    Err(api::unsupported("searches", SIGNED_HINT))
}

pub(super) fn of_user(ask: &Ask<'_>) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    given.whole("uid")?.ok_or_else(|| given.missing("uid"))?;
    page(&given)?;
    Err(api::unsupported("for the videos of a user", SIGNED_HINT))
}

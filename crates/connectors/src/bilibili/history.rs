//! The owner's watch history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::people::picture_at;
use super::videos::{OwnerWithFace, title_of, watch};
use super::{api, moment};
use crate::arguments::Limit;
use crate::personal::{Problem, field, is_id};
use crate::tool::Json;
use crate::{ConnectorContext, ToolCall};

const HISTORY_PAGE: usize = 20;
/// Bilibili has only a cursor, so a page is reached through all pages before it.
const HISTORY_PAGES_MAX: usize = 50;

#[derive(Deserialize, JsonSchema)]
pub(super) struct HistoryArgs {
    /// Which page, from 1.
    #[serde(default)]
    page: Limit<1, HISTORY_PAGES_MAX>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct History {
    page: usize,
    total_count: usize,
    next_page: Option<usize>,
    watch_history: Vec<Watched>,
}

#[derive(Serialize, JsonSchema)]
struct Watched {
    r#type: WatchedKind,
    title: Option<String>,
    cover: Option<String>,
    uri: Option<String>,
    history: WatchedItem,
    is_finished: bool,
    progress: Option<i64>,
    duration: Option<i64>,
    viewed_at: Option<String>,
    owner: OwnerWithFace,
    live_status: Option<i64>,
    url: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WatchedKind {
    Video,
    Series,
    Live,
    Article,
    Other,
}

#[derive(Serialize, JsonSchema)]
struct WatchedItem {
    oid: Option<i64>,
    bvid: Option<String>,
    page: Option<i64>,
    cid: Option<i64>,
    part: Option<String>,
    business: Option<String>,
    dt: Option<i64>,
}

/// Where the previous page ended.
struct HistoryCursor {
    max: String,
    view_at: String,
    business: String,
}

pub(super) async fn history(
    call: ToolCall<'_>,
    args: HistoryArgs,
) -> Result<Json<History>, Problem> {
    let page = args.page.get();
    api::signed_in(call.ctx)?;
    let (mut cursor, mut reached) = (None, 0);
    let mut watch_history = Vec::new();
    for _ in 0..page {
        let found = entries(call.ctx, cursor.as_ref()).await?;
        watch_history = field::objects(&found, "/list").into_iter().map(watched).collect();
        // Bilibili may send fewer entries than requested; the page after the last one is empty.
        cursor = cursor_of(&found).filter(|_| !watch_history.is_empty());
        reached += 1;
        if cursor.is_none() {
            break;
        }
    }
    // Pages after the last one are empty.
    if reached < page {
        watch_history.clear();
    }
    let is_more = cursor.is_some() && !watch_history.is_empty() && page < HISTORY_PAGES_MAX;
    Ok(Json(History {
        page,
        total_count: watch_history.len(),
        next_page: is_more.then_some(page + 1),
        watch_history,
    }))
}

async fn entries(ctx: &ConnectorContext, cursor: Option<&HistoryCursor>) -> Result<Value, Problem> {
    let size = HISTORY_PAGE.to_string();
    let mut query = vec![("ps", size.as_str())];
    if let Some(cursor) = cursor {
        query.push(("max", &cursor.max));
        query.push(("view_at", &cursor.view_at));
        query.push(("business", &cursor.business));
    }
    api::get(ctx, &["x", "web-interface", "history", "cursor"], &query).await
}

fn cursor_of(found: &Value) -> Option<HistoryCursor> {
    let cursor = found.get("cursor")?;
    let view_at = field::int(cursor, "/view_at").filter(|at| *at > 0)?;
    Some(HistoryCursor {
        max: field::int(cursor, "/max").unwrap_or(0).to_string(),
        view_at: view_at.to_string(),
        business: field::word(cursor, "/business").unwrap_or_default(),
    })
}

fn watched(entry: &Value) -> Watched {
    let history = WatchedItem {
        oid: field::int(entry, "/history/oid"),
        bvid: field::word(entry, "/history/bvid"),
        page: field::int(entry, "/history/page"),
        cid: field::int(entry, "/history/cid"),
        part: field::word(entry, "/history/part"),
        business: field::word(entry, "/history/business"),
        dt: field::int(entry, "/history/dt"),
    };
    let kind = match history.business.as_deref() {
        Some("archive") => WatchedKind::Video,
        Some("pgc") => WatchedKind::Series,
        Some("live") => WatchedKind::Live,
        Some("article" | "article-list") => WatchedKind::Article,
        _ => WatchedKind::Other,
    };
    let uri = field::word(entry, "/uri");
    let url = match history.bvid.as_deref().filter(|id| is_id(id)) {
        Some(bvid) if kind == WatchedKind::Video => Some(watch(bvid)),
        _ => uri.clone(),
    };
    let progress = field::int(entry, "/progress");
    let is_live = kind == WatchedKind::Live;
    Watched {
        r#type: kind,
        title: title_of(entry),
        cover: picture_at(entry, "/cover"),
        uri,
        history,
        // -1 means watched to the end.
        is_finished: progress == Some(-1),
        progress,
        duration: field::int(entry, "/duration"),
        viewed_at: field::int(entry, "/view_at").and_then(moment),
        owner: OwnerWithFace {
            mid: field::int(entry, "/author_mid"),
            name: field::word(entry, "/author_name"),
            face: picture_at(entry, "/author_face"),
        },
        live_status: field::int(entry, "/live_status").filter(|_| is_live),
        url,
    }
}

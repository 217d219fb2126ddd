//! The Bilibili mirror: watch history (Bilibili shows only the last months), favourite folders, the
//! watch-later list and followings.

use serde_json::Value;
use store::export::{ExportKind, ServiceExports};
use store::records::{Column, View};

use super::people::own_uid;
use super::{NAME, api, moment, plain};
use crate::fetch::WaitPolicy;
use crate::personal::mirror::{Forgets, List, Page, Stamp, at, columns, derived, walk};
use crate::personal::{Problem, events};
use crate::sync::{Mirror, ResourceError, SyncJob, SyncResource};
use crate::{ConnectorContext, coerce};

const PAGE: usize = 30;
/// A field added to each entry: its time, as text.
const AT: &str = "at";

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        SyncResource::list("history", |job| {
            Box::pin(walk(job, &HISTORY, |cursor| history(job.ctx, cursor)))
        }),
        SyncResource::list("favorite_folders", |job| {
            Box::pin(walk(job, &FOLDERS, |_| folders(job.ctx)))
        }),
        SyncResource::list("to_view", |job| Box::pin(walk(job, &TO_VIEW, |_| to_view(job.ctx)))),
        SyncResource::list("followings", |job| Box::pin(followings(job))),
    ],
    events: |ctx, asked| events(ctx, NAME, LISTS, asked),
    export: &EXPORTS,
    more_views: &[],
    version: VERSION,
    derive: |kind, raw| derived(LISTS, kind, raw),
    offset_s: None,
    doubtful: None,
};

pub(crate) const LISTS: &[&List] = &[&HISTORY, &FOLDERS, &TO_VIEW, &FOLLOWINGS];
/// Increase when the columns change.
pub(crate) const VERSION: u32 = 1;

fn number(item: &Value, pointer: &str) -> Option<String> {
    item.pointer(pointer).and_then(Value::as_i64).map(|number| number.to_string())
}

const HISTORY: List = List {
    kind: "history",
    // Watching a video again adds an entry with another time.
    id: |item| {
        let business = item.pointer("/history/business")?.as_str()?;
        Some(format!("{} {business} {}", number(item, "/view_at")?, number(item, "/history/oid")?))
    },
    at: "/at",
    stamp: Stamp::FromItem,
    parent: None,
    flat: |item| {
        columns([
            ("viewed_at", at(item, "/at")),
            ("type", at(item, "/history/business")),
            ("bvid", at(item, "/history/bvid")),
            ("title", title(item)),
            ("author", at(item, "/author_name")),
            ("author_mid", at(item, "/author_mid")),
            ("progress_s", at(item, "/progress")),
            ("duration_s", at(item, "/duration")),
        ])
    },
    forgets: Forgets::Never,
};
const FOLDERS: List = List {
    kind: "favorite_folders",
    id: |item| number(item, "/id"),
    at: "/at",
    stamp: Stamp::FirstSeen,
    parent: None,
    flat: |item| {
        columns([
            ("id", at(item, "/id")),
            ("title", at(item, "/title")),
            ("videos", at(item, "/media_count")),
        ])
    },
    forgets: Forgets::Missing,
};
const TO_VIEW: List = List {
    kind: "to_view",
    id: |item| number(item, "/aid"),
    at: "/at",
    stamp: Stamp::FromItem,
    parent: None,
    flat: |item| {
        columns([
            ("added_at", at(item, "/at")),
            ("bvid", at(item, "/bvid")),
            ("title", title(item)),
            ("author", at(item, "/owner/name")),
            ("author_mid", at(item, "/owner/mid")),
            ("progress_s", at(item, "/progress")),
            ("duration_s", at(item, "/duration")),
        ])
    },
    forgets: Forgets::Missing,
};
const FOLLOWINGS: List = List {
    kind: "followings",
    id: |item| number(item, "/mid"),
    at: "/at",
    stamp: Stamp::FirstSeen,
    parent: None,
    flat: |item| {
        columns([
            ("mid", at(item, "/mid")),
            ("name", at(item, "/uname")),
            ("sign", at(item, "/sign")),
            ("followed_at", at(item, "/at")),
        ])
    },
    forgets: Forgets::Missing,
};

fn title(item: &Value) -> Value {
    at(item, "/title").as_str().map(plain).into()
}

/// The entries of a response, each with its time as text and without view and like counts.
fn items(found: &Value, time: &str) -> Vec<Value> {
    let mut items = found.get("list").and_then(Value::as_array).cloned().unwrap_or_default();
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        let at = item.get(time).and_then(coerce::int).and_then(moment);
        item.insert(AT.to_owned(), at.into());
        item.shift_remove("stat");
    }
    items
}

/// The cursor of the previous page as one string.
async fn history(ctx: &ConnectorContext, cursor: Option<String>) -> Result<Page, Problem> {
    api::signed_in(ctx)?;
    let size = PAGE.to_string();
    let mut query = vec![("ps", size.as_str())];
    let fields: Vec<&str> = cursor.iter().flat_map(|cursor| cursor.split(' ')).collect();
    if let [max, view_at, business] = fields.as_slice() {
        query.extend([("max", *max), ("view_at", *view_at), ("business", *business)]);
    }
    let found =
        api::get_with(ctx, &["x", "web-interface", "history", "cursor"], &query, WaitPolicy::SYNC)
            .await?;
    let items = items(&found, "view_at");
    let next = next(&found).filter(|_| !items.is_empty());
    Ok(Page { items, next, total: None })
}

fn next(found: &Value) -> Option<String> {
    let cursor = found.get("cursor")?;
    let view_at = cursor.get("view_at").and_then(Value::as_i64).filter(|at| *at > 0)?;
    let max = cursor.get("max").and_then(Value::as_i64).unwrap_or(0);
    let business = cursor.get("business").and_then(Value::as_str).unwrap_or_default();
    Some(format!("{max} {view_at} {business}"))
}

async fn folders(ctx: &ConnectorContext) -> Result<Page, Problem> {
    api::signed_in(ctx)?;
    let uid = own_uid(ctx).await?.to_string();
    let path = ["x", "v3", "fav", "folder", "created", "list-all"];
    let found =
        api::get_with(ctx, &path, &[("up_mid", &uid), ("type", "2")], WaitPolicy::SYNC).await?;
    Ok(Page { items: items(&found, "ctime"), next: None, total: None })
}

async fn to_view(ctx: &ConnectorContext) -> Result<Page, Problem> {
    api::signed_in(ctx)?;
    let found =
        api::get_with(ctx, &["x", "v2", "history", "toview"], &[], WaitPolicy::SYNC).await?;
    Ok(Page { items: items(&found, "add_at"), next: None, total: None })
}

async fn followings(job: &SyncJob<'_>) -> Result<Option<String>, ResourceError> {
    api::signed_in(job.ctx)?;
    let uid = own_uid(job.ctx).await?.to_string();
    walk(job, &FOLLOWINGS, |page| followings_page(job.ctx, &uid, page)).await
}

async fn followings_page(
    ctx: &ConnectorContext,
    uid: &str,
    page: Option<String>,
) -> Result<Page, Problem> {
    let number = page.unwrap_or_else(|| "1".to_owned());
    let size = PAGE.to_string();
    let query = [("vmid", uid), ("ps", &size), ("pn", &number), ("order", "desc")];
    let found =
        api::get_with(ctx, &["x", "relation", "followings"], &query, WaitPolicy::SYNC).await?;
    let items = items(&found, "mtime");
    let total = found.get("total").and_then(Value::as_u64);
    let at: u64 = number.parse().unwrap_or(1);
    let is_last = items.is_empty() || total.is_some_and(|total| at * PAGE as u64 >= total);
    Ok(Page { items, next: (!is_last).then(|| (at + 1).to_string()), total })
}

const HISTORY_VIEW: View = View::of(
    "bilibili_history",
    NAME,
    "history",
    &[
        Column::text("viewed_at"),
        Column::text("type"),
        Column::text("bvid"),
        Column::text("title"),
        Column::text("author"),
        Column::integer("author_mid"),
        Column::integer("progress_s"),
        Column::integer("duration_s"),
    ],
);
const FOLDERS_VIEW: View = View::of(
    "bilibili_favorite_folders",
    NAME,
    "favorite_folders",
    &[Column::integer("id"), Column::text("title"), Column::integer("videos")],
);
const TO_VIEW_VIEW: View = View::of(
    "bilibili_to_view",
    NAME,
    "to_view",
    &[
        Column::text("added_at"),
        Column::text("bvid"),
        Column::text("title"),
        Column::text("author"),
        Column::integer("author_mid"),
        Column::integer("progress_s"),
        Column::integer("duration_s"),
    ],
);
const FOLLOWINGS_VIEW: View = View::of(
    "bilibili_followings",
    NAME,
    "followings",
    &[
        Column::integer("mid"),
        Column::text("name"),
        Column::text("sign"),
        Column::text("followed_at"),
    ],
);

/// Everything that can be exported.
pub const EXPORTS: ServiceExports = ServiceExports {
    service: NAME,
    kinds: &[
        ExportKind::list("history", &HISTORY_VIEW),
        ExportKind::list("favorite_folders", &FOLDERS_VIEW),
        ExportKind::list("to_view", &TO_VIEW_VIEW),
        ExportKind::list("followings", &FOLLOWINGS_VIEW),
    ],
};

//! What is kept of Bilibili: what was watched, of which Bilibili shows the last months, and the
//! folders of favourites, the list to watch and the people followed as they are now.

use serde_json::Value;
use store::export::{Kind as File, Shelf};
use store::records::{Column, View};

use super::people::own_uid;
use super::{NAME, api, moment, plain};
use crate::Desk;
use crate::fetch::Patience;
use crate::personal::mirror::{Forgets, List, Page, Stamp, at, columns, walk};
use crate::personal::{Problem, events};
use crate::sync::{EventsAsked, Fault, Mirror, Resource, Turn};

const PAGE: usize = 30;
/// Our own mark in an entry: its time, as text.
const AT: &str = "at";

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        Resource {
            name: "history",
            since: None,
            fetch: |turn| Box::pin(walk(turn, &HISTORY, |cursor| history(turn.desk, cursor))),
        },
        Resource {
            name: "favorite_folders",
            since: None,
            fetch: |turn| Box::pin(walk(turn, &FOLDERS, |_| folders(turn.desk))),
        },
        Resource {
            name: "to_view",
            since: None,
            fetch: |turn| Box::pin(walk(turn, &TO_VIEW, |_| to_view(turn.desk))),
        },
        Resource { name: "followings", since: None, fetch: |turn| Box::pin(followings(turn)) },
    ],
    events: changed,
};

pub(crate) const LISTS: &[&List] = &[&HISTORY, &FOLDERS, &TO_VIEW, &FOLLOWINGS];
/// Grows when the columns do.
pub(crate) const VERSION: u32 = 1;

fn number(item: &Value, pointer: &str) -> Option<String> {
    item.pointer(pointer).and_then(Value::as_i64).map(|number| number.to_string())
}

const HISTORY: List = List {
    kind: "history",
    // Watched again it comes again, with another time.
    id: |item| {
        let business = item.pointer("/history/business")?.as_str()?;
        Some(format!("{} {business} {}", number(item, "/view_at")?, number(item, "/history/oid")?))
    },
    at: "/at",
    stamp: Stamp::Said,
    parent: None,
    flat: |item| {
        columns([
            ("viewed_at", at(item, "/at")),
            ("type", at(item, "/history/business")),
            ("bvid", at(item, "/history/bvid")),
            ("title", plain(&at(item, "/title"))),
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
    stamp: Stamp::Seen,
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
    stamp: Stamp::Said,
    parent: None,
    flat: |item| {
        columns([
            ("added_at", at(item, "/at")),
            ("bvid", at(item, "/bvid")),
            ("title", plain(&at(item, "/title"))),
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
    stamp: Stamp::Seen,
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

/// The entries of an answer, each with its time as text and without counts of other people's doings.
fn items(found: &Value, time: &str) -> Vec<Value> {
    let mut items = found.get("list").and_then(Value::as_array).cloned().unwrap_or_default();
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        let at = item.get(time).map(moment).unwrap_or_default();
        item.insert(AT.to_owned(), at);
        item.shift_remove("stat");
    }
    items
}

/// The cursor of the page before, in one text.
async fn history(desk: &Desk, cursor: Option<String>) -> Result<Page, Problem> {
    api::signed_in(desk)?;
    let size = PAGE.to_string();
    let mut query = vec![("ps", size.as_str())];
    let fields: Vec<&str> = cursor.iter().flat_map(|cursor| cursor.split(' ')).collect();
    if let [max, view_at, business] = fields.as_slice() {
        query.extend([("max", *max), ("view_at", *view_at), ("business", *business)]);
    }
    let found =
        api::get_with(desk, &["x", "web-interface", "history", "cursor"], &query, Patience::SYNC)
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

async fn folders(desk: &Desk) -> Result<Page, Problem> {
    api::signed_in(desk)?;
    let uid = own_uid(desk).await?.to_string();
    let path = ["x", "v3", "fav", "folder", "created", "list-all"];
    let found =
        api::get_with(desk, &path, &[("up_mid", &uid), ("type", "2")], Patience::SYNC).await?;
    Ok(Page { items: items(&found, "ctime"), next: None, total: None })
}

async fn to_view(desk: &Desk) -> Result<Page, Problem> {
    api::signed_in(desk)?;
    let found = api::get_with(desk, &["x", "v2", "history", "toview"], &[], Patience::SYNC).await?;
    Ok(Page { items: items(&found, "add_at"), next: None, total: None })
}

async fn followings(turn: &Turn<'_>) -> Result<Option<String>, Fault> {
    api::signed_in(turn.desk)?;
    let uid = own_uid(turn.desk).await?.to_string();
    walk(turn, &FOLLOWINGS, |page| followings_page(turn.desk, &uid, page)).await
}

async fn followings_page(desk: &Desk, uid: &str, page: Option<String>) -> Result<Page, Problem> {
    let number = page.unwrap_or_else(|| "1".to_owned());
    let size = PAGE.to_string();
    let query = [("vmid", uid), ("ps", &size), ("pn", &number), ("order", "desc")];
    let found =
        api::get_with(desk, &["x", "relation", "followings"], &query, Patience::SYNC).await?;
    let items = items(&found, "mtime");
    let total = found.get("total").and_then(Value::as_u64);
    let at: u64 = number.parse().unwrap_or(1);
    let is_last = items.is_empty() || total.is_some_and(|total| at * PAGE as u64 >= total);
    Ok(Page { items, next: (!is_last).then(|| (at + 1).to_string()), total })
}

fn changed(desk: &Desk, asked: &EventsAsked<'_>) -> Result<Value, Fault> {
    let kinds: Vec<&'static str> = LISTS.iter().map(|list| list.kind).collect();
    events(desk, NAME, &kinds, asked)
}

const fn view(name: &'static str, kind: &'static str, columns: &'static [Column]) -> View {
    View { name, service: NAME, kind, columns, except_state: None }
}

const HISTORY_VIEW: View = view(
    "bilibili_history",
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
const FOLDERS_VIEW: View = view(
    "bilibili_favorite_folders",
    "favorite_folders",
    &[Column::integer("id"), Column::text("title"), Column::integer("videos")],
);
const TO_VIEW_VIEW: View = view(
    "bilibili_to_view",
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
const FOLLOWINGS_VIEW: View = view(
    "bilibili_followings",
    "followings",
    &[
        Column::integer("mid"),
        Column::text("name"),
        Column::text("sign"),
        Column::text("followed_at"),
    ],
);

const fn file(name: &'static str, view: &'static View) -> File {
    File { name, file: name, is_snapshot: false, view }
}

/// Everything that can be taken out.
pub const SHELF: Shelf = Shelf {
    service: NAME,
    kinds: &[
        file("history", &HISTORY_VIEW),
        file("favorite_folders", &FOLDERS_VIEW),
        file("to_view", &TO_VIEW_VIEW),
        file("followings", &FOLLOWINGS_VIEW),
    ],
};

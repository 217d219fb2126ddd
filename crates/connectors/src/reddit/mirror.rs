//! What is kept of Reddit: what the owner wrote, saved and voted up. Reddit shows the newest thousand
//! of each; what was kept stays.

use serde_json::{Map, Value};
use store::export::{Kind as File, Shelf};
use store::records::{Column, View};

use super::{NAME, api, lists};
use crate::Desk;
use crate::personal::mirror::{List, Page, at, walk};
use crate::personal::{Problem, events};
use crate::sync::{EventsAsked, Fault, Fetching, Mirror, Resource, Turn};

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        Resource { name: "posts", since: None, fetch: |turn| fetch(turn, &POSTS, "submitted") },
        Resource {
            name: "comments",
            since: None,
            fetch: |turn| fetch(turn, &COMMENTS, "comments"),
        },
        Resource { name: "saved", since: None, fetch: |turn| fetch(turn, &SAVED, "saved") },
        Resource { name: "upvoted", since: None, fetch: |turn| fetch(turn, &UPVOTED, "upvoted") },
    ],
    events: changed,
};

pub(crate) const LISTS: &[&List] = &[&POSTS, &COMMENTS, &SAVED, &UPVOTED];
/// Grows when the columns do.
pub(crate) const VERSION: u32 = 1;

const fn list(kind: &'static str) -> List {
    List {
        kind,
        id: |thing| thing.get("name")?.as_str().map(str::to_owned),
        at: "/created_at",
        flat,
        // What fell out of the newest thousand was not taken back.
        forgets: false,
    }
}

const POSTS: List = list("posts");
const COMMENTS: List = list("comments");
const SAVED: List = list("saved");
const UPVOTED: List = list("upvoted");

fn flat(thing: &Value) -> Map<String, Value> {
    let or = |first: &str, second: &str| match at(thing, first) {
        Value::Null => at(thing, second),
        value => value,
    };
    let columns = [
        ("id", at(thing, "/name")),
        ("kind", at(thing, "/kind")),
        ("subreddit", at(thing, "/subreddit")),
        ("author", at(thing, "/author")),
        ("title", or("/title", "/link_title")),
        ("text", or("/body", "/selftext")),
        ("score", at(thing, "/score")),
        ("created_at", at(thing, "/created_at")),
        ("link", at(thing, "/permalink")),
    ];
    columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn fetch<'a>(turn: &'a Turn<'a>, list: &'static List, part: &'static str) -> Fetching<'a> {
    Box::pin(async move {
        let name = api::own_name(turn.desk).await?;
        walk(turn, list, |after| page(turn.desk, &name, part, after)).await
    })
}

async fn page(desk: &Desk, name: &str, part: &str, after: Option<String>) -> Result<Page, Problem> {
    let mut query = vec![("limit", "100"), ("raw_json", "1")];
    query.extend(after.as_deref().map(|after| ("after", after)));
    let listing = api::get(desk, &["user", name, part], &query).await?;
    let next = listing.pointer("/data/after").and_then(Value::as_str).map(str::to_owned);
    Ok(Page { items: lists::things(&listing), next, total: None })
}

fn changed(desk: &Desk, asked: &EventsAsked<'_>) -> Result<Value, Fault> {
    let kinds: Vec<&'static str> = LISTS.iter().map(|list| list.kind).collect();
    events(desk, NAME, &kinds, asked)
}

const COLUMNS: &[Column] = &[
    Column::text("id"),
    Column::text("kind"),
    Column::text("subreddit"),
    Column::text("author"),
    Column::text("title"),
    Column::text("text"),
    Column::integer("score"),
    Column::text("created_at"),
    Column::text("link"),
];

const fn view(name: &'static str, kind: &'static str) -> View {
    View { name, service: NAME, kind, columns: COLUMNS, except_state: None }
}

const POSTS_VIEW: View = view("reddit_posts", "posts");
const COMMENTS_VIEW: View = view("reddit_comments", "comments");
const SAVED_VIEW: View = view("reddit_saved", "saved");
const UPVOTED_VIEW: View = view("reddit_upvoted", "upvoted");

const fn file(name: &'static str, view: &'static View) -> File {
    File { name, file: name, is_snapshot: false, view }
}

/// Everything that can be taken out.
pub const SHELF: Shelf = Shelf {
    service: NAME,
    kinds: &[
        file("posts", &POSTS_VIEW),
        file("comments", &COMMENTS_VIEW),
        file("saved", &SAVED_VIEW),
        file("upvoted", &UPVOTED_VIEW),
    ],
};

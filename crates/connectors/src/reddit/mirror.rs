//! What is kept of Reddit: what the owner wrote, saved, hid and voted on, their messages and their
//! subreddits. Reddit shows the newest thousand of each; what was kept stays.

use serde_json::{Map, Value};
use store::export::{Kind as File, Shelf};
use store::records::{Column, View};

use super::{NAME, api, lists};
use crate::Desk;
use crate::fetch::Patience;
use crate::personal::mirror::{Forgets, List, Page, Stamp, at, columns, text_at, walk};
use crate::personal::{Problem, events};
use crate::sync::{EventsAsked, Fault, Fetching, Mirror, Resource, Turn};

/// Reddit cuts its lists at a thousand and then leaves out what was deleted, so only a list that is
/// much shorter is known to be whole.
const SURELY_WHOLE: Forgets = Forgets::ShorterThan(500);

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        Resource { name: "posts", since: None, fetch: |turn| own(turn, &POSTS, "submitted") },
        Resource { name: "comments", since: None, fetch: |turn| own(turn, &COMMENTS, "comments") },
        Resource { name: "saved", since: None, fetch: |turn| own(turn, &SAVED, "saved") },
        Resource { name: "upvoted", since: None, fetch: |turn| own(turn, &UPVOTED, "upvoted") },
        Resource {
            name: "downvoted",
            since: None,
            fetch: |turn| own(turn, &DOWNVOTED, "downvoted"),
        },
        Resource { name: "hidden", since: None, fetch: |turn| own(turn, &HIDDEN, "hidden") },
        Resource {
            name: "subreddits",
            since: None,
            fetch: |turn| {
                Box::pin(walk(turn, &SUBREDDITS, |after| {
                    page(turn.desk, &["subreddits", "mine", "subscriber"], after)
                }))
            },
        },
        Resource { name: "messages", since: None, fetch: |turn| Box::pin(messages(turn)) },
    ],
    events: changed,
};

pub(crate) const LISTS: &[&List] =
    &[&POSTS, &COMMENTS, &SAVED, &UPVOTED, &DOWNVOTED, &HIDDEN, &SUBREDDITS, &MESSAGES];
/// Grows when the columns do.
pub(crate) const VERSION: u32 = 2;

const fn list(kind: &'static str) -> List {
    List {
        kind,
        id: |thing| text_at(thing, "/name"),
        at: "/created_at",
        // When something was written is not when it was saved, voted on or edited.
        stamp: Stamp::Seen,
        parent: None,
        flat,
        forgets: SURELY_WHOLE,
    }
}

pub(super) const POSTS: List = list("posts");
pub(super) const COMMENTS: List = list("comments");
pub(super) const SAVED: List = list("saved");
pub(super) const UPVOTED: List = list("upvoted");
pub(super) const DOWNVOTED: List = list("downvoted");
pub(super) const HIDDEN: List = list("hidden");
pub(super) const SUBREDDITS: List = List {
    kind: "subreddits",
    // The archive knows them by their names alone.
    id: |thing| text_at(thing, "/display_name").map(|name| name.to_lowercase()),
    at: "/created_at",
    stamp: Stamp::Seen,
    parent: None,
    flat: |thing| {
        columns([
            ("name", at(thing, "/display_name")),
            ("title", at(thing, "/title")),
            ("description", at(thing, "/public_description")),
            ("type", at(thing, "/subreddit_type")),
        ])
    },
    forgets: Forgets::Missing,
};
pub(super) const MESSAGES: List = List {
    kind: "messages",
    id: |thing| text_at(thing, "/name"),
    at: "/created_at",
    stamp: Stamp::Seen,
    parent: None,
    flat: |thing| {
        columns([
            ("id", at(thing, "/name")),
            ("sent_at", at(thing, "/created_at")),
            ("from", at(thing, "/author")),
            ("to", at(thing, "/dest")),
            ("subject", at(thing, "/subject")),
            ("text", at(thing, "/body")),
        ])
    },
    forgets: Forgets::Never,
};

fn flat(thing: &Value) -> Map<String, Value> {
    let or = |first: &str, second: &str| match at(thing, first) {
        Value::Null => at(thing, second),
        value => value,
    };
    columns([
        ("id", at(thing, "/name")),
        ("kind", at(thing, "/kind")),
        ("subreddit", at(thing, "/subreddit")),
        ("author", at(thing, "/author")),
        ("title", or("/title", "/link_title")),
        ("text", or("/body", "/selftext")),
        ("score", at(thing, "/score")),
        ("created_at", at(thing, "/created_at")),
        ("link", at(thing, "/permalink")),
    ])
}

fn own<'a>(turn: &'a Turn<'a>, list: &'static List, part: &'static str) -> Fetching<'a> {
    Box::pin(async move {
        let name = api::own_name(turn.desk).await?;
        walk(turn, list, |after| {
            let name = name.clone();
            async move { page(turn.desk, &["user", &name, part], after).await }
        })
        .await
    })
}

/// What came in and what was sent. Replies to comments come the same way and are no messages.
async fn messages(turn: &Turn<'_>) -> Result<Option<String>, Fault> {
    let of = |part: &'static str| {
        move |after| async move {
            let mut page = page(turn.desk, &["message", part], after).await?;
            page.items.retain(|thing| at(thing, "/kind") == "message");
            for thing in page.items.iter_mut().filter_map(Value::as_object_mut) {
                // Reading a message does not change it.
                thing.shift_remove("new");
            }
            Ok(page)
        }
    };
    walk(turn, &MESSAGES, of("inbox")).await?;
    walk(turn, &MESSAGES, of("sent")).await
}

async fn page(desk: &Desk, path: &[&str], after: Option<String>) -> Result<Page, Problem> {
    let mut query = vec![("limit", "100"), ("raw_json", "1")];
    query.extend(after.as_deref().map(|after| ("after", after)));
    let listing = api::get_with(desk, path, &query, Patience::SYNC).await?;
    let next = listing.pointer("/data/after").and_then(Value::as_str).map(str::to_owned);
    let mut items = lists::things(&listing);
    for thing in items.iter_mut().filter_map(Value::as_object_mut) {
        // How many others there are changes by the minute.
        thing.shift_remove("subscribers");
    }
    Ok(Page { items, next, total: None })
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

const fn view(name: &'static str, kind: &'static str, columns: &'static [Column]) -> View {
    View { name, service: NAME, kind, columns, except_state: None }
}

const POSTS_VIEW: View = view("reddit_posts", "posts", COLUMNS);
const COMMENTS_VIEW: View = view("reddit_comments", "comments", COLUMNS);
const SAVED_VIEW: View = view("reddit_saved", "saved", COLUMNS);
const UPVOTED_VIEW: View = view("reddit_upvoted", "upvoted", COLUMNS);
const DOWNVOTED_VIEW: View = view("reddit_downvoted", "downvoted", COLUMNS);
const HIDDEN_VIEW: View = view("reddit_hidden", "hidden", COLUMNS);
const SUBREDDITS_VIEW: View = view(
    "reddit_subreddits",
    "subreddits",
    &[
        Column::text("name"),
        Column::text("title"),
        Column::text("description"),
        Column::text("type"),
    ],
);
const MESSAGES_VIEW: View = view(
    "reddit_messages",
    "messages",
    &[
        Column::text("id"),
        Column::text("sent_at"),
        Column::text("from"),
        Column::text("to"),
        Column::text("subject"),
        Column::text("text"),
    ],
);

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
        file("downvoted", &DOWNVOTED_VIEW),
        file("hidden", &HIDDEN_VIEW),
        file("subreddits", &SUBREDDITS_VIEW),
        file("messages", &MESSAGES_VIEW),
    ],
};

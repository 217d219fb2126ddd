//! The Reddit mirror: posts, comments, saved and hidden items, votes, messages and subreddits.
//! Reddit shows the newest thousand of each; older mirrored records are kept.

use serde_json::{Map, Value};
use store::export::{ExportKind, ServiceExports};
use store::records::{Column, View};

use super::{NAME, api, lists};
use crate::ConnectorContext;
use crate::fetch::WaitPolicy;
use crate::personal::mirror::{Forgets, List, Page, Stamp, at, columns, derived, text_at, walk};
use crate::personal::{Problem, events};
use crate::sync::{Fetching, Mirror, ResourceError, SyncJob, SyncResource};

/// Reddit cuts its lists at a thousand and then leaves out deleted items, so only a much shorter list
/// is certainly complete.
const SURELY_WHOLE: Forgets = Forgets::ShorterThan(500);

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[
        SyncResource::list("posts", |job| own(job, &POSTS, "submitted")),
        SyncResource::list("comments", |job| own(job, &COMMENTS, "comments")),
        SyncResource::list("saved", |job| own(job, &SAVED, "saved")),
        SyncResource::list("upvoted", |job| own(job, &UPVOTED, "upvoted")),
        SyncResource::list("downvoted", |job| own(job, &DOWNVOTED, "downvoted")),
        SyncResource::list("hidden", |job| own(job, &HIDDEN, "hidden")),
        SyncResource::list("subreddits", |job| {
            Box::pin(walk(job, &SUBREDDITS, |after| {
                page(job.ctx, &["subreddits", "mine", "subscriber"], after)
            }))
        }),
        SyncResource::list("messages", |job| Box::pin(messages(job))),
    ],
    events: |ctx, asked| events(ctx, NAME, LISTS, asked),
    export: &EXPORTS,
    more_views: &[],
    version: VERSION,
    derive: |kind, raw| derived(LISTS, kind, raw),
    offset_s: None,
    doubtful: None,
};

pub(crate) const LISTS: &[&List] =
    &[&POSTS, &COMMENTS, &SAVED, &UPVOTED, &DOWNVOTED, &HIDDEN, &SUBREDDITS, &MESSAGES];
/// Increase when the columns change.
pub(crate) const VERSION: u32 = 2;

const fn list(kind: &'static str) -> List {
    List {
        kind,
        id: |thing| text_at(thing, "/name"),
        at: "/created_at",
        // The creation time is not the time of saving, voting or editing.
        stamp: Stamp::FirstSeen,
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
    // The archive has only their names.
    id: |thing| text_at(thing, "/display_name").map(|name| name.to_lowercase()),
    at: "/created_at",
    stamp: Stamp::FirstSeen,
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
    stamp: Stamp::FirstSeen,
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

fn own<'a>(job: &'a SyncJob<'a>, list: &'static List, part: &'static str) -> Fetching<'a> {
    Box::pin(async move {
        let name = api::own_name(job.ctx).await?;
        walk(job, list, |after| {
            let name = name.clone();
            async move { page(job.ctx, &["user", &name, part], after).await }
        })
        .await
    })
}

/// Received and sent messages. The inbox also lists replies to comments; they are skipped.
async fn messages(job: &SyncJob<'_>) -> Result<Option<String>, ResourceError> {
    let of = |part: &'static str| {
        move |after| async move {
            let mut page = page(job.ctx, &["message", part], after).await?;
            page.items.retain(|thing| at(thing, "/kind") == "message");
            for thing in page.items.iter_mut().filter_map(Value::as_object_mut) {
                // Reading a message is not a change of it.
                thing.shift_remove("new");
            }
            Ok(page)
        }
    };
    walk(job, &MESSAGES, of("inbox")).await?;
    walk(job, &MESSAGES, of("sent")).await
}

async fn page(
    ctx: &ConnectorContext,
    path: &[&str],
    after: Option<String>,
) -> Result<Page, Problem> {
    let mut query = vec![("limit", "100"), ("raw_json", "1")];
    query.extend(after.as_deref().map(|after| ("after", after)));
    let listing = api::get_with(ctx, path, &query, WaitPolicy::SYNC).await?;
    let next = listing.pointer("/data/after").and_then(Value::as_str).map(str::to_owned);
    let things = lists::things(&listing).into_iter();
    let mut items: Vec<Value> =
        things.filter_map(|thing| serde_json::to_value(thing).ok()).collect();
    for thing in items.iter_mut().filter_map(Value::as_object_mut) {
        // The number of subscribers changes by the minute.
        thing.shift_remove("subscribers");
    }
    Ok(Page { items, next, total: None })
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

const POSTS_VIEW: View = View::of("reddit_posts", NAME, "posts", COLUMNS);
const COMMENTS_VIEW: View = View::of("reddit_comments", NAME, "comments", COLUMNS);
const SAVED_VIEW: View = View::of("reddit_saved", NAME, "saved", COLUMNS);
const UPVOTED_VIEW: View = View::of("reddit_upvoted", NAME, "upvoted", COLUMNS);
const DOWNVOTED_VIEW: View = View::of("reddit_downvoted", NAME, "downvoted", COLUMNS);
const HIDDEN_VIEW: View = View::of("reddit_hidden", NAME, "hidden", COLUMNS);
const SUBREDDITS_VIEW: View = View::of(
    "reddit_subreddits",
    NAME,
    "subreddits",
    &[
        Column::text("name"),
        Column::text("title"),
        Column::text("description"),
        Column::text("type"),
    ],
);
const MESSAGES_VIEW: View = View::of(
    "reddit_messages",
    NAME,
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

/// Everything that can be exported.
pub const EXPORTS: ServiceExports = ServiceExports {
    service: NAME,
    kinds: &[
        ExportKind::list("posts", &POSTS_VIEW),
        ExportKind::list("comments", &COMMENTS_VIEW),
        ExportKind::list("saved", &SAVED_VIEW),
        ExportKind::list("upvoted", &UPVOTED_VIEW),
        ExportKind::list("downvoted", &DOWNVOTED_VIEW),
        ExportKind::list("hidden", &HIDDEN_VIEW),
        ExportKind::list("subreddits", &SUBREDDITS_VIEW),
        ExportKind::list("messages", &MESSAGES_VIEW),
    ],
};

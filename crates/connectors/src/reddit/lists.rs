//! Listings: posts, comments, messages and subreddits, page by page. Reddit sends long records; only
//! the useful members are kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{NAME, api};
use crate::arguments::{BadArgument, IgnoredSecret, Limit};
use crate::personal::{Problem, field, is_id};
use crate::tool::{Json, Success};
use crate::when::utc_millis;
use crate::{ConnectorContext, ToolCall};

const LIMIT_MAX: usize = 100;

#[derive(Deserialize, JsonSchema)]
pub(super) struct RedditPageArgs {
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
    /// How many to return.
    #[serde(default)]
    limit: Limit<LIMIT_MAX, LIMIT_MAX>,
    /// The after of an earlier answer.
    after: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct KeptArgs {
    /// The owner's own name, or nothing: Reddit shows these lists to their owner only.
    username: Option<String>,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
    /// How many to return.
    #[serde(default)]
    limit: Limit<LIMIT_MAX, LIMIT_MAX>,
    /// The after of an earlier answer.
    after: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct WrittenArgs {
    /// Whose; the owner if left out.
    username: Option<String>,
    #[serde(default, rename = "access_token")]
    _access_token: IgnoredSecret,
    /// How many to return.
    #[serde(default)]
    limit: Limit<LIMIT_MAX, LIMIT_MAX>,
    #[schemars(extend(
        "enum" = ["new", "hot", "top", "controversial", "", null],
        "default" = "new"
    ))]
    sort: Option<Sort>,
    /// The after of an earlier answer.
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Sort {
    #[default]
    New,
    Hot,
    Top,
    Controversial,
}

impl Sort {
    fn as_str(self) -> &'static str {
        match self {
            Sort::New => "new",
            Sort::Hot => "hot",
            Sort::Top => "top",
            Sort::Controversial => "controversial",
        }
    }
}

/// The path of a listing.
pub(super) enum ListingPath {
    /// A fixed path.
    At(&'static [&'static str]),
    /// A path below a user.
    Of(&'static str),
}

impl ListingPath {
    fn scope(&self) -> &'static str {
        match self {
            ListingPath::At(["message", ..]) => "privatemessages",
            ListingPath::At(_) => "mysubreddits",
            ListingPath::Of(_) => "history",
        }
    }
}

/// The output of one listing. The name of the items differs.
pub(super) trait Listing: Serialize + JsonSchema {
    const LISTING: ListingPath;

    fn new(things: Vec<Thing>, after: Option<String>) -> Self;
}

macro_rules! listings {
    ($($name:ident: $place:expr => $key:ident,)*) => {$(
        #[derive(Serialize, JsonSchema)]
        pub(super) struct $name {
            status: Success,
            count: usize,
            $key: Vec<Thing>,
            after: Option<String>,
        }

        impl Listing for $name {
            const LISTING: ListingPath = $place;

            fn new($key: Vec<Thing>, after: Option<String>) -> $name {
                $name { status: Success, count: $key.len(), $key, after }
            }
        }
    )*};
}

listings! {
    Subscribed: ListingPath::At(&["subreddits", "mine", "subscriber"]) => subreddits,
    Moderated: ListingPath::At(&["subreddits", "mine", "moderator"]) => moderated_subreddits,
    Contributor: ListingPath::At(&["subreddits", "mine", "contributor"]) => contributor_subreddits,
    Inbox: ListingPath::At(&["message", "inbox"]) => inbox_messages,
    Unread: ListingPath::At(&["message", "unread"]) => unread_messages,
    Sent: ListingPath::At(&["message", "sent"]) => sent_messages,
    Submitted: ListingPath::Of("submitted") => submitted_posts,
    Comments: ListingPath::Of("comments") => comments,
    Overview: ListingPath::Of("overview") => overview,
    Saved: ListingPath::Of("saved") => saved_content,
    Hidden: ListingPath::Of("hidden") => hidden_posts,
    Upvoted: ListingPath::Of("upvoted") => upvoted_content,
    Downvoted: ListingPath::Of("downvoted") => downvoted_content,
}

// A post, comment, message or subreddit, with the members that Reddit sent of it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Thing {
    kind: ThingKind,
    #[serde(flatten)]
    members: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ThingKind {
    Post,
    Comment,
    Message,
    Subreddit,
    Other,
}

/// The parameters of one listing request.
struct ListingRequest<'a> {
    limit: usize,
    after: Option<&'a str>,
    username: Option<&'a str>,
    sort: Option<Sort>,
}

/// A listing of the owner.
pub(super) async fn mine<L: Listing>(
    call: ToolCall<'_>,
    args: RedditPageArgs,
) -> Result<Json<L>, Problem> {
    let after = args.after.as_deref();
    let wanted = ListingRequest { limit: args.limit.get(), after, username: None, sort: None };
    page(call.ctx, &wanted).await
}

/// A listing below a user that only this user sees.
pub(super) async fn kept<L: Listing>(
    call: ToolCall<'_>,
    args: KeptArgs,
) -> Result<Json<L>, Problem> {
    let (after, username) = (args.after.as_deref(), args.username.as_deref());
    let wanted = ListingRequest { limit: args.limit.get(), after, username, sort: None };
    page(call.ctx, &wanted).await
}

/// A listing of a user's posts or comments.
pub(super) async fn written<L: Listing>(
    call: ToolCall<'_>,
    args: WrittenArgs,
) -> Result<Json<L>, Problem> {
    let (after, username) = (args.after.as_deref(), args.username.as_deref());
    let sort = Some(args.sort.unwrap_or_default());
    page(call.ctx, &ListingRequest { limit: args.limit.get(), after, username, sort }).await
}

async fn page<L: Listing>(
    ctx: &ConnectorContext,
    wanted: &ListingRequest<'_>,
) -> Result<Json<L>, Problem> {
    let limit = wanted.limit.to_string();
    let mut query = vec![("limit", limit.as_str()), ("raw_json", "1")];
    if let Some(after) = wanted.after {
        if !is_id(after) {
            return Err(BadArgument::new("after", "the `after` of an earlier answer").problem(NAME));
        }
        query.push(("after", after));
    }
    query.extend(wanted.sort.map(|sort| ("sort", sort.as_str())));
    let listing = match L::LISTING {
        ListingPath::At(path) => api::read(ctx, path, &query, L::LISTING.scope()).await?,
        ListingPath::Of(part) => {
            let name = whose(ctx, wanted.username).await?;
            api::read(ctx, &["user", &name, part], &query, L::LISTING.scope()).await?
        }
    };
    if listing.pointer("/data/children").is_none_or(|children| !children.is_array()) {
        return Err(api::unreadable());
    }
    Ok(Json(L::new(things(&listing), field::word(&listing, "/data/after"))))
}

async fn whose(ctx: &ConnectorContext, username: Option<&str>) -> Result<String, Problem> {
    let Some(given) = username else { return api::own_name(ctx).await };
    let name = given.trim_start_matches('/').trim_start_matches("u/");
    let is_name = |name: &str| {
        (1..=32).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let wrong = || BadArgument::new("username", "a user's name").problem(NAME);
    is_name(name).then(|| name.to_owned()).ok_or_else(wrong)
}

/// The items of one page.
pub(super) fn things(listing: &Value) -> Vec<Thing> {
    field::objects(listing, "/data/children").into_iter().map(thing).collect()
}

const POST: &[&str] = &[
    "title",
    "selftext",
    "author",
    "subreddit",
    "score",
    "upvote_ratio",
    "num_comments",
    "url",
    "is_self",
    "over_18",
    "locked",
    "link_flair_text",
    "edited",
];
const COMMENT: &[&str] = &[
    "body",
    "author",
    "subreddit",
    "score",
    "link_id",
    "link_title",
    "link_author",
    "parent_id",
    "edited",
    "was_comment",
    "new",
    "subject",
    "dest",
];
const MESSAGE: &[&str] =
    &["subject", "body", "author", "dest", "subreddit", "was_comment", "new", "parent_id"];
const SUBREDDIT: &[&str] = &[
    "display_name",
    "title",
    "public_description",
    "subscribers",
    "subreddit_type",
    "over18",
    "lang",
    "user_is_moderator",
    "user_is_contributor",
    "user_is_subscriber",
];

/// One item with its useful fields and its absolute URL.
fn thing(thing: &Value) -> Thing {
    let (kind, fields) = match thing.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "t1" => (ThingKind::Comment, COMMENT),
        "t3" => (ThingKind::Post, POST),
        "t4" => (ThingKind::Message, MESSAGE),
        "t5" => (ThingKind::Subreddit, SUBREDDIT),
        _ => (ThingKind::Other, &["title", "body", "author"][..]),
    };
    let empty = Value::Null;
    let data = thing.get("data").unwrap_or(&empty);
    let mut members = Map::new();
    for name in ["id", "name"].iter().chain(fields) {
        if let Some(value) = data.get(*name) {
            members.insert((*name).to_owned(), value.clone());
        }
    }
    if let Some(at_s) = data.get("created_utc").and_then(whole_seconds) {
        members.insert("created_utc".to_owned(), json!(at_s));
        let at = utc_millis(at_s.saturating_mul(1_000_000));
        members.insert("created_at".to_owned(), json!(at));
    }
    let path = data.get("permalink").or_else(|| data.get("url")).and_then(Value::as_str);
    if let Some(path) = path.filter(|path| path.starts_with('/')) {
        members.insert("permalink".to_owned(), json!(format!("https://www.reddit.com{path}")));
    }
    Thing { kind, members }
}

/// Reddit writes timestamps as decimals without a fraction.
fn whole_seconds(value: &Value) -> Option<i64> {
    crate::coerce::int(value)
}

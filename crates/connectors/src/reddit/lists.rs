//! Listings: posts, comments, messages and subreddits, page by page. What Reddit sends of each is
//! long; what tells the owner something is kept.

use serde_json::{Map, Value, json};

use super::{NAME, api};
use crate::Ask;
use crate::personal::{Given, Outcome, Problem, field, is_id};
use crate::when::utc_millis;

const LIMIT_MAX: usize = 100;
const SORTS: &[&str] = &["new", "hot", "top", "controversial"];

/// One listing of Reddit.
pub(super) struct List {
    place: Place,
    /// What the answer calls it.
    key: &'static str,
    sorted: bool,
}

enum Place {
    /// At a path of its own.
    At(&'static [&'static str]),
    /// Below a user.
    Of(&'static str),
}

impl List {
    fn scope(&self) -> &'static str {
        match self.place {
            Place::At(["message", ..]) => "privatemessages",
            Place::At(_) => "mysubreddits",
            Place::Of(_) => "history",
        }
    }
}

const fn at(path: &'static [&'static str], key: &'static str) -> List {
    List { place: Place::At(path), key, sorted: false }
}

const fn of(part: &'static str, key: &'static str, sorted: bool) -> List {
    List { place: Place::Of(part), key, sorted }
}

pub(super) const SUBSCRIBED: List = at(&["subreddits", "mine", "subscriber"], "subreddits");
pub(super) const MODERATED: List = at(&["subreddits", "mine", "moderator"], "moderated_subreddits");
pub(super) const CONTRIBUTOR: List =
    at(&["subreddits", "mine", "contributor"], "contributor_subreddits");
pub(super) const INBOX: List = at(&["message", "inbox"], "inbox_messages");
pub(super) const UNREAD: List = at(&["message", "unread"], "unread_messages");
pub(super) const SENT: List = at(&["message", "sent"], "sent_messages");
pub(super) const SUBMITTED: List = of("submitted", "submitted_posts", true);
pub(super) const COMMENTS: List = of("comments", "comments", true);
pub(super) const OVERVIEW: List = of("overview", "overview", true);
pub(super) const SAVED: List = of("saved", "saved_content", false);
pub(super) const HIDDEN: List = of("hidden", "hidden_posts", false);
pub(super) const UPVOTED: List = of("upvoted", "upvoted_content", false);
pub(super) const DOWNVOTED: List = of("downvoted", "downvoted_content", false);

pub(super) async fn page(ask: Ask<'_>, list: &List) -> Outcome {
    let given = Given::new(NAME, ask.arguments);
    let limit = given.limit(LIMIT_MAX, LIMIT_MAX)?.to_string();
    let mut query = vec![("limit", limit.as_str()), ("raw_json", "1")];
    if let Some(after) = given.text("after")? {
        if !is_id(after) {
            return Err(given.wrong("after", "the `after` of an earlier answer"));
        }
        query.push(("after", after));
    }
    if list.sorted {
        query.push(("sort", given.word("sort", SORTS, "new")?));
    }
    let listing = match list.place {
        Place::At(path) => api::read(ask.desk, path, &query, list.scope()).await?,
        Place::Of(part) => {
            let name = whose(&ask, &given).await?;
            api::read(ask.desk, &["user", &name, part], &query, list.scope()).await?
        }
    };
    if listing.pointer("/data/children").is_none_or(|children| !children.is_array()) {
        return Err(api::unreadable());
    }
    Ok(answer(list.key, &listing))
}

async fn whose(ask: &Ask<'_>, given: &Given<'_>) -> Result<String, Problem> {
    let Some(said) = given.text("username")? else { return api::own_name(ask.desk).await };
    let name = said.trim_start_matches('/').trim_start_matches("u/");
    let is_name = |name: &str| {
        (1..=32).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    if is_name(name) { Ok(name.to_owned()) } else { Err(given.wrong("username", "a user's name")) }
}

/// The things of one page.
pub(super) fn things(listing: &Value) -> Vec<Value> {
    field::objects(listing, "/data/children").into_iter().map(thing).collect()
}

fn answer(key: &str, listing: &Value) -> Value {
    let items = things(listing);
    let mut answer = Map::new();
    answer.insert("status".to_owned(), json!("success"));
    answer.insert("count".to_owned(), json!(items.len()));
    answer.insert(key.to_owned(), Value::Array(items));
    answer.insert("after".to_owned(), field::text(listing, "/data/after"));
    Value::Object(answer)
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

/// One thing with the fields that say something, and its address in full.
fn thing(thing: &Value) -> Value {
    let (kind, fields) = match thing.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "t1" => ("comment", COMMENT),
        "t3" => ("post", POST),
        "t4" => ("message", MESSAGE),
        "t5" => ("subreddit", SUBREDDIT),
        _ => ("other", &["title", "body", "author"][..]),
    };
    let empty = Value::Null;
    let data = thing.get("data").unwrap_or(&empty);
    let mut kept = Map::new();
    kept.insert("kind".to_owned(), json!(kind));
    for name in ["id", "name"].iter().chain(fields) {
        if let Some(value) = data.get(*name) {
            kept.insert((*name).to_owned(), value.clone());
        }
    }
    if let Some(at_s) = data.get("created_utc").and_then(whole_seconds) {
        kept.insert("created_utc".to_owned(), json!(at_s));
        let at = utc_millis(at_s.saturating_mul(1_000_000));
        kept.insert("created_at".to_owned(), json!(at));
    }
    let path = data.get("permalink").or_else(|| data.get("url")).and_then(Value::as_str);
    if let Some(path) = path.filter(|path| path.starts_with('/')) {
        kept.insert("permalink".to_owned(), json!(format!("https://www.reddit.com{path}")));
    }
    Value::Object(kept)
}

/// Reddit writes moments as decimals without a fraction.
fn whole_seconds(value: &Value) -> Option<i64> {
    crate::coerce::int(value)
}

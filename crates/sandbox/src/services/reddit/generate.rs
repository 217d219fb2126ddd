//! Generates the posts, saved items, votes, subscriptions and messages of a fictional user; some of each
//! per day.

use serde_json::{Value, json};

use crate::record_store::{GeneratedRecords, RecordKind};
use crate::rng::{Rng, real};
use crate::simulation::GenerateParams;
use crate::timestamp::DAY_MS;

pub(super) const KINDS: &[RecordKind] = &[
    RecordKind::at("post", "/data/name", "/data/created_utc"),
    RecordKind::at("comment", "/data/name", "/data/created_utc"),
    RecordKind::at("saved", "/data/name", "/at"),
    RecordKind::at("upvoted", "/data/name", "/at"),
    RecordKind::at("downvoted", "/data/name", "/at"),
    RecordKind::at("hidden", "/data/name", "/at"),
    RecordKind::new("subscribed", "/data/name"),
    RecordKind::new("moderated", "/data/name"),
    RecordKind::new("contributor", "/data/name"),
    RecordKind::at("inbox", "/data/name", "/data/created_utc"),
    RecordKind::at("sent", "/data/name", "/data/created_utc"),
    RecordKind::new("trophy", "/data/name"),
    RecordKind::new("karma", "/sr"),
];

/// Other users whose posts are readable.
pub(super) const OTHERS: &[&str] = &["tea_and_types", "borrowchecked", "northern_lights_fan"];

const SUBREDDITS: &[&str] = &[
    "rust",
    "AskHistorians",
    "running",
    "Breadit",
    "selfhosted",
    "dataisbeautiful",
    "bicycling",
    "de",
    "LocalLLaMA",
    "woodworking",
    "Mechanicalkeyboards",
    "gardening",
];
const TITLES: &[&str] = &[
    "I rewrote my backup script & regret nothing",
    "What is this plant?",
    "First 10k <3",
    "Weekly thread: what are you working on?",
    "TIL about `cargo tree -d`",
    "Sourdough, day 40",
    "Ist das normal?",
    "My keyboard, finally finished",
];
const BODIES: &[&str] = &[
    "I had the same problem & solved it by reading the manual.",
    "Source? a < b does not imply that.",
    "Thank you, this made my day!",
    "Counterpoint: no.",
    "> quoted\n\nThis is the way.",
    "It depends on the weather, honestly.",
    "Deutlich besser als letztes Jahr 👍",
];
const ITEMS_BEFORE: i64 = 160;

pub(super) fn name(seed: u64) -> String {
    format!("sandbox_{}", Rng::stream(seed, "redditor", 0).word(6).to_lowercase())
}

pub(super) fn is_new(message: &Value) -> bool {
    message.pointer("/data/new") == Some(&json!(true))
}

/// Generates one item; the tables have the kind, the mean number per day, and this function.
type One = fn(GenerateParams, &str, i64, i64) -> Value;

pub(super) fn generate(params: GenerateParams) -> GeneratedRecords {
    let rows: &[(&'static str, f64, One)] = &[
        ("post", 0.25, own_post),
        ("comment", 0.9, own_comment),
        ("saved", 0.5, others_thing),
        ("upvoted", 1.2, others_post),
        ("downvoted", 0.3, others_post),
        ("hidden", 0.15, others_post),
        ("inbox", 0.6, received),
        ("sent", 0.3, sent),
    ];
    let mut generate: GeneratedRecords = rows
        .iter()
        .map(|(kind, mean, one)| {
            let moments = moments(params, kind, *mean).into_iter().enumerate();
            let number = |n: usize| i64::try_from(n).unwrap_or(0);
            (*kind, moments.map(|(n, at_ms)| one(params, kind, number(n), at_ms)).collect())
        })
        .collect();
    mark_new(&mut generate);
    let karma = karma(params);
    generate.push(("subscribed", (0..130).map(|n| subreddit(params, n)).collect()));
    generate.push(("moderated", (0..2).map(|n| subreddit(params, n)).collect()));
    generate.push(("contributor", (3..6).map(|n| subreddit(params, n)).collect()));
    generate.push(("trophy", trophies()));
    generate.push(("karma", karma));
    generate
}

/// The times of items, oldest first: some before the first day, and those of each day.
fn moments(params: GenerateParams, kind: &str, mean: f64) -> Vec<i64> {
    let before = (0..ITEMS_BEFORE).rev().map(|n| {
        (params.first_day - 1 - n * 2) * DAY_MS + params.rng(kind, -1 - n).whole(0, DAY_MS - 1)
    });
    let mut all: Vec<i64> = before.collect();
    for day in params.days() {
        let mut rng = params.rng(kind, day);
        let count = crate::rng::whole(rng.between(0.0, mean * 2.0) + rng.unit());
        let mut of_day: Vec<i64> =
            (0..count).map(|_| day * DAY_MS + rng.whole(0, DAY_MS - 1)).collect();
        of_day.sort_unstable();
        all.extend(of_day);
    }
    all.retain(|at_ms| *at_ms < params.now_ms);
    all
}

/// The three newest messages have not been read.
fn mark_new(generate: &mut GeneratedRecords) {
    let inbox = generate.iter_mut().find(|(kind, _)| *kind == "inbox");
    let newest = inbox.into_iter().flat_map(|(_, list)| list.iter_mut().rev().take(3));
    for message in newest {
        if let Some(new) = message.pointer_mut("/data/new") {
            *new = json!(true);
        }
    }
}

/// The full name of a thing, such as `t3_1sbx0a`, unique for each kind and number.
fn full_name(prefix: &str, kind: &str, number: i64) -> String {
    let mark = kind.bytes().fold(7_i64, |sum, byte| (sum * 31 + i64::from(byte)) % 46_655);
    format!("{prefix}_1{}{}", base36(mark, 3), base36(number, 4))
}

fn base36(mut number: i64, digits: usize) -> String {
    let mut text = Vec::new();
    for _ in 0..digits {
        let digit = u8::try_from(number % 36).unwrap_or(0);
        text.push(char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }));
        number /= 36;
    }
    text.into_iter().rev().collect()
}

fn own_post(params: GenerateParams, kind: &str, number: i64, at_ms: i64) -> Value {
    post(params, kind, number, at_ms, &name(params.seed))
}

fn own_comment(params: GenerateParams, kind: &str, number: i64, at_ms: i64) -> Value {
    comment(params, kind, number, at_ms, &name(params.seed))
}

/// A post of another user in a list of the owner; `at` is when it was added.
fn others_post(params: GenerateParams, kind: &str, number: i64, at_ms: i64) -> Value {
    let author = author(&mut params.rng("author", number));
    kept(post(params, kind, number, at_ms - DAY_MS, author), at_ms)
}

/// Saved things are posts and comments mixed.
fn others_thing(params: GenerateParams, kind: &str, number: i64, at_ms: i64) -> Value {
    if number % 3 != 0 {
        return others_post(params, kind, number, at_ms);
    }
    let author = author(&mut params.rng("author", number));
    kept(comment(params, kind, number, at_ms - DAY_MS, author), at_ms)
}

/// With the time it was added to the list, which the API does not return.
fn kept(mut thing: Value, at_ms: i64) -> Value {
    if let Some(thing) = thing.as_object_mut() {
        thing.insert("at".to_owned(), json!(at_ms / 1_000));
    }
    thing
}

fn author(rng: &mut Rng) -> &'static str {
    // Posts of deleted accounts stay.
    if rng.happens(0.08) { "[deleted]" } else { rng.pick(OTHERS).copied().unwrap_or_default() }
}

pub(super) fn post(
    params: GenerateParams,
    kind: &str,
    number: i64,
    at_ms: i64,
    author: &str,
) -> Value {
    let mut rng = params.rng(kind, 1_000_000 + number);
    let name = full_name("t3", kind, number);
    let id = name.trim_start_matches("t3_").to_owned();
    let subreddit = rng.pick(SUBREDDITS).copied().unwrap_or_default();
    let title = rng.pick(TITLES).copied().unwrap_or_default();
    let is_self = rng.happens(0.6);
    let link = format!("/r/{subreddit}/comments/{id}/sandbox/");
    let ups = rng.whole(0, 4_000);
    json!({ "kind": "t3", "data": {
        "id": id,
        "name": name,
        "title": title,
        "selftext": if is_self { rng.pick(BODIES).copied().unwrap_or_default() } else { "" },
        "author": author,
        "subreddit": subreddit,
        "subreddit_name_prefixed": format!("r/{subreddit}"),
        "subreddit_id": full_name("t5", "subscribed", rng.whole(0, 11)),
        "created_utc": real(at_ms / 1_000),
        "created": real(at_ms / 1_000),
        "score": ups,
        "ups": ups,
        "downs": 0,
        "upvote_ratio": crate::rng::decimals(rng.between(0.55, 0.99), 2),
        "num_comments": rng.whole(0, 400),
        "permalink": link,
        "url": if is_self { format!("https://www.reddit.com{link}") } else { format!("https://i.redd.it/{}.jpg", rng.word(13).to_lowercase()) },
        "is_self": is_self,
        "over_18": false,
        "spoiler": false,
        "locked": rng.happens(0.03),
        "stickied": false,
        "link_flair_text": null,
        "edited": false,
        "likes": match kind {
            "upvoted" => json!(true),
            "downvoted" => json!(false),
            _ => Value::Null,
        },
        "saved": kind == "saved",
        "hidden": kind == "hidden",
    } })
}

pub(super) fn comment(
    params: GenerateParams,
    kind: &str,
    number: i64,
    at_ms: i64,
    author: &str,
) -> Value {
    let mut rng = params.rng(kind, 2_000_000 + number);
    let name = full_name("t1", kind, number);
    let id = name.trim_start_matches("t1_").to_owned();
    let subreddit = rng.pick(SUBREDDITS).copied().unwrap_or_default();
    let of = full_name("t3", "thread", rng.whole(0, 9_999));
    let body = if author == "[deleted]" {
        "[deleted]"
    } else {
        rng.pick(BODIES).copied().unwrap_or_default()
    };
    let score = rng.whole(-12, 900);
    json!({ "kind": "t1", "data": {
        "id": id,
        "name": name,
        "body": body,
        "author": author,
        "subreddit": subreddit,
        "subreddit_name_prefixed": format!("r/{subreddit}"),
        "link_id": of,
        "parent_id": of,
        "link_title": rng.pick(TITLES).copied().unwrap_or_default(),
        "link_author": self::author(&mut rng),
        "permalink": format!("/r/{subreddit}/comments/{}/sandbox/{id}/", of.trim_start_matches("t3_")),
        "created_utc": real(at_ms / 1_000),
        "created": real(at_ms / 1_000),
        // An edited comment has a time, others have `false`.
        "edited": if rng.happens(0.1) { json!(real(at_ms / 1_000 + 90)) } else { json!(false) },
        "score": score,
        "ups": score,
        "downs": 0,
        "controversiality": 0,
        "likes": null,
        "saved": kind == "saved",
    } })
}

/// Messages, and sometimes a reply to a comment.
fn received(params: GenerateParams, kind: &str, number: i64, at_ms: i64) -> Value {
    let mut rng = params.rng(kind, 3_000_000 + number);
    let from = self::author(&mut rng);
    if number % 4 != 0 {
        return message(params, kind, number, at_ms, (from, &name(params.seed)));
    }
    let mut response = comment(params, kind, number, at_ms, from);
    if let Some(data) = response.pointer_mut("/data").and_then(Value::as_object_mut) {
        data.insert("was_comment".to_owned(), json!(true));
        data.insert("new".to_owned(), json!(false));
        data.insert("subject".to_owned(), json!("comment reply"));
        data.insert("dest".to_owned(), json!(name(params.seed)));
    }
    response
}

fn sent(params: GenerateParams, kind: &str, number: i64, at_ms: i64) -> Value {
    let to = self::author(&mut params.rng(kind, 3_000_000 + number));
    message(params, kind, number, at_ms, (&name(params.seed), to))
}

fn message(
    params: GenerateParams,
    kind: &str,
    number: i64,
    at_ms: i64,
    between: (&str, &str),
) -> Value {
    let mut rng = params.rng(kind, 4_000_000 + number);
    let name = full_name("t4", kind, number);
    let author = if between.0 == "[deleted]" { Value::Null } else { json!(between.0) };
    json!({ "kind": "t4", "data": {
        "id": name.trim_start_matches("t4_"),
        "name": name,
        "subject": "about your post",
        "body": rng.pick(BODIES).copied().unwrap_or_default(),
        "author": author,
        "dest": between.1,
        "created_utc": real(at_ms / 1_000),
        "created": real(at_ms / 1_000),
        "was_comment": false,
        "new": false,
        "replies": "",
        "context": "",
        "subreddit": null,
    } })
}

fn subreddit(params: GenerateParams, number: i64) -> Value {
    let mut rng = params.rng("subreddit", number);
    let at = usize::try_from(number).unwrap_or(0);
    let display =
        SUBREDDITS.get(at).map_or_else(|| format!("sandbox_{number}"), |name| (*name).to_owned());
    let name = full_name("t5", "subscribed", number);
    json!({ "kind": "t5", "data": {
        "id": name.trim_start_matches("t5_"),
        "name": name,
        "display_name": display,
        "display_name_prefixed": format!("r/{display}"),
        "title": format!("All about {display}"),
        "public_description": "A place to talk & share.",
        "subscribers": rng.whole(300, 9_000_000),
        "created_utc": real(1_200_000_000 + rng.whole(0, 400_000_000)),
        "over18": false,
        "subreddit_type": if rng.happens(0.1) { "private" } else { "public" },
        "url": format!("/r/{display}/"),
        "user_is_subscriber": true,
        "user_is_moderator": number < 2,
        "user_is_contributor": (3..6).contains(&number),
        "lang": "en",
        "icon_img": "",
    } })
}

fn trophies() -> Vec<Value> {
    let one = |name: &str, description: Option<&str>, granted_at: Option<i64>| {
        json!({ "kind": "t6", "data": {
            "name": name,
            "description": description,
            "icon_70": format!("https://www.redditstatic.com/awards2/{}-70.png", name.to_lowercase().replace(' ', "_")),
            "icon_40": format!("https://www.redditstatic.com/awards2/{}-40.png", name.to_lowercase().replace(' ', "_")),
            "granted_at": granted_at,
            "award_id": null,
            "id": null,
            "url": null,
        } })
    };
    vec![
        one("Twelve-Year Club", None, Some(1_767_225_600)),
        one("Verified Email", None, None),
        one("Place '22", Some("placed 14 tiles"), Some(1_649_000_000)),
    ]
}

fn karma(params: GenerateParams) -> Vec<Value> {
    let one = |(number, name): (usize, &&str)| {
        let mut rng = params.rng("karma", i64::try_from(number).unwrap_or(0));
        json!({ "sr": name, "comment_karma": rng.whole(-20, 6_000), "link_karma": rng.whole(0, 9_000) })
    };
    SUBREDDITS.iter().enumerate().map(one).collect()
}

//! The channels and videos there are, and what the made-up viewer subscribed to, collected and liked.
//! Some have no thumbnails, some no statistics, some hide how many follow them.

use serde_json::{Value, json};

use crate::moment::{self, DAY_MS};
use crate::room::Ask;
use crate::shelves::{Kind, World};

pub(super) const KINDS: &[Kind] = &[
    Kind::new("channel", "/id"),
    Kind::new("video", "/id"),
    Kind::new("subscription", "/id"),
    Kind::new("playlist", "/id"),
    Kind::new("playlist_item", "/id"),
    Kind::at("like", "/video/id", "/at"),
];

/// Number 0 is the owner's.
const CHANNELS: i64 = 64;
const VIDEOS_EACH: i64 = 5;
const VIDEOS: i64 = CHANNELS * VIDEOS_EACH;
const SUBSCRIPTIONS: i64 = 58;
const PLAYLISTS: i64 = 55;
const LONG_PLAYLIST: i64 = 120;
const LIKED_BEFORE: i64 = 130;

const TOPICS: &[&str] = &[
    "Rust",
    "Cooking",
    "Running",
    "Physics",
    "Jazz Music",
    "Gaming",
    "Woodworking",
    "Astronomy",
    "Python",
    "Travel",
    "Chess",
    "Gardening",
    "History",
    "Bicycles",
    "Machine Learning",
    "Coffee",
];
const FORMS: &[&str] = &[
    "{} in 10 minutes",
    "Why {} is harder than you think",
    "{} & friends: a deep dive",
    "I tried {} for 30 days",
    "The \"best\" {} of the year",
    "{} Livestream – Q&A",
    "{} 入門",
];

pub(super) fn world(ask: Ask) -> World {
    vec![
        ("channel", (0..CHANNELS).map(|n| channel(ask, n)).collect()),
        ("video", (0..VIDEOS).map(|n| video(ask, n)).collect()),
        ("subscription", (1..=SUBSCRIPTIONS).map(|n| subscription(ask, n)).collect()),
        ("playlist", (0..PLAYLISTS).map(|n| playlist(ask, n)).collect()),
        ("playlist_item", (0..PLAYLISTS).flat_map(|n| items(ask, n)).collect()),
        ("like", likes(ask)),
    ]
}

fn id(ask: Ask, subject: &str, number: i64, prefix: &str, length: usize) -> String {
    format!("{prefix}{}", ask.chance(subject, number).word(length))
}

fn channel_id(ask: Ask, number: i64) -> String {
    id(ask, "channel", number, "UC", 22)
}

fn video_id(ask: Ask, number: i64) -> String {
    id(ask, "video", number, "", 11)
}

fn channel_title(number: i64) -> String {
    if number == 0 {
        "Sandbox Viewer".to_owned()
    } else {
        format!("{} Channel {number}", topic(number))
    }
}

fn topic(number: i64) -> &'static str {
    let length = i64::try_from(TOPICS.len()).unwrap_or(1);
    let at = usize::try_from(number.rem_euclid(length)).unwrap_or(0);
    TOPICS.get(at).copied().unwrap_or_default()
}

fn title(ask: Ask, number: i64) -> String {
    let form = ask.chance("form", number).pick(FORMS).copied().unwrap_or_default();
    form.replace("{}", topic(number / VIDEOS_EACH))
}

fn thumbnails(kind: &str, id: &str) -> Value {
    let one = |name: &str, width: u32, height: u32| json!({ "url": format!("https://i.ytimg.com/{kind}/{id}/{name}.jpg"), "width": width, "height": height });
    json!({ "default": one("default", 120, 90), "medium": one("mqdefault", 320, 180), "high": one("hqdefault", 480, 360) })
}

fn drop_field(value: &mut Value, pointer: &str, name: &str) {
    if let Some(fields) = value.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.shift_remove(name);
    }
}

fn long_ago(ask: Ask, subject: &str, number: i64) -> String {
    let mut chance = ask.chance(subject, number);
    moment::seconds((14_600 + chance.whole(0, 5_600)) * DAY_MS + chance.whole(0, DAY_MS - 1))
}

fn channel(ask: Ask, number: i64) -> Value {
    let id = channel_id(ask, number);
    let mut chance = ask.chance("channel figures", number);
    let title = channel_title(number);
    let hidden = number % 6 == 4;
    let mut channel = json!({
        "kind": "youtube#channel",
        "etag": chance.word(27),
        "id": id,
        "snippet": {
            "title": title,
            "description": format!("All about {}.", topic(number)),
            "customUrl": format!("@{}", title.to_lowercase().replace(' ', "-")),
            "publishedAt": long_ago(ask, "channel begun", number),
            "thumbnails": thumbnails("ch", &id),
            "country": "GB",
        },
        "contentDetails": { "relatedPlaylists": { "likes": "LL", "uploads": id.replacen("UC", "UU", 1) } },
        "statistics": {
            "viewCount": chance.whole(1_000, 900_000_000).to_string(),
            "subscriberCount": chance.whole(10, 4_000_000).to_string(),
            "hiddenSubscriberCount": hidden,
            "videoCount": VIDEOS_EACH.to_string(),
        },
    });
    if hidden {
        drop_field(&mut channel, "/statistics", "subscriberCount");
    }
    if number % 4 == 1 {
        drop_field(&mut channel, "/snippet", "country");
    }
    channel
}

fn video(ask: Ask, number: i64) -> Value {
    let id = video_id(ask, number);
    let mut chance = ask.chance("video figures", number);
    let of = number / VIDEOS_EACH;
    let views = chance.whole(40, 30_000_000);
    let mut video = json!({
        "kind": "youtube#video",
        "etag": chance.word(27),
        "id": id,
        "snippet": {
            "publishedAt": long_ago(ask, "video begun", number),
            "channelId": channel_id(ask, of),
            "title": title(ask, number),
            "description": format!("Everything you wanted to know about {}.\n\nChapters:\n00:00 Start\n", topic(of)).repeat(4),
            "thumbnails": thumbnails("vi", &id),
            "channelTitle": channel_title(of),
            "tags": [topic(of).to_lowercase(), "sandbox"],
            "categoryId": "28",
            "liveBroadcastContent": "none",
        },
        "contentDetails": {
            "duration": format!("PT{}M{}S", chance.whole(1, 59), chance.whole(0, 59)),
            "dimension": "2d",
            "definition": "hd",
            "caption": "false",
        },
        "statistics": {
            "viewCount": views.to_string(),
            "likeCount": (views / 31).to_string(),
            "favoriteCount": "0",
            "commentCount": (views / 900).to_string(),
        },
        "status": { "uploadStatus": "processed", "privacyStatus": "public", "madeForKids": false },
    });
    let gone: &[(bool, &str, &str)] = &[
        (number % 17 == 5, "/snippet", "thumbnails"),
        (number % 13 == 7, "", "statistics"),
        (number % 11 == 3, "/statistics", "likeCount"),
        (number % 19 == 2, "/statistics", "commentCount"),
        (number % 5 == 4, "/snippet", "tags"),
    ];
    for (_, pointer, name) in gone.iter().filter(|(gone, ..)| *gone) {
        drop_field(&mut video, pointer, name);
    }
    video
}

/// A result of a search: less is said, and titles are written for web pages.
pub(super) fn result(kind: &str, thing: &Value) -> Value {
    let mut snippet = thing.get("snippet").cloned().unwrap_or_default();
    for name in ["tags", "categoryId", "customUrl", "country"] {
        drop_field(&mut snippet, "", name);
    }
    if let Some(Value::String(title)) = snippet.pointer_mut("/title") {
        *title = title.replace('&', "&amp;").replace('"', "&quot;");
    }
    let id = match kind {
        "channel" => json!({ "kind": "youtube#channel", "channelId": thing.get("id") }),
        _ => json!({ "kind": "youtube#video", "videoId": thing.get("id") }),
    };
    json!({ "kind": "youtube#searchResult", "etag": thing.get("etag"), "id": id, "snippet": snippet })
}

fn subscription(ask: Ask, number: i64) -> Value {
    let of = channel_id(ask, number);
    let mut subscription = json!({
        "kind": "youtube#subscription",
        "etag": id(ask, "subscription etag", number, "", 27),
        "id": id(ask, "subscription", number, "", 43),
        "snippet": {
            "publishedAt": long_ago(ask, "subscribed", number),
            "title": channel_title(number),
            "description": format!("All about {}.", topic(number)),
            "resourceId": { "kind": "youtube#channel", "channelId": of },
            "channelId": channel_id(ask, 0),
            "thumbnails": thumbnails("ch", &of),
        },
        "contentDetails": { "totalItemCount": VIDEOS_EACH, "newItemCount": 0, "activityType": "all" },
    });
    if number % 9 == 4 {
        drop_field(&mut subscription, "/snippet", "thumbnails");
    }
    subscription
}

fn playlist_id(ask: Ask, number: i64) -> String {
    id(ask, "playlist", number, "PL", 32)
}

/// The first is long, the second is empty.
fn length(number: i64) -> i64 {
    match number {
        0 => LONG_PLAYLIST,
        1 => 0,
        _ => 2 + number % 7,
    }
}

fn playlist(ask: Ask, number: i64) -> Value {
    let id = playlist_id(ask, number);
    let mut playlist = json!({
        "kind": "youtube#playlist",
        "etag": ask.chance("playlist etag", number).word(27),
        "id": id,
        "snippet": {
            "publishedAt": long_ago(ask, "playlist begun", number),
            "channelId": channel_id(ask, 0),
            "title": format!("{} to watch {}", topic(number), number + 1),
            "description": "",
            "thumbnails": thumbnails("pl", &id),
            "channelTitle": channel_title(0),
        },
        "status": { "privacyStatus": if number % 3 == 0 { "private" } else { "public" } },
        "contentDetails": { "itemCount": length(number) },
    });
    if number % 10 == 3 {
        drop_field(&mut playlist, "/snippet", "thumbnails");
    }
    playlist
}

fn items(ask: Ask, number: i64) -> Vec<Value> {
    let list = playlist_id(ask, number);
    let item = |place: i64| {
        let of = (number * 11 + place * 3) % VIDEOS;
        let video = video_id(ask, of);
        // A video that was taken away leaves its place behind.
        let (title, gone) =
            if place == 1 { ("Deleted video".to_owned(), true) } else { (title(ask, of), false) };
        json!({
            "kind": "youtube#playlistItem",
            "etag": id(ask, "item etag", number * 1_000 + place, "", 27),
            "id": id(ask, "item", number * 1_000 + place, "", 48),
            "snippet": {
                "publishedAt": long_ago(ask, "item added", number * 1_000 + place),
                "channelId": channel_id(ask, 0),
                "title": title,
                "description": "",
                "thumbnails": if gone { json!({}) } else { thumbnails("vi", &video) },
                "channelTitle": channel_title(0),
                "playlistId": list,
                "position": place,
                "resourceId": { "kind": "youtube#video", "videoId": video },
                "videoOwnerChannelTitle": channel_title(of / VIDEOS_EACH),
            },
            "contentDetails": { "videoId": video },
        })
    };
    (0..length(number)).map(item).collect()
}

/// Those from before the first day, and what the days brought; each video once.
fn likes(ask: Ask) -> Vec<Value> {
    let mut moments: Vec<i64> = (0..LIKED_BEFORE)
        .map(|n| (ask.first_day - 1 - n * 4) * DAY_MS + ask.chance("liked", n).whole(0, DAY_MS - 1))
        .collect();
    for day in ask.days() {
        let mut chance = ask.chance("likes", day);
        if chance.happens(0.3) {
            moments.push(day * DAY_MS + chance.whole(0, DAY_MS - 1));
        }
    }
    moments.retain(|at_ms| *at_ms < ask.now_ms);
    let like = |(n, at_ms): (i64, i64)| {
        // 77 and the number of videos have no common divisor.
        json!({ "at": moment::seconds(at_ms), "video": video(ask, n * 77 % VIDEOS) })
    };
    (0..VIDEOS).zip(moments).map(like).collect()
}

/// A like as an entry of the list `LL`.
pub(super) fn liked_item(place: usize, like: &Value) -> Value {
    let video = like.get("video").cloned().unwrap_or_default();
    let mut snippet = video.get("snippet").cloned().unwrap_or_default();
    if let Some(snippet) = snippet.as_object_mut() {
        snippet.insert("publishedAt".to_owned(), like.get("at").cloned().unwrap_or_default());
        snippet.insert("playlistId".to_owned(), json!("LL"));
        snippet.insert("position".to_owned(), json!(place));
        let of = json!({ "kind": "youtube#video", "videoId": video.get("id") });
        snippet.insert("resourceId".to_owned(), of);
    }
    json!({
        "kind": "youtube#playlistItem",
        "etag": video.get("etag"),
        "id": format!("TEw.{}", video.get("id").and_then(Value::as_str).unwrap_or_default()),
        "snippet": snippet,
        "contentDetails": { "videoId": video.get("id"), "videoPublishedAt": video.pointer("/snippet/publishedAt") },
    })
}

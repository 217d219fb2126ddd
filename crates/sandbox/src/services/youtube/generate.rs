//! Generates channels and videos, and the subscriptions, playlists and likes of a fictional viewer. Some have
//! no thumbnails, some no statistics, some hide their subscriber count.

use serde_json::{Value, json};

use crate::record_store::{GeneratedRecords, RecordKind};
use crate::simulation::GenerateParams;
use crate::timestamp::{self, DAY_MS};

pub(super) const KINDS: &[RecordKind] = &[
    RecordKind::new("channel", "/id"),
    RecordKind::new("video", "/id"),
    RecordKind::new("subscription", "/id"),
    RecordKind::new("playlist", "/id"),
    RecordKind::new("playlist_item", "/id"),
    RecordKind::at("like", "/video/id", "/at"),
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

pub(super) fn generate(params: GenerateParams) -> GeneratedRecords {
    vec![
        ("channel", (0..CHANNELS).map(|n| channel(params, n)).collect()),
        ("video", (0..VIDEOS).map(|n| video(params, n)).collect()),
        ("subscription", (1..=SUBSCRIPTIONS).map(|n| subscription(params, n)).collect()),
        ("playlist", (0..PLAYLISTS).map(|n| playlist(params, n)).collect()),
        ("playlist_item", (0..PLAYLISTS).flat_map(|n| items(params, n)).collect()),
        ("like", likes(params)),
    ]
}

fn id(params: GenerateParams, subject: &str, number: i64, prefix: &str, length: usize) -> String {
    format!("{prefix}{}", params.rng(subject, number).word(length))
}

fn channel_id(params: GenerateParams, number: i64) -> String {
    id(params, "channel", number, "UC", 22)
}

fn video_id(params: GenerateParams, number: i64) -> String {
    id(params, "video", number, "", 11)
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

fn title(params: GenerateParams, number: i64) -> String {
    let form = params.rng("form", number).pick(FORMS).copied().unwrap_or_default();
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

fn long_ago(params: GenerateParams, subject: &str, number: i64) -> String {
    let mut rng = params.rng(subject, number);
    timestamp::seconds((14_600 + rng.whole(0, 5_600)) * DAY_MS + rng.whole(0, DAY_MS - 1))
}

fn channel(params: GenerateParams, number: i64) -> Value {
    let id = channel_id(params, number);
    let mut rng = params.rng("channel figures", number);
    let title = channel_title(number);
    let hidden = number % 6 == 4;
    let mut channel = json!({
        "kind": "youtube#channel",
        "etag": rng.word(27),
        "id": id,
        "snippet": {
            "title": title,
            "description": format!("All about {}.", topic(number)),
            "customUrl": format!("@{}", title.to_lowercase().replace(' ', "-")),
            "publishedAt": long_ago(params, "channel begun", number),
            "thumbnails": thumbnails("ch", &id),
            "country": "GB",
        },
        "contentDetails": { "relatedPlaylists": { "likes": "LL", "uploads": id.replacen("UC", "UU", 1) } },
        "statistics": {
            "viewCount": rng.whole(1_000, 900_000_000).to_string(),
            "subscriberCount": rng.whole(10, 4_000_000).to_string(),
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

fn video(params: GenerateParams, number: i64) -> Value {
    let id = video_id(params, number);
    let mut rng = params.rng("video figures", number);
    let of = number / VIDEOS_EACH;
    let views = rng.whole(40, 30_000_000);
    let mut video = json!({
        "kind": "youtube#video",
        "etag": rng.word(27),
        "id": id,
        "snippet": {
            "publishedAt": long_ago(params, "video begun", number),
            "channelId": channel_id(params, of),
            "title": title(params, number),
            "description": format!("Everything you wanted to know about {}.\n\nChapters:\n00:00 Start\n", topic(of)).repeat(4),
            "thumbnails": thumbnails("vi", &id),
            "channelTitle": channel_title(of),
            "tags": [topic(of).to_lowercase(), "sandbox"],
            "categoryId": "28",
            "liveBroadcastContent": "none",
        },
        "contentDetails": {
            "duration": format!("PT{}M{}S", rng.whole(1, 59), rng.whole(0, 59)),
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

/// A search result: fewer fields, and titles escaped for HTML.
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

fn subscription(params: GenerateParams, number: i64) -> Value {
    let of = channel_id(params, number);
    let mut subscription = json!({
        "kind": "youtube#subscription",
        "etag": id(params, "subscription etag", number, "", 27),
        "id": id(params, "subscription", number, "", 43),
        "snippet": {
            "publishedAt": long_ago(params, "subscribed", number),
            "title": channel_title(number),
            "description": format!("All about {}.", topic(number)),
            "resourceId": { "kind": "youtube#channel", "channelId": of },
            "channelId": channel_id(params, 0),
            "thumbnails": thumbnails("ch", &of),
        },
        "contentDetails": { "totalItemCount": VIDEOS_EACH, "newItemCount": 0, "activityType": "all" },
    });
    if number % 9 == 4 {
        drop_field(&mut subscription, "/snippet", "thumbnails");
    }
    subscription
}

fn playlist_id(params: GenerateParams, number: i64) -> String {
    id(params, "playlist", number, "PL", 32)
}

/// The first is long, the second is empty.
fn length(number: i64) -> i64 {
    match number {
        0 => LONG_PLAYLIST,
        1 => 0,
        _ => 2 + number % 7,
    }
}

fn playlist(params: GenerateParams, number: i64) -> Value {
    let id = playlist_id(params, number);
    let mut playlist = json!({
        "kind": "youtube#playlist",
        "etag": params.rng("playlist etag", number).word(27),
        "id": id,
        "snippet": {
            "publishedAt": long_ago(params, "playlist begun", number),
            "channelId": channel_id(params, 0),
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

fn items(params: GenerateParams, number: i64) -> Vec<Value> {
    let list = playlist_id(params, number);
    let item = |place: i64| {
        let of = (number * 11 + place * 3) % VIDEOS;
        let video = video_id(params, of);
        // A removed video keeps its position.
        let (title, gone) = if place == 1 {
            ("Deleted video".to_owned(), true)
        } else {
            (title(params, of), false)
        };
        json!({
            "kind": "youtube#playlistItem",
            "etag": id(params, "item etag", number * 1_000 + place, "", 27),
            "id": id(params, "item", number * 1_000 + place, "", 48),
            "snippet": {
                "publishedAt": long_ago(params, "item added", number * 1_000 + place),
                "channelId": channel_id(params, 0),
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

/// Those from before the first day, and those of each day; each video once.
fn likes(params: GenerateParams) -> Vec<Value> {
    let mut moments: Vec<i64> = (0..LIKED_BEFORE)
        .map(|n| {
            (params.first_day - 1 - n * 4) * DAY_MS + params.rng("liked", n).whole(0, DAY_MS - 1)
        })
        .collect();
    for day in params.days() {
        let mut rng = params.rng("likes", day);
        if rng.happens(0.3) {
            moments.push(day * DAY_MS + rng.whole(0, DAY_MS - 1));
        }
    }
    moments.retain(|at_ms| *at_ms < params.now_ms);
    let like = |(n, at_ms): (i64, i64)| {
        // 77 and the number of videos are coprime.
        json!({ "at": timestamp::seconds(at_ms), "video": video(params, n * 77 % VIDEOS) })
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

//! Generates videos and the activity of a fictional viewer: followings, history, favourites and the
//! watch-later list. The history includes broadcasts and articles.

use serde_json::{Value, json};

use crate::record_store::{GeneratedRecords, RecordKind};
use crate::rng::Rng;
use crate::simulation::GenerateParams;
use crate::timestamp::{DAY_MS, HOUR_MS};

pub(super) const KINDS: &[RecordKind] = &[
    RecordKind::new("video", "/bvid"),
    RecordKind::at("following", "/mid", "/mtime"),
    RecordKind::at("history", "/kid", "/view_at"),
    RecordKind::new("folder", "/id"),
    RecordKind::at("favourite", "/media/id", "/media/fav_time"),
    RecordKind::at("toview", "/bvid", "/add_at"),
];

const VIDEOS: i64 = 240;
/// Uploaders.
const UPS: i64 = 130;
const FOLDERS: i64 = 6;
const TO_VIEW: i64 = 34;
/// History is kept for this many days.
const HISTORY_DAYS: i64 = 90;

const TITLES: &[&str] = &[
    "【教程】十分钟学会 Rust",
    "深夜食堂：番茄炒蛋",
    "城市漫步 Vol.{}",
    "机械键盘打字音",
    "历史上的今天",
    "【4K】雪山日出",
    "Rust &amp; C++：<em class=\"keyword\">谁更快</em>？",
    "猫咪日常 {}",
    "吉他弹唱《夜空》",
];
const NAMES: &[&str] =
    &["小明说", "夜航船", "阿泽Aze", "老张的工坊", "量子兔", "南山南", "TechCat"];

pub(super) fn owner_mid(seed: u64) -> i64 {
    Rng::stream(seed, "bilibili owner", 0).whole(10_000_000, 400_000_000)
}

fn up_mid(seed: u64, number: i64) -> i64 {
    500_000_000 + Rng::stream(seed, "up", 0).whole(0, 9_999) * 1_000 + number
}

pub(super) fn up_number(seed: u64, mid: i64) -> Option<i64> {
    (0..UPS).find(|number| up_mid(seed, *number) == mid)
}

fn up_name(number: i64) -> String {
    let length = i64::try_from(NAMES.len()).unwrap_or(1);
    let at = usize::try_from(number.rem_euclid(length)).unwrap_or(0);
    format!("{}{number}", NAMES.get(at).copied().unwrap_or_default())
}

fn picture(kind: &str, number: i64) -> String {
    format!(
        "http://i0.hdslb.com/bfs/{kind}/{}.jpg",
        Rng::stream(0, kind, number).word(32).to_lowercase()
    )
}

pub(super) fn owner(seed: u64, following: usize) -> Value {
    json!({
        "mid": owner_mid(seed),
        "name": "沙盒用户",
        "sex": "保密",
        "face": picture("face", 0),
        "sign": "在沙盒里看世界",
        "rank": 10_000,
        "level": 5,
        "jointime": 0,
        "moral": 70,
        "silence": 0,
        "coins": 321.5,
        "vip": { "type": 1, "status": 0, "due_date": 0, "label": { "text": "" } },
        "official": { "role": 0, "title": "", "desc": "", "type": -1 },
        "level_exp": { "current_level": 5, "current_min": 10_800, "current_exp": 17_345, "next_exp": 28_800 },
        "following": following,
        "follower": 321,
    })
}

pub(super) fn generate(params: GenerateParams) -> GeneratedRecords {
    vec![
        ("video", (0..VIDEOS).map(|n| video(params, n)).collect()),
        ("following", (0..UPS).map(|n| following(params, n)).collect()),
        ("history", history(params)),
        ("folder", (0..FOLDERS).map(|n| folder(params, n)).collect()),
        ("favourite", (0..FOLDERS).flat_map(|n| favourites(params, n)).collect()),
        ("toview", (0..TO_VIEW).map(|n| to_view(params, n)).collect()),
    ]
}

fn bvid(params: GenerateParams, number: i64) -> String {
    format!("BV1{}", params.rng("bvid", number).word(9))
}

fn aid(number: i64) -> i64 {
    113_000_000_000_000 + number * 7_331
}

fn title(params: GenerateParams, number: i64) -> String {
    let form = params.rng("title", number).pick(TITLES).copied().unwrap_or_default();
    form.replace("{}", &(number % 12 + 1).to_string())
}

fn video(params: GenerateParams, number: i64) -> Value {
    let mut rng = params.rng("video", number);
    let up = number % UPS;
    let views = rng.whole(90, 5_000_000);
    let published_s = 1_500_000_000 + rng.whole(0, 290_000_000);
    json!({
        "bvid": bvid(params, number),
        "aid": aid(number),
        "videos": 1,
        "tid": 122,
        "tname": "野生技能协会",
        "copyright": 1,
        "pic": picture("archive", number),
        "title": title(params, number),
        "pubdate": published_s,
        "ctime": published_s,
        "desc": if number % 6 == 0 { "-" } else { "感谢观看，欢迎三连。" },
        // Every fiftieth is visible to its uploader only.
        "state": if number % 50 == 49 { -4 } else { 0 },
        "duration": rng.whole(20, 5_400),
        "owner": { "mid": up_mid(params.seed, up), "name": up_name(up), "face": picture("face", up + 1) },
        "stat": {
            "aid": aid(number),
            "view": views,
            "danmaku": views / 120,
            "reply": views / 260,
            "favorite": views / 60,
            "coin": views / 90,
            "share": views / 400,
            "now_rank": 0,
            "his_rank": 0,
            "like": views / 25,
            "dislike": 0,
        },
        "cid": 1_400_000_000 + number,
        "pages": [{ "cid": 1_400_000_000 + number, "page": 1, "part": "P1", "duration": 300 }],
    })
}

fn following(params: GenerateParams, number: i64) -> Value {
    let mut rng = params.rng("following", number);
    json!({
        "mid": up_mid(params.seed, number),
        "attribute": 2,
        "mtime": params.first_day * 86_400 - number * 40_000 - rng.whole(0, 30_000),
        "tag": null,
        "special": 0,
        "uname": up_name(number),
        "face": picture("face", number + 1),
        "sign": if number % 3 == 0 { "" } else { "每周更新" },
        "official_verify": { "type": if number % 10 == 0 { 0 } else { -1 }, "desc": "" },
        "vip": { "vipType": 2, "vipStatus": i64::from(number % 4 == 0), "vipDueDate": 0 },
    })
}

/// The watch history of the last days, oldest first.
fn history(params: GenerateParams) -> Vec<Value> {
    let from = params.first_day.max(params.last_day() - HISTORY_DAYS);
    let mut entries = Vec::new();
    for day in from..=params.last_day() {
        let mut rng = params.rng("history", day);
        for number in 0..rng.whole(0, 5) {
            let at_ms = day * DAY_MS + rng.whole(7 * HOUR_MS, 23 * HOUR_MS);
            if at_ms < params.now_ms {
                entries.push(watched(params, day * 10 + number, at_ms / 1_000, &mut rng));
            }
        }
    }
    entries
}

fn watched(params: GenerateParams, kid: i64, view_at: i64, rng: &mut Rng) -> Value {
    let number = rng.whole(0, VIDEOS - 1);
    let up = number % UPS;
    let (business, oid, bvid, uri) = match rng.whole(0, 19) {
        0 => (
            "live",
            22_000_000 + up,
            String::new(),
            format!("https://live.bilibili.com/{}", 22_000_000 + up),
        ),
        1 => (
            "article",
            31_000_000 + number,
            String::new(),
            format!("https://www.bilibili.com/read/cv{}", 31_000_000 + number),
        ),
        2 => (
            "pgc",
            aid(number),
            bvid(params, number),
            "https://www.bilibili.com/bangumi/play/ep700001".to_owned(),
        ),
        _ => ("archive", aid(number), bvid(params, number), String::new()),
    };
    let duration = if bvid.is_empty() { 0 } else { rng.whole(20, 5_400) };
    let progress = match rng.whole(0, 3) {
        // -1 means watched to the end.
        0 if duration > 0 => -1,
        _ => rng.whole(0, duration),
    };
    json!({
        "title": title(params, number),
        "long_title": "",
        "cover": picture("archive", number),
        "covers": null,
        "uri": uri,
        "history": {
            "oid": oid,
            "epid": if business == "pgc" { 700_001 } else { 0 },
            "bvid": bvid,
            "page": i64::from(!bvid.is_empty()),
            "cid": if bvid.is_empty() { 0 } else { 1_400_000_000 + number },
            "part": "",
            "business": business,
            "dt": 2,
        },
        "videos": 1,
        "author_name": up_name(up),
        "author_face": picture("face", up + 1),
        "author_mid": up_mid(params.seed, up),
        "view_at": view_at,
        "progress": progress,
        "badge": if business == "live" { "未开播" } else { "" },
        "show_title": "",
        "duration": duration,
        "current": "",
        "total": 0,
        "new_desc": "",
        "is_finish": 0,
        "is_fav": 0,
        "kid": kid,
        "tag_name": "",
        "live_status": i64::from(business == "live" && number % 2 == 0),
    })
}

fn folder_id(params: GenerateParams, number: i64) -> i64 {
    (owner_mid(params.seed) % 1_000_000) * 100 + number * 100_000_000 + 22
}

/// The first is long, the last is empty and private.
fn folder_length(number: i64) -> i64 {
    match number {
        0 => 55,
        n if n == FOLDERS - 1 => 0,
        n => 3 + n * 2,
    }
}

fn folder(params: GenerateParams, number: i64) -> Value {
    let id = folder_id(params, number);
    json!({
        "id": id,
        "fid": id / 100,
        "mid": owner_mid(params.seed),
        "attr": if number == FOLDERS - 1 { 23 } else { 22 },
        "title": if number == 0 { "默认收藏夹".to_owned() } else { format!("收藏夹 {number}") },
        "cover": picture("archive", number),
        "upper": { "mid": owner_mid(params.seed), "name": "沙盒用户", "face": picture("face", 0) },
        "cover_type": 2,
        "cnt_info": { "collect": 0, "play": 0, "thumb_up": 0, "share": 0 },
        "type": 11,
        "intro": "",
        "ctime": 1_600_000_000 + number * 86_400,
        "mtime": 1_700_000_000 + number * 86_400,
        "state": 0,
        "fav_state": 0,
        "like_state": 0,
        "media_count": folder_length(number),
    })
}

fn favourites(params: GenerateParams, number: i64) -> Vec<Value> {
    // Folders share no video.
    let first = if number == 0 { 0 } else { 10 + number * 50 };
    let one = |place: i64| {
        let video = video(params, (first + place) % VIDEOS);
        let mut media = json!({
            "id": aid((first + place) % VIDEOS),
            "type": 2,
            "title": video.get("title"),
            "cover": video.get("pic"),
            "intro": video.get("desc"),
            "page": 1,
            "duration": video.get("duration"),
            "upper": video.get("owner"),
            "attr": 0,
            "cnt_info": { "collect": video.pointer("/stat/favorite"), "play": video.pointer("/stat/view"), "danmaku": video.pointer("/stat/danmaku") },
            "link": format!("bilibili://video/{}", aid((first + place) % VIDEOS)),
            "ctime": video.get("ctime"),
            "pubtime": video.get("pubdate"),
            "fav_time": params.first_day * 86_400 - place * 50_000 - number,
            "bvid": video.get("bvid"),
        });
        if let Some(media) = media.as_object_mut().filter(|_| place == 2) {
            // A removed video keeps its position and loses its title.
            media.insert("title".to_owned(), json!("已失效视频"));
            media.insert("attr".to_owned(), json!(9));
        }
        json!({ "folder": folder_id(params, number), "media": media })
    };
    (0..folder_length(number)).map(one).collect()
}

fn to_view(params: GenerateParams, number: i64) -> Value {
    let mut video = video(params, (number * 5 + 3) % VIDEOS);
    if let Some(video) = video.as_object_mut() {
        video.insert("add_at".to_owned(), json!(params.first_day * 86_400 - number * 30_000));
        video.insert("progress".to_owned(), json!(if number % 4 == 0 { 0 } else { number * 7 }));
        video.shift_remove("state");
        video.shift_remove("pages");
    }
    video
}

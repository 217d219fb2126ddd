//! Bilibili: the owner's own lists by the cookies of a browser. What Bilibili gives to signed requests
//! only is not offered. This file is the table; each subject has its own file below it.

mod api;
pub mod mirror;
mod people;
#[cfg(test)]
mod tests;
mod videos;

use std::future::ready;

use serde_json::{Value, json};

use crate::account::BILIBILI;
use crate::personal::row::here;
use crate::personal::schema::{NOTHING, SENTENCE, gives, needed, number, takes};
use crate::personal::{answering, saying};
use crate::when::utc_millis;
use crate::{Effect, MAIN_SET, Reach, Run, Service, Tool, coerce};

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "bilibili";

pub const SERVICE: Service = Service {
    name: NAME,
    title: "Bilibili",
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": the owner's own lists at Bilibili. Lists are paged: pass next_page back as page. Never send cookies; the ",
        "owner sets them with `tollgate connect bilibili`. Search and the videos of others are not offered. Errors ",
        "carry a code and what to do next."
    ),
    tools: TOOLS,
    resources: &[],
    templates: &[],
    account: Some(&BILIBILI),
    policy: include_str!("bilibili/policy.json"),
};

/// Titles come with the marks and entities of a page.
fn plain(title: &Value) -> Value {
    let Some(title) = title.as_str() else { return Value::Null };
    let mut text = String::with_capacity(title.len());
    let mut rest = title;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        match after.split_once('>') {
            Some((mark, after)) if is_mark(mark) => rest = after,
            _ => {
                text.push('<');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    for (entity, letter) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        text = text.replace(entity, letter);
    }
    json!(text)
}

fn is_mark(mark: &str) -> bool {
    mark == "/em" || mark == "em" || mark.starts_with("em ")
}

/// Addresses of pictures come without a scheme, or with the wrong one.
fn picture(address: &Value) -> Value {
    match address.as_str() {
        Some(rest) if rest.starts_with("//") => json!(format!("https:{rest}")),
        Some(rest) => match rest.strip_prefix("http://") {
            Some(rest) => json!(format!("https://{rest}")),
            None => json!(rest),
        },
        None => Value::Null,
    }
}

/// Seconds as a moment; nothing where there is none.
fn moment(seconds: &Value) -> Value {
    match coerce::int(seconds).filter(|seconds| *seconds > 0) {
        Some(seconds) => json!(utc_millis(seconds.saturating_mul(1_000_000))),
        None => Value::Null,
    }
}

const fn reads(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    input: &'static str,
    output: &'static str,
    run: Run,
) -> Tool {
    Tool {
        name,
        title,
        description,
        input_schema: input,
        output_schema: output,
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Outside,
        scopes: &[],
        run,
    }
}

const PAGE: &str = takes!(number!("page", 1, 1, 50, "Which page, from 1."));
const USER: &str = takes!(
    r#""uid":{"type":"integer","minimum":1,"description":"The number of the user."}"#,
    r#""uid""#
);
const USER_PAGE: &str = takes!(concat!(
    r#""uid":{"type":["integer","null"],"minimum":1,"description":"The number of the user; the owner if left out."},"#,
    number!("page", 1, 1, 10000, "Which page, from 1.")
));
const NEEDED_USER_PAGE: &str = takes!(
    concat!(
        r#""uid":{"type":"integer","minimum":1,"description":"The number of the user."},"#,
        number!("page", 1, 1, 10000, "Which page, from 1.")
    ),
    r#""uid""#
);
const SEARCH: &str = takes!(
    concat!(
        needed!("keyword", "What to search for."),
        ",",
        number!("page", 1, 1, 10000, "Which page, from 1."),
        r#","order":{"type":["string","null"],"enum":["totalrank","click","pubdate","dm","stow","",null],"default":"totalrank"}"#
    ),
    r#""keyword""#
);
const VIDEO: &str = takes!(needed!("bvid", "The id of the video, or its address."), r#""bvid""#);

const USER_OUT: &str = gives!(
    r#""uid":{"type":"integer"},"name":{"type":["string","null"]},"face":{"type":["string","null"]},"sign":{"type":["string","null"]},"level":{"type":["integer","null"]},"follower":{"type":["integer","null"]},"following":{"type":["integer","null"]},"video_count":{"type":"null"},"official_verify":{"type":["object","null"]},"vip":{"type":["object","null"]},"live_room":{"type":"null"},"is_complete":{"type":"boolean"},"note":{"type":["string","null"]},"url":{"type":"string"}"#,
    r#""uid","follower","following","is_complete""#
);
const MINE_OUT: &str = gives!(
    r#""uid":{"type":["integer","null"]},"name":{"type":["string","null"]},"face":{"type":["string","null"]},"sign":{"type":["string","null"]},"level":{"type":["integer","null"]},"coins":{"type":["number","null"]},"experience":{"type":["object","null"]},"official_verify":{"type":["object","null"]},"vip":{"type":["object","null"]},"follower":{"type":["integer","null"]},"following":{"type":["integer","null"]}"#,
    r#""uid","name","level""#
);
const FOLLOWING_OUT: &str = gives!(
    r#""total":{"type":"integer"},"page":{"type":"integer"},"next_page":{"type":["integer","null"]},"following_list":{"type":"array","items":{"type":"object"}}"#,
    r#""total","page","next_page","following_list""#
);
const VIDEOS_OUT: &str = gives!(
    r#""keyword":{"type":"string"},"uid":{"type":"integer"},"page":{"type":"integer"},"total_results":{"type":"integer"},"total_count":{"type":"integer"},"videos":{"type":"array","items":{"type":"object"}}"#,
    r#""page","videos""#
);
const VIDEO_OUT: &str = gives!(
    r#""bvid":{"type":["string","null"]},"aid":{"type":["integer","null"]},"title":{"type":["string","null"]},"description":{"type":["string","null"]},"duration":{"type":["integer","null"]},"owner":{"type":"object"},"stats":{"type":"object"},"pubdate":{"type":["integer","null"]},"published_at":{"type":["string","null"]},"pic":{"type":["string","null"]},"url":{"type":"string"}"#,
    r#""bvid","title","owner","stats","url""#
);
const HISTORY_OUT: &str = gives!(
    r#""page":{"type":"integer"},"total_count":{"type":"integer"},"next_page":{"type":["integer","null"]},"watch_history":{"type":"array","items":{"type":"object","properties":{"type":{"enum":["video","series","live","article","other"]}},"required":["type","title"]}}"#,
    r#""page","total_count","next_page","watch_history""#
);
const FOLDERS_OUT: &str = gives!(
    r#""uid":{"type":"integer"},"page":{"type":"integer"},"next_page":{"type":["integer","null"]},"total_count":{"type":"integer"},"favorite_folders":{"type":"array","items":{"type":"object"}}"#,
    r#""uid","page","total_count","favorite_folders""#
);
const TO_VIEW_OUT: &str = gives!(
    r#""total_count":{"type":"integer"},"toview_videos":{"type":"array","items":{"type":"object"}}"#,
    r#""total_count","toview_videos""#
);

pub(crate) const TOOLS: &[Tool] = &[
    reads(
        "test_bilibili_credentials",
        "Test Bilibili",
        "Asks Bilibili whether the stored cookies work.",
        NOTHING,
        SENTENCE,
        |ask| saying(people::test(ask)),
    ),
    here(reads(
        "get_bilibili_config",
        "Bilibili set-up",
        "Says what of the Bilibili set-up is there, without showing any of it.",
        NOTHING,
        SENTENCE,
        |ask| saying(ready(Ok(people::config(&ask)))),
    )),
    reads(
        "get_bilibili_user_info",
        "A user",
        "How many follow a user and whom they follow. Name, level and the rest only for the owner: of others Bilibili gives them to signed requests alone.",
        USER,
        USER_OUT,
        |ask| answering(people::of_user(ask)),
    ),
    reads(
        "get_my_bilibili_profile",
        "Your profile",
        "The owner's profile: level, coins, experience, membership.",
        NOTHING,
        MINE_OUT,
        |ask| answering(people::mine(ask)),
    ),
    reads(
        "get_bilibili_following_list",
        "Following",
        "Whom the owner follows, newest first, 20 a page. Of others five pages, where they are public.",
        USER_PAGE,
        FOLLOWING_OUT,
        |ask| answering(people::following(ask)),
    ),
    here(reads(
        "search_bilibili_videos",
        "Search videos",
        "Not offered by Bilibili without a signature: always answers unsupported_upstream and what to use instead.",
        SEARCH,
        VIDEOS_OUT,
        |ask| answering(ready(videos::search(&ask))),
    )),
    here(reads(
        "get_bilibili_user_videos",
        "Videos of a user",
        "Not offered by Bilibili without a signature: always answers unsupported_upstream and what to use instead.",
        NEEDED_USER_PAGE,
        VIDEOS_OUT,
        |ask| answering(ready(videos::of_user(&ask))),
    )),
    reads(
        "get_bilibili_video_info",
        "A video",
        "Title, owner, length and counts of one video.",
        VIDEO,
        VIDEO_OUT,
        |ask| answering(videos::video(ask)),
    ),
    reads(
        "get_bilibili_watch_history",
        "Watched",
        "What the owner watched, newest first, 20 a page: videos, series, broadcasts and articles.",
        PAGE,
        HISTORY_OUT,
        |ask| answering(videos::history(ask)),
    ),
    reads(
        "get_bilibili_favorites",
        "Favourite folders",
        "The owner's folders of favourites; of others those that are public.",
        USER_PAGE,
        FOLDERS_OUT,
        |ask| answering(videos::favourites(ask)),
    ),
    reads(
        "get_bilibili_toview_list",
        "To watch",
        "What the owner put aside to watch later.",
        NOTHING,
        TO_VIEW_OUT,
        |ask| answering(videos::to_view(ask)),
    ),
];

//! Bilibili: the owner's own lists, with the cookies of a browser. Endpoints that need a signature are
//! not offered. This file is the tool table; the tools are in the submodules.

pub mod account;
mod api;
mod daily;
mod history;
pub mod mirror;
mod people;
mod personal;
#[cfg(test)]
mod tests;
mod videos;

use crate::activity::{Activity, Amount, Top, Topic, history};
use crate::connector::Connector;
use crate::personal::handler::handler;
use crate::personal::tool_row::here;
use crate::tool::Handler;
use crate::when::utc_millis;
use crate::{Effect, MAIN_SET, Reach, Service, Tool};
use account::ACCOUNT;
use insights::Unit;

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "bilibili";

pub static SERVICE: Service = Service { name: NAME, title: "Bilibili", account: Some(&ACCOUNT) };

pub const CONNECTOR: Connector = Connector {
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": the owner's own lists at Bilibili. Lists are paged: pass next_page back as page. Never send cookies; the ",
        "owner sets them with `tollgate connect bilibili`. Search and the videos of others are not offered. Errors ",
        "carry a code and what to do next."
    ),
    tools: TOOLS,
    policy: include_str!("bilibili/policy.json"),
    mirror: Some(&mirror::MIRROR),
    personal: Some(&personal::PERSONAL),
    activity: Some(&ACTIVITY),
    metrics: Some(&daily::METRICS),
    ..Connector::of(&SERVICE)
};

const ACTIVITY: Activity = Activity {
    topic: Topic::Video,
    lists: &[history(
        "history",
        "Videos watched",
        &[
            Top { title: "Authors", name: "author", amount: Amount::Records },
            Top {
                title: "Authors by time watched",
                name: "author",
                amount: Amount::Member { name: "progress_s", divisor: 60, unit: Unit::Minutes },
            },
        ],
    )],
};

/// Strips HTML tags and entities from a title.
fn plain(title: &str) -> String {
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
    text
}

fn is_mark(mark: &str) -> bool {
    mark == "/em" || mark == "em" || mark.starts_with("em ")
}

/// Picture URLs come without a scheme, or with http.
fn picture(address: &str) -> String {
    if address.starts_with("//") {
        return format!("https:{address}");
    }
    match address.strip_prefix("http://") {
        Some(rest) => format!("https://{rest}"),
        None => address.to_owned(),
    }
}

/// Unix seconds as a timestamp; 0 means none.
fn moment(seconds: i64) -> Option<String> {
    (seconds > 0).then(|| utc_millis(seconds.saturating_mul(1_000_000)))
}

const fn reads(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    handler: Handler,
) -> Tool {
    Tool {
        name,
        title,
        description,
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Outside,
        scopes: &[],
        aggregates: false,
        handler,
    }
}

pub(crate) const TOOLS: &[Tool] = &[
    reads(
        "test_bilibili_credentials",
        "Test Bilibili",
        "Checks at Bilibili whether the stored cookies work.",
        handler!(NAME, people::test),
    ),
    here(reads(
        "get_bilibili_config",
        "Bilibili set-up",
        "Shows which Bilibili settings exist, without their values.",
        handler!(NAME, people::config),
    )),
    reads(
        "get_bilibili_user_info",
        "A user",
        "How many follow a user and whom they follow. Name, level and the rest only for the owner: of others Bilibili gives them to signed requests alone.",
        handler!(NAME, people::of_user),
    ),
    reads(
        "get_my_bilibili_profile",
        "Your profile",
        "The owner's profile: level, coins, experience, membership.",
        handler!(NAME, people::mine),
    ),
    reads(
        "get_bilibili_following_list",
        "Following",
        "Whom the owner follows, newest first, 20 a page. Of others five pages, where they are public.",
        handler!(NAME, people::following),
    ),
    here(reads(
        "search_bilibili_videos",
        "Search videos",
        "Not offered by Bilibili without a signature: always answers unsupported_upstream and what to use instead.",
        handler!(NAME, videos::search),
    )),
    here(reads(
        "get_bilibili_user_videos",
        "Videos of a user",
        "Not offered by Bilibili without a signature: always answers unsupported_upstream and what to use instead.",
        handler!(NAME, videos::of_user),
    )),
    reads(
        "get_bilibili_video_info",
        "A video",
        "Title, owner, length and counts of one video.",
        handler!(NAME, videos::video),
    ),
    reads(
        "get_bilibili_watch_history",
        "Watched",
        "What the owner watched, newest first, 20 a page: videos, series, broadcasts and articles.",
        handler!(NAME, history::history),
    ),
    reads(
        "get_bilibili_favorites",
        "Favourite folders",
        "The owner's folders of favourites; of others those that are public.",
        handler!(NAME, videos::favourites),
    ),
    reads(
        "get_bilibili_toview_list",
        "To watch",
        "The owner's watch-later list.",
        handler!(NAME, videos::to_view),
    ),
];

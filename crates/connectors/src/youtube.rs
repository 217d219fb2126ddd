//! YouTube: searches and public videos, and the owner's subscriptions, playlists and likes. This file
//! is the table; each subject has its own file below it.

mod api;
pub mod archive;
mod mine;
pub mod mirror;
mod playlists;
mod public;
#[cfg(test)]
mod tests;

use std::future::ready;

use crate::account::YOUTUBE;
use crate::personal::row::{Row, here, reads, tool};
use crate::personal::schema::{
    NOTHING, REFRESHED, SENTENCE, STANDING, gives, ignored_secret, needed, number, takes, text,
};
use crate::personal::{answering, complete, refresh, refresh_if_due, saying, setup, standing};
use crate::{Effect, Service, Tool};

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "youtube";

pub const SERVICE: Service = Service {
    name: NAME,
    title: "YouTube",
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": YouTube. Lists are paged: pass next_page_token back as page_token. Searches are few (100 a day), so ",
        "prefer ids. Never send tokens or secrets; the owner signs in with `tollgate connect youtube`."
    ),
    tools: TOOLS,
    resources: &[],
    templates: &[],
    account: Some(&YOUTUBE),
    policy: include_str!("youtube/policy.json"),
};

const OWN: &[&str] = &["https://www.googleapis.com/auth/youtube.readonly"];

const SEARCH: &str = takes!(
    concat!(
        needed!("query", "What to look for."),
        ",",
        number!("max_results", 10, 1, 50, "How many to return."),
        ",",
        text!("page_token", "next_page_token of an earlier answer.")
    ),
    r#""query""#
);
const VIDEO: &str = takes!(needed!("video_id", "The video's id or address."), r#""video_id""#);
const CHANNEL: &str =
    takes!(needed!("channel_id", "The channel's id, @handle or address."), r#""channel_id""#);
const REGION: &str = takes!(concat!(
    r#""region_code":{"type":["string","null"],"default":"US","description":"Two letters, such as DE."},"#,
    number!("max_results", 10, 1, 50, "How many to return."),
    ",",
    text!("page_token", "next_page_token of an earlier answer.")
));
const PAGE: &str = takes!(concat!(
    number!("max_results", 50, 1, 50, "How many to return."),
    ",",
    text!("page_token", "next_page_token of an earlier answer."),
    ",",
    ignored_secret!("access_token")
));
const LIKED: &str = takes!(concat!(
    number!("max_results", 20, 1, 50, "How many to return."),
    ",",
    text!("page_token", "next_page_token of an earlier answer."),
    ",",
    ignored_secret!("access_token")
));
const SETUP: &str = takes!(concat!(
    text!("client_id", "The OAuth client's id, if tollgate does not know it yet."),
    ",",
    ignored_secret!("client_secret")
));
const COMPLETE: &str = takes!(concat!(
    text!("client_id", "Not needed: it is known from the first step."),
    ",",
    ignored_secret!("client_secret"),
    ",",
    ignored_secret!("device_code")
));

const RESULTS_OUT: &str = gives!(
    r#""query":{"type":"string"},"total_results":{"type":"integer"},"videos":{"type":"array","items":{"type":"object","properties":{"video_id":{"type":"string"},"title":{"type":"string"},"channel":{"type":"string"},"description":{"type":"string"},"published_at":{"type":["string","null"]},"thumbnail":{"type":["string","null"]},"url":{"type":"string"}},"required":["video_id","title","url"]}},"next_page_token":{"type":["string","null"]}"#,
    r#""query","total_results","videos","next_page_token""#
);
const VIDEO_OUT: &str = gives!(
    r#""video_id":{"type":"string"},"title":{"type":["string","null"]},"channel":{"type":["string","null"]},"description":{"type":["string","null"]},"published_at":{"type":["string","null"]},"duration":{"type":["string","null"],"description":"ISO 8601."},"view_count":{"type":"string"},"like_count":{"type":"string"},"comment_count":{"type":"string"},"thumbnail":{"type":["string","null"]},"url":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}"#,
    r#""video_id","title","channel","url""#
);
const CHANNEL_OUT: &str = gives!(
    r#""channel_id":{"type":"string"},"title":{"type":["string","null"]},"description":{"type":["string","null"]},"published_at":{"type":["string","null"]},"subscriber_count":{"type":"string"},"video_count":{"type":"string"},"view_count":{"type":"string"},"thumbnail":{"type":["string","null"]},"url":{"type":"string"},"country":{"type":["string","null"]}"#,
    r#""channel_id","title","url""#
);
/// The videos of a list; which list it is differs.
macro_rules! videos_out {
    ($list:literal, $properties:expr, $required:expr) => {
        gives!(
            concat!(
                $properties,
                ",\"",
                $list,
                r#"":{"type":"array","items":{"type":"object","properties":{"video_id":{"type":"string"},"title":{"type":["string","null"]},"channel":{"type":["string","null"]},"published_at":{"type":["string","null"]},"view_count":{"type":"string"},"like_count":{"type":"string"},"thumbnail":{"type":["string","null"]},"url":{"type":"string"}},"required":["video_id","url"]}},"next_page_token":{"type":["string","null"]}"#
            ),
            concat!($required, ",\"", $list, "\",\"next_page_token\"")
        )
    };
}
const TRENDING_OUT: &str =
    videos_out!("trending_videos", r#""region":{"type":"string"}"#, r#""region""#);
const LIKED_OUT: &str = videos_out!(
    "liked_videos",
    r#""total_liked_videos":{"type":"integer"}"#,
    r#""total_liked_videos""#
);
const SUBSCRIPTIONS_OUT: &str = gives!(
    r#""total_subscriptions":{"type":"integer"},"subscriptions":{"type":"array","items":{"type":"object","properties":{"channel_id":{"type":"string"},"channel_title":{"type":["string","null"]},"description":{"type":["string","null"]},"subscribed_at":{"type":["string","null"]},"thumbnail":{"type":["string","null"]},"channel_url":{"type":"string"}},"required":["channel_id","channel_url"]}},"next_page_token":{"type":["string","null"]}"#,
    r#""total_subscriptions","subscriptions","next_page_token""#
);
const PLAYLISTS_OUT: &str = gives!(
    r#""total_playlists":{"type":"integer"},"playlists":{"type":"array","items":{"type":"object","properties":{"playlist_id":{"type":"string"},"title":{"type":["string","null"]},"description":{"type":["string","null"]},"created_at":{"type":["string","null"]},"video_count":{"type":["integer","null"]},"thumbnail":{"type":["string","null"]},"url":{"type":"string"}},"required":["playlist_id","url"]}},"next_page_token":{"type":["string","null"]}"#,
    r#""total_playlists","playlists","next_page_token""#
);
const SETUP_OUT: &str = gives!(
    r#""success":{"type":"boolean"},"status":{"type":"string"},"message":{"type":"string"},"verification_url":{"type":"string"},"user_code":{"type":"string"},"expires_in":{"type":"integer"},"next_tool":{"type":"string"}"#,
    r#""success","status","verification_url","user_code""#
);
const COMPLETE_OUT: &str = gives!(
    r#""success":{"type":"boolean"},"status":{"enum":["success","waiting_for_authorization"]},"message":{"type":"string"},"tokens_saved":{"type":"boolean"},"expires_at":{"type":["string","null"]},"scopes":{"type":"array","items":{"type":"string"}}"#,
    r#""success","status","message","tokens_saved""#
);

pub(crate) const TOOLS: &[Tool] = &[
    reads(Row {
        name: "test_youtube_credentials",
        title: "Test YouTube",
        description: "Asks YouTube whether the stored login, or else the API key, works.",
        input: NOTHING,
        output: SENTENCE,
        scopes: &[],
        run: |ask| saying(public::test(ask)),
    }),
    here(reads(Row {
        name: "get_youtube_config",
        title: "YouTube set-up",
        description: "Says what of the YouTube set-up is there, without showing any of it.",
        input: NOTHING,
        output: SENTENCE,
        scopes: &[],
        run: |ask| saying(ready(Ok(public::config(&ask)))),
    })),
    reads(Row {
        name: "search_youtube_videos",
        title: "Search videos",
        description: "Searches videos. Google allows 100 searches a day.",
        input: SEARCH,
        output: RESULTS_OUT,
        scopes: &[],
        run: |ask| answering(public::search(ask)),
    }),
    reads(Row {
        name: "get_video_details",
        title: "A video",
        description: "Title, channel, length, counts and tags of a video.",
        input: VIDEO,
        output: VIDEO_OUT,
        scopes: &[],
        run: |ask| answering(public::details(ask)),
    }),
    reads(Row {
        name: "get_channel_info",
        title: "A channel",
        description: "Title, description and counts of a channel.",
        input: CHANNEL,
        output: CHANNEL_OUT,
        scopes: &[],
        run: |ask| answering(public::channel(ask)),
    }),
    reads(Row {
        name: "get_trending_videos",
        title: "Popular videos",
        description: "The most popular videos of a region. Since July 2025 YouTube fills this from its music, film and gaming charts.",
        input: REGION,
        output: TRENDING_OUT,
        scopes: &[],
        run: |ask| answering(public::trending(ask)),
    }),
    reads(Row {
        name: "get_youtube_subscriptions",
        title: "Your subscriptions",
        description: "The channels the owner has subscribed to.",
        input: PAGE,
        output: SUBSCRIPTIONS_OUT,
        scopes: OWN,
        run: |ask| answering(mine::subscriptions(ask)),
    }),
    reads(Row {
        name: "get_youtube_playlists",
        title: "Your playlists",
        description: "The owner's playlists.",
        input: PAGE,
        output: PLAYLISTS_OUT,
        scopes: OWN,
        run: |ask| answering(mine::playlists(ask)),
    }),
    reads(Row {
        name: "get_youtube_liked_videos",
        title: "Liked videos",
        description: "The videos the owner has liked, newest like first.",
        input: LIKED,
        output: LIKED_OUT,
        scopes: OWN,
        run: |ask| answering(mine::liked(ask)),
    }),
    tool(
        Effect::Runs,
        Row {
            name: "setup_youtube_oauth",
            title: "Begin to sign in",
            description: "Gets a code for the owner to type at Google's page. The second step is complete_youtube_oauth.",
            input: SETUP,
            output: SETUP_OUT,
            scopes: &[],
            run: |ask| answering(setup(ask, &SERVICE, "complete_youtube_oauth")),
        },
    ),
    tool(
        Effect::Adds,
        Row {
            name: "complete_youtube_oauth",
            title: "Finish signing in",
            description: "Waits up to 40 seconds for the code to be typed and keeps the login sealed. Call it again while it waits.",
            input: COMPLETE,
            output: COMPLETE_OUT,
            scopes: &[],
            run: |ask| answering(complete(ask, &SERVICE, "setup_youtube_oauth")),
        },
    ),
    tool(
        Effect::Runs,
        Row {
            name: "refresh_youtube_token",
            title: "Refresh the login",
            description: "Refreshes the stored login now and says when it expires. Calls do this by themselves when it is due.",
            input: NOTHING,
            output: REFRESHED,
            scopes: &[],
            run: |ask| answering(refresh(ask, &SERVICE)),
        },
    ),
    tool(
        Effect::Runs,
        Row {
            name: "auto_refresh_youtube_token_if_needed",
            title: "Refresh if due",
            description: "Refreshes the stored login if it ends within five minutes.",
            input: NOTHING,
            output: REFRESHED,
            scopes: &[],
            run: |ask| answering(refresh_if_due(ask, &SERVICE)),
        },
    ),
    here(reads(Row {
        name: "get_youtube_token_status",
        title: "YouTube login",
        description: "How the login stands: state, scopes and when its token ends.",
        input: NOTHING,
        output: STANDING,
        scopes: &[],
        run: |ask| answering(ready(Ok(standing(ask.desk, &SERVICE)))),
    })),
];

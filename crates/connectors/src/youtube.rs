//! YouTube: search and public videos, and the owner's subscriptions, playlists and likes. This file is
//! the tool table; the tools are in the submodules.

pub mod account;
mod api;
pub mod archive;
mod daily;
pub mod mirror;
mod own_lists;
mod personal;
mod playlists;
mod public;
#[cfg(test)]
mod tests;

use crate::activity::{Activity, Amount, Top, Topic, history};
use crate::arguments::NoArgs;
use crate::connector::Connector;
use crate::personal::handler::handler;
use crate::personal::tool_row::{ToolRow, here, reads, tool};
use crate::personal::{
    DeviceCompleteArgs, complete, refresh, refresh_if_due, setup_by_device, show_login_status,
};
use crate::{Effect, Service, Tool};
use account::ACCOUNT;

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "youtube";

pub static SERVICE: Service = Service { name: NAME, title: "YouTube", account: Some(&ACCOUNT) };

pub const CONNECTOR: Connector = Connector {
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": YouTube. Lists are paged: pass next_page_token back as page_token. Searches are few (100 a day), so ",
        "prefer ids. Never send tokens or secrets; the owner signs in with `tollgate connect youtube`."
    ),
    tools: TOOLS,
    policy: include_str!("youtube/policy.json"),
    mirror: Some(&mirror::MIRROR),
    archive: Some(&archive::IMPORT),
    personal: Some(&personal::PERSONAL),
    activity: Some(&ACTIVITY),
    metrics: Some(&daily::METRICS),
    ..Connector::of(&SERVICE)
};

const ACTIVITY: Activity = Activity {
    topic: Topic::Video,
    lists: &[
        history(
            "watches",
            "Videos watched",
            &[Top { title: "Channels", name: "channel", amount: Amount::Records }],
        ),
        history(
            "likes",
            "Liked videos",
            &[Top { title: "Channels", name: "channel", amount: Amount::Records }],
        ),
    ],
};

const OWN: &[&str] = &["https://www.googleapis.com/auth/youtube.readonly"];

pub(crate) const TOOLS: &[Tool] = &[
    reads(ToolRow {
        name: "test_youtube_credentials",
        title: "Test YouTube",
        description: "Checks at YouTube whether the stored login, or else the API key, works.",
        scopes: &[],
        handler: handler!(NAME, public::test),
    }),
    here(reads(ToolRow {
        name: "get_youtube_config",
        title: "YouTube set-up",
        description: "Shows which YouTube settings exist, without their values.",
        scopes: &[],
        handler: handler!(NAME, public::config),
    })),
    reads(ToolRow {
        name: "search_youtube_videos",
        title: "Search videos",
        description: "Searches videos. Google allows 100 searches a day.",
        scopes: &[],
        handler: handler!(NAME, public::search),
    }),
    reads(ToolRow {
        name: "get_video_details",
        title: "A video",
        description: "Title, channel, length, counts and tags of a video.",
        scopes: &[],
        handler: handler!(NAME, public::details),
    }),
    reads(ToolRow {
        name: "get_channel_info",
        title: "A channel",
        description: "Title, description and counts of a channel.",
        scopes: &[],
        handler: handler!(NAME, public::channel),
    }),
    reads(ToolRow {
        name: "get_trending_videos",
        title: "Popular videos",
        description: "The most popular videos of a region. Since July 2025 YouTube fills this from its music, film and gaming charts.",
        scopes: &[],
        handler: handler!(NAME, public::trending),
    }),
    reads(ToolRow {
        name: "get_youtube_subscriptions",
        title: "Your subscriptions",
        description: "The channels the owner has subscribed to.",
        scopes: OWN,
        handler: handler!(NAME, own_lists::subscriptions),
    }),
    reads(ToolRow {
        name: "get_youtube_playlists",
        title: "Your playlists",
        description: "The owner's playlists.",
        scopes: OWN,
        handler: handler!(NAME, own_lists::playlists),
    }),
    reads(ToolRow {
        name: "get_youtube_liked_videos",
        title: "Liked videos",
        description: "The videos the owner has liked, newest like first.",
        scopes: OWN,
        handler: handler!(NAME, own_lists::liked),
    }),
    tool(
        Effect::Runs,
        ToolRow {
            name: "setup_youtube_oauth",
            title: "Begin to sign in",
            description: "Gets a code for the owner to type at Google's page. The second step is complete_youtube_oauth.",
            scopes: &[],
            handler: handler!(NAME, |call, args| setup_by_device(
                call,
                &SERVICE,
                "complete_youtube_oauth",
                args
            )),
        },
    ),
    tool(
        Effect::Adds,
        ToolRow {
            name: "complete_youtube_oauth",
            title: "Finish signing in",
            description: "Waits up to 40 seconds for the code to be typed and keeps the login sealed. Call it again while it waits.",
            scopes: &[],
            handler: handler!(NAME, |call, _: DeviceCompleteArgs| complete(
                call,
                &SERVICE,
                "setup_youtube_oauth",
                None
            )),
        },
    ),
    tool(
        Effect::Runs,
        ToolRow {
            name: "refresh_youtube_token",
            title: "Refresh the login",
            description: "Refreshes the stored login now and says when it expires. Calls do this by themselves when it is due.",
            scopes: &[],
            handler: handler!(NAME, |call, _: NoArgs| refresh(call, &SERVICE)),
        },
    ),
    tool(
        Effect::Runs,
        ToolRow {
            name: "auto_refresh_youtube_token_if_needed",
            title: "Refresh if due",
            description: "Refreshes the stored login if it ends within five minutes.",
            scopes: &[],
            handler: handler!(NAME, |call, _: NoArgs| refresh_if_due(call, &SERVICE)),
        },
    ),
    here(reads(ToolRow {
        name: "get_youtube_token_status",
        title: "YouTube login",
        description: "The login's state, scopes and when its token expires.",
        scopes: &[],
        handler: handler!(NAME, |call, _: NoArgs| show_login_status(call, &SERVICE)),
    })),
];

//! Spotify: the owner's library, top items and plays. This file is the tool table; the tools are in
//! the submodules.

pub mod account;
mod api;
pub mod archive;
mod daily;
mod follow;
mod list_args;
mod lists;
pub mod mirror;
mod personal;
mod playlists;
mod profile;
mod sign_in;
#[cfg(test)]
mod tests;

use crate::activity::{Activity, Amount, Top, Topic, history};
use crate::arguments::NoArgs;
use crate::connector::Connector;
use crate::personal::handler::handler;
use crate::personal::tool_row::{ToolRow, here, reads, tool};
use crate::personal::{refresh, refresh_if_due, show_login_status};
use crate::{Effect, Service, Tool};
use account::ACCOUNT;
use follow::Change;
use insights::Unit;

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "spotify";

pub static SERVICE: Service = Service { name: NAME, title: "Spotify", account: Some(&ACCOUNT) };

pub const CONNECTOR: Connector = Connector {
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": the owner's Spotify account. Lists are paged: pass next_offset back as offset. Never send tokens or ",
        "secrets; the owner signs in with `tollgate connect spotify`. Errors carry a code and what to do next."
    ),
    tools: TOOLS,
    policy: include_str!("spotify/policy.json"),
    mirror: Some(&mirror::MIRROR),
    archive: Some(&archive::IMPORT),
    personal: Some(&personal::PERSONAL),
    activity: Some(&ACTIVITY),
    metrics: Some(&daily::METRICS),
    ..Connector::of(&SERVICE)
};

const ACTIVITY: Activity = Activity {
    topic: Topic::Music,
    lists: &[history(
        "plays",
        "Plays",
        &[
            Top { title: "Artists", name: "artists", amount: Amount::Records },
            Top { title: "Tracks", name: "track_name", amount: Amount::Records },
            Top {
                title: "Artists by length of the tracks",
                name: "artists",
                amount: Amount::Member {
                    name: "duration_ms",
                    divisor: 60_000,
                    unit: Unit::Minutes,
                },
            },
        ],
    )],
};

const LIBRARY: &[&str] = &["user-library-read"];
const EPISODES: &[&str] = &["user-library-read", "user-read-playback-position"];
const PLAYLISTS: &[&str] = &["playlist-read-private", "playlist-read-collaborative"];
const FOLLOW: &[&str] = &["user-library-modify", "user-follow-modify"];
const FOLLOW_PLAYLIST: &[&str] =
    &["user-library-modify", "playlist-modify-public", "playlist-modify-private"];

pub(crate) const TOOLS: &[Tool] = &[
    reads(ToolRow {
        name: "test_spotify_credentials",
        title: "Test Spotify",
        description: "Checks at Spotify whether the stored login works.",
        scopes: &[],
        handler: handler!(NAME, profile::test),
    }),
    here(reads(ToolRow {
        name: "get_spotify_config",
        title: "Spotify set-up",
        description: "Shows which Spotify settings exist, without their values.",
        scopes: &[],
        handler: handler!(NAME, profile::config),
    })),
    tool(
        Effect::Runs,
        ToolRow {
            name: "setup_spotify_oauth",
            title: "Begin to sign in",
            description: "Makes the address at which the owner allows access to Spotify. The second step is complete_spotify_oauth.",
            scopes: &[],
            handler: handler!(NAME, sign_in::setup),
        },
    ),
    tool(
        Effect::Adds,
        ToolRow {
            name: "complete_spotify_oauth",
            title: "Finish signing in",
            description: "Finishes the sign-in that setup_spotify_oauth began and keeps the login sealed.",
            scopes: &[],
            handler: handler!(NAME, sign_in::complete),
        },
    ),
    tool(
        Effect::Runs,
        ToolRow {
            name: "refresh_spotify_token",
            title: "Refresh the login",
            description: "Refreshes the stored login now and says when it expires. Calls do this by themselves when it is due.",
            scopes: &[],
            handler: handler!(NAME, |call, _: NoArgs| refresh(call, &SERVICE)),
        },
    ),
    tool(
        Effect::Runs,
        ToolRow {
            name: "auto_refresh_spotify_token_if_needed",
            title: "Refresh if due",
            description: "Refreshes the stored login if it ends within five minutes.",
            scopes: &[],
            handler: handler!(NAME, |call, _: NoArgs| refresh_if_due(call, &SERVICE)),
        },
    ),
    here(reads(ToolRow {
        name: "get_spotify_token_status",
        title: "Spotify login",
        description: "The login's state, scopes, and when the token and the six months of consent expire.",
        scopes: &[],
        handler: handler!(NAME, |call, _: NoArgs| show_login_status(call, &SERVICE)),
    })),
    reads(ToolRow {
        name: "get_current_user_profile",
        title: "Your profile",
        description: "The owner's Spotify profile. Fields that Spotify no longer sends are null.",
        scopes: &["user-read-private", "user-read-email"],
        handler: handler!(NAME, profile::mine),
    }),
    reads(ToolRow {
        name: "get_spotify_user_profile",
        title: "Your Spotify profile",
        description: "The same as get_current_user_profile, under a name that no other service has.",
        scopes: &["user-read-private", "user-read-email"],
        handler: handler!(NAME, profile::mine),
    }),
    reads(ToolRow {
        name: "get_user_profile",
        title: "A user's profile",
        description: "The public profile of a Spotify user. Spotify gives others' only to extended-quota applications.",
        scopes: &[],
        handler: handler!(NAME, profile::of_user),
    }),
    reads(ToolRow {
        name: "get_user_top_items",
        title: "Most played",
        description: "The owner's most played tracks or artists over weeks, months or a year.",
        scopes: &["user-top-read"],
        handler: handler!(NAME, lists::top),
    }),
    reads(ToolRow {
        name: "get_followed_artists",
        title: "Followed artists",
        description: "The artists the owner follows; pass next_after back as after for more.",
        scopes: &["user-follow-read"],
        handler: handler!(NAME, lists::followed_artists),
    }),
    tool(
        Effect::Adds,
        ToolRow {
            name: "follow_artists_or_users",
            title: "Follow",
            description: "Follows artists or users in the owner's name.",
            scopes: FOLLOW,
            handler: handler!(NAME, |call, args| follow::people(call, args, Change::Follow)),
        },
    ),
    tool(
        Effect::Destroys,
        ToolRow {
            name: "unfollow_artists_or_users",
            title: "Unfollow",
            description: "Stops following artists or users.",
            scopes: FOLLOW,
            handler: handler!(NAME, |call, args| follow::people(call, args, Change::Unfollow)),
        },
    ),
    tool(
        Effect::Adds,
        ToolRow {
            name: "follow_playlist",
            title: "Follow a playlist",
            description: "Adds a playlist to the owner's library.",
            scopes: FOLLOW_PLAYLIST,
            handler: handler!(NAME, follow::follow_playlist),
        },
    ),
    tool(
        Effect::Destroys,
        ToolRow {
            name: "unfollow_playlist",
            title: "Unfollow a playlist",
            description: "Removes a playlist from the owner's library.",
            scopes: FOLLOW_PLAYLIST,
            handler: handler!(NAME, follow::unfollow_playlist),
        },
    ),
    reads(ToolRow {
        name: "get_user_saved_tracks",
        title: "Saved tracks",
        description: "The tracks in the owner's library, newest first.",
        scopes: LIBRARY,
        handler: handler!(NAME, |call, args| lists::mine(call, args, "tracks")),
    }),
    reads(ToolRow {
        name: "get_user_saved_albums",
        title: "Saved albums",
        description: "The albums in the owner's library, newest first.",
        scopes: LIBRARY,
        handler: handler!(NAME, |call, args| lists::mine(call, args, "albums")),
    }),
    reads(ToolRow {
        name: "get_user_saved_shows",
        title: "Saved shows",
        description: "The podcasts in the owner's library, newest first.",
        scopes: LIBRARY,
        handler: handler!(NAME, |call, args| lists::mine(call, args, "shows")),
    }),
    reads(ToolRow {
        name: "get_user_saved_episodes",
        title: "Saved episodes",
        description: "The podcast episodes in the owner's library, newest first.",
        scopes: EPISODES,
        handler: handler!(NAME, |call, args| lists::mine(call, args, "episodes")),
    }),
    reads(ToolRow {
        name: "get_user_saved_audiobooks",
        title: "Saved audiobooks",
        description: "The audiobooks in the owner's library, newest first.",
        scopes: LIBRARY,
        handler: handler!(NAME, |call, args| lists::mine(call, args, "audiobooks")),
    }),
    reads(ToolRow {
        name: "get_current_user_playlists",
        title: "Your playlists",
        description: "The playlists the owner has made or follows.",
        scopes: PLAYLISTS,
        handler: handler!(NAME, |call, args| lists::mine(call, args, "playlists")),
    }),
    reads(ToolRow {
        name: "get_user_playlists",
        title: "A user's playlists",
        description: "The public playlists of a Spotify user. Spotify gives others' only to extended-quota applications.",
        scopes: PLAYLISTS,
        handler: handler!(NAME, lists::playlists_of),
    }),
    reads(ToolRow {
        name: "get_playlist_items",
        title: "Entries of a playlist",
        description: "The tracks and episodes of a playlist the owner has made or takes part in.",
        scopes: PLAYLISTS,
        handler: handler!(NAME, lists::playlist_items),
    }),
    reads(ToolRow {
        name: "get_user_recently_played",
        title: "Recently played",
        description: "The owner's latest plays. Spotify itself keeps only 50; `tollgate sync spotify` keeps them all.",
        scopes: &["user-read-recently-played"],
        handler: handler!(NAME, lists::recently_played),
    }),
];

//! Spotify: the owner's library, taste and plays. This file is the table; each subject has its own
//! file below it.

mod api;
pub mod archive;
mod follow;
mod lists;
pub mod mirror;
mod playlists;
mod profile;
mod sign_in;
#[cfg(test)]
mod tests;

use std::future::ready;

use crate::account::SPOTIFY;
use crate::personal::row::{Row, here, reads, tool};
use crate::personal::schema::{
    NOTHING, REFRESHED, SENTENCE, STANDING, gives, ignored_secret, needed, number, takes, text,
};
use crate::personal::{answering, complete, refresh, refresh_if_due, saying, standing};
use crate::{Effect, Service, Tool};
use follow::Change;

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "spotify";

pub const SERVICE: Service = Service {
    name: NAME,
    title: "Spotify",
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": the owner's Spotify account. Lists are paged: pass next_offset back as offset. Never send tokens or ",
        "secrets; the owner signs in with `tollgate connect spotify`. Errors carry a code and what to do next."
    ),
    tools: TOOLS,
    resources: &[],
    templates: &[],
    account: Some(&SPOTIFY),
    policy: include_str!("spotify/policy.json"),
};

const LIBRARY: &[&str] = &["user-library-read"];
const EPISODES: &[&str] = &["user-library-read", "user-read-playback-position"];
const PLAYLISTS: &[&str] = &["playlist-read-private", "playlist-read-collaborative"];
const FOLLOW: &[&str] = &["user-library-modify", "user-follow-modify"];
const FOLLOW_PLAYLIST: &[&str] =
    &["user-library-modify", "playlist-modify-public", "playlist-modify-private"];

const TOKEN_ONLY: &str = takes!(ignored_secret!("access_token"));
const PAGE: &str = takes!(concat!(
    number!("limit", 50, 1, 50, "How many to return."),
    ",",
    number!("offset", 0, 0, 100000, "Where to begin; next_offset of an earlier answer."),
    ",",
    ignored_secret!("access_token")
));
const USER: &str = takes!(
    concat!(needed!("user_id", "The user's id."), ",", ignored_secret!("access_token")),
    r#""user_id""#
);
const USER_PAGE: &str = takes!(
    concat!(
        needed!("user_id", "The user's id."),
        ",",
        number!("limit", 50, 1, 50, "How many to return."),
        ",",
        number!("offset", 0, 0, 100000, "Where to begin; next_offset of an earlier answer."),
        ",",
        ignored_secret!("access_token")
    ),
    r#""user_id""#
);
const PLAYLIST_PAGE: &str = takes!(
    concat!(
        needed!("playlist_id", "The playlist's id, URI or address."),
        ",",
        number!("limit", 100, 1, 100, "How many to return."),
        ",",
        number!("offset", 0, 0, 100000, "Where to begin; next_offset of an earlier answer."),
        ",",
        ignored_secret!("access_token")
    ),
    r#""playlist_id""#
);
const TOP: &str = takes!(concat!(
    r#""item_type":{"type":["string","null"],"enum":["tracks","artists",null],"default":"tracks"},"#,
    r#""time_range":{"type":["string","null"],"enum":["short_term","medium_term","long_term",null],"default":"medium_term","description":"About four weeks, six months, or a year."},"#,
    number!("limit", 50, 1, 50, "How many to return."),
    ",",
    number!("offset", 0, 0, 100000, "Where to begin; next_offset of an earlier answer."),
    ",",
    ignored_secret!("access_token")
));
const ARTISTS: &str = takes!(concat!(
    number!("limit", 50, 1, 50, "How many to return."),
    ",",
    text!("after", "next_after of an earlier answer."),
    ",",
    ignored_secret!("access_token")
));
const PEOPLE: &str = takes!(
    concat!(
        needed!("ids", "Ids with commas between them; URIs and addresses are taken too."),
        r#","follow_type":{"type":["string","null"],"enum":["artist","user",null],"default":"artist"},"#,
        ignored_secret!("access_token")
    ),
    r#""ids""#
);
const FOLLOWED_PLAYLIST: &str = takes!(
    concat!(
        needed!("playlist_id", "The playlist's id, URI or address."),
        r#","public":{"type":["boolean","null"],"default":true,"description":"Whether others may see it; only applications with extended quota can say no."},"#,
        ignored_secret!("access_token")
    ),
    r#""playlist_id""#
);
const PLAYLIST: &str = takes!(
    concat!(
        needed!("playlist_id", "The playlist's id, URI or address."),
        ",",
        ignored_secret!("access_token")
    ),
    r#""playlist_id""#
);
const PLAYS: &str = takes!(concat!(
    number!("limit", 50, 1, 50, "How many to return."),
    r#","before":{"type":["integer","null"],"description":"Only plays before this time, in milliseconds since 1970."},"after":{"type":["integer","null"],"description":"Only plays after this time, in milliseconds since 1970."},"#,
    ignored_secret!("access_token")
));
const SETUP: &str = takes!(concat!(
    text!("client_id", "The application's client id, if tollgate does not know it yet."),
    ",",
    ignored_secret!("client_secret"),
    ",",
    text!(
        "redirect_uri",
        "As registered with the application; by default http://127.0.0.1:8888/callback."
    )
));
const COMPLETE: &str = takes!(
    concat!(
        text!("client_id", "Not needed: it is known from the first step."),
        ",",
        ignored_secret!("client_secret"),
        ",",
        needed!(
            "authorization_code",
            "The whole address the browser ended at, or the code in it. Of no use to anyone but tollgate."
        ),
        ",",
        text!("redirect_uri", "Not needed: it is known from the first step.")
    ),
    r#""authorization_code""#
);

const ITEMS_OUT: &str = gives!(
    r#""status":{"const":"success"},"total":{"type":"integer"},"items":{"type":"array","items":{"type":"object"}},"limit":{"type":"integer"},"offset":{"type":"integer"},"next_offset":{"type":["integer","null"]},"item_type":{"type":"string"},"time_range":{"type":"string"},"user_id":{"type":"string"},"playlist_id":{"type":"string"}"#,
    r#""status","total","items","next_offset""#
);
const PROFILE_OUT: &str = gives!(
    r#""status":{"const":"success"},"user_profile":{"type":"object","properties":{"id":{"type":["string","null"]},"account_id":{"type":["string","null"]},"display_name":{"type":["string","null"]},"email":{"type":["string","null"]},"country":{"type":["string","null"]},"followers":{"type":["integer","null"]},"product":{"type":["string","null"]},"images":{"type":["array","null"]},"external_urls":{"type":["object","null"]}},"required":["id","display_name"]}"#,
    r#""status","user_profile""#
);
const ARTISTS_OUT: &str = gives!(
    r#""status":{"const":"success"},"total":{"type":["integer","null"]},"artists":{"type":"array","items":{"type":"object"}},"next_after":{"type":["string","null"]}"#,
    r#""status","artists","next_after""#
);
const PLAYS_OUT: &str = gives!(
    r#""status":{"const":"success"},"total_tracks":{"type":"integer"},"tracks":{"type":"array","items":{"type":"object","properties":{"track_name":{"type":["string","null"]},"artists":{"type":"string"},"album":{"type":["string","null"]},"played_at":{"type":["string","null"]},"duration_ms":{"type":["integer","null"]},"external_urls":{"type":["object","null"]},"track_id":{"type":["string","null"]}},"required":["track_name","played_at"]}},"next":{"type":["string","null"]},"cursors":{"type":["object","null"]}"#,
    r#""status","total_tracks","tracks""#
);
const CHANGED_OUT: &str = gives!(
    r#""status":{"const":"success"},"message":{"type":"string"},"follow_type":{"type":"string"},"ids":{"type":"array","items":{"type":"string"}},"playlist_id":{"type":"string"}"#,
    r#""status","message""#
);
const SETUP_OUT: &str = gives!(
    r#""status":{"type":"string"},"message":{"type":"string"},"authorization_url":{"type":"string"},"redirect_uri":{"type":"string"},"next_step":{"type":"string"}"#,
    r#""status","authorization_url","redirect_uri""#
);
const COMPLETE_OUT: &str = gives!(
    r#""status":{"type":"string"},"message":{"type":"string"},"tokens_saved":{"type":"boolean"},"expires_at":{"type":["string","null"]},"scopes":{"type":"array","items":{"type":"string"}}"#,
    r#""status","message","tokens_saved""#
);

pub(crate) const TOOLS: &[Tool] = &[
    reads(Row {
        name: "test_spotify_credentials",
        title: "Test Spotify",
        description: "Asks Spotify whether the stored login works.",
        input: NOTHING,
        output: SENTENCE,
        scopes: &[],
        run: |ask| saying(profile::test(ask)),
    }),
    here(reads(Row {
        name: "get_spotify_config",
        title: "Spotify set-up",
        description: "Says what of the Spotify set-up is there, without showing any of it.",
        input: NOTHING,
        output: SENTENCE,
        scopes: &[],
        run: |ask| saying(ready(Ok(profile::config(&ask)))),
    })),
    tool(
        Effect::Runs,
        Row {
            name: "setup_spotify_oauth",
            title: "Begin to sign in",
            description: "Makes the address at which the owner allows access to Spotify. The second step is complete_spotify_oauth.",
            input: SETUP,
            output: SETUP_OUT,
            scopes: &[],
            run: |ask| answering(sign_in::setup(ask)),
        },
    ),
    tool(
        Effect::Adds,
        Row {
            name: "complete_spotify_oauth",
            title: "Finish signing in",
            description: "Finishes the sign-in that setup_spotify_oauth began and keeps the login sealed.",
            input: COMPLETE,
            output: COMPLETE_OUT,
            scopes: &[],
            run: |ask| answering(complete(ask, &SERVICE, "setup_spotify_oauth")),
        },
    ),
    tool(
        Effect::Runs,
        Row {
            name: "refresh_spotify_token",
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
            name: "auto_refresh_spotify_token_if_needed",
            title: "Refresh if due",
            description: "Refreshes the stored login if it ends within five minutes.",
            input: NOTHING,
            output: REFRESHED,
            scopes: &[],
            run: |ask| answering(refresh_if_due(ask, &SERVICE)),
        },
    ),
    here(reads(Row {
        name: "get_spotify_token_status",
        title: "Spotify login",
        description: "How the login stands: state, scopes, when the token and the six months of consent end.",
        input: NOTHING,
        output: STANDING,
        scopes: &[],
        run: |ask| answering(ready(Ok(standing(ask.desk, &SERVICE)))),
    })),
    reads(Row {
        name: "get_current_user_profile",
        title: "Your profile",
        description: "The owner's Spotify profile. Fields that Spotify no longer sends are null.",
        input: TOKEN_ONLY,
        output: PROFILE_OUT,
        scopes: &["user-read-private", "user-read-email"],
        run: |ask| answering(profile::mine(ask)),
    }),
    reads(Row {
        name: "get_spotify_user_profile",
        title: "Your Spotify profile",
        description: "The same as get_current_user_profile, under a name that no other service has.",
        input: TOKEN_ONLY,
        output: PROFILE_OUT,
        scopes: &["user-read-private", "user-read-email"],
        run: |ask| answering(profile::mine(ask)),
    }),
    reads(Row {
        name: "get_user_profile",
        title: "A user's profile",
        description: "The public profile of a Spotify user. Spotify gives others' only to extended-quota applications.",
        input: USER,
        output: PROFILE_OUT,
        scopes: &[],
        run: |ask| answering(profile::of_user(ask)),
    }),
    reads(Row {
        name: "get_user_top_items",
        title: "Most played",
        description: "The owner's most played tracks or artists over weeks, months or a year.",
        input: TOP,
        output: ITEMS_OUT,
        scopes: &["user-top-read"],
        run: |ask| answering(lists::top(ask)),
    }),
    reads(Row {
        name: "get_followed_artists",
        title: "Followed artists",
        description: "The artists the owner follows; pass next_after back as after for more.",
        input: ARTISTS,
        output: ARTISTS_OUT,
        scopes: &["user-follow-read"],
        run: |ask| answering(lists::followed_artists(ask)),
    }),
    tool(
        Effect::Adds,
        Row {
            name: "follow_artists_or_users",
            title: "Follow",
            description: "Follows artists or users in the owner's name.",
            input: PEOPLE,
            output: CHANGED_OUT,
            scopes: FOLLOW,
            run: |ask| answering(follow::people(ask, Change::Follow)),
        },
    ),
    tool(
        Effect::Destroys,
        Row {
            name: "unfollow_artists_or_users",
            title: "Unfollow",
            description: "Stops following artists or users.",
            input: PEOPLE,
            output: CHANGED_OUT,
            scopes: FOLLOW,
            run: |ask| answering(follow::people(ask, Change::Unfollow)),
        },
    ),
    tool(
        Effect::Adds,
        Row {
            name: "follow_playlist",
            title: "Follow a playlist",
            description: "Adds a playlist to the owner's library.",
            input: FOLLOWED_PLAYLIST,
            output: CHANGED_OUT,
            scopes: FOLLOW_PLAYLIST,
            run: |ask| answering(follow::playlist(ask, Change::Follow)),
        },
    ),
    tool(
        Effect::Destroys,
        Row {
            name: "unfollow_playlist",
            title: "Unfollow a playlist",
            description: "Takes a playlist out of the owner's library.",
            input: PLAYLIST,
            output: CHANGED_OUT,
            scopes: FOLLOW_PLAYLIST,
            run: |ask| answering(follow::playlist(ask, Change::Unfollow)),
        },
    ),
    reads(Row {
        name: "get_user_saved_tracks",
        title: "Saved tracks",
        description: "The tracks in the owner's library, newest first.",
        input: PAGE,
        output: ITEMS_OUT,
        scopes: LIBRARY,
        run: |ask| answering(lists::mine(ask, "tracks")),
    }),
    reads(Row {
        name: "get_user_saved_albums",
        title: "Saved albums",
        description: "The albums in the owner's library, newest first.",
        input: PAGE,
        output: ITEMS_OUT,
        scopes: LIBRARY,
        run: |ask| answering(lists::mine(ask, "albums")),
    }),
    reads(Row {
        name: "get_user_saved_shows",
        title: "Saved shows",
        description: "The podcasts in the owner's library, newest first.",
        input: PAGE,
        output: ITEMS_OUT,
        scopes: LIBRARY,
        run: |ask| answering(lists::mine(ask, "shows")),
    }),
    reads(Row {
        name: "get_user_saved_episodes",
        title: "Saved episodes",
        description: "The podcast episodes in the owner's library, newest first.",
        input: PAGE,
        output: ITEMS_OUT,
        scopes: EPISODES,
        run: |ask| answering(lists::mine(ask, "episodes")),
    }),
    reads(Row {
        name: "get_user_saved_audiobooks",
        title: "Saved audiobooks",
        description: "The audiobooks in the owner's library, newest first.",
        input: PAGE,
        output: ITEMS_OUT,
        scopes: LIBRARY,
        run: |ask| answering(lists::mine(ask, "audiobooks")),
    }),
    reads(Row {
        name: "get_current_user_playlists",
        title: "Your playlists",
        description: "The playlists the owner has made or follows.",
        input: PAGE,
        output: ITEMS_OUT,
        scopes: PLAYLISTS,
        run: |ask| answering(lists::mine(ask, "playlists")),
    }),
    reads(Row {
        name: "get_user_playlists",
        title: "A user's playlists",
        description: "The public playlists of a Spotify user. Spotify gives others' only to extended-quota applications.",
        input: USER_PAGE,
        output: ITEMS_OUT,
        scopes: PLAYLISTS,
        run: |ask| answering(lists::playlists_of(ask)),
    }),
    reads(Row {
        name: "get_playlist_items",
        title: "Entries of a playlist",
        description: "The tracks and episodes of a playlist the owner has made or takes part in.",
        input: PLAYLIST_PAGE,
        output: ITEMS_OUT,
        scopes: PLAYLISTS,
        run: |ask| answering(lists::playlist_items(ask)),
    }),
    reads(Row {
        name: "get_user_recently_played",
        title: "Recently played",
        description: "The owner's latest plays. Spotify itself keeps only 50; `tollgate sync spotify` keeps them all.",
        input: PLAYS,
        output: PLAYS_OUT,
        scopes: &["user-read-recently-played"],
        run: |ask| answering(lists::recently_played(ask)),
    }),
];

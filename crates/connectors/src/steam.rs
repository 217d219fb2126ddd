//! Steam: games, friends and achievements by the Web API. This file is the table; each subject has
//! its own file below it.

mod api;
mod figures;
mod library;
pub mod mirror;
mod people;
mod status;
#[cfg(test)]
mod tests;

use std::future::{Future, ready};

use serde_json::{Value, json};

use crate::account::STEAM;
use crate::personal::row::here;
use crate::personal::schema::{NOTHING, SENTENCE, gives, needed, number, takes, text};
use crate::personal::{Problem, answering, saying};
use crate::{Answer, Effect, MAIN_SET, Reach, Run, Service, Tool, Working};

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "steam";

pub const SERVICE: Service = Service {
    name: NAME,
    title: "Steam",
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": the owner's Steam profile, games and friends. Where an id is asked for, the address of a profile or the ",
        "name in it will do. Never send keys; the owner sets them with `tollgate connect steam`. Errors carry a code ",
        "and what to do next; what others keep private stays private."
    ),
    tools: TOOLS,
    resources: &[],
    templates: &[],
    account: Some(&STEAM),
    policy: include_str!("steam/policy.json"),
};

/// Words for people, and the facts behind them.
type Telling = Result<(String, Value), Problem>;

/// The words are kept under `result`, beside the facts.
fn telling<'a>(work: impl Future<Output = Telling> + Send + 'a) -> Working<'a> {
    Box::pin(async move {
        match work.await {
            Ok((text, mut value)) => {
                if let Some(facts) = value.as_object_mut() {
                    facts.insert("result".to_owned(), json!(text));
                }
                Answer::Said { text, value: crate::personal::fit::fit(value) }
            }
            Err(problem) => Answer::Refused(problem.envelope()),
        }
    })
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

const WHO: &str = takes!(text!(
    "steamid",
    "SteamID64, profile address or the name in it; the owner if left out."
));
const WHOSE_FRIENDS: &str = takes!(concat!(
    text!("steamid", "SteamID64, profile address or the name in it; the owner if left out."),
    ",",
    number!("limit", 100, 1, 500, "How many to return."),
    ",",
    number!("offset", 0, 0, 100000, "Where to begin; next_offset of an earlier answer."),
));
const WHO_MANY: &str = takes!(text!(
    "steamids",
    "SteamID64s with commas between them, up to 500; the owner if left out."
));
const FRIEND: &str = takes!(
    needed!("friend_steamid", "The friend's SteamID64, profile address or the name in it."),
    r#""friend_steamid""#
);
const GAME: &str = takes!(
    r#""app_id":{"type":"integer","minimum":1,"description":"The number of the game, as get_steam_library shows it."}"#,
    r#""app_id""#
);

const LIBRARY_OUT: &str = gives!(
    r#""result":{"type":"string"},"steamid":{"type":"string"},"total_games":{"type":"integer"},"hours_total":{"type":"number"},"hours_average":{"type":"number"},"top_games":{"type":"array","items":{"type":"object"}},"recent_count":{"type":"integer"},"recent_games":{"type":"array","items":{"type":"object"}}"#,
    r#""result","total_games","hours_total","top_games","recent_games""#
);
const FRIENDS_OUT: &str = gives!(
    r#""result":{"type":"string"},"steamid":{"type":"string"},"total_friends":{"type":"integer"},"friends":{"type":"array","items":{"type":"object","properties":{"steamid":{"type":"string"},"persona_name":{"type":["string","null"]},"profile_url":{"type":["string","null"]},"friends_since":{"type":["string","null"]}}}},"limit":{"type":"integer"},"offset":{"type":"integer"},"next_offset":{"type":["integer","null"]}"#,
    r#""result","total_friends","friends""#
);
const MY_RECENT_OUT: &str = gives!(
    r#""result":{"type":"string"},"total_recent_games":{"type":"integer"},"recent_games":{"type":"array","items":{"type":"object"}}"#,
    r#""result","total_recent_games","recent_games""#
);
const RECENT_OUT: &str = gives!(
    r#""steamid":{"type":"string"},"total_recent_games":{"type":"integer"},"recent_games":{"type":"array","items":{"type":"object"}},"message":{"type":"string"}"#,
    r#""steamid","total_recent_games","recent_games""#
);
const PLAYER_OUT: &str = gives!(
    r#""result":{"type":"string"},"steam_id":{"type":["string","null"]},"persona_name":{"type":["string","null"]},"profile_url":{"type":["string","null"]},"status":{"type":"string"},"profile_visibility":{"enum":["Public","Private"]},"current_game":{"type":["string","null"]}"#,
    r#""result","status","profile_visibility""#
);
const SUMMARY_OUT: &str = gives!(
    r#""players":{"type":"array","items":{"type":"object"}},"total_players":{"type":"integer"},"steam_id":{"type":["string","null"]},"persona_name":{"type":["string","null"]},"profile_url":{"type":["string","null"]},"avatar":{"type":["string","null"]},"status":{"type":"string"},"profile_visibility":{"enum":["Public","Private"]},"real_name":{"type":["string","null"]},"country":{"type":["string","null"]},"state":{"type":["string","null"]},"account_created":{"type":["string","null"]},"last_logoff":{"type":["string","null"]},"current_game":{"type":["string","null"]},"game_id":{"type":["string","null"]}"#,
    ""
);
const ACHIEVEMENTS_OUT: &str = gives!(
    r#""game_name":{"type":["string","null"]},"total_achievements":{"type":"integer"},"achieved_count":{"type":"integer"},"completion_rate":{"type":"number","description":"In percent."},"recent_achievements":{"type":"array","items":{"type":"object"}}"#,
    r#""total_achievements","achieved_count","completion_rate","recent_achievements""#
);
const STATS_OUT: &str = gives!(
    r#""game_name":{"type":["string","null"]},"achievements":{"type":"array","items":{"type":"object"}},"stats":{"type":"array","items":{"type":"object"}},"summary":{"type":"object"}"#,
    r#""achievements","stats","summary""#
);
const PLAYING_OUT: &str = gives!(
    r#""result":{"type":"string"},"friends_checked":{"type":"integer"},"playing":{"type":"array","items":{"type":"object"}},"online":{"type":"array","items":{"type":"object"}}"#,
    r#""result","friends_checked","playing","online""#
);
const COMPARED_OUT: &str = gives!(
    r#""result":{"type":"string"},"friend":{"type":"string"},"your_games":{"type":"integer"},"friend_games":{"type":"integer"},"common_count":{"type":"integer"},"common_games":{"type":"array","items":{"type":"object"}}"#,
    r#""result","common_count","common_games""#
);
const TIPS_OUT: &str = gives!(
    r#""result":{"type":"string"},"friend":{"type":"string"},"total":{"type":"integer"},"recommendations":{"type":"array","items":{"type":"object"}}"#,
    r#""result","total","recommendations""#
);

pub(crate) const TOOLS: &[Tool] = &[
    reads(
        "test_steam_credentials",
        "Test Steam",
        "Asks Steam whether the stored Web API key works and whose profile it is.",
        NOTHING,
        SENTENCE,
        |ask| saying(status::test(ask)),
    ),
    reads(
        "get_steam_library",
        "Games owned",
        "How many games somebody owns, the hours in them, the ten most played and what was played lately.",
        WHO,
        LIBRARY_OUT,
        |ask| telling(library::library(ask)),
    ),
    reads(
        "get_steam_friends",
        "Friends",
        "Somebody's friends by name, with the day since when, page by page. Others' lists only where they are public.",
        WHOSE_FRIENDS,
        FRIENDS_OUT,
        |ask| telling(people::friends(ask)),
    ),
    reads(
        "my_steam_recent_activity",
        "Your last two weeks",
        "What the owner played in the last two weeks, with hours.",
        NOTHING,
        MY_RECENT_OUT,
        |ask| telling(library::my_recent(ask)),
    ),
    reads(
        "get_steam_profile",
        "A profile",
        "Name, status, country and current game of one profile.",
        WHO,
        PLAYER_OUT,
        |ask| telling(people::profile(ask)),
    ),
    here(reads(
        "get_steam_config",
        "Steam set-up",
        "Says what of the Steam set-up is there, without showing any of it.",
        NOTHING,
        SENTENCE,
        |ask| saying(ready(Ok(status::config(&ask)))),
    )),
    reads(
        "get_steam_recent_activity",
        "Somebody's last two weeks",
        "What somebody played in the last two weeks, as Steam has it; times are in minutes.",
        WHO,
        RECENT_OUT,
        |ask| answering(library::recent(ask)),
    ),
    reads(
        "get_player_summary",
        "Player summaries",
        "The profiles of one or many players. Without ids it is the owner's, as one flat object.",
        WHO_MANY,
        SUMMARY_OUT,
        |ask| answering(people::summaries(ask)),
    ),
    reads(
        "get_player_achievements",
        "Achievements",
        "How far the owner got in a game, with the five newest achievements.",
        GAME,
        ACHIEVEMENTS_OUT,
        |ask| answering(figures::achievements(ask)),
    ),
    reads(
        "get_user_game_stats",
        "Game statistics",
        "The owner's statistics in one game, as the game keeps them.",
        GAME,
        STATS_OUT,
        |ask| answering(figures::stats(ask)),
    ),
    reads(
        "get_friends_current_games",
        "What friends play now",
        "Which of the owner's friends are playing or online right now, all friends counted.",
        NOTHING,
        PLAYING_OUT,
        |ask| telling(people::playing(ask)),
    ),
    reads(
        "compare_games_with_friend",
        "Compare libraries",
        "Which games the owner and a friend both have, with the hours of both.",
        FRIEND,
        COMPARED_OUT,
        |ask| telling(library::compare(ask)),
    ),
    reads(
        "get_friend_game_recommendations",
        "Games a friend plays",
        "Games that a friend plays and the owner does not have, most played first.",
        FRIEND,
        TIPS_OUT,
        |ask| telling(library::tips(ask)),
    ),
];

//! Steam: games, friends and achievements through the Web API. This file is the tool table; the tools
//! are in the submodules.

pub mod account;
mod api;
mod daily;
mod game_stats;
mod library;
pub mod mirror;
mod people;
mod personal;
mod status;
#[cfg(test)]
mod tests;

use crate::activity::{Activity, ActivityList, Amount, Top, Topic};
use crate::connector::Connector;
use crate::personal::handler::handler;
use crate::personal::tool_row::here;
use crate::tool::Handler;
use crate::{Effect, MAIN_SET, Reach, Service, Tool};
use account::ACCOUNT;
use insights::Unit;

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "steam";

pub static SERVICE: Service = Service { name: NAME, title: "Steam", account: Some(&ACCOUNT) };

pub const CONNECTOR: Connector = Connector {
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": the owner's Steam profile, games and friends. Where an id is asked for, the address of a profile or the ",
        "name in it will do. Never send keys; the owner sets them with `tollgate connect steam`. Errors carry a code ",
        "and what to do next; what others keep private stays private."
    ),
    tools: TOOLS,
    policy: include_str!("steam/policy.json"),
    mirror: Some(&mirror::MIRROR),
    personal: Some(&personal::PERSONAL),
    demo: Some(&personal::DEMO),
    activity: Some(&ACTIVITY),
    metrics: Some(&daily::METRICS),
    ..Connector::of(&SERVICE)
};

const fn minutes(name: &'static str) -> Amount {
    Amount::Member { name, divisor: 1, unit: Unit::Minutes }
}

const ACTIVITY: Activity = Activity {
    topic: Topic::Games,
    lists: &[ActivityList {
        kind: "games",
        title: "Play time",
        is_history: false,
        tops: &[
            Top { title: "Last two weeks", name: "name", amount: minutes("minutes_2weeks") },
            Top { title: "All time", name: "name", amount: minutes("minutes_total") },
        ],
    }],
};

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
        "test_steam_credentials",
        "Test Steam",
        "Checks at Steam whether the stored Web API key works and whose profile it is.",
        handler!(NAME, status::test),
    ),
    reads(
        "get_steam_library",
        "Games owned",
        "The number of a player's games, the hours in them, the ten most played and the recently played.",
        handler!(NAME, library::library),
    ),
    reads(
        "get_steam_friends",
        "Friends",
        "A player's friends by name, with the day since when, page by page. Others' lists only where they are public.",
        handler!(NAME, people::friends),
    ),
    reads(
        "my_steam_recent_activity",
        "Your last two weeks",
        "What the owner played in the last two weeks, with hours.",
        handler!(NAME, library::my_recent),
    ),
    reads(
        "get_steam_profile",
        "A profile",
        "Name, status, country and current game of one profile.",
        handler!(NAME, people::profile),
    ),
    here(reads(
        "get_steam_config",
        "Steam set-up",
        "Shows which Steam settings exist, without their values.",
        handler!(NAME, status::config),
    )),
    reads(
        "get_steam_recent_activity",
        "A player's last two weeks",
        "What a player played in the last two weeks, as Steam returns it; times are in minutes.",
        handler!(NAME, library::recent),
    ),
    reads(
        "get_player_summary",
        "Player summaries",
        "The profiles of one or many players. Without ids it is the owner's, as one flat object.",
        handler!(NAME, people::summaries),
    ),
    reads(
        "get_player_achievements",
        "Achievements",
        "How far the owner got in a game, with the five newest achievements.",
        handler!(NAME, game_stats::achievements),
    ),
    reads(
        "get_user_game_stats",
        "Game statistics",
        "The owner's statistics in one game, as the game keeps them.",
        handler!(NAME, game_stats::stats),
    ),
    reads(
        "get_friends_current_games",
        "What friends play now",
        "Which of the owner's friends are playing or online right now, all friends counted.",
        handler!(NAME, people::playing),
    ),
    reads(
        "compare_games_with_friend",
        "Compare libraries",
        "Which games the owner and a friend both have, with the hours of both.",
        handler!(NAME, library::compare),
    ),
    reads(
        "get_friend_game_recommendations",
        "Games a friend plays",
        "Games that a friend plays and the owner does not have, most played first.",
        handler!(NAME, library::recommendations),
    ),
];

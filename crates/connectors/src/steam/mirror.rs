//! What is kept of Steam: the owner's games, with the time spent in each and when last.

use serde_json::{Map, Value, json};
use store::export::{Kind as File, Shelf};
use store::records::{Column, View};

use super::{NAME, api};
use crate::Desk;
use crate::personal::mirror::{Forgets, List, Page, Stamp, at, walk};
use crate::personal::{Problem, events};
use crate::sync::{EventsAsked, Fault, Mirror, Resource};
use crate::when::utc_millis;

/// Our own mark in an entry: when it last changed, as text.
const CHANGED: &str = "changed_at";

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[Resource {
        name: "games",
        since: None,
        fetch: |turn| Box::pin(walk(turn, &GAMES, |_| page(turn.desk))),
    }],
    events: changed,
};

pub(crate) const LISTS: &[&List] = &[&GAMES];
/// Grows when the columns do.
pub(crate) const VERSION: u32 = 1;

const GAMES: List = List {
    kind: "games",
    id: |game| game.get("appid")?.as_i64().map(|id| id.to_string()),
    at: "/changed_at",
    // A game that was bought and never started has no time of its own.
    stamp: Stamp::Seen,
    parent: None,
    flat,
    forgets: Forgets::Missing,
};

fn flat(game: &Value) -> Map<String, Value> {
    let was_played = game.get("rtime_last_played").and_then(Value::as_i64).unwrap_or(0) > 0;
    let last = if was_played { at(game, "/changed_at") } else { Value::Null };
    let columns = [
        ("app_id", at(game, "/appid")),
        ("name", at(game, "/name")),
        ("minutes_total", at(game, "/playtime_forever")),
        ("minutes_2weeks", game.get("playtime_2weeks").cloned().unwrap_or(json!(0))),
        ("last_played_at", last),
    ];
    columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// All games come in one page. What was never played is as old as can be.
async fn page(desk: &Desk) -> Result<Page, Problem> {
    let mut items = api::owned(desk, &api::own_id(desk).await?).await?;
    for game in items.iter_mut().filter_map(Value::as_object_mut) {
        let last_s = game.get("rtime_last_played").and_then(Value::as_i64).unwrap_or(0);
        let changed = utc_millis(last_s.saturating_mul(1_000_000));
        game.insert(CHANGED.to_owned(), json!(changed));
    }
    let total = u64::try_from(items.len()).ok();
    Ok(Page { items, next: None, total })
}

fn changed(desk: &Desk, asked: &EventsAsked<'_>) -> Result<Value, Fault> {
    events(desk, NAME, &[GAMES.kind], asked)
}

/// Everything that can be taken out.
pub const SHELF: Shelf = Shelf {
    service: NAME,
    kinds: &[File { name: "games", file: "games", is_snapshot: false, view: &GAMES_VIEW }],
};

const GAMES_VIEW: View = View {
    name: "steam_games",
    service: NAME,
    kind: "games",
    columns: &[
        Column::integer("app_id"),
        Column::text("name"),
        Column::integer("minutes_total"),
        Column::integer("minutes_2weeks"),
        Column::text("last_played_at"),
    ],
    except_state: None,
};

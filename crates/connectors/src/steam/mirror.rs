//! The Steam mirror: the owner's games, with the play time and the last play of each.

use serde_json::{Map, Value, json};
use store::export::{ExportKind, ServiceExports};
use store::records::{Column, View};

use super::{NAME, api};
use crate::ConnectorContext;
use crate::personal::mirror::{
    Forgets, List, Page, Stamp, at, columns, derived, put, text_at, walk,
};
use crate::personal::{Problem, events};
use crate::sync::{Mirror, SyncResource};
use crate::when::utc_millis;

/// A field added to each entry: when it last changed, as text.
const CHANGED: &str = "changed_at";

pub const MIRROR: Mirror = Mirror {
    service: NAME,
    resources: &[SyncResource::list("games", |job| Box::pin(walk(job, &GAMES, |_| page(job.ctx))))],
    events: |ctx, asked| events(ctx, NAME, LISTS, asked),
    export: &EXPORTS,
    more_views: &[],
    version: VERSION,
    derive: |kind, raw| derived(LISTS, kind, raw),
    offset_s: None,
    doubtful: None,
};

pub(crate) const LISTS: &[&List] = &[&GAMES, &PLAY_TIME];
/// Increase when the columns change.
pub(crate) const VERSION: u32 = 1;

const GAMES: List = List {
    kind: "games",
    id: |game| game.get("appid")?.as_i64().map(|id| id.to_string()),
    at: "/changed_at",
    // A game that was never started has no time.
    stamp: Stamp::FirstSeen,
    parent: None,
    flat,
    forgets: Forgets::Missing,
};

pub(super) const PLAY_TIME_KIND: &str = "play_time";

/// The minutes of all games at a sync, once an hour at most. Steam has no history of play time.
const PLAY_TIME: List = List {
    kind: PLAY_TIME_KIND,
    id: |reading| text_at(reading, "/hour"),
    at: "/read_at",
    stamp: Stamp::FromItem,
    parent: None,
    flat: |reading| {
        columns([
            ("read_at", at(reading, "/read_at")),
            ("minutes_total", at(reading, "/minutes_total")),
        ])
    },
    forgets: Forgets::Never,
};

fn play_time(games: &[Value], now_us: i64) -> Value {
    let minutes = games.iter().filter_map(|game| game.get("playtime_forever")?.as_i64());
    let read_at = utc_millis(now_us);
    json!({ "hour": read_at.get(..13), "read_at": read_at, "minutes_total": minutes.sum::<i64>() })
}

fn flat(game: &Value) -> Map<String, Value> {
    let was_played = game.get("rtime_last_played").and_then(Value::as_i64).unwrap_or(0) > 0;
    let last = if was_played { at(game, "/changed_at") } else { Value::Null };
    let named = [
        ("app_id", at(game, "/appid")),
        ("name", at(game, "/name")),
        ("minutes_total", at(game, "/playtime_forever")),
        ("minutes_2weeks", game.get("playtime_2weeks").cloned().unwrap_or(json!(0))),
        ("last_played_at", last),
    ];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// All games come in one page. A game that was never played gets the earliest time.
async fn page(ctx: &ConnectorContext) -> Result<Page, Problem> {
    let mut items = api::owned(ctx, &api::own_id(ctx).await?).await?;
    for game in items.iter_mut().filter_map(Value::as_object_mut) {
        let last_s = game.get("rtime_last_played").and_then(Value::as_i64).unwrap_or(0);
        let changed = utc_millis(last_s.saturating_mul(1_000_000));
        game.insert(CHANGED.to_owned(), json!(changed));
    }
    let reading = play_time(&items, ctx.clock.now().wall_us);
    if let Err(error) = put(ctx, NAME, &PLAY_TIME, &[reading]) {
        tracing::warn!(%error, "could not store the play time");
    }
    let total = u64::try_from(items.len()).ok();
    Ok(Page { items, next: None, total })
}

/// Everything that can be exported.
pub const EXPORTS: ServiceExports = ServiceExports {
    service: NAME,
    kinds: &[
        ExportKind::list("games", &GAMES_VIEW),
        ExportKind::list(PLAY_TIME_KIND, &PLAY_TIME_VIEW),
    ],
};

const PLAY_TIME_VIEW: View = View::of(
    "steam_play_time",
    NAME,
    PLAY_TIME_KIND,
    &[Column::text("read_at"), Column::integer("minutes_total")],
);

const GAMES_VIEW: View = View::of(
    "steam_games",
    NAME,
    "games",
    &[
        Column::integer("app_id"),
        Column::text("name"),
        Column::integer("minutes_total"),
        Column::integer("minutes_2weeks"),
        Column::text("last_played_at"),
    ],
);

//! WHOOP: the owner's cycles, recoveries, sleeps and workouts, read from a local mirror of the v2 API.
//! This file is the tool table; the tools are in the submodules.

pub mod account;
pub mod api;
mod classic;
mod daily;
pub mod days;
mod events;
pub mod export;
mod fill;
mod guidance;
mod handler;
mod health;
pub(crate) mod insights;
pub mod kind;
pub mod legacy;
mod list_tools;
mod lists;
mod locked;
pub mod mirror_writer;
pub mod problem;
mod records;
mod resources;
pub mod shape;
mod single;
mod status;
pub mod sync;
mod table;
pub mod takeout;
#[cfg(test)]
mod tests;
mod truncate;
pub mod views;
pub mod webhook;

use store::records::{Records, RecordsError, Window};

use crate::connector::{Connector, DemoCall};
use crate::when::Here;
use crate::{ConnectorContext, Service};
use account::ACCOUNT;
use handler::ToolError;
use kind::Kind;

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "whoop";

pub static SERVICE: Service = Service { name: NAME, title: "WHOOP", account: Some(&ACCOUNT) };

pub const CONNECTOR: Connector = Connector {
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": the owner's WHOOP data. Run sync_whoop once per session; list and get tools read the local mirror ",
        "(fresh=true asks WHOOP). get_whoop_events tells what changed, export_whoop writes files, health_check checks."
    ),
    tools: table::TOOLS,
    policy: include_str!("whoop/policy.json"),
    resources: resources::RESOURCES,
    templates: resources::TEMPLATES,
    skills: guidance::SKILLS,
    prompts: guidance::PROMPTS,
    mirror: Some(&sync::MIRROR),
    webhook: Some(&webhook::WEBHOOK),
    agent_exports: Some(&export::AGENT_EXPORTS),
    vault_locked: Some(locked::locked),
    demo: Some(&DEMO),
    health: Some(insights::load_health),
    apps: insights::APPS,
    metrics: Some(&insights::DAILY_METRICS),
    ..Connector::of(&SERVICE)
};

/// Yesterday, because today is empty between the stand-in owner's midnight and waking.
const DEMO: DemoCall = DemoCall {
    tool: "get_whoop_daily_summary",
    arguments: r#"{"date":"yesterday","day":"local"}"#,
    needs_mirror: true,
};

/// The current time and the owner's offset, taken from the newest record, because WHOOP's profile
/// has no time zone.
pub(crate) fn here(ctx: &ConnectorContext) -> Here {
    let offset_s = offset_s(&ctx.records).unwrap_or(0);
    Here { now_us: ctx.clock.now().wall_us, offset_s }
}

/// The offset of the newest record; `None` if no record has one.
pub fn offset_s(records: &Records) -> Option<i32> {
    let newest = Window { limit: Some(1), newest_first: true, ..Window::default() };
    let found = records.snapshot(|look| {
        let mut found: Option<(i64, i32)> = None;
        for kind in [Kind::Cycles, Kind::Sleeps, Kind::Workouts] {
            let rows = look.window(NAME, kind.name(), &newest)?;
            let own = rows.first().and_then(|row| Some((row.start_us?, row.offset_s?)));
            // On a tie the cycle's offset counts.
            found = if own.map(|own| own.0) > found.map(|found| found.0) { own } else { found };
        }
        Ok(found)
    });
    found.ok().flatten().map(|(_, offset_s)| offset_s)
}

/// The number of records with impossible times.
pub fn doubtful(records: &Records) -> Result<u64, RecordsError> {
    let mut sum = 0;
    // Recoveries have no times of their own.
    for kind in [Kind::Cycles, Kind::Sleeps, Kind::Workouts] {
        sum += records.count_unplaced(NAME, kind.name(), shape::INVALID)?;
    }
    Ok(sum)
}

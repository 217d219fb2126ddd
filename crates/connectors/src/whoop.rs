//! WHOOP: the owner's cycles, recoveries, sleeps and workouts, read from a local mirror of the v2 API.
//! This file is the table; each subject has its own file below it.

pub mod api;
mod classic;
mod daily;
pub mod days;
mod events;
pub mod export;
mod fill;
mod fit;
mod health;
pub mod keep;
pub mod kind;
pub mod legacy;
mod lists;
mod locked;
pub mod problem;
mod resources;
mod schemas;
pub mod shape;
mod single;
mod status;
pub mod sync;
mod table;
pub mod takeout;
#[cfg(test)]
mod tests;
pub mod views;
pub mod webhook;

use serde_json::Value;
use store::records::{Records, RecordsError, Window};

use crate::account::WHOOP;
use crate::coerce::Misread;
use crate::when::Here;
use crate::{Answer, Desk, Service, Working};
pub(crate) use events::Marks;
use kind::Kind;
pub(crate) use locked::locked;
use problem::Problem;

/// The service's name in records, accounts and addresses.
pub const NAME: &str = "whoop";

pub const SERVICE: Service = Service {
    name: NAME,
    title: "WHOOP",
    instructions: concat!(
        "tollgate ",
        env!("CARGO_PKG_VERSION"),
        ": the owner's WHOOP data. Run sync_whoop once per session; list and get tools read the local mirror ",
        "(fresh=true asks WHOOP). get_whoop_events tells what changed, export_whoop writes files, health_check checks."
    ),
    tools: table::TOOLS,
    resources: resources::RESOURCES,
    templates: resources::TEMPLATES,
    account: Some(&WHOOP),
    policy: include_str!("whoop/policy.json"),
};

/// Why a tool has no result.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The arguments do not fit the tool: an `isError` answer.
    Misread(Misread),
    /// A domain error: an ordinary answer with the envelope.
    Problem(Problem),
}

impl From<Misread> for Trouble {
    fn from(misread: Misread) -> Trouble {
        Trouble::Misread(misread)
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        Trouble::Problem(problem)
    }
}

/// What a tool does, before it is put into an answer.
pub(crate) type Outcome = Result<Value, Trouble>;

/// Turns a tool's outcome into its answer.
fn answering<'a, T: Into<Answer>>(
    work: impl Future<Output = Result<T, Trouble>> + Send + 'a,
) -> Working<'a> {
    Box::pin(async move {
        match work.await {
            Ok(found) => found.into(),
            Err(Trouble::Problem(problem)) => Answer::Found(problem.envelope()),
            Err(Trouble::Misread(Misread(words))) => {
                Answer::Failed { code: "invalid_arguments", words }
            }
        }
    })
}

/// Where the owner stands: now, and on the clock of the newest record, because WHOOP's profile knows
/// no time zone.
pub(crate) fn here(desk: &Desk) -> Here {
    let offset_s = offset_s(&desk.records).unwrap_or(0);
    Here { now_us: desk.clock.now().wall_us, offset_s }
}

/// The clock of the newest record; nothing while the mirror has none that says it.
pub fn offset_s(records: &Records) -> Option<i32> {
    let newest = Window { limit: Some(1), newest_first: true, ..Window::default() };
    let found = records.look(|look| {
        let mut found: Option<(i64, i32)> = None;
        for kind in [Kind::Cycles, Kind::Sleeps, Kind::Workouts] {
            let rows = look.window(NAME, kind.name(), &newest)?;
            let own = rows.first().and_then(|row| Some((row.start_us?, row.offset_s?)));
            // Of equals the cycle's counts.
            found = if own.map(|own| own.0) > found.map(|found| found.0) { own } else { found };
        }
        Ok(found)
    });
    found.ok().flatten().map(|(_, offset_s)| offset_s)
}

/// How many records WHOOP sent with times that cannot be.
pub fn doubtful(records: &Records) -> Result<u64, RecordsError> {
    let mut sum = 0;
    // Recoveries have no times of their own.
    for kind in [Kind::Cycles, Kind::Sleeps, Kind::Workouts] {
        sum += records.count_unplaced(NAME, kind.name(), shape::INVALID)?;
    }
    Ok(sum)
}

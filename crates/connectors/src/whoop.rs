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

use crate::account::WHOOP;
use crate::coerce::Misread;
use crate::{Answer, Desk, Service, Working};
pub(crate) use events::Marks;
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

/// Where the owner stands: now, and on the clock of the latest cycle, because WHOOP's profile knows
/// no time zone.
pub(crate) fn here(desk: &Desk) -> crate::when::Here {
    let offset_s = latest_offset_s(desk).unwrap_or(0);
    crate::when::Here { now_us: desk.clock.now().wall_us, offset_s }
}

/// The clock of the newest cycle; nothing while the mirror has none that says it.
pub(crate) fn latest_offset_s(desk: &Desk) -> Option<i32> {
    let latest = store::records::Window {
        limit: Some(1),
        newest_first: true,
        ..store::records::Window::default()
    };
    let rows = desk.records.window(NAME, kind::Kind::Cycles.name(), &latest).ok()?;
    rows.first()?.offset_s
}

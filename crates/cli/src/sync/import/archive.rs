//! The archives that services send their users on request.

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use connectors::personal::{ArchiveError, ArchiveGiven, Imported, Taken};
use connectors::{Desk, reddit, spotify, youtube};
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, Table, visible};

#[derive(Args)]
pub(crate) struct ArchiveArgs {
    /// ZIPs as they were sent (all parts of one archive), the folder they were unpacked to, or single files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

type Take = fn(&Desk, &ArchiveGiven<'_>) -> Result<Imported, ArchiveError>;

pub(super) fn spotify(args: &ArchiveArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    import(args, spotify::NAME, spotify::archive::import, context, out)
}

pub(super) fn youtube(args: &ArchiveArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    import(args, youtube::NAME, youtube::archive::import, context, out)
}

pub(super) fn reddit(args: &ArchiveArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    import(args, reddit::NAME, reddit::archive::import, context, out)
}

fn import(
    args: &ArchiveArgs,
    service: &str,
    take: Take,
    context: &Context,
    out: &mut Out,
) -> Result<Ending> {
    let stores = context.open()?;
    let desk = stores.desk()?;
    let imported = {
        let bar = RefCell::new(Progress::new("importing"));
        let told = |step: connectors::personal::ArchiveProgress| {
            bar.borrow_mut().share(step.done_bytes, step.total_bytes, step.rows);
        };
        let zone = TimeZone::system();
        let given = ArchiveGiven { paths: &args.paths, zone: &zone, told: &told };
        take(&desk, &given).with_context(|| format!("cannot import into `{service}`"))?
    };
    let written: usize = imported.kinds.values().map(|taken| taken.written).sum();
    stores.note("imported", service, &format!("{written} records taken in"))?;
    if out.wants_json() {
        out.json(&whole(&imported))?;
        return Ok(Ending::of(imported.problem_count == 0 && !took_nothing(&imported)));
    }
    for (name, why) in &imported.problems {
        out.warn(visible(&format!("`{name}` was left out: {why}")));
    }
    let unnamed = imported.problem_count - imported.problems.len();
    if unnamed > 0 {
        out.warn(format_args!("{unnamed} more files could not be read"));
    }
    show(&imported, out)?;
    let ended = super::ending(took_nothing(&imported), out);
    // No as well if some of it could not be read.
    Ok(if imported.problem_count == 0 { ended } else { Ending::No })
}

/// There were rows, and every one of them was left out.
fn took_nothing(imported: &Imported) -> bool {
    let left_out: usize = imported.kinds.values().map(|taken| taken.odd).sum();
    left_out > 0 && imported.kinds.values().all(|taken| taken.odd == taken.rows)
}

fn show(imported: &Imported, out: &mut Out) -> Result<()> {
    let mut table = Table::new(&["what", "rows", "taken", "here before", "taken back", "left out"]);
    for (kind, taken) in &imported.kinds {
        table.row([
            (*kind).to_owned(),
            taken.rows.to_string(),
            taken.written.to_string(),
            here_before(*taken).to_string(),
            taken.stale.to_string(),
            taken.odd.to_string(),
        ]);
    }
    out.table(&table)
}

fn here_before(taken: Taken) -> usize {
    taken.rows.saturating_sub(taken.written + taken.odd + taken.stale)
}

fn whole(imported: &Imported) -> Value {
    let kinds = imported.kinds.iter().map(|(kind, taken)| ((*kind).to_owned(), value(*taken)));
    let problems: Vec<Value> =
        imported.problems.iter().map(|(name, why)| json!({ "file": name, "why": why })).collect();
    json!({
        "kinds": kinds.collect::<Map<_, _>>(),
        "unreadable_files": imported.problem_count,
        "unreadable": problems,
    })
}

fn value(taken: Taken) -> Value {
    let Taken { rows, written, odd, stale } = taken;
    json!({
        "rows": rows,
        "taken": written,
        "here_before": here_before(taken),
        "taken_back": stale,
        "left_out": odd,
    })
}

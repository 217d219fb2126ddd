//! The archives that services send their users on request.

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use connectors::personal::{ArchiveImport, ImportInput, ImportReport, KindCounts};
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, Table, visible};

/// The import of one service's archive.
pub(crate) struct Archive {
    service: &'static str,
    import: &'static ArchiveImport,
    args: ArchiveArgs,
}

#[derive(Args)]
struct ArchiveArgs {
    /// ZIPs as they were sent (all parts of one archive), the folder they were unpacked to, or single files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Archive {
    /// The commands of all services that send archives.
    pub(super) fn commands() -> impl Iterator<Item = Command> {
        connectors::ALL.iter().filter_map(|connector| {
            let about = connector.archive?.about;
            Some(ArchiveArgs::augment_args(Command::new(connector.name()).about(about)))
        })
    }

    pub(super) fn of(service: &str) -> Option<(&'static str, &'static ArchiveImport)> {
        let connector = connectors::connector(service)?;
        Some((connector.name(), connector.archive?))
    }

    /// The command that was given, if it is one of these.
    pub(super) fn from_matches(matches: &ArgMatches) -> Option<Result<Archive, clap::Error>> {
        let (name, matches) = matches.subcommand()?;
        let (service, import) = Archive::of(name)?;
        let args = ArchiveArgs::from_arg_matches(matches);
        Some(args.map(|args| Archive { service, import, args }))
    }

    pub(super) fn run(&self, context: &Context, out: &mut Out) -> Result<Ending> {
        import(&self.args, self.service, self.import, context, out)
    }
}

fn import(
    args: &ArchiveArgs,
    service: &str,
    archive: &ArchiveImport,
    context: &Context,
    out: &mut Out,
) -> Result<Ending> {
    let stores = context.open()?;
    let ctx = stores.connector_context()?;
    let imported = {
        let bar = RefCell::new(Progress::new("importing"));
        let on_progress = |step: connectors::personal::ImportProgress| {
            bar.borrow_mut().share(step.done_bytes, step.total_bytes, step.rows);
        };
        let zone = TimeZone::system();
        let given = ImportInput { paths: &args.paths, zone: &zone, on_progress: &on_progress };
        (archive.import)(&ctx, &given).with_context(|| format!("cannot import into `{service}`"))?
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
    // Also no if some files could not be read.
    Ok(if imported.problem_count == 0 { ended } else { Ending::No })
}

/// There were rows, but none was usable.
fn took_nothing(imported: &ImportReport) -> bool {
    let left_out: usize = imported.kinds.values().map(|taken| taken.odd).sum();
    left_out > 0 && imported.kinds.values().all(|taken| taken.odd == taken.rows)
}

fn show(imported: &ImportReport, out: &mut Out) -> Result<()> {
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

fn here_before(taken: KindCounts) -> usize {
    taken.rows.saturating_sub(taken.written + taken.odd + taken.stale)
}

fn whole(imported: &ImportReport) -> Value {
    let kinds = imported.kinds.iter().map(|(kind, taken)| ((*kind).to_owned(), value(*taken)));
    let problems: Vec<Value> =
        imported.problems.iter().map(|(name, why)| json!({ "file": name, "why": why })).collect();
    json!({
        "kinds": kinds.collect::<Map<_, _>>(),
        "unreadable_files": imported.problem_count,
        "unreadable": problems,
    })
}

fn value(taken: KindCounts) -> Value {
    let KindCounts { rows, written, odd, stale } = taken;
    json!({
        "rows": rows,
        "taken": written,
        "here_before": here_before(taken),
        "taken_back": stale,
        "left_out": odd,
    })
}

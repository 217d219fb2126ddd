//! `tollgate audit`: what happened, and whether the record of it is whole.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use store::ledger::{Entry, EntryKind, Filter, Reader};
use store::registry::acts_wait_in;

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::Out;

mod chain;
mod export;
mod lines;
pub(crate) mod seal;
mod tail;

pub(crate) use lines::line;

/// Every decision that a row may hold.
const DECISIONS: [&str; 8] =
    ["admitted", "denied", "limited", "asked", "refused", "unauthenticated", "passed", "own"];

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the newest entries, and with -f those to come
    Tail(TailArgs),
    /// Find entries
    Search(SearchArgs),
    /// Check that no row was changed, removed or put in
    Verify(VerifyArgs),
    /// Print a checkpoint to keep elsewhere; with it, verify also detects removed rows at the end
    Checkpoint(CheckpointArgs),
    /// Take the log out: entries as JSON lines or CSV, or the chain itself
    Export(ExportArgs),
}

#[derive(Args)]
pub(crate) struct TailArgs {
    /// Keep following new entries
    #[arg(short = 'f', long)]
    follow: bool,
    /// How many to begin with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    number: usize,
    /// Also the log's notes about itself: processes that came and went, the clock
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Stop after so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000)]
    number: usize,
    /// Text that stands anywhere in an entry
    #[arg(value_name = "TEXT")]
    text: Option<String>,
}

#[derive(Args)]
pub(crate) struct FilterArgs {
    /// Only this grant
    #[arg(long, value_name = "LABEL")]
    grant: Option<String>,
    /// Only this server
    #[arg(long)]
    server: Option<String>,
    /// Only this tool, resource or prompt
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only this decision
    #[arg(long, value_parser = DECISIONS)]
    decision: Option<String>,
    /// From this time on, such as 2h (ago) or 2026-11-15
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only requests, or only the owner's acts
    #[arg(long, value_enum)]
    only: Option<Only>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Only {
    Calls,
    Notes,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// A checkpoint that was kept elsewhere
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct CheckpointArgs {
    /// Write it to a file instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// What to write
    #[arg(long, value_enum)]
    format: export::Format,
    /// Write to a file instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
}

impl AuditCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            AuditCommand::Tail(args) => tail::tail(&args, context, out),
            AuditCommand::Search(args) => tail::search(&args, context, out),
            AuditCommand::Verify(args) => chain::verify(&args, context, out),
            AuditCommand::Checkpoint(args) => chain::checkpoint(&args, &context.open()?, out),
            AuditCommand::Export(args) => export::run(&args, context, out),
        }
    }
}

impl FilterArgs {
    fn filter(&self, now_us: i64) -> Result<Filter> {
        let moment = |text: &Option<String>| {
            text.as_deref().map(|text| moment::parse_moment(text, now_us)).transpose()
        };
        let only = self.only.map(|only| match only {
            Only::Calls => EntryKind::Call,
            Only::Notes => EntryKind::Note,
        });
        Ok(Filter {
            grant: self.grant.clone(),
            server: self.server.clone(),
            subject: self.tool.clone(),
            decision: self.decision.clone(),
            since_us: moment(&self.since)?,
            until_us: moment(&self.until)?,
            only,
            ..Filter::default()
        })
    }
}

/// Whether an entry is the log's note about itself, which few want to see.
pub(crate) fn is_housekeeping(entry: &Entry) -> bool {
    matches!(entry.act.as_str(), "clock" | "writer_opened" | "writer_closed")
}

/// The log for reading; begun first if nothing was ever recorded.
pub(crate) fn reader(stores: &Stores) -> Result<Reader> {
    if let Ok(reader) = Reader::open(&stores.home.audit()) {
        return Ok(reader);
    }
    stores.ledger()?;
    Ok(Reader::open(&stores.home.audit())?)
}

/// The same for one who only reads. A log that is there is read as it is: neither the database nor the
/// key nor a disk that can be written is needed for that.
fn log(context: &Context) -> Result<Reader> {
    record_what_waits(context)?;
    match Reader::open(&context.home_path()?.join("audit")) {
        Ok(reader) => Ok(reader),
        Err(_) => reader(&context.open()?),
    }
}

/// What a killed command changed is in the log before anybody reads it, where that can be had.
fn record_what_waits(context: &Context) -> Result<()> {
    if !acts_wait_in(&context.home_path()?.join("gate.db")) {
        return Ok(());
    }
    if let Err(error) = context.open().and_then(|stores| stores.record()) {
        tracing::warn!("changes of a command that was killed are not in the log yet: {error:#}");
    }
    Ok(())
}

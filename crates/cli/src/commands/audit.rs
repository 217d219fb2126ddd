//! `tollgate audit`: what happened, and whether the log is intact.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use store::ledger::{EntryKind, Filter, Reader};

use crate::audit_log::reader;
use crate::context::Context;
use crate::failure::Ending;
use crate::moment;
use crate::output::Out;

mod chain;
mod export;
mod show;
mod tail;

/// Every decision that a row may hold.
const DECISIONS: [&str; 8] =
    ["admitted", "denied", "limited", "asked", "refused", "unauthenticated", "passed", "own"];

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the newest entries, and with -f new ones as they come
    Tail(TailArgs),
    /// Find entries
    Search(AuditSearchArgs),
    /// Show one entry with all its fields
    Show(ShowArgs),
    /// Check that no row was changed, removed or put in
    Verify(VerifyArgs),
    /// Print a checkpoint to keep elsewhere; with it, verify also detects removed rows at the end
    Checkpoint(CheckpointArgs),
    /// Export the log: entries as JSON lines or CSV, or the chain itself
    Export(AuditExportArgs),
}

#[derive(Args)]
pub(crate) struct TailArgs {
    /// Keep following new entries
    #[arg(short = 'f', long)]
    follow: bool,
    /// How many entries to show first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    number: usize,
    /// Also the log's notes about itself: processes that opened and closed it, the clock
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args)]
pub(crate) struct AuditSearchArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Stop after this many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000)]
    number: usize,
    /// Text that occurs anywhere in an entry
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
    /// Only this tool, resource, prompt or skill
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
    /// Only requests, or only the owner's actions
    #[arg(long, value_enum)]
    only: Option<Only>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Only {
    Calls,
    Notes,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The number of the entry
    number: u64,
    /// Also the arguments, if they were captured; the log records that you read them
    #[arg(long)]
    arguments: bool,
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
pub(crate) struct AuditExportArgs {
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
            AuditCommand::Show(args) => show::run(&args, context, out),
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

/// Opens the log for reading. An existing log needs neither the database nor the key nor a writable disk.
fn log(context: &Context) -> Result<Reader> {
    record_pending(context)?;
    match context.read_log() {
        Ok(reader) => Ok(reader),
        Err(_) => reader(&context.open()?),
    }
}

/// Records changes of a killed command before the log is read, if that is possible.
fn record_pending(context: &Context) -> Result<()> {
    if !context.has_unrecorded_acts()? {
        return Ok(());
    }
    if let Err(error) = context.open().and_then(|stores| stores.record()) {
        tracing::warn!("changes of a command that was killed are not in the log yet: {error:#}");
    }
    Ok(())
}

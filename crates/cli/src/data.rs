//! The owner's data as a whole: take it out, ask it in SQL, delete it.

use anyhow::Result;
use clap::{Args, ValueEnum};
use store::export::{Compression, Format};
use store::home::Home;
use store::records::Records;

use crate::context::Context;

mod export;
mod purge;
mod sql;

pub(crate) use export::run as export;
pub(crate) use purge::run as purge;
pub(crate) use sql::run as sql;

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Whose data, such as whoop
    #[arg(value_name = "SERVICE")]
    service: String,
    /// One kind of record, such as sleeps, or all
    #[arg(value_name = "KIND", default_value = "all")]
    kind: String,
    /// What to write
    #[arg(long, value_enum, default_value_t = FormatWord::Csv)]
    format: FormatWord,
    /// The file to write; for all, the folder [default: SERVICE-KIND.FORMAT here]
    #[arg(long, value_name = "PATH")]
    out: Option<String>,
    /// From this UTC day on, such as 2026-04-01 or yesterday
    #[arg(long, value_name = "DAY")]
    start: Option<String>,
    /// Up to and with this UTC day
    #[arg(long, value_name = "DAY")]
    end: Option<String>,
    /// Replace what is there
    #[arg(long)]
    overwrite: bool,
    /// CSV that no spreadsheet takes for formulas: an apostrophe before risky text
    #[arg(long)]
    safe: bool,
    /// How Parquet files are packed
    #[arg(long, value_enum, default_value_t = CompressionWord::Zstd)]
    compression: CompressionWord,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatWord {
    Csv,
    Jsonl,
    Parquet,
}

impl FormatWord {
    fn format(self) -> Format {
        match self {
            FormatWord::Csv => Format::Csv,
            FormatWord::Jsonl => Format::Jsonl,
            FormatWord::Parquet => Format::Parquet,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum CompressionWord {
    Zstd,
    Snappy,
}

impl CompressionWord {
    fn compression(self) -> Compression {
        match self {
            CompressionWord::Zstd => Compression::Zstd,
            CompressionWord::Snappy => Compression::Snappy,
        }
    }
}

#[derive(Args)]
pub(crate) struct SqlArgs {
    /// What to ask, such as 'select * from whoop_cycles'; - reads it from stdin
    #[arg(value_name = "QUESTION", required_unless_present = "views")]
    question: Option<String>,
    /// List the views and their columns
    #[arg(long)]
    views: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
    /// Stop after so many rows; 0 means never [default: 100 for people, never for programs]
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Args)]
pub(crate) struct PurgeArgs {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// The records of the home with the views and shapes of this program.
fn records(context: &Context) -> Result<(Home, Records)> {
    let home = Home::open(&context.home_path()?)?;
    let records = Records::open(&home)?;
    connectors::shelves::prepare(&records)?;
    Ok((home, records))
}

//! The owner's data: export it, query it with SQL, report on it, delete it.

use anyhow::Result;
use clap::{Args, ValueEnum};
use store::export::{Compression, Format};
use store::home::Home;
use store::records::Records;

use crate::context::Context;

mod export;
mod purge;
mod report;
mod sql;

pub(crate) use export::run as export;
pub(crate) use purge::run as purge;
pub(crate) use report::run as report;
pub(crate) use sql::run as sql;

#[derive(Args)]
pub(crate) struct DataExportArgs {
    /// Whose data, such as whoop
    #[arg(value_name = "SERVICE")]
    service: String,
    /// One kind of record, such as sleeps, or all
    #[arg(value_name = "KIND", default_value = "all")]
    kind: String,
    /// What to write
    #[arg(long, value_enum, default_value_t = FormatArg::Csv)]
    format: FormatArg,
    /// The file to write; for all, the folder [default: SERVICE-KIND.FORMAT here]
    #[arg(long, value_name = "PATH")]
    out: Option<String>,
    /// From this UTC day on, such as 2026-04-01 or yesterday
    #[arg(long, value_name = "DAY")]
    start: Option<String>,
    /// Up to and including this UTC day
    #[arg(long, value_name = "DAY")]
    end: Option<String>,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
    /// CSV safe for spreadsheets: an apostrophe before text that looks like a formula
    #[arg(long)]
    safe: bool,
    /// Compression of Parquet files
    #[arg(long, value_enum, default_value_t = CompressionArg::Zstd)]
    compression: CompressionArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatArg {
    Csv,
    Jsonl,
    Parquet,
}

impl FormatArg {
    fn format(self) -> Format {
        match self {
            FormatArg::Csv => Format::Csv,
            FormatArg::Jsonl => Format::Jsonl,
            FormatArg::Parquet => Format::Parquet,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum CompressionArg {
    Zstd,
    Snappy,
}

impl CompressionArg {
    fn compression(self) -> Compression {
        match self {
            CompressionArg::Zstd => Compression::Zstd,
            CompressionArg::Snappy => Compression::Snappy,
        }
    }
}

#[derive(Args)]
pub(crate) struct SqlArgs {
    /// The query, such as 'select * from whoop_cycles'; - reads it from stdin
    #[arg(value_name = "QUERY", required_unless_present = "views")]
    sql: Option<String>,
    /// List the views and their columns
    #[arg(long)]
    views: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
    /// Stop after this many rows; 0 means never [default: 100 in a table, never in CSV and JSON]
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Args)]
pub(crate) struct ReportArgs {
    /// How many days the report covers
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(i32).range(7..=3660))]
    pub(super) days: i32,
    /// The file to write [default: tollgate-report.html here]
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<std::path::PathBuf>,
    /// Print it to this PDF with an installed Chromium, Chrome or Edge
    #[arg(long, value_name = "FILE")]
    pub(super) pdf: Option<std::path::PathBuf>,
    /// Miles, pounds and degrees Fahrenheit
    #[arg(long)]
    pub(super) imperial: bool,
    /// Kilojoules instead of kilocalories
    #[arg(long)]
    pub(super) kilojoules: bool,
    /// Replace an existing file
    #[arg(long)]
    pub(super) overwrite: bool,
}

#[derive(Args)]
pub(crate) struct PurgeArgs {
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// The records of the home with the views of this version.
fn records(context: &Context) -> Result<(Home, Records)> {
    let home = Home::open(&context.home_path()?)?;
    let records = Records::open(&home)?;
    connectors::prepare(&records)?;
    Ok((home, records))
}

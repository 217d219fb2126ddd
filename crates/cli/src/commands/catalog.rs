//! `tollgate catalog`: servers and tools, from registry dumps and from this machine.

use std::path::PathBuf;

use anyhow::{Result, bail};
use catalog::classify::{Category, Risk};
use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

mod export;
mod import;
mod pages;
mod search;
mod show;
mod stack;

#[derive(Subcommand)]
pub(crate) enum CatalogCommand {
    /// Find servers and tools by words
    Search(CatalogSearchArgs),
    /// Show the page of a server or a tool
    Show(CatalogShowArgs),
    /// Read a dump of a registry into the catalogue
    Import(CatalogImportArgs),
    /// Show everything the agents on this machine can call, most dangerous first
    Stack(StackArgs),
    /// Write the catalogue as a static site
    Export(CatalogExportArgs),
}

#[derive(Args)]
pub(crate) struct CatalogSearchArgs {
    /// What to look for
    #[arg(required = true)]
    words: Vec<String>,
    /// Only tools of this category: read, write, destructive, execute, financial
    #[arg(long, value_parser = category)]
    category: Option<Category>,
    /// Only this risk or a higher one: low, medium, high, critical
    #[arg(long, value_parser = risk)]
    risk: Option<Risk>,
    /// At most this many results
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

#[derive(Args)]
pub(crate) struct CatalogShowArgs {
    /// SERVER or SERVER/TOOL, as the search prints it; also a server behind the gate
    slug: String,
}

#[derive(Args)]
pub(crate) struct CatalogImportArgs {
    /// Dumps: JSON of the official registry, pages of it, lines of servers or tools; a folder of them; `-` for stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Start a new catalogue instead of adding to the existing one
    #[arg(long)]
    fresh: bool,
}

#[derive(Args)]
pub(crate) struct StackArgs {
    /// Also start and scan servers that clients reach without the gate
    #[arg(long)]
    probe: bool,
    /// Only this risk or a higher one: low, medium, high, critical
    #[arg(long, value_parser = risk)]
    risk: Option<Risk>,
}

#[derive(Args)]
pub(crate) struct CatalogExportArgs {
    /// The folder for the site; it must be new or empty
    #[arg(long, value_name = "DIR")]
    html: PathBuf,
    /// At most this many servers
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl CatalogCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            CatalogCommand::Search(args) => search::run(&args, context, out),
            CatalogCommand::Show(args) => show::run(&args, context, out),
            CatalogCommand::Import(args) => import::run(&args, context, out),
            CatalogCommand::Stack(args) => stack::run(&args, context, out),
            CatalogCommand::Export(args) => export::run(&args, context, out),
        }
    }
}

fn category(text: &str) -> Result<Category> {
    let all: Vec<&str> = Category::ALL.iter().map(|c| c.as_str()).collect();
    match Category::parse(text) {
        Some(category) => Ok(category),
        None => bail!("categories are {}", all.join(", ")),
    }
}

fn risk(text: &str) -> Result<Risk> {
    let all: Vec<&str> = Risk::ALL.iter().map(|r| r.as_str()).collect();
    match Risk::parse(text) {
        Some(risk) => Ok(risk),
        None => bail!("risks are {}", all.join(", ")),
    }
}

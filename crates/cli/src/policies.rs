//! `tollgate policy`: look at rules before they are in force, and put them in force.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use policy::Format;

use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

mod check;
mod explain;
pub(crate) mod frame;
mod recommend;
mod recorded;
mod simulate;
mod stored;
mod suggest;
mod tests;

pub(crate) use check::unusable;

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Read policies as the gate would, and say what is wrong where
    Check(CheckArgs),
    /// Run the tests a policy carries, and show each
    Test(TestArgs),
    /// Judge one call and show every step to the verdict
    Explain(explain::ExplainArgs),
    /// Judge the calls of the audit log by a draft: what would have changed?
    Simulate(simulate::SimulateArgs),
    /// Propose the least policy that allows what a grant did
    Suggest(suggest::SuggestArgs),
    /// Propose a policy for a server by what its tools can do
    Recommend(recommend::RecommendArgs),
    /// Print the JSON Schema of the language, for editors
    Schema,
    /// List the policies in the gate
    List,
    /// Print a policy in the gate
    Show(stored::ShowArgs),
    /// Put a policy in the gate; it is in force from the next call
    Set(stored::SetArgs),
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Policies to check; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct TestArgs {
    /// The policy whose tests to run; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl PolicyCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            PolicyCommand::Check(args) => check::run(&args.files, out),
            PolicyCommand::Test(args) => tests::run(&args.file, out),
            PolicyCommand::Explain(args) => explain::run(&args, context, out),
            PolicyCommand::Simulate(args) => simulate::run(&args, context, out),
            PolicyCommand::Suggest(args) => suggest::run(&args, context, out),
            PolicyCommand::Recommend(args) => recommend::run(&args, context, out),
            PolicyCommand::Schema => {
                out.json(&policy::schema())?;
                Ok(Ending::Yes)
            }
            PolicyCommand::List => stored::list(context, out),
            PolicyCommand::Show(args) => stored::show(&args, context, out),
            PolicyCommand::Set(args) => stored::set(&args, context, out),
        }
    }
}

/// A policy text and what it was read from.
pub(crate) struct Source {
    /// As the owner named it.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) format: Format,
}

impl Source {
    /// Reads a file, or stdin for `-`.
    pub(crate) fn read(path: &Path) -> Result<Source> {
        /// A policy may have 1 MiB; reading a little more lets the loader say so itself.
        const BYTES_MAX: u64 = 2 << 20;
        let name = if path == "-" { "<stdin>".to_owned() } else { path.display().to_string() };
        let read = if path == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().take(BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
        } else {
            store::files::read(path, BYTES_MAX)
        };
        let bytes = read.with_context(|| format!("cannot read policy `{name}`"))?;
        let text = String::from_utf8(bytes).map_err(|error| not_utf8(&name, &error))?;
        let format = if path == "-" { of_text(&text) } else { Format::of_path(&name) };
        Ok(Source { name, text, format })
    }
}

/// Says where the first bytes are that are no character.
fn not_utf8(name: &str, error: &std::string::FromUtf8Error) -> anyhow::Error {
    let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
    let before = String::from_utf8_lossy(before);
    let (line, column) = before
        .rsplit_once('\n')
        .map_or((1, &*before), |(lines, rest)| (lines.matches('\n').count() + 2, rest));
    let column = column.chars().count() + 1;
    anyhow::anyhow!(
        "policy `{name}` is not UTF-8: line {line}, column {column}\nhint: save it as UTF-8"
    )
}

/// Text from stdin has no file name to tell its format.
fn of_text(text: &str) -> Format {
    if text.trim_start().starts_with('{') { Format::Json } else { Format::Yaml }
}

//! `tollgate policy`: check, test and compare policies before they apply, and store them in the gate.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

mod check;
mod explain;
mod recommend;
mod recorded;
mod simulate;
mod stored;
mod suggest;
mod tests;

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Load policies as the gate would, and report problems with their positions
    Check(CheckArgs),
    /// Run the tests in a policy, and show each
    Test(TestArgs),
    /// Evaluate one call and show every step to the verdict
    Explain(explain::ExplainArgs),
    /// Replay the calls of the audit log against a draft, and show what would change
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
    Show(stored::PolicyShowArgs),
    /// Store a policy in the gate; it applies from the next call
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

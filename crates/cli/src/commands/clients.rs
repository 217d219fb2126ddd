//! `tollgate clients`: lists the MCP configurations of the programs on this machine and puts them behind
//! the gate.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use crate::client_files::folders::UserFolders;
use crate::client_files::{ConfigFile, find, table};
use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

mod change;
mod copies;
mod files;
mod import;
mod install;
mod install_skill;
mod journal;
mod list;
mod plan_text;
mod recommend;
mod restore;
mod undo;

#[derive(Subcommand)]
pub(crate) enum ClientsCommand {
    /// List the MCP servers that clients on this machine are configured with
    List,
    /// Put the servers of clients behind the gate and point their files at it
    Import(ClientImportArgs),
    /// Add one server of the gate, or its skill, to one client
    Install(InstallArgs),
    /// List or remove the copies of old client files, which hold secrets in clear
    Copies(CopiesArgs),
}

#[derive(Args)]
pub(crate) struct CopiesArgs {
    /// Remove them; `clients import --undo` works without them
    #[arg(long)]
    remove: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "options of a command")]
#[derive(Args)]
pub(crate) struct ClientImportArgs {
    /// Only these clients, such as cursor; all of them when none is named
    #[arg(value_name = "CLIENT")]
    clients: Vec<String>,
    /// Show the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Remove the gate from every file and restore what was there before the imports
    #[arg(long)]
    undo: bool,
    /// Let every client start `tollgate stdio` instead of using an address and a token
    #[arg(long)]
    stdio: bool,
    /// Skip the files of the project in this folder
    #[arg(long)]
    no_project: bool,
    /// Also change files of the project in this folder that are under version control
    #[arg(long, conflicts_with = "no_project")]
    project_files: bool,
    /// Do not list the servers' tools now
    #[arg(long)]
    no_connect: bool,
}

#[derive(Args)]
pub(crate) struct InstallArgs {
    /// The client, such as cursor
    client: String,
    /// The server behind the gate
    #[arg(long, value_name = "SERVER", required_unless_present = "skill")]
    server: Option<String>,
    /// Write the skill `tollgate-insights` into the client's folder of skills
    #[arg(long, conflicts_with = "server")]
    skill: bool,
    /// A grant with access to the server [default: a new one with the recommended policy]
    #[arg(long, value_name = "LABEL")]
    grant: Option<String>,
    /// Use the file of the project in this folder instead of the user's
    #[arg(long)]
    project: bool,
    /// Let the client start `tollgate stdio` instead of using an address and a token
    #[arg(long)]
    stdio: bool,
}

impl ClientsCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            ClientsCommand::List => list::run(out),
            ClientsCommand::Import(args) if args.undo => undo::run(&args, context, out),
            ClientsCommand::Import(args) => import::run(&args, context, out),
            ClientsCommand::Install(args) if args.skill => install_skill::run(&args, context, out),
            ClientsCommand::Install(args) => install::run(&args, context, out),
            ClientsCommand::Copies(args) => copies::run(&args, context, out),
        }
    }
}

/// The files of the named clients, or of all.
fn chosen(names: &[String], at: &UserFolders) -> Result<Vec<ConfigFile>> {
    check_names(names)?;
    let wanted =
        |file: &ConfigFile| names.is_empty() || names.iter().any(|name| name == file.client.name);
    Ok(find(at).into_iter().filter(wanted).collect())
}

fn check_names(names: &[String]) -> Result<()> {
    for name in names {
        if table::client(name).is_none() {
            let known: Vec<&str> = table::ALL.iter().map(|client| client.name).collect();
            bail!("there is no client `{name}`\nhint: there are: {}", known.join(", "));
        }
    }
    Ok(())
}

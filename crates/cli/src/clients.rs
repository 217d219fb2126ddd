//! `tollgate clients`: the MCP configurations of the programs on this machine, and how they come
//! behind the gate.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use store::registry::Target;

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::Out;

mod change;
mod copies;
mod edit;
mod entry;
mod files;
mod found;
mod import;
mod install;
mod journal;
mod jsonc;
mod list;
pub(crate) mod named;
mod places;
mod plan;
mod recommend;
mod resolve;
mod restore;
mod table;
mod told;
mod toml_file;
mod undo;
mod write;

pub(crate) use found::{Found, find};
pub(crate) use jsonc::plain as plain_json;
pub(crate) use named::Named;
use places::{Surroundings, this_os};

#[derive(Subcommand)]
pub(crate) enum ClientsCommand {
    /// List the MCP servers that clients on this machine are configured with
    List,
    /// Put the servers of clients behind the gate and point their files at it
    Import(ImportArgs),
    /// Add one server of the gate to one client
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
pub(crate) struct ImportArgs {
    /// Only these clients, such as cursor; all of them when none is named
    #[arg(value_name = "CLIENT")]
    clients: Vec<String>,
    /// Show the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
    /// Take the gate out of every file and put back what was there before the imports
    #[arg(long)]
    undo: bool,
    /// Let every client start `tollgate stdio` instead of using an address and a token
    #[arg(long)]
    stdio: bool,
    /// Leave the files of this folder's project alone
    #[arg(long)]
    no_project: bool,
    /// Also change files of this folder's project that are under version control
    #[arg(long, conflicts_with = "no_project")]
    project_files: bool,
    /// Do not ask the servers for their tools now
    #[arg(long)]
    no_connect: bool,
}

#[derive(Args)]
pub(crate) struct InstallArgs {
    /// The client, such as cursor
    client: String,
    /// The server behind the gate
    #[arg(long, value_name = "SERVER")]
    server: String,
    /// A grant that holds the server [default: a new one with the recommended policy]
    #[arg(long, value_name = "LABEL")]
    grant: Option<String>,
    /// Into the file of this folder's project instead of the person's
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
            ClientsCommand::Install(args) => install::run(&args, context, out),
            ClientsCommand::Copies(args) => copies::run(&args, context, out),
        }
    }
}

/// The folders of whoever runs this, and the project of the folder it runs in.
pub(crate) fn surroundings() -> Result<Surroundings> {
    let folder = std::env::current_dir()?;
    Surroundings::of(this_os(), &variable, &folder)
        .ok_or_else(|| anyhow!("cannot tell where clients keep their files: `HOME` is not set"))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A server that a client reaches without the gate.
pub(crate) struct OpenServer {
    pub(crate) name: String,
    pub(crate) client: String,
    /// Nothing when only the client itself could start it.
    pub(crate) target: Option<Target>,
}

/// Every server that clients on this machine reach past the gate.
pub(crate) fn open_servers(stores: &Stores) -> Result<Vec<OpenServer>> {
    let at = surroundings()?;
    let found = find(&at);
    let steps = plan::plan(&found, &at, &variable, stores)?;
    let open = steps
        .into_iter()
        .filter(|step| step.entry.enabled && !plan::is_behind_gate(&step.entry.launch));
    Ok(open
        .map(|step| OpenServer {
            name: step.entry.name.clone(),
            client: step.found.client.name.to_owned(),
            target: match step.fate {
                plan::Fate::Import { target, .. } => Some(target),
                plan::Fate::Stays(_) => None,
            },
        })
        .collect())
}

/// Where tollgate's files are when nobody says otherwise.
pub(crate) fn usual_home() -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| set("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("tollgate"))
}

/// The files of the clients that were named, or of all.
fn chosen(names: &[String], at: &Surroundings) -> Result<Vec<Found>> {
    check_names(names)?;
    let wanted =
        |file: &Found| names.is_empty() || names.iter().any(|name| name == file.client.name);
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

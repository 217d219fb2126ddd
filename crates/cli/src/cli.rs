//! The arguments of the binary. Each command brings its own; this file gathers them and writes the
//! first screen of help, grouped by what one wants to do.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::error::{ContextKind, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::Ending;
use crate::logging::LogFormat;
use crate::output::{ColorWhen, Out, visible_lines};
use crate::{
    account, approvals, audit, catalog, clients, data, doctor, grant, personal, policies,
    reference, run, scan, server, service, shell, status, sync, vault,
};

#[derive(Parser)]
#[command(
    name = "tollgate",
    version,
    about = "The gate between AI agents and what they may touch",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Where tollgate keeps its files [env: TOLLGATE_HOME]
    #[arg(long, global = true, value_name = "DIR", env = "TOLLGATE_HOME", hide_env = true)]
    pub(crate) home: Option<PathBuf>,
    /// Settings file [default: tollgate.toml in the home]
    #[arg(long, global = true, value_name = "FILE", env = "TOLLGATE_CONFIG", hide_env = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colour: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) color: ColorWhen,
    /// How much to log: error, warn, info, debug
    #[arg(long, global = true, value_name = "LEVEL", env = "TOLLGATE_LOG", hide_env = true)]
    pub(crate) log: Option<String>,
    /// Log lines: human or json
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        env = "TOLLGATE_LOG_FORMAT",
        hide_env = true,
        hide_possible_values = true
    )]
    pub(crate) log_format: Option<LogFormat>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the gate; with --demo also something to try it on
    Up(run::UpArgs),
    /// Speak MCP on stdin and stdout for one server
    Stdio(run::StdioArgs),
    /// Put a policy in front of any command that speaks MCP
    Wrap(run::WrapArgs),
    /// Is a gate running, and what does it hold?
    Status(status::StatusArgs),
    /// Find what is wrong and the command that mends it
    Doctor(doctor::DoctorArgs),
    /// Start the gate with your session: install, uninstall
    #[command(subcommand)]
    Service(service::ServiceCommand),
    /// The key that seals your secrets: status, move
    #[command(subcommand)]
    Vault(vault::VaultCommand),
    /// The programs that use MCP servers: list, import, install
    #[command(subcommand)]
    Clients(clients::ClientsCommand),
    /// What each tool of a server can do, how dangerous, and why
    Scan(scan::ScanArgs),
    /// Search a catalogue of servers and tools: show, import
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Servers behind the gate: add, list, tools, pins, remove
    #[command(subcommand)]
    Server(server::ServerCommand),
    /// The rules: check, test, explain, simulate, suggest, set
    #[command(subcommand)]
    Policy(policies::PolicyCommand),
    /// Access for clients: create, list, show, rotate, revoke
    #[command(subcommand)]
    Grant(grant::GrantCommand),
    /// Calls that wait for a human: list, watch, approve, deny
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// Sign in to one of your accounts at a service
    Connect(account::ConnectArgs),
    /// Status of your accounts: state, scopes, expiry, last sync
    Accounts(account::AccountsArgs),
    /// Take consent back and wipe an account and its data
    Disconnect(account::DisconnectArgs),
    /// Your five personal services: setup, status, any tool
    #[command(subcommand)]
    Personal(personal::PersonalCommand),
    /// Bring the local mirror of a service up to date
    Sync(sync::SyncArgs),
    /// Take in a data export, or another program's data
    #[command(subcommand)]
    Import(sync::ImportCommand),
    /// What changed in your data since a time
    Events(sync::EventsArgs),
    /// Take your data out as CSV, JSON lines or Parquet
    Export(data::ExportArgs),
    /// Query your data with SQL (read-only)
    Sql(data::SqlArgs),
    /// Delete everything tollgate keeps here
    Purge(data::PurgeArgs),
    /// What happened: tail, search, verify, checkpoint, export
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Print completions for a shell
    Completions(shell::CompletionsArgs),
    /// Print the manual page
    Man,
    /// Print help, also for one command: `tollgate help server add`
    #[command(hide = true)]
    Help(HelpArgs),
    /// Stand in for a service on loopback, for tests and benchmarks
    #[command(hide = true)]
    Sandbox(run::SandboxArgs),
    /// Refresh one login
    #[command(name = account::REFRESH_WORD, hide = true)]
    Refresh(account::RefreshArgs),
    /// Print a page of the reference
    #[command(name = "__reference", hide = true)]
    Reference(reference::ReferenceArgs),
}

#[derive(Args)]
pub(crate) struct HelpArgs {
    /// The command, such as server add
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// The help of a command, or the first screen: what `--help` prints there.
pub(crate) fn help(args: &HelpArgs, out: &mut Out) -> Result<Ending> {
    let whole = command();
    let mut found = &whole;
    for (at, word) in args.words.iter().enumerate() {
        let Some(next) = found.find_subcommand(word) else {
            let shown = args.words.get(..=at).unwrap_or_default().join(" ");
            bail!("there is no command `{shown}`\nhint: `tollgate help` shows the commands");
        };
        found = next;
    }
    let words = ["tollgate"].into_iter().chain(args.words.iter().map(String::as_str));
    if let Err(help) = command().try_get_matches_from(words.chain(["--help"])) {
        let help = help.render();
        let text = if out.paint().is_on() { help.ansi().to_string() } else { help.to_string() };
        out.raw(text.as_bytes())?;
    }
    Ok(Ending::Yes)
}

/// The first screen of help. Every visible command stands in exactly one group; a test says so.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run", &["up", "stdio", "wrap", "status", "doctor", "service", "vault", "clients"]),
    ("Rules", &["server", "policy", "grant", "approvals"]),
    ("Catalogue", &["scan", "catalog"]),
    (
        "Accounts",
        &[
            "connect",
            "accounts",
            "disconnect",
            "personal",
            "sync",
            "import",
            "events",
            "export",
            "sql",
            "purge",
        ],
    ),
    ("History", &["audit"]),
    ("Shell", &["completions", "man"]),
];

/// The command without the grouped first screen, for generators that read it part by part.
pub(crate) fn plain_command() -> clap::Command {
    Cli::command()
}

/// The whole command, with the grouped help in place.
pub(crate) fn command() -> clap::Command {
    let plain = plain_command();
    let groups = grouped_help(&plain);
    plain.help_template(format!(
        "{{about}}\n{{usage-heading}} {{usage}}\n{groups}\nEverywhere:\n{{options}}\n\
         `tollgate help COMMAND` says more. Try `tollgate up --demo` first.\n"
    ))
}

/// The command without the variables that are set to nothing: as with those of XDG, that is not set.
fn command_here() -> clap::Command {
    let is_empty = |arg: &clap::Arg| {
        arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty())
    };
    command().mut_args(|arg| if is_empty(&arg) { arg.env(None::<&'static str>) } else { arg })
}

pub(crate) fn parse() -> Cli {
    let matches = command_here().try_get_matches().or_else(|error| match error.kind() {
        // A variable counts as an argument there, and whoever set one would get a complaint instead
        // of the help that everybody else gets.
        ErrorKind::MissingSubcommand => {
            command().mut_args(|arg| arg.env(None::<&'static str>)).try_get_matches()
        }
        _ => Err(error),
    });
    let matches = matches.unwrap_or_else(|error| tamed(helped(error)).exit());
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| tamed(error).exit())
}

/// The words for a mistake that many make, in front of what clap says of it.
fn helped(error: clap::Error) -> clap::Error {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => missing_dashes(&words),
        ErrorKind::InvalidSubcommand => {
            let wrong = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
            wrong.and_then(|wrong| meant(&wrong, &words))
        }
        _ => None,
    };
    let Some(tip) = tip else { return error };
    let plain = error.render().to_string();
    let (first, rest) = plain.split_once('\n').unwrap_or((&plain, ""));
    let first = first.trim_start_matches("error: ");
    // One tip is enough, and clap's own would be about something else.
    let rest: Vec<&str> = rest.lines().filter(|line| !line.trim().starts_with("tip:")).collect();
    let rest = rest.join("\n");
    clap::Error::raw(error.kind(), format!("{first}\n\n  tip: {tip}\n\n{}\n", rest.trim()))
}

/// Commands whose own command goes behind `--`.
const TAKE_COMMANDS: &[&[&str]] = &[&["server", "add"], &["scan"], &["wrap"]];

fn missing_dashes(words: &[String]) -> Option<String> {
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    let takes = |path: &&&[&str]| plain.windows(path.len()).any(|window| window == **path);
    let path = TAKE_COMMANDS.iter().find(takes)?;
    let has_dashes = plain.contains(&"--");
    (!has_dashes).then(|| {
        let shown = path.join(" ");
        let name = if shown == "server add" { " NAME" } else { "" };
        format!("put `--` before the command: `tollgate {shown}{name} -- COMMAND`")
    })
}

/// Words of other programs, and what they are called here: the first that the command has.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("delete", &["revoke", "remove", "uninstall", "disconnect"]),
    ("del", &["revoke", "remove", "uninstall"]),
    ("rm", &["revoke", "remove", "uninstall"]),
    ("remove", &["revoke", "uninstall"]),
    ("revoke", &["remove"]),
    ("ls", &["list"]),
    ("new", &["create", "add"]),
    ("add", &["create", "install", "set"]),
    ("create", &["add", "set", "install"]),
    ("get", &["show", "list"]),
    ("info", &["show", "status"]),
    ("reject", &["deny"]),
    ("accept", &["approve", "pins"]),
    ("log", &["audit", "tail"]),
    ("logs", &["audit", "tail"]),
    ("start", &["up"]),
    ("serve", &["up"]),
    ("run", &["up"]),
    ("login", &["connect"]),
    ("logout", &["disconnect"]),
];

fn meant(wrong: &str, words: &[String]) -> Option<String> {
    let mut command = plain_command();
    for word in words.iter().take_while(|word| *word != wrong) {
        if let Some(next) = command.find_subcommand(word) {
            command = next.clone();
        }
    }
    let (_, known) = SYNONYMS.iter().find(|(word, _)| *word == wrong)?;
    let found = known.iter().find(|known| command.find_subcommand(known).is_some())?;
    Some(format!("did you mean `{found}`?"))
}

/// Words of a command line are repeated in complaints about them, and may come from anywhere.
fn tamed(error: clap::Error) -> clap::Error {
    let plain = error.render().to_string();
    let shown: Vec<String> = visible_lines(&plain).collect();
    if !error.use_stderr() || plain.lines().eq(shown.iter().map(String::as_str)) {
        return error;
    }
    let text = shown.join("\n");
    clap::Error::raw(error.kind(), format!("{}\n", text.trim_start_matches("error: ")))
}

fn grouped_help(command: &clap::Command) -> String {
    let mut out = String::new();
    for (group, names) in GROUPS {
        for (place, name) in names.iter().enumerate() {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let group = if place == 0 { group } else { "" };
            let _ = writeln!(out, "{group:<10}{name:<12}{about}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_stands_in_exactly_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Cli::command();
        let mut visible: Vec<&str> = command
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        grouped.sort_unstable();
        visible.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn the_arguments_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_first_screen_fits_a_terminal() {
        let help = command().term_width(80).render_help().to_string();
        assert!(help.lines().count() <= 40, "{} lines", help.lines().count());
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

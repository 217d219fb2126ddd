//! The arguments of the binary. Each command declares its own; this file collects them and renders the
//! first help screen, grouped by intent.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::error::{ContextKind, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::account;
use crate::commands::{
    approvals, audit, catalog, clients, data, doctor, grant, notify, open, personal, policy,
    reference, scan, self_check, server, service, shell, status, store, sync, up, vault,
};
use crate::context::{Global, REFRESH_WORD};
use crate::failure::Ending;
use crate::output::{Out, visible_lines};
use crate::stdio;

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

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the gate; --demo adds sample servers and accounts
    Up(up::UpArgs),
    /// Open the dashboard of the running gate in your browser
    Open(open::OpenArgs),
    /// Speak MCP on stdin and stdout for one server
    Stdio(stdio::StdioArgs),
    /// Put a policy in front of any command that speaks MCP
    Wrap(stdio::WrapArgs),
    /// Show whether a gate is running and what it serves
    Status(status::StatusArgs),
    /// Find problems and the command that fixes each
    Doctor(doctor::DoctorArgs),
    /// Start the gate with your session: install, status, remove
    #[command(subcommand)]
    Service(service::ServiceCommand),
    /// The key that seals your secrets: status, move
    #[command(subcommand)]
    Vault(vault::VaultCommand),
    /// Postgres that several gates share: copy, migrate, roles
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// The programs that use MCP servers: list, import, install
    #[command(subcommand)]
    Clients(clients::ClientsCommand),
    /// Show what each tool of a server can do, its risk, and why
    Scan(scan::ScanArgs),
    /// Search a catalogue of servers and tools: show, import
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Servers of the gate: add, list, tools, pins, seal, remove
    #[command(subcommand)]
    Server(server::ServerCommand),
    /// The rules: check, test, explain, simulate, suggest, set
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Access for clients: create, list, show, rotate, revoke
    #[command(subcommand)]
    Grant(grant::GrantCommand),
    /// Calls that wait for a human: list, watch, approve, deny
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// Messages to your phone, chat or mail: add, list, test
    #[command(subcommand)]
    Notify(notify::NotifyCommand),
    /// Sign in to one of your accounts at a service
    Connect(account::ConnectArgs),
    /// Status of your accounts: state, scopes, expiry, last sync
    Accounts(account::AccountsArgs),
    /// Revoke consent and wipe an account and its data
    Disconnect(account::DisconnectArgs),
    /// Your five personal services: setup, status, any tool
    #[command(subcommand)]
    Personal(personal::PersonalCommand),
    /// Update the local mirror of a service
    Sync(sync::SyncArgs),
    /// Import a data export, or another program's data
    #[command(subcommand)]
    Import(sync::ImportCommand),
    /// Show what changed in your data since a time
    Events(sync::EventsArgs),
    /// Export your data as CSV, JSON lines or Parquet
    Export(data::DataExportArgs),
    /// Query your data with SQL (read-only)
    Sql(data::SqlArgs),
    /// Write a report of your health data as one page
    Report(data::ReportArgs),
    /// Delete everything tollgate keeps here
    Purge(data::PurgeArgs),
    /// What happened: tail, search, verify, checkpoint, export
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// This program: check its version, origin and newer ones
    #[command(name = "self", subcommand)]
    OwnProgram(self_check::SelfCommand),
    /// Print shell completions (`man`: the manual page)
    Completions(shell::CompletionsArgs),
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// Print help, also for one command: `tollgate help server add`
    #[command(hide = true)]
    Help(HelpArgs),
    /// Stand in for a service on loopback, for tests and benchmarks
    #[cfg(feature = "demo")]
    #[command(hide = true)]
    Sandbox(crate::commands::sandbox::SandboxArgs),
    /// Refresh one login
    #[command(name = REFRESH_WORD, hide = true)]
    Refresh(account::RefreshArgs),
    /// Print a page of the reference
    #[command(name = "__reference", hide = true)]
    Reference(reference::ReferenceArgs),
}

impl Command {
    /// The service whose account this command serves on stdio without a gate.
    pub(crate) fn served(&self) -> Option<&'static str> {
        let Command::Stdio(args) = self else { return None };
        let service = connectors::connector(args.server())?;
        service.account().map(|_| service.name())
    }
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

/// The first screen of help. Every visible command is in exactly one group; a test checks it.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Run",
        &[
            "up", "open", "stdio", "wrap", "status", "doctor", "service", "vault", "store",
            "clients",
        ],
    ),
    ("Rules", &["server", "policy", "grant", "approvals", "notify"]),
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
            "report",
            "purge",
        ],
    ),
    ("History", &["audit"]),
    ("Program", &["self", "completions"]),
];

/// The command without the grouped first screen, for generators that read it part by part.
pub(crate) fn plain_command() -> clap::Command {
    Cli::command()
}

/// The whole command, with the grouped help in place.
pub(crate) fn command() -> clap::Command {
    let plain = plain_command();
    let groups = grouped_help(&plain);
    let options = options_help(&plain);
    plain.help_template(format!(
        "{{about}}\n{{usage-heading}} {{usage}}\n{groups}{options}\
         Run `tollgate help COMMAND` for details. Try `tollgate up --demo` first.\n"
    ))
}

/// The command without variables that are set to an empty value: as in XDG, empty means unset.
fn command_without_empty_variables() -> clap::Command {
    let is_empty = |arg: &clap::Arg| {
        arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty())
    };
    command().mut_args(|arg| if is_empty(&arg) { arg.env(None::<&'static str>) } else { arg })
}

pub(crate) fn parse() -> Cli {
    let matches =
        command_without_empty_variables().try_get_matches().or_else(|error| match error.kind() {
            // clap counts a variable as an argument, so a user who set one would get an error instead
            // of the help.
            ErrorKind::MissingSubcommand => {
                command().mut_args(|arg| arg.env(None::<&'static str>)).try_get_matches()
            }
            _ => Err(error),
        });
    let matches = matches.unwrap_or_else(|error| escaped(with_tip(error)).exit());
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| escaped(error).exit())
}

/// Adds a tip for a common mistake in front of clap's own text.
fn with_tip(error: clap::Error) -> clap::Error {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => missing_dashes(&words),
        ErrorKind::InvalidSubcommand => {
            let wrong = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
            wrong.and_then(|wrong| synonym_tip(&wrong, &words))
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

/// Commands that take another command after `--`.
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

/// Names from other programs and their names here; the first that exists is suggested.
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

fn synonym_tip(wrong: &str, words: &[String]) -> Option<String> {
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

/// Errors repeat words of the command line, which may hold control characters.
fn escaped(error: clap::Error) -> clap::Error {
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
        for (index, name) in names.iter().enumerate() {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let group = if index == 0 { group } else { "" };
            let _ = writeln!(out, "{group:<10}{name:<12}{about}");
        }
    }
    out
}

/// The options of every command in the columns of the commands; `--help` and `--version` need no line.
fn options_help(command: &clap::Command) -> String {
    let mut out = String::new();
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        let flag = option.get_long().map(|long| format!("--{long}")).unwrap_or_default();
        let value = option.get_value_names().filter(|_| option.get_action().takes_values());
        let value = value.and_then(<[_]>::first).map(|value| format!(" <{value}>"));
        let name = flag + &value.unwrap_or_default();
        let about = option.get_help().map(ToString::to_string).unwrap_or_default();
        let group = if out.is_empty() { "Options" } else { "" };
        let _ = writeln!(out, "{group:<10}{name:<19}{about}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
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

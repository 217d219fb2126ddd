//! The binary: parses arguments, starts logging, runs the command and reports errors.

mod account;
mod audit_log;
mod bundle;
mod cli;
mod client_files;
mod commands;
mod context;
mod credential;
mod failure;
mod gate;
mod hints;
mod listing;
mod logging;
mod masking;
mod moment;
mod output;
mod policy_file;
mod probe;
mod program;
mod running;
mod server_login;
mod service_file;
mod services;
mod settings_file;
mod snippet;
mod stdio;
mod variables;
mod vault_key;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{Cli, Command};
use crate::commands::{data, doctor, open, reference, scan, shell, status, sync, up};
use crate::context::Context;
use crate::failure::{COULD_NOT, Ending, ErrorReport};
use crate::logging::{LogOptions, ProcessKind, ServerLogging};
use crate::output::{Out, ReaderGone};

fn main() -> ExitCode {
    // The guard of a child process must run before any thread is started.
    if std::env::args_os().nth(1).is_some_and(|word| word == gate::CHILD_WORD) {
        return platform::guard::run(std::env::args_os());
    }
    // A core file would hold tokens and the vault key in clear. Servers that are started later are not affected.
    // A system that cannot is in docs/guide/platforms.md.
    platform::limits::protect_memory();
    platform::limits::survive_file_size_limit();
    let cli = cli::parse();
    let context = Context::new(&cli.global);
    let out = Out::new(cli.global.json, cli.global.color);
    let mut out = out.naming_home(context.home_option());
    let ending = run(cli, &context, &mut out).and_then(|ending| out.flush().map(|()| ending));
    match ending {
        Ok(ending) => ending.code(),
        Err(error) if error.is::<ReaderGone>() => Ending::Yes.code(),
        Err(error) => {
            let _ = out.flush();
            report(&error, &context, &out);
            ExitCode::from(COULD_NOT)
        }
    }
}

fn run(cli: Cli, context: &Context, out: &mut Out) -> Result<Ending> {
    let kind = match cli.command {
        Command::Up(_) => ProcessKind::Gate,
        _ => ProcessKind::OneShot,
    };
    // Broken settings are reported by the commands that need them.
    let settings = context.settings().ok();
    let settings = settings.as_ref().map(|settings| &settings.log);
    let (rules, format) = (cli.global.log.as_deref(), cli.global.log_format);
    match cli.command.served() {
        Some(service) => {
            let usual = context.home_path().ok();
            let usual = usual.map(|home| home.join("logs").join(format!("{service}.log")));
            let look = |name: &str| std::env::var(name).ok();
            logging::start_served(rules, format, ServerLogging::of(service, usual, &look))?;
        }
        None => logging::start(&LogOptions::of(rules, format, kind, settings), out.stderr_paint())?,
    }
    match cli.command {
        Command::Up(args) => up::up(&args, context, out),
        Command::Stdio(args) => stdio::stdio(&args, context, out),
        Command::Wrap(args) => stdio::wrap(&args, context, out),
        Command::Open(args) => open::run(&args, context, out),
        Command::Status(args) => status::run(&args, context, out),
        Command::Doctor(args) => doctor::run(&args, context, out),
        Command::Vault(command) => command.run(context, out),
        Command::Store(command) => command.run(context, out),
        Command::Service(command) => command.run(context, out),
        Command::OwnProgram(command) => command.run(out),
        Command::Help(args) => cli::help(&args, out),
        Command::Clients(command) => command.run(context, out),
        Command::Scan(args) => scan::run(&args, context, out),
        Command::Catalog(command) => command.run(context, out),
        Command::Server(command) => command.run(context, out),
        Command::Policy(command) => command.run(context, out),
        Command::Grant(command) => command.run(context, out),
        Command::Approvals(command) => command.run(context, out),
        Command::Notify(command) => command.run(context, out),
        Command::Connect(args) => account::connect(&args, context, out),
        Command::Accounts(args) => account::show(&args, context, out),
        Command::Disconnect(args) => account::disconnect(&args, context, out),
        Command::Refresh(args) => account::refresh(&args, context, out),
        Command::Personal(command) => command.run(context, out),
        Command::Sync(args) => sync::run(args, context, out),
        Command::Import(command) => command.run(context, out),
        Command::Events(args) => sync::events(&args, context, out),
        Command::Export(args) => data::export(&args, context, out),
        Command::Sql(args) => data::sql(&args, context, out),
        Command::Report(args) => data::report(&args, context, out),
        Command::Purge(args) => data::purge(&args, context, out),
        Command::Audit(command) => command.run(context, out),
        Command::Completions(args) => shell::completions(&args, &cli::plain_command(), out),
        Command::Man => shell::man(&cli::plain_command(), out),
        #[cfg(feature = "demo")]
        Command::Sandbox(args) => commands::sandbox::sandbox(&args, context, out),
        Command::Reference(args) => reference::run(&args, cli::command(), out),
    }
}

fn report(error: &anyhow::Error, context: &Context, out: &Out) {
    let report = ErrorReport::of(error).at_home(context.home_option());
    if out.wants_json() {
        out.say(serde_json::to_string(&report).unwrap_or_default());
    } else {
        out.say(report.text(out.stderr_paint()).trim_end());
    }
}

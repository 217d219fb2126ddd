//! The binary: reads arguments, environment and clock, opens the rooms, and says what happened.

mod account;
mod approvals;
mod audit;
mod catalog;
mod cli;
mod clients;
mod context;
mod credential;
mod data;
mod doctor;
mod failure;
mod grant;
mod logging;
mod masking;
mod moment;
mod output;
mod personal;
mod policies;
mod probe;
mod program;
mod reference;
mod run;
mod running;
mod scan;
mod server;
mod service;
mod services;
mod shell;
mod status;
mod sync;
mod vault;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use crate::cli::{Cli, Command};
use crate::context::Context;
use crate::failure::{Account, COULD_NOT, Ending, ReaderGone};
use crate::logging::{Habit, Served, Wish};
use crate::output::Out;

fn main() -> ExitCode {
    // The guard of a child process must run before any thread is made.
    if std::env::args_os().nth(1).is_some_and(|word| word == run::CHILD_WORD) {
        return gateway::upstream::shim::run(std::env::args_os());
    }
    leave_no_core();
    outlive_file_limits();
    let cli = cli::parse();
    let mut out = Out::new(cli.global.json, cli.global.color);
    let context = Context::new(&cli.global);
    let ending = run(cli, &context, &mut out).and_then(|ending| out.flush().map(|()| ending));
    match ending {
        Ok(ending) => ending.code(),
        Err(error) if error.is::<ReaderGone>() => Ending::Yes.code(),
        Err(error) => {
            let _ = out.flush();
            tell(&error, &context, &out);
            ExitCode::from(COULD_NOT)
        }
    }
}

/// A core file would hold tokens and the vault key in clear, and so would the memory of this process for
/// another program of the same user. Servers that are started later are as they were: this ends with
/// the program.
fn leave_no_core() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    // Where that cannot be had, everything is as it was.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// A file that reaches a limit on its size ends a process in the middle of its write. With somebody
/// to hear of it the write fails instead, as on a full disk, and whoever wrote says so.
fn outlive_file_limits() {
    let heard = Arc::new(AtomicBool::new(false));
    // Where that cannot be had, everything is as it was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, heard);
}

fn run(cli: Cli, context: &Context, out: &mut Out) -> Result<Ending> {
    let habit = match cli.command {
        Command::Up(_) => Habit::Runs,
        _ => Habit::OneShot,
    };
    // Settings that cannot be used are complained about by whoever needs them.
    let settings = context.settings().ok();
    let settings = settings.as_ref().map(|settings| &settings.log);
    let (rules, format) = (cli.global.log.as_deref(), cli.global.log_format);
    match run::served(&cli.command) {
        Some(service) => {
            let usual = context.home_path().ok();
            let usual = usual.map(|home| home.join("logs").join(format!("{service}.log")));
            let look = |name: &str| std::env::var(name).ok();
            logging::start_served(rules, format, Served::of(service, usual, &look))?;
        }
        None => logging::start(&Wish::of(rules, format, habit, settings), out.talk_paint())?,
    }
    match cli.command {
        Command::Up(args) => run::up(&args, context, out),
        Command::Stdio(args) => run::stdio(&args, context, out),
        Command::Wrap(args) => run::wrap(&args, context, out),
        Command::Status(args) => status::run(&args, context, out),
        Command::Doctor(args) => doctor::run(&args, context, out),
        Command::Vault(command) => command.run(context, out),
        Command::Service(command) => command.run(context, out),
        Command::Help(args) => cli::help(&args, out),
        Command::Clients(command) => command.run(context, out),
        Command::Scan(args) => scan::run(&args, context, out),
        Command::Catalog(command) => command.run(context, out),
        Command::Server(command) => command.run(context, out),
        Command::Policy(command) => command.run(context, out),
        Command::Grant(command) => command.run(context, out),
        Command::Approvals(command) => command.run(context, out),
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
        Command::Purge(args) => data::purge(&args, context, out),
        Command::Audit(command) => command.run(context, out),
        Command::Completions(args) => shell::completions(&args, out),
        Command::Man => shell::man(out),
        Command::Sandbox(args) => run::sandbox(&args, context, out),
        Command::Reference(args) => reference::run(&args, out),
    }
}

fn tell(error: &anyhow::Error, context: &Context, out: &Out) {
    let account = Account::of(error).at_home(context);
    if out.wants_json() {
        out.say(serde_json::to_string(&account).unwrap_or_default());
    } else {
        out.say(account.text(out.talk_paint()).trim_end());
    }
}

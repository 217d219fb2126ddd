//! `tollgate service`: starts the gate with the owner's session, by the manager of the system, with the `PATH` of the
//! shell that installs it where the manager can keep one.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use platform::autostart::{Manager, Step};
use serde_json::json;

use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, visible};
use crate::service_file;
use crate::vault_key::key_is_in_environment;

#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Start the gate now and with every session, with this shell's PATH
    Install(ManagerArgs),
    /// Stop the gate and remove what install wrote
    #[command(alias = "uninstall")]
    Remove(ManagerArgs),
    /// Show whether it is installed and running
    Status(ManagerArgs),
    /// Print what install would write
    File(ManagerArgs),
}

#[derive(Args)]
pub(crate) struct ManagerArgs {
    /// The manager of another system, for tests and to see its file
    #[arg(long, hide = true, value_enum)]
    manager: Option<ManagerName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ManagerName {
    Systemd,
    Launchd,
    Scheduler,
}

impl ManagerArgs {
    fn manager(&self) -> Manager {
        match self.manager {
            None => Manager::OWN,
            Some(ManagerName::Systemd) => Manager::Systemd,
            Some(ManagerName::Launchd) => Manager::Launchd,
            Some(ManagerName::Scheduler) => Manager::Scheduler,
        }
    }
}

impl ServiceCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            ServiceCommand::Install(args) => install(args.manager(), context, out),
            ServiceCommand::Remove(args) => remove(args.manager(), context, out),
            ServiceCommand::Status(args) => status(args.manager(), out),
            ServiceCommand::File(args) => {
                out.raw(service_file::text_of(args.manager(), context)?.as_bytes())?;
                Ok(Ending::Yes)
            }
        }
    }
}

fn install(manager: Manager, context: &Context, out: &mut Out) -> Result<Ending> {
    let path = service_file::file_of(manager)?;
    check_ours(&path)?;
    let text = service_file::text_of(manager, context)?;
    let stores = context.open()?;
    write(&path, &text)?;
    stores.note("service_installed", &path.display().to_string(), "")?;
    if key_is_in_environment() {
        out.warn(
            "the vault key of this shell (`TOLLGATE_VAULT_KEY`) is not written into the service\nhint: `tollgate vault move` stores it where the service finds it",
        );
    }
    let shown = visible(&path.display().to_string());
    let steps = manager.install(&path, &user()?);
    let done = take(&steps);
    if out.wants_json() {
        let why = done.as_ref().err().map(|e| format!("{e:#}"));
        out.json(&json!({ "file": path, "started": done.is_ok(), "why_not": why }))?;
        return Ok(Ending::of(done.is_ok()));
    }
    match done {
        Ok(()) => {
            out.line(format_args!("service installed and started: `{shown}`"))?;
            out.say(manager.advice());
            Ok(Ending::Yes)
        }
        Err(why) => {
            out.line(format_args!("service written to `{shown}`, but not started"))?;
            let name = manager.name();
            out.warn(visible(&format!("{name} cannot be used: {why:#}")));
            let needed = steps.iter().filter(|step| !step.may_fail);
            let commands: Vec<String> =
                needed.map(|step| format!("`{}`", step.words.join(" "))).collect();
            out.say(visible(&format!(
                "in a session that has {name}: {}; without it, start `tollgate up` with your session",
                commands.join(", then ")
            )));
            Ok(Ending::No)
        }
    }
}

fn remove(manager: Manager, context: &Context, out: &mut Out) -> Result<Ending> {
    let path = service_file::file_of(manager)?;
    if !path.exists() {
        bail!("no service is installed\nhint: `tollgate service install` installs one");
    }
    check_ours(&path)?;
    // Without a manager there is nothing to stop.
    let stopped = take(&manager.remove(&user()?));
    fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    let _ = take(&manager.forget());
    context.open()?.note("service_removed", &path.display().to_string(), "")?;
    if out.wants_json() {
        out.json(&json!({ "file": path, "removed": true, "stopped": stopped.is_ok() }))?;
        return Ok(Ending::Yes);
    }
    out.line(format_args!("service removed: `{}`", visible(&path.display().to_string())))?;
    if let Err(why) = stopped {
        out.warn(visible(&format!("{} could not stop it: {why:#}", manager.name())));
    }
    Ok(Ending::Yes)
}

fn status(manager: Manager, out: &mut Out) -> Result<Ending> {
    let path = service_file::file_of(manager)?;
    let text = fs::read_to_string(&path).ok();
    let state = match &text {
        Some(_) => manager.state(&user()?, said),
        None => platform::autostart::State::default(),
    };
    if out.wants_json() {
        out.json(&json!({
            "file": path,
            "installed": text.is_some(),
            "enabled": state.enabled,
            "active": state.active,
            "path": text.and_then(|text| manager.search_path(&text)),
        }))?;
        return Ok(Ending::of(state.runs));
    }
    if text.is_none() {
        let line = "no service is installed; `tollgate service install` installs one";
        out.line(out.with_home(line))?;
        return Ok(Ending::No);
    }
    let word = |answer: Option<String>| answer.unwrap_or_else(|| "not known".to_owned());
    out.line(format_args!("file     {}", visible(&path.display().to_string())))?;
    out.line(format_args!("enabled  {}", visible(&word(state.enabled))))?;
    out.line(format_args!("active   {}", visible(&word(state.active))))?;
    Ok(Ending::of(state.runs))
}

/// Refuses a definition that tollgate did not write.
fn check_ours(path: &Path) -> Result<()> {
    match fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(text) if service_file::is_ours(&text) => Ok(()),
        Ok(_) => bail!(
            "`{}` was not written by tollgate, so it is not changed\nhint: remove it yourself, then try again",
            path.display()
        ),
        Err(e) => Err(e).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let shown = path.display();
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let draft = path.with_extension(format!("{}.part", std::process::id()));
    let written = platform::private::create_file(&draft)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written.with_context(|| format!("cannot write `{shown}`"))
}

fn user() -> Result<String> {
    Ok(platform::private::this_user()?.to_string())
}

/// Runs the steps; the last line of the stderr of one that fails is the error.
fn take(steps: &[Step]) -> Result<()> {
    for step in steps {
        let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
        let output = run(&words)?;
        if output.status.success() || step.may_fail {
            continue;
        }
        let summary = String::from_utf8_lossy(&output.stderr);
        let last = summary.lines().rfind(|line| !line.trim().is_empty());
        let last = last.unwrap_or("no reason given").trim();
        return Err(anyhow!("`{}` failed: {last}", step.words.join(" ")));
    }
    Ok(())
}

/// What a command printed, even if it failed: a negative answer also has an exit code.
fn said(words: &[&str]) -> Option<String> {
    let output = run(words).ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(words: &[&str]) -> Result<Output> {
    let (program, arguments) = words.split_first().context("no command")?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{program}` cannot be run"))
}

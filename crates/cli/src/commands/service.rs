//! `tollgate service`: starts the gate with the owner's session, as a unit of the systemd user manager
//! with the `PATH` of the shell that installs it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Subcommand;
use serde_json::json;

use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, visible};
use crate::systemd_unit::{self as unit, UNIT, installed_path, unit_path};
use crate::vault_key::key_is_in_environment;

/// The first line of a unit that tollgate may replace and remove.
const MARK: &str =
    "# Written by `tollgate service install`; `tollgate service uninstall` removes it.";

#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Start the gate now and with every session, with this shell's PATH
    Install,
    /// Stop the gate and remove what install wrote
    Uninstall,
    /// Show whether it is installed and running
    Status,
}

impl ServiceCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            ServiceCommand::Install => install(context, out),
            ServiceCommand::Uninstall => uninstall(context, out),
            ServiceCommand::Status => status(out),
        }
    }
}

fn install(context: &Context, out: &mut Out) -> Result<Ending> {
    let path = unit_path()?;
    check_ours(&path)?;
    let config = unit::UnitConfig::of(context)?;
    unit::check(&config)?;
    let text = unit::text(MARK, &config);
    let stores = context.open()?;
    write(&path, &text)?;
    stores.note("service_installed", &path.display().to_string(), "")?;
    if key_is_in_environment() {
        out.warn(
            "the vault key of this shell (`TOLLGATE_VAULT_KEY`) is not written into the unit\nhint: `tollgate vault move` stores it where the service finds it",
        );
    }
    let shown = visible(&path.display().to_string());
    let done = manage(&["daemon-reload"]).and_then(|()| manage(&["enable", "--now", UNIT]));
    if out.wants_json() {
        let why = done.as_ref().err().map(|e| format!("{e:#}"));
        out.json(&json!({ "unit": path, "started": done.is_ok(), "why_not": why }))?;
        return Ok(Ending::of(done.is_ok()));
    }
    match done {
        Ok(()) => {
            out.line(format_args!("service installed and started: `{shown}`"))?;
            out.say("it starts with your session; `loginctl enable-linger` starts it at boot");
            Ok(Ending::Yes)
        }
        Err(why) => {
            out.line(format_args!("service written to `{shown}`, but not started"))?;
            out.warn(visible(&format!("the systemd user manager cannot be used: {why:#}")));
            out.say(format_args!(
                "in a session that has one: `systemctl --user daemon-reload`, then `systemctl --user enable --now {UNIT}`; without systemd, start `tollgate up` with your session"
            ));
            Ok(Ending::No)
        }
    }
}

fn uninstall(context: &Context, out: &mut Out) -> Result<Ending> {
    let path = unit_path()?;
    if !path.exists() {
        bail!("no service is installed\nhint: `tollgate service install` installs one");
    }
    check_ours(&path)?;
    // Without a user manager there is nothing to stop.
    let stopped = manage(&["disable", "--now", UNIT]);
    fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    let _ = manage(&["daemon-reload"]);
    context.open()?.note("service_removed", &path.display().to_string(), "")?;
    if out.wants_json() {
        out.json(&json!({ "unit": path, "removed": true, "stopped": stopped.is_ok() }))?;
        return Ok(Ending::Yes);
    }
    out.line(format_args!("service removed: `{}`", visible(&path.display().to_string())))?;
    if let Err(why) = stopped {
        out.warn(visible(&format!("the systemd user manager could not stop it: {why:#}")));
    }
    Ok(Ending::Yes)
}

fn status(out: &mut Out) -> Result<Ending> {
    let path = unit_path()?;
    let is_installed = path.exists();
    let enabled = is_installed.then(|| query("is-enabled")).flatten();
    let active = is_installed.then(|| query("is-active")).flatten();
    let runs = active.as_deref() == Some("active");
    if out.wants_json() {
        out.json(&json!({
            "unit": path,
            "installed": is_installed,
            "enabled": enabled,
            "active": active,
            "path": installed_path(),
        }))?;
        return Ok(Ending::of(runs));
    }
    if !is_installed {
        let line = "no service is installed; `tollgate service install` installs one";
        out.line(out.with_home(line))?;
        return Ok(Ending::No);
    }
    let word = |answer: Option<String>| answer.unwrap_or_else(|| "not known".to_owned());
    out.line(format_args!("unit     {}", visible(&path.display().to_string())))?;
    out.line(format_args!("enabled  {}", visible(&word(enabled))))?;
    out.line(format_args!("active   {}", visible(&word(active))))?;
    Ok(Ending::of(runs))
}

/// Refuses a unit that tollgate did not write.
fn check_ours(path: &Path) -> Result<()> {
    match fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(text) if text.starts_with(MARK) => Ok(()),
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

/// Runs `systemctl --user`; the last line of its stderr is the error.
fn manage(message: &[&str]) -> Result<()> {
    let output = systemctl(message)?;
    if output.status.success() {
        return Ok(());
    }
    let summary = String::from_utf8_lossy(&output.stderr);
    let last = summary.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(anyhow!("`systemctl --user {}` failed: {}", message.join(" "), last.trim()))
}

/// A one-word answer, such as `active`; a negative answer also has an exit code.
fn query(question: &str) -> Option<String> {
    let output = systemctl(&[question, UNIT]).ok()?;
    let word = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!word.is_empty()).then_some(word)
}

fn systemctl(message: &[&str]) -> Result<std::process::Output> {
    Command::new("systemctl")
        .arg("--user")
        .args(message)
        .stdin(Stdio::null())
        .output()
        .context("`systemctl` cannot be run")
}

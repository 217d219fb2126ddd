//! `tollgate doctor`: checks everything a gate needs, reports problems, and names the command that fixes
//! each. Changes nothing.

use std::net::SocketAddr;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Ending;
use crate::hints::at_home;
use crate::output::{Out, visible};

mod accounts;
mod files;
mod logins;
mod machine;
mod objects;
mod public;
mod restore;

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Also wait for every server's tools, and verify the whole audit log instead of its end
    #[arg(long)]
    thorough: bool,
    /// Check only what clients that sign in by URL need, at the public address or the one given
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "thorough")]
    public: Option<String>,
    /// Connect here instead of resolving the name: if the router does not route the public address back in, or before DNS is set
    #[arg(long, value_name = "ADDRESS:PORT", requires = "public")]
    connect_to: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Health {
    Good,
    /// Works, but needs attention.
    Careful,
    Wrong,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    about: &'static str,
    health: Health,
    #[serde(rename = "words")]
    message: String,
    /// The command, or what to do.
    #[serde(rename = "mend")]
    fix: Option<String>,
}

impl Finding {
    pub(crate) fn good(about: &'static str, message: impl Into<String>) -> Finding {
        Finding { about, health: Health::Good, message: message.into(), fix: None }
    }

    pub(crate) fn careful(
        about: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { about, health: Health::Careful, message: message.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn wrong(
        about: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { about, health: Health::Wrong, message: message.into(), fix: Some(fix.into()) }
    }

    /// From an error: its text, and its hint as the fix.
    pub(crate) fn from_error(about: &'static str, error: &anyhow::Error) -> Finding {
        let text: Vec<String> = error.chain().map(ToString::to_string).collect();
        let text = text.join("\n");
        let (hints, message): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("hint: "));
        // The user is running the doctor already.
        let hint = hints.iter().find(|hint| !hint.contains("`tollgate doctor`"));
        let fix = hint.map(|hint| hint.trim_start_matches("hint: ").to_owned());
        Finding { about, health: Health::Wrong, message: message.join("; "), fix }
    }

    /// Sets the fix if the error has no hint.
    fn or_fix(self, fix: String) -> Finding {
        Finding { fix: self.fix.or(Some(fix)), ..self }
    }
}

pub(crate) fn run(args: &DoctorArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let mut findings = check(args, context)?;
    for fix in findings.iter_mut().filter_map(|finding| finding.fix.as_mut()) {
        *fix = at_home(fix, context.home_option());
    }
    let wrong = findings.iter().filter(|finding| finding.health == Health::Wrong).count();
    if out.wants_json() {
        out.json(&findings)?;
        return Ok(Ending::of(wrong == 0));
    }
    for finding in &findings {
        show(finding, out)?;
    }
    let careful = findings.iter().filter(|finding| finding.health == Health::Careful).count();
    out.line(format_args!(
        "{} good, {careful} to check, {wrong} wrong",
        findings.len() - careful - wrong
    ))?;
    Ok(Ending::of(wrong == 0))
}

fn check(args: &DoctorArgs, context: &Context) -> Result<Vec<Finding>> {
    if let Some(named) = &args.public {
        return public::check(named, args.connect_to, context);
    }
    let home = context.home_path()?;
    let mut findings = Vec::new();
    files::settings(context, &mut findings);
    machine::clock(context, &mut findings);
    if !home.exists() {
        findings.push(files::missing_home(&home));
        machine::port(context, &home, &mut findings);
        return Ok(findings);
    }
    if !home.is_dir() {
        let message = format!("`{}` is not a folder", home.display());
        let fix = "`--home DIR` or `TOLLGATE_HOME` names another folder";
        findings.push(Finding::wrong("home", message, fix));
        return Ok(findings);
    }
    machine::disk(&home, &mut findings);
    machine::port(context, &home, &mut findings);
    machine::open_files(context, &mut findings);
    if !files::modes(&home, &mut findings) {
        // Opening the home would repair the modes silently.
        return Ok(findings);
    }
    if let Some(stores) = files::stores(context, &mut findings) {
        files::audit(&stores, args.thorough, &mut findings);
        machine::noted_time(&stores, &mut findings);
        objects::policies(&stores, &mut findings);
        objects::grants(&stores, &mut findings);
        objects::servers(&stores, context, args.thorough, &mut findings);
        logins::logins(&stores, &mut findings);
        accounts::accounts(&stores, &mut findings);
    }
    Ok(findings)
}

fn show(finding: &Finding, out: &mut Out) -> Result<()> {
    let paint = out.paint();
    let word = match finding.health {
        Health::Good => paint.good("good "),
        Health::Careful => paint.careful("look "),
        Health::Wrong => paint.bad("wrong"),
    };
    out.line(format_args!("{word} {:<10} {}", finding.about, visible(&finding.message)))?;
    match &finding.fix {
        Some(fix) => {
            out.line(format_args!("      {:<10} {} {}", "", paint.bold("->"), visible(fix)))
        }
        None => Ok(()),
    }
}

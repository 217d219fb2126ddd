//! `tollgate sync`, `import` and `events`: fetches the owner's data and lists changes.

mod bar;
mod events;
mod import;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use connectors::sync::{self, Mirror, ResourceError, SyncReport, SyncRequest, SyncStatus};
use connectors::when::{self, Here};

use crate::context::Context;
use crate::failure::Ending;
use crate::gate::runtime;
use crate::moment;
use crate::output::{Out, count};
use crate::services;
use bar::Bar;

pub(crate) use events::{EventsArgs, run as events};
pub(crate) use import::ImportCommand;

#[derive(Args)]
pub(crate) struct SyncArgs {
    /// Whose data, such as whoop or spotify
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Everything from the beginning instead of what is new
    #[arg(long)]
    full: bool,
    /// From this time on: 2026-04-01, or `last 30 days`
    #[arg(long, value_name = "WHEN", conflicts_with = "full")]
    since: Option<String>,
    /// Only these resources: cycles,sleeps
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    resources: Option<Vec<String>>,
}

pub(crate) fn run(args: SyncArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let mirror = mirror(&args.service)?;
    let stores = context.open()?;
    // With `--json` the error of the tool is printed instead.
    let since = args.since.map(|text| time_text(text, stores.now_us()));
    if !out.wants_json() {
        check_since(since.as_deref(), stores.now_us())?;
    }
    let ctx = stores.connector_context()?;
    let asked = SyncRequest { full: args.full, since, resources: args.resources };
    let report = {
        let bar = Bar::new(mirror, asked.resources.as_deref());
        runtime()?.block_on(sync::run(&ctx, mirror, &asked, &|step| bar.step(step)))
    };
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            stores.note(services::SYNC_FAILED, mirror.service, &error.to_string())?;
            return Err(error.into());
        }
    };
    let message = line(mirror, &report);
    let (act, words) = services::sync_note(&report, mirror, &message);
    stores.note(act, mirror.service, &words)?;
    if out.wants_json() {
        out.json(&report.value())?;
        return Ok(ending(&report));
    }
    if let Some(fault) = report.common_fault() {
        let cause = with_hint(fault, fault.message.clone());
        bail!("`{}` was not synced: {}", mirror.service, crate::output::visible(&cause));
    }
    let warnings = report.warnings(|fault| with_hint(fault, fault.line()));
    for warning in services::grouped(mirror, &warnings) {
        out.warn(crate::output::visible(&warning));
    }
    if report.status() == SyncStatus::Error {
        bail!("`{}` was not synced", mirror.service);
    }
    let newest = report.newest_us().map(|us| format!(", up to {}", moment::local(us)));
    out.line(format_args!("{}: {message}{}", mirror.service, newest.unwrap_or_default()))?;
    Ok(ending(&report))
}

/// An invalid time is a typo: nothing is synced, not even resources that need no time. The owner's zone does
/// not matter for the check.
fn check_since(since: Option<&str>, now_us: i64) -> Result<()> {
    let Some(text) = since.filter(|text| !text.is_empty()) else { return Ok(()) };
    match when::start_us(text, Here { now_us, offset_s: 0 }) {
        Ok(_) => Ok(()),
        Err(error) => bail!("`--since` is {error}"),
    }
}

/// `2d` is two days ago, as in other commands. The service parses all other forms.
fn time_text(text: String, now_us: i64) -> String {
    match moment::parse_seconds(&text) {
        Ok(_) => moment::parse_moment(&text, now_us).map_or(text, moment::utc),
        Err(_) => text,
    }
}

/// The mirror of a service, or an error with the known ones.
fn mirror(service: &str) -> Result<&'static Mirror> {
    connectors::mirror(service).ok_or_else(|| {
        let names: Vec<&str> = connectors::mirrors().map(|mirror| mirror.service).collect();
        let near = policy::did_you_mean(service, names.iter().copied());
        anyhow!("there is no mirror of `{service}`{near}\nhint: one of {}", names.join(", "))
    })
}

fn ending(report: &SyncReport) -> Ending {
    Ending::of(report.status() == SyncStatus::Success)
}

/// `3 cycles, 2 workouts`, or `nothing new`.
fn line(mirror: &Mirror, report: &SyncReport) -> String {
    let mut parts = Vec::new();
    let mut removed = 0;
    for resource in mirror.resources.iter().filter_map(|one| report.resource(one.name)) {
        let changed = usize::try_from(resource.upserted).unwrap_or(usize::MAX);
        removed += resource.removed;
        if changed > 0 {
            parts.push(several(changed, resource.name));
        }
    }
    if removed > 0 {
        parts.push(format!("{removed} removed"));
    }
    if parts.is_empty() { "nothing new".to_owned() } else { parts.join(", ") }
}

/// `1 recovery`, `2 cycles`, `profile`.
fn several(changed: usize, resource: &str) -> String {
    match (changed, resource) {
        (1, "recoveries") => "1 recovery".to_owned(),
        (_, "recoveries") => format!("{changed} recoveries"),
        (_, "body_measurement") => "body measurement".to_owned(),
        (_, name) => match name.strip_suffix('s') {
            Some(one) => count(changed, &one.replace('_', " ")),
            None => name.to_owned(),
        },
    }
}

/// A fault with what to do about it, where that is known.
fn with_hint(fault: &ResourceError, text: String) -> String {
    if fault.is_rate_limited() {
        return format!("{text}; run the same command later, it continues where it stopped");
    }
    text
}

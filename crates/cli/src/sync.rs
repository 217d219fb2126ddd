//! `tollgate sync`, `import` and `events`: the owner's data comes here, and what changed is told.

mod bar;
mod events;
mod import;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use connectors::sync::{self, Asked, Mirror};
use connectors::when::{self, Here};
use serde_json::Value;

use crate::context::Context;
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, count};
use crate::run::runtime;
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
    /// From then on: 2026-04-01, or `last 30 days`
    #[arg(long, value_name = "WHEN", conflicts_with = "full")]
    since: Option<String>,
    /// Some of it only: cycles,sleeps
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    resources: Option<Vec<String>>,
}

pub(crate) fn run(args: SyncArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let mirror = mirror(&args.service)?;
    let stores = context.open()?;
    // Programs get what the tool answers, also to this.
    if !out.wants_json() {
        check_since(args.since.as_deref(), stores.now_us())?;
    }
    let desk = stores.desk()?;
    let asked = Asked { full: args.full, since: args.since, resources: args.resources };
    let result = {
        let bar = Bar::new(mirror, asked.resources.as_deref());
        runtime()?.block_on(sync::run(&desk, mirror, &asked, &|step| bar.step(step)))?
    };
    let said = line(mirror, &result);
    stores.note("synced", mirror.service, &said)?;
    if out.wants_json() {
        out.json(&result)?;
        return Ok(ending(&result));
    }
    if let Some(cause) = one_cause(&result) {
        bail!("`{}` was not synced: {}", mirror.service, crate::output::visible(&cause));
    }
    for warning in grouped(mirror, &texts(&result, "warnings")) {
        out.warn(crate::output::visible(&hinted(&warning)));
    }
    if status(&result) == "error" {
        bail!("`{}` was not synced", mirror.service);
    }
    let newest = cursor(&result).map(|us| format!(", up to {}", moment::local(us)));
    out.line(format_args!("{}: {said}{}", mirror.service, newest.unwrap_or_default()))?;
    Ok(ending(&result))
}

/// A time that nobody can read is a slip of the keyboard: nothing is synced, not even what needs no
/// time. Where the owner is makes no difference to whether it can be read.
fn check_since(since: Option<&str>, now_us: i64) -> Result<()> {
    let Some(text) = since.filter(|text| !text.is_empty()) else { return Ok(()) };
    match when::start_us(text, Here { now_us, offset_s: 0 }) {
        Ok(_) => Ok(()),
        Err(error) => bail!("`--since` is {error}"),
    }
}

/// The mirror of a service, or which there are.
fn mirror(service: &str) -> Result<&'static Mirror> {
    sync::mirror(service).ok_or_else(|| {
        let names: Vec<&str> = sync::ALL.iter().map(|mirror| mirror.service).collect();
        anyhow!("there is no mirror of `{service}`\nhint: one of {}", names.join(", "))
    })
}

/// Why nothing at all was synced, where every resource failed for the same reason.
fn one_cause(result: &Value) -> Option<String> {
    let resources = result.get("resources")?.as_object()?;
    let mut errors = resources.values().map(|resource| resource.get("error")?.as_str());
    let first = errors.next()??;
    let is_one = status(result) == "error" && errors.all(|error| error == Some(first));
    let (_, words) = first.split_once(": ")?;
    is_one.then(|| hinted(words))
}

fn ending(result: &Value) -> Ending {
    Ending::of(status(result) == "success")
}

fn status(result: &Value) -> &str {
    result.get("status").and_then(Value::as_str).unwrap_or("error")
}

/// `3 cycles, 2 workouts`, or that there was nothing new.
fn line(mirror: &Mirror, result: &Value) -> String {
    let part = |resource: &sync::Resource, field: &str| {
        let place = format!("/resources/{}/{field}", resource.name);
        result.pointer(&place).and_then(Value::as_u64).unwrap_or(0)
    };
    let mut parts = Vec::new();
    let mut removed = 0;
    for resource in mirror.resources {
        let changed = usize::try_from(part(resource, "records_upserted")).unwrap_or(usize::MAX);
        removed += part(resource, "records_removed");
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

/// The newest change that any resource has.
fn cursor(result: &Value) -> Option<i64> {
    let resources = result.get("resources")?.as_object()?;
    let stamps = resources.values().filter_map(|resource| resource.get("cursor_after")?.as_str());
    stamps.filter_map(connectors::when::instant_us).max()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    let list = value.get(key).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Warnings that say the same of several resources, said once: `cycles, sleeps: why`, or only why when it
/// is true of all of them.
pub(crate) fn grouped(mirror: &Mirror, warnings: &[String]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for warning in warnings {
        let parts = warning.split_once(": ");
        let parts = parts.filter(|(name, _)| mirror.resources.iter().any(|r| r.name == *name));
        let (name, why) = parts.unwrap_or(("", warning));
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => groups.push((why, vec![name])),
        }
    }
    let said = |(why, names): (&str, Vec<&str>)| {
        let all = names.len() >= mirror.resources.len();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        if all || names.is_empty() {
            why.to_owned()
        } else {
            format!("{}: {why}", names.join(", "))
        }
    };
    groups.into_iter().map(said).collect()
}

/// A warning with what to do about it, where that is known.
fn hinted(warning: &str) -> String {
    if warning.contains("RATE_LIMITED") {
        return format!("{warning}; run the same command later, it goes on where it stopped");
    }
    warning.to_owned()
}

//! Policies in the gate: every version is kept, the newest applies.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use policy::{Format, Policy};
use serde_json::{Value, json};
use store::registry::{Origin, PolicyText, PolicyVersion};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, Table};
use crate::policy_file::{
    PolicySource, Severity, show_problems, unusable, warn_about_unknown_tools,
};

#[derive(Args)]
pub(crate) struct PolicyShowArgs {
    /// The policy's name
    name: String,
    /// An older version instead of the current one
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// List the versions instead of printing one
    #[arg(long, conflicts_with = "version")]
    history: bool,
}

#[derive(Args)]
pub(crate) struct SetArgs {
    /// The policy's name
    name: String,
    /// The file with its text; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn list(context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    stores.warn_of_conflicts(out)?;
    let effective = stores.effective()?;
    let policies = &effective.policies;
    let grants = effective.grants();
    let mut table = Table::new(&["name", "version", "used by", "from"]);
    let mut rows = Vec::new();
    for policy in policies.values() {
        let mut users: Vec<&str> = grants
            .iter()
            .filter(|grant| grant.revoked_at_us.is_none())
            .filter(|grant| {
                grant.server_access.iter().any(|h| h.policy.as_ref() == Some(&policy.name))
            })
            .map(|grant| grant.label.as_str())
            .collect();
        users.sort_unstable();
        table.row([
            policy.name.clone(),
            version_text(policy),
            if users.is_empty() { "no grant".to_owned() } else { users.join(", ") },
            policy.origin.as_str().to_owned(),
        ]);
        rows.push(json!({
            "name": policy.name,
            "version": policy.version,
            "sha256": policy.sha256,
            "used_by": users,
            "origin": policy.origin.as_str(),
        }));
    }
    if out.wants_json() {
        out.json(&rows)?;
    } else if policies.is_empty() {
        out.say("no policies yet; add one with `tollgate policy set NAME FILE`");
    } else {
        out.table(&table)?;
    }
    Ok(Ending::Yes)
}

pub(super) fn show(args: &PolicyShowArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    if args.history {
        return history(&args.name, &stores, out);
    }
    let policy = match args.version {
        None => stores.policy(&args.name)?,
        Some(version) => stores.registry.policy_version(&args.name, version)?,
    };
    if out.wants_json() {
        out.json(&json!({
            "name": policy.name,
            "version": policy.version,
            "sha256": policy.sha256,
            "format": format_word(policy.format),
            "source": policy.source,
        }))?;
    } else {
        // The original text, so that it can be edited and set again.
        out.raw(policy.source.as_bytes())?;
        if !policy.source.ends_with('\n') {
            out.line("")?;
        }
    }
    Ok(Ending::Yes)
}

fn history(name: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    if stores.file_names.policies.contains(name) {
        bail!("policy `{name}` is defined in tollgate.toml, whose versions tollgate does not keep");
    }
    let versions = stores.registry.policy_versions(name)?;
    if versions.is_empty() {
        stores.registry.policy(name)?;
    }
    if out.wants_json() {
        out.json(&versions.iter().map(version_json).collect::<Vec<_>>())?;
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["version", "set", "by", "bytes", "sha-256"]);
    for version in &versions {
        table.row([
            version.version.to_string(),
            moment::local(version.created_at_us),
            version.created_by.clone(),
            version.bytes.to_string(),
            version.sha256.get(..12).unwrap_or_default().to_owned(),
        ]);
    }
    out.table(&table)?;
    Ok(Ending::Yes)
}

pub(super) fn set(args: &SetArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let source = PolicySource::read(&args.file)?;
    match Policy::load(&source.text, source.format) {
        Ok(policy) => show_problems(Severity::Warning, policy.warnings(), &source, out),
        Err(error) => {
            let message =
                format!("policy `{}` was not changed: `{}` does not load", args.name, source.name);
            return Err(unusable(&error.problems, &source, message, out));
        }
    }
    let before = stores.registry.policy(&args.name).ok();
    let (actor, now_us) = (stores.actor(), stores.now_us());
    let names = &stores.file_names;
    stores.ready_to_note()?;
    let set = stores.registry.put_policy(
        &args.name,
        &source.text,
        source.format,
        actor,
        names,
        now_us,
    )?;
    let is_new = before.is_none_or(|before| before.version != set.version);
    if is_new {
        stores.record()?;
    }
    if out.wants_json() {
        let fact = json!({ "name": set.name, "version": set.version, "sha256": set.sha256, "changed": is_new });
        out.json(&fact)?;
    } else if is_new {
        out.line(format_args!(
            "policy `{}` version {} applies from the next call",
            set.name, set.version
        ))?;
    } else {
        out.line(format_args!("policy `{}` unchanged (version {})", set.name, set.version))?;
    }
    warn_about_unknown_tools(&args.name, &stores, out)?;
    Ok(Ending::Yes)
}

fn version_text(policy: &PolicyText) -> String {
    match policy.origin {
        Origin::Registry => policy.version.to_string(),
        Origin::File => policy.sha256.get(..12).unwrap_or_default().to_owned(),
    }
}

fn version_json(version: &PolicyVersion) -> Value {
    json!({
        "version": version.version,
        "sha256": version.sha256,
        "format": format_word(version.format),
        "bytes": version.bytes,
        "created_at": moment::utc(version.created_at_us),
        "created_by": version.created_by,
    })
}

fn format_word(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
    }
}

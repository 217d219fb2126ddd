//! `clients import --undo`: puts every file back byte for byte, change by change, newest first, and
//! takes back what was registered for it. A file that somebody changed since is not touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::json;

use super::ImportArgs;
use super::files;
use super::journal::{Journal, Record, sha256_of};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, visible};

pub(super) fn run(args: &ImportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    super::check_names(&args.clients)?;
    let stores = context.open()?;
    let journal = Journal::open(&stores, &context.random)?;
    let records = journal.records()?;
    let mut files: BTreeMap<PathBuf, Vec<Record>> = BTreeMap::new();
    for record in records.into_iter().rev() {
        if args.clients.is_empty() || args.clients.contains(&record.client) {
            files.entry(record.path.clone()).or_default().push(record);
        }
    }
    if files.is_empty() {
        bail!(
            "there is no import to undo\nhint: `tollgate clients list` shows what the clients have"
        );
    }
    let mut undone: Vec<Record> = Vec::new();
    let mut stuck: Vec<&Record> = Vec::new();
    for records in files.values() {
        let before = undone.len();
        let fits: Vec<&Record> = chain(records);
        let path = records.first().map(|r| r.path.display().to_string()).unwrap_or_default();
        let restores = !args.dry_run && !fits.is_empty();
        let begun = restores.then(|| stores.begin("client_restored", &path)).transpose()?;
        for record in &fits {
            if args.dry_run {
                undone.push((*record).clone());
            } else {
                put_back(record, &journal)?;
                undone.push((*record).clone());
            }
        }
        if fits.len() < records.len() {
            stuck.extend(records.get(fits.len()));
        }
        if let Some(begun) = begun.filter(|_| undone.len() > before) {
            stores.done(&begun, "")?;
        }
    }
    if !args.dry_run {
        take_back(&undone, &journal, &stores, out)?;
    }
    report(&undone, &stuck, args, out)
}

/// The changes that lead back from the file as it is now, newest first.
fn chain(records: &[Record]) -> Vec<&Record> {
    let mut fits = Vec::new();
    let mut now = records.first().and_then(|record| sha256_of(&record.path));
    for record in records {
        if now.as_deref() != Some(record.after_sha256.as_str()) {
            break;
        }
        fits.push(record);
        now = record.existed.then(|| record.before_sha256.clone());
    }
    fits
}

fn put_back(record: &Record, journal: &Journal<'_>) -> Result<()> {
    let before = journal.before(record)?;
    if record.existed {
        files::replace(&record.path, &before, record.mode)?;
    } else {
        fs::remove_file(&record.path)?;
    }
    if let Some(beside) = &record.beside {
        let _ = fs::remove_file(beside);
    }
    journal.drop(record)
}

/// The gate forgets what was made for a client once none of its files points at it any more.
fn take_back(undone: &[Record], journal: &Journal<'_>, stores: &Stores, out: &Out) -> Result<()> {
    let left = journal.records()?;
    let made = undone.iter().filter(|record| record.made_grant);
    for record in made.filter(|record| !left.iter().any(|other| other.grant == record.grant)) {
        if stores.registry.revoke_grant(&record.grant, stores.now_us()).is_ok() {
            stores.record()?;
        }
    }
    let grants = stores.registry.grants()?;
    for server in undone.iter().flat_map(|record| &record.made_servers) {
        let live = |g: &&store::registry::Grant| g.revoked_at_us.is_none();
        let holder = grants.iter().filter(live).find(|g| g.holding(server).is_some());
        if let Some(holder) = holder {
            out.say(format_args!("server `{server}` stays: grant `{}` holds it", holder.label));
            continue;
        }
        let _ = stores.registry.remove_server(server, stores.now_us());
        let _ =
            stores.registry.remove_policy(&super::recommend::policy_name(server), stores.now_us());
        stores.record()?;
    }
    Ok(())
}

fn report(
    undone: &[Record],
    stuck: &[&Record],
    args: &ImportArgs,
    out: &mut Out,
) -> Result<Ending> {
    let mut paths: Vec<&PathBuf> = undone.iter().map(|record| &record.path).collect();
    paths.dedup();
    if out.wants_json() {
        let kept: Vec<&PathBuf> = stuck.iter().map(|record| &record.path).collect();
        out.json(&json!({ "restored": paths, "changed_since": kept, "dry_run": args.dry_run }))?;
        return Ok(Ending::of(stuck.is_empty()));
    }
    let word = if args.dry_run { "would be restored" } else { "restored byte for byte" };
    for path in paths {
        out.line(format_args!("`{}` {word}", visible(&path.display().to_string())))?;
    }
    for record in stuck {
        let path = visible(&record.path.display().to_string());
        out.warn(format_args!("`{path}` was changed since the import, so it is left as it is"));
        match &record.beside {
            Some(copy) => out.say(format_args!(
                "  as it was before: `{}`; compare the two and copy what you want",
                visible(&copy.display().to_string())
            )),
            None => {
                out.say("  take `tollgate` out of it by hand, or put its text back and undo again");
            }
        }
    }
    Ok(Ending::of(stuck.is_empty()))
}

//! `clients import --undo`: puts every file back byte for byte, change by change, newest first, and
//! takes back what was registered for it. In a file that was changed since, only the entries that the
//! import wrote are put back.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use serde_json::json;

use super::ImportArgs;
use super::files;
use super::found;
use super::journal::{Journal, Record, sha256_of};
use super::restore::{Ours, without_ours};
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
    let mut done = Done::default();
    for records in files.values() {
        let Some(newest) = records.first() else { continue };
        let how = how(records, &journal, &stores);
        if let How::Stuck(why) = how {
            done.stuck.push((newest.clone(), why));
            continue;
        }
        if !args.dry_run {
            let path = newest.path.display().to_string();
            let begun = stores.begin("client_restored", &path)?;
            put_back(&how, records, &journal)?;
            stores.done(&begun, "")?;
        }
        match how {
            How::Whole => done.whole.push(newest.path.clone()),
            _ => done.entries.push(newest.path.clone()),
        }
        done.undone.extend(records.iter().cloned());
    }
    if !args.dry_run {
        take_back(&done.undone, &journal, &stores, out)?;
    }
    report(&done, args, out)
}

/// What became of the files.
#[derive(Default)]
struct Done {
    undone: Vec<Record>,
    /// Files that are byte for byte what they were.
    whole: Vec<PathBuf>,
    /// Files in which only the gate's entries were put back.
    entries: Vec<PathBuf>,
    stuck: Vec<(Record, String)>,
}

/// How a file is put back.
enum How {
    /// Nobody changed it since: it becomes what it was.
    Whole,
    /// It was changed since: this text has the gate's entries put back.
    Entries(String),
    /// It is gone, and nothing of the import with it.
    Gone,
    Stuck(String),
}

fn how(records: &[Record], journal: &Journal<'_>, stores: &Stores) -> How {
    if is_unchanged(records) {
        return How::Whole;
    }
    let Some(newest) = records.first() else { return How::Gone };
    if !newest.path.exists() {
        return How::Gone;
    }
    match entries_back(records, journal, stores) {
        Ok(text) => How::Entries(text),
        Err(error) => How::Stuck(format!("{error:#}")),
    }
}

/// Do the changes lead back, newest first, from the file as it is now?
fn is_unchanged(records: &[Record]) -> bool {
    let mut now = records.first().and_then(|record| sha256_of(&record.path));
    records.iter().all(|record| {
        let fits = now.as_deref() == Some(record.after_sha256.as_str());
        now = record.existed.then(|| record.before_sha256.clone());
        fits
    })
}

/// The file as it is now with the gate's entries as they were before the first import.
fn entries_back(records: &[Record], journal: &Journal<'_>, stores: &Stores) -> Result<String> {
    let Some(oldest) = records.last() else { bail!("there is no record of it") };
    let now = found::read_text(&oldest.path).map_err(|why| anyhow!(why))?;
    let before = oldest.existed.then(|| journal.before(oldest)).transpose()?;
    let before = before.map(String::from_utf8).transpose()?;
    let ours = Ours::of(records, stores)?;
    let at = super::surroundings()?;
    let (text, _) = without_ours(oldest, &now, before.as_deref(), &ours, &at)?;
    Ok(text)
}

fn put_back(how: &How, records: &[Record], journal: &Journal<'_>) -> Result<()> {
    let (Some(newest), Some(oldest)) = (records.first(), records.last()) else { return Ok(()) };
    match how {
        How::Whole if oldest.existed => {
            files::replace(&oldest.path, &journal.before(oldest)?, oldest.mode)?;
        }
        How::Whole => fs::remove_file(&oldest.path)?,
        How::Entries(text) => {
            files::replace(&newest.path, text.as_bytes(), files::mode_of(&newest.path))?;
        }
        How::Gone | How::Stuck(_) => {}
    }
    for record in records {
        if let Some(beside) = &record.beside {
            let _ = fs::remove_file(beside);
        }
        journal.drop(record)?;
    }
    Ok(())
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

fn report(done: &Done, args: &ImportArgs, out: &mut Out) -> Result<Ending> {
    let ending = Ending::of(done.stuck.is_empty());
    if out.wants_json() {
        let stuck: Vec<&PathBuf> = done.stuck.iter().map(|(record, _)| &record.path).collect();
        out.json(&json!({
            "restored": done.whole,
            "entries_restored": done.entries,
            "changed_since": stuck,
            "dry_run": args.dry_run,
        }))?;
        return Ok(ending);
    }
    let would = if args.dry_run { "would be " } else { "" };
    for path in &done.whole {
        let path = visible(&path.display().to_string());
        out.line(format_args!("`{path}` {would}restored byte for byte"))?;
    }
    for path in &done.entries {
        let path = visible(&path.display().to_string());
        out.line(format_args!(
            "`{path}` was changed since the import: only the gate's entries {would}put back"
        ))?;
    }
    for (record, why) in &done.stuck {
        let path = visible(&record.path.display().to_string());
        out.warn(format_args!(
            "`{path}` was changed since the import and cannot be read, so it is left as it is: {}",
            visible(why)
        ));
        match &record.beside {
            Some(copy) => out.say(format_args!(
                "  as it was before: `{}`; compare the two and copy what you want",
                visible(&copy.display().to_string())
            )),
            None => out.say("  mend the file and undo again"),
        }
    }
    Ok(ending)
}

//! `clients import --undo`: restores every file byte for byte, newest change first, and removes what was
//! registered for it. In a file that was changed since, only the entries that the import wrote are
//! restored.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use serde_json::json;

use super::ClientImportArgs;
use super::files;
use super::journal::{Journal, Record, sha256_of};
use super::restore::{OwnEntries, without_own};
use crate::client_files::discover;
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, visible};

pub(super) fn run(args: &ClientImportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
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
    let mut done = UndoResult::default();
    for records in files.values() {
        let Some(newest) = records.first() else { continue };
        let how = how_to_restore(records, &journal, &stores);
        if let Restore::Stuck(why) = how {
            done.stuck.push((newest.clone(), why));
            continue;
        }
        if !args.dry_run {
            let path = newest.path.display().to_string();
            let begun = stores.begin("client_restored", &path)?;
            restore(&how, records, &journal)?;
            stores.done(&begun, "")?;
        }
        match how {
            Restore::Whole => done.whole.push(newest.path.clone()),
            _ => done.entries.push(newest.path.clone()),
        }
        done.undone.extend(records.iter().cloned());
    }
    if !args.dry_run {
        unregister(&done.undone, &journal, &stores, out)?;
    }
    report(&done, args, out)
}

/// What was done with the files.
#[derive(Default)]
struct UndoResult {
    undone: Vec<Record>,
    /// Files that were restored byte for byte.
    whole: Vec<PathBuf>,
    /// Files in which only the gate's entries were restored.
    entries: Vec<PathBuf>,
    stuck: Vec<(Record, String)>,
}

/// Restore a file is put back.
enum Restore {
    /// It was not changed since: byte for byte.
    Whole,
    /// It was changed since: this text has the gate's entries restored.
    Entries(String),
    /// It was deleted, so there is nothing to restore.
    Gone,
    Stuck(String),
}

fn how_to_restore(records: &[Record], journal: &Journal<'_>, stores: &Stores) -> Restore {
    if is_unchanged(records) {
        return Restore::Whole;
    }
    let Some(newest) = records.first() else { return Restore::Gone };
    if !newest.path.exists() {
        return Restore::Gone;
    }
    match entries_back(records, journal, stores) {
        Ok(text) => Restore::Entries(text),
        Err(error) => Restore::Stuck(format!("{error:#}")),
    }
}

/// Whether the file is as the newest change left it, and each change began where the one before ended.
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
    let now = discover::read_text(&oldest.path).map_err(|why| anyhow!(why))?;
    let before = oldest.existed.then(|| journal.before(oldest)).transpose()?;
    let before = before.map(String::from_utf8).transpose()?;
    let ours = OwnEntries::of(records, stores)?;
    let at = crate::client_files::user_folders()?;
    let (text, _) = without_own(oldest, &now, before.as_deref(), &ours, &at)?;
    Ok(text)
}

fn restore(how: &Restore, records: &[Record], journal: &Journal<'_>) -> Result<()> {
    let (Some(newest), Some(oldest)) = (records.first(), records.last()) else { return Ok(()) };
    match how {
        Restore::Whole if oldest.existed => {
            files::replace(&oldest.path, &journal.before(oldest)?, oldest.mode)?;
        }
        Restore::Whole => {
            fs::remove_file(&oldest.path)?;
            remove_empty_skill_folders(&oldest.path);
        }
        Restore::Entries(text) => {
            files::replace(&newest.path, text.as_bytes(), files::mode_of(&newest.path))?;
        }
        Restore::Gone | Restore::Stuck(_) => {}
    }
    for record in records {
        if let Some(copy) = &record.copy {
            let _ = fs::remove_file(copy);
        }
        journal.drop(record)?;
    }
    Ok(())
}

/// The folders that only held files of a skill.
fn remove_empty_skill_folders(file: &Path) {
    let is_skills = |folder: &Path| folder.file_name().is_some_and(|name| name == "skills");
    if !file.ancestors().any(is_skills) {
        return;
    }
    for folder in file.ancestors().skip(1).take_while(|folder| !is_skills(folder)) {
        // Fails for a folder that holds something else.
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// Removes the grants and servers of an import once no file of the client points at them.
fn unregister(undone: &[Record], journal: &Journal<'_>, stores: &Stores, out: &Out) -> Result<()> {
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
        let holder = grants.iter().filter(live).find(|g| g.access(server).is_some());
        if let Some(holder) = holder {
            out.say(format_args!("server `{server}` stays: grant `{}` uses it", holder.label));
            continue;
        }
        let _ = stores.registry.remove_server(server, stores.now_us());
        let _ =
            stores.registry.remove_policy(&super::recommend::policy_name(server), stores.now_us());
        stores.record()?;
    }
    Ok(())
}

fn report(done: &UndoResult, args: &ClientImportArgs, out: &mut Out) -> Result<Ending> {
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
            "`{path}` was changed since the import: only the gate's entries {would}restored"
        ))?;
    }
    for (record, why) in &done.stuck {
        let path = visible(&record.path.display().to_string());
        out.warn(format_args!(
            "`{path}` was changed since the import and cannot be read, so it is left as it is: {}",
            visible(why)
        ));
        match &record.copy {
            Some(copy) => out.say(format_args!(
                "  as it was before: `{}`; compare the two and copy what you want",
                visible(&copy.display().to_string())
            )),
            None => out.say("  repair the file and undo again"),
        }
    }
    Ok(ending)
}

//! `tollgate purge`: deletes everything in this home, after listing it.

use std::io::{self, BufRead as _, IsTerminal as _};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use store::home::Home;
use store::purge::{self, PurgePlan};
use store::vault::{KeyFile, KeyId, KeyStore};

use super::PurgeArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, Table, count};
use crate::running;
use crate::vault_key::Keyring;

pub(crate) fn run(args: &PurgeArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let path = context.home_path()?;
    // Checked before opening: that would change the modes of any folder.
    if path.is_dir() && !purge::is_home(&path) {
        bail!(
            "`{}` is not a tollgate home; nothing was deleted\nhint: `TOLLGATE_HOME` and `--home` name the folder",
            path.display()
        );
    }
    let home = Home::open(&path)?;
    if let Some(gate) = running::all(home.path()).first() {
        bail!(
            "a gate is running on this home (`{}`, process {})\nhint: stop it first",
            gate.command,
            gate.pid
        );
    }
    let plan = PurgePlan::of(home.path())?;
    if !out.wants_json() {
        show(&plan, &home, out)?;
    }
    if !args.yes && !confirmed(out)? {
        out.say("nothing was deleted");
        return Ok(Ending::No);
    }
    let kept = in_the_keyring(&home);
    let mut progress = Progress::new("deleting");
    let gone = plan.run(&mut |files| progress.at(files))?;
    drop(progress);
    let files = count(usize::try_from(gone).unwrap_or(usize::MAX), "file");
    if out.wants_json() {
        let items: Vec<Value> = plan
            .items
            .iter()
            .map(|item| json!({ "path": item.path, "what": item.what, "files": item.files, "bytes": item.bytes }))
            .collect();
        out.json(&json!({ "deleted": items, "files": gone, "kept": plan.others, "kept_in_keyring": kept }))?;
    } else {
        let rest = if plan.others.is_empty() {
            "is gone"
        } else {
            "holds only files that are not tollgate's"
        };
        out.line(format_args!("{files} deleted; `{}` {rest}", home.path().display()))?;
    }
    if let Some(id) = &kept {
        let removal = Keyring::of_this_system().removal(id);
        out.warn(format_args!("the keyring keeps the vault key; `{removal}` removes it"));
    }
    Ok(Ending::Yes)
}

/// A key in the keyring is not deleted: a copy of this home may need it.
fn in_the_keyring(home: &Home) -> Option<KeyId> {
    match KeyFile::of(home) {
        Ok(Some(KeyFile::External(external))) if external.keeper == KeyStore::Keyring => {
            Some(external.key)
        }
        _ => None,
    }
}

fn show(plan: &PurgePlan, home: &Home, out: &mut Out) -> Result<()> {
    out.say(format_args!("this permanently deletes from `{}`:", home.path().display()));
    out.flush()?;
    let mut table = Table::new(&["name", "what", "files", "bytes"]);
    for item in &plan.items {
        let name = item.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        table.row([name, item.what.to_owned(), item.files.to_string(), item.bytes.to_string()]);
    }
    out.table(&table)?;
    for path in &plan.others {
        out.say(format_args!("`{}` is not tollgate's and stays", path.display()));
    }
    if plan.items.iter().any(|item| item.path.ends_with("accounts") && item.bytes > 0) {
        out.warn("your consent at the services stays; run `tollgate disconnect SERVICE` first to revoke it");
    }
    Ok(())
}

fn confirmed(out: &Out) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("this cannot be undone; no terminal to ask on, so add `--yes`");
    }
    out.say("delete all of it? type purge:");
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == "purge")
}

//! `clients install --skill`: writes the skills of the built-in servers as files, for clients that read a folder of
//! skills. A file that is not ours is never replaced.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use connectors::{Skill, SkillFile};
use serde_json::json;

use super::InstallArgs;
use super::change::Change;
use super::journal::{Journal, sha256};
use crate::client_files::skill_folders;
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, visible};

/// A file to write, and what is there now.
struct Draft {
    path: PathBuf,
    text: &'static str,
    before: Option<String>,
}

pub(super) fn run(args: &InstallArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    super::check_names(std::slice::from_ref(&args.client))?;
    let at = crate::client_files::user_folders()?;
    let Some(folder) = skill_folders::folder_of(&args.client, args.project, &at) else {
        bail!(
            "tollgate knows no skill folder of `{}`\nhint: it knows those of {}; other clients read the skill from its server",
            args.client,
            skill_folders::clients().join(", ")
        );
    };
    let stores = context.open()?;
    let journal = Journal::open(&stores, &context.random)?;
    let drafts = drafts(&folder, &journal)?;
    let new: Vec<&Draft> =
        drafts.iter().filter(|draft| draft.before.as_deref() != Some(draft.text)).collect();
    for draft in &new {
        write(draft, &args.client, &journal, &stores)?;
    }
    report(args, &drafts, new.len(), out)
}

/// Checks every file before the first is written.
fn drafts(folder: &Path, journal: &Journal<'_>) -> Result<Vec<Draft>> {
    let skills = connectors::ALL.iter().flat_map(|connector| connector.skills);
    let files = skills.flat_map(|skill| skill.files.iter().map(move |file| (skill, file)));
    files.map(|(skill, file)| draft(folder, skill, file, journal)).collect()
}

fn draft(
    folder: &Path,
    skill: &'static Skill,
    file: &'static SkillFile,
    journal: &Journal<'_>,
) -> Result<Draft> {
    let root = folder.join(skill.name);
    let path = root.join(file.path);
    let below = path.ancestors().take_while(|above| above.starts_with(&root));
    for above in below {
        if fs::symlink_metadata(above).is_ok_and(|found| found.is_symlink()) {
            bail!(
                "`{}` is a link, so the skill is not written through it\nhint: remove the link first",
                visible(&above.display().to_string())
            );
        }
    }
    let before = match fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => bail!("cannot read `{}`: {error}", path.display()),
    };
    let is_ours = |bytes: &[u8]| -> Result<bool> {
        let now = sha256(bytes);
        let ours = journal.records()?;
        Ok(bytes == file.text.as_bytes()
            || ours.iter().any(|record| record.path == path && record.after_sha256 == now))
    };
    if let Some(bytes) = &before
        && !is_ours(bytes)?
    {
        bail!(
            "`{}` exists and tollgate did not write it\nhint: move it away, or keep it and leave out `--skill`",
            visible(&path.display().to_string())
        );
    }
    let before = before.map(String::from_utf8).transpose()?;
    Ok(Draft { path, text: file.text, before })
}

fn write(draft: &Draft, client: &str, journal: &Journal<'_>, stores: &Stores) -> Result<()> {
    let change = Change {
        client,
        path: &draft.path,
        before: draft.before.as_deref(),
        after: draft.text,
        with_copy: false,
        grant: "",
        made_grant: false,
        made_servers: Vec::new(),
    };
    let begun = stores.begin("client_changed", client)?;
    change.make(journal, stores.now_us())?;
    stores.done(&begun, &draft.path.display().to_string())
}

fn report(args: &InstallArgs, drafts: &[Draft], written: usize, out: &mut Out) -> Result<Ending> {
    let paths: Vec<&PathBuf> = drafts.iter().map(|draft| &draft.path).collect();
    if out.wants_json() {
        out.json(&json!({ "client": args.client, "files": paths, "written": written }))?;
        return Ok(Ending::Yes);
    }
    for path in paths {
        out.line(format_args!("{}: `{}`", args.client, visible(&path.display().to_string())))?;
    }
    out.say(match written {
        0 => "the skill was there already",
        _ => "skill written; `tollgate clients import --undo` removes it",
    });
    Ok(Ending::Yes)
}

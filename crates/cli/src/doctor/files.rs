//! The files of the home: modes, key, database, settings, audit log.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use store::ledger::{Reader, VerifyError};
use store::settings::{Problem, SettingsError};

use super::Finding;
use crate::context::{Context, Stores};

pub(super) fn settings(context: &Context, findings: &mut Vec<Finding>) {
    let path = match context.settings_path() {
        Ok(Some(path)) => path,
        Ok(None) => {
            return findings.push(Finding::good("settings", "no tollgate.toml; all as usual"));
        }
        Err(e) => return findings.push(Finding::from_error("settings", &e)),
    };
    match crate::context::load_settings(&path) {
        Ok(settings) => {
            findings.push(Finding::good("settings", format!("`{}` is fine", path.display())));
            tls(&settings, &path, findings);
        }
        Err(e) => findings.extend(settings_problems(&path, &e)),
    }
}

/// One finding for each thing that is wrong in the file.
fn settings_problems(path: &Path, error: &anyhow::Error) -> Vec<Finding> {
    let Some(wrong) = error.chain().find_map(|cause| cause.downcast_ref::<SettingsError>()) else {
        return vec![Finding::from_error("settings", error)];
    };
    let edit = |line: usize| format!("mend line {line} of `{}`", path.display());
    let finding = |problem: &Problem| {
        let words = format!("line {}, column {}: {}", problem.line, problem.column, problem.words);
        let hint = problem.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        Finding::wrong("settings", words, format!("{}{hint}", edit(problem.line)))
    };
    wrong.problems.iter().map(finding).collect()
}

fn tls(settings: &store::settings::Settings, beside: &Path, findings: &mut Vec<Finding>) {
    let Some(tls) = &settings.tls else { return };
    let folder = beside.parent().unwrap_or(Path::new(""));
    for file in [&tls.cert_file, &tls.key_file] {
        let path = folder.join(file);
        if let Err(e) = fs::File::open(&path) {
            let shown = path.display();
            let words = format!("cannot read the TLS file `{shown}`: {e}");
            findings.push(Finding::wrong("settings", words, format!("`ls -l {shown}`")));
        }
    }
}

/// Whether owner and modes are right, without mending them.
pub(super) fn modes(home: &Path, findings: &mut Vec<Finding>) -> bool {
    let before = findings.len();
    check_modes(home, 0, findings);
    let good = findings.len() == before;
    if good {
        findings.push(Finding::good("modes", format!("`{}` is yours alone", home.display())));
    }
    good
}

fn check_modes(path: &Path, depth: usize, findings: &mut Vec<Finding>) {
    const DEPTH_MAX: usize = 4;
    let Ok(found) = fs::symlink_metadata(path) else { return };
    let shown = path.display();
    let mode = found.mode() & 0o777;
    if found.is_symlink() {
        let words = format!("`{shown}` is a symbolic link, which someone could point elsewhere");
        return findings.push(Finding::wrong("modes", words, "give the real place with `--home`"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        let words = format!("`{shown}` belongs to user {}", found.uid());
        return findings.push(Finding::wrong(
            "modes",
            words,
            format!("`sudo chown -R $(id -u) {shown}`"),
        ));
    }
    if mode & 0o077 != 0 {
        let right = if found.is_dir() { "700" } else { "600" };
        let words = format!("others may get at `{shown}` (mode {mode:04o})");
        findings.push(Finding::wrong("modes", words, format!("`chmod {right} {shown}`")));
    }
    if found.is_dir() && depth < DEPTH_MAX {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            // What else the owner keeps here is behind the mode of the folder.
            if depth > 0 || is_ours(&entry.file_name().to_string_lossy()) {
                check_modes(&entry.path(), depth + 1, findings);
            }
        }
    }
}

fn is_ours(name: &str) -> bool {
    const OURS: [&str; 9] = [
        "gate.db",
        "data.db",
        "vault.key",
        "audit",
        "accounts",
        "exports",
        "logs",
        "backups",
        "running",
    ];
    OURS.iter().any(|ours| name.starts_with(ours))
}

pub(super) fn stores(context: &Context, findings: &mut Vec<Finding>) -> Option<Stores> {
    // Broken settings have been named; they are no reason not to look at the rest.
    let settings = context.settings().unwrap_or_default();
    let stores = match context.open_with(settings) {
        Ok(stores) => stores,
        Err(e) => {
            findings.push(Finding::from_error("database", &e));
            return None;
        }
    };
    findings.push(match stores.registry.check() {
        Ok(()) => Finding::good(
            "database",
            "`gate.db` is whole, and the vault key is the one it was made with",
        ),
        Err(e) => Finding::from_error("database", &anyhow::Error::new(e)),
    });
    Some(stores)
}

/// A log up to this size is verified whole at every look.
const VERIFIED_BYTES_MAX: u64 = 64 << 20;

pub(super) fn audit(stores: &Stores, thorough: bool, findings: &mut Vec<Finding>) {
    let folder = stores.home.audit();
    let bytes = size(&folder);
    // Verified before it is opened for writing, which would cut off what a crash left at the end.
    if bytes > 0 && (thorough || bytes <= VERIFIED_BYTES_MAX) && !verified(&folder, findings) {
        return;
    }
    match stores.ledger().and_then(|ledger| Ok(ledger.standing()?)) {
        Ok(standing) => {
            findings.push(Finding::good(
                "audit",
                format!("open for writing after row {}", standing.seq),
            ));
        }
        Err(e) => findings.push(Finding::from_error("audit", &e)),
    }
}

fn verified(folder: &Path, findings: &mut Vec<Finding>) -> bool {
    const MEND: &str = "`tollgate audit verify`; put the file back from a copy, or keep it as evidence and begin a new chain by moving the folder away";
    match Reader::open(folder).map_err(VerifyError::from).and_then(|log| log.verify(None)) {
        Ok(log) => {
            let words = format!("the chain holds from row {} to {}", log.first_seq, log.last_seq);
            findings.push(Finding::good("audit", words));
            true
        }
        Err(VerifyError::Found(finding)) => {
            let words = format!("the log is not as it was written: {finding}");
            findings.push(Finding::wrong("audit", words, MEND));
            false
        }
        Err(VerifyError::Ledger(e)) => {
            findings.push(Finding::from_error("audit", &e.into()));
            false
        }
    }
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
    files.map(|file| file.len()).sum()
}

//! The files of the home: modes, key, database, settings, audit log.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

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
        Err(e) => findings.push(Finding::from_error("settings", &e)),
    }
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
    // The owner may link or share the settings file; everything else is the gate's.
    let is_settings = path.file_name().is_some_and(|name| name == "tollgate.toml");
    if is_settings {
        return;
    }
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
            check_modes(&entry.path(), depth + 1, findings);
        }
    }
}

pub(super) fn stores(context: &Context, findings: &mut Vec<Finding>) -> Option<Stores> {
    let stores = match context.open() {
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

pub(super) fn audit(stores: &Stores, thorough: bool, findings: &mut Vec<Finding>) {
    let _ = thorough;
    match stores.ledger().and_then(|ledger| Ok(ledger.standing()?)) {
        Ok(standing) => findings
            .push(Finding::good("audit", format!("the log ends whole at row {}", standing.seq))),
        Err(e) => findings.push(Finding::from_error("audit", &e)),
    }
}

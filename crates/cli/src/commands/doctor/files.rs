//! The files of the home: modes, key, database, settings, audit log.

use std::fs;
use std::path::Path;

use gateway::{Tls, Validity};
use platform::disk::{self, Use};
use platform::private;
use store::ledger::VerifyError;
use store::registry::RegistryError;
use store::settings::{Problem, SettingsError};
use store::vault::{KeyError, copies};

use super::Finding;
use super::restore::{copy_back, newest_copy, restore_hint};
use crate::audit_log::seal::{LogEvidence, LogStatus};
use crate::context::{Context, Stores, database_missing};
use crate::hints::word;
use crate::moment;
use crate::output::visible;
use crate::settings_file::{EMPTY_HINT, is_empty, open_to_others};
use crate::vault_key::KeySource;

pub(super) fn settings(context: &Context, findings: &mut Vec<Finding>) {
    let path = match context.settings_path() {
        Ok(Some(path)) => path,
        Ok(None) => {
            return findings.push(Finding::good("settings", "no tollgate.toml; defaults are used"));
        }
        Err(e) => return findings.push(Finding::from_error("settings", &e)),
    };
    let files = std::cell::RefCell::new(Vec::new());
    let note = |file: &Path| files.borrow_mut().push(file.to_owned());
    let loaded = crate::context::load_settings_noting(&path, &note);
    for file in files.into_inner() {
        let Some(open) = store::files::writable_by_all(&file) else { continue };
        let message = format!("anyone on this machine can change `{}`", file.display());
        findings.push(Finding::careful(
            "settings",
            message,
            format!("`chmod o-w {}`", word(&open)),
        ));
    }
    match loaded {
        Ok(settings) => {
            let shown = path.display();
            findings.push(if is_empty(&path) {
                let message = format!("`{shown}` is empty; was it truncated?");
                Finding::careful("settings", message, EMPTY_HINT)
            } else {
                Finding::good("settings", format!("`{shown}` is valid"))
            });
            tls(&settings, &path, context.clock.now().wall_us, findings);
        }
        Err(e) => findings.extend(settings_problems(&path, &e)),
    }
}

/// One finding for each problem in the file.
fn settings_problems(path: &Path, error: &anyhow::Error) -> Vec<Finding> {
    let Some(wrong) = error.chain().find_map(|cause| cause.downcast_ref::<SettingsError>()) else {
        let fix = format!("make `{}` a readable text file, or move it away", path.display());
        return vec![Finding::from_error("settings", error).or_fix(fix)];
    };
    let edit = |line: usize| format!("fix line {line} of `{}`", path.display());
    let finding = |problem: &Problem| {
        let message =
            format!("line {}, column {}: {}", problem.line, problem.column, problem.message);
        let hint = problem.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        Finding::wrong("settings", message, format!("{}{hint}", edit(problem.line)))
    };
    wrong.problems.iter().map(finding).collect()
}

fn tls(
    settings: &store::settings::Settings,
    settings_file: &Path,
    now_us: i64,
    findings: &mut Vec<Finding>,
) {
    let Some(tls) = &settings.tls else { return };
    let folder = settings_file.parent().unwrap_or(Path::new(""));
    let cert_file = folder.join(&tls.cert_file);
    // Read as a gate reads them, so that both fail for the same reason.
    let key_file = folder.join(&tls.key_file);
    if let Some(access) = open_to_others(&key_file) {
        let shown = key_file.display();
        let message = format!("others can access the key `{shown}` ({access})");
        let fix = format!("`chmod go= {}`", word(&key_file));
        findings.push(Finding::careful("settings", message, fix));
    }
    match Tls::from_files(&cert_file, &key_file) {
        Ok(_) => findings.extend(certificate(&cert_file, now_us)),
        Err(e) => findings.push(Finding::from_error("settings", &e.into())),
    }
}

/// Clients refuse a certificate that has expired or is not valid yet. One that expires within two weeks
/// needs attention, unless its lifetime is so short that it is not due for renewal.
fn certificate(cert_file: &Path, now_us: i64) -> Option<Finding> {
    const SOON_US: i64 = 14 * 86_400_000_000;
    const FIX: &str = "renew it; a running gate loads the new file itself";
    let Validity { from, until } = Validity::of_file(cert_file)?;
    let at_us = |text: &str| moment::parse_moment(text, now_us).ok();
    let (from_us, until_us) = (at_us(&from)?, at_us(&until)?);
    let shown = cert_file.display();
    let left_us = until_us - now_us;
    Some(if left_us <= 0 {
        Finding::wrong("settings", format!("the certificate in `{shown}` expired at {until}"), FIX)
    } else if from_us > now_us {
        let message = format!("the certificate in `{shown}` is valid only from {from} on");
        Finding::wrong("settings", message, "check the clock, or use the previous one until then")
    } else if left_us < SOON_US && left_us < (until_us - from_us) / 3 {
        Finding::careful(
            "settings",
            format!("the certificate in `{shown}` expires at {until}"),
            FIX,
        )
    } else {
        Finding::good("settings", format!("the certificate in `{shown}` is valid until {until}"))
    })
}

/// Whether a home that does not exist can be created.
pub(super) fn missing_home(home: &Path) -> Finding {
    let whole = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
    let near = whole.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let (shown, near_shown) = (home.display(), near.display());
    let elsewhere = "`--home DIR` or `TOLLGATE_HOME` names another folder";
    if !near.is_dir() {
        let message = format!("`{shown}` cannot be created: `{near_shown}` is not a folder");
        return Finding::wrong("home", message, elsewhere);
    }
    match disk::check(near, Use::NewEntry) {
        Ok(()) => Finding::good(
            "home",
            format!("`{shown}` does not exist yet; the first command creates it"),
        ),
        Err(e) => {
            let message = format!("`{shown}` cannot be created in `{near_shown}`: {e}");
            Finding::wrong("home", message, elsewhere)
        }
    }
}

/// Whether owner and modes are right. Does not repair them.
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
    if found.is_symlink() {
        let message = format!("`{shown}` is a symbolic link, which someone could point elsewhere");
        return findings.push(Finding::wrong("modes", message, instead_of_link(path, depth)));
    }
    let (owner, access) = (private::owner(path, &found), private::access(path, &found));
    let (Ok(owner), Ok(access), Ok(this_user)) = (owner, access, private::this_user()) else {
        let message = format!("cannot read whom `{shown}` belongs to");
        return findings.push(Finding::wrong("modes", message, "check the file system"));
    };
    if owner != this_user {
        let message = format!("`{shown}` belongs to user {owner}");
        return findings.push(Finding::wrong(
            "modes",
            message,
            format!("`sudo chown -R $(id -u) {}`", word(path)),
        ));
    }
    if let Some(finding) = misplaced(path, &found, depth) {
        return findings.push(finding);
    }
    if access.is_open_to_others() {
        let right = if found.is_dir() { "700" } else { "600" };
        let message = format!("others can access `{shown}` ({access})");
        let fix = format!("`chmod {right} {}`", word(path));
        findings.push(Finding::wrong("modes", message, fix));
    }
    findings.extend(not_writable(path, &found));
    if found.is_dir() && depth < DEPTH_MAX {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            // Other files of the owner are protected by the mode of the folder.
            if depth > 0 || is_ours(&entry.file_name().to_string_lossy()) {
                check_modes(&entry.path(), depth + 1, findings);
            }
        }
    }
}

/// The home itself may be given by its real path; a file inside must not be a link.
fn instead_of_link(path: &Path, depth: usize) -> String {
    if depth == 0 {
        return "give the real path with `--home`".to_owned();
    }
    let link = word(path);
    format!("`real=$(readlink -f {link}) && rm {link} && cp -a \"$real\" {link}`")
}

/// A folder where a file belongs, or the other way round.
fn misplaced(path: &Path, found: &fs::Metadata, depth: usize) -> Option<Finding> {
    let name = path.file_name()?.to_string_lossy();
    let (is_wrong, message) = match (depth, &*name) {
        (1, "gate.db" | "data.db" | "vault.key") => (!found.is_file(), "is not a file"),
        (1, "audit" | "accounts" | "logins" | "exports" | "logs" | "backups" | "running") => {
            (!found.is_dir(), "is not a folder")
        }
        (2, _) if path.extension().is_some_and(|end| end == "log") => {
            (!found.is_file(), "is not a file")
        }
        _ => return None,
    };
    let shown = path.display();
    let (from, to) = (word(path), word(format!("{shown}.old")));
    let fix = format!("`mv {from} {to}`, then restore what belongs there, if you have it");
    is_wrong.then(|| Finding::wrong("home", format!("`{shown}` {message}"), fix))
}

/// Files that a gate cannot write but must. The key is only read, and old parts of the log are only removed.
fn not_writable(path: &Path, found: &fs::Metadata) -> Option<Finding> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (wanted, bits) = if found.is_dir() {
        (Use::WholeFolder, "rwx")
    } else if name.starts_with("gate.db") || name.starts_with("data.db") {
        (Use::ReadAndWrite, "rw")
    } else {
        return None;
    };
    let error = disk::check(path, wanted).err()?;
    let shown = path.display();
    let message = format!("`{shown}` cannot be written: {error}");
    let fix = if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem {
        format!("`findmnt -T {}` shows what is mounted read-only there", word(path))
    } else {
        format!("`chmod u+{bits} {}`", word(path))
    };
    Some(Finding::wrong("modes", message, fix))
}

fn is_ours(name: &str) -> bool {
    const OURS: [&str; 10] = [
        "gate.db",
        "data.db",
        "vault.key",
        "audit",
        "accounts",
        "logins",
        "exports",
        "logs",
        "backups",
        "running",
    ];
    OURS.iter().any(|ours| name.starts_with(ours))
}

pub(super) fn stores(context: &Context, findings: &mut Vec<Finding>) -> Option<Stores> {
    let is_shared = context.store().is_ok_and(|store| store.is_some());
    let home = context.home_path().ok().filter(|_| !is_shared);
    if let Some(gone) = home.and_then(|home| database_gone(&home)) {
        findings.push(gone);
        return None;
    }
    // Broken settings were reported; the rest is still checked.
    let settings = context.settings().unwrap_or_default();
    let stores = match context.open_with(settings) {
        Ok(stores) => stores,
        Err(e) => {
            findings.push(database(&e, context));
            return None;
        }
    };
    if let Err(e) = stores.registry.check() {
        // Everything else read from it would fail the same way.
        findings.push(database(&e.into(), context));
        return None;
    }
    let what = match stores.store() {
        Some(store) => visible(&format!("the copy of the registry on `{store}`")),
        None => "`gate.db`".to_owned(),
    };
    let message = format!("{what} is intact, and the vault key is the one it was created with");
    findings.push(Finding::good("database", message));
    key(&stores, findings);
    Some(stores)
}

/// Where the key comes from, and which files hold it in clear.
fn key(stores: &Stores, findings: &mut Vec<Finding>) {
    match KeySource::of(&stores.home) {
        Ok(source) => {
            findings.push(Finding::good("key", format!("the vault key comes from {source}")));
            if !matches!(source, KeySource::File) {
                findings.extend(copies(&stores.home).iter().map(|copy| clear_copy(copy)));
            }
        }
        Err(e) => findings.push(Finding::from_error("key", &e)),
    }
}

fn clear_copy(copy: &Path) -> Finding {
    let shown = copy.display();
    let message = format!("`{shown}` holds a vault key in clear");
    let fix = format!("keep it elsewhere if you need it, then `rm {}`", word(copy));
    Finding::careful("key", message, fix)
}

fn database(error: &anyhow::Error, context: &Context) -> Finding {
    let about = if error.is::<KeyError>() { "key" } else { "database" };
    let finding = Finding::from_error(about, error);
    match (error.downcast_ref(), context.home_path()) {
        (Some(RegistryError::Corrupt(_)), Ok(home)) => {
            Finding { fix: Some(restore_hint(&home)), ..finding }
        }
        (_, Ok(home)) => {
            let shown = word(home);
            finding.or_fix(format!("`ls -la {shown}` and `dmesg` show what is wrong with it"))
        }
        _ => finding,
    }
}

/// A used home without its database; opening it would create an empty one and hide the loss.
fn database_gone(home: &Path) -> Option<Finding> {
    let was_used = home.join("vault.key").exists() || size(&home.join("audit")) > 0;
    let what = database_missing(home).filter(|_| was_used)?;
    let message = format!("`gate.db` is {what}: all servers, policies and grants are lost");
    let fix = match newest_copy(home) {
        Some(copy) => copy_back(home, &copy),
        None => "restore your own copy; any other command creates an empty one".to_owned(),
    };
    Some(Finding::wrong("database", message, fix))
}

/// A log up to this size is always verified as a whole.
const VERIFIED_BYTES_MAX: u64 = 64 << 20;

pub(super) fn audit(stores: &Stores, thorough: bool, findings: &mut Vec<Finding>) {
    let folder = stores.home.audit();
    let bytes = if stores.store().is_some() { u64::MAX } else { size(&folder) };
    let known = stores.registry.remembered_log().ok().flatten();
    if let Some(known) = known.as_ref().filter(|_| bytes == 0) {
        let message = format!(
            "the audit log, which had {} rows at {}, is gone",
            known.seq,
            visible(&known.time)
        );
        // Opening it would create a new one.
        return findings.push(Finding::wrong("audit", message, RESTORE));
    }
    // Verified before it is opened for writing, which would truncate the incomplete end that a crash left.
    let is_read = bytes > 0 && (thorough || bytes <= VERIFIED_BYTES_MAX);
    if is_read && !verified(stores, findings) {
        return;
    }
    match stores.ledger().and_then(|ledger| Ok(ledger.status()?)) {
        Ok(last) => {
            findings
                .push(Finding::good("audit", format!("open for writing after row {}", last.seq)));
        }
        Err(e) => {
            let fix = format!("`ls -la {}` and `dmesg` show what is wrong", word(&folder));
            findings.push(Finding::from_error("audit", &e).or_fix(fix));
        }
    }
}

/// For an intact chain that is not, or not all of, the previous log.
const RESTORE: &str = "restore `audit/` from a copy; otherwise the next `tollgate up` continues this log and says so in a row";

fn verified(stores: &Stores, findings: &mut Vec<Finding>) -> bool {
    const FIX: &str = "`tollgate audit verify`; restore the file from a copy, or keep it as evidence and start a new chain by moving the folder away";
    let folder = stores.home.audit();
    let checked = stores.read_log().map_err(VerifyError::from).and_then(|log| {
        let remembered = stores.remembered_log();
        let mut evidence = LogEvidence::with(remembered, stores.registry.vault(), &log);
        let verified = evidence.verify(&log, None)?;
        Ok((evidence.status(&verified), verified))
    });
    match checked {
        Ok((LogStatus::Lost(message), _)) => {
            findings.push(Finding::wrong("audit", message, RESTORE));
            false
        }
        Ok((_, log)) => {
            let message =
                format!("the chain is intact from row {} to {}", log.first_seq, log.last_seq);
            let doubt = log.alarms.iter().find(|alarm| alarm.is_open(None));
            findings.push(match doubt {
                Some(alarm) => {
                    let message = format!("{message}; row {} says: {}", alarm.seq, alarm.words);
                    Finding::wrong("audit", message, "`tollgate audit verify`")
                }
                None => Finding::good("audit", message),
            });
            true
        }
        Err(VerifyError::Found(finding)) => {
            let message = format!("the log is not as it was written: {finding}");
            findings.push(Finding::wrong("audit", message, FIX));
            false
        }
        Err(error) => {
            let fix = format!("`ls -la {}` and `dmesg` show what is wrong", word(&folder));
            findings.push(Finding::from_error("audit", &error.into()).or_fix(fix));
            false
        }
    }
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
    files.map(|file| file.len()).sum()
}

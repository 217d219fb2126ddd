//! The files of the home: modes, key, database, settings, audit log.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gateway::{Tls, Validity};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use store::ledger::{Reader, VerifyError};
use store::registry::RegistryError;
use store::settings::{Problem, SettingsError};
use store::vault::{KeyError, copies};

use super::{Finding, word};
use crate::audit::seal::{Outside, Standing};
use crate::context::{Context, Stores, database_missing};
use crate::moment;
use crate::output::visible;
use crate::run::{EMPTY_HINT, is_empty, open_to_others};
use crate::vault::KeyPlace;

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
    for file in files.into_inner().iter().filter(|file| store::files::is_writable_by_all(file)) {
        let words = format!("anyone on this machine may change `{}`", file.display());
        findings.push(Finding::careful("settings", words, format!("`chmod o-w {}`", word(file))));
    }
    match loaded {
        Ok(settings) => {
            let shown = path.display();
            findings.push(if is_empty(&path) {
                let words = format!("`{shown}` is empty; was it cut short?");
                Finding::careful("settings", words, EMPTY_HINT)
            } else {
                Finding::good("settings", format!("`{shown}` is fine"))
            });
            tls(&settings, &path, context.clock.now().wall_us, findings);
        }
        Err(e) => findings.extend(settings_problems(&path, &e)),
    }
}

/// One finding for each thing that is wrong in the file.
fn settings_problems(path: &Path, error: &anyhow::Error) -> Vec<Finding> {
    let Some(wrong) = error.chain().find_map(|cause| cause.downcast_ref::<SettingsError>()) else {
        let mend =
            format!("make `{}` a text file that you can read, or move it away", path.display());
        return vec![Finding::from_error("settings", error).or_mend(mend)];
    };
    let edit = |line: usize| format!("mend line {line} of `{}`", path.display());
    let finding = |problem: &Problem| {
        let words = format!("line {}, column {}: {}", problem.line, problem.column, problem.words);
        let hint = problem.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        Finding::wrong("settings", words, format!("{}{hint}", edit(problem.line)))
    };
    wrong.problems.iter().map(finding).collect()
}

fn tls(
    settings: &store::settings::Settings,
    beside: &Path,
    now_us: i64,
    findings: &mut Vec<Finding>,
) {
    let Some(tls) = &settings.tls else { return };
    let folder = beside.parent().unwrap_or(Path::new(""));
    let cert_file = folder.join(&tls.cert_file);
    // Read as a gate reads them: a start would fail for the same reason.
    let key_file = folder.join(&tls.key_file);
    if let Some(mode) = open_to_others(&key_file) {
        let shown = key_file.display();
        let words = format!("others may get at the key `{shown}` (mode {mode:04o})");
        let mend = format!("`chmod go= {}`", word(&key_file));
        findings.push(Finding::careful("settings", words, mend));
    }
    match Tls::from_files(&cert_file, &key_file) {
        Ok(_) => findings.extend(certificate(&cert_file, now_us)),
        Err(e) => findings.push(Finding::from_error("settings", &e.into())),
    }
}

/// Clients refuse a certificate that has ended or not begun. One that ends within two weeks deserves a
/// look, unless it was made for so short a time that it is not yet due to be renewed.
fn certificate(cert_file: &Path, now_us: i64) -> Option<Finding> {
    const SOON_US: i64 = 14 * 86_400_000_000;
    const MEND: &str = "renew it; a running gate takes the new file by itself";
    let Validity { from, until } = Validity::of_file(cert_file)?;
    let at_us = |text: &str| moment::parse_moment(text, now_us).ok();
    let (from_us, until_us) = (at_us(&from)?, at_us(&until)?);
    let shown = cert_file.display();
    let left_us = until_us - now_us;
    Some(if left_us <= 0 {
        Finding::wrong("settings", format!("the certificate in `{shown}` ended at {until}"), MEND)
    } else if from_us > now_us {
        let words = format!("the certificate in `{shown}` holds only from {from} on");
        Finding::wrong("settings", words, "look at the clock, or use the one before until then")
    } else if left_us < SOON_US && left_us < (until_us - from_us) / 3 {
        Finding::careful("settings", format!("the certificate in `{shown}` ends at {until}"), MEND)
    } else {
        Finding::good("settings", format!("the certificate in `{shown}` holds until {until}"))
    })
}

/// A home that is not there: can it be made?
pub(super) fn to_be_made(home: &Path) -> Finding {
    let whole = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
    let near = whole.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let (shown, near_shown) = (home.display(), near.display());
    let elsewhere = "`--home DIR` or `TOLLGATE_HOME` names another place";
    if !near.is_dir() {
        let words = format!("`{shown}` cannot be made: `{near_shown}` is not a folder");
        return Finding::wrong("home", words, elsewhere);
    }
    match access(near, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => {
            Finding::good("home", format!("`{shown}` is not there yet; the first command makes it"))
        }
        Err(e) => {
            let words = format!("`{shown}` cannot be made in `{near_shown}`: {e}");
            Finding::wrong("home", words, elsewhere)
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
        return findings.push(Finding::wrong("modes", words, instead_of_link(path, depth)));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        let words = format!("`{shown}` belongs to user {}", found.uid());
        return findings.push(Finding::wrong(
            "modes",
            words,
            format!("`sudo chown -R $(id -u) {}`", word(path)),
        ));
    }
    if let Some(finding) = misplaced(path, &found, depth) {
        return findings.push(finding);
    }
    if mode & 0o077 != 0 {
        let right = if found.is_dir() { "700" } else { "600" };
        let words = format!("others may get at `{shown}` (mode {mode:04o})");
        let mend = format!("`chmod {right} {}`", word(path));
        findings.push(Finding::wrong("modes", words, mend));
    }
    findings.extend(locked(path, &found));
    if found.is_dir() && depth < DEPTH_MAX {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            // What else the owner keeps here is behind the mode of the folder.
            if depth > 0 || is_ours(&entry.file_name().to_string_lossy()) {
                check_modes(&entry.path(), depth + 1, findings);
            }
        }
    }
}

/// A home may lie elsewhere; what is in it may not.
fn instead_of_link(path: &Path, depth: usize) -> String {
    if depth == 0 {
        return "give the real place with `--home`".to_owned();
    }
    let link = word(path);
    format!("`real=$(readlink -f {link}) && rm {link} && cp -a \"$real\" {link}`")
}

/// A folder where a file belongs, or the other way round.
fn misplaced(path: &Path, found: &fs::Metadata, depth: usize) -> Option<Finding> {
    let name = path.file_name()?.to_string_lossy();
    let (is_wrong, words) = match (depth, &*name) {
        (1, "gate.db" | "data.db" | "vault.key") => (!found.is_file(), "is not a file"),
        (1, "audit" | "accounts" | "exports" | "logs" | "backups" | "running") => {
            (!found.is_dir(), "is not a folder")
        }
        (2, _) if path.extension().is_some_and(|end| end == "log") => {
            (!found.is_file(), "is not a file")
        }
        _ => return None,
    };
    let shown = path.display();
    let (from, to) = (word(path), word(format!("{shown}.old")));
    let mend = format!("`mv {from} {to}`, then put back what belongs there, if you have it");
    is_wrong.then(|| Finding::wrong("home", format!("`{shown}` {words}"), mend))
}

/// What a gate writes and cannot. The key is only read, and old parts of the log only go.
fn locked(path: &Path, found: &fs::Metadata) -> Option<Finding> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (wanted, bits) = if found.is_dir() {
        (Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK, "rwx")
    } else if name.starts_with("gate.db") || name.starts_with("data.db") {
        (Access::READ_OK | Access::WRITE_OK, "rw")
    } else {
        return None;
    };
    let error = access(path, wanted).err()?;
    let shown = path.display();
    let words = format!("`{shown}` cannot be written: {error}");
    let mend = if error == Errno::ROFS {
        format!("`findmnt -T {}` shows what is mounted for reading only there", word(path))
    } else {
        format!("`chmod u+{bits} {}`", word(path))
    };
    Some(Finding::wrong("modes", words, mend))
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
    if let Some(gone) = context.home_path().ok().and_then(|home| database_gone(&home)) {
        findings.push(gone);
        return None;
    }
    // Broken settings have been named; they are no reason not to look at the rest.
    let settings = context.settings().unwrap_or_default();
    let stores = match context.open_with(settings) {
        Ok(stores) => stores,
        Err(e) => {
            findings.push(database(&e, context));
            return None;
        }
    };
    if let Err(e) = stores.registry.check() {
        // Whatever else is read from it would only say the same.
        findings.push(database(&e.into(), context));
        return None;
    }
    let words = "`gate.db` is whole, and the vault key is the one it was made with";
    findings.push(Finding::good("database", words));
    key(&stores, findings);
    Some(stores)
}

/// Where the key is, and what else holds it in clear.
fn key(stores: &Stores, findings: &mut Vec<Finding>) {
    match KeyPlace::of(&stores.home) {
        Ok(place) => {
            findings.push(Finding::good("key", format!("the vault key comes from {place}")));
            if !matches!(place, KeyPlace::File) {
                findings.extend(copies(&stores.home).iter().map(|copy| clear_copy(copy)));
            }
        }
        Err(e) => findings.push(Finding::from_error("key", &e)),
    }
}

fn clear_copy(copy: &Path) -> Finding {
    let shown = copy.display();
    let words = format!("`{shown}` holds a vault key in clear");
    let mend = format!("keep it elsewhere if you need it, then `rm {}`", word(copy));
    Finding::careful("key", words, mend)
}

fn database(error: &anyhow::Error, context: &Context) -> Finding {
    let about = if error.is::<KeyError>() { "key" } else { "database" };
    let finding = Finding::from_error(about, error);
    match (error.downcast_ref(), context.home_path()) {
        (Some(RegistryError::Corrupt(_)), Ok(home)) => {
            Finding { mend: Some(put_back(&home)), ..finding }
        }
        (_, Ok(home)) => {
            let shown = word(home);
            finding.or_mend(format!("`ls -la {shown}` and `dmesg` show what is the matter with it"))
        }
        _ => finding,
    }
}

/// A home that was in use and has lost its database; opening it would make an empty one and hide that.
fn database_gone(home: &Path) -> Option<Finding> {
    let was_used = home.join("vault.key").exists() || size(&home.join("audit")) > 0;
    let what = database_missing(home).filter(|_| was_used)?;
    let words = format!("`gate.db` is {what}: all servers, policies and grants are lost");
    let mend = match newest_copy(home) {
        Some(copy) => copy_back(home, &copy),
        None => "put a copy of yours back; any other command makes an empty one".to_owned(),
    };
    Some(Finding::wrong("database", words, mend))
}

/// How to come by a whole `gate.db` again: the newest copy, which an upgrade made, or a new one.
fn put_back(home: &Path) -> String {
    if let Some(copy) = newest_copy(home) {
        return copy_back(home, &copy);
    }
    let gate = word(home.join("gate.db"));
    let [aside, log_aside] = ["gate.db.damaged", "gate.db.damaged-wal"].map(|n| word(home.join(n)));
    let log = left_log(home).map(|log| format!(" && mv {} {log_aside}", word(log)));
    format!(
        "there is no copy in `backups/`; put one of yours back, or `mv {gate} {aside}{}` and add servers, policies and grants again",
        log.unwrap_or_default()
    )
}

fn copy_back(home: &Path, copy: &Path) -> String {
    let log = left_log(home).map(|log| format!(" && rm {}", word(log)));
    format!(
        "stop the gate, then `cp {} {}{}`: the copy of before the last upgrade",
        word(copy),
        word(home.join("gate.db")),
        log.unwrap_or_default()
    )
}

/// What a killed process had not folded into the database: another one in its place would be read
/// with it.
fn left_log(home: &Path) -> Option<PathBuf> {
    Some(home.join("gate.db-wal")).filter(|log| log.exists())
}

/// The newest copy of `gate.db`, which an upgrade made.
fn newest_copy(home: &Path) -> Option<PathBuf> {
    let copies = fs::read_dir(home.join("backups")).into_iter().flatten().flatten();
    let copies = copies.filter(|copy| copy.file_name().to_string_lossy().starts_with("gate-"));
    let made = |copy: &fs::DirEntry| copy.metadata().and_then(|found| found.modified()).ok();
    copies.max_by_key(made).map(|copy| copy.path())
}

/// A log up to this size is verified whole at every look.
const VERIFIED_BYTES_MAX: u64 = 64 << 20;

pub(super) fn audit(stores: &Stores, thorough: bool, findings: &mut Vec<Finding>) {
    let folder = stores.home.audit();
    let bytes = size(&folder);
    let known = stores.registry.remembered_log().ok().flatten();
    if let Some(known) = known.as_ref().filter(|_| bytes == 0) {
        let words = format!(
            "the audit log, which had {} rows at {}, is gone",
            known.seq,
            visible(&known.time)
        );
        // Opening it would begin another.
        return findings.push(Finding::wrong("audit", words, PUT_BACK));
    }
    // Verified before it is opened for writing, which would cut off what a crash left at the end.
    let is_read = bytes > 0 && (thorough || bytes <= VERIFIED_BYTES_MAX);
    if is_read && !verified(stores, findings) {
        return;
    }
    match stores.ledger().and_then(|ledger| Ok(ledger.standing()?)) {
        Ok(standing) => {
            findings.push(Finding::good(
                "audit",
                format!("open for writing after row {}", standing.seq),
            ));
        }
        Err(e) => {
            let mend = format!("`ls -la {}` and `dmesg` show what is the matter", word(&folder));
            findings.push(Finding::from_error("audit", &e).or_mend(mend));
        }
    }
}

/// For a log that holds together and is not, or not all of, the one there was.
const PUT_BACK: &str = "put `audit/` back from a copy; otherwise the next `tollgate up` goes on with what is there and says so in a row";

fn verified(stores: &Stores, findings: &mut Vec<Finding>) -> bool {
    const MEND: &str = "`tollgate audit verify`; put the file back from a copy, or keep it as evidence and begin a new chain by moving the folder away";
    let folder = stores.home.audit();
    let judged = Reader::open(&folder).map_err(VerifyError::from).and_then(|log| {
        let mut outside = Outside::with(stores.home.path(), stores.registry.vault(), &log);
        let verified = outside.verify(&log, None)?;
        Ok((outside.judge(&verified), verified))
    });
    match judged {
        Ok((Standing::Lost(words), _)) => {
            findings.push(Finding::wrong("audit", words, PUT_BACK));
            false
        }
        Ok((_, log)) => {
            let words = format!("the chain holds from row {} to {}", log.first_seq, log.last_seq);
            let doubt = log.alarms.iter().find(|alarm| alarm.is_open(None));
            findings.push(match doubt {
                Some(alarm) => {
                    let words = format!("{words}; row {} says: {}", alarm.seq, alarm.words);
                    Finding::wrong("audit", words, "`tollgate audit verify`")
                }
                None => Finding::good("audit", words),
            });
            true
        }
        Err(VerifyError::Found(finding)) => {
            let words = format!("the log is not as it was written: {finding}");
            findings.push(Finding::wrong("audit", words, MEND));
            false
        }
        Err(error) => {
            let mend = format!("`ls -la {}` and `dmesg` show what is the matter", word(&folder));
            findings.push(Finding::from_error("audit", &error.into()).or_mend(mend));
            false
        }
    }
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
    files.map(|file| file.len()).sum()
}

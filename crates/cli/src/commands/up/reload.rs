//! Detects changes of the settings file and the files it names. The gate polls several times a second, so a
//! poll costs a few `stat` calls and reads nothing.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Result;
use gateway::{Changed, ReadSettings};
use platform::files::FileVersion;
use store::files;
use store::settings::Settings;

use crate::context::{Context, load_settings_noting};
use crate::settings_file::EMPTY_HINT;
use crate::stdio::builtin::with_profile;

/// Inode, size and modification time of a file; none when it does not exist.
type FileStamp = Option<FileVersion>;

/// A file that was written less than this ago may be incomplete.
const STILL_WRITTEN_WAIT: Duration = Duration::from_millis(100);
/// One that is written continuously is read anyway after this.
const STILL_WRITTEN_WAIT_MAX: Duration = Duration::from_secs(1);

struct SettingsWatch {
    path: PathBuf,
    seen: Mutex<Seen>,
}

struct Seen {
    files: Vec<(PathBuf, FileStamp)>,
    /// When a change was noticed that has not been read yet.
    noticed: Option<Instant>,
}

/// Watches the settings file, even if it does not exist yet. Create it before the settings are loaded, so
/// that a change in between is noticed.
pub(super) fn reader(context: &Context) -> Result<ReadSettings> {
    let path = match context.settings_path()? {
        Some(path) => path,
        None => context.home_path()?.join("tollgate.toml"),
    };
    let poller = Poller::start(path)?;
    Ok(Box::new(move || poller.next()))
}

/// A poll of a disk that does not answer is abandoned after this; the last settings stay.
const POLL_WAIT_MAX: Duration = Duration::from_secs(2);

/// Polls on a separate thread, which may block in the kernel without blocking the gate. A gate that exits
/// does not wait for it.
struct Poller {
    request: mpsc::SyncSender<()>,
    results: Mutex<PollResults>,
}

struct PollResults {
    next: mpsc::Receiver<Changed>,
    /// A poll was requested and has not finished.
    is_late: bool,
}

impl Poller {
    fn start(path: PathBuf) -> Result<Poller> {
        let (request, requests) = mpsc::sync_channel(1);
        let (results, next) = mpsc::sync_channel(1);
        // The current state is what the gate starts with.
        let watch = files::within(files::READ_WAIT_MS_MAX, move || SettingsWatch::new(path))?;
        std::thread::Builder::new().name("settings".to_owned()).spawn(move || {
            for () in requests {
                if results.send(watch.poll()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Poller { request, results: Mutex::new(PollResults { next, is_late: false }) })
    }

    fn next(&self) -> Changed {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if results.is_late {
            return match results.next.try_recv() {
                Ok(changed) => {
                    results.is_late = false;
                    changed
                }
                Err(_) => Changed::No,
            };
        }
        if self.request.try_send(()).is_err() {
            return Changed::No;
        }
        results.next.recv_timeout(POLL_WAIT_MAX).unwrap_or_else(|_| {
            results.is_late = true;
            Changed::Broken(format!(
                "it could not be read within {} s; the disk does not answer",
                POLL_WAIT_MAX.as_secs()
            ))
        })
    }
}

impl SettingsWatch {
    fn new(path: PathBuf) -> SettingsWatch {
        let (_, files) = read(&path);
        warn_of_open_files(&files);
        SettingsWatch { path, seen: Mutex::new(Seen { files, noticed: None }) }
    }

    fn poll(&self) -> Changed {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.files.iter().all(|(path, before)| stamp(path) == *before) {
            seen.noticed = None;
            return Changed::No;
        }
        let noticed = *seen.noticed.get_or_insert_with(Instant::now);
        let (settings, files) = read(&self.path);
        // Half a settings file is often valid, too, with fewer grants in it.
        if noticed.elapsed() < STILL_WRITTEN_WAIT_MAX && files.iter().any(is_still_written) {
            return Changed::No;
        }
        *seen = Seen { files, noticed: None };
        if seen.files.first().is_some_and(|(_, stamp)| stamp.is_none()) {
            // Editors remove and recreate a file; only an existing file changes the settings.
            return Changed::Broken(format!("`{}` was removed", self.path.display()));
        }
        if matches!(seen.files.first(), Some((_, Some(version))) if version.bytes() == 0) {
            // A full disk or a crash leaves an empty file, which would remove every grant.
            let shown = self.path.display();
            return Changed::Broken(format!("`{shown}` is empty\nhint: {EMPTY_HINT}"));
        }
        warn_of_open_files(&seen.files);
        let set = |name: &str| std::env::var(name).ok();
        match settings {
            Ok(settings) => Changed::Yes(Box::new(with_profile(settings, &set))),
            Err(error) => Changed::Broken(format!("{error:#}")),
        }
    }
}

/// The settings, and the stamp of each file before it was read, so that a change in between is noticed by
/// the next poll. Includes files that could not be used: fixing one is a change, too.
fn read(path: &Path) -> (Result<Settings>, Vec<(PathBuf, FileStamp)>) {
    let seen = RefCell::new(Vec::new());
    let settings = load_settings_noting(path, &|file: &Path| {
        seen.borrow_mut().push((file.to_owned(), stamp(file)));
    });
    (settings, seen.into_inner())
}

/// A user who can write one of these files controls the gate.
fn warn_of_open_files(files: &[(PathBuf, FileStamp)]) {
    for (path, _) in files {
        let Some(open) = files::writable_by_all(path) else { continue };
        let (shown, open) = (path.display(), open.display());
        tracing::warn!("anyone on this machine can change `{shown}`; `chmod o-w {open}`");
    }
}

/// Whether a file was changed since it was read, or so shortly before that it may be incomplete.
fn is_still_written((path, before): &(PathBuf, FileStamp)) -> bool {
    let written = fs::metadata(path).and_then(|found| found.modified());
    stamp(path) != *before
        || written.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago < STILL_WRITTEN_WAIT))
}

fn stamp(path: &Path) -> FileStamp {
    FileVersion::of_target(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Writes a file as if that had been a while ago.
    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_mins(1)).unwrap();
    }

    #[test]
    fn a_file_that_may_still_be_written_is_not_read_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        write(&path, "[servers.demo]\nbuiltin = \"demo\"\n");
        let watch = SettingsWatch::new(path.clone());
        // A shell's `>` truncates first.
        fs::write(&path, "").unwrap();
        assert!(matches!(watch.poll(), Changed::No));
        write(&path, "[servers.other]\nbuiltin = \"demo\"\n");
        assert!(matches!(watch.poll(), Changed::Yes(read) if read.servers.contains_key("other")));
        // Continuous writes do not delay it forever.
        fs::write(&path, "# a").unwrap();
        assert!(matches!(watch.poll(), Changed::No));
        watch.seen.lock().unwrap().noticed = Instant::now().checked_sub(STILL_WRITTEN_WAIT_MAX);
        fs::write(&path, "# b").unwrap();
        assert!(matches!(watch.poll(), Changed::Yes(_)));
    }

    #[test]
    fn an_empty_file_removes_no_settings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        write(&path, "[servers.demo]\nbuiltin = \"demo\"\n");
        let watch = SettingsWatch::new(path.clone());
        for _ in 0..2 {
            write(&path, "");
            assert!(
                matches!(watch.poll(), Changed::Broken(why) if why.contains("is empty\nhint: "))
            );
            assert!(matches!(watch.poll(), Changed::No));
        }
        write(&path, "# nothing\n");
        assert!(matches!(watch.poll(), Changed::Yes(read) if read.servers.is_empty()));
    }

    #[test]
    fn a_change_and_a_broken_file_are_each_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        let watch = SettingsWatch::new(path.clone());
        assert!(matches!(watch.poll(), Changed::No));
        write(&path, "durability = \"power\"\n");
        assert!(matches!(watch.poll(), Changed::Yes(_)));
        assert!(matches!(watch.poll(), Changed::No));
        write(&path, "durability = \"glass\"\n");
        assert!(matches!(watch.poll(), Changed::Broken(_)));
        assert!(matches!(watch.poll(), Changed::No));
        fs::remove_file(&path).unwrap();
        assert!(matches!(watch.poll(), Changed::Broken(_)));
        assert!(matches!(watch.poll(), Changed::No));
    }

    #[test]
    fn a_file_that_is_created_later_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        write(&path, "durability = \"power\"\n");
        let watch = SettingsWatch::new(path.clone());
        write(&path, "[policies.late]\nfile = \"late.json\"\n");
        assert!(matches!(watch.poll(), Changed::Broken(_)));
        assert!(matches!(watch.poll(), Changed::No));
        let late = folder.path().join("late.json");
        write(&late, r#"{ "version": "1", "default": "#);
        assert!(matches!(watch.poll(), Changed::Broken(_)), "half written");
        write(&late, r#"{ "version": "1", "default": "deny" }"#);
        assert!(matches!(watch.poll(), Changed::Yes(_)));
        assert!(matches!(watch.poll(), Changed::No));
    }
}

//! Notices that the settings file, or a file it points to, was changed. The gate asks several times
//! a second, so a look costs a few `stat` calls and no reading.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Result;
use gateway::{Changed, ReadSettings};
use store::files;
use store::settings::Settings;

use super::builtin::with_profile;
use crate::context::{Context, load_settings_noting};

/// What tells one state of a file from another; none when it is not there.
type Look = Option<(u64, u64, i64, i64)>;

/// A file that was written to less than this ago may not be whole yet.
const STILL_WRITTEN_WAIT: Duration = Duration::from_millis(100);
/// One that is written to without a pause is read all the same after this.
const STILL_WRITTEN_WAIT_MAX: Duration = Duration::from_secs(1);

/// How to say nothing in a settings file.
pub(crate) const EMPTY_HINT: &str =
    "write it anew; with one comment in it (`# nothing`) it takes back all that it said before";

struct Watch {
    path: PathBuf,
    seen: Mutex<Seen>,
}

struct Seen {
    files: Vec<(PathBuf, Look)>,
    /// When a change was noticed that was not read yet.
    noticed: Option<Instant>,
}

/// Whether a settings file says nothing at all, not even in a comment.
pub(crate) fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// Watches the settings file that is in use, also while there is none yet. To be made before the
/// settings are read for use: what changes between the two is then noticed.
pub(super) fn reader(context: &Context) -> Result<ReadSettings> {
    let path = match context.settings_path()? {
        Some(path) => path,
        None => context.home_path()?.join("tollgate.toml"),
    };
    let looks = Looks::start(path)?;
    Ok(Box::new(move || looks.next()))
}

/// A look at a disk that does not answer is given up after this, and the one before it still counts.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(2);

/// Looks on a thread of its own, which may get stuck in the system: nobody else does, and a gate that
/// ends leaves it behind.
struct Looks {
    ask: mpsc::SyncSender<()>,
    found: Mutex<Found>,
}

struct Found {
    next: mpsc::Receiver<Changed>,
    /// A look was asked for that has not come back.
    is_late: bool,
}

impl Looks {
    fn start(path: PathBuf) -> Result<Looks> {
        let (ask, asked) = mpsc::sync_channel(1);
        let (tell, next) = mpsc::sync_channel(1);
        // What is there now is what the gate starts with.
        let watch = files::within(files::READ_WAIT_MS_MAX, move || Watch::new(path))?;
        std::thread::Builder::new().name("settings".to_owned()).spawn(move || {
            for () in asked {
                if tell.send(watch.look()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Looks { ask, found: Mutex::new(Found { next, is_late: false }) })
    }

    fn next(&self) -> Changed {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.is_late {
            return match found.next.try_recv() {
                Ok(changed) => {
                    found.is_late = false;
                    changed
                }
                Err(_) => Changed::No,
            };
        }
        if self.ask.try_send(()).is_err() {
            return Changed::No;
        }
        found.next.recv_timeout(LOOK_WAIT_MAX).unwrap_or_else(|_| {
            found.is_late = true;
            Changed::Broken(format!(
                "it could not be read within {} s; the disk does not answer",
                LOOK_WAIT_MAX.as_secs()
            ))
        })
    }
}

impl Watch {
    fn new(path: PathBuf) -> Watch {
        let (_, files) = read(&path);
        warn_of_open_files(&files);
        Watch { path, seen: Mutex::new(Seen { files, noticed: None }) }
    }

    fn look(&self) -> Changed {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.files.iter().all(|(path, before)| look(path) == *before) {
            seen.noticed = None;
            return Changed::No;
        }
        let noticed = *seen.noticed.get_or_insert_with(Instant::now);
        let (settings, files) = read(&self.path);
        // Half of a settings file is often one too, with fewer grants in it.
        if noticed.elapsed() < STILL_WRITTEN_WAIT_MAX && files.iter().any(is_still_written) {
            return Changed::No;
        }
        *seen = Seen { files, noticed: None };
        if seen.files.first().is_some_and(|(_, look)| look.is_none()) {
            // Editors take a file away and put it back; only a file that is there says something.
            return Changed::Broken(format!("`{}` has vanished", self.path.display()));
        }
        if matches!(seen.files.first(), Some((_, Some((_, 0, _, _))))) {
            // A full disk or a crash leaves a file like this, and it would take away every grant in it.
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

/// The settings, and the state of each file before it was read, so that a change in between is noticed
/// next time. A file that could not be used is among them: putting it right is a change, too.
fn read(path: &Path) -> (Result<Settings>, Vec<(PathBuf, Look)>) {
    let seen = RefCell::new(Vec::new());
    let settings = load_settings_noting(path, &|file: &Path| {
        seen.borrow_mut().push((file.to_owned(), look(file)));
    });
    (settings, seen.into_inner())
}

/// Whoever may write to one of these decides what passes the gate.
fn warn_of_open_files(files: &[(PathBuf, Look)]) {
    for (path, _) in files.iter().filter(|(path, _)| files::is_writable_by_all(path)) {
        let shown = path.display();
        tracing::warn!("anyone on this machine may change `{shown}`; `chmod o-w {shown}`");
    }
}

/// Whether a file was changed since it was read, or so shortly before that it may not be whole.
fn is_still_written((path, before): &(PathBuf, Look)) -> bool {
    let written = fs::metadata(path).and_then(|found| found.modified());
    look(path) != *before
        || written.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago < STILL_WRITTEN_WAIT))
}

fn look(path: &Path) -> Look {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
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
        let watch = Watch::new(path.clone());
        // What `>` of a shell makes of it first.
        fs::write(&path, "").unwrap();
        assert!(matches!(watch.look(), Changed::No));
        write(&path, "[servers.other]\nbuiltin = \"demo\"\n");
        assert!(matches!(watch.look(), Changed::Yes(read) if read.servers.contains_key("other")));
        // Somebody who writes without a pause does not hold it up for ever.
        fs::write(&path, "# a").unwrap();
        assert!(matches!(watch.look(), Changed::No));
        watch.seen.lock().unwrap().noticed = Instant::now().checked_sub(STILL_WRITTEN_WAIT_MAX);
        fs::write(&path, "# b").unwrap();
        assert!(matches!(watch.look(), Changed::Yes(_)));
    }

    #[test]
    fn a_file_that_was_cut_to_nothing_takes_nothing_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        write(&path, "[servers.demo]\nbuiltin = \"demo\"\n");
        let watch = Watch::new(path.clone());
        for _ in 0..2 {
            write(&path, "");
            assert!(
                matches!(watch.look(), Changed::Broken(why) if why.contains("is empty\nhint: "))
            );
            assert!(matches!(watch.look(), Changed::No));
        }
        write(&path, "# nothing\n");
        assert!(matches!(watch.look(), Changed::Yes(read) if read.servers.is_empty()));
    }

    #[test]
    fn a_change_is_noticed_once_and_a_broken_file_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        let watch = Watch::new(path.clone());
        assert!(matches!(watch.look(), Changed::No));
        write(&path, "durability = \"power\"\n");
        assert!(matches!(watch.look(), Changed::Yes(_)));
        assert!(matches!(watch.look(), Changed::No));
        write(&path, "durability = \"glass\"\n");
        assert!(matches!(watch.look(), Changed::Broken(_)));
        assert!(matches!(watch.look(), Changed::No));
        fs::remove_file(&path).unwrap();
        assert!(matches!(watch.look(), Changed::Broken(_)));
        assert!(matches!(watch.look(), Changed::No));
    }

    #[test]
    fn a_file_that_was_not_there_yet_is_noticed_when_it_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        write(&path, "durability = \"power\"\n");
        let watch = Watch::new(path.clone());
        write(&path, "[policies.late]\nfile = \"late.json\"\n");
        assert!(matches!(watch.look(), Changed::Broken(_)));
        assert!(matches!(watch.look(), Changed::No));
        let late = folder.path().join("late.json");
        write(&late, r#"{ "version": "1", "default": "#);
        assert!(matches!(watch.look(), Changed::Broken(_)), "half written");
        write(&late, r#"{ "version": "1", "default": "deny" }"#);
        assert!(matches!(watch.look(), Changed::Yes(_)));
        assert!(matches!(watch.look(), Changed::No));
    }
}

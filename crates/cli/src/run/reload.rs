//! Notices that the settings file, or a file it points to, was changed. The gate asks several times
//! a second, so a look costs a few `stat` calls and no reading.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use gateway::{Changed, ReadSettings};
use store::settings::Settings;

use super::builtin::with_profile;
use crate::context::{Context, load_settings_noting};

/// What tells one state of a file from another; none when it is not there.
type Look = Option<(u64, u64, i64, i64)>;

struct Watch {
    path: PathBuf,
    seen: Mutex<Vec<(PathBuf, Look)>>,
}

/// Watches the settings file that is in use, also while there is none yet. To be made before the
/// settings are read for use: what changes between the two is then noticed.
pub(super) fn reader(context: &Context) -> Result<ReadSettings> {
    let path = match context.settings_path()? {
        Some(path) => path,
        None => context.home_path()?.join("tollgate.toml"),
    };
    let watch = Watch::new(path);
    Ok(Box::new(move || watch.look()))
}

impl Watch {
    fn new(path: PathBuf) -> Watch {
        let (_, seen) = read(&path);
        Watch { path, seen: Mutex::new(seen) }
    }

    fn look(&self) -> Changed {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.iter().all(|(path, before)| look(path) == *before) {
            return Changed::No;
        }
        let settings;
        (settings, *seen) = read(&self.path);
        if seen.first().is_some_and(|(_, look)| look.is_none()) {
            // Editors take a file away and put it back; only a file that is there says something.
            return Changed::Broken(format!("`{}` has vanished", self.path.display()));
        }
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

fn look(path: &Path) -> Look {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_change_is_noticed_once_and_a_broken_file_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        let watch = Watch::new(path.clone());
        assert!(matches!(watch.look(), Changed::No));
        fs::write(&path, "durability = \"power\"\n").unwrap();
        assert!(matches!(watch.look(), Changed::Yes(_)));
        assert!(matches!(watch.look(), Changed::No));
        fs::write(&path, "durability = \"glass\"\n").unwrap();
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
        fs::write(&path, "durability = \"power\"\n").unwrap();
        let watch = Watch::new(path.clone());
        fs::write(&path, "[policies.late]\nfile = \"late.json\"\n").unwrap();
        assert!(matches!(watch.look(), Changed::Broken(_)));
        assert!(matches!(watch.look(), Changed::No));
        let late = folder.path().join("late.json");
        fs::write(&late, r#"{ "version": "1", "default": "#).unwrap();
        assert!(matches!(watch.look(), Changed::Broken(_)), "half written");
        fs::write(&late, r#"{ "version": "1", "default": "deny" }"#).unwrap();
        assert!(matches!(watch.look(), Changed::Yes(_)));
        assert!(matches!(watch.look(), Changed::No));
    }
}

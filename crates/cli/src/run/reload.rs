//! Notices that the settings file, or a file it points to, was changed. The gate asks several times
//! a second, so a look costs a few `stat` calls and no reading.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use gateway::{Changed, ReadSettings};
use store::settings::Settings;

use super::builtin::with_profile;
use crate::context::{Context, load_settings};

/// What tells one state of a file from another; none when it is not there.
type Look = Option<(u64, u64, i64, i64)>;

struct Watch {
    path: PathBuf,
    seen: Mutex<Vec<(PathBuf, Look)>>,
}

/// Watches the settings file that is in use, also while there is none yet.
pub(super) fn reader(context: &Context) -> Result<Option<ReadSettings>> {
    let path = match context.settings_path()? {
        Some(path) => path,
        None => context.home_path()?.join("tollgate.toml"),
    };
    let settings = context.settings()?;
    let seen = Mutex::new(looks(&path, Some(&settings)));
    let watch = Watch { path, seen };
    Ok(Some(Box::new(move || watch.look())))
}

impl Watch {
    fn look(&self) -> Changed {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.iter().all(|(path, before)| look(path) == *before) {
            return Changed::No;
        }
        // The looks are taken before reading: a change in between is then noticed next time.
        let before = looks(&self.path, None);
        if before.first().is_some_and(|(_, look)| look.is_none()) {
            *seen = before;
            // Editors take a file away and put it back; only a file that is there says something.
            return Changed::Broken(format!("`{}` has vanished", self.path.display()));
        }
        let set = |name: &str| std::env::var(name).ok();
        match load_settings(&self.path).map(|read| with_profile(read, &set)) {
            Ok(settings) => {
                *seen = looks(&self.path, Some(&settings));
                Changed::Yes(Box::new(settings))
            }
            Err(error) => {
                for (path, known) in seen.iter_mut() {
                    *known = look(path);
                }
                Changed::Broken(format!("{error:#}"))
            }
        }
    }
}

fn looks(path: &Path, settings: Option<&Settings>) -> Vec<(PathBuf, Look)> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = settings.into_iter().flat_map(|settings| &settings.files);
    let paths = std::iter::once(path.to_owned()).chain(beside.map(|file| folder.join(file)));
    paths.map(|path| (path.clone(), look(&path))).collect()
}

fn look(path: &Path) -> Look {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn watch(path: PathBuf) -> Watch {
        let seen = Mutex::new(looks(&path, None));
        Watch { path, seen }
    }

    #[test]
    fn a_change_is_noticed_once_and_a_broken_file_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        let watch = watch(path.clone());
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
}

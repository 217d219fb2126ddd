//! Takes the key of a home to another place. The new place is asked before `vault.key` is replaced, in
//! one step, and again before the old file goes, so that at every moment the key is where it is named.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::Vault;
use super::elsewhere::{Ask, AskError, Elsewhere};
use super::keyfile::{self, KeyError, KeyFile, io_error, key_text};
use crate::home::{Home, private};
use crate::random::Random;

impl Vault {
    /// The line of a key file, for whoever puts the key into another place.
    pub fn key_line(&self) -> Zeroizing<String> {
        key_text(self.master.expose())
    }

    /// Lets `vault.key` name another place, which must hand out this very key before and after.
    pub fn leave_to(
        &self,
        place: &Elsewhere,
        home: &Home,
        random: &Random,
        ask: Ask,
    ) -> Result<(), KeyError> {
        self.compare(place, ask)?;
        // Whoever took the key may not have flushed it, and the file goes for good.
        rustix::fs::sync();
        let path = home.vault_key();
        let fault = |act| io_error(act, &path);
        let aside = private::link_aside(&path, &random.name()?).map_err(fault("set aside"))?;
        let replaced = private::replace(&path, place.text().as_bytes(), &random.name()?)
            .map_err(fault("replace"));
        // Asked again, because a command that reads `vault.key` has handed the key out until now.
        if let Err(error) = replaced.and_then(|()| self.compare(place, ask)) {
            private::put(&aside, &path).map_err(fault("put back"))?;
            // A second name of what is in place already stays when it is put there.
            let _ = private::remove(&aside);
            return Err(error);
        }
        // The key has moved, whatever becomes of the blocks it was in.
        if let Err(e) = wipe(&aside) {
            tracing::warn!("`{}` still holds the key: {e}", aside.display());
        }
        Ok(())
    }

    fn compare(&self, place: &Elsewhere, ask: Ask) -> Result<(), KeyError> {
        if place.key(ask)? == self.master {
            return Ok(());
        }
        let program = place.command.name().to_owned();
        let source = AskError::AnotherKey { program, wanted: self.key_id() };
        Err(KeyError::Elsewhere { place: Box::new(place.clone()), source })
    }

    /// Writes the key into `vault.key`. The place it came from keeps it.
    pub fn keep_in_file(&self, home: &Home, random: &Random) -> Result<(), KeyError> {
        let path = home.vault_key();
        private::replace(&path, self.key_line().as_bytes(), &random.name()?)
            .map_err(io_error("write", &path))?;
        match keyfile::read(&path)? {
            Some(KeyFile::Key(key)) if key == self.master => Ok(()),
            _ => Err(KeyError::Damaged(path)),
        }
    }
}

/// Files beside `vault.key` that hold a key in clear: the owner's copies, and what a killed process
/// left behind.
pub fn copies(home: &Home) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.path()).into_iter().flatten().flatten();
    let beside = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vault.key") && *path != home.vault_key()
    });
    let mut found: Vec<PathBuf> =
        beside.filter(|path| matches!(keyfile::read(path), Ok(Some(KeyFile::Key(_))))).collect();
    found.sort();
    found
}

/// Removes a file and writes over what it held. One that has other names is the owner's copy.
fn wipe(path: &Path) -> io::Result<()> {
    const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = OpenOptions::new().write(true).custom_flags(NO_FOLLOW).open(path)?;
    private::remove(path)?;
    let found = file.metadata()?;
    if found.nlink() > 0 {
        return Ok(());
    }
    private::write_over(&mut file, found.len())
}

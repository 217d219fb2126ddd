//! Moves the key of a home. The new location is checked before `vault.key` is replaced atomically,
//! and again before the old file is removed, so that at every moment the key is where it is said to
//! be.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::Vault;
use super::external_key::{ExternalKey, KeyProgramError, RunProgram};
use super::key_file::{self, KeyError, KeyFile, io_error, key_text};
use crate::home::{Home, private};
use crate::random::Random;

impl Vault {
    /// The line of a key file, for storing the key in another location.
    pub fn key_line(&self) -> Zeroizing<String> {
        key_text(self.master.expose())
    }

    /// Makes `vault.key` refer to another location, which must provide this very key before and
    /// after.
    pub fn move_to(
        &self,
        external: &ExternalKey,
        home: &Home,
        random: &Random,
        ask: RunProgram,
    ) -> Result<(), KeyError> {
        self.compare(external, ask)?;
        // The other program may not have flushed it, and the file is removed for good.
        match platform::files::sync_all_disks() {
            Err(e) if e.kind() != io::ErrorKind::Unsupported => {
                return Err(io_error("flush the disks for", &home.vault_key())(e));
            }
            // The credential store of such a system flushes by itself; docs/guide/platforms.md says so.
            _ => {}
        }
        let path = home.vault_key();
        let fault = |act| io_error(act, &path);
        let old_file =
            private::link_aside(&path, &random.name()?).map_err(fault("keep a copy of"))?;
        let replaced = private::replace(&path, external.text().as_bytes(), &random.name()?)
            .map_err(fault("replace"));
        // Checked again, because a command that reads `vault.key` could provide the key until now.
        if let Err(error) = replaced.and_then(|()| self.compare(external, ask)) {
            private::put(&old_file, &path).map_err(fault("restore"))?;
            // A second name of the file already in place survives being replaced.
            let _ = private::remove(&old_file);
            return Err(error);
        }
        // The key has moved, whatever happens to its old blocks.
        if let Err(e) = wipe(&old_file) {
            tracing::warn!("`{}` still holds the key: {e}", old_file.display());
        }
        Ok(())
    }

    fn compare(&self, external: &ExternalKey, ask: RunProgram) -> Result<(), KeyError> {
        if external.key(ask)? == self.master {
            return Ok(());
        }
        let program = external.command.name().to_owned();
        let source = KeyProgramError::AnotherKey { program, wanted: self.key_id() };
        Err(KeyError::External { external: Box::new(external.clone()), source })
    }

    /// Writes the key into `vault.key`. The previous location keeps it.
    pub fn move_to_file(&self, home: &Home, random: &Random) -> Result<(), KeyError> {
        let path = home.vault_key();
        private::replace(&path, self.key_line().as_bytes(), &random.name()?)
            .map_err(io_error("write", &path))?;
        match key_file::read(&path)? {
            Some(KeyFile::Key(key)) if key == self.master => Ok(()),
            _ => Err(KeyError::Damaged(path)),
        }
    }
}

/// Files next to `vault.key` that contain a key in clear: the owner's copies, and leftovers of a
/// killed process.
pub fn copies(home: &Home) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.path()).into_iter().flatten().flatten();
    let candidates = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vault.key") && *path != home.vault_key()
    });
    let mut found: Vec<PathBuf> = candidates
        .filter(|path| matches!(key_file::read(path), Ok(Some(KeyFile::Key(_)))))
        .collect();
    found.sort();
    found
}

/// Removes and overwrites a file. One with other names is the owner's copy.
fn wipe(path: &Path) -> io::Result<()> {
    let mut file = platform::files::open_no_follow(OpenOptions::new().write(true), path)?;
    private::remove(path)?;
    if platform::files::names(&file)? > 0 {
        return Ok(());
    }
    let bytes = file.metadata()?.len();
    private::write_over(&mut file, bytes)
}

//! A file being written. It has a temporary name and gets its final name only when it is complete
//! and on disk, so that a kill never leaves an incomplete file under the final name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;

use platform::folder::Folder;

/// Prefix and suffix of temporary names.
const PREFIX: &str = ".tollgate-";
const SUFFIX: &str = ".part";
/// How many names are tried before giving up; a second is rarely needed.
const NAMES_MAX: usize = 1_000;

/// Whether to replace an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replace {
    Yes,
    No,
}

/// Locked while it exists, so that others can tell it from the leftover of a killed process.
pub(super) struct TempFile {
    folder: Folder,
    name: OsString,
    file: File,
    is_done: bool,
}

impl TempFile {
    pub(super) fn create(folder: &Folder) -> io::Result<TempFile> {
        let folder = folder.try_clone()?;
        for number in 0..NAMES_MAX {
            let name = OsString::from(format!("{PREFIX}{}-{number}{SUFFIX}", std::process::id()));
            let file = match folder.create_file(&name) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            };
            file.lock()?;
            // A concurrent clean-up may have taken it for a leftover before it was locked.
            if platform::files::names(&file)? > 0 {
                return Ok(TempFile { folder, name, file, is_done: false });
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are too many temporary files"))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its final name. `AlreadyExists` when another file appeared there. The name itself
    /// is on disk after [`Folder::sync`].
    pub(super) fn finish(mut self, name: &OsStr, replace: Replace) -> io::Result<()> {
        self.file.sync_all()?;
        match replace {
            Replace::Yes => self.folder.rename(&self.name, name)?,
            Replace::No => self.folder.rename_new(&self.name, name)?,
        }
        self.is_done = true;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

pub(super) fn is_temp_file(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes())
}

/// Removes leftovers of killed processes from a folder. One that cannot be removed does no harm.
pub(super) fn sweep(folder: &Folder) {
    for name in folder.names().unwrap_or_default() {
        if is_temp_file(name.as_encoded_bytes()) {
            let _ = remove_if_left(folder, &name);
        }
    }
}

fn remove_if_left(folder: &Folder, name: &OsStr) -> io::Result<()> {
    let file = folder.open_file(name)?;
    if file.metadata()?.is_file() && file.try_lock().is_ok() {
        folder.remove_file(name)?;
    }
    Ok(())
}

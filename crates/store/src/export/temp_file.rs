//! A file being written. It has a temporary name and gets its final name only when it is complete
//! and on disk, so that a kill never leaves an incomplete file under the final name.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

const FILE_MODE: u32 = 0o600;
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
    folder: OwnedFd,
    name: OsString,
    file: File,
    is_done: bool,
}

impl TempFile {
    pub(super) fn create(folder: &OwnedFd) -> io::Result<TempFile> {
        let folder = folder.try_clone()?;
        for number in 0..NAMES_MAX {
            let name = OsString::from(format!("{PREFIX}{}-{number}{SUFFIX}", std::process::id()));
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR;
            let mode = Mode::from_raw_mode(FILE_MODE);
            let file = match rustix::fs::openat(&folder, &name, flags | OFlags::CLOEXEC, mode) {
                Ok(file) => File::from(file),
                Err(Errno::EXIST) => continue,
                Err(e) => return Err(e.into()),
            };
            file.set_permissions(Permissions::from_mode(FILE_MODE))?;
            file.lock()?;
            // A concurrent clean-up may have taken it for a leftover before it was locked.
            if file.metadata()?.nlink() > 0 {
                return Ok(TempFile { folder, name, file, is_done: false });
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are too many temporary files"))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its final name. `AlreadyExists` when another file appeared there. The name itself
    /// is on disk after [`sync_folder`].
    pub(super) fn finish(mut self, name: &OsStr, replace: Replace) -> io::Result<()> {
        self.file.sync_all()?;
        match replace {
            Replace::Yes => rustix::fs::renameat(&self.folder, &self.name, &self.folder, name)?,
            Replace::No => self.rename_new(name)?,
        }
        self.is_done = true;
        Ok(())
    }

    fn rename_new(&self, name: &OsStr) -> io::Result<()> {
        let (folder, flags) = (self.folder.as_fd(), RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(folder, &self.name, folder, name, flags) {
            // The file system cannot do it; a hard link is as strict.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(folder, &self.name, folder, name, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(folder, &self.name, AtFlags::empty())?)
            }
            renamed => Ok(renamed?),
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Flushes the entries of a folder to disk.
pub(super) fn sync_folder(folder: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fsync(folder)?)
}

pub(super) fn is_temp_file(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes())
}

/// Removes leftovers of killed processes from a folder. One that cannot be removed does no harm.
pub(super) fn sweep(folder: &OwnedFd) {
    let Ok(entries) = Dir::read_from(folder.as_fd()) else { return };
    for entry in entries.flatten() {
        if is_temp_file(entry.file_name().to_bytes()) {
            let _ = remove_if_left(folder, OsStr::from_bytes(entry.file_name().to_bytes()));
        }
    }
}

fn remove_if_left(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() && file.try_lock().is_ok() {
        rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
    }
    Ok(())
}

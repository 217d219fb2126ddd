//! A file on its way. It is written under a name of its own, and takes the final name only when all
//! of it is on the disk: a file under its final name is complete, whatever was killed before.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

const FILE_MODE: u32 = 0o600;
/// Names of files on their way begin and end like this; nobody else's do.
const PREFIX: &str = ".tollgate-";
const SUFFIX: &str = ".part";
/// How many names are tried before giving up; a process rarely needs a second.
const NAMES_MAX: usize = 1_000;

/// Whether to put a file in place of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replace {
    Yes,
    No,
}

/// Locked for as long as it lives, so that others can tell it from one that a killed process left.
pub(super) struct Draft {
    folder: OwnedFd,
    name: OsString,
    file: File,
    is_done: bool,
}

impl Draft {
    pub(super) fn create(folder: &OwnedFd) -> io::Result<Draft> {
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
            // Someone who sweeps may have taken it for a left-over before it was locked.
            if file.metadata()?.nlink() > 0 {
                return Ok(Draft { folder, name, file, is_done: false });
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many files on their way lie there"))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file in place. `AlreadyExists` when something came to lie there in the meantime.
    /// The name itself is on the disk after [`settle`].
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
            // A drive that cannot do it; a second name is as strict.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(folder, &self.name, folder, name, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(folder, &self.name, AtFlags::empty())?)
            }
            renamed => Ok(renamed?),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Writes the names in a folder to the disk.
pub(super) fn settle(folder: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fsync(folder)?)
}

pub(super) fn is_draft(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes())
}

/// Removes what killed processes left in a folder. One that cannot be removed does no harm.
pub(super) fn sweep(folder: &OwnedFd) {
    let Ok(entries) = Dir::read_from(folder.as_fd()) else { return };
    for entry in entries.flatten() {
        if is_draft(entry.file_name().to_bytes()) {
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

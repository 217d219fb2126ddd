//! Linux and macOS: descriptors of folders and the system calls that start at one.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Kind, Links};

pub(super) type Handle = OwnedFd;

const FOLDER_MODE: u16 = 0o700;
const FILE_MODE: u16 = 0o600;
const FOLDER_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

pub(super) fn is_link_error(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::NOTDIR))
}

pub(super) fn open(path: &Path) -> io::Result<Handle> {
    Ok(rustix::fs::open(path, FOLDER_FLAGS, Mode::empty())?)
}

pub(super) fn open_folder(folder: &Handle, name: &OsStr, links: Links) -> io::Result<Handle> {
    Ok(match links {
        Links::Follow => rustix::fs::openat(folder, name, FOLDER_FLAGS, Mode::empty())?,
        Links::Refuse => open_beneath(folder, name, FOLDER_FLAGS | OFlags::NOFOLLOW)?,
    })
}

#[cfg(target_os = "linux")]
fn open_beneath(folder: &Handle, name: &OsStr, flags: OFlags) -> Result<Handle, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve) {
        // A kernel or sandbox without it. For one plain name at a time the older call is as strict.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(folder, name, flags, Mode::empty()),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(folder: &Handle, name: &OsStr, flags: OFlags) -> Result<Handle, Errno> {
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

pub(super) fn create_folder(folder: &Handle, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(FOLDER_MODE.into())) {
        Err(Errno::EXIST) => Ok(()),
        made => Ok(made?),
    }
}

pub(super) fn kind(folder: &Handle, name: &OsStr, links: Links) -> io::Result<Kind> {
    let flags = match links {
        Links::Follow => AtFlags::empty(),
        Links::Refuse => AtFlags::SYMLINK_NOFOLLOW,
    };
    let found = rustix::fs::statat(folder, name, flags)?;
    Ok(match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Kind::File { bytes: u64::try_from(found.st_size).unwrap_or(0) },
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    })
}

pub(super) fn create_file(folder: &Handle, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(FILE_MODE.into());
    let file = File::from(rustix::fs::openat(folder, name, flags, mode)?);
    file.set_permissions(Permissions::from_mode(FILE_MODE.into()))?;
    Ok(file)
}

pub(super) fn open_file(folder: &Handle, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
}

pub(super) fn remove_file(folder: &Handle, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
}

pub(super) fn rename(folder: &Handle, from: &OsStr, to: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::renameat(folder, from, folder, to)?)
}

pub(super) fn rename_new(folder: &Handle, from: &OsStr, to: &OsStr) -> io::Result<()> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // The file system cannot do it; a hard link is as strict.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            remove_file(folder, from)
        }
        renamed => Ok(renamed?),
    }
}

pub(super) fn names(folder: &Handle) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

pub(super) fn sync(folder: &Handle) -> io::Result<()> {
    Ok(rustix::fs::fsync(folder)?)
}

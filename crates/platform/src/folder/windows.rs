//! Windows: `cap-std` holds a handle of the folder and resolves names from it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use super::{Kind, Links};

pub(super) struct Handle {
    folder: Dir,
    /// Only for flushing: a handle that lists names cannot.
    path: PathBuf,
}

impl Handle {
    pub(super) fn try_clone(&self) -> io::Result<Handle> {
        Ok(Handle { folder: self.folder.try_clone()?, path: self.path.clone() })
    }
}

/// What Windows says about a link in the place of a folder (`ERROR_STOPPED_ON_SYMLINK`, `ERROR_DIRECTORY`).
const LINK_ERRORS: [i32; 2] = [681, 267];

pub(super) fn is_link_error(error: &io::Error) -> bool {
    let is_kind = matches!(error.kind(), io::ErrorKind::NotADirectory);
    is_kind || error.raw_os_error().is_some_and(|code| LINK_ERRORS.contains(&code))
}

pub(super) fn open(path: &Path) -> io::Result<Handle> {
    let folder = Dir::open_ambient_dir(path, ambient_authority())?;
    Ok(Handle { folder, path: std::path::absolute(path)? })
}

pub(super) fn open_folder(folder: &Handle, name: &OsStr, links: Links) -> io::Result<Handle> {
    let opened = match links {
        Links::Follow => folder.folder.open_dir(name)?,
        Links::Refuse => folder.folder.open_dir_nofollow(name)?,
    };
    Ok(Handle { folder: opened, path: folder.path.join(name) })
}

/// It inherits the access of the folder that it is created in.
pub(super) fn create_folder(folder: &Handle, name: &OsStr) -> io::Result<()> {
    match folder.folder.create_dir(name) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

pub(super) fn kind(folder: &Handle, name: &OsStr, links: Links) -> io::Result<Kind> {
    let found = match links {
        Links::Follow => folder.folder.metadata(name)?,
        Links::Refuse => folder.folder.symlink_metadata(name)?,
    };
    Ok(match found.file_type() {
        kind if kind.is_symlink() => Kind::Link,
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_file() => Kind::File { bytes: found.len() },
        _ => Kind::Other,
    })
}

pub(super) fn create_file(folder: &Handle, name: &OsStr) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).follow(FollowSymlinks::No);
    Ok(folder.folder.open_with(name, &options)?.into_std())
}

pub(super) fn open_file(folder: &Handle, name: &OsStr) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No);
    Ok(folder.folder.open_with(name, &options)?.into_std())
}

pub(super) fn remove_file(folder: &Handle, name: &OsStr) -> io::Result<()> {
    folder.folder.remove_file(name)
}

pub(super) fn rename(folder: &Handle, from: &OsStr, to: &OsStr) -> io::Result<()> {
    folder.folder.rename(from, &folder.folder, to)
}

/// A second name, then the first one removed: unlike a rename this never replaces.
pub(super) fn rename_new(folder: &Handle, from: &OsStr, to: &OsStr) -> io::Result<()> {
    folder.folder.hard_link(from, &folder.folder, to)?;
    folder.folder.remove_file(from)
}

pub(super) fn names(folder: &Handle) -> io::Result<Vec<OsString>> {
    folder.folder.entries()?.map(|entry| Ok(entry?.file_name())).collect()
}

pub(super) fn sync(folder: &Handle) -> io::Result<()> {
    crate::files::sync_folder(&folder.path)
}

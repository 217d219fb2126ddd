//! A folder that is held open, so that renames of it or above it cannot redirect what is done in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;

#[cfg_attr(unix, path = "folder/unix.rs")]
#[cfg_attr(windows, path = "folder/windows.rs")]
mod system;

/// An open folder. Names are single names, never paths.
pub struct Folder(system::Handle);

/// What has a name in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File { bytes: u64 },
    Folder,
    Link,
    Other,
}

/// Whether a link is followed or taken for what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Follow,
    /// A link in the place of a folder is an error, of which [`is_link_error`] is true.
    Refuse,
}

/// Whether an open failed because there was a link, or something that is no folder, in its place.
pub fn is_link_error(error: &io::Error) -> bool {
    system::is_link_error(error)
}

impl Folder {
    /// Opens a folder by its path, following links.
    pub fn open(path: &Path) -> io::Result<Folder> {
        system::open(path).map(Folder)
    }

    pub fn try_clone(&self) -> io::Result<Folder> {
        self.0.try_clone().map(Folder)
    }

    /// Opens a folder in this one.
    pub fn open_folder(&self, name: &OsStr, links: Links) -> io::Result<Folder> {
        system::open_folder(&self.0, name, links).map(Folder)
    }

    /// Creates a folder in this one that only its owner may use; an existing one is fine.
    pub fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        system::create_folder(&self.0, name)
    }

    /// What has this name.
    pub fn kind(&self, name: &OsStr, links: Links) -> io::Result<Kind> {
        system::kind(&self.0, name, links)
    }

    /// Creates a file that only its owner may use, open for reading and writing; fails if something exists.
    pub fn create_file(&self, name: &OsStr) -> io::Result<File> {
        system::create_file(&self.0, name)
    }

    /// Opens a file for reading, never a link to one, without waiting for a pipe.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        system::open_file(&self.0, name)
    }

    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        system::remove_file(&self.0, name)
    }

    /// Renames a file, over another one if there is one.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        system::rename(&self.0, from, to)
    }

    /// Renames a file. `AlreadyExists` if something has the new name.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        system::rename_new(&self.0, from, to)
    }

    /// The names in the folder, without `.` and `..`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        system::names(&self.0)
    }

    /// Flushes the names in the folder to disk.
    pub fn sync(&self) -> io::Result<()> {
        system::sync(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_that_was_moved_is_still_the_one_written_to() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let root = Folder::open(root.path()).unwrap();
        let name = OsStr::new;
        root.create_folder(name("a")).unwrap();
        root.create_folder(name("a")).unwrap();
        let a = root.open_folder(name("a"), Links::Refuse).unwrap();
        fs::rename(at("a"), at("b")).unwrap();
        fs::create_dir(at("a")).unwrap();
        a.create_file(name("draft")).unwrap();
        a.rename_new(name("draft"), name("file")).unwrap();
        a.sync().unwrap();
        assert!(at("b/file").exists() && !at("a/file").exists());
        assert_eq!(a.names().unwrap(), ["file"]);
        assert_eq!(a.kind(name("file"), Links::Refuse).unwrap(), Kind::File { bytes: 0 });
    }

    #[test]
    fn a_name_that_is_taken_is_not_replaced_unless_wanted() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let name = OsStr::new;
        for file in ["a", "b"] {
            fs::write(root.path().join(file), file).unwrap();
        }
        let taken = folder.rename_new(name("a"), name("b")).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(folder.create_file(name("a")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        folder.rename(name("a"), name("b")).unwrap();
        assert_eq!(fs::read(root.path().join("b")).unwrap(), b"a");
        folder.remove_file(name("b")).unwrap();
        let none = folder.kind(name("b"), Links::Follow).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}

//! Files and folders that only their owner may use: modes on Linux and macOS, access control lists on Windows.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

#[cfg_attr(unix, path = "private/unix.rs")]
#[cfg_attr(windows, path = "private/windows.rs")]
mod system;

#[cfg(any(windows, test))]
mod sddl;

/// A user, as the system writes it: a number on Linux and macOS, a security identifier on Windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User(String);

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The user that this process acts as.
pub fn this_user() -> io::Result<User> {
    system::this_user()
}

/// Whether this process may do what no other user may, such as write into everyone's files.
pub fn is_administrator() -> bool {
    system::is_administrator()
}

/// Whom a file or a link belongs to, as `found` by `symlink_metadata`.
pub fn owner(path: &Path, found: &Metadata) -> io::Result<User> {
    system::owner(path, found)
}

/// Who may use a file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    words: String,
    others: Others,
    /// Exactly what [`restrict`] would set.
    is_ours: bool,
    too_open_for_a_key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Nothing,
    Some,
    /// Any user may change it.
    Write,
}

impl Access {
    pub fn is_open_to_others(&self) -> bool {
        self.others != Others::Nothing
    }

    pub fn is_writable_by_all(&self) -> bool {
        self.others == Others::Write
    }

    /// Others can read it, or others or a group can change it. A group may read, because services share keys that way.
    pub fn is_too_open_for_a_key(&self) -> bool {
        self.too_open_for_a_key
    }

    /// Exactly the access of a file or folder that was created private.
    pub fn is_as_created(&self) -> bool {
        self.is_ours
    }
}

/// `mode 0644`, or what the access control list says.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// Who may use what is at `path`, as `found` by `symlink_metadata` or `metadata`.
pub fn access(path: &Path, found: &Metadata) -> io::Result<Access> {
    system::access(path, found)
}

/// Whether users other than the owner may put another folder in place of the one in this folder.
pub fn is_replaceable_by_all(folder: &Path) -> io::Result<bool> {
    system::is_replaceable_by_all(folder)
}

/// Opens a folder, never a link to one, so that what is checked is what is changed.
pub fn open_folder(path: &Path) -> io::Result<File> {
    system::open_folder(path)
}

/// Takes the access to an open folder from everyone but its owner; returns the access that is left.
pub fn restrict_folder(folder: &File, path: &Path) -> io::Result<Access> {
    system::restrict_folder(folder, path)
}

/// Takes the access to what is at `path` from everyone but its owner. `found` says whether it is a folder.
pub fn restrict(path: &Path, found: &Metadata) -> io::Result<Access> {
    system::restrict(path, found)
}

/// Creates a folder that only its owner may use, whatever the umask; fails if something exists.
pub fn create_folder(path: &Path) -> io::Result<()> {
    system::create_folder(path)
}

/// Creates a folder and the missing ones above it; existing ones stay as they are.
pub fn create_folders(path: &Path) -> io::Result<()> {
    system::create_folders(path)
}

/// Creates an empty file that only its owner may use, whatever the umask; fails if something exists, links included.
pub fn create_file(path: &Path) -> io::Result<File> {
    system::create_file(path)
}

/// The same for a file that its owner may run.
pub fn program_if_created(options: &mut OpenOptions) -> &mut OpenOptions {
    system::program_if_created(options)
}

/// A file that these options create gets no access for others.
pub fn if_created(options: &mut OpenOptions) -> &mut OpenOptions {
    system::if_created(options)
}

/// The permission bits of a file as `chmod` writes them. Windows has the owner's only: 0600, or 0400 for a read-only
/// file.
pub fn bits(found: &Metadata) -> u32 {
    system::bits(found)
}

/// Sets the permission bits of an open file; on Windows, whether it is read-only.
pub fn set_bits(file: &File, bits: u32) -> io::Result<()> {
    system::set_bits(file, bits)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    #[test]
    fn private_files_are_readable_by_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, file) = (folder.path().join("a/b"), folder.path().join("a/b/file"));
        create_folders(&inner).unwrap();
        create_file(&file).unwrap();
        for path in [&inner, &file] {
            let found = fs::symlink_metadata(path).unwrap();
            let access = access(path, &found).unwrap();
            assert!(access.is_as_created() && !access.is_open_to_others(), "{access}");
            assert_eq!(owner(path, &found).unwrap(), this_user().unwrap());
        }
        assert_eq!(create_file(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(create_folder(&inner).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}

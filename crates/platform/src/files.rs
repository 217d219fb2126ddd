//! Files: reading and writing at an offset, telling a file from another of its name, and opening one without
//! following a link or waiting for a pipe.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::path::Path;

#[cfg_attr(unix, path = "files/unix.rs")]
#[cfg_attr(windows, path = "files/windows.rs")]
mod system;

pub use system::NamedFile;

/// Reads and writes at an offset. Where the system moves the cursor of the file as well, callers must not rely on
/// the cursor.
pub trait AtOffset {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

impl AtOffset for File {
    #[inline]
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        system::read_at(self, bytes, offset)
    }

    #[inline]
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        system::read_exact_at(self, bytes, offset)
    }

    #[inline]
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        system::write_all_at(self, bytes, offset)
    }
}

/// Distinguishes a file from another one, whatever their names. Folders have one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    volume: u64,
    file: u64,
}

impl FileId {
    /// The file that is open, even if another one has its name by now.
    pub fn of(file: &File) -> io::Result<FileId> {
        system::file_id(file)
    }

    /// The file of this name now. Follows links.
    pub fn of_path(path: &Path) -> io::Result<FileId> {
        system::file_id_of_path(path)
    }
}

/// A file as its name leads to it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: FileId,
    pub bytes: u64,
}

/// Changes whenever the content of a file changes, or another file takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    id: FileId,
    changed_s: i64,
    changed_ns: i64,
    bytes: u64,
}

impl FileVersion {
    /// Of the file itself, or of the link itself. None if there is none.
    pub fn of(path: &Path) -> Option<FileVersion> {
        system::version(path, Links::Themselves).ok()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of the file that links lead to.
    pub fn of_target(path: &Path) -> Option<FileVersion> {
        system::version(path, Links::Followed).ok()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Followed,
    Themselves,
}

/// How many names an open file has; 0 once it was removed.
pub fn names(file: &File) -> io::Result<u64> {
    system::names(file)
}

/// Opens a file. A link in its place is an error.
pub fn open_no_follow(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    system::open_no_follow(options, path)
}

/// The same, and a pipe or a device in its place is not waited for.
pub fn open_no_follow_nor_wait(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    system::open_no_follow_nor_wait(options, path)
}

/// Opens whatever has this name, following links, without waiting for a pipe and without acquiring a terminal.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    system::open_without_waiting(path)
}

pub fn is_pipe(kind: FileType) -> bool {
    system::is_pipe(kind)
}

/// Creates a symbolic link to a folder. Windows allows it to developers and administrators.
pub fn link_folder(target: &Path, link: &Path) -> io::Result<()> {
    system::link_folder(target, link)
}

/// Flushes the names in a folder to disk.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    system::sync_folder(folder)
}

/// Flushes what other programs wrote. `Unsupported` where only an administrator may.
pub fn sync_all_disks() -> io::Result<()> {
    system::sync_all_disks()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    #[test]
    fn a_replaced_file_of_the_same_name_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), "first").unwrap();
        let file = File::open(at("a")).unwrap();
        let named = NamedFile::new(&at("a")).unwrap();
        let version = FileVersion::of(&at("a"));
        assert_eq!(FileId::of(&file).unwrap(), FileId::of_path(&at("a")).unwrap());
        assert_eq!(named.find().unwrap(), Found { id: FileId::of(&file).unwrap(), bytes: 5 });
        assert_eq!(FileVersion::of(&at("a")), version);
        assert_eq!(names(&file).unwrap(), 1);
        fs::write(at("b"), "other").unwrap();
        fs::rename(at("b"), at("a")).unwrap();
        assert_ne!(named.find().unwrap().id, FileId::of(&file).unwrap());
        assert_ne!(FileVersion::of(&at("a")), version);
        assert_eq!(names(&file).unwrap(), 0);
        fs::remove_file(at("a")).unwrap();
        assert_eq!(named.find().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(FileVersion::of(&at("a")), None);
    }

    #[test]
    fn bytes_are_read_and_written_at_an_offset() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "0123456789").unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        file.write_all_at(b"ab", 4).unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 3).unwrap();
        assert_eq!(&bytes, b"3ab6");
        assert_eq!(file.read_at(&mut bytes, 9).unwrap(), 1);
        let past_the_end = file.read_exact_at(&mut bytes, 8).unwrap_err();
        assert_eq!(past_the_end.kind(), io::ErrorKind::UnexpectedEof);
        sync_folder(folder.path()).unwrap();
    }
}

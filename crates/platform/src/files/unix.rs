//! Linux and macOS: system calls with an offset, inodes, and flags of `open`.

use std::ffi::CString;
use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use super::{FileId, FileVersion, Found, Links};

const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();
const NO_FOLLOW_NOR_WAIT: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
const NO_WAIT_NOR_TERMINAL: i32 = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();

#[inline]
pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(bytes, offset)
}

#[inline]
pub(super) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

#[inline]
pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

pub(super) fn file_id(file: &File) -> io::Result<FileId> {
    let found = file.metadata()?;
    Ok(FileId { volume: found.dev(), file: found.ino() })
}

pub(super) fn file_id_of_path(path: &Path) -> io::Result<FileId> {
    let found = std::fs::metadata(path)?;
    Ok(FileId { volume: found.dev(), file: found.ino() })
}

pub(super) fn version(path: &Path, links: Links) -> io::Result<FileVersion> {
    let found = match links {
        Links::Followed => std::fs::metadata(path)?,
        Links::Themselves => std::fs::symlink_metadata(path)?,
    };
    Ok(FileVersion {
        id: FileId { volume: found.dev(), file: found.ino() },
        changed_s: found.ctime(),
        changed_ns: found.ctime_nsec(),
        bytes: found.len(),
    })
}

pub(super) fn names(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.nlink())
}

/// A name that is looked up often. It is kept as the system calls want it.
#[derive(Debug)]
pub struct NamedFile {
    path: CString,
}

impl NamedFile {
    pub fn new(path: &Path) -> io::Result<NamedFile> {
        Ok(NamedFile { path: CString::new(path.as_os_str().as_bytes())? })
    }

    /// The file that has this name now. Follows links.
    #[inline]
    pub fn find(&self) -> io::Result<Found> {
        let found = rustix::fs::stat(&*self.path)?;
        let id = FileId { volume: device(&found), file: found.st_ino };
        Ok(Found { id, bytes: u64::try_from(found.st_size).unwrap_or(0) })
    }
}

#[cfg(target_os = "linux")]
fn device(found: &rustix::fs::Stat) -> u64 {
    found.st_dev
}

/// Signed on macOS; `MetadataExt` extends the sign as well.
#[cfg(target_os = "macos")]
fn device(found: &rustix::fs::Stat) -> u64 {
    i64::from(found.st_dev).cast_unsigned()
}

pub(super) fn open_no_follow(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(NO_FOLLOW).open(path)
}

pub(super) fn open_no_follow_nor_wait(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(NO_FOLLOW_NOR_WAIT).open(path)
}

pub(super) fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(NO_WAIT_NOR_TERMINAL).open(path)
}

pub(super) fn is_pipe(kind: FileType) -> bool {
    kind.is_fifo()
}

pub(super) fn link_folder(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[allow(clippy::unnecessary_wraps, reason = "another system refuses it")]
pub(super) fn sync_all_disks() -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}

//! Windows: handles instead of inodes. Reading and writing at an offset moves the cursor.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use winapi_util::file::information;

use super::{FileId, FileVersion, Found, Links};

/// `FILE_FLAG_OPEN_REPARSE_POINT`: opens a link itself instead of what it leads to.
const LINK_ITSELF: u32 = 0x0020_0000;
/// `FILE_FLAG_BACKUP_SEMANTICS`: without it no folder can be opened.
const FOLDERS_TOO: u32 = 0x0200_0000;
/// `FILE_WRITE_ATTRIBUTES | SYNCHRONIZE | FILE_ADD_FILE`: what flushing a folder needs.
const FLUSH_A_FOLDER: u32 = 0x0000_0100 | 0x0010_0000 | 0x0000_0002;
/// `FILE_READ_ATTRIBUTES`: enough to look at a file, even one that is locked.
const LOOK_ONLY: u32 = 0x0000_0080;

pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    match file.seek_read(bytes, offset) {
        // Windows fails at the end of a file, where other systems read nothing.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

pub(super) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match read_at(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes = bytes.get_mut(read..).unwrap_or_default();
                offset += read as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

pub(super) fn file_id(file: &File) -> io::Result<FileId> {
    let found = information(file)?;
    Ok(FileId { volume: found.volume_serial_number(), file: found.file_index() })
}

pub(super) fn file_id_of_path(path: &Path) -> io::Result<FileId> {
    file_id(&look(path, Links::Followed)?)
}

pub(super) fn version(path: &Path, links: Links) -> io::Result<FileVersion> {
    const TICKS_PER_S: u64 = 10_000_000;
    let file = look(path, links)?;
    let ticks = file.metadata()?.last_write_time();
    Ok(FileVersion {
        id: file_id(&file)?,
        changed_s: i64::try_from(ticks / TICKS_PER_S).unwrap_or(i64::MAX),
        changed_ns: i64::try_from(ticks % TICKS_PER_S).unwrap_or(0) * 100,
        bytes: file.metadata()?.len(),
    })
}

pub(super) fn names(file: &File) -> io::Result<u64> {
    Ok(information(file)?.number_of_links())
}

/// A name that is looked up often.
#[derive(Debug)]
pub struct NamedFile {
    path: PathBuf,
}

impl NamedFile {
    #[allow(clippy::unnecessary_wraps, reason = "another system must convert the path")]
    pub fn new(path: &Path) -> io::Result<NamedFile> {
        Ok(NamedFile { path: path.to_owned() })
    }

    /// The file that has this name now. Follows links.
    pub fn find(&self) -> io::Result<Found> {
        let found = information(&look(&self.path, Links::Followed)?)?;
        let id = FileId { volume: found.volume_serial_number(), file: found.file_index() };
        Ok(Found { id, bytes: found.file_size() })
    }
}

/// Opens a file or folder to look at it, not at its content.
fn look(path: &Path, links: Links) -> io::Result<File> {
    let flags = match links {
        Links::Followed => FOLDERS_TOO,
        Links::Themselves => FOLDERS_TOO | LINK_ITSELF,
    };
    OpenOptions::new().access_mode(LOOK_ONLY).custom_flags(flags).open(path)
}

pub(super) fn open_no_follow(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(LINK_ITSELF).open(path)?;
    if file.metadata()?.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link"));
    }
    Ok(file)
}

/// Named pipes and devices have names of their own here, never one in a folder.
pub(super) fn open_no_follow_nor_wait(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_no_follow(options, path)
}

/// Opens folders too, so that the caller can say what it is.
pub(super) fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(FOLDERS_TOO).open(path)
}

pub(super) fn is_pipe(_kind: FileType) -> bool {
    // Pipes have names of their own, `\\.\pipe\…`, and no file type in a folder.
    false
}

pub(super) fn link_folder(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_dir(target, link)
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    OpenOptions::new()
        .access_mode(FLUSH_A_FOLDER)
        .custom_flags(FOLDERS_TOO)
        .open(folder)?
        .sync_all()
}

pub(super) fn sync_all_disks() -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "only an administrator may flush whole disks on Windows",
    ))
}

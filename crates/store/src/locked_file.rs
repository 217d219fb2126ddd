//! A file with sealed secrets that only the holder of its lock replaces or removes. Accounts and logins are such
//! files: in a folder of the home, or on the store that replicas share.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::home::private;
use crate::registry::{SharedFolder, SharedLock};

/// A larger file is not one of ours.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// What failed at which file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} `{}`: {source}", .path.display())]
pub struct FileError {
    act: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// The file is not text.
    pub(crate) fn is_invalid(&self) -> bool {
        self.source.kind() == io::ErrorKind::InvalidData
    }
}

pub(crate) fn io_error(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError { act, path, source }
}

/// Changes whenever a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion(Version);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    OfFile(platform::files::FileVersion),
    OfRow(i64),
}

/// Where such files are.
#[derive(Clone, Debug)]
pub(crate) enum Folder {
    Home(PathBuf),
    Shared(SharedFolder),
}

/// The exclusive right to change a file. It is released on drop and when the process dies, on the store a while
/// later.
#[derive(Debug)]
pub(crate) enum FolderLock {
    Home(LockedFile),
    Shared(SharedLock),
}

impl Folder {
    pub(crate) fn make(&self) -> Result<(), FileError> {
        match self {
            Folder::Home(folder) => make_folder(folder),
            Folder::Shared(_) => Ok(()),
        }
    }

    /// The text of a file; none if there is no such file.
    pub(crate) fn read(&self, file: &str) -> Result<Option<String>, FileError> {
        match self {
            Folder::Home(folder) => read(&folder.join(file)),
            Folder::Shared(folder) => folder.read(file)?.map(|bytes| text(file, bytes)).transpose(),
        }
    }

    /// The same for the holder of its lock, to whom another replica's change must not be hidden.
    pub(crate) fn read_locked(&self, file: &str) -> Result<Option<String>, FileError> {
        match self {
            Folder::Home(_) => self.read(file),
            Folder::Shared(folder) => {
                folder.read_newest(file)?.map(|bytes| text(file, bytes)).transpose()
            }
        }
    }

    /// The names of the `.json` files for which `fits` is true.
    pub(crate) fn names(&self, fits: fn(&str) -> bool) -> Result<Vec<String>, FileError> {
        match self {
            Folder::Home(folder) => names(folder, fits),
            Folder::Shared(folder) => {
                let names = folder.names()?;
                let names = names.iter().filter_map(|name| name.strip_suffix(".json"));
                Ok(names.filter(|name| fits(name)).map(str::to_owned).collect())
            }
        }
    }

    /// Copies the `.json` files to another place. Returns their number.
    pub(crate) fn copy_to(
        &self,
        target: &Folder,
        fits: fn(&str) -> bool,
        unique: &str,
    ) -> Result<usize, FileError> {
        target.make()?;
        let mut count = 0;
        for name in self.names(fits)? {
            let file = format!("{name}.json");
            let Some(text) = self.read(&file)? else { continue };
            let Some(lock) = target.try_lock(&file)? else {
                let busy = io::Error::from(io::ErrorKind::ResourceBusy);
                return Err(io_error("lock", Path::new(&file))(busy));
            };
            lock.replace(&text, unique)?;
            count += 1;
        }
        Ok(count)
    }

    pub(crate) fn version(&self, file: &str) -> Option<FileVersion> {
        let version = match self {
            Folder::Home(folder) => {
                Version::OfFile(platform::files::FileVersion::of(&folder.join(file))?)
            }
            Folder::Shared(folder) => Version::OfRow(folder.version(file)?),
        };
        Some(FileVersion(version))
    }

    /// Locks a file, if its lock is free.
    pub(crate) fn try_lock(&self, file: &str) -> Result<Option<FolderLock>, FileError> {
        match self {
            Folder::Home(folder) => {
                Ok(LockedFile::attempt(folder.join(file))?.map(FolderLock::Home))
            }
            Folder::Shared(folder) => Ok(folder.try_lock(file)?.map(FolderLock::Shared)),
        }
    }
}

impl FolderLock {
    /// Replaces the file; the text is on disk when this returns.
    pub(crate) fn replace(&self, text: &str, unique: &str) -> Result<(), FileError> {
        match self {
            FolderLock::Home(file) => file.replace(text, unique),
            FolderLock::Shared(file) => file.replace(text.as_bytes()),
        }
    }

    /// Removes the file. False if there is none.
    pub(crate) fn wipe(&self) -> Result<bool, FileError> {
        match self {
            FolderLock::Home(file) => file.wipe(),
            FolderLock::Shared(file) => file.remove(),
        }
    }
}

fn text(file: &str, bytes: Vec<u8>) -> Result<String, FileError> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidData);
    String::from_utf8(bytes).map_err(invalid).map_err(io_error("read", Path::new(file)))
}

/// An exclusively locked file. The lock is released on drop and when the process dies. The lock file is never
/// removed: two processes that lock two files of one name would not exclude each other.
#[derive(Debug)]
pub(crate) struct LockedFile {
    path: PathBuf,
    _lock: File,
}

impl LockedFile {
    /// Locks `path` by the lock file next to it, if the lock is free.
    pub(crate) fn attempt(path: PathBuf) -> Result<Option<LockedFile>, FileError> {
        let lock_path = path.with_extension("lock");
        let opened = private::ensure(&lock_path)
            .and_then(|()| OpenOptions::new().write(true).open(&lock_path));
        let lock = opened.map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(LockedFile { path, _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(io_error("lock", &lock_path)(e)),
        }
    }

    /// Replaces the file; the text is on disk when this returns.
    pub(crate) fn replace(&self, text: &str, unique: &str) -> Result<(), FileError> {
        self.remove_drafts();
        private::replace(&self.path, text.as_bytes(), unique).map_err(io_error("write", &self.path))
    }

    /// Removes the file, overwriting it first so that no copy remains on the disk. False if there is none.
    pub(crate) fn wipe(&self) -> Result<bool, FileError> {
        self.remove_drafts();
        match overwrite(&self.path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(io_error("overwrite", &self.path)(e)),
        }
        private::remove(&self.path).map_err(io_error("remove", &self.path))?;
        Ok(true)
    }

    /// Removes drafts of a killed process. No other process writes one while we hold the lock.
    fn remove_drafts(&self) {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return;
        };
        let Ok(entries) = fs::read_dir(folder) else { return };
        let start = format!("{}.", name.to_string_lossy());
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&start) {
                // What cannot be removed now is retried at the next change.
                let _ = overwrite(&entry.path()).and_then(|()| fs::remove_file(entry.path()));
            }
        }
    }
}

pub(crate) fn overwrite(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let bytes = file.metadata()?.len();
    private::write_over(&mut file, bytes)
}

pub(crate) fn make_folder(folder: &Path) -> Result<(), FileError> {
    match private::make_folder(folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(io_error("create", folder)(e)),
        _ => Ok(()),
    }
}

/// The text of a file; none if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    match crate::files::read_text(path, FILE_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io_error("read", path)(e)),
    }
}

/// The names of the `.json` files in a folder for which `fits` is true; none if there is no such folder.
pub(crate) fn names(folder: &Path, fits: fn(&str) -> bool) -> Result<Vec<String>, FileError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io_error("read", folder)(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(io_error("read", folder))?.file_name();
        let name = name.to_string_lossy();
        names.extend(name.strip_suffix(".json").filter(|name| fits(name)).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

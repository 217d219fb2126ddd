//! The lock on a folder that several processes use. It ends with the process that holds it. A folder that was
//! replaced is a different one, and so is its lock. (For a lock on a file, `std::fs::File::lock` does.)

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::files::FileId;
use crate::private;

#[cfg_attr(unix, path = "lock/unix.rs")]
#[cfg_attr(windows, path = "lock/windows.rs")]
mod system;

#[derive(Debug)]
pub struct FolderLock {
    file: File,
    path: PathBuf,
    id: FileId,
}

impl FolderLock {
    /// Opens the lock without taking it. `NotFound` if there is no such folder.
    pub fn open(folder: &Path) -> io::Result<FolderLock> {
        let (file, path) = system::open(folder)?;
        let id = FileId::of(&file)?;
        Ok(FolderLock { file, path, id })
    }

    /// Whether the folder of this name is still the one whose lock this is.
    pub fn is_current(&self) -> bool {
        FileId::of_path(&self.path).is_ok_and(|now| now == self.id)
    }

    #[inline]
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    #[inline]
    pub fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// A file that is there while its process is alive. Others can read it and see that it is locked.
pub struct AliveFile {
    path: PathBuf,
    /// The lock lives as long as the open file.
    _locked: File,
}

impl AliveFile {
    /// Writes a private file. It gets its name only when it is complete and locked: others remove unlocked ones.
    pub fn create(path: &Path, content: &[u8]) -> io::Result<AliveFile> {
        let draft = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        let mut file = private::if_created(&mut options).open(&draft)?;
        let locked = system::lock_alive(&file, path)?;
        file.write_all(content)?;
        fs::rename(&draft, path)?;
        Ok(AliveFile { path: path.to_owned(), _locked: locked.unwrap_or(file) })
    }

    /// The content of such a file if its process is alive.
    pub fn read(path: &Path, bytes_max: u64) -> Alive {
        let Ok(file) = File::open(path) else { return Alive::Unknown };
        if system::is_unlocked(&file, path) {
            return Alive::No;
        }
        let mut bytes = Vec::new();
        match file.take(bytes_max).read_to_end(&mut bytes) {
            Ok(_) => Alive::Yes(bytes),
            Err(_) => Alive::Unknown,
        }
    }

    /// Removes the file of a dead process.
    pub fn remove(path: &Path) {
        let _ = fs::remove_file(path);
        system::remove_lock(path);
    }
}

impl Drop for AliveFile {
    fn drop(&mut self) {
        AliveFile::remove(&self.path);
    }
}

/// What the file of a process says.
pub enum Alive {
    Yes(Vec<u8>),
    No,
    /// It cannot be read.
    Unknown,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_file_of_a_process_is_read_while_it_is_locked() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("1.json");
        assert!(matches!(AliveFile::read(&path, 9), Alive::Unknown));
        let file = AliveFile::create(&path, b"words").unwrap();
        assert!(matches!(AliveFile::read(&path, 9), Alive::Yes(text) if text == b"words"));
        drop(file);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        fs::write(&path, "left").unwrap();
        assert!(matches!(AliveFile::read(&path, 9), Alive::No));
    }

    #[test]
    fn one_holder_at_a_time_and_a_replaced_folder_is_another() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        assert_eq!(FolderLock::open(&folder).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&folder).unwrap();
        let (one, two) = (FolderLock::open(&folder).unwrap(), FolderLock::open(&folder).unwrap());
        one.try_lock().unwrap();
        assert!(matches!(two.try_lock(), Err(TryLockError::WouldBlock)));
        one.unlock().unwrap();
        two.try_lock().unwrap();
        assert!(one.is_current());
        fs::rename(&folder, root.path().join("away")).unwrap();
        assert!(!one.is_current());
        fs::create_dir(&folder).unwrap();
        assert!(!one.is_current());
    }
}

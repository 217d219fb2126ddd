//! The lock on a folder that several processes use. It ends with the process that holds it. A folder that was
//! replaced is a different one, and so is its lock. (For a lock on a file, `std::fs::File::lock` does.)

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::files::FileId;

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

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

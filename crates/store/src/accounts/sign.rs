//! A sign beside an account that every process of the home sees: nobody asks the service before a
//! given time. The time stands in the file's own stamp, so that a look costs no reading.

use std::fs::{File, FileTimes, OpenOptions};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{AccountsError, io_error};
use crate::home::private;

#[derive(Clone, Debug)]
pub struct Sign {
    path: PathBuf,
}

impl Sign {
    pub(super) fn at(path: PathBuf) -> Sign {
        Sign { path }
    }

    /// The time on the sign; nothing when there is none.
    pub fn until_us(&self) -> Option<i64> {
        let stamp = std::fs::symlink_metadata(&self.path).ok()?.modified().ok()?;
        i64::try_from(stamp.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
    }

    /// Writes a time on it. One that is later already stays.
    pub fn put_up(&self, until_us: i64) -> Result<(), AccountsError> {
        let known_us = self.until_us();
        let failed = |source| io_error("mark", &self.path)(source);
        private::ensure(&self.path).map_err(failed)?;
        if known_us.is_some_and(|known_us| known_us >= until_us) {
            return Ok(());
        }
        let until: SystemTime = UNIX_EPOCH + Duration::from_micros(until_us.unsigned_abs());
        let file: File = OpenOptions::new().write(true).open(&self.path).map_err(failed)?;
        file.set_times(FileTimes::new().set_modified(until)).map_err(failed)
    }
}

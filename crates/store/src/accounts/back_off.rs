//! A back-off marker per account, shared by all processes of the home: no process calls the service
//! before the given time. The time is the file's mtime, so that checking it reads no content.

use std::fs::{File, FileTimes, OpenOptions};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::AccountsError;
use crate::home::private;
use crate::locked_file::io_error;

#[derive(Clone, Debug)]
pub struct BackOffMarker {
    path: PathBuf,
}

impl BackOffMarker {
    pub(super) fn at(path: PathBuf) -> BackOffMarker {
        BackOffMarker { path }
    }

    /// The time of the marker; none if there is no marker.
    pub fn until_us(&self) -> Option<i64> {
        let stamp = std::fs::symlink_metadata(&self.path).ok()?.modified().ok()?;
        i64::try_from(stamp.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
    }

    /// Sets the time, unless a later one is set.
    pub fn set(&self, until_us: i64) -> Result<(), AccountsError> {
        let known_us = self.until_us();
        let failed = |source| io_error("mark", &self.path)(source);
        private::ensure(&self.path).map_err(failed)?;
        if known_us.is_some_and(|known_us| known_us >= until_us) {
            return Ok(());
        }
        let until: SystemTime = UNIX_EPOCH + Duration::from_micros(until_us.unsigned_abs());
        let file: File = OpenOptions::new().write(true).open(&self.path).map_err(failed)?;
        Ok(file.set_times(FileTimes::new().set_modified(until)).map_err(failed)?)
    }
}

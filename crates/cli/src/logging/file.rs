//! A private log file with rotation: a full file is renamed, and the oldest is deleted. Errors here never
//! stop the work that is logged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

const FILE_BYTES_MAX: u64 = 1_000_000;
const ROTATED_MAX: u32 = 5;

/// Writes each line to stderr and, where there is one, to a file.
#[derive(Clone)]
pub(super) struct Both {
    file: Option<Arc<Mutex<LogFile>>>,
}

impl Both {
    pub(super) fn new(path: Option<PathBuf>) -> Both {
        let file = path.map(|path| Arc::new(Mutex::new(LogFile { path, open: None })));
        Both { file }
    }
}

impl<'a> MakeWriter<'a> for Both {
    type Writer = Both;

    fn make_writer(&'a self) -> Both {
        self.clone()
    }
}

impl Write for Both {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = &self.file {
            // A full disk must not stop the work.
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).add(line);
        }
        io::stderr().write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct LogFile {
    path: PathBuf,
    /// Opened by the first line.
    open: Option<(File, u64)>,
}

impl LogFile {
    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.open.is_none() {
            self.open = Some(open(&self.path)?);
        }
        // A process that continues an existing file counts its bytes, too.
        let is_full = |written: u64| written > 0 && written + bytes > FILE_BYTES_MAX;
        if self.open.as_ref().is_some_and(|(_, written)| is_full(*written)) {
            self.open = None;
            rotate(&self.path)?;
            self.open = Some(open(&self.path)?);
        }
        if let Some((file, written)) = &mut self.open {
            file.write_all(line)?;
            *written += bytes;
        }
        Ok(())
    }
}

/// Creates the folder if its parent exists: a log file alone must not create a home.
fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        platform::private::create_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    let file = platform::private::if_created(options.create(true).append(true)).open(path)?;
    let written = file.metadata()?.len();
    Ok((file, written))
}

fn rotate(path: &Path) -> io::Result<()> {
    let rotated = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..ROTATED_MAX).rev() {
        if rotated(number).exists() {
            fs::rename(rotated(number), rotated(number + 1))?;
        }
    }
    fs::rename(path, rotated(1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_full_file_is_rotated_and_all_files_stay_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/whoop.log");
        let mut log = LogFile { path: path.clone(), open: None };
        let line = vec![b'x'; 400_000];
        for _ in 0..20 {
            log.add(&line).unwrap();
        }
        let mut names: Vec<String> = fs::read_dir(folder.path().join("logs"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .inspect(|entry| {
                let access = platform::private::access(&entry.path(), &entry.metadata().unwrap());
                assert!(!access.unwrap().is_open_to_others());
            })
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names.len(), 6, "{names:?}");
        assert!(fs::metadata(&path).unwrap().len() <= FILE_BYTES_MAX);
    }

    #[test]
    fn the_size_of_an_existing_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whoop.log");
        let line = vec![b'x'; 400_000];
        for _ in 0..10 {
            // Each process opens the file again.
            LogFile { path: path.clone(), open: None }.add(&line).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= FILE_BYTES_MAX);
        }
        assert!(folder.path().join("whoop.log.1").exists());
    }
}

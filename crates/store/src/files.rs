//! Reads files that the owner names: regular files only, with a size limit and a timeout. A pipe, a
//! device or a stalled network disk is an error and blocks no caller.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use platform::{files, private};

/// The timeout for reading a file.
pub const READ_WAIT_MS_MAX: u64 = 5_000;

/// Opens a regular file. Does not block on a pipe, and does not acquire a controlling terminal.
pub fn open(path: &Path) -> io::Result<File> {
    let file = files::open_without_waiting(path)?;
    let kind = file.metadata()?.file_type();
    let what = if kind.is_file() {
        return Ok(file);
    } else if kind.is_dir() {
        "a folder, not a file"
    } else if files::is_pipe(kind) {
        "a pipe, not a file; write its content to a file first"
    } else {
        "a device or a socket, not a file"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}")))
}

/// Refuses a folder that has a pipe, a device or a socket in it, because opening one may block.
pub fn refuse_special(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let entry = entry?;
        let kind = entry.file_type()?;
        if !kind.is_file() && !kind.is_dir() && !kind.is_symlink() {
            let name = entry.file_name();
            let message = format!("`{}` is a pipe, a device or a socket", name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    }
    Ok(())
}

/// The content of a regular file.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let path = path.to_owned();
    within(READ_WAIT_MS_MAX, move || {
        let mut bytes = Vec::new();
        open(&path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(io::Error::other(format!("it is larger than {bytes_max} bytes")));
        }
        Ok(bytes)
    })?
}

/// The same as text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Runs a function on its own thread and waits with a timeout. A thread that is stuck in a system
/// call cannot be stopped; it is abandoned.
pub fn within<T: Send + 'static>(
    wait_ms_max: u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("read-file".to_owned()).spawn(move || {
        // The receiver is gone after a timeout.
        let _ = sender.send(work());
    })?;
    receiver.recv_timeout(Duration::from_millis(wait_ms_max)).map_err(|_| {
        let message = format!("it was not read within {} s", wait_ms_max / 1_000);
        io::Error::new(io::ErrorKind::TimedOut, message)
    })
}

/// The file, or its folder, if any user of this machine may change the file by changing that.
pub fn writable_by_all(path: &Path) -> Option<PathBuf> {
    let path = path.to_owned();
    within(READ_WAIT_MS_MAX, move || {
        let found = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        if private::access(&path, &found).ok()?.is_writable_by_all() {
            return Some(path);
        }
        let folder = std::path::absolute(&path).ok()?.parent()?.to_owned();
        private::is_replaceable_by_all(&folder).ok()?.then_some(folder)
    })
    .ok()
    .flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_read_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        assert_eq!(read_text(&at("link"), 4).unwrap(), "text");
        assert!(read(&at("file"), 3).unwrap_err().to_string().contains("larger than 3 bytes"));
        for (path, what) in [
            (at("pipe"), "a pipe"),
            (folder.path().to_owned(), "a folder"),
            ("/dev/zero".into(), "a device"),
        ] {
            let said = read(&path, 10).unwrap_err().to_string();
            assert!(said.contains(what), "{said}");
        }
        assert_eq!(read(&at("none"), 1).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn slow_work_times_out() {
        let (sender, receiver) = mpsc::channel::<()>();
        let waited = within(10, move || receiver.recv());
        assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(sender);
    }
}

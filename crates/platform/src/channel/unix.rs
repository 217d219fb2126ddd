//! Linux and macOS: a socket of mode 0600. Its address holds about a hundred bytes of path; Linux has a short path to
//! any folder that is open, macOS refuses a longer one.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) type Connection = tokio::net::UnixStream;

const EXTENSION: &str = "sock";

pub(super) struct Listener {
    path: PathBuf,
    listener: tokio::net::UnixListener,
}

impl Listener {
    pub(super) fn open(folder: &Path, name: &str) -> io::Result<Listener> {
        let path = path(folder, name);
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&short(folder, name)?.path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Listener { listener: tokio::net::UnixListener::from_std(listener)?, path })
    }

    pub(super) async fn accept(&mut self) -> io::Result<Connection> {
        let own = rustix::process::getuid().as_raw();
        loop {
            let (stream, _) = self.listener.accept().await?;
            // Checked in addition to the file modes, which may have been changed.
            if stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0) {
                return Ok(stream);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

pub(super) fn ask(
    folder: &Path,
    name: &str,
    wait: Duration,
    bytes_max: u64,
) -> io::Result<Vec<u8>> {
    let stream = UnixStream::connect(&short(folder, name)?.path)?;
    stream.set_read_timeout(Some(wait))?;
    let mut bytes = Vec::new();
    stream.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn remove(folder: &Path, name: &str) {
    let _ = fs::remove_file(path(folder, name));
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension(EXTENSION)
}

/// A path that fits into a socket address.
struct ShortPath {
    path: PathBuf,
    /// Open as long as the path is used.
    _folder: File,
}

#[cfg(target_os = "linux")]
fn short(folder: &Path, name: &str) -> io::Result<ShortPath> {
    use std::os::fd::AsRawFd as _;
    let folder = File::open(folder)?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    Ok(ShortPath { path: path(&short, name), _folder: folder })
}

#[cfg(target_os = "macos")]
fn short(folder: &Path, name: &str) -> io::Result<ShortPath> {
    Ok(ShortPath { path: path(folder, name), _folder: File::open(folder)? })
}

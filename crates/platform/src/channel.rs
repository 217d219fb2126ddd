//! The control channel of a process: its owner connects and reads what it has to say. A Unix socket in a private
//! folder, or a named pipe with an access control list.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

#[cfg_attr(unix, path = "channel/unix.rs")]
#[cfg_attr(windows, path = "channel/windows.rs")]
mod system;

/// The process's end. Dropping it removes the channel.
pub struct Listener(system::Listener);

impl Listener {
    /// Opens the channel `name` of a private folder, in place of one that a dead process left. Must be called within
    /// a runtime. Fails if the path is too long for the system.
    pub fn open(folder: &Path, name: &str) -> io::Result<Listener> {
        system::Listener::open(folder, name).map(Listener)
    }

    /// The next connection of the owner or of an administrator. Others are turned away.
    pub async fn accept(&mut self) -> io::Result<Connection> {
        self.0.accept().await.map(Connection)
    }
}

pub struct Connection(system::Connection);

impl Connection {
    /// Writes all and closes the connection.
    pub async fn answer(mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.shutdown().await
    }
}

/// Connects and reads until the process closes the connection. Fails if any part takes longer than `wait`.
pub fn ask(folder: &Path, name: &str, wait: Duration, bytes_max: u64) -> io::Result<Vec<u8>> {
    system::ask(folder, name, wait, bytes_max)
}

/// Removes what a dead process left of its channel.
pub fn remove(folder: &Path, name: &str) {
    system::remove(folder, name);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_owner_connects_and_is_answered_wherever_the_folder_is() {
        const WAIT: Duration = Duration::from_secs(5);
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("d".repeat(if cfg!(target_os = "linux") { 120 } else { 4 }));
        crate::private::create_folder(&deep).unwrap();
        assert!(ask(&deep, "a", WAIT, 10).is_err());
        let mut listener = Listener::open(&deep, "a").unwrap();
        let asked = tokio::task::spawn_blocking({
            let deep = deep.clone();
            move || ask(&deep, "a", WAIT, 4)
        });
        listener.accept().await.unwrap().answer(b"hello").await.unwrap();
        assert_eq!(asked.await.unwrap().unwrap(), b"hell", "no more than was asked for");
        drop(listener);
        assert!(ask(&deep, "a", WAIT, 10).is_err());
    }
}

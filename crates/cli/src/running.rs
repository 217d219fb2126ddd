//! The gates that run on a home. Each holds a lock on its own file, so that a file left by a dead process is
//! recognized, and listens on a Unix socket: a connection makes it reload the registry and report the status
//! of its servers. Folder, file and socket are accessible to the owner only.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use gateway::Gate;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;

/// The timeout on both sides of the socket.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);
const STATUS_BYTES_MAX: u64 = 16 << 20;

/// What a running gate writes into its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GateFacts {
    pub(crate) pid: u32,
    /// The PID namespace: containers that share a home may use the same PID.
    #[serde(default)]
    pub(crate) pid_space: u64,
    /// `up`, `stdio` or `wrap`.
    pub(crate) command: String,
    pub(crate) started_us: i64,
    /// Where clients reach it; none for stdio.
    pub(crate) url: Option<String>,
    /// The origin under which clients elsewhere reach it.
    #[serde(default)]
    pub(crate) public_url: Option<String>,
    pub(crate) durability: String,
    pub(crate) version: String,
    /// The `PATH` by which it finds the programs of servers.
    #[serde(default)]
    pub(crate) path: Option<String>,
}

/// The file of this process. Removed when dropped; its lock ends with the process.
pub(crate) struct RunningFile {
    path: PathBuf,
    /// The lock lives as long as the open file.
    _file: File,
}

impl GateFacts {
    /// Whether these are the facts of this process.
    fn are_our_own(&self) -> bool {
        self.pid == std::process::id() && self.pid_space == pid_space()
    }

    /// The name of this gate's files without extension, unique among live processes.
    fn name(&self) -> String {
        format!("{}-{}", self.pid, self.pid_space)
    }
}

/// The inode of our PID namespace; 0 if the kernel does not provide it.
pub(crate) fn pid_space() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino())
}

impl RunningFile {
    /// The file gets its name only when it is complete and locked: other processes remove unlocked ones.
    pub(crate) fn create(home: &Path, facts: &GateFacts) -> Result<RunningFile> {
        let folder = folder(home);
        make_folder(&folder)?;
        let path = folder.join(facts.name()).with_extension("json");
        let draft = path.with_extension("new");
        let shown = path.display().to_string();
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&draft)
            .with_context(|| format!("cannot write `{shown}`"))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("cannot lock `{shown}`"))?;
        file.write_all(&serde_json::to_vec(facts)?)?;
        fs::rename(&draft, &path).with_context(|| format!("cannot write `{shown}`"))?;
        Ok(RunningFile { path, _file: file })
    }
}

impl Drop for RunningFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves the status of the servers to every process of the owner that connects, until dropped.
pub(crate) struct StatusSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl StatusSocket {
    /// Without a socket `tollgate status` shows less, but the gate runs.
    pub(crate) fn start(home: &Path, facts: &GateFacts, gate: &Arc<Gate>) -> Option<StatusSocket> {
        let path = socket(home, facts);
        match listen(home, &path) {
            Ok(listener) => {
                let task = tokio::spawn(serve_status(listener, Arc::clone(gate)));
                Some(StatusSocket { path, task })
            }
            Err(error) => {
                tracing::warn!(%error, "cannot open the status socket; `tollgate status` will show less");
                None
            }
        }
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(home: &Path, path: &Path) -> std::io::Result<tokio::net::UnixListener> {
    let _ = fs::remove_file(path);
    let listener = StdListener::bind(short_path(home, path)?.as_path())?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

async fn serve_status(listener: tokio::net::UnixListener, gate: Arc<Gate>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let own = rustix::process::getuid().as_raw();
        // Checked in addition to the file modes, which may have been changed.
        if stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0) {
            // It may compile policies, which would block this thread.
            let reloading = Arc::clone(&gate);
            let _ = tokio::task::spawn_blocking(move || reloading.reload_now()).await;
            let text = gate.standing().to_string();
            let _ = tokio::time::timeout(ANSWER_WAIT_MAX, stream.write_all(text.as_bytes())).await;
        }
    }
}

/// Waits until every running gate has applied the last change, so that a command can report that. A gate
/// that does not answer in time applies it at its next poll.
pub(crate) fn request_reload(home: &Path) {
    for facts in all(home).iter().filter(|facts| !facts.are_our_own()) {
        let _ = query_status(home, facts);
    }
}

/// The status of a running gate's servers, if it answers in time. It reloads its registry before it
/// answers.
pub(crate) fn query_status(home: &Path, facts: &GateFacts) -> Option<serde_json::Value> {
    let path = short_path(home, &socket(home, facts)).ok()?;
    let stream = StdStream::connect(path.as_path()).ok()?;
    stream.set_read_timeout(Some(ANSWER_WAIT_MAX)).ok()?;
    let mut text = Vec::new();
    stream.take(STATUS_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// A path to the socket that fits into a socket address of 108 bytes wherever the home is.
struct ShortPath {
    path: PathBuf,
    _folder: File,
}

impl ShortPath {
    fn as_path(&self) -> &Path {
        &self.path
    }
}

fn short_path(home: &Path, path: &Path) -> std::io::Result<ShortPath> {
    let folder = File::open(folder(home))?;
    let name = path.file_name().unwrap_or_default();
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok(ShortPath { path, _folder: folder })
}

fn socket(home: &Path, facts: &GateFacts) -> PathBuf {
    folder(home).join(facts.name()).with_extension("sock")
}

/// Every gate that runs on this home now, oldest first.
pub(crate) fn all(home: &Path) -> Vec<GateFacts> {
    let Ok(entries) = fs::read_dir(folder(home)) else { return Vec::new() };
    let mut running: Vec<GateFacts> =
        entries.flatten().filter_map(|entry| read_if_alive(&entry.path())).collect();
    running.sort_by_key(|facts| facts.started_us);
    running
}

/// The content of the file if its process is alive. Removes the files of a dead process.
fn read_if_alive(path: &Path) -> Option<GateFacts> {
    const BYTES_MAX: u64 = 16 << 10;
    if path.extension().is_none_or(|extension| extension != "json") {
        return None;
    }
    let file = File::open(path).ok()?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(path.with_extension("sock"));
        return None;
    }
    let mut text = String::new();
    (&file).take(BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn folder(home: &Path) -> PathBuf {
    home.join("running")
}

fn make_folder(folder: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(e).with_context(|| format!("cannot create `{}`", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn facts() -> GateFacts {
        GateFacts {
            pid: std::process::id(),
            pid_space: pid_space(),
            command: "up".into(),
            started_us: 1,
            url: Some("http://127.0.0.1:4180/mcp".into()),
            public_url: None,
            durability: "process".into(),
            version: "0".into(),
            path: None,
        }
    }

    #[test]
    fn a_gate_is_listed_while_it_runs() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(all(home.path()), []);
        let file = RunningFile::create(home.path(), &facts()).unwrap();
        assert_eq!(all(home.path()), [facts()]);
        drop(file);
        assert_eq!(all(home.path()), []);
    }

    #[test]
    fn gates_with_the_same_pid_in_two_containers_have_separate_files() {
        let home = tempfile::tempdir().unwrap();
        let here = facts();
        let there = GateFacts { pid_space: here.pid_space + 1, started_us: 2, ..facts() };
        let files = [&here, &there].map(|facts| RunningFile::create(home.path(), facts).unwrap());
        assert_eq!(all(home.path()), [here.clone(), there.clone()]);
        assert_ne!(socket(home.path(), &here), socket(home.path(), &there));
        assert!(here.are_our_own() && !there.are_our_own());
        drop(files);
        assert_eq!(fs::read_dir(folder(home.path())).unwrap().count(), 0);
    }

    #[test]
    fn the_file_of_a_killed_gate_is_removed() {
        let home = tempfile::tempdir().unwrap();
        make_folder(&folder(home.path())).unwrap();
        let left = folder(home.path()).join("1.json");
        fs::write(&left, serde_json::to_vec(&facts()).unwrap()).unwrap();
        assert_eq!(all(home.path()), []);
        assert!(!left.exists());
    }
}

//! The gates that run on a home. Each holds a lock on its own file, so that a file left by a dead process is
//! recognized, and listens on a control channel: a connection makes it reload the registry and report the status
//! of its servers. Folder, file and channel are accessible to the owner only.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use gateway::Gate;
use platform::lock::{Alive, AliveFile};
use platform::{channel, private};
use serde::{Deserialize, Serialize};

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
    _file: AliveFile,
}

impl GateFacts {
    /// Whether these are the facts of this process.
    fn are_our_own(&self) -> bool {
        self.pid == std::process::id() && self.pid_space == platform::programs::pid_space()
    }

    /// The name of this gate's files without extension, unique among live processes.
    fn name(&self) -> String {
        format!("{}-{}", self.pid, self.pid_space)
    }
}

impl RunningFile {
    pub(crate) fn create(home: &Path, facts: &GateFacts) -> Result<RunningFile> {
        let folder = folder(home);
        make_folder(&folder)?;
        let path = folder.join(facts.name()).with_extension("json");
        let file = AliveFile::create(&path, &serde_json::to_vec(facts)?)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(RunningFile { _file: file })
    }
}

/// Serves the status of the servers to every process of the owner that connects, until dropped.
pub(crate) struct StatusChannel {
    folder: PathBuf,
    name: String,
    task: tokio::task::JoinHandle<()>,
}

impl StatusChannel {
    /// Without a channel `tollgate status` shows less, but the gate runs.
    pub(crate) fn start(home: &Path, facts: &GateFacts, gate: &Arc<Gate>) -> Option<StatusChannel> {
        let (folder, name) = (folder(home), facts.name());
        match channel::Listener::open(&folder, &name) {
            Ok(listener) => {
                let task = tokio::spawn(serve_status(listener, Arc::clone(gate)));
                Some(StatusChannel { folder, name, task })
            }
            Err(error) => {
                tracing::warn!(%error, "cannot open the status channel; `tollgate status` will show less");
                None
            }
        }
    }
}

impl Drop for StatusChannel {
    fn drop(&mut self) {
        self.task.abort();
        // The task may never be polled again.
        channel::remove(&self.folder, &self.name);
    }
}

async fn serve_status(mut listener: channel::Listener, gate: Arc<Gate>) {
    while let Ok(connection) = listener.accept().await {
        // It may compile policies, which would block this thread.
        let reloading = Arc::clone(&gate);
        let _ = tokio::task::spawn_blocking(move || reloading.reload_now()).await;
        let text = gate.standing().to_string();
        let _ = tokio::time::timeout(ANSWER_WAIT_MAX, connection.answer(text.as_bytes())).await;
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
    let text = channel::ask(&folder(home), &facts.name(), ANSWER_WAIT_MAX, STATUS_BYTES_MAX);
    serde_json::from_slice(&text.ok()?).ok()
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
    match AliveFile::read(path, BYTES_MAX) {
        Alive::Yes(text) => serde_json::from_slice(&text).ok(),
        Alive::Unknown => None,
        Alive::No => {
            AliveFile::remove(path);
            let name = path.file_stem().unwrap_or_default();
            channel::remove(path.parent()?, &name.to_string_lossy());
            None
        }
    }
}

fn folder(home: &Path) -> PathBuf {
    home.join("running")
}

fn make_folder(folder: &Path) -> Result<()> {
    match private::create_folder(folder) {
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
            pid_space: platform::programs::pid_space(),
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
        assert_ne!(here.name(), there.name());
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

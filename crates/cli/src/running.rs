//! Which gates run on a home: each one holds a lock on a small file of its own, so that what a dead
//! one left behind is told from what a living one says. Beside it lies a socket on which a living one
//! takes over what the owner changed and says how its servers stand; the folder and both are the
//! owner's alone, and no agent gets there.

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

/// How long a gate and whoever asks it wait for each other.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);
const STANDING_BYTES_MAX: u64 = 16 << 20;

/// What a running gate says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) pid: u32,
    /// The space of numbers that `pid` is of: containers that share a home count each from 1.
    #[serde(default)]
    pub(crate) pid_space: u64,
    /// `up`, `stdio` or `wrap`.
    pub(crate) command: String,
    pub(crate) started_us: i64,
    /// Where clients reach it; none for stdio.
    pub(crate) url: Option<String>,
    pub(crate) durability: String,
    pub(crate) version: String,
    /// The `PATH` by which it finds the programs of servers.
    #[serde(default)]
    pub(crate) path: Option<String>,
}

/// The mark of this process. Removed when dropped; void when the process dies.
pub(crate) struct Mark {
    path: PathBuf,
    /// The lock lives as long as the open file.
    _file: File,
}

impl Facts {
    /// Whether these are the facts of the process that asks.
    fn are_our_own(&self) -> bool {
        self.pid == std::process::id() && self.pid_space == pid_space()
    }

    /// What the files of this gate in the folder are called, without their endings. No two processes
    /// that live at once have the same.
    fn name(&self) -> String {
        format!("{}-{}", self.pid, self.pid_space)
    }
}

/// The number of the space that our own process number is of; 0 where the kernel does not tell.
pub(crate) fn pid_space() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino())
}

impl Mark {
    /// The file gets its name when it is whole and locked: whoever finds one that is not would sweep
    /// it away.
    pub(crate) fn set(home: &Path, facts: &Facts) -> Result<Mark> {
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
        Ok(Mark { path, _file: file })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Says how the servers stand to every process of the owner that connects, as long as it lives.
pub(crate) struct Teller {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Teller {
    /// Without a socket `tollgate status` shows less, and the gate runs all the same.
    pub(crate) fn start(home: &Path, facts: &Facts, gate: &Arc<Gate>) -> Option<Teller> {
        let path = socket(home, facts);
        match listen(home, &path) {
            Ok(listener) => {
                let task = tokio::spawn(tell(listener, Arc::clone(gate)));
                Some(Teller { path, task })
            }
            Err(error) => {
                tracing::warn!(%error, "`tollgate status` cannot ask this gate about its servers");
                None
            }
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(home: &Path, path: &Path) -> std::io::Result<tokio::net::UnixListener> {
    let _ = fs::remove_file(path);
    let listener = StdListener::bind(short(home, path)?.as_path())?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

async fn tell(listener: tokio::net::UnixListener, gate: Arc<Gate>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let own = rustix::process::getuid().as_raw();
        // The modes say the same; a folder that somebody opened up must not be enough.
        if stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0) {
            // It may compile policies, and nobody is to wait for that here.
            let looking = Arc::clone(&gate);
            let _ = tokio::task::spawn_blocking(move || looking.look_now()).await;
            let text = gate.standing().to_string();
            let _ = tokio::time::timeout(ANSWER_WAIT_MAX, stream.write_all(text.as_bytes())).await;
        }
    }
}

/// Waits until every running gate has taken over what was just written, so that a command can say
/// that it is in force. A gate that does not answer in time finds it at its own next look.
pub(crate) fn let_them_look(home: &Path) {
    for facts in all(home).iter().filter(|facts| !facts.are_our_own()) {
        let _ = standing(home, facts);
    }
}

/// How the servers of a running gate stand, if it says so in time. It has looked at its registry
/// when it answers.
pub(crate) fn standing(home: &Path, facts: &Facts) -> Option<serde_json::Value> {
    let path = short(home, &socket(home, facts)).ok()?;
    let stream = StdStream::connect(path.as_path()).ok()?;
    stream.set_read_timeout(Some(ANSWER_WAIT_MAX)).ok()?;
    let mut text = Vec::new();
    stream.take(STANDING_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// A path to the socket that fits into an address of 108 bytes wherever the home lies.
struct Short {
    path: PathBuf,
    _folder: File,
}

impl Short {
    fn as_path(&self) -> &Path {
        &self.path
    }
}

fn short(home: &Path, path: &Path) -> std::io::Result<Short> {
    let folder = File::open(folder(home))?;
    let name = path.file_name().unwrap_or_default();
    let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok(Short { path, _folder: folder })
}

fn socket(home: &Path, facts: &Facts) -> PathBuf {
    folder(home).join(facts.name()).with_extension("sock")
}

/// Every gate that runs on this home now, oldest first.
pub(crate) fn all(home: &Path) -> Vec<Facts> {
    let Ok(entries) = fs::read_dir(folder(home)) else { return Vec::new() };
    let mut running: Vec<Facts> =
        entries.flatten().filter_map(|entry| living(&entry.path())).collect();
    running.sort_by_key(|facts| facts.started_us);
    running
}

/// What the file says, if whoever wrote it still lives. What a dead one left is swept away.
fn living(path: &Path) -> Option<Facts> {
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
            Err(e).with_context(|| format!("cannot make `{}`", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn facts() -> Facts {
        Facts {
            pid: std::process::id(),
            pid_space: pid_space(),
            command: "up".into(),
            started_us: 1,
            url: Some("http://127.0.0.1:4180/mcp".into()),
            durability: "process".into(),
            version: "0".into(),
            path: None,
        }
    }

    #[test]
    fn a_gate_is_listed_while_it_lives_and_swept_away_after() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(all(home.path()), []);
        let mark = Mark::set(home.path(), &facts()).unwrap();
        assert_eq!(all(home.path()), [facts()]);
        drop(mark);
        assert_eq!(all(home.path()), []);
    }

    #[test]
    fn gates_of_two_containers_have_one_number_and_each_its_own_mark() {
        let home = tempfile::tempdir().unwrap();
        let here = facts();
        let there = Facts { pid_space: here.pid_space + 1, started_us: 2, ..facts() };
        let marks = [&here, &there].map(|facts| Mark::set(home.path(), facts).unwrap());
        assert_eq!(all(home.path()), [here.clone(), there.clone()]);
        assert_ne!(socket(home.path(), &here), socket(home.path(), &there));
        assert!(here.are_our_own() && !there.are_our_own());
        drop(marks);
        assert_eq!(fs::read_dir(folder(home.path())).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_gate_left_behind_is_not_believed() {
        let home = tempfile::tempdir().unwrap();
        make_folder(&folder(home.path())).unwrap();
        let left = folder(home.path()).join("1.json");
        fs::write(&left, serde_json::to_vec(&facts()).unwrap()).unwrap();
        assert_eq!(all(home.path()), []);
        assert!(!left.exists());
    }
}

//! The method for systems whose kernel does less: every process that the command starts inherits a variable with a
//! value that no other guard has. A second process, the keeper, reads from a pipe that only the guard can write to;
//! when it closes without a word, the guard was killed, and the keeper kills what is marked.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid};

use super::END_OF_ARGS;
use super::processes::{self, Process};
use super::watch::Job;

pub(super) const KEEP: &str = "keep";
/// The variable that marks a process.
const MARK: &str = "TOLLGATE_CHILD";
/// What the guard writes when nothing is left to kill.
const DONE: u8 = b'.';
const RESTARTS_MAX: u32 = 100;
/// A process may be between its fork and its program, where it has no mark yet.
const LOOK_AGAIN_FOR: Duration = Duration::from_millis(300);
/// A process that is stuck in the kernel even after KILL is left alone.
const KILL_WAIT_MAX: Duration = Duration::from_secs(2);
const LOOK_PAUSE: Duration = Duration::from_millis(5);

pub(super) struct MarkedTree {
    mark: String,
    /// The command, once it runs. It may clear its own environment.
    command: Option<i32>,
    keeper: Option<Keeper>,
    /// A keeper that ends again and again is not started for ever.
    restarts_left: u32,
}

struct Keeper {
    pid: i32,
    pipe: ChildStdin,
}

impl MarkedTree {
    /// Starts the keeper before there is anything to keep.
    pub(super) fn bind(job: &Job<'_>) -> std::io::Result<MarkedTree> {
        let now = crate::clock::steady_us();
        let mark = format!("{}-{now}", getpid().as_raw_nonzero());
        let mut tree =
            MarkedTree { mark, command: None, keeper: None, restarts_left: RESTARTS_MAX };
        tree.start_keeper(job)?;
        Ok(tree)
    }

    fn start_keeper(&mut self, job: &Job<'_>) -> std::io::Result<()> {
        let mut keeper: Child = Command::new(crate::programs::own()?)
            .args(job.lead)
            .arg(KEEP)
            .arg(END_OF_ARGS)
            .arg(&self.mark)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What kills the guard's group must not kill the keeper.
            .process_group(0)
            .spawn()?;
        let pipe = keeper.stdin.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
        let pid = i32::try_from(keeper.id()).map_err(std::io::Error::other)?;
        self.keeper = Some(Keeper { pid, pipe });
        Ok(())
    }

    pub(super) fn start(&mut self, job: &Job<'_>) -> std::io::Result<u32> {
        let [program, args @ ..] = job.command else {
            return Err(std::io::Error::other("no command"));
        };
        let mut command = Command::new(program);
        command.args(args).env(MARK, &self.mark).process_group(0);
        let child = command.spawn().map_err(|error| {
            std::io::Error::new(error.kind(), format!("`{}`: {error}", program.display()))
        })?;
        self.command = i32::try_from(child.id()).ok();
        Ok(child.id())
    }

    /// One of our children has ended. If it is the keeper, another one takes its place.
    pub(super) fn ended(&mut self, pid: Pid, job: &Job<'_>) {
        if self.command == Some(pid.as_raw_pid()) {
            // From here on another process may have its pid.
            self.command = None;
        }
        if self.keeper.as_ref().is_some_and(|keeper| keeper.pid == pid.as_raw_pid()) {
            self.keeper = None;
            if let Some(left) = self.restarts_left.checked_sub(1) {
                self.restarts_left = left;
                // Without a keeper the command is still ended by a guard that is not killed.
                let _ = self.start_keeper(job);
            }
        }
    }

    pub(super) fn all(&self) -> Vec<Process> {
        let parents: Vec<i32> = self.command.into_iter().collect();
        marked(&self.mark, &parents)
    }

    pub(super) fn signal_all(&self, signal: Signal) -> Vec<Process> {
        let all = self.all();
        for process in &all {
            processes::send(*process, signal);
        }
        all
    }
}

impl Drop for Keeper {
    /// Lets the keeper exit; without the word it would look for marked processes first.
    fn drop(&mut self) {
        let _ = self.pipe.write_all(&[DONE]);
    }
}

/// The processes with the mark, these, and everything below both.
fn marked(mark: &str, more: &[i32]) -> Vec<Process> {
    let all = processes::all();
    let own = getpid().as_raw_nonzero().get();
    let entry = format!("{MARK}={mark}");
    let mut found: Vec<Process> = all
        .iter()
        .filter(|p| {
            p.pid != own && (more.contains(&p.pid) || processes::has_variable(p.pid, &entry))
        })
        .copied()
        .collect();
    let roots: Vec<i32> = found.iter().map(|process| process.pid).collect();
    for process in processes::below(&roots, &all) {
        if !found.contains(&process) {
            found.push(process);
        }
    }
    found
}

/// The main function of the keeper.
pub(super) fn keep(command: &[OsString]) -> ExitCode {
    let Some(mark) = command.first().and_then(|mark| mark.to_str()) else {
        return ExitCode::from(super::CANNOT_GUARD);
    };
    let mut word = [0];
    if std::io::stdin().read(&mut word).is_ok_and(|read| read == 1 && word == [DONE]) {
        return ExitCode::SUCCESS;
    }
    let began = Instant::now();
    let mut quiet_since = began;
    while quiet_since.elapsed() < LOOK_AGAIN_FOR && began.elapsed() < KILL_WAIT_MAX {
        let left = marked(mark, &[]);
        for process in &left {
            processes::send(*process, Signal::KILL);
        }
        if !left.is_empty() {
            quiet_since = Instant::now();
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    ExitCode::SUCCESS
}

//! Watches one command and its gate, and ends what is left of either.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, getppid, getpriority_process,
    getrlimit, kill_process_group, set_child_subreaper, set_parent_process_death_signal,
    setpriority_process, setrlimit, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::{CANNOT_GUARD, CANNOT_START, END_OF_WORDS, EXEC, OURSELVES, complain, tree};

/// After the gate is gone the command gets TERM and this long to tidy up.
const ORPHAN_WAIT: Duration = Duration::from_millis(500);
/// What the command left running after its own end gets TERM and this long.
const LEFTOVER_WAIT: Duration = Duration::from_millis(300);
/// How often we look once something is ending.
const TICK: Duration = Duration::from_millis(20);
/// How often we look once it has to have ended.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// Even KILL has an end: a process stuck in the kernel is left to it.
const KILL_WAIT_MAX: Duration = Duration::from_secs(1);

/// What to start and whom to watch.
pub(super) struct Job<'a> {
    /// The words that lead our own binary back to the shim.
    pub(super) lead: &'a [OsString],
    pub(super) command: &'a [OsString],
    pub(super) gate: Option<Pid>,
    pub(super) end_wait: Duration,
    pub(super) term_wait: Duration,
    pub(super) files_max: Option<u64>,
}

/// Starts the command, stays until it has ended, and ends as it ended.
pub(super) fn run(job: &Job<'_>) -> ExitCode {
    // A name of its own, so that a broad kill of the gate by name leaves the guard to do its work.
    std::fs::write("/proc/self/comm", "gate-child").ok();
    let Ok(signals) = Signals::install() else {
        return complain("cannot watch for signals", CANNOT_GUARD);
    };
    // Orphans of the command become our children, so none escapes by leaving its parent or group.
    let bound = set_child_subreaper(Some(getpid()))
        .and_then(|()| set_parent_process_death_signal(Some(Signal::HUP)));
    // A gate that died before the line above would never be noticed.
    if bound.is_err() || getppid() != job.gate {
        return ExitCode::from(CANNOT_GUARD);
    }
    // Started by a thread that runs before others; the command is no such thread. The gate's own is not
    // either.
    if let Ok(niceness) = getpriority_process(job.gate) {
        let _ = setpriority_process(None, niceness);
    }
    if let Some(files) = job.files_max {
        // Programs that watch files by number (`select`) break beyond what is usual; one that needs
        // more may ask for it, as we did. Without success it has what we have.
        let allowed = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..allowed });
    }
    match start(job) {
        Ok(command) => Guard { job, command, signals, status: None }.watch(),
        Err(error) => complain(&format!("cannot start a guarded command: {error}"), CANNOT_START),
    }
}

/// Starts ourselves as the process that becomes the command, in a group of its own.
fn start(job: &Job<'_>) -> std::io::Result<Pid> {
    let child = Command::new(OURSELVES)
        .args(job.lead)
        .arg(EXEC)
        .arg(getpid().as_raw_nonzero().to_string())
        .arg(END_OF_WORDS)
        .args(job.command)
        .process_group(0)
        .spawn()?;
    // Only the command speaks from here on; its end must be seen as the end of its output.
    if let Ok(nothing) = File::options().write(true).open("/dev/null") {
        rustix::stdio::dup2_stdout(&nothing).ok();
    }
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| std::io::Error::other("no pid"))
}

/// What the handlers leave for the loop.
struct Signals {
    wake: UnixStream,
    stop: Arc<AtomicBool>,
}

impl Signals {
    fn install() -> std::io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGCHLD] {
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Signals { wake, stop })
    }
}

/// How far the end has come.
#[derive(Clone, Copy)]
enum Phase {
    Serving,
    /// Its input has ended; it may end by itself until then.
    Ending(Instant),
    /// It was told to end, and has until then.
    Terminating(Instant),
}

struct Guard<'a> {
    job: &'a Job<'a>,
    command: Pid,
    signals: Signals,
    status: Option<WaitStatus>,
}

impl Guard<'_> {
    fn watch(mut self) -> ExitCode {
        let mut phase = Phase::Serving;
        loop {
            let input_ended = self.wait(phase);
            self.reap();
            if self.status.is_some() {
                return self.leave(LEFTOVER_WAIT);
            }
            phase = match phase {
                Phase::Terminating(until) if until <= Instant::now() => {
                    return self.leave(Duration::ZERO);
                }
                Phase::Terminating(until) => Phase::Terminating(until),
                _ if getppid() != self.job.gate => terminate(ORPHAN_WAIT),
                _ if self.signals.stop.load(Ordering::Relaxed) => terminate(self.job.term_wait),
                Phase::Ending(until) if until <= Instant::now() => terminate(self.job.term_wait),
                Phase::Serving if input_ended => Phase::Ending(Instant::now() + self.job.end_wait),
                same => same,
            };
        }
    }

    /// Waits for something to do; says whether the command's input has ended.
    fn wait(&mut self, phase: Phase) -> bool {
        let stdin = std::io::stdin();
        let mut fds = vec![PollFd::new(&self.signals.wake, PollFlags::IN)];
        // Only the gate holds the other end of our stdin, so a hang-up is its word or its death.
        // Once heard, the hang-up would wake us for ever.
        let serving = matches!(phase, Phase::Serving);
        if serving {
            fds.push(PollFd::new(&stdin, PollFlags::empty()));
        }
        let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
        poll(&mut fds, if serving { None } else { Some(&tick) }).ok();
        let hung_up = fds.get(1).is_some_and(|fd| {
            fd.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
        });
        let mut drain = [0_u8; 64];
        while self.signals.wake.read(&mut drain).is_ok_and(|bytes| bytes > 0) {}
        hung_up
    }

    /// Buries every child that has ended, adopted ones too; says whether none is left. Whatever runs below
    /// us is below a child of ours, so the kernel's word is exact where a walk through /proc is not: a
    /// process whose parent dies during the walk is found below neither the parent nor us.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.command => self.status = Some(status),
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(error) => return error == Errno::CHILD,
            }
        }
    }

    /// Ends whatever is left, then ends as the command did.
    fn leave(mut self, leftover_wait: Duration) -> ExitCode {
        if !leftover_wait.is_zero() && !self.reap() {
            tree::signal_descendants(Signal::TERM);
            let until = Instant::now() + leftover_wait;
            while !self.reap() && Instant::now() < until {
                std::thread::sleep(LOOK_PAUSE);
            }
        }
        // The group goes in one stroke; then those who left it, and those born meanwhile.
        kill_process_group(self.command, Signal::KILL).ok();
        self.kill_until_alone();
        exit_code(self.status)
    }

    /// Kills what runs below us until nothing does. The time that even KILL may take begins anew with
    /// every process that was not killed before, and one more look is taken when it is over: on a busy
    /// machine a look may take all of it.
    fn kill_until_alone(&mut self) {
        let mut killed = HashSet::new();
        let mut until = Instant::now() + KILL_WAIT_MAX;
        while !self.reap() {
            let began = Instant::now();
            let known = killed.len();
            killed.extend(tree::signal_descendants(Signal::KILL));
            if killed.len() > known {
                until = Instant::now() + KILL_WAIT_MAX;
            } else if began >= until {
                return;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

fn terminate(wait: Duration) -> Phase {
    tree::signal_descendants(Signal::TERM);
    Phase::Terminating(Instant::now() + wait)
}

/// As shells tell it: the code, or 128 and the signal.
fn exit_code(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else {
        return ExitCode::from(128 + 9);
    };
    let code =
        status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

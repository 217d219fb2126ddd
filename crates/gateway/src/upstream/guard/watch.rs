//! Watches a command and the gate, and ends the command with all its descendants.

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

use super::{CANNOT_GUARD, CANNOT_START, END_OF_ARGS, EXEC, OURSELVES, complain, process_tree};

/// After the gate has gone, the command gets TERM and this much time.
const ORPHAN_WAIT: Duration = Duration::from_millis(500);
/// Descendants that outlive the command get TERM and this much time.
const LEFTOVER_WAIT: Duration = Duration::from_millis(300);
/// The poll interval once the command is ending.
const TICK: Duration = Duration::from_millis(20);
/// The poll interval once it must have ended.
const POLL_PAUSE: Duration = Duration::from_millis(5);
/// A process that is stuck in the kernel even after KILL is left alone.
const KILL_WAIT_MAX: Duration = Duration::from_secs(1);

/// What to start and watch.
pub(super) struct Job<'a> {
    /// The arguments that make this binary run the guard.
    pub(super) lead: &'a [OsString],
    pub(super) command: &'a [OsString],
    pub(super) gate: Option<Pid>,
    pub(super) end_wait: Duration,
    pub(super) term_wait: Duration,
    pub(super) files_max: Option<u64>,
}

/// Runs the command until it ends, and exits like it.
pub(super) fn run(job: &Job<'_>) -> ExitCode {
    // A different process name, so that killing the gate by name does not kill the guard.
    std::fs::write("/proc/self/comm", "gate-child").ok();
    let Ok(signals) = Signals::install() else {
        return complain("cannot watch for signals", CANNOT_GUARD);
    };
    // Orphans become children of the guard, so that none escapes by leaving its parent or group.
    let bound = set_child_subreaper(Some(getpid()))
        .and_then(|()| set_parent_process_death_signal(Some(Signal::HUP)));
    // A gate that died before the line above would not be noticed.
    if bound.is_err() || getppid() != job.gate {
        return ExitCode::from(CANNOT_GUARD);
    }
    // The thread that started the guard may have a raised priority; the command gets the gate's own.
    if let Ok(niceness) = getpriority_process(job.gate) {
        let _ = setpriority_process(None, niceness);
    }
    if let Some(files) = job.files_max {
        // Programs that use `select` break with a higher limit. One that needs more files can raise the limit
        // itself. If this fails, it keeps the gate's limit.
        let allowed = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..allowed });
    }
    match start(job) {
        Ok(command) => Guard { job, command, signals, status: None }.watch(),
        Err(error) => complain(&format!("cannot start a guarded command: {error}"), CANNOT_START),
    }
}

/// Starts this binary again as the process that becomes the command, in its own group.
fn start(job: &Job<'_>) -> std::io::Result<Pid> {
    let child = Command::new(OURSELVES)
        .args(job.lead)
        .arg(EXEC)
        .arg(getpid().as_raw_nonzero().to_string())
        .arg(END_OF_ARGS)
        .args(job.command)
        .process_group(0)
        .spawn()?;
    // Only the command writes to stdout from here on, so that its end closes the pipe.
    if let Ok(nothing) = File::options().write(true).open("/dev/null") {
        rustix::stdio::dup2_stdout(&nothing).ok();
    }
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| std::io::Error::other("no pid"))
}

/// State of the signal handlers.
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

/// How far the shutdown has come.
#[derive(Clone, Copy)]
enum StopPhase {
    Serving,
    /// Its input has ended. It may exit by itself until then.
    Ending(Instant),
    /// It got TERM and has until then.
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
        let mut phase = StopPhase::Serving;
        loop {
            let input_ended = self.wait(phase);
            self.reap();
            if self.status.is_some() {
                return self.leave(LEFTOVER_WAIT);
            }
            phase = match phase {
                StopPhase::Terminating(until) if until <= Instant::now() => {
                    return self.leave(Duration::ZERO);
                }
                StopPhase::Terminating(until) => StopPhase::Terminating(until),
                _ if getppid() != self.job.gate => terminate(ORPHAN_WAIT),
                _ if self.signals.stop.load(Ordering::Relaxed) => terminate(self.job.term_wait),
                StopPhase::Ending(until) if until <= Instant::now() => {
                    terminate(self.job.term_wait)
                }
                StopPhase::Serving if input_ended => {
                    StopPhase::Ending(Instant::now() + self.job.end_wait)
                }
                same => same,
            };
        }
    }

    /// Waits for an event. True if the command's input has ended.
    fn wait(&mut self, phase: StopPhase) -> bool {
        let stdin = std::io::stdin();
        let mut fds = vec![PollFd::new(&self.signals.wake, PollFlags::IN)];
        // Only the gate holds the other end of stdin, so a hang-up means that it closed the pipe or died.
        // After that it is not polled, because the hang-up would wake up poll for ever.
        let serving = matches!(phase, StopPhase::Serving);
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

    /// Reaps all ended children, including adopted ones. True if none is left. The kernel's answer is exact,
    /// while /proc may miss a process whose parent dies during the walk.
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

    /// Ends all descendants, then exits like the command.
    fn leave(mut self, leftover_wait: Duration) -> ExitCode {
        if !leftover_wait.is_zero() && !self.reap() {
            process_tree::signal_descendants(Signal::TERM);
            let until = Instant::now() + leftover_wait;
            while !self.reap() && Instant::now() < until {
                std::thread::sleep(POLL_PAUSE);
            }
        }
        // First the whole process group, then processes that left it and new ones.
        kill_process_group(self.command, Signal::KILL).ok();
        self.kill_until_alone();
        exit_code(self.status)
    }

    /// Kills descendants until none is left. The time limit restarts with every new process, and one more round
    /// follows when it ends, because on a busy machine one round may take all of it.
    fn kill_until_alone(&mut self) {
        let mut killed = HashSet::new();
        let mut until = Instant::now() + KILL_WAIT_MAX;
        while !self.reap() {
            let began = Instant::now();
            let known = killed.len();
            killed.extend(process_tree::signal_descendants(Signal::KILL));
            if killed.len() > known {
                until = Instant::now() + KILL_WAIT_MAX;
            } else if began >= until {
                return;
            }
            std::thread::sleep(POLL_PAUSE);
        }
    }
}

fn terminate(wait: Duration) -> StopPhase {
    process_tree::signal_descendants(Signal::TERM);
    StopPhase::Terminating(Instant::now() + wait)
}

/// The exit code as in shells: the code, or 128 plus the signal.
fn exit_code(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else {
        return ExitCode::from(128 + 9);
    };
    let code =
        status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

//! Watches a command and the gate, and ends the command with all its descendants.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getppid, getpriority_process,
    getrlimit, kill_process_group, setpriority_process, setrlimit, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

#[cfg(target_os = "linux")]
use super::kernel::KernelTree;
use super::marks::MarkedTree;
use super::processes::Process;
use super::{CANNOT_GUARD, CANNOT_START, complain};
use crate::guard::Method;

/// After the gate has gone, the command gets TERM and this much time.
const ORPHAN_WAIT: Duration = Duration::from_millis(500);
/// Descendants that outlive the command get TERM and this much time.
const LEFTOVER_WAIT: Duration = Duration::from_millis(300);
/// How soon the gate's death is noticed by its pid, should its pipe not tell.
const LOOK_FOR_GATE_EVERY: Duration = Duration::from_millis(250);
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
    pub(super) method: Method,
    pub(super) gate: Option<Pid>,
    pub(super) end_wait: Duration,
    pub(super) term_wait: Duration,
    pub(super) files_max: Option<u64>,
}

/// Runs the command until it ends, and exits like it.
pub(super) fn run(job: &Job<'_>) -> ExitCode {
    // A different process name, so that killing the gate by name does not kill the guard.
    #[cfg(target_os = "linux")]
    std::fs::write("/proc/self/comm", "gate-child").ok();
    let Ok(signals) = Signals::install() else {
        return complain("cannot watch for signals", CANNOT_GUARD);
    };
    let tree = Tree::bind(job);
    // A gate that died before the line above would not be noticed.
    let (Ok(tree), true) = (tree, getppid() == job.gate) else {
        return ExitCode::from(CANNOT_GUARD);
    };
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
    start(tree, job, signals)
}

/// The processes that belong to the command, by either method.
enum Tree {
    #[cfg(target_os = "linux")]
    Kernel(KernelTree),
    Marks(MarkedTree),
}

impl Tree {
    fn bind(job: &Job<'_>) -> std::io::Result<Tree> {
        match job.method {
            #[cfg(target_os = "linux")]
            Method::Kernel => KernelTree::bind().map(Tree::Kernel),
            #[cfg(not(target_os = "linux"))]
            Method::Kernel => Err(std::io::ErrorKind::Unsupported.into()),
            Method::Marks => MarkedTree::bind(job).map(Tree::Marks),
        }
    }

    fn start(&mut self, job: &Job<'_>) -> std::io::Result<Pid> {
        let pid = match self {
            #[cfg(target_os = "linux")]
            Tree::Kernel(tree) => tree.start(job)?,
            Tree::Marks(tree) => tree.start(job)?,
        };
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| std::io::Error::other("no pid"))
    }

    fn signal_all(&self, signal: Signal) -> Vec<Process> {
        match self {
            #[cfg(target_os = "linux")]
            Tree::Kernel(tree) => tree.signal_all(signal),
            Tree::Marks(tree) => tree.signal_all(signal),
        }
    }
}

/// Starts the command and watches it.
fn start(mut tree: Tree, job: &Job<'_>, signals: Signals) -> ExitCode {
    let command = match tree.start(job) {
        Ok(command) => command,
        Err(error) => {
            return complain(&format!("cannot start a guarded command: {error}"), CANNOT_START);
        }
    };
    // Only the command writes to stdout from here on, so that its end closes the pipe.
    if let Ok(nothing) = File::options().write(true).open("/dev/null") {
        rustix::stdio::dup2_stdout(&nothing).ok();
    }
    Guard { job, command, tree, signals, status: None }.watch()
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
    tree: Tree,
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
                _ if getppid() != self.job.gate => self.terminate(ORPHAN_WAIT),
                _ if self.signals.stop.load(Ordering::Relaxed) => {
                    self.terminate(self.job.term_wait)
                }
                StopPhase::Ending(until) if until <= Instant::now() => {
                    self.terminate(self.job.term_wait)
                }
                StopPhase::Serving if input_ended => {
                    StopPhase::Ending(Instant::now() + self.job.end_wait)
                }
                same => same,
            };
        }
    }

    fn terminate(&self, wait: Duration) -> StopPhase {
        self.tree.signal_all(Signal::TERM);
        StopPhase::Terminating(Instant::now() + wait)
    }

    /// Waits for an event. True if the command's input has ended.
    fn wait(&mut self, phase: StopPhase) -> bool {
        let stdin = std::io::stdin();
        let mut fds = vec![PollFd::new(&self.signals.wake, PollFlags::IN)];
        // Only the gate holds the other end of stdin, so a hang-up means that it closed the pipe or died.
        // After that it is not polled, because the hang-up would wake up poll for ever.
        let serving = matches!(phase, StopPhase::Serving);
        if serving {
            // Linux reports a hang-up unasked; macOS does not.
            fds.push(PollFd::new(&stdin, PollFlags::HUP));
        }
        let pause = match (serving, self.job.method) {
            // The kernel tells when the gate dies.
            (true, Method::Kernel) => None,
            (true, Method::Marks) => Some(LOOK_FOR_GATE_EVERY),
            (false, _) => Some(TICK),
        };
        let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
        let events = poll(&mut fds, pause.as_ref()).unwrap_or(0);
        let hung_up = fds.get(1).is_some_and(|fd| {
            fd.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
        });
        if events > 0 && fds.iter().all(|fd| fd.revents().is_empty()) {
            // A system that wakes up for unread input, too, must not keep a core busy.
            std::thread::sleep(TICK);
        }
        let mut drain = [0_u8; 64];
        while self.signals.wake.read(&mut drain).is_ok_and(|bytes| bytes > 0) {}
        hung_up
    }

    /// Reaps all ended children, including adopted ones. True if nothing of the command is left. The kernel's answer
    /// is exact, while a list of processes may miss one whose parent dies meanwhile.
    fn reap(&mut self) -> bool {
        let is_childless = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == self.command {
                        self.status = Some(status);
                    }
                    match &mut self.tree {
                        #[cfg(target_os = "linux")]
                        Tree::Kernel(_) => {}
                        Tree::Marks(tree) => tree.ended(pid, self.job),
                    }
                }
                Ok(None) => break false,
                Err(error) => break error == Errno::CHILD,
            }
        };
        match &self.tree {
            #[cfg(target_os = "linux")]
            Tree::Kernel(_) => is_childless,
            // The keeper is a child too. Only asked once the command has ended, because a list takes its time.
            Tree::Marks(tree) => is_childless || (self.status.is_some() && tree.all().is_empty()),
        }
    }

    /// Ends all descendants, then exits like the command.
    fn leave(mut self, leftover_wait: Duration) -> ExitCode {
        if !leftover_wait.is_zero() && !self.reap() {
            self.tree.signal_all(Signal::TERM);
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
            killed.extend(self.tree.signal_all(Signal::KILL));
            if killed.len() > known {
                until = Instant::now() + KILL_WAIT_MAX;
            } else if began >= until {
                return;
            }
            std::thread::sleep(POLL_PAUSE);
        }
    }
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

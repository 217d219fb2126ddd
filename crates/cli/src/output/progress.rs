//! How far long work has come: one line that is rewritten on a terminal, a plain line now and then
//! elsewhere, nothing at all for work that is over quickly.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const TERMINAL_EVERY: Duration = Duration::from_millis(200);
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// The clock is asked once for so many steps.
const STEPS_PER_LOOK: u64 = 1024;

pub(crate) struct Progress {
    what: &'static str,
    terminal: bool,
    every: Duration,
    last: Instant,
    done: u64,
    drawn: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Progress {
        let terminal = io::stderr().is_terminal();
        let every = if terminal { TERMINAL_EVERY } else { PLAIN_EVERY };
        Progress { what, terminal, every, last: Instant::now(), done: 0, drawn: false }
    }

    /// So many steps are done now.
    pub(crate) fn at(&mut self, done: u64) {
        let look = done / STEPS_PER_LOOK != self.done / STEPS_PER_LOOK;
        self.done = done;
        if look && self.last.elapsed() >= self.every {
            self.draw(&format!("{} rows", self.done));
            self.last = Instant::now();
        }
    }

    /// For work that cannot say how far it is: shows how long it has been at it.
    pub(crate) fn during<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
        let (done, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut progress = Progress::new(what);
                let begin = progress.last;
                while ended.recv_timeout(progress.every) == Err(RecvTimeoutError::Timeout) {
                    progress.draw(&format!("{} s", begin.elapsed().as_secs()));
                }
            });
            let result = work();
            drop(done);
            result
        })
    }

    fn draw(&mut self, how_far: &str) {
        let (start, end) = if self.terminal { ("\r", "") } else { ("", "\n") };
        let mut stderr = io::stderr();
        let _ = write!(stderr, "{start}{}: {how_far}{end}", self.what);
        let _ = stderr.flush();
        self.drawn = true;
    }
}

impl Drop for Progress {
    /// The last line is wiped, so that what follows starts on a clean one.
    fn drop(&mut self) {
        if self.drawn && self.terminal {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

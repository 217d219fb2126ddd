//! How far long work has come: one line that is rewritten on a terminal, a plain line now and then
//! elsewhere, nothing at all for work that is over quickly.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const TERMINAL_EVERY: Duration = Duration::from_millis(200);
const PLAIN_EVERY: Duration = Duration::from_secs(5);
const WIDTH: usize = 24;
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

    /// So much of a whole is done, and so many rows with it.
    pub(crate) fn share(&mut self, done: u64, whole: u64, rows: u64) {
        if self.last.elapsed() < self.every {
            return;
        }
        let percent = done.min(whole).saturating_mul(100).checked_div(whole).unwrap_or(0);
        let bar = if self.terminal { format!("[{}] ", filled(percent)) } else { String::new() };
        self.draw(&format!("{bar}{percent} %, {rows} rows"));
        self.last = Instant::now();
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
        let (start, end) = if self.terminal { ("\r", "\u{1b}[K") } else { ("", "\n") };
        let mut stderr = io::stderr();
        let _ = write!(stderr, "{start}{}: {how_far}{end}", self.what);
        let _ = stderr.flush();
        self.drawn = true;
    }
}

/// `#####...................`
fn filled(percent: u64) -> String {
    let full = usize::try_from(percent.min(100)).unwrap_or(100) * WIDTH / 100;
    format!("{}{}", "#".repeat(full), ".".repeat(WIDTH - full))
}

impl Drop for Progress {
    /// The last line is wiped, so that what follows starts on a clean one.
    fn drop(&mut self) {
        if self.drawn && self.terminal {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn the_bar_is_never_longer_than_its_room() {
        for (percent, full) in [(0, 0), (50, 12), (100, 24), (700, 24)] {
            let bar = filled(percent);
            assert_eq!((bar.len(), bar.matches('#').count()), (24, full), "{percent}");
        }
    }
}

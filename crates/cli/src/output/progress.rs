//! Progress of long work: a bar or a counter on a terminal, a plain line now and then elsewhere, and
//! nothing for work that finishes quickly.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// The clock is read once per this many steps.
const STEPS_PER_CHECK: u64 = 1024;

const COUNTER: &str = "{prefix}: {msg}";
const BAR: &str = "{prefix}: [{bar:24}] {msg}";

pub(crate) struct Progress {
    what: &'static str,
    unit: &'static str,
    is_terminal: bool,
    last: Instant,
    done: u64,
    /// Created when the first line is due.
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Progress {
        let is_terminal = io::stderr().is_terminal();
        Progress { what, unit: "rows", is_terminal, last: Instant::now(), done: 0, bar: None }
    }

    /// The same with another unit than rows.
    pub(crate) fn counting(mut self, unit: &'static str) -> Progress {
        self.unit = unit;
        self
    }

    /// Reports the number of steps done.
    pub(crate) fn at(&mut self, done: u64) {
        let check = done / STEPS_PER_CHECK != self.done / STEPS_PER_CHECK;
        self.done = done;
        if check && self.is_due() {
            self.draw(None, format!("{done} {}", self.unit));
        }
    }

    /// Reports the share done and the number of rows.
    pub(crate) fn share(&mut self, done: u64, whole: u64, rows: u64) {
        if self.is_due() {
            let done = done.min(whole);
            let percent = done.saturating_mul(100).checked_div(whole).unwrap_or(0);
            self.draw(Some((done, whole)), format!("{percent} %, {rows} {}", self.unit));
        }
    }

    /// For work of unknown length: shows how long it has been running.
    pub(crate) fn during<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
        let (done, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut progress = Progress::new(what);
                let begin = progress.last;
                while ended.recv_timeout(progress.interval()) == Err(RecvTimeoutError::Timeout) {
                    progress.draw(None, format!("{} s", begin.elapsed().as_secs()));
                }
            });
            let result = work();
            drop(done);
            result
        })
    }

    fn interval(&self) -> Duration {
        if self.is_terminal { TERMINAL_INTERVAL } else { PLAIN_INTERVAL }
    }

    fn is_due(&self) -> bool {
        self.last.elapsed() >= self.interval()
    }

    fn draw(&mut self, share: Option<(u64, u64)>, text: String) {
        self.last = Instant::now();
        if !self.is_terminal {
            let _ = writeln!(io::stderr(), "{}: {text}", self.what);
            return;
        }
        let bar = self.bar.get_or_insert_with(|| new_bar(self.what, share.is_some()));
        if let Some((done, whole)) = share {
            bar.update(|state| {
                state.set_len(whole);
                state.set_pos(done);
            });
        }
        bar.set_message(text);
    }
}

fn new_bar(what: &'static str, has_share: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(if has_share { BAR } else { COUNTER });
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("#."))
        .with_prefix(what)
}

impl Drop for Progress {
    /// Clears the last line for the output that follows.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in [COUNTER, BAR] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}

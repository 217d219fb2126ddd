//! How far a sync has come: a bar on a terminal, a plain line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use connectors::sync::{Mirror, Step};

const TERMINAL_EVERY: Duration = Duration::from_millis(100);
const PLAIN_EVERY: Duration = Duration::from_secs(5);
const WIDTH: usize = 24;

pub(super) struct Bar {
    service: &'static str,
    terminal: bool,
    state: Mutex<State>,
}

struct State {
    /// Name, records so far, share done.
    parts: Vec<(&'static str, u64, f64)>,
    last: Instant,
    drawn: bool,
}

impl Bar {
    pub(super) fn new(mirror: &'static Mirror, only: Option<&[String]>) -> Bar {
        let wanted = |name: &str| only.is_none_or(|only| only.iter().any(|wanted| wanted == name));
        let names = mirror.resources.iter().map(|resource| resource.name);
        let parts = names.filter(|name| wanted(name)).map(|name| (name, 0, 0.0)).collect();
        let state = State { parts, last: Instant::now(), drawn: false };
        let terminal = io::stderr().is_terminal();
        Bar { service: mirror.service, terminal, state: Mutex::new(state) }
    }

    pub(super) fn step(&self, step: Step<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Step::Waits => {
                let _ =
                    writeln!(io::stderr(), "another sync of {} is running; waiting", self.service);
                return;
            }
            Step::Page { resource, records, share } => {
                state.put(resource, |part| (part.1, part.2) = (records, share));
            }
            Step::Done { resource } => state.put(resource, |part| part.2 = 1.0),
        }
        let every = if self.terminal { TERMINAL_EVERY } else { PLAIN_EVERY };
        if state.last.elapsed() >= every {
            state.last = Instant::now();
            state.drawn = true;
            self.draw(&state);
        }
    }

    fn draw(&self, state: &State) {
        let records: u64 = state.parts.iter().map(|part| part.1).sum();
        let share = state.share();
        let (start, end) = if self.terminal { ("\r", "\u{1b}[K") } else { ("", "\n") };
        let bar = if self.terminal { format!("[{}] ", filled(share)) } else { String::new() };
        let mut stderr = io::stderr();
        let percent = share * 100.0;
        let _ =
            write!(stderr, "{start}{}: {bar}{percent:.0} %, {records} records{end}", self.service);
        let _ = stderr.flush();
    }
}

impl State {
    fn put(&mut self, name: &str, set: impl FnOnce(&mut (&'static str, u64, f64))) {
        if let Some(part) = self.parts.iter_mut().find(|part| part.0 == name) {
            set(part);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a handful of parts")]
    fn share(&self) -> f64 {
        let sum: f64 = self.parts.iter().map(|part| part.2).sum();
        sum / (self.parts.len().max(1) as f64)
    }
}

/// `#######.................`
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share between 0 and 1 of a small width"
)]
fn filled(share: f64) -> String {
    let full = ((share.clamp(0.0, 1.0) * WIDTH as f64).round() as usize).min(WIDTH);
    format!("{}{}", "#".repeat(full), ".".repeat(WIDTH - full))
}

impl Drop for Bar {
    /// The line is wiped, so that what follows starts on a clean one.
    fn drop(&mut self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.drawn && self.terminal {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn the_bar_is_never_longer_than_its_room() {
        for (share, full) in [(0.0, 0), (0.5, 12), (1.0, 24), (7.0, 24), (-1.0, 0)] {
            let bar = filled(share);
            assert_eq!((bar.len(), bar.matches('#').count()), (24, full), "{share}");
        }
    }
}

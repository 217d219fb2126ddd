//! Progress of a sync over all its resources.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use connectors::sync::{Mirror, SyncProgress};

use crate::output::Progress;

/// The units of a complete resource; the share of each is between 0 and 1.
const WHOLE: f64 = 1000.0;

pub(super) struct Bar {
    service: &'static str,
    state: Mutex<State>,
}

struct State {
    /// Name, records so far, share done.
    parts: Vec<(&'static str, u64, f64)>,
    progress: Progress,
}

impl Bar {
    pub(super) fn new(mirror: &'static Mirror, only: Option<&[String]>) -> Bar {
        let wanted = |name: &str| only.is_none_or(|only| only.iter().any(|wanted| wanted == name));
        let names = mirror.resources.iter().map(|resource| resource.name);
        let parts = names.filter(|name| wanted(name)).map(|name| (name, 0, 0.0)).collect();
        let progress = Progress::new(mirror.service).counting("records");
        Bar { service: mirror.service, state: Mutex::new(State { parts, progress }) }
    }

    pub(super) fn step(&self, step: SyncProgress<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            SyncProgress::Waits => {
                let _ =
                    writeln!(io::stderr(), "another sync of {} is running; waiting", self.service);
                return;
            }
            SyncProgress::Page { resource, records, share } => {
                state.put(resource, |part| (part.1, part.2) = (records, share));
            }
            SyncProgress::Done { resource } => state.put(resource, |part| part.2 = 1.0),
        }
        state.draw();
    }
}

impl State {
    fn put(&mut self, name: &str, set: impl FnOnce(&mut (&'static str, u64, f64))) {
        if let Some(part) = self.parts.iter_mut().find(|part| part.0 == name) {
            set(part);
        }
    }

    fn draw(&mut self) {
        let records = self.parts.iter().map(|part| part.1).sum();
        let done = self.parts.iter().map(|part| thousandths(part.2)).sum();
        let whole = thousandths(1.0) * self.parts.len().max(1) as u64;
        self.progress.share(done, whole, records);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1 of a small whole"
)]
fn thousandths(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * WHOLE).round() as u64
}

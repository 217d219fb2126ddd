//! How the servers behind a running gate stand at this moment, for its owner only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::peer::Peer;
use crate::server::{Reach, Server};
use crate::upstream::State;

/// What a server's requests leave behind for whoever asks how it stands.
#[derive(Default)]
pub(crate) struct Marks {
    in_flight: Arc<AtomicU64>,
    failing: AtomicBool,
    last_error: Mutex<Option<(i64, String)>>,
}

/// A request is with its server as long as this lives.
pub(crate) struct Under(Arc<AtomicU64>);

impl Drop for Under {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Marks {
    pub(crate) fn under_way(&self) -> Under {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Under(Arc::clone(&self.in_flight))
    }

    /// The server answered. Written only after a failure, because this is on the way of every call.
    pub(crate) fn went_well(&self) {
        if self.failing.load(Ordering::Relaxed) {
            self.failing.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn went_wrong(&self, at_us: i64, words: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((at_us, words));
        self.failing.store(true, Ordering::Relaxed);
    }
}

impl Gate {
    /// How every server stands: what it is, its processes, what is in flight and what went wrong last.
    pub fn standing(&self) -> Value {
        let peers: Vec<Arc<Peer>> =
            self.sessions.all().iter().flat_map(|session| session.peers()).collect();
        let in_force = self.in_force();
        let mut servers: Vec<Arc<Server>> = in_force.servers.values().cloned().collect();
        for peer in &peers {
            // A wrapped command is in no registry.
            if !servers.iter().any(|server| Arc::ptr_eq(server, &peer.server)) {
                servers.push(Arc::clone(&peer.server));
            }
        }
        let servers: Vec<Value> = servers.iter().map(|server| one(server, &peers)).collect();
        json!({ "sessions": self.sessions.count(), "servers": servers })
    }
}

fn one(server: &Arc<Server>, peers: &[Arc<Peer>]) -> Value {
    let mut own = server.shared_now();
    own.extend(peers.iter().filter(|peer| Arc::ptr_eq(&peer.server, server)).cloned());
    let processes: Vec<Value> =
        own.iter().filter_map(|peer| process(peer.child_state()?)).collect();
    let marks = &server.marks;
    let last_error = marks.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
    json!({
        "name": server.name,
        "kind": kind(&server.reach),
        "state": state(server, &own, &processes),
        "conversations": own.len(),
        "processes": processes,
        "in_flight": marks.in_flight.load(Ordering::Relaxed),
        "stderr": server.last_words(),
        "last_error": last_error.map(|(at_us, words)| json!({ "at_us": at_us, "words": words })),
    })
}

fn kind(reach: &Reach) -> &'static str {
    match reach {
        Reach::Builtin(_) => "built-in",
        Reach::Http(_) => "url",
        Reach::Child(_) => "command",
        Reach::Broken(_) => "broken",
    }
}

fn state(server: &Server, own: &[Arc<Peer>], processes: &[Value]) -> &'static str {
    let is = |wanted: &str| processes.iter().any(|process| process["state"] == wanted);
    match &server.reach {
        Reach::Broken(_) => "broken",
        Reach::Builtin(_) => "ready",
        Reach::Child(_) if is("restarting") => "restarting",
        _ if server.marks.failing.load(Ordering::Relaxed) => "failing",
        Reach::Child(_) if is("running") => "running",
        Reach::Http(_) if !own.is_empty() => "in use",
        _ => "not in use",
    }
}

fn process(state: State) -> Option<Value> {
    Some(match state {
        State::Running { pid, run } => {
            json!({ "state": "running", "pid": pid, "restarts": run.saturating_sub(1) })
        }
        State::Backoff { until, reason } => {
            let again_in = until.saturating_duration_since(tokio::time::Instant::now());
            json!({
                "state": "restarting",
                "reason": reason,
                "again_in_ms": u64::try_from(again_in.as_millis()).unwrap_or(u64::MAX),
            })
        }
        State::Stopped => return None,
    })
}

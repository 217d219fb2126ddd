//! The status of the servers behind a running gate, for its owner only.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::upstream::ChildState;
use crate::upstream::peer::Peer;
use crate::upstream::server::{Backend, Server};

impl Gate {
    /// The status of every server: kind, processes, calls in flight and the last error.
    pub fn standing(&self) -> Value {
        let peers: Vec<Arc<Peer>> =
            self.state.sessions.all().iter().flat_map(|session| session.peers()).collect();
        let snapshot = self.state.snapshots.current();
        let mut servers: Vec<Arc<Server>> = snapshot.servers.values().cloned().collect();
        for peer in &peers {
            // A wrapped command is in no registry.
            if !servers.iter().any(|server| Arc::ptr_eq(server, &peer.server)) {
                servers.push(Arc::clone(&peer.server));
            }
        }
        let servers: Vec<Value> = servers.iter().map(|server| one(server, &peers)).collect();
        json!({ "sessions": self.state.sessions.count(), "servers": servers })
    }
}

fn one(server: &Arc<Server>, peers: &[Arc<Peer>]) -> Value {
    let mut own = server.shared_now();
    own.extend(peers.iter().filter(|peer| Arc::ptr_eq(&peer.server, server)).cloned());
    let processes: Vec<Value> =
        own.iter().filter_map(|peer| process(peer.child_state()?)).collect();
    let health = &server.health;
    json!({
        "name": server.name,
        "kind": kind(&server.backend),
        "state": state(server, &own, &processes),
        "conversations": own.len(),
        "processes": processes,
        "in_flight": health.in_flight(),
        "stderr": server.last_stderr(),
        "last_error": health.last_error().map(|(at_us, message)| json!({ "at_us": at_us, "words": message })),
    })
}

fn kind(reach: &Backend) -> &'static str {
    match reach {
        Backend::Builtin(_) => "built-in",
        Backend::Http(_) => "url",
        Backend::Child(_) => "command",
        Backend::Broken(_) => "broken",
    }
}

fn state(server: &Server, own: &[Arc<Peer>], processes: &[Value]) -> &'static str {
    let is = |wanted: &str| processes.iter().any(|process| process["state"] == wanted);
    match &server.backend {
        Backend::Broken(_) => "broken",
        Backend::Builtin(_) => "ready",
        Backend::Child(_) if is("restarting") => "restarting",
        _ if server.health.is_failing() => "failing",
        Backend::Child(_) if is("running") => "running",
        Backend::Http(_) if !own.is_empty() => "in use",
        _ => "not in use",
    }
}

fn process(state: ChildState) -> Option<Value> {
    Some(match state {
        ChildState::Running { pid, run } => {
            json!({ "state": "running", "pid": pid, "restarts": run.saturating_sub(1) })
        }
        ChildState::Backoff { until, reason } => {
            let again_in = until.saturating_duration_since(tokio::time::Instant::now());
            json!({
                "state": "restarting",
                "reason": reason,
                "again_in_ms": u64::try_from(again_in.as_millis()).unwrap_or(u64::MAX),
            })
        }
        ChildState::Stopped => return None,
    })
}

//! Keeps a running gate true to what the owner wrote: notices changes, ends what has expired.

use std::sync::Arc;
use std::time::Duration;

use store::effective::Effective;
use store::registry::POLL_MS;
use store::settings::Settings;

use crate::approvals;
use crate::gate::Gate;
use crate::serve::turned_true;

/// Where a changed settings file comes from. Reading files and the environment is the caller's.
pub type ReadSettings = Box<dyn Fn() -> Changed + Send + Sync>;

/// What looking at the settings file found.
pub enum Changed {
    No,
    Yes(Box<Settings>),
    /// It is broken; what was in force stays.
    Broken(String),
}

const TICKS_PER_MINUTE: u64 = 60_000 / POLL_MS;
/// Approvals also end by time, of which nobody is told.
const FORGET_TICKS: u64 = 5_000 / POLL_MS;
/// The arguments of a call that waited for a human are kept so long; no approval lasts longer.
const PARKED_DAYS_MAX: i64 = 7;

/// Looks for changes until the gate stops.
pub(crate) async fn keep(gate: Arc<Gate>, read_settings: Option<ReadSettings>) {
    gate.tracer.start(Arc::clone(&gate.ledger));
    let mut stopping = gate.stopping();
    let mut every = tokio::time::interval(Duration::from_millis(POLL_MS));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut ticks, mut seen) = (0_u64, None);
    let mut forgetting: Option<tokio::task::JoinHandle<()>> = None;
    let read_settings: Option<Arc<dyn Fn() -> Changed + Send + Sync>> =
        read_settings.map(Arc::from);
    loop {
        tokio::select! {
            _ = every.tick() => {}
            () = turned_true(&mut stopping) => return gate.save_tasks(),
        }
        let looked = tokio::task::spawn_blocking(look_aside(&gate, read_settings.as_ref()));
        tokio::select! {
            _ = looked => {}
            () = turned_true(&mut stopping) => return,
        }
        gate.tell_of_strangers(false);
        ticks += 1;
        // What was parked for a call goes when its approval was used, denied or has ended.
        let generation = gate.ledger.generation();
        let is_due = seen != Some(generation) || ticks.is_multiple_of(FORGET_TICKS);
        if is_due && forgetting.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
            seen = Some(generation);
            let gate = Arc::clone(&gate);
            forgetting = Some(tokio::task::spawn_blocking(move || approvals::forget_over(&gate)));
        }
        if ticks.is_multiple_of(TICKS_PER_MINUTE) {
            forget_parked(&gate);
            gate.save_tasks();
            record_acts(&gate);
        }
    }
}

/// Reads what the owner wrote and compiles it, on a thread where nobody is served: a slow disk or a large
/// policy holds up no call, and no stop.
fn look_aside(
    gate: &Arc<Gate>,
    read_settings: Option<&Arc<dyn Fn() -> Changed + Send + Sync>>,
) -> impl FnOnce() + Send + 'static {
    let (gate, read_settings) = (Arc::clone(gate), read_settings.cloned());
    move || {
        if let Some(read) = read_settings {
            take_settings(&gate, read());
        }
        gate.look_now();
    }
}

impl Gate {
    /// Takes over what the registry says now, without waiting for the next look. When this returns,
    /// the next call is judged by it.
    pub fn look_now(self: &Arc<Self>) {
        take_registry(self);
        sweep(self);
    }
}

fn take_settings(gate: &Gate, changed: Changed) {
    let settings = match changed {
        Changed::No => return,
        Changed::Broken(words) => return keep_the_old(gate, &words),
        Changed::Yes(settings) => Arc::new(*settings),
    };
    let _turn = gate.turn_to_look();
    let snapshot = match gate.registry.snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => return keep_the_old(gate, &error.to_string()),
    };
    match Effective::merge(snapshot, Arc::clone(&settings)) {
        Ok(effective) => {
            gate.settings.store(settings);
            gate.put_in_force(effective);
            tracing::info!("tollgate.toml was read again and is in force");
        }
        Err(error) => keep_the_old(gate, &error.to_string()),
    }
}

fn keep_the_old(gate: &Gate, words: &str) {
    gate.metrics.reload_failures.inc();
    tracing::error!("the change in tollgate.toml is not taken, what was in force stays: {words}");
}

fn take_registry(gate: &Gate) {
    let _turn = gate.turn_to_look();
    let generation = gate.in_force().effective.generation;
    match gate.registry.changed(generation) {
        Ok(false) => gate.set_store_trouble(None),
        Ok(true) => match gate.registry.snapshot() {
            Ok(snapshot) => {
                gate.put_in_force(Effective::merge_closed(snapshot, gate.settings.load_full()));
                gate.set_store_trouble(None);
            }
            Err(error) => gate.set_store_trouble(Some(error.to_string())),
        },
        // Grants and policies may have changed where we cannot look: nothing passes until we can.
        Err(error) => gate.set_store_trouble(Some(error.to_string())),
    }
}

/// Arguments that nobody will look at any more do not stay, not even sealed.
fn forget_parked(gate: &Gate) {
    let now_us = gate.clock.now().wall_us;
    if let Err(error) =
        gate.registry.delete_parked_before(now_us - PARKED_DAYS_MAX * 86_400_000_000)
    {
        tracing::debug!(%error, "old parked arguments could not be deleted");
    }
    if let Err(error) = gate.registry.note_time(now_us) {
        tracing::debug!(%error, "the time could not be noted");
    }
}

/// A command that was killed after its change and before its row has left the row to others.
fn record_acts(gate: &Gate) {
    match gate.registry.record_acts(&gate.ledger, gate.clock.now().wall_us) {
        Ok(0) => {}
        Ok(rows) => tracing::info!(rows, "recorded what a command that was killed had changed"),
        Err(error) => tracing::warn!(%error, "a change of the owner could not be recorded yet"),
    }
}

fn sweep(gate: &Arc<Gate>) {
    let now = gate.clock.now();
    let idle_us = i64::try_from(gate.bounds.session_idle_max.as_micros()).unwrap_or(i64::MAX);
    let gone_us = i64::try_from(gate.bounds.session_gone_max.as_micros()).unwrap_or(i64::MAX);
    gate.rounds.sweep(gate.now_us());
    gate.end_replaced_tokens();
    let in_force = gate.in_force();
    let ended = gate.sessions.take(|session| {
        let idle = now.wall_us.saturating_sub(session.used_at_us()) > idle_us;
        let is_gone = session.gone_us(now.wall_us) > gone_us;
        idle && !session.is_listened_to()
            || is_gone
            || !Gate::holds(&in_force, &session.grant, session.server.as_deref())
    });
    for session in ended {
        Gate::close_peers(session.end());
    }
    for server in in_force.servers.values() {
        let name = Some(server.name.as_str());
        Gate::close_peers(server.take_shared(|grant| !Gate::holds(&in_force, grant, name)));
        let is_heard = |grant: &str| gate.is_heard(&server.name, grant);
        Gate::close_peers(server.take_quiet(now.steady_us, idle_us.unsigned_abs(), is_heard));
    }
    match gate.registry.expire_due(gate.now_us()) {
        Ok(expired) if !expired.is_empty() => {
            tracing::info!(grants = ?expired, "grants have expired");
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "expiries could not be noted"),
    }
}

//! The reload loop: polls settings and registry, swaps snapshots, expires grants and idle sessions.

use std::sync::Arc;
use std::time::Duration;

use store::effective::Effective;
use store::registry::POLL_MS;
use store::settings::Settings;

use crate::exchange::approvals;
use crate::gate::Gate;
use crate::gate::trace_export;
use crate::runtime::Services;
use crate::runtime::stop_signal::turned_true;
use crate::upstream::peer;

/// Polls the settings file. Reading files and the environment is up to the caller.
pub type ReadSettings = Box<dyn Fn() -> Changed + Send + Sync>;

/// The result of polling the settings file.
pub enum Changed {
    No,
    Yes(Box<Settings>),
    /// Invalid; the current settings stay.
    Broken(String),
}

const TICKS_PER_MINUTE: u64 = 60_000 / POLL_MS;
/// Approvals also expire, which changes no generation.
const FORGET_TICKS: u64 = 5_000 / POLL_MS;
/// Arguments of a parked call are kept this long; no approval lasts longer.
const PARKED_DAYS_MAX: i64 = 7;

/// Polls for changes until the gate stops.
pub(crate) async fn run(gate: Arc<Gate>, read_settings: Option<ReadSettings>) {
    let services = gate.services();
    if let Some((spans, url)) = services.tracer.take_spans() {
        tokio::spawn(trace_export::send_all(spans, url, Arc::clone(&services.ledger)));
    }
    let mut stopping = services.stopping();
    let mut every = tokio::time::interval(Duration::from_millis(POLL_MS));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut ticks, mut seen) = (0_u64, None);
    gate.registry_loaded();
    let mut tried = 0;
    let mut forgetting: Option<tokio::task::JoinHandle<()>> = None;
    let read_settings: Option<Arc<dyn Fn() -> Changed + Send + Sync>> =
        read_settings.map(Arc::from);
    loop {
        tokio::select! {
            _ = every.tick() => {}
            // Requests wait for it. One that cannot be read is tried again with the next tick.
            wanted = services.ledger.registry_wanted_after(tried) => tried = wanted,
            () = turned_true(&mut stopping) => return gate.state.tasks.save(services),
        }
        let looked = tokio::task::spawn_blocking(reload_task(&gate, read_settings.as_ref()));
        tokio::select! {
            _ = looked => {}
            () = turned_true(&mut stopping) => return,
        }
        ticks += 1;
        // Parked arguments are deleted when the approval was used, denied or has expired.
        let generation = services.ledger.generation();
        let is_due = seen != Some(generation) || ticks.is_multiple_of(FORGET_TICKS);
        if is_due && forgetting.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
            seen = Some(generation);
            let services = Arc::clone(services);
            forgetting =
                Some(tokio::task::spawn_blocking(move || approvals::delete_ended(&services)));
        }
        if ticks.is_multiple_of(TICKS_PER_MINUTE) {
            forget_parked(services);
            gate.state.tasks.save(services);
            let gate = Arc::clone(&gate);
            // Reads the log, which may be on a slow disk.
            drop(tokio::task::spawn_blocking(move || {
                check_registry(&gate);
                record_acts(gate.services());
                remember_log(gate.services());
                prune_captures(gate.services());
            }));
        }
    }
}

fn prune_captures(services: &Services) {
    let now_us = services.clock.now().wall_us;
    if let Err(error) = services.captures.prune(now_us, &services.capture_limits) {
        tracing::error!(%error, "could not delete old captured arguments; will retry");
    }
}

/// Reads and compiles what the owner changed, on a blocking thread: a slow disk or a large policy
/// delays neither a call nor a shutdown.
fn reload_task(
    gate: &Arc<Gate>,
    read_settings: Option<&Arc<dyn Fn() -> Changed + Send + Sync>>,
) -> impl FnOnce() + Send + 'static {
    let (gate, read_settings) = (Arc::clone(gate), read_settings.cloned());
    move || {
        if let Some(read) = read_settings {
            take_settings(&gate, read());
        }
        gate.reload_now();
        gate.services().flush_anonymous_rows(false);
    }
}

impl Gate {
    /// Reloads the registry now instead of at the next poll. After it returns, calls are judged by
    /// the new snapshot.
    pub fn reload_now(self: &Arc<Self>) {
        take_registry(self);
        sweep(self);
    }
}

fn take_settings(gate: &Gate, changed: Changed) {
    let settings = match changed {
        Changed::No => return,
        Changed::Broken(message) => return keep_the_old(gate, &message),
        Changed::Yes(settings) => Arc::new(*settings),
    };
    let _lock = gate.state.snapshots.read_lock();
    let snapshot = match gate.services().registry.snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => return keep_the_old(gate, &error.to_string()),
    };
    match Effective::merge(snapshot, settings) {
        Ok(effective) => {
            gate.install_snapshot(effective);
            tracing::info!("reloaded tollgate.toml");
        }
        Err(error) => keep_the_old(gate, &error.to_string()),
    }
}

fn keep_the_old(gate: &Gate, message: &str) {
    gate.services().metrics.reload_failures.inc();
    tracing::error!("could not reload tollgate.toml; still using the previous settings: {message}");
}

fn take_registry(gate: &Gate) {
    let (services, snapshots) = (gate.services(), &gate.state.snapshots);
    let _lock = snapshots.read_lock();
    let generation = snapshots.current().effective.generation;
    match services.registry.changed(generation) {
        Ok(false) => services.set_store_failure(None),
        Ok(true) => match services.registry.snapshot() {
            Ok(snapshot) => {
                gate.install_snapshot(Effective::merge_closed(snapshot, snapshots.settings()));
                services.set_store_failure(None);
            }
            Err(error) => services.set_store_failure(Some(error.to_string())),
        },
        // Grants and policies may have changed and cannot be read: deny everything until they can.
        Err(error) => services.set_store_failure(Some(error.to_string())),
    }
}

/// Deletes arguments of old parked calls: data without a use is not kept, not even sealed.
fn forget_parked(services: &Services) {
    let now_us = services.clock.now().wall_us;
    if let Err(error) =
        services.registry.delete_parked_before(now_us - PARKED_DAYS_MAX * 86_400_000_000)
    {
        tracing::debug!(%error, "could not delete old parked arguments");
    }
    if let Err(error) = services.registry.note_time(now_us) {
        tracing::debug!(%error, "could not store the time");
    }
}

/// Detects that `gate.db` was replaced by an older copy, so that no revoked grant becomes valid
/// again.
fn check_registry(gate: &Arc<Gate>) {
    let services = gate.services();
    match services.registry.check_rollback(&services.ledger, services.clock.now().wall_us) {
        Ok(None) => {}
        Ok(Some(found)) => {
            tracing::error!("{}", found.words());
            gate.reload_now();
        }
        Err(error) => tracing::debug!(%error, "could not compare gate.db with the audit log"),
    }
}

/// Stores the last audit row in `gate.db`, so that the next comparison reads at most a minute of
/// rows.
fn remember_log(services: &Services) {
    let Ok(row) = services.ledger.checkpoint() else { return };
    if let Err(error) = services.registry.remember_log(&row, services.clock.now().wall_us) {
        tracing::debug!(%error, "could not store the last audit row");
    }
}

/// Records changes of commands that were killed between the change and its audit row.
fn record_acts(services: &Services) {
    match services.registry.record_acts(&services.ledger, services.clock.now().wall_us) {
        Ok(0) => {}
        Ok(rows) => tracing::info!(rows, "recorded changes of a command that was killed"),
        Err(error) => tracing::warn!(%error, "could not record a change of the owner; will retry"),
    }
}

fn sweep(gate: &Gate) {
    let (state, services) = (&gate.state, gate.services());
    let (now, bounds) = (services.clock.now(), &services.bounds);
    let idle_us = i64::try_from(bounds.session_idle_max.as_micros()).unwrap_or(i64::MAX);
    let gone_us = i64::try_from(bounds.session_gone_max.as_micros()).unwrap_or(i64::MAX);
    gate.parked.sweep(services.now_us());
    state.snapshots.end_replaced_tokens(services.now_us());
    let snapshot = state.snapshots.current();
    let ended = state.sessions.take(|session| {
        let idle = now.wall_us.saturating_sub(session.used_at_us()) > idle_us;
        let is_gone = session.gone_us(now.wall_us) > gone_us;
        idle && !session.has_stream()
            || is_gone
            || !snapshot.has_access(&session.grant, session.server.as_deref())
    });
    for session in ended {
        peer::close_all(session.end());
    }
    for server in snapshot.servers.values() {
        let name = Some(server.name.as_str());
        peer::close_all(server.take_shared(|grant| !snapshot.has_access(grant, name)));
        let is_heard = |grant: &str| state.streams.is_listened_to(&server.name, grant);
        peer::close_all(server.take_idle(now.steady_us, idle_us.unsigned_abs(), is_heard));
    }
    match services.registry.expire_due(services.now_us()) {
        Ok(expired) if !expired.is_empty() => {
            tracing::info!(grants = ?expired, "grants have expired");
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "could not record expired grants"),
    }
}

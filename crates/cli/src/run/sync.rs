//! Brings connected accounts up to date while a gate runs: one at a time, not more often than the
//! owner wants, and never while another process does the same.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use connectors::sync::{self, Asked, Mirror};
use connectors::{Desk, Service};
use gateway::{Came, Gate, LazyDesk};
use serde_json::Value;
use store::accounts::State;
use store::clock::Clock;
use store::ledger::{Ledger, Note};
use store::random::Random;
use tokio::sync::watch;

use crate::context::{Context, Stores};
use crate::services;

/// How often it is looked whether something is due. Also what a new account waits at most.
const LOOK_EVERY: Duration = Duration::from_secs(15);
const MINUTE_US: i64 = 60_000_000;
/// Between two syncs up to this part of the interval is added, so that many gates of one owner do
/// not ask a service in the same second.
const JITTER_PARTS: i64 = 10;

/// One account that is kept up to date.
struct Keeping {
    service: &'static Service,
    mirror: &'static Mirror,
    gate: Arc<Gate>,
    desk: Arc<LazyDesk>,
    ledger: Arc<Ledger>,
    /// There when the account is connected; looked at before anything is opened.
    account_file: PathBuf,
    clock: Clock,
    random: Random,
}

/// Starts to keep every account that can be mirrored. Ends with `stop`.
pub(super) fn start(
    stores: &Stores,
    context: &Context,
    gate: &Arc<Gate>,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    for (service, _) in services::with_accounts() {
        let Some(mirror) = sync::mirror(service.name) else { continue };
        let keeping = Keeping {
            service,
            mirror,
            gate: Arc::clone(gate),
            desk: stores.lazy_desk(),
            ledger: Arc::clone(stores.gate_ledger()?),
            account_file: services::account_file(&stores.home, service),
            clock: context.clock.clone(),
            random: context.random.clone(),
        };
        tokio::spawn(keeping.keep(stop.clone()));
    }
    Ok(())
}

impl Keeping {
    async fn keep(self, mut stop: watch::Receiver<bool>) {
        let mut jitter_us = 0;
        loop {
            let stopped = async {
                let _ = stop.wait_for(|stop| *stop).await;
            };
            tokio::select! {
                () = self.once(&mut jitter_us) => {}
                () = stopped => return,
            }
            let stopped = async {
                let _ = stop.wait_for(|stop| *stop).await;
            };
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = stopped => return,
            }
        }
    }

    /// Looks whether a sync is due, and makes it.
    async fn once(&self, jitter_us: &mut i64) {
        let minutes = self.gate.settings().service(self.service.name).sync_interval_minutes;
        if minutes == 0 || !self.account_file.exists() {
            return;
        }
        let interval_us = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(MINUTE_US);
        let desk = match self.desk.get() {
            Ok(desk) => desk,
            Err(error) => return tracing::error!(%error, "no account can be synced"),
        };
        if !self.is_due(&desk, interval_us.saturating_add(*jitter_us)) {
            return;
        }
        *jitter_us = self.random_below(interval_us / JITTER_PARTS);
        self.sync(&desk).await;
    }

    /// A login that is dead waits for its owner, and a sync of anybody counts.
    fn is_due(&self, desk: &Desk, interval_us: i64) -> bool {
        let name = self.service.name;
        let live = desk
            .accounts
            .facts(name)
            .is_ok_and(|facts| facts.is_some_and(|facts| facts.state == State::Live));
        let Ok(runs) = desk.records.runs(name, 1) else { return false };
        let last_us = runs.first().map(|run| run.started_us);
        let due = |last_us: i64| self.clock.now().wall_us >= last_us.saturating_add(interval_us);
        live && last_us.is_none_or(due)
    }

    async fn sync(&self, desk: &Desk) {
        let name = self.service.name;
        let ended = sync::run(desk, self.mirror, &Asked::default(), &|_| {}).await;
        let (came, words) = match ended {
            Ok(result) => (came(&result), said(&result)),
            Err(error) => (Came::Bad, error.to_string()),
        };
        match came {
            Came::Good => tracing::info!(service = name, "synced: {words}"),
            Came::Bad => tracing::warn!(service = name, "not synced: {words}"),
        }
        self.gate.note_sync(self.service, came);
        let act = if came == Came::Good { "synced" } else { "sync_failed" };
        let note = Note { act, by: "tollgate", about: name, words: &words };
        if let Err(error) = self.ledger.note(&note) {
            tracing::error!(%error, "a sync could not be recorded");
        }
    }

    fn random_below(&self, most: i64) -> i64 {
        let mut bytes = [0; 8];
        if self.random.fill(&mut bytes).is_err() || most <= 0 {
            return 0;
        }
        i64::try_from(u64::from_le_bytes(bytes) >> 1).unwrap_or_default() % most
    }
}

fn came(result: &Value) -> Came {
    match result.get("status").and_then(Value::as_str) {
        Some("success") => Came::Good,
        _ => Came::Bad,
    }
}

/// One line: how many records changed, or what the warnings say.
pub(super) fn said(result: &Value) -> String {
    let warnings = result.get("warnings").and_then(Value::as_array);
    let warnings: Vec<&str> = warnings.into_iter().flatten().filter_map(Value::as_str).collect();
    if !warnings.is_empty() {
        return warnings.join("; ");
    }
    let resources = result.get("resources").and_then(Value::as_object);
    let changed = |resource: &Value| resource.get("records_upserted").and_then(Value::as_u64);
    let changed: u64 = resources.into_iter().flat_map(|all| all.values()).filter_map(changed).sum();
    format!("{changed} new or changed records")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sync_is_good_only_when_all_of_it_was() {
        let result = |status: &str| json!({ "status": status });
        assert_eq!(came(&result("success")), Came::Good);
        assert_eq!(came(&result("partial")), Came::Bad);
        assert_eq!(came(&result("error")), Came::Bad);
        assert_eq!(came(&json!({ "error": { "code": "SYNC_ERROR" } })), Came::Bad);
    }

    #[test]
    fn one_line_says_how_it_went() {
        let result = json!({ "status": "success", "resources": {
            "cycles": { "records_upserted": 3 }, "sleeps": { "records_upserted": 4 },
        } });
        assert_eq!(said(&result), "7 new or changed records");
        let result = json!({ "status": "partial", "warnings": ["sleeps: RATE_LIMITED: later"] });
        assert_eq!(said(&result), "sleeps: RATE_LIMITED: later");
    }
}

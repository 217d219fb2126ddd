//! Syncs connected accounts in the background while a gate runs: at the owner's interval, and never while
//! another process syncs the same account.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use connectors::LazyContext;
use connectors::sync::{self, Mirror, ResourceError, SyncReport, SyncRequest, SyncStatus};
use connectors::{ConnectorContext, Service};
use gateway::{Gate, SyncOutcome};
use store::accounts::AccountState;
use store::clock::Clock;
use store::ledger::{Ledger, Note};
use store::random::Random;
use store::registry::{NewNotice, Registry, RegistryError, Topic};
use tokio::sync::watch;

use super::metric_notices::MetricNotices;
use crate::context::{Context, Stores};
use crate::services;

/// How often it is checked whether a sync is due. A new account waits at most this long.
const POLL_EVERY: Duration = Duration::from_secs(15);
const MINUTE_US: i64 = 60_000_000;
/// Up to this part of the interval is added at random, so that several gates of one owner do not sync in the
/// same second.
const JITTER_PARTS: i64 = 10;
/// So many failed syncs in a row are a notice: one may be a passing fault of the service.
const FAILURES_NOTICED: u32 = 2;

/// Background sync of one account.
struct Keeping {
    service: &'static Service,
    mirror: &'static Mirror,
    gate: Arc<Gate>,
    ctx: Arc<LazyContext>,
    ledger: Arc<Ledger>,
    registry: Arc<Registry>,
    /// Syncs that failed one after the other.
    failures: AtomicU32,
    metric_notices: MetricNotices,
    /// Exists when the account is connected; checked before anything is opened.
    account_file: PathBuf,
    clock: Clock,
    random: Random,
}

/// Starts the background sync of every account with a mirror. Ends with `stop`.
pub(super) fn start(
    stores: &Stores,
    context: &Context,
    gate: &Arc<Gate>,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    for (service, _) in services::with_accounts() {
        let Some(mirror) = connectors::mirror(service.name) else { continue };
        let keeping = Keeping {
            service,
            mirror,
            gate: Arc::clone(gate),
            ctx: stores.lazy_context(),
            ledger: Arc::clone(stores.gate_ledger()?),
            registry: Arc::clone(&stores.registry),
            failures: AtomicU32::new(0),
            metric_notices: MetricNotices::default(),
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
                () = tokio::time::sleep(POLL_EVERY) => {}
                () = stopped => return,
            }
        }
    }

    /// Syncs if it is due.
    async fn once(&self, jitter_us: &mut i64) {
        let minutes = self.gate.settings().service(self.service.name).sync_interval_minutes;
        if minutes == 0 || !self.account_file.exists() {
            return;
        }
        let interval_us = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(MINUTE_US);
        let ctx = match self.ctx.get() {
            Ok(ctx) => ctx,
            Err(error) => return tracing::error!(%error, "no account can be synced"),
        };
        self.notice_account(&ctx);
        let settings = self.gate.settings().service(self.service.name);
        self.metric_notices.check(&ctx, &self.registry, self.service, &settings);
        if !self.is_due(&ctx, interval_us.saturating_add(*jitter_us)) {
            return;
        }
        *jitter_us = self.random_below(interval_us / JITTER_PARTS);
        self.sync(&ctx).await;
        self.metric_notices.check(&ctx, &self.registry, self.service, &settings);
    }

    /// An account with an ended login is never due; a sync by another process counts.
    fn is_due(&self, ctx: &ConnectorContext, interval_us: i64) -> bool {
        let name = self.service.name;
        let live = ctx
            .accounts
            .summary(name)
            .is_ok_and(|facts| facts.is_some_and(|facts| facts.state == AccountState::Live));
        let Ok(runs) = ctx.records.runs(name, 1) else { return false };
        let last_us = runs.first().map(|run| run.started_us);
        let due = |last_us: i64| self.clock.now().wall_us >= last_us.saturating_add(interval_us);
        live && last_us.is_none_or(due)
    }

    async fn sync(&self, ctx: &ConnectorContext) {
        let name = self.service.name;
        let ended = sync::run(ctx, self.mirror, &SyncRequest::default(), &|_| {}).await;
        let (outcome, message) = match ended {
            Ok(report) => (outcome(&report), message(&report)),
            Err(error) => (SyncOutcome::Failure, error.to_string()),
        };
        match outcome {
            SyncOutcome::Success => tracing::info!(service = name, "synced: {message}"),
            SyncOutcome::Failure => tracing::warn!(service = name, "not synced: {message}"),
        }
        self.gate.note_sync(self.service, outcome);
        self.notice_sync(outcome, &message);
        let act = if outcome == SyncOutcome::Success { "synced" } else { services::SYNC_FAILED };
        let note = Note { act, by: "tollgate", about: name, words: &message };
        if let Err(error) = self.ledger.note(&note) {
            tracing::error!(%error, "could not record a sync");
        }
    }

    /// Notifies the owner about a login that the service rejects, until it works again.
    fn notice_account(&self, ctx: &ConnectorContext) {
        let Ok(Some(account)) = ctx.accounts.summary(self.service.name) else { return };
        let (name, title) = (self.service.name, self.service.title);
        let key = format!("account:{name}");
        let stored = match account.state {
            AccountState::Live => self.registry.clear_notice(&key).map(drop),
            AccountState::Dead { message, .. } => self.raise(&NewNotice {
                key: &key,
                topic: Topic::Account,
                title: &format!("Sign in to {title} again"),
                text: &format!(
                    "{title} rejects the login: {message}. Run `tollgate connect {name}`."
                ),
                path: "/accounts",
            }),
        };
        warn_if_lost(stored);
    }

    /// Notifies the owner about an account whose sync failed several times, until it works again.
    fn notice_sync(&self, outcome: SyncOutcome, message: &str) {
        let (name, title) = (self.service.name, self.service.title);
        let key = format!("sync:{name}");
        if outcome == SyncOutcome::Success {
            self.failures.store(0, Ordering::Relaxed);
            return warn_if_lost(self.registry.clear_notice(&key).map(drop));
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if failures < FAILURES_NOTICED {
            return;
        }
        warn_if_lost(self.raise(&NewNotice {
            key: &key,
            topic: Topic::Sync,
            title: &format!("Sync of {title} keeps failing"),
            text: &format!("The last {failures} syncs failed: {message}"),
            path: "/accounts",
        }));
    }

    fn raise(&self, notice: &NewNotice<'_>) -> Result<(), RegistryError> {
        self.registry.raise_notice(notice, self.clock.now().wall_us).map(drop)
    }

    fn random_below(&self, most: i64) -> i64 {
        let mut bytes = [0; 8];
        if self.random.fill(&mut bytes).is_err() || most <= 0 {
            return 0;
        }
        i64::try_from(u64::from_le_bytes(bytes) >> 1).unwrap_or_default() % most
    }
}

fn warn_if_lost(stored: Result<(), RegistryError>) {
    if let Err(error) = stored {
        tracing::warn!(%error, "could not store a notice");
    }
}

fn outcome(report: &SyncReport) -> SyncOutcome {
    match report.status() {
        SyncStatus::Success => SyncOutcome::Success,
        SyncStatus::Partial | SyncStatus::Error => SyncOutcome::Failure,
    }
}

/// One line: how many records changed, or the warnings.
pub(super) fn message(report: &SyncReport) -> String {
    let warnings = report.warnings(ResourceError::line);
    if !warnings.is_empty() {
        return warnings.join("; ");
    }
    format!("{} new or changed records", report.upserted())
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::sync::ResourceReport;

    fn resource(name: &'static str, upserted: u64, fault: Option<&str>) -> ResourceReport {
        let fault = fault
            .map(|message| ResourceError { code: "RATE_LIMITED", message: message.to_owned() });
        ResourceReport {
            name,
            fetched: upserted,
            upserted,
            removed: 0,
            doubtful: 0,
            warnings: Vec::new(),
            outcome: fault.map_or(Ok(None), Err),
        }
    }

    fn report(resources: Vec<ResourceReport>) -> SyncReport {
        SyncReport { started_us: 0, completed_us: 0, resources, unknown: Vec::new() }
    }

    #[test]
    fn a_sync_is_good_only_when_all_of_it_was() {
        let (good, bad) = (resource("cycles", 3, None), resource("sleeps", 0, Some("later")));
        for (resources, expected) in [
            (vec![good.clone()], SyncOutcome::Success),
            (vec![good, bad.clone()], SyncOutcome::Failure),
            (vec![bad], SyncOutcome::Failure),
        ] {
            assert_eq!(outcome(&report(resources)), expected);
        }
    }

    #[test]
    fn one_line_says_how_it_went() {
        let good = vec![resource("cycles", 3, None), resource("sleeps", 4, None)];
        assert_eq!(message(&report(good)), "7 new or changed records");
        let part = vec![resource("cycles", 3, None), resource("sleeps", 0, Some("later"))];
        assert_eq!(message(&report(part)), "sleeps: RATE_LIMITED: later");
    }
}

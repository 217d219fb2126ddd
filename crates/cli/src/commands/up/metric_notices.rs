//! Notices about metrics that left their usual range, by the owner's rules: after each sync, and every hour
//! because a day may end without one.

use std::sync::atomic::{AtomicI64, Ordering};

use connectors::daily_metrics::notices::{CrossedRule, RuleOutcome, check_rule};
use connectors::{ConnectorContext, Service};
use insights::Units;
use store::clock::Clock;
use store::records::Records;
use store::registry::{NewNotice, Registry, RegistryError, Topic};
use store::settings::{NoticeRule, ServiceSettings};

/// Keys of these notices begin with it; the service and the rule follow.
const KEY_PREFIX: &str = "insight:";
const CHECK_EVERY_US: i64 = 3_600_000_000;

/// When the rules of a service were last checked.
#[derive(Default)]
pub(super) struct MetricNotices {
    checked_us: AtomicI64,
    synced_us: AtomicI64,
}

impl MetricNotices {
    /// Checks the rules if there is something new. Raises a notice once, until the metric has recovered.
    pub(super) fn check(
        &self,
        ctx: &ConnectorContext,
        registry: &Registry,
        service: &Service,
        settings: &ServiceSettings,
    ) {
        let now_us = ctx.clock.now().wall_us;
        let runs = ctx.records.runs(service.name, 1).unwrap_or_default();
        let synced_us = runs.first().and_then(|run| run.completed_us).unwrap_or(0);
        let is_new = self.synced_us.swap(synced_us, Ordering::Relaxed) != synced_us;
        let is_due =
            now_us.saturating_sub(self.checked_us.load(Ordering::Relaxed)) >= CHECK_EVERY_US;
        if settings.notices.is_empty() || !(is_new || is_due) {
            return;
        }
        self.checked_us.store(now_us, Ordering::Relaxed);
        for rule in &settings.notices {
            match check_rule(&ctx.records, now_us, ctx.units, service.name, rule) {
                Ok(outcome) => {
                    if let Err(error) = note(registry, service, rule, &outcome, now_us) {
                        tracing::warn!(%error, "could not store a notice");
                    }
                }
                Err(error) => tracing::warn!(%error, %rule, "could not check a notice rule"),
            }
        }
    }
}

fn note(
    registry: &Registry,
    service: &Service,
    rule: &NoticeRule,
    outcome: &RuleOutcome,
    now_us: i64,
) -> Result<(), RegistryError> {
    let key = format!("{KEY_PREFIX}{}:{rule}", service.name);
    match outcome {
        RuleOutcome::Crossed(CrossedRule { title, evidence, .. }) => {
            let notice = NewNotice {
                key: &key,
                topic: Topic::Insight,
                title,
                text: evidence,
                path: "/accounts",
            };
            registry.raise_notice(&notice, now_us).map(drop)
        }
        RuleOutcome::Usual => registry.clear_notice(&key).map(drop),
        RuleOutcome::Partly | RuleOutcome::Unclear => Ok(()),
        RuleOutcome::UnknownMetric => {
            let (service, metric) = (service.name, &rule.metric);
            tracing::warn!("the notice rule `{rule}` of `{service}` names no metric: `{metric}`");
            Ok(())
        }
    }
}

/// The values behind a notice, for a channel that the owner wants them in. None for other notices, and for a
/// rule that applies no longer.
pub(super) fn values(key: &str, records: &Records, clock: &Clock, units: Units) -> Option<String> {
    let (service, rule) = key.strip_prefix(KEY_PREFIX)?.split_once(':')?;
    let rule: NoticeRule = rule.parse().ok()?;
    match check_rule(records, clock.now().wall_us, units, service, &rule).ok()? {
        RuleOutcome::Crossed(crossed) => Some(crossed.values),
        _ => None,
    }
}

//! Prometheus metrics. Label values are closed sets, so that no caller can add series.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use store::ledger::Ending;

/// All metrics of one gate.
pub(crate) struct Metrics {
    registry: Registry,
    ended: Family<EndingLabel, Counter>,
    denied: Family<CodeLabel, Counter>,
    refused: Counter,
    rejected: Counter,
    not_as_judged: Counter,
    seconds: Histogram,
    pub(crate) ready: Gauge<i64, std::sync::atomic::AtomicI64>,
    pub(crate) sessions: Gauge<i64, std::sync::atomic::AtomicI64>,
    pub(crate) reload_failures: Counter<u64, AtomicU64>,
    syncs: Family<SyncLabel, Counter>,
    synced_at: Family<ServiceLabel, Gauge<i64, std::sync::atomic::AtomicI64>>,
    webhooks: Family<SyncLabel, Counter>,
}

/// The outcome of a background sync or a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    Success,
    Failure,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SyncLabel {
    service: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ServiceLabel {
    service: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndingLabel {
    ending: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CodeLabel {
    code: &'static str,
}

/// Upper bounds of the latency buckets, in seconds: from a local call to a slow remote one.
const BUCKETS: [f64; 14] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0];

impl SyncOutcome {
    fn as_str(self) -> &'static str {
        match self {
            SyncOutcome::Success => "good",
            SyncOutcome::Failure => "bad",
        }
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("tollgate");
        let metrics = Metrics {
            ended: Family::default(),
            denied: Family::default(),
            refused: Counter::default(),
            rejected: Counter::default(),
            not_as_judged: Counter::default(),
            seconds: Histogram::new(BUCKETS),
            ready: Gauge::default(),
            sessions: Gauge::default(),
            reload_failures: Counter::default(),
            syncs: Family::default(),
            synced_at: Family::default(),
            webhooks: Family::default(),
            registry: Registry::default(),
        };
        registry.register("requests_ended", "Admitted requests by outcome", metrics.ended.clone());
        registry.register(
            "requests_denied",
            "Requests that a policy or a limit denied",
            metrics.denied.clone(),
        );
        registry.register(
            "messages_refused",
            "Messages that are malformed or ambiguous",
            metrics.refused.clone(),
        );
        registry.register(
            "turned_away",
            "HTTP requests rejected before they became a message",
            metrics.rejected.clone(),
        );
        registry.register(
            "messages_not_as_judged",
            "Messages not sent because an edit changed the call that was judged; anything but 0 is a bug",
            metrics.not_as_judged.clone(),
        );
        registry.register(
            "request_seconds",
            "From admission to the response",
            metrics.seconds.clone(),
        );
        registry.register(
            "ready",
            "Whether this gate accepts calls: 1, or 0 as on /readyz",
            metrics.ready.clone(),
        );
        registry.register("sessions", "Open sessions", metrics.sessions.clone());
        registry.register(
            "reload_failures",
            "Changes of tollgate.toml that could not be loaded",
            metrics.reload_failures.clone(),
        );
        registry.register("syncs", "Background syncs of connected accounts", metrics.syncs.clone());
        registry.register(
            "synced_at_seconds",
            "Time of the last successful background sync, as Unix time",
            metrics.synced_at.clone(),
        );
        registry.register("hooks", "Webhooks received at /hooks", metrics.webhooks.clone());
        Metrics { registry, ..metrics }
    }
}

impl Metrics {
    pub(crate) fn call_ended(&self, ending: Ending, latency_us: u64) {
        self.ended.get_or_create(&EndingLabel { ending: ending.as_str() }).inc();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a latency histogram does not need full precision"
        )]
        self.seconds.observe(latency_us as f64 / 1e6);
    }

    /// Counted by the code of the audit row.
    pub(crate) fn denied(&self, code: &'static str) {
        self.denied.get_or_create(&CodeLabel { code }).inc();
    }

    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    pub(crate) fn not_as_judged(&self) {
        self.not_as_judged.inc();
    }

    pub(crate) fn synced(&self, service: &'static str, outcome: SyncOutcome, now_us: i64) {
        self.syncs.get_or_create(&SyncLabel { service, outcome: outcome.as_str() }).inc();
        if outcome == SyncOutcome::Success {
            self.synced_at.get_or_create(&ServiceLabel { service }).set(now_us / 1_000_000);
        }
    }

    pub(crate) fn webhook_handled(&self, service: &'static str, outcome: SyncOutcome) {
        self.webhooks.get_or_create(&SyncLabel { service, outcome: outcome.as_str() }).inc();
    }

    pub(crate) fn rejected(&self) {
        self.rejected.inc();
    }

    /// The metrics in the format that the client accepts, and its content type. The default is the
    /// older Prometheus format, which every scraper knows.
    pub(crate) fn text_for(&self, accept: Option<&str>) -> (String, &'static str) {
        if accept.is_some_and(|kinds| kinds.contains("application/openmetrics-text")) {
            (self.open_text(), "application/openmetrics-text; version=1.0.0; charset=utf-8")
        } else {
            (plain_of(&self.open_text()), "text/plain; version=0.0.4; charset=utf-8")
        }
    }

    fn open_text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

/// Converts to the older format: counters are described with the `_total` suffix, and there is no
/// `# EOF`.
fn plain_of(open: &str) -> String {
    let counters: Vec<&str> = open
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut out = String::with_capacity(open.len());
    for line in open.lines().filter(|line| *line != "# EOF") {
        let described = ["# HELP ", "# TYPE "].iter().find_map(|word| {
            let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
            counters.contains(&name).then(|| format!("{word}{name}_total {rest}"))
        });
        out.push_str(described.as_deref().unwrap_or(line));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_describes_counters_under_their_whole_name() {
        let metrics = Metrics::default();
        metrics.rejected();
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        let (open, _) = metrics.text_for(Some(prometheus));
        let (plain, kind) = metrics.text_for(Some("*/*"));
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        assert!(open.ends_with("# EOF\n") && !plain.contains("# EOF"), "{plain}");
        let samples = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
        };
        assert_eq!(samples(&open), samples(&plain), "the numbers are the same");
        let begin = "# HELP tollgate_turned_away_total HTTP requests rejected before they became a message.\n\
                     # TYPE tollgate_turned_away_total counter\ntollgate_turned_away_total 1\n";
        assert!(plain.contains(begin), "{plain}");
        assert!(plain.contains("# TYPE tollgate_request_seconds histogram\n"), "{plain}");
    }
}

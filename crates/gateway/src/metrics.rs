//! Numbers for Prometheus. Labels are closed sets, so that no caller can grow them.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use store::ledger::Ending;

/// All numbers of one gate.
pub(crate) struct Metrics {
    registry: Registry,
    ended: Family<EndingLabel, Counter>,
    denied: Family<CodeLabel, Counter>,
    refused: Counter,
    turned_away: Counter,
    seconds: Histogram,
    pub(crate) sessions: Gauge<i64, std::sync::atomic::AtomicI64>,
    pub(crate) reload_failures: Counter<u64, AtomicU64>,
    syncs: Family<SyncLabel, Counter>,
    synced_at: Family<ServiceLabel, Gauge<i64, std::sync::atomic::AtomicI64>>,
    hooks: Family<SyncLabel, Counter>,
}

/// How a sync in the background, or a notice of a service, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    Good,
    Bad,
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

impl Came {
    fn as_str(self) -> &'static str {
        match self {
            Came::Good => "good",
            Came::Bad => "bad",
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
            turned_away: Counter::default(),
            seconds: Histogram::new(BUCKETS),
            sessions: Gauge::default(),
            reload_failures: Counter::default(),
            syncs: Family::default(),
            synced_at: Family::default(),
            hooks: Family::default(),
            registry: Registry::default(),
        };
        registry.register(
            "requests_ended",
            "Admitted requests by how they ended",
            metrics.ended.clone(),
        );
        registry.register(
            "requests_denied",
            "Requests that a policy or a limit denied",
            metrics.denied.clone(),
        );
        registry.register(
            "messages_refused",
            "Messages without one clear meaning",
            metrics.refused.clone(),
        );
        registry.register(
            "turned_away",
            "HTTP requests refused at the door",
            metrics.turned_away.clone(),
        );
        registry.register(
            "request_seconds",
            "From admission to the answer",
            metrics.seconds.clone(),
        );
        registry.register("sessions", "Open sessions", metrics.sessions.clone());
        registry.register(
            "reload_failures",
            "Changes that were not taken because they were broken",
            metrics.reload_failures.clone(),
        );
        registry.register(
            "syncs",
            "Syncs of connected accounts in the background",
            metrics.syncs.clone(),
        );
        registry.register(
            "synced_at_seconds",
            "When a sync in the background last went well, as Unix time",
            metrics.synced_at.clone(),
        );
        registry.register("hooks", "Notices of services at /hooks", metrics.hooks.clone());
        Metrics { registry, ..metrics }
    }
}

impl Metrics {
    pub(crate) fn call_ended(&self, ending: Ending, latency_us: u64) {
        self.ended.get_or_create(&EndingLabel { ending: ending.as_str() }).inc();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a latency in a histogram needs no last digit"
        )]
        self.seconds.observe(latency_us as f64 / 1e6);
    }

    /// By the code that its row has.
    pub(crate) fn denied(&self, code: &'static str) {
        self.denied.get_or_create(&CodeLabel { code }).inc();
    }

    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    pub(crate) fn synced(&self, service: &'static str, came: Came, now_us: i64) {
        self.syncs.get_or_create(&SyncLabel { service, outcome: came.as_str() }).inc();
        if came == Came::Good {
            self.synced_at.get_or_create(&ServiceLabel { service }).set(now_us / 1_000_000);
        }
    }

    pub(crate) fn hooked(&self, service: &'static str, came: Came) {
        self.hooks.get_or_create(&SyncLabel { service, outcome: came.as_str() }).inc();
    }

    pub(crate) fn turned_away(&self) {
        self.turned_away.inc();
    }

    /// The numbers as a reader wants them, and what that format is called. The older one of Prometheus
    /// is known to every reader.
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

/// There a counter is described under the whole name of its samples, and nothing marks the end.
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
        metrics.turned_away();
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        let (open, _) = metrics.text_for(Some(prometheus));
        let (plain, kind) = metrics.text_for(Some("*/*"));
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        assert!(open.ends_with("# EOF\n") && !plain.contains("# EOF"), "{plain}");
        let samples = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
        };
        assert_eq!(samples(&open), samples(&plain), "the numbers are the same");
        let begin = "# HELP tollgate_turned_away_total HTTP requests refused at the door.\n\
                     # TYPE tollgate_turned_away_total counter\ntollgate_turned_away_total 1\n";
        assert!(plain.contains(begin), "{plain}");
        assert!(plain.contains("# TYPE tollgate_request_seconds histogram\n"), "{plain}");
    }
}

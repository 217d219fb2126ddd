//! How full the limits of the last day are: what the rows of the audit log hold against each counter,
//! compared with the maximum of the current policy.

use std::collections::{BTreeMap, BTreeSet};

use policy::{Call, Caller, LocalTime, Policy, Subject, ToolFacts};
use serde::Serialize;
use store::effective::Effective;
use store::ledger::Entry;

use crate::time::span;

/// Limits are shown from this share on.
const SHOWN_PERCENT_MIN: u64 = 80;
/// Tools whose limits are read; more would make the page slow.
const TOOLS_MAX: usize = 200;

/// A limit that is almost or completely full.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FullLimit {
    pub(crate) grant: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) counter: String,
    pub(crate) used: String,
    pub(crate) max: String,
    pub(crate) window: String,
    pub(crate) percent: u64,
}

/// A counter of one grant, session or server.
type Counter = (String, String, String);

/// Collects what calls held.
#[derive(Default)]
pub(crate) struct LimitsUsed {
    held: BTreeMap<Counter, Vec<(i64, f64)>>,
    tools: BTreeSet<(String, String, String)>,
    counters: BTreeMap<(String, String, String), BTreeSet<Counter>>,
}

impl LimitsUsed {
    pub(crate) fn add(&mut self, entry: &Entry, at_us: i64) {
        if entry.holds.is_empty() || entry.tool.is_empty() || entry.released {
            return;
        }
        let tool = (entry.grant.clone(), entry.server.clone(), entry.tool.clone());
        for held in &entry.holds {
            let counter = (held.scope.clone(), held.id.clone(), held.counter.clone());
            let amount = held.amount.parse().unwrap_or(0.0);
            self.held.entry(counter.clone()).or_default().push((at_us, amount));
            self.counters.entry(tool.clone()).or_default().insert(counter);
        }
        if self.tools.len() < TOOLS_MAX {
            self.tools.insert(tool);
        }
    }

    /// The fullest first; each counter once.
    pub(crate) fn full(
        &self,
        effective: &Effective,
        time: LocalTime,
        now_us: i64,
    ) -> Vec<FullLimit> {
        let mut policies: BTreeMap<&str, Option<Policy>> = BTreeMap::new();
        let mut seen: BTreeSet<(&Counter, u64)> = BTreeSet::new();
        let mut full = Vec::new();
        for tool in &self.tools {
            let (grant, server, name) = tool;
            let access = effective.grant(grant).and_then(|grant| effective.access(grant, server));
            let Some(text) = access.and_then(|access| access.policy) else { continue };
            let policy = policies
                .entry(text.name.as_str())
                .or_insert_with(|| Policy::load(&text.source, text.format).ok());
            let Some(policy) = policy else { continue };
            let call = Call {
                subject: Subject::Tool(name),
                args: None,
                params: None,
                caller: Caller { grant, session: None, client: None },
                tool: ToolFacts { server: Some(server), ..ToolFacts::default() },
                time,
            };
            for hold in policy.predict(&call).holds {
                let is_same = |counter: &&Counter| {
                    counter.0 == hold.scope.as_str() && *counter.2 == *hold.counter
                };
                for counter in self.counters.get(tool).into_iter().flatten().filter(is_same) {
                    if !seen.insert((counter, hold.window_ms)) {
                        continue;
                    }
                    let since_us = now_us.saturating_sub(us(hold.window_ms));
                    let used: f64 = self
                        .held
                        .get(counter)
                        .into_iter()
                        .flatten()
                        .filter(|(at_us, _)| *at_us >= since_us)
                        .map(|(_, amount)| amount)
                        .sum();
                    let max = hold.max.to_string();
                    let percent = percent(used, max.parse().unwrap_or(f64::INFINITY));
                    if percent >= SHOWN_PERCENT_MIN {
                        full.push(FullLimit {
                            grant: grant.clone(),
                            server: server.clone(),
                            tool: name.clone(),
                            counter: counter.2.clone(),
                            used: used.to_string(),
                            max,
                            window: span(hold.window_ms / 1000),
                            percent,
                        });
                    }
                }
            }
        }
        full.sort_by_key(|limit| std::cmp::Reverse(limit.percent));
        full
    }
}

fn us(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1000)
}

/// A whole share from 0 on; a maximum of zero is always full.
fn percent(used: f64, max: f64) -> u64 {
    let share = if max > 0.0 { (used / max * 100.0).clamp(0.0, 999.0) } else { 100.0 };
    // Between 0 and 999, so nothing is lost but the fraction.
    format!("{share:.0}").parse().unwrap_or(0)
}

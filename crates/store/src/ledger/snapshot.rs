//! The state as stored in the first row of a segment, so that a process can start from the newest
//! segment alone.

use serde::{Deserialize, Serialize};

use policy::Amount;

use super::approvals::{Approval, Approvals};
use super::chain;
use super::counters::{Counters, Key};
use super::row::Held;
use super::sliding_window::{SlidingWindow, Units};
use super::state::{Archived, Awaiting, LedgerState, OpenCall};
use super::time::LedgerTime;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateSnapshot {
    ledger: String,
    boot: String,
    steady_offset_us: i64,
    #[serde(default)]
    ahead_us: u64,
    counters: Vec<CounterRow>,
    open: Vec<OpenRow>,
    awaiting: Vec<AwaitingRow>,
    approvals: Vec<Approval>,
    archived: Option<Archived>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CounterRow {
    scope: String,
    id: String,
    counter: String,
    series: Vec<SeriesRow>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SeriesRow {
    window_ms: u64,
    /// Ledger time of the first event; the others are relative to it.
    start: u64,
    events: Vec<(u64, String)>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenRow {
    seq: u64,
    writer: String,
    tick: u64,
    holds: Vec<Held>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AwaitingRow {
    seq: u64,
    binding: String,
    until: u64,
}

impl StateSnapshot {
    pub(crate) fn of(state: &LedgerState) -> StateSnapshot {
        StateSnapshot {
            ledger: state.ledger_text().to_owned(),
            boot: state.time.boot().to_owned(),
            steady_offset_us: state.time.offset_us(),
            ahead_us: state.time.ahead_us(),
            counters: counters(&state.counters),
            open: open(state),
            awaiting: awaiting(state),
            approvals: state.approvals.iter().cloned().collect(),
            archived: state.archived.clone(),
        }
    }

    pub(crate) fn open_calls(&self) -> std::collections::HashSet<u64> {
        self.open.iter().map(|row| row.seq).collect()
    }

    pub(crate) fn ledger(&self) -> &str {
        &self.ledger
    }

    /// The last retired row: its number, hash and when it was retired.
    pub(crate) fn archived(&self) -> Option<(u64, (String, String))> {
        let archived = self.archived.as_ref()?;
        Some((archived.last_seq, (archived.last_hash.clone(), archived.time.clone())))
    }

    pub(crate) fn restore(self) -> Option<LedgerState> {
        let mut approvals = Approvals::default();
        approvals.restore(self.approvals);
        let mut open = hashbrown::HashMap::new();
        for row in self.open {
            let taken = row.holds.iter().map(Held::taken).collect::<Option<_>>()?;
            open.insert(row.seq, OpenCall { writer: row.writer.into(), tick: row.tick, taken });
        }
        let awaiting = self.awaiting.into_iter();
        let awaiting =
            awaiting.map(|row| (row.seq, Awaiting { binding: row.binding, until: row.until }));
        Some(LedgerState {
            ledger: Some(chain::parse_hash(&self.ledger)?),
            time: LedgerTime::restore(&self.boot, self.steady_offset_us, self.ahead_us),
            counters: restored_counters(&self.counters)?,
            open,
            awaiting: awaiting.collect(),
            approvals,
            archived: self.archived,
        })
    }
}

fn counters(counters: &Counters) -> Vec<CounterRow> {
    let mut rows: Vec<CounterRow> = counters
        .iter()
        .map(|(key, all)| {
            let (scope, id, counter) = key.parts();
            CounterRow {
                scope: scope.to_owned(),
                id: id.to_owned(),
                counter: counter.to_owned(),
                series: all.iter().map(series).collect(),
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.scope, &a.id, &a.counter).cmp(&(&b.scope, &b.id, &b.counter)));
    rows
}

fn series(series: &SlidingWindow) -> SeriesRow {
    let start = series.events().map(|event| event.tick).min().unwrap_or_default();
    let amount = |units: Units| Amount::from_units(units).unwrap_or(Amount::ZERO).to_string();
    SeriesRow {
        window_ms: series.window_us() / 1_000,
        start,
        events: series.events().map(|e| (e.tick - start, amount(e.amount))).collect(),
    }
}

fn restored_counters(rows: &[CounterRow]) -> Option<Counters> {
    let mut counters = Counters::default();
    for row in rows {
        for series in &row.series {
            let events = series.events.iter().map(|(after, amount)| {
                Some((series.start.checked_add(*after)?, Amount::parse(amount)?.units()))
            });
            let events = events.collect::<Option<Vec<_>>>()?;
            let key = Key::from_parts(&row.scope, &row.id, &row.counter)?;
            counters.restore(key, series.window_ms.saturating_mul(1_000), &events);
        }
    }
    Some(counters)
}

fn open(state: &LedgerState) -> Vec<OpenRow> {
    let mut rows: Vec<OpenRow> = state
        .open
        .iter()
        .map(|(seq, call)| OpenRow {
            seq: *seq,
            writer: call.writer.to_string(),
            tick: call.tick,
            holds: call.taken.iter().map(Held::of).collect(),
        })
        .collect();
    rows.sort_by_key(|row| row.seq);
    rows
}

fn awaiting(state: &LedgerState) -> Vec<AwaitingRow> {
    let mut rows: Vec<AwaitingRow> = state
        .awaiting
        .iter()
        .map(|(seq, a)| AwaitingRow { seq: *seq, binding: a.binding.clone(), until: a.until })
        .collect();
    rows.sort_by_key(|row| row.seq);
    rows
}

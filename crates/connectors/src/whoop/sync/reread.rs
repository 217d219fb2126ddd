//! Re-reads unscored records outside the sync window. Scores come late, and WHOOP has no filter by
//! change time. Most of these records never get a score, so the requests are limited.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use store::records::{Records, RecordsError, Unsettled};

use super::DAY_US;
use crate::sync::{ResourceError, SyncJob, some_at_a_time};
use crate::whoop::SERVICE;
use crate::whoop::api::{self, ApiPath, WaitPolicy};
use crate::whoop::kind::Kind;
use crate::whoop::mirror_writer::store_page;
use crate::whoop::problem::{WhoopCode, WhoopProblem};
use crate::whoop::shape::INVALID;
use crate::whoop::takeout;

pub(super) const SCORED: &str = "SCORED";
pub(super) const PENDING: &str = "PENDING_SCORE";

const AT_ONCE: usize = 4;
/// A pending record that WHOOP changed within this time is active.
const LIVELY_US: i64 = 7 * DAY_US;
/// The minimum interval between requests for an active record.
const LIVELY_PAUSE_US: i64 = 6 * 3_600_000_000;
const LIVELY_MAX: usize = 4;
/// The others are requested in turn, this many per list and day.
const OTHERS_A_DAY_MAX: usize = 3;

/// The requests so far, stored per list.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ration {
    /// When some of the others were last requested, or first became due.
    began_us: i64,
    /// The last requested id of the others; the next round continues after it.
    last: String,
    /// When each active record was requested.
    #[serde(rename = "asked")]
    requested: BTreeMap<String, i64>,
}

/// Re-reads some unscored records that began before `before_us`, each by its id.
pub(super) async fn unscored(
    job: &SyncJob<'_>,
    kind: Kind,
    before_us: i64,
) -> Result<(), ResourceError> {
    let ids = due(&job.ctx.records, kind, before_us, job.started_us)?;
    some_at_a_time(AT_ONCE, ids.iter().map(|id| again(job, kind, id))).await
}

fn due(
    records: &Records,
    kind: Kind,
    before_us: i64,
    now_us: i64,
) -> Result<Vec<String>, RecordsError> {
    let outside = |row: &Unsettled| row.start_us.is_none_or(|start_us| start_us < before_us);
    let rows = records.unsettled(SERVICE.name, kind.name(), SCORED)?.into_iter();
    let rows: Vec<Unsettled> = rows
        .filter(|row| outside(row) && !takeout::is_imported(&row.id))
        .filter(|row| row.state.as_deref() != Some(INVALID))
        .collect();
    let key = format!("reread/{}", kind.name());
    let text = records.state_get(SERVICE.name, &key)?;
    if rows.is_empty() && text.is_none() {
        return Ok(Vec::new());
    }
    // Older versions stored only an id there: the first round begins a day from now.
    let known: Option<Ration> = text.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let mut ration = known.unwrap_or_else(|| Ration { began_us: now_us, ..Ration::default() });
    let ids = ration.take(&rows, now_us);
    let noted = serde_json::to_string(&ration).unwrap_or_default();
    if text.as_deref() != Some(noted.as_str()) {
        records.state_put(SERVICE.name, &key, &noted)?;
    }
    Ok(ids)
}

impl Ration {
    /// The records to request now.
    fn take(&mut self, rows: &[Unsettled], now_us: i64) -> Vec<String> {
        let is_lively = |row: &&Unsettled| {
            row.state.as_deref() == Some(PENDING) && now_us - row.updated_us < LIVELY_US
        };
        let (lively, others): (Vec<&Unsettled>, Vec<&Unsettled>) = rows.iter().partition(is_lively);
        self.requested.retain(|id, _| lively.iter().any(|row| row.id == *id));
        let rested = |row: &&&Unsettled| {
            self.requested.get(&row.id).is_none_or(|at_us| now_us - at_us >= LIVELY_PAUSE_US)
        };
        let mut ids: Vec<String> =
            lively.iter().filter(rested).take(LIVELY_MAX).map(|row| row.id.clone()).collect();
        for id in &ids {
            self.requested.insert(id.clone(), now_us);
        }
        if now_us - self.began_us >= DAY_US {
            self.began_us = now_us;
            ids.extend(self.next_others(others));
        }
        ids
    }

    fn next_others(&mut self, others: Vec<&Unsettled>) -> Vec<String> {
        let mut ids: Vec<String> = others.into_iter().map(|row| row.id.clone()).collect();
        ids.sort_unstable();
        let next = ids.partition_point(|id| *id <= self.last);
        if next < ids.len() {
            ids.rotate_left(next);
        }
        ids.truncate(OTHERS_A_DAY_MAX);
        self.last = ids.last().cloned().unwrap_or_default();
        ids
    }
}

async fn again(job: &SyncJob<'_>, kind: Kind, id: &str) -> Result<(), ResourceError> {
    let Some(endpoint) = ApiPath::of(kind, id) else { return Ok(()) };
    match api::get(job.ctx, endpoint, &[], WaitPolicy::SYNC).await {
        Ok(fetched) => {
            let kept = store_page(job.ctx, kind, &[fetched.text()])?;
            job.page([id], kept.written, 0);
            job.doubtful(kept.doubtful);
            for warning in kept.warnings {
                job.warn(warning);
            }
            Ok(())
        }
        Err(WhoopProblem { code: WhoopCode::NotFound, .. }) => {
            let ids = [id.to_owned()];
            let removed =
                job.ctx.records.remove(SERVICE.name, kind.name(), &ids, job.started_us)?;
            job.removed(removed);
            Ok(())
        }
        Err(problem) if problem.code == WhoopCode::AuthFailed => Err(problem.into()),
        // The list itself is complete; one failed old record does not fail it.
        Err(problem) => {
            job.warn(format!("{}: record {id} was not re-read: {}", kind.name(), problem.line()));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000 * DAY_US;

    fn row(id: &str, state: &str, updated_us: i64) -> Unsettled {
        Unsettled { id: id.to_owned(), start_us: None, updated_us, state: Some(state.to_owned()) }
    }

    #[test]
    fn old_records_are_asked_for_in_turn_a_few_a_day() {
        let rows: Vec<Unsettled> = (0..5).map(|n| row(&format!("r{n}"), "UNSCORABLE", 0)).collect();
        let mut ration = Ration { began_us: NOW, ..Ration::default() };
        assert!(ration.take(&rows, NOW).is_empty(), "everything has just been read");
        assert_eq!(ration.take(&rows, NOW + DAY_US), ["r0", "r1", "r2"]);
        assert!(ration.take(&rows, NOW + DAY_US + 1).is_empty(), "once a day");
        assert_eq!(ration.take(&rows, NOW + 2 * DAY_US), ["r3", "r4", "r0"]);
        assert_eq!(ration.take(&[], NOW + 3 * DAY_US), Vec::<String>::new());
    }

    #[test]
    fn a_pending_record_that_changed_lately_is_asked_for_now_and_then_left_alone() {
        let rows = [row("late", PENDING, NOW - DAY_US), row("old", PENDING, NOW - 30 * DAY_US)];
        let mut ration = Ration { began_us: NOW, ..Ration::default() };
        assert_eq!(ration.take(&rows, NOW), ["late"]);
        assert!(ration.take(&rows, NOW + 1).is_empty());
        assert_eq!(ration.take(&rows, NOW + LIVELY_PAUSE_US), ["late"]);
        assert!(ration.take(&rows[1..], NOW + LIVELY_PAUSE_US).is_empty());
        assert!(ration.requested.is_empty(), "scored records are forgotten");
    }
}

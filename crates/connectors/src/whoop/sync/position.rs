//! The stored position of a list's sync, so that the next sync of any kind completes an interrupted
//! one.

use serde::{Deserialize, Serialize};
use store::records::{Records, RecordsError};

use super::{DAY_US, FetchStart, OVERLAP_US};
use crate::whoop::SERVICE;
use crate::whoop::kind::Kind;

/// A part that was fetched longer ago is fetched again.
const TRUSTED_US: i64 = DAY_US;

/// An unfinished sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) from_us: i64,
    began_us: i64,
    /// Parts that were completed since `began_us`.
    done: Vec<(i64, i64)>,
}

/// A time span to fetch; without an end up to now.
pub(super) type Gap = (i64, Option<i64>);

pub(super) fn pending(records: &Records, kind: Kind) -> Result<Option<Position>, RecordsError> {
    let text = records.state_get(SERVICE.name, &key(kind))?;
    // An unreadable value counts as none: everything is fetched.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// The start and the parts of the work. Stored before anything is fetched.
pub(super) fn begin(
    records: &Records,
    kind: Kind,
    reach: FetchStart,
    now_us: i64,
) -> Result<(Position, Vec<Gap>), RecordsError> {
    let pending = pending(records, kind)?;
    let (position, gaps) = match reach {
        FetchStart::Recent { from_us, again_us } => {
            let covered = records.coverage(SERVICE.name, kind.name())?;
            let gaps = gaps(from_us, again_us, &covered);
            (Position { from_us, began_us: now_us, done: Vec::new() }, gaps)
        }
        FetchStart::Asked(from_us) => resumed(pending, from_us, now_us),
    };
    put(records, kind, &position)?;
    Ok((position, gaps))
}

/// A repeated request continues where it stopped; another one does its own work and the rest of
/// the first.
fn resumed(pending: Option<Position>, from_us: i64, now_us: i64) -> (Position, Vec<Gap>) {
    let fresh = Position { from_us, began_us: now_us, done: Vec::new() };
    let position = match pending {
        Some(old) if old.from_us == from_us && now_us - old.began_us <= TRUSTED_US => old,
        Some(old) => Position { from_us: from_us.min(old.from_us), ..fresh },
        None => fresh,
    };
    let gaps = gaps(position.from_us, now_us - OVERLAP_US, &position.done);
    (position, gaps)
}

pub(super) fn note_done(
    records: &Records,
    kind: Kind,
    position: &mut Position,
    done: (i64, i64),
) -> Result<(), RecordsError> {
    position.done.push(done);
    put(records, kind, position)
}

/// Completes a sync of the span from `done.0` to `done.1`. If it began after the end of the last one,
/// the next sync fetches the gap.
pub(super) fn end(
    records: &Records,
    kind: Kind,
    left_off_us: Option<i64>,
    done: (i64, i64),
) -> Result<(), RecordsError> {
    let (from_us, to_us) = done;
    let synced_us = left_off_us.filter(|left_off_us| *left_off_us < from_us).unwrap_or(to_us);
    records.state_put(SERVICE.name, &synced_key(kind), &synced_us.to_string())?;
    records.state_drop(SERVICE.name, &key(kind))
}

/// The end of the span that syncs have completed without a gap.
pub(super) fn synced_us(records: &Records, kind: Kind) -> Result<Option<i64>, RecordsError> {
    let text = records.state_get(SERVICE.name, &synced_key(kind))?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// The same, or the newest record if no sync has stored it.
pub(super) fn left_off_us(records: &Records, kind: Kind) -> Result<Option<i64>, RecordsError> {
    if let Some(synced_us) = synced_us(records, kind)? {
        return Ok(Some(synced_us));
    }
    Ok(records.newest_updated(SERVICE.name, kind.name())?.map(|(_, newest_us)| newest_us))
}

fn synced_key(kind: Kind) -> String {
    format!("synced/{}", kind.name())
}

fn put(records: &Records, kind: Kind, position: &Position) -> Result<(), RecordsError> {
    let text = serde_json::to_string(position).unwrap_or_default();
    records.state_put(SERVICE.name, &key(kind), &text)
}

fn key(kind: Kind) -> String {
    format!("sync/{}", kind.name())
}

/// The time from `from_us` on without what is done, except that everything from `again_us` on is
/// fetched whatever was done.
pub(super) fn gaps(from_us: i64, again_us: i64, done: &[(i64, i64)]) -> Vec<Gap> {
    let mut done: Vec<(i64, i64)> = done
        .iter()
        .map(|(from, to)| (*from.max(&from_us), *to.min(&again_us)))
        .filter(|(from, to)| from < to)
        .collect();
    done.sort_unstable();
    let mut gaps = Vec::new();
    let mut at_us = from_us;
    for (from, to) in done {
        if from > at_us {
            gaps.push((at_us, Some(from)));
        }
        at_us = at_us.max(to);
    }
    gaps.push((at_us, None));
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_windows_are_skipped_and_recent_ones_never() {
        for (from, again, done, expected) in [
            (10, 90, &[][..], &[(10, None)][..]),
            (10, 90, &[(0, 100)], &[(90, None)]),
            (10, 90, &[(20, 30)], &[(10, Some(20)), (30, None)]),
            (
                10,
                90,
                &[(50, 60), (20, 30), (25, 40)],
                &[(10, Some(20)), (40, Some(50)), (60, None)],
            ),
            (10, 90, &[(10, 20), (20, 90)], &[(90, None)]),
            (95, 90, &[(0, 100)], &[(95, None)]),
        ] {
            assert_eq!(gaps(from, again, done), expected, "{from} {again} {done:?}");
        }
    }

    #[test]
    fn a_sync_continues_and_another_finishes_it() {
        let now = 1_000 * DAY_US;
        let old = Position { from_us: 0, began_us: now - 1, done: vec![(0, 500 * DAY_US)] };
        let (same, gaps) = resumed(Some(old.clone()), 0, now);
        assert_eq!((same.done.len(), gaps), (1, vec![(500 * DAY_US, None)]));
        let (other, gaps) = resumed(Some(old.clone()), 900 * DAY_US, now);
        assert_eq!((other.from_us, gaps), (0, vec![(0, None)]));
        let stale = Position { began_us: now - 2 * DAY_US, ..old };
        assert_eq!(resumed(Some(stale), 0, now).1, vec![(0, None)]);
    }
}

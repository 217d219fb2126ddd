//! Finds the record of the API that a row of the export speaks of: the same start to within minutes,
//! or mostly the same time where two of a kind cannot overlap.

use store::records::{RecordsError, Row, Window};

use super::is_imported;
use super::rows::Draft;
use crate::Desk;
use crate::whoop::SERVICE;
use crate::whoop::kind::Kind;
use crate::whoop::shape::Shaped;

const MINUTE_US: i64 = 60_000_000;
/// The export drops fractions of seconds and sometimes counts from the first minute asleep.
const START_APART_US_MAX: i64 = 2 * MINUTE_US;
const AROUND_US: i64 = 3 * 24 * 60 * MINUTE_US;

/// What the API has brought of one kind, by start.
pub(super) struct Twins {
    kind: Kind,
    rows: Vec<(i64, Option<i64>, String)>,
}

impl Twins {
    /// The API's records around these drafts.
    pub(super) fn of(desk: &Desk, kind: Kind, drafts: &[Draft]) -> Result<Twins, RecordsError> {
        let starts = || drafts.iter().map(|draft| draft.start.us());
        let (Some(first), Some(last)) = (starts().min(), starts().max()) else {
            return Ok(Twins { kind, rows: Vec::new() });
        };
        let rows = around(desk, kind, first, Some(last))?;
        let ours = rows.into_iter().filter(|row| !is_imported(&row.id));
        Ok(Twins::from_rows(kind, ours))
    }

    fn from_rows(kind: Kind, rows: impl Iterator<Item = Row>) -> Twins {
        let mut rows: Vec<_> =
            rows.filter_map(|row| Some((row.start_us?, row.end_us, row.id))).collect();
        rows.sort_unstable();
        Twins { kind, rows }
    }

    pub(super) fn of_draft(&self, draft: &Draft) -> Option<&str> {
        self.find(draft.start.us(), draft.end_us)
    }

    fn find(&self, start_us: i64, end_us: Option<i64>) -> Option<&str> {
        let from = self.rows.partition_point(|row| row.0 < start_us - AROUND_US);
        let near = self.rows.iter().skip(from).take_while(|row| row.0 <= start_us + AROUND_US);
        let mut near = near.filter(|row| self.is_twin((start_us, end_us), (row.0, row.1)));
        near.next().map(|row| row.2.as_str())
    }

    fn is_twin(&self, one: (i64, Option<i64>), other: (i64, Option<i64>)) -> bool {
        if (one.0 - other.0).abs() <= START_APART_US_MAX {
            return true;
        }
        // Nobody sleeps twice at once, but two workouts may be recorded over each other.
        self.kind != Kind::Workouts && share_most(one, other)
    }
}

/// Do two times share more than half of the shorter one?
fn share_most(one: (i64, Option<i64>), other: (i64, Option<i64>)) -> bool {
    let (Some(one_end), Some(other_end)) = (one.1, other.1) else { return false };
    let shared = one_end.min(other_end) - one.0.max(other.0);
    let shorter = (one_end - one.0).min(other_end - other.0);
    shared > 0 && shared > shorter / 2
}

/// Takes out what came from an export and has come from the API since.
pub fn give_way(
    desk: &Desk,
    kind: Kind,
    from_us: i64,
    to_us: Option<i64>,
) -> Result<(), RecordsError> {
    one_kind(desk, kind, from_us, to_us)?;
    // A recovery has the times of its cycle. The API's may have come before its cycle did, and until
    // now nobody could tell when it was.
    if kind == Kind::Cycles {
        one_kind(desk, Kind::Recoveries, from_us, to_us)?;
    }
    Ok(())
}

/// The same for records that the API has just brought.
pub fn give_way_to(desk: &Desk, kind: Kind, came: &[Shaped]) -> Result<(), RecordsError> {
    let mut known_us = Vec::new();
    for shaped in came {
        let Some(id) = shaped.id.as_deref().filter(|id| !is_imported(id)) else { continue };
        let start_us = match shaped.start_us {
            None if kind == Kind::Recoveries => {
                desk.records.one(SERVICE.name, kind.name(), id)?.and_then(|row| row.start_us)
            }
            start_us => start_us,
        };
        known_us.extend(start_us);
    }
    match (known_us.iter().min(), known_us.iter().max()) {
        (Some(first_us), Some(last_us)) => give_way(desk, kind, *first_us, Some(*last_us)),
        _ => Ok(()),
    }
}

fn one_kind(desk: &Desk, kind: Kind, from_us: i64, to_us: Option<i64>) -> Result<(), RecordsError> {
    let ids = desk.records.ids_in(SERVICE.name, kind.name(), &window(from_us, to_us))?;
    if !ids.iter().any(|id| is_imported(id)) {
        return Ok(());
    }
    let rows = around(desk, kind, from_us, to_us)?;
    let (imported, ours): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| is_imported(&row.id));
    let twins = Twins::from_rows(kind, ours.into_iter());
    let has_twin =
        |row: &Row| row.start_us.is_some_and(|start_us| twins.find(start_us, row.end_us).is_some());
    let superseded: Vec<String> = imported.into_iter().filter(has_twin).map(|row| row.id).collect();
    let now_us = desk.clock.now().wall_us;
    desk.records.remove(SERVICE.name, kind.name(), &superseded, now_us).map(drop)
}

fn around(
    desk: &Desk,
    kind: Kind,
    from_us: i64,
    to_us: Option<i64>,
) -> Result<Vec<Row>, RecordsError> {
    desk.records.window(SERVICE.name, kind.name(), &window(from_us, to_us))
}

fn window(from_us: i64, to_us: Option<i64>) -> Window {
    Window {
        from_us: Some(from_us.saturating_sub(AROUND_US)),
        to_us: to_us.map(|to_us| to_us.saturating_add(AROUND_US)),
        ..Window::default()
    }
}

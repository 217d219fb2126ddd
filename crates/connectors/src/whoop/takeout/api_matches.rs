//! Finds the API's record for a row of the export: the same start to within minutes, or mostly the
//! same time where two records of a kind cannot overlap.

use store::records::{RecordsError, StoredRecord, Window};

use super::is_imported;
use super::rows::Draft;
use crate::ConnectorContext;
use crate::whoop::SERVICE;
use crate::whoop::kind::Kind;
use crate::whoop::shape::Shaped;

const MINUTE_US: i64 = 60_000_000;
/// The export drops fractions of seconds and sometimes counts from the first minute asleep.
const START_APART_US_MAX: i64 = 2 * MINUTE_US;
const AROUND_US: i64 = 3 * 24 * 60 * MINUTE_US;

/// The API's records of one kind, by start.
pub(super) struct ApiMatches {
    kind: Kind,
    rows: Vec<(i64, Option<i64>, String)>,
}

impl ApiMatches {
    /// The API's records around these drafts.
    pub(super) fn of(
        ctx: &ConnectorContext,
        kind: Kind,
        drafts: &[Draft],
    ) -> Result<ApiMatches, RecordsError> {
        let starts = || drafts.iter().map(|draft| draft.start.us());
        let (Some(first), Some(last)) = (starts().min(), starts().max()) else {
            return Ok(ApiMatches { kind, rows: Vec::new() });
        };
        let rows = around(ctx, kind, first, Some(last))?;
        let ours = rows.into_iter().filter(|row| !is_imported(&row.id));
        Ok(ApiMatches::from_rows(kind, ours))
    }

    fn from_rows(kind: Kind, rows: impl Iterator<Item = StoredRecord>) -> ApiMatches {
        let mut rows: Vec<_> =
            rows.filter_map(|row| Some((row.start_us?, row.end_us, row.id))).collect();
        rows.sort_unstable();
        ApiMatches { kind, rows }
    }

    pub(super) fn of_draft(&self, draft: &Draft) -> Option<&str> {
        self.find(draft.start.us(), draft.end_us)
    }

    fn find(&self, start_us: i64, end_us: Option<i64>) -> Option<&str> {
        let from = self.rows.partition_point(|row| row.0 < start_us - AROUND_US);
        let near = self.rows.iter().skip(from).take_while(|row| row.0 <= start_us + AROUND_US);
        let mut near = near.filter(|row| self.is_match((start_us, end_us), (row.0, row.1)));
        near.next().map(|row| row.2.as_str())
    }

    fn is_match(&self, one: (i64, Option<i64>), other: (i64, Option<i64>)) -> bool {
        if (one.0 - other.0).abs() <= START_APART_US_MAX {
            return true;
        }
        // Sleeps cannot overlap, but two workouts may.
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

/// Deletes records of an export that the API has since.
pub fn give_way(
    ctx: &ConnectorContext,
    kind: Kind,
    from_us: i64,
    to_us: Option<i64>,
) -> Result<(), RecordsError> {
    one_kind(ctx, kind, from_us, to_us)?;
    // A recovery has the times of its cycle. The API's recovery may have arrived before its cycle,
    // without times until now.
    if kind == Kind::Cycles {
        one_kind(ctx, Kind::Recoveries, from_us, to_us)?;
    }
    Ok(())
}

/// The same for records that were just fetched.
pub fn give_way_to(
    ctx: &ConnectorContext,
    kind: Kind,
    came: &[Shaped],
) -> Result<(), RecordsError> {
    let mut known_us = Vec::new();
    for shaped in came {
        let Some(id) = shaped.id.as_deref().filter(|id| !is_imported(id)) else { continue };
        let start_us = match shaped.start_us {
            None if kind == Kind::Recoveries => {
                ctx.records.one(SERVICE.name, kind.name(), id)?.and_then(|row| row.start_us)
            }
            start_us => start_us,
        };
        known_us.extend(start_us);
    }
    match (known_us.iter().min(), known_us.iter().max()) {
        (Some(first_us), Some(last_us)) => give_way(ctx, kind, *first_us, Some(*last_us)),
        _ => Ok(()),
    }
}

fn one_kind(
    ctx: &ConnectorContext,
    kind: Kind,
    from_us: i64,
    to_us: Option<i64>,
) -> Result<(), RecordsError> {
    let ids = ctx.records.ids_in(SERVICE.name, kind.name(), &window(from_us, to_us))?;
    if !ids.iter().any(|id| is_imported(id)) {
        return Ok(());
    }
    let rows = around(ctx, kind, from_us, to_us)?;
    let (imported, ours): (Vec<StoredRecord>, Vec<StoredRecord>) =
        rows.into_iter().partition(|row| is_imported(&row.id));
    let api_matches = ApiMatches::from_rows(kind, ours.into_iter());
    let has_twin = |row: &StoredRecord| {
        row.start_us.is_some_and(|start_us| api_matches.find(start_us, row.end_us).is_some())
    };
    let superseded: Vec<String> = imported.into_iter().filter(has_twin).map(|row| row.id).collect();
    let now_us = ctx.clock.now().wall_us;
    ctx.records.remove(SERVICE.name, kind.name(), &superseded, now_us).map(drop)
}

fn around(
    ctx: &ConnectorContext,
    kind: Kind,
    from_us: i64,
    to_us: Option<i64>,
) -> Result<Vec<StoredRecord>, RecordsError> {
    ctx.records.window(SERVICE.name, kind.name(), &window(from_us, to_us))
}

fn window(from_us: i64, to_us: Option<i64>) -> Window {
    Window {
        from_us: Some(from_us.saturating_sub(AROUND_US)),
        to_us: to_us.map(|to_us| to_us.saturating_add(AROUND_US)),
        ..Window::default()
    }
}

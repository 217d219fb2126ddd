//! Merges an export into the mirror. Records from the API are not changed.

use std::collections::HashMap;

use serde_json::json;
use store::records::Incoming;

use super::api_matches::ApiMatches;
use super::rows::{Draft, cycle_id};
use super::{Export, JOURNAL, TakeoutCounts, TakeoutError, TakeoutReport};
use crate::ConnectorContext;
use crate::whoop::SERVICE;
use crate::whoop::kind::Kind;
use crate::whoop::mirror_writer::store_page;

const BATCH_ROWS: usize = 500;

/// The id of each cycle of the export, by its start second: the API's id if the API has it.
type CycleIds = HashMap<i64, i64>;

pub(super) fn merge(
    ctx: &ConnectorContext,
    export: Export,
    imported: &mut TakeoutReport,
) -> Result<(), TakeoutError> {
    let (cycles, recoveries): (Vec<Draft>, Vec<Option<Draft>>) =
        export.days.into_iter().map(|day| (day.cycle, day.recovery)).unzip();
    // A cycle that was open in the export would never end; the API has its end.
    let (cycles, open): (Vec<Draft>, Vec<Draft>) =
        cycles.into_iter().partition(|draft| draft.end_us.is_some());
    let api_matches = ApiMatches::of(ctx, Kind::Cycles, &cycles)?;
    let mut ids: CycleIds =
        open.iter().map(|draft| (second(draft), cycle_id(draft.start))).collect();
    let mut new = Vec::new();
    let mut tally = TakeoutCounts { rows: cycles.len(), ..TakeoutCounts::default() };
    for draft in cycles {
        let twin = api_matches.of_draft(&draft).and_then(|id| id.parse().ok());
        ids.insert(second(&draft), twin.unwrap_or_else(|| cycle_id(draft.start)));
        if twin.is_some() { tally.known += 1 } else { new.push(draft) }
    }
    let own = |draft: &Draft| ids.get(&second(draft)).is_some_and(|id| *id < 0);
    let closed: Vec<Draft> =
        recoveries.into_iter().flatten().filter(|draft| draft.end_us.is_some()).collect();
    let mut recovered = TakeoutCounts { rows: closed.len(), ..TakeoutCounts::default() };
    let (wanted, known): (Vec<Draft>, Vec<Draft>) = closed.into_iter().partition(own);
    recovered.known = known.len();
    put(ctx, Kind::Cycles, new, &ids, &mut tally)?;
    put(ctx, Kind::Recoveries, wanted, &ids, &mut recovered)?;
    imported.kinds.insert(Kind::Cycles.name(), tally);
    imported.kinds.insert(Kind::Recoveries.name(), recovered);
    for (kind, drafts) in [(Kind::Sleeps, export.sleeps), (Kind::Workouts, export.workouts)] {
        let tally = own_times(ctx, kind, drafts, &ids)?;
        imported.kinds.insert(kind.name(), tally);
    }
    journal(ctx, &export.answers, imported)
}

/// Sleeps and workouts are matched with the API's by their times.
fn own_times(
    ctx: &ConnectorContext,
    kind: Kind,
    drafts: Vec<Draft>,
    ids: &CycleIds,
) -> Result<TakeoutCounts, TakeoutError> {
    let api_matches = ApiMatches::of(ctx, kind, &drafts)?;
    let mut tally = TakeoutCounts { rows: drafts.len(), ..TakeoutCounts::default() };
    let (known, new): (Vec<Draft>, Vec<Draft>) =
        drafts.into_iter().partition(|draft| api_matches.of_draft(draft).is_some());
    tally.known = known.len();
    put(ctx, kind, new, ids, &mut tally)?;
    Ok(tally)
}

fn put(
    ctx: &ConnectorContext,
    kind: Kind,
    drafts: Vec<Draft>,
    ids: &CycleIds,
    tally: &mut TakeoutCounts,
) -> Result<(), TakeoutError> {
    let texts: Vec<String> = drafts.into_iter().map(|draft| text(kind, draft, ids)).collect();
    for batch in texts.chunks(BATCH_ROWS) {
        let written = store_page(ctx, kind, batch)?.written;
        tally.written += written;
        tally.unchanged += batch.len() - written;
    }
    Ok(())
}

/// The record as text, linked to its cycle in the mirror.
fn text(kind: Kind, mut draft: Draft, ids: &CycleIds) -> String {
    if let (Kind::Sleeps, Some(raw)) = (kind, draft.raw.as_object_mut())
        && let Some(id) = ids.get(&draft.cycle_start.at.as_second())
    {
        raw.insert("cycle_id".to_owned(), json!(id));
    }
    draft.raw.to_string()
}

fn second(draft: &Draft) -> i64 {
    draft.cycle_start.at.as_second()
}

fn journal(
    ctx: &ConnectorContext,
    answers: &[super::JournalAnswer],
    imported: &mut TakeoutReport,
) -> Result<(), TakeoutError> {
    let mut tally = TakeoutCounts { rows: answers.len(), ..TakeoutCounts::default() };
    let updated: Vec<String> =
        answers.iter().map(|answer| answer.end.unwrap_or(answer.start).utc()).collect();
    let rows: Vec<Incoming<'_>> = answers
        .iter()
        .zip(&updated)
        .map(|(answer, updated)| Incoming {
            kind: JOURNAL,
            id: &answer.id,
            start_us: Some(answer.start.us()),
            end_us: answer.end.map(super::cells::Moment::us),
            offset_s: Some(answer.start.offset.seconds()),
            updated,
            updated_us: answer.end.unwrap_or(answer.start).us(),
            raw: &answer.raw,
            flat: &answer.flat,
            ..Incoming::default()
        })
        .collect();
    for batch in rows.chunks(BATCH_ROWS) {
        let kept = ctx.records.upsert(SERVICE.name, batch)?;
        tally.written += kept.written();
        tally.unchanged += kept.unchanged;
    }
    imported.kinds.insert(JOURNAL, tally);
    Ok(())
}

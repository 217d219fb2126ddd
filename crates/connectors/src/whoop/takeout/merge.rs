//! Joins an export with the mirror. Nothing that the API has brought is touched.

use std::collections::HashMap;

use serde_json::json;
use store::records::Incoming;

use super::rows::{Draft, cycle_id};
use super::twins::Twins;
use super::{Export, Imported, JOURNAL, TakeoutError, Tally};
use crate::Desk;
use crate::whoop::SERVICE;
use crate::whoop::keep::keep;
use crate::whoop::kind::Kind;

const BATCH_ROWS: usize = 500;

/// The id of each cycle of the export, by the second it began: the API's where the API has it.
type CycleIds = HashMap<i64, i64>;

pub(super) fn merge(
    desk: &Desk,
    export: Export,
    imported: &mut Imported,
) -> Result<(), TakeoutError> {
    let (cycles, recoveries): (Vec<Draft>, Vec<Option<Draft>>) =
        export.days.into_iter().map(|day| (day.cycle, day.recovery)).unzip();
    // A cycle that was open when the export was made would never end; the API knows how it went.
    let (cycles, open): (Vec<Draft>, Vec<Draft>) =
        cycles.into_iter().partition(|draft| draft.end_us.is_some());
    let twins = Twins::of(desk, Kind::Cycles, &cycles)?;
    let mut ids: CycleIds =
        open.iter().map(|draft| (second(draft), cycle_id(draft.start))).collect();
    let mut new = Vec::new();
    let mut tally = Tally { rows: cycles.len(), ..Tally::default() };
    for draft in cycles {
        let twin = twins.of_draft(&draft).and_then(|id| id.parse().ok());
        ids.insert(second(&draft), twin.unwrap_or_else(|| cycle_id(draft.start)));
        if twin.is_some() { tally.known += 1 } else { new.push(draft) }
    }
    let own = |draft: &Draft| ids.get(&second(draft)).is_some_and(|id| *id < 0);
    let closed: Vec<Draft> =
        recoveries.into_iter().flatten().filter(|draft| draft.end_us.is_some()).collect();
    let mut recovered = Tally { rows: closed.len(), ..Tally::default() };
    let (wanted, known): (Vec<Draft>, Vec<Draft>) = closed.into_iter().partition(own);
    recovered.known = known.len();
    put(desk, Kind::Cycles, new, &ids, &mut tally)?;
    put(desk, Kind::Recoveries, wanted, &ids, &mut recovered)?;
    imported.kinds.insert(Kind::Cycles.name(), tally);
    imported.kinds.insert(Kind::Recoveries.name(), recovered);
    for (kind, drafts) in [(Kind::Sleeps, export.sleeps), (Kind::Workouts, export.workouts)] {
        let tally = own_times(desk, kind, drafts, &ids)?;
        imported.kinds.insert(kind.name(), tally);
    }
    journal(desk, &export.answers, imported)
}

/// Sleeps and workouts are told from the API's by their own times.
fn own_times(
    desk: &Desk,
    kind: Kind,
    drafts: Vec<Draft>,
    ids: &CycleIds,
) -> Result<Tally, TakeoutError> {
    let twins = Twins::of(desk, kind, &drafts)?;
    let mut tally = Tally { rows: drafts.len(), ..Tally::default() };
    let (known, new): (Vec<Draft>, Vec<Draft>) =
        drafts.into_iter().partition(|draft| twins.of_draft(draft).is_some());
    tally.known = known.len();
    put(desk, kind, new, ids, &mut tally)?;
    Ok(tally)
}

fn put(
    desk: &Desk,
    kind: Kind,
    drafts: Vec<Draft>,
    ids: &CycleIds,
    tally: &mut Tally,
) -> Result<(), TakeoutError> {
    let texts: Vec<String> = drafts.into_iter().map(|draft| text(kind, draft, ids)).collect();
    for batch in texts.chunks(BATCH_ROWS) {
        let written = keep(desk, kind, batch)?.written;
        tally.written += written;
        tally.unchanged += batch.len() - written;
    }
    Ok(())
}

/// The record as text, linked to the cycle that the mirror has for it.
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
    desk: &Desk,
    answers: &[super::Answer],
    imported: &mut Imported,
) -> Result<(), TakeoutError> {
    let mut tally = Tally { rows: answers.len(), ..Tally::default() };
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
        let kept = desk.records.keep(SERVICE.name, batch)?;
        tally.written += kept.written();
        tally.unchanged += kept.unchanged;
    }
    imported.kinds.insert(JOURNAL, tally);
    Ok(())
}

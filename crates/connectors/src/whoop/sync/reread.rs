//! Asks again for records outside the window that had no score yet. Scores come late, and WHOOP
//! cannot be asked for what changed.

use store::records::Row;

use crate::sync::{Fault, Turn, some_at_a_time};
use crate::whoop::SERVICE;
use crate::whoop::api::{self, Endpoint, Patience};
use crate::whoop::keep::keep;
use crate::whoop::kind::Kind;
use crate::whoop::problem::Code;
use crate::whoop::shape::INVALID;
use crate::whoop::takeout;

const AT_ONCE: usize = 4;
const PENDING: &str = "PENDING_SCORE";
/// Pending records are few and all asked for. The others rarely change, and there may be hundreds
/// after ten years: each sync takes its turn on some of them.
const OTHERS_MAX: usize = 25;

/// Reads what is not scored and began before `before_us`, each by its id.
pub(super) async fn unscored(turn: &Turn<'_>, kind: Kind, before_us: i64) -> Result<(), Fault> {
    let rows = turn.desk.records.not_in_state(SERVICE.name, kind.name(), "SCORED")?;
    let outside = |row: &Row| row.start_us.is_none_or(|start_us| start_us < before_us);
    let (pending, others): (Vec<Row>, Vec<Row>) = rows
        .into_iter()
        .filter(|row| outside(row) && !takeout::is_imported(&row.id))
        .filter(|row| row.state.as_deref() != Some(INVALID))
        .partition(|row| row.state.as_deref() == Some(PENDING));
    let mut ids: Vec<String> = pending.into_iter().map(|row| row.id).collect();
    ids.extend(some_others(turn, kind, others)?);
    some_at_a_time(AT_ONCE, ids.iter().map(|id| again(turn, kind, id))).await
}

/// The next few in the round, which goes on where the last sync stopped.
fn some_others(turn: &Turn<'_>, kind: Kind, others: Vec<Row>) -> Result<Vec<String>, Fault> {
    let mut ids: Vec<String> = others.into_iter().map(|row| row.id).collect();
    if ids.len() > OTHERS_MAX {
        ids.sort_unstable();
        let key = format!("reread/{}", kind.name());
        let last = turn.desk.records.state_get(SERVICE.name, &key)?.unwrap_or_default();
        let next = ids.partition_point(|id| *id <= last) % ids.len();
        ids.rotate_left(next);
        ids.truncate(OTHERS_MAX);
        if let Some(last) = ids.last() {
            turn.desk.records.state_put(SERVICE.name, &key, last)?;
        }
    }
    Ok(ids)
}

async fn again(turn: &Turn<'_>, kind: Kind, id: &str) -> Result<(), Fault> {
    let Some(endpoint) = Endpoint::of(kind, id) else { return Ok(()) };
    match api::get(turn.desk, endpoint, &[], Patience::SYNC).await {
        Ok(fetched) => {
            let kept = keep(turn.desk, kind, &[fetched.text()])?;
            turn.page([id], kept.written, 0);
            for warning in kept.warnings {
                turn.warn(warning);
            }
            Ok(())
        }
        Err(problem) if problem.code == Code::NotFound => {
            let ids = [id.to_owned()];
            let removed =
                turn.desk.records.remove(SERVICE.name, kind.name(), &ids, turn.started_us)?;
            turn.removed(removed);
            Ok(())
        }
        Err(problem) => Err(problem.into()),
    }
}

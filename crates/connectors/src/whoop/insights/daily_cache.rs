//! The days of the whole mirror, kept until a record changes: ten years take longer to read than any
//! insight takes to compute.

use std::sync::{Arc, Mutex, PoisonError};

use store::records::{Records, RecordsError};

use super::daily::{DailyData, load};
use crate::ConnectorContext;
use crate::whoop::NAME;

/// What the mirror held when its days were computed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    newest_seq: i64,
    /// Records by kind: what is forgotten has no change number.
    counts: Vec<(String, u64)>,
}

impl Version {
    fn of(records: &Records) -> Result<Version, RecordsError> {
        Ok(Version { newest_seq: records.newest_seq()?, counts: records.counts(NAME)? })
    }
}

/// The days of one version of the mirror.
#[derive(Default)]
struct KeptDays(Mutex<Option<(Version, Arc<DailyData>)>>);

/// The last `days` days of the mirror, or all of it.
pub(super) fn recent(ctx: &ConnectorContext, days: Option<i32>) -> Result<DailyData, RecordsError> {
    let now_us = ctx.clock.now().wall_us;
    // Read before the records, so that a change in between is noticed by the next call.
    let version = Version::of(&ctx.records)?;
    let kept = ctx.state::<KeptDays>();
    let known = {
        let kept = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(own, _)| *own == version).map(|(_, whole)| Arc::clone(whole))
    };
    let whole = if let Some(whole) = known {
        whole
    } else {
        let whole = Arc::new(load(&ctx.records, now_us, None)?);
        let mut kept = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((version, Arc::clone(&whole)));
        whole
    };
    Ok(whole.recent(now_us, days))
}

//! When each grant was last used and how often, from one pass over the newest calls.

use std::collections::HashMap;

use store::ledger::{EntryKind, Filter};

use crate::app::App;
use crate::problem::Problem;
use crate::time::Moment;

const DAYS: i64 = 30;
const DAY_US: i64 = 86_400 * 1_000_000;

#[derive(Clone)]
pub(super) struct GrantUsage {
    pub(super) calls: u64,
    pub(super) last: Moment,
}

/// The use of grants, by label, and what it was counted in.
pub(super) struct Usage {
    pub(super) grants: HashMap<String, GrantUsage>,
    pub(super) counted_in: &'static str,
}

/// The use of all grants, or of one, in the last 30 days, as far as the newest rows of the log go back.
pub(super) fn usage(app: &App, grant: Option<&str>) -> Result<Usage, Problem> {
    let newest = app.newest_rows()?;
    let is_cut = newest.seq_min.is_some_and(|oldest| oldest > 0);
    let filter = Filter {
        grant: grant.map(str::to_owned),
        since_us: Some(app.now_us() - DAYS * DAY_US),
        only: Some(EntryKind::Call),
        ..newest
    };
    let mut grants: HashMap<String, GrantUsage> = HashMap::new();
    for entry in app.audit()?.newest_first(&filter)? {
        let entry = entry?;
        if entry.grant.is_empty() {
            continue;
        }
        let last = || Moment::parse(&entry.time, &app.zone);
        let usage = grants.entry(entry.grant.clone());
        usage.or_insert_with(|| GrantUsage { calls: 0, last: last() }).calls += 1;
    }
    let counted_in =
        if is_cut { "the newest 40,000 rows of the audit log" } else { "the last 30 days" };
    Ok(Usage { grants, counted_in })
}

//! When each grant was last used and how often, from one pass over the newest calls.

use std::collections::HashMap;

use store::ledger::{EntryKind, Filter};

use crate::app::App;
use crate::problem::Problem;
use crate::time::Moment;

const DAYS: i64 = 30;
const DAY_US: i64 = 86_400 * 1_000_000;
/// Entries that are read; more would make the page slow.
const ENTRIES_MAX: usize = 20_000;

#[derive(Clone)]
pub(super) struct GrantUsage {
    pub(super) calls: u64,
    pub(super) last: Moment,
}

/// The use of all grants, or of one, in the last 30 days, by label.
pub(super) fn usage(
    app: &App,
    grant: Option<&str>,
) -> Result<HashMap<String, GrantUsage>, Problem> {
    let filter = Filter {
        grant: grant.map(str::to_owned),
        since_us: Some(app.now_us() - DAYS * DAY_US),
        only: Some(EntryKind::Call),
        ..Filter::default()
    };
    let mut used: HashMap<String, GrantUsage> = HashMap::new();
    for entry in app.audit()?.newest_first(&filter)?.take(ENTRIES_MAX) {
        let entry = entry?;
        if entry.grant.is_empty() {
            continue;
        }
        let last = || Moment::parse(&entry.time, &app.zone);
        let usage = used.entry(entry.grant.clone());
        usage.or_insert_with(|| GrantUsage { calls: 0, last: last() }).calls += 1;
    }
    Ok(used)
}

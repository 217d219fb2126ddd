//! Which calls of the audit log a command replays, and the replay with its progress.

use anyhow::Result;
use clap::Args;
use dashboard::replay::{self, Recorded};
use jiff::tz::TimeZone;
use store::ledger::{EntryKind, Filter};

use crate::audit_log;
use crate::context::Stores;
use crate::moment;
use crate::output::Progress;

#[derive(Args)]
pub(super) struct CallFilter {
    /// Only calls for this server
    #[arg(long, value_name = "NAME")]
    pub(super) server: Option<String>,
    /// Only calls from this time on, such as 30d (ago) or 2026-11-15
    #[arg(long, value_name = "TIME")]
    pub(super) since: Option<String>,
}

/// Passes every judged call to `visit`, oldest first, one in memory at a time.
pub(super) fn each(
    grant: Option<&str>,
    selection: &CallFilter,
    zone: &TimeZone,
    stores: &Stores,
    visit: impl FnMut(Recorded) -> Result<()>,
) -> Result<()> {
    let now_us = stores.now_us();
    let since =
        selection.since.as_deref().map(|text| moment::parse_moment(text, now_us)).transpose()?;
    let filter = Filter {
        grant: grant.map(str::to_owned),
        server: selection.server.clone(),
        since_us: since,
        only: Some(EntryKind::Call),
        ..Filter::default()
    };
    let mut progress = Progress::new("replayed");
    let entries = audit_log::reader(stores)?.oldest_first(&filter)?;
    let counted = (0_u64..).zip(entries).map(|(done, entry)| {
        progress.at(done);
        entry
    });
    replay::each(counted, zone, visit)
}

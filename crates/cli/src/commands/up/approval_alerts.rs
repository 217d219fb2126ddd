//! Alerts the owner at the terminal of `tollgate up` that a call waits for approval: a line, and the bell if
//! stderr is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use store::clock::Clock;
use store::ledger::{Approval, ApprovalStatus, Ledger};
use tokio::sync::{Notify, watch};

use crate::context::Context;
use crate::hints::at_home;
use crate::output::visible;

/// How often calls of other processes on the same home, such as `tollgate stdio`, are polled.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Reports every call that starts to wait, until the gate stops.
pub(super) fn start(ledger: &Arc<Ledger>, context: &Context, mut stop: watch::Receiver<bool>) {
    let changed = Arc::new(Notify::new());
    let wake = Arc::clone(&changed);
    ledger.on_approval_change(move || wake.notify_one());
    let (ledger, context) = (Arc::clone(ledger), context.clone());
    tokio::spawn(async move {
        // Calls that waited before this start were reported by the previous gate and are in the list.
        let mut last = newest(&ledger);
        loop {
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(POLL_EVERY) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            for approval in waiting_after(last, &ledger, &context.clock) {
                alert(&approval, &context);
                last = last.max(approval.seq);
            }
        }
    });
}

fn newest(ledger: &Ledger) -> u64 {
    let approvals = ledger.approvals().unwrap_or_default();
    approvals.iter().map(|approval| approval.seq).max().unwrap_or(0)
}

fn waiting_after(last: u64, ledger: &Ledger, clock: &Clock) -> Vec<Approval> {
    let time = ledger.time(clock.now());
    let mut approvals = ledger.approvals().unwrap_or_default();
    approvals.retain(|approval| {
        approval.seq > last
            && approval.status == ApprovalStatus::Pending
            && !approval.is_expired(time)
    });
    approvals
}

fn alert(approval: &Approval, context: &Context) {
    let Approval { id, subject, server, grant, .. } = approval;
    let what = format!("`{}` on `{server}` for `{grant}`", visible(subject));
    let next = at_home(
        &format!("`tollgate approvals show {id}`, `tollgate approvals approve {id}`"),
        context.home_option(),
    );
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        // The bell first: a terminal that marks the window does so for the line that follows.
        let _ = writeln!(stderr, "\u{7}waiting for approval: {what}; {next}");
    } else {
        tracing::info!("waiting for approval: {what}; {next}");
    }
}

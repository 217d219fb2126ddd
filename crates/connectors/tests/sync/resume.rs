//! Interrupted and concurrent syncs.

use std::sync::atomic::{AtomicUsize, Ordering};

use connectors::sync::{self, SyncProgress, SyncRequest};
use connectors::whoop::sync::MIRROR;
use sandbox::{Fault, FaultKind};

use crate::fixture::Fixture;

fn full() -> SyncRequest {
    SyncRequest { full: true, ..SyncRequest::default() }
}

#[tokio::test]
async fn a_sync_that_was_cut_short_is_finished_by_the_next_one() {
    let fixture = Fixture::new(1_500);
    let asked = full();
    let enough = tokio::sync::Notify::new();
    let pages = AtomicUsize::new(0);
    let told = |step: SyncProgress<'_>| {
        if let SyncProgress::Page { .. } = step
            && pages.fetch_add(1, Ordering::SeqCst) == 60
        {
            enough.notify_one();
        }
    };
    // Cancelled in the middle, as by a client that disconnects.
    tokio::select! {
        biased;
        () = enough.notified() => {}
        ended = sync::run(&fixture.ctx, &MIRROR, &asked, &told) => panic!("it ended: {ended:?}"),
    }
    let some = fixture.mirrored("cycles").len();
    assert!(some > 0 && some < fixture.upstream("cycle").len(), "{some}");
    let running = fixture.ctx.records.runs("whoop", 6).unwrap();
    assert!(running.iter().any(|run| run.status == "running"));
    // Any sync also fetches the missing part.
    fixture.good().await;
    fixture.assert_equal();
}

#[tokio::test]
async fn a_repeated_full_sync_skips_complete_windows() {
    let fixture = Fixture::new(3_000);
    let sleeps = "/developer/v2/activity/sleep";
    let broken = FaultKind::Status { code: 418, retry_after: None, reset: None, body: None };
    fixture.sandbox.control().fault(Fault::on(sleeps, broken).after(100));
    assert_eq!(fixture.full().await["status"], "partial");
    fixture.sandbox.control().clear_faults();
    fixture.sandbox.control().reset_counters();
    assert_eq!(fixture.full().await["status"], "success");
    fixture.assert_equal();
    let counters = fixture.sandbox.control().counters();
    let again = counters.paths[&format!("GET {sleeps}")];
    let pages = fixture.upstream("sleep").len().div_ceil(25) as u64;
    assert!(again + 50 < pages, "{again} requests for {pages} pages");
}

#[tokio::test]
async fn two_at_once_take_turns_and_agree() {
    let fixture = Fixture::new(400);
    let second = fixture.second_desk();
    let waits = AtomicUsize::new(0);
    let told = |step: SyncProgress<'_>| {
        if step == SyncProgress::Waits {
            waits.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (asked, recent) = (full(), SyncRequest::default());
    let (one, two) = tokio::join!(
        sync::run(&fixture.ctx, &MIRROR, &asked, &told),
        sync::run(&second, &MIRROR, &recent, &told),
    );
    assert_eq!(one.unwrap().value()["status"], "success");
    assert_eq!(two.unwrap().value()["status"], "success");
    assert_eq!(waits.into_inner(), 1);
    fixture.assert_equal();
    fixture.ctx.records.check().unwrap();
}

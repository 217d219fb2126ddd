//! Syncs that are cut short, and two at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use connectors::sync::{self, Asked, Step};
use connectors::whoop::sync::MIRROR;
use sandbox::{Fault, What};

use crate::stage::Stage;

fn full() -> Asked {
    Asked { full: true, ..Asked::default() }
}

#[tokio::test]
async fn a_sync_that_was_cut_short_is_finished_by_the_next_one() {
    let stage = Stage::new(1_500);
    let asked = full();
    let enough = tokio::sync::Notify::new();
    let pages = AtomicUsize::new(0);
    let told = |step: Step<'_>| {
        if let Step::Page { .. } = step
            && pages.fetch_add(1, Ordering::SeqCst) == 60
        {
            enough.notify_one();
        }
    };
    // Given up in the middle, as by a client that goes away.
    tokio::select! {
        biased;
        () = enough.notified() => {}
        ended = sync::run(&stage.desk, &MIRROR, &asked, &told) => panic!("it ended: {ended:?}"),
    }
    let some = stage.mirrored("cycles").len();
    assert!(some > 0 && some < stage.upstream("cycle").len(), "{some}");
    let running = stage.desk.records.runs("whoop", 6).unwrap();
    assert!(running.iter().any(|run| run.status == "running"));
    // However it is asked: what is new includes what is missing.
    stage.good().await;
    stage.assert_equal();
}

#[tokio::test]
async fn the_same_full_sync_asked_again_skips_what_it_has() {
    let stage = Stage::new(3_000);
    let sleeps = "/developer/v2/activity/sleep";
    let broken = What::Status { code: 418, retry_after: None, reset: None, body: None };
    stage.sandbox.control().fault(Fault::on(sleeps, broken).after(100));
    assert_eq!(stage.full().await["status"], "partial");
    stage.sandbox.control().clear_faults();
    stage.sandbox.control().reset_counters();
    assert_eq!(stage.full().await["status"], "success");
    stage.assert_equal();
    let counters = stage.sandbox.control().counters();
    let again = counters.paths[&format!("GET {sleeps}")];
    let pages = stage.upstream("sleep").len().div_ceil(25) as u64;
    assert!(again + 50 < pages, "{again} requests for {pages} pages");
}

#[tokio::test]
async fn two_at_once_take_turns_and_agree() {
    let stage = Stage::new(400);
    let second = stage.second_desk();
    let waits = AtomicUsize::new(0);
    let told = |step: Step<'_>| {
        if step == Step::Waits {
            waits.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (asked, recent) = (full(), Asked::default());
    let (one, two) = tokio::join!(
        sync::run(&stage.desk, &MIRROR, &asked, &told),
        sync::run(&second, &MIRROR, &recent, &told),
    );
    assert_eq!(one.unwrap()["status"], "success");
    assert_eq!(two.unwrap()["status"], "success");
    assert_eq!(waits.into_inner(), 1);
    stage.assert_equal();
    stage.desk.records.check().unwrap();
}

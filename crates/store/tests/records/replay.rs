//! Sync is idempotent: pages in any order, any number of times, by any number of processes, give the
//! same records.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use sha2::{Digest, Sha256};
use store::records::{Records, Window};

use super::fixture::{DAY_US, Dice, Fixture, TestRecord};

const PAGES: usize = 24;
const PAGE_RECORDS: usize = 25;

/// Pages as a service sends them over the weeks: later ones hold later versions of the same records.
fn pages(dice: &mut Dice) -> Vec<Vec<TestRecord>> {
    (0..PAGES)
        .map(|_| {
            (0..PAGE_RECORDS)
                .map(|_| {
                    let number = dice.below(150);
                    let at = i64::try_from(number).unwrap();
                    let version = i64::try_from(dice.below(4)).unwrap();
                    match dice.below(3) {
                        0 => TestRecord::following(
                            "recoveries",
                            &format!("r{number}"),
                            &format!("c{number}"),
                        ),
                        _ => TestRecord {
                            // A cycle is open at first.
                            end_us: (version > 0).then_some(at * DAY_US + DAY_US + version),
                            ..TestRecord::new("cycles", &format!("c{number}"), at * DAY_US, None)
                        },
                    }
                    .in_state(if version > 1 { "SCORED" } else { "PENDING_SCORE" })
                    .version(version, &format!("v{version}"))
                })
                .collect()
        })
        .collect()
}

fn upsert(records: &Records, page: &[TestRecord]) {
    let page: Vec<_> = page.iter().map(TestRecord::incoming).collect();
    records.upsert("svc", &page).unwrap();
}

fn upsert_all(records: &Records, pages: &[Vec<TestRecord>]) {
    for page in pages {
        upsert(records, page);
    }
}

/// Everything that is kept, but for the numbers of the changes, which say in which order it came.
fn digest(records: &Records) -> String {
    let mut hash = Sha256::new();
    for kind in ["cycles", "recoveries"] {
        let mut rows = records.window("svc", kind, &Window::default()).unwrap();
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        for row in rows {
            hash.update(format!("{:?}\n", store::records::StoredRecord { seq: 0, ..row }));
        }
    }
    format!("{:02x?}", hash.finalize())
}

#[test]
fn replaying_pages_a_hundred_times_in_any_order_gives_the_same_digest() {
    let mut dice = Dice(32);
    let mut pages = pages(&mut dice);
    let first = Fixture::new();
    upsert_all(&first.records, &pages);
    let expected = digest(&first.records);

    for round in 0..5 {
        let fixture = Fixture::new();
        for _ in 0..20 {
            dice.shuffle(&mut pages);
            upsert_all(&fixture.records, &pages);
        }
        assert_eq!(digest(&fixture.records), expected, "round {round}");
    }

    let numbers = first.records.newest_seq().unwrap();
    for _ in 0..5 {
        dice.shuffle(&mut pages);
        upsert_all(&first.records, &pages);
    }
    assert_eq!(first.records.newest_seq().unwrap(), numbers, "what is known is no change");
    assert_eq!(digest(&first.records), expected);
    println!("P32: {} pages 100 times in random orders, 1 digest", pages.len());
}

#[test]
fn processes_that_write_at_once_agree_in_the_end() {
    let mut dice = Dice(7);
    let pages = pages(&mut dice);
    let alone = Fixture::new();
    upsert_all(&alone.records, &pages);

    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (records, mut pages) = (fixture.second(), pages.clone());
            scope.spawn(move || {
                Dice(seed).shuffle(&mut pages);
                upsert_all(&records, &pages);
            });
        }
        let reader = fixture.second();
        scope.spawn(move || {
            for _ in 0..200 {
                reader.window("svc", "cycles", &Window::default()).unwrap();
            }
        });
    });
    assert_eq!(digest(&fixture.records), digest(&alone.records));
    fixture.records.check().unwrap();
    println!("P32: 4 writers at once, 1 digest");
}

//! The promise of limits: in no interval of the window's length is more admitted than the limit
//! says, whatever the number of threads, processes, restarts and clock changes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use policy::Policy;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_oneof, proptest};
use store::clock::{Clock, Now};
use store::ledger::{Admission, Facts, Ledger, Options};

use super::support::{
    LedgerFixture, MINUTE_US, NOON, SECOND_US, call, facts, limited, ok, on_both, policy, rounds,
    try_call, verdict, verdict_on,
};

on_both! {
fn a_hundred_threads_race_for_three_calls_and_three_get_through(fixture) {
    let ledger = Arc::new(fixture.open());
    let rules = Arc::new(limited(r#"{"counter":"c","window":"minute","max":3}"#));
    for round in 0..rounds(10) {
        let admitted = AtomicUsize::new(0);
        let start = Barrier::new(100);
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    start.wait();
                    admitted.fetch_add(usize::from(call(&ledger, &rules)), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(admitted.load(Ordering::Relaxed), 3, "round {round}");
        fixture.clock.advance(MINUTE_US);
    }
    println!("P05: {} rounds of 100 threads at the ledger, limit 3: 3 admitted each", rounds(10));
}
}

#[test]
fn a_limit_survives_a_restart_and_a_new_segment() {
    let fixture = LedgerFixture::with(Options { segment_bytes_max: 1_000, ..Options::default() });
    let rules = limited(r#"{"counter":"c","window":"hour","max":50}"#);
    for restart in 0..5 {
        let ledger = fixture.open();
        for _ in 0..10 {
            assert!(call(&ledger, &rules), "restart {restart}");
            fixture.clock.advance(SECOND_US);
        }
    }
    let ledger = fixture.open();
    assert!(fixture.segment(4).exists(), "there were several segments");
    let denial = try_call(&ledger, &rules).unwrap_err();
    assert_eq!(denial.retry_after_seconds, Some(3_550));
}

on_both! {
fn scopes_share_what_they_say_they_share(fixture) {
    let ledger = fixture.open();
    let admits = |scope: &str, facts: Facts<'_>| {
        let rules = limited(&format!(
            r#"{{"counter":"c-{scope}","window":"hour","max":1,"scope":"{scope}"}}"#
        ));
        matches!(ledger.admit(&verdict(&rules, "{}"), &facts).unwrap(), Admission::Permit(_))
    };
    let base = facts();
    let bob = Facts { grant: "bob", ..base };
    let other_session = Facts { session: Some("s2"), ..base };
    let no_session = Facts { session: None, ..base };
    let other_server = Facts { server: "shop", ..base };
    // (scope, then who may still call after alice did)
    let table = [
        ("grant", [true, false, false, false]),
        ("session", [true, false, false, false]),
        ("server", [false, false, false, true]),
        ("everyone", [false, false, false, false]),
    ];
    for (scope, expected) in table {
        assert!(admits(scope, base), "{scope}");
        assert!(!admits(scope, base), "{scope}");
        let found =
            [bob, other_session, no_session, other_server].map(|facts| admits(scope, facts));
        assert_eq!(found, expected, "{scope}");
    }
}
}

on_both! {
fn a_counter_without_a_name_belongs_to_its_place_on_its_server(fixture) {
    let ledger = fixture.open();
    let rules = policy(
        r#"{"pay":{"rate_limit":{"max":1,"window":60}},"get":{"rate_limit":{"max":1,"window":60}}}"#,
    );
    let admits = |tool: &str, server: &str| {
        let facts = Facts { server, ..facts() };
        let admission = ledger.admit(&verdict_on(&rules, tool, "{}"), &facts).unwrap();
        matches!(admission, Admission::Permit(_))
    };
    for (tool, server) in [("pay", "bank"), ("get", "bank"), ("pay", "shop")] {
        assert!(admits(tool, server), "{tool} on {server}");
        assert!(!admits(tool, server), "{tool} on {server}");
    }
}
}

on_both! {
fn spend_is_counted_exactly(fixture) {
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"spend","window":"day","max":1,"increment":"args.amount"}"#);
    let pays = |amount: &str| {
        let verdict = verdict(&rules, &format!(r#"{{"amount":{amount}}}"#));
        ledger.admit(&verdict, &facts()).unwrap()
    };
    for _ in 0..10 {
        assert!(matches!(pays("0.1"), Admission::Permit(_)));
    }
    assert!(matches!(pays("0.000000000000000001"), Admission::Denied(_)), "ten tenths are one");
    fixture.clock.advance(24 * 60 * MINUTE_US);
    let Admission::Denied(denial) = pays("1.5") else { panic!("admitted") };
    assert_eq!(denial.retry_after_seconds, None, "waiting does not help");
    assert!(!denial.reason.contains("1.5"), "an argument is not repeated");
}
}

#[test]
fn a_clock_that_is_set_changes_no_limit() {
    const YEAR_US: i64 = 365 * 24 * 3_600 * 1_000_000;
    for jump_us in [1_000_000, -1_000_000, 3_600_000_000, -3_600_000_000, YEAR_US, -YEAR_US] {
        let fixture = LedgerFixture::new();
        let ledger = fixture.open();
        let rules = limited(r#"{"counter":"c","window":"minute","max":1}"#);
        assert!(call(&ledger, &rules));
        fixture.clock.set_wall(NOON.wall_us + jump_us);
        assert!(!call(&ledger, &rules), "{jump_us}");
        drop(ledger);
        let ledger = fixture.open();
        assert!(!call(&ledger, &rules), "{jump_us} and a restart");
        fixture.clock.advance(MINUTE_US);
        assert!(call(&ledger, &rules), "{jump_us} and a minute");
    }
}

#[test]
fn a_clock_that_was_set_back_revives_nothing() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.open();
    fixture.clock.advance(MINUTE_US);
    ledger.poll().unwrap();
    let before = ledger.trusted_now(fixture.clock.now());
    fixture.clock.set_wall(NOON.wall_us - 3_600_000_000);
    assert_eq!(ledger.trusted_now(fixture.clock.now()), before);
    drop(ledger);
    let reboot = Options { boot_id: Some("another".into()), ..Options::default() };
    let clock = Clock::set(Now { wall_us: NOON.wall_us - 1_000, steady_us: 0 });
    let ledger = Ledger::open(&fixture.audit(), clock.clone(), reboot).unwrap();
    assert!(ledger.trusted_now(clock.now()) >= before);
}

/// What can happen between two calls.
#[derive(Clone, Debug)]
enum Step {
    /// Time passes and this one of two processes tries to call.
    Call {
        gap_us: u64,
        process: usize,
    },
    SetWall {
        by_us: i64,
    },
    Restart {
        process: usize,
    },
    /// The machine was off for so long; its wall clock may have stood still, never run ahead.
    Reboot {
        off_us: u64,
        behind_us: u64,
    },
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..8 * SECOND_US, 0_usize..2).prop_map(|(gap_us, process)| Step::Call { gap_us, process }),
        2 => (-4_000_000_000_i64..4_000_000_000).prop_map(|by_us| Step::SetWall { by_us }),
        1 => (0_usize..2).prop_map(|process| Step::Restart { process }),
        1 => (0..2 * MINUTE_US, any::<bool>()).prop_map(|(off_us, behind)| Step::Reboot {
            off_us,
            behind_us: if behind { 500 * SECOND_US } else { 0 },
        }),
        1 => Just(Step::Release),
    ];
    prop::collection::vec(step, 1..120)
}

/// Two processes on one folder, in a world whose true time is known.
struct World {
    fixture: LedgerFixture,
    rules: Policy,
    ledgers: [Option<Ledger>; 2],
    true_us: u64,
    boots: u64,
    /// How wrong the wall clock is; it stays so while the machine is off.
    wrong_us: i64,
    admitted: Vec<u64>,
}

impl World {
    fn new() -> World {
        let fixture =
            LedgerFixture::with(Options { segment_bytes_max: 4_000, ..Options::default() });
        let rules = limited(
            r#"{"counter":"c","window":"minute","max":7},{"counter":"c","window":"10s","max":3}"#,
        );
        World {
            fixture,
            rules,
            ledgers: [None, None],
            true_us: 0,
            boots: 0,
            wrong_us: 0,
            admitted: Vec::new(),
        }
    }

    fn ledger(&mut self, process: usize) -> &Ledger {
        let options =
            Options { boot_id: Some(self.boots.to_string()), ..self.fixture.options.clone() };
        self.ledgers[process].get_or_insert_with(|| {
            Ledger::open(&self.fixture.audit(), self.fixture.clock.clone(), options).unwrap()
        })
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call { gap_us, process } => {
                self.true_us += gap_us;
                self.fixture.clock.advance(gap_us);
                self.ledger(process);
                if call(self.ledgers[process].as_ref().unwrap(), &self.rules) {
                    self.admitted.push(self.true_us);
                }
            }
            Step::SetWall { by_us } => {
                self.wrong_us += by_us;
                self.fixture.clock.set_wall(self.fixture.clock.now().wall_us + by_us);
            }
            Step::Restart { process } => self.ledgers[process] = None,
            Step::Reboot { off_us, behind_us } => {
                // A clock that is set while no process has the ledger open, and before a reboot, cannot
                // be told from a longer time off: the files and the clocks are the same in both cases.
                if self.ledgers.iter().all(Option::is_none) {
                    self.ledger(0);
                }
                self.ledgers = [None, None];
                self.boots += 1;
                self.true_us += off_us;
                let wall_us = NOON.wall_us + i64::try_from(self.true_us).unwrap();
                self.wrong_us -= i64::try_from(behind_us).unwrap();
                let wall_us = wall_us + self.wrong_us;
                self.fixture.clock = Clock::set(Now { wall_us, steady_us: 10 });
                // A clock that is set between the boot and the opening cannot be told from a longer
                // time off.
                self.ledger(0);
            }
            Step::Release => {
                self.ledger(0);
                let ledger = self.ledgers[0].as_ref().unwrap();
                if let Ok(permit) = try_call(ledger, &self.rules) {
                    permit.release("it never left").unwrap();
                }
            }
        }
    }

    /// The most that was admitted in any interval of this length.
    fn most_in(&self, window_us: u64) -> usize {
        let in_window_from = |start: &u64| {
            self.admitted.iter().filter(|t| (*start..start + window_us).contains(t)).count()
        };
        self.admitted.iter().map(in_window_from).max().unwrap_or(0)
    }
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 16, failure_persistence: None, ..proptest::prelude::ProptestConfig::default()
    })]

    #[test]
    fn no_interval_holds_more_than_the_limit(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            prop_assert!(world.most_in(MINUTE_US) <= 7, "{:?}", world.admitted);
            prop_assert!(world.most_in(10 * SECOND_US) <= 3, "{:?}", world.admitted);
        }
        // A caller that waits long enough is admitted.
        world.step(&Step::Call { gap_us: 0, process: 0 });
        world.step(&Step::Call { gap_us: 2 * MINUTE_US, process: 0 });
        prop_assert!(world.admitted.last() == Some(&world.true_us));
    }
}

on_both! {
fn a_busy_counter_stays_small_and_strict(fixture) {
    let ledger = fixture.open();
    let rules = limited(r#"{"counter":"c","window":"minute","max":2000}"#);
    let mut admitted = Vec::new();
    for step in 0..6_000_u64 {
        fixture.clock.advance(17_000);
        if let Ok(permit) = try_call(&ledger, &rules) {
            admitted.push(step * 17_000);
            permit.settle(&ok()).unwrap();
        }
    }
    let most = admitted
        .iter()
        .map(|start| {
            admitted.partition_point(|t| *t < start + MINUTE_US)
                - admitted.partition_point(|t| t < start)
        })
        .max();
    assert!(most.unwrap() <= 2_000);
    assert!(admitted.len() > 3_000, "granules hold back a little, not much: {}", admitted.len());
}
}

/// Versions that knew grants by their label wrote such rows: the first grant with that label keeps the count.
#[test]
fn counts_of_a_label_continue_for_its_grant_only() {
    for scope in ["grant", "session"] {
        let fixture = LedgerFixture::new();
        let rules =
            limited(&format!(r#"{{"counter":"c","window":"hour","max":3,"scope":"{scope}"}}"#));
        let call = |ledger: &Ledger, grant_id| {
            let facts = Facts { grant_id, ..facts() };
            matches!(ledger.admit(&verdict(&rules, "{}"), &facts).unwrap(), Admission::Permit(_))
        };
        let before = fixture.open();
        assert!(call(&before, "") && call(&before, ""));
        drop(before);
        let (ledger, other) = (fixture.open(), fixture.open());
        assert!(call(&ledger, "g_first"), "{scope}: two of three are taken");
        assert!(!call(&ledger, "g_first"), "{scope}");
        assert!(!call(&other, "g_first"), "{scope}: another process reads it so, too");
        for _ in 0..3 {
            assert!(call(&other, "g_second"), "{scope}: a new grant of that name");
        }
        assert!(!call(&other, "g_second"), "{scope}");
        drop((ledger, other));
        let again = fixture.open();
        assert!(!call(&again, "g_first") && !call(&again, "g_second"), "{scope}: after a restart");
        assert!(call(&again, ""), "{scope}: nothing is left under the label");
    }
}

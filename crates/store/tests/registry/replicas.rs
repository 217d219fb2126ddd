//! Replicas that share a registry: each sees what another changed, one change at a time, and what was
//! lost or restored on one side is noticed on the other.

use std::fs;
use std::sync::Arc;
use std::thread;

use policy::Format;
use rusqlite::Connection;
use store::clock::Clock;
use store::home::Home;
use store::ledger::{Ending, Facts, Ledger, LedgerError, Options, Outcome};
use store::random::Random;
use store::registry::{
    FileNames, GrantState, Registry, RegistryError, has_unrecorded_acts_on, log_remembered_on,
};
use store::vault::{Vault, run_no_program};

use crate::fixture::{ALLOW_ALL, DENY_ALL, Fixture, NOW_US, SECOND_US};

fn labels(registry: &Registry) -> Vec<String> {
    registry.refresh().unwrap();
    registry.grants().unwrap().into_iter().map(|grant| grant.label).collect()
}

/// Every row of every table.
fn dump(fixture: &Fixture, path: &std::path::Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut select = db.prepare(tables).unwrap();
    let tables = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut rows = Vec::new();
    for table in tables.map(Result::unwrap) {
        let mut select = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let count = select.column_count();
        let mut found = select.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let cells = (0..count).map(|n| format!("{:?}", row.get_ref(n).unwrap()));
            rows.push(format!("{table} {}", cells.collect::<Vec<_>>().join(" ")));
        }
    }
    rows.sort();
    assert!(!rows.is_empty(), "{:?}", fixture.registry);
    rows
}

#[test]
fn a_change_on_one_replica_is_read_on_the_other() {
    let fixture = Fixture::new();
    let other = fixture.second();
    fixture.add_builtin("demo");
    fixture.put_policy("p", ALLOW_ALL).unwrap();
    let seen = other.snapshot().unwrap();
    assert!(other.changed(seen.generation).unwrap());
    fixture.grant("alice", &[("demo", Some("p"))]);
    assert_eq!(labels(&other), ["alice"]);
    assert_eq!(other.snapshot().unwrap().version, fixture.registry.snapshot().unwrap().version);
    other.revoke_grant("alice", NOW_US).unwrap();
    let before = fixture.registry.snapshot().unwrap();
    assert!(fixture.registry.changed(before.generation).unwrap());
    let grants = fixture.registry.grants().unwrap();
    assert!(grants.iter().all(|grant| grant.state(NOW_US) == GrantState::Revoked));
    // What no serving replica runs with does not make it reload.
    let before = fixture.registry.snapshot().unwrap();
    other.note_time(NOW_US + SECOND_US).unwrap();
    assert!(!fixture.registry.changed(before.generation).unwrap());
    assert_eq!(fixture.registry.note_time(NOW_US).unwrap(), NOW_US + SECOND_US);
}

#[test]
fn copies_of_replicas_have_the_same_rows_after_changes_on_all_sides() {
    let fixture = Fixture::new();
    let other = fixture.second();
    for turn in 0..6 {
        let registry = if turn % 2 == 0 { &fixture.registry } else { &other };
        let name = format!("p{}", turn % 3);
        let source = if turn < 3 { ALLOW_ALL } else { DENY_ALL };
        let names = FileNames::default();
        registry.put_policy(&name, source, Format::Json, "test", &names, NOW_US).unwrap();
        registry.set_value("x", &turn.to_string(), NOW_US).unwrap();
        fixture.add_builtin(&format!("s{turn}"));
        registry.remove_server(&format!("s{turn}"), NOW_US).unwrap();
        // The same rows under new names: what is unique moves from one to the other.
        fixture.grant("alice", &[]);
        registry.revoke_grant("alice", NOW_US).unwrap();
    }
    fixture.registry.refresh().unwrap();
    other.refresh().unwrap();
    let second = fs::read_dir(fixture.path("second/replicas")).unwrap();
    let second = second.map(|entry| entry.unwrap().path());
    let second = second.filter(|path| path.extension().is_some_and(|end| end == "db"));
    for path in second {
        assert_eq!(dump(&fixture, &path), dump(&fixture, &fixture.db()));
    }
    // A copy that is made anew from the store has them too.
    let before = dump(&fixture, &fixture.db());
    fs::remove_dir_all(fixture.home.path().join("replicas")).unwrap();
    drop(fixture.again());
    assert_eq!(dump(&fixture, &fixture.db()), before);
    assert_eq!(fixture.registry.value("x").unwrap().as_deref(), Some("5"), "the open one finds it");
}

#[test]
fn changes_that_meet_are_made_one_after_the_other() {
    let fixture = Fixture::new();
    let other = Arc::new(fixture.second());
    thread::scope(|scope| {
        for worker in 0..4 {
            let registry = if worker % 2 == 0 { &fixture.registry } else { &*other };
            scope.spawn(move || {
                for turn in 0..10 {
                    let names = FileNames::default();
                    let text = format!(
                        r#"{{"version":"1","default":"deny","tools":{{"t{worker}x{turn}":{{}}}}}}"#
                    );
                    registry.put_policy("p", &text, Format::Json, "test", &names, NOW_US).unwrap();
                }
            });
        }
    });
    other.refresh().unwrap();
    let versions = other.policy_versions("p").unwrap();
    assert_eq!(versions.len(), 40);
}

#[test]
fn a_damaged_copy_is_made_anew() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let path = fixture.db();
    let fixture = {
        fs::write(&path, "not a database ".repeat(1000)).unwrap();
        let _ = fs::remove_file(path.with_extension("db-wal"));
        let _ = fs::remove_file(path.with_extension("db-shm"));
        fixture
    };
    assert_eq!(fixture.again().servers().unwrap().len(), 1);
}

#[test]
fn another_vault_key_is_refused() {
    let fixture = Fixture::new();
    let home = Home::create(&fixture.path("stranger")).unwrap();
    let vault = Vault::open_home(&home, &Random::System, run_no_program).unwrap();
    let opened = Registry::open_on(&home, fixture.address(), Arc::new(vault), Random::System);
    assert!(matches!(opened, Err(RegistryError::KeyChanged)));
}

#[test]
fn a_store_that_was_restored_from_a_copy_is_read_as_it_is() {
    let fixture = Fixture::new();
    let other = fixture.second();
    fixture.grant("kept", &[]);
    fixture.save();
    fixture.grant("lost", &[]);
    assert_eq!(labels(&other).len(), 2);
    let fixture = fixture.restore();
    // As many changes as before, but others.
    fixture.grant("new", &[]);
    let mut found = labels(&other);
    found.sort();
    assert_eq!(found, ["kept", "new"]);
}

#[test]
fn newer_tables_are_used_if_they_allow_it_and_keep_what_is_unknown() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    fixture.sql(
        "UPDATE registry_state SET schema = 1000;
         UPDATE registry_rows SET image = jsonb_set(image::jsonb, '{later}', '7')::text
         WHERE table_name = 'meta'",
    );
    fixture.grant("alice", &[("demo", None)]);
    let kept = "SELECT image::jsonb ->> 'later' FROM registry_rows WHERE table_name = 'meta'";
    assert_eq!(fixture.sql(kept), "7");
    fixture.sql("UPDATE registry_state SET oldest = 1000, mark = 'upgraded'");
    let error = fixture.registry.refresh().unwrap_err();
    assert!(matches!(error, RegistryError::NewerStore { found: 1000, .. }), "{error}");
    assert!(fixture.try_grant("bob", &[], None).is_err());
}

#[test]
fn older_tables_are_upgraded_once_and_every_replica_takes_them() {
    let fixture = Fixture::new();
    let other = fixture.second();
    fixture.add_builtin("demo");
    fixture.grant("alice", &[("demo", None)]);
    fixture.registry.set_value("x", "1", NOW_US).unwrap();
    let rows = |fixture: &Fixture| {
        let mut rows = dump(fixture, &fixture.db());
        rows.retain(|row| !row.starts_with("meta ") && !row.starts_with("replica_position "));
        rows
    };
    let before = rows(&fixture);
    fixture.sql("UPDATE registry_state SET schema = 14, oldest = 14");
    let changes = fixture.sql("SELECT seq FROM registry_state");
    let again = fixture.again();
    let state = "SELECT schema || ' ' || oldest || ' ' || (seq - $$N$$) FROM registry_state";
    assert_eq!(fixture.sql(&state.replace("$$N$$", &changes)), "15 15 1");
    again.refresh().unwrap();
    assert_eq!(rows(&fixture), before);
    drop(fixture.again());
    assert_eq!(fixture.sql(&state.replace("$$N$$", &changes)), "15 15 1", "only once");
    assert_eq!(labels(&other), ["alice"]);
}

#[test]
fn a_store_that_cannot_be_reached_refuses_changes_and_is_found_again() {
    let (server, fixture) = Fixture::on_private_server();
    fixture.add_builtin("demo");
    server.stop();
    let error = fixture.try_grant("alice", &[], None).unwrap_err();
    assert!(
        error.to_string().contains("cannot reach the store") || error.to_string().contains("store"),
        "{error}"
    );
    assert!(fixture.registry.changed(0).is_err());
    assert_eq!(fixture.registry.servers().unwrap().len(), 1, "reading needs no store");
    server.start();
    let mut tries = 0;
    while fixture.try_grant("alice", &[], None).is_err() {
        tries += 1;
        assert!(tries < 100_000, "it is not found again");
    }
    assert_eq!(labels(&fixture.second()), ["alice"]);
}

#[test]
fn a_gate_that_has_not_read_a_revocation_admits_nothing_until_it_has() {
    let fixture = Fixture::new();
    let other = fixture.second();
    fixture.add_builtin("demo");
    fixture.grant("alice", &[("demo", None)]);
    let options = Options::default();
    let ledger = Ledger::open_on_postgres(fixture.address(), Clock::System, options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let admit = |grant| {
        let facts = Facts { grant, method: "ping", ..Facts::default() };
        let permit = runtime.block_on(ledger.passed(&facts))?;
        permit.settle(&Outcome::new(Ending::Ok))
    };
    let load = |registry: &Registry| {
        let generation = Registry::store_generation(registry.snapshot().unwrap().generation);
        ledger.registry_loaded(generation);
        generation
    };
    admit("alice").unwrap();
    let before = load(&fixture.registry);
    admit("alice").unwrap();
    other.revoke_grant("alice", NOW_US).unwrap();
    assert!(matches!(admit("alice"), Err(LedgerError::RegistryBehind)));
    assert!(matches!(admit("bob"), Err(LedgerError::RegistryBehind)), "anything may have changed");
    admit("").unwrap();
    let wanted = runtime.block_on(ledger.registry_wanted_after(before));
    fixture.registry.refresh().unwrap();
    assert_eq!(load(&fixture.registry), wanted);
    runtime.block_on(ledger.registry_caught_up());
    admit("bob").unwrap();
}

#[test]
fn what_a_store_remembers_of_its_log_is_read_without_a_home() {
    let fixture = Fixture::new();
    let before = log_remembered_on(fixture.address());
    assert!(before.row.is_none() && !before.is_sealed);
    assert!(!has_unrecorded_acts_on(fixture.address()));
    let options = Options::default();
    let ledger = Ledger::open_on_postgres(fixture.address(), Clock::System, options).unwrap();
    let row = ledger.checkpoint().unwrap();
    fixture.registry.remember_log(&row, NOW_US).unwrap();
    fixture.registry.log_was_sealed(NOW_US).unwrap();
    fixture.put_policy("p", ALLOW_ALL).unwrap();
    let known = log_remembered_on(fixture.address());
    assert_eq!((known.row, known.is_sealed), (Some(row), true));
    assert!(has_unrecorded_acts_on(fixture.address()));
}

//! A home that moves to Postgres and back: the same rows, accounts, captures and audit log, with its
//! seal.

use std::fs;
use std::sync::Arc;

use store::accounts::{Account, Accounts};
use store::captures::CaptureLimits;
use store::clock::Clock;
use store::home::Home;
use store::ledger::{Ledger, Note, Options, Reader, SealKey, SealState, Sealing};
use store::logins::Logins;
use store::random::Random;
use store::registry::{FileNames, NewGrant, NewServer, Registry, RegistryError};
use store::registry::{ServerOptions, Target};
use store::secret::Secret;
use store::settings::Settings;

use crate::fixture::{Fixture, NOW_US, open};

/// Another home with the same key.
fn home(fixture: &Fixture, name: &str) -> (Home, Arc<Registry>) {
    let home = Home::create(&fixture.path(name)).unwrap();
    fs::copy(fixture.home.vault_key(), home.vault_key()).unwrap();
    let registry = Arc::new(open(&home).unwrap());
    (home, registry)
}

fn fill(registry: &Registry) {
    let target = Target::Builtin { service: "demo".into() };
    let new = NewServer { name: "demo".into(), target, options: ServerOptions::default() };
    registry.add_server(&new, &FileNames::default(), NOW_US).unwrap();
    let label = "alice".to_owned();
    let new = NewGrant { label, server_access: Vec::new(), expires_at_us: None };
    registry.create_grant(&new, &FileNames::default(), NOW_US).unwrap();
    registry.set_value("x", "kept", NOW_US).unwrap();
}

#[test]
fn a_registry_moves_to_postgres_and_back_with_accounts_and_captures() {
    let fixture = Fixture::new();
    let (shared_home, shared) = (fixture.home.clone(), Arc::new(fixture.again()));
    let (old_home, old) = home(&fixture, "old");
    fill(&old);
    let account = Account { access: Some(Secret::new("token")), ..Account::new("whoop", NOW_US) };
    let accounts = |home, registry| Accounts::of(home, registry, Random::System).unwrap();
    accounts(&old_home, &old).lock("whoop").unwrap().save(&account).unwrap();
    let limits = CaptureLimits::of(&Settings::default());
    for n in 0..210_u16 {
        let mut digest = [0; 32];
        digest[..2].copy_from_slice(&n.to_be_bytes());
        old.captures().put("bank", &digest, b"{}", NOW_US, &limits).unwrap();
    }
    let (new_home, new) = home(&fixture, "new");
    for (from, to) in
        [((&old_home, &old), (&shared_home, &shared)), ((&shared_home, &shared), (&new_home, &new))]
    {
        let count = from.1.copy_to(to.1).unwrap();
        assert!(count > 4, "{count}");
        assert_eq!(accounts(from.0, from.1).copy_to(&accounts(to.0, to.1)).unwrap(), 1);
        let logins = |home, registry| Logins::of(home, registry, Random::System);
        assert_eq!(logins(from.0, from.1).copy_to(&logins(to.0, to.1)).unwrap(), 0);
        assert_eq!(from.1.captures().copy_to(&to.1.captures()).unwrap(), 210);
    }
    assert_eq!(new.grants().unwrap(), old.grants().unwrap());
    assert_eq!(new.value("x").unwrap().as_deref(), Some("kept"));
    assert_eq!(accounts(&new_home, &new).load("whoop").unwrap(), Some(account));
    assert!(matches!(old.copy_to(&shared), Err(RegistryError::InUse)));
    let second = fixture.second();
    assert_eq!(second.grants().unwrap(), old.grants().unwrap(), "on every replica");
}

#[test]
fn a_log_moves_to_postgres_and_back_and_goes_on() {
    let fixture = Fixture::new();
    let (first, registry) = home(&fixture, "first");
    let key = SealKey::of(registry.vault()).unwrap();
    let options = || Options {
        seal: Some(Sealing { key: key.clone(), expected: false }),
        ..Options::default()
    };
    let note = |ledger: &Ledger, n: usize| {
        let words = format!("note {n}");
        ledger.note(&Note { act: "test", by: "test", about: "", words: &words }).unwrap();
    };
    let ledger = Ledger::open(&first.audit(), Clock::System, options()).unwrap();
    (0..3_000).for_each(|n| note(&ledger, n));
    ledger.flush().unwrap();
    drop(ledger);
    let log = Reader::open(&first.audit()).unwrap();
    let found = log.copy_to_postgres(fixture.address(), Some(&key)).unwrap();
    assert_eq!(found.last_row(), log.verify(None).unwrap().last_row());
    assert!(log.copy_to_postgres(fixture.address(), Some(&key)).is_err(), "only once");
    let shared = Reader::open_on_postgres(fixture.address()).unwrap();
    assert!(matches!(shared.seal(&key).unwrap(), SealState::Valid(_)));
    let ledger = Ledger::open_on_postgres(fixture.address(), Clock::System, options()).unwrap();
    note(&ledger, 3_000);
    drop(ledger);
    let (second, _) = home(&fixture, "second-home");
    let shared = Reader::open_on_postgres(fixture.address()).unwrap();
    shared.copy_to_folder(&second.audit(), Some(&key)).unwrap();
    let ledger = Ledger::open(&second.audit(), Clock::System, options()).unwrap();
    note(&ledger, 3_001);
    drop(ledger);
    let verified = Reader::open(&second.audit()).unwrap().verify(None).unwrap();
    assert!(verified.last_seq > found.last_seq);
}

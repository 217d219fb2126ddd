//! Accounts and logins that replicas share: one refreshes at a time, and a sign-in that began on one
//! replica ends on another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use store::accounts::{Account, Accounts};
use store::home::Home;
use store::logins::{AttemptOutcome, KnownClient, LockedLogin, LoginKey, Logins};
use store::random::Random;
use store::registry::Registry;
use store::secret::Secret;

use crate::fixture::{Fixture, NOW_US, SECOND_US};

/// Two replicas.
fn pair(fixture: &Fixture) -> [(Home, Arc<Registry>); 2] {
    let second = Arc::new(fixture.second());
    let home = Home::open(&fixture.path("second")).unwrap();
    [(fixture.home.clone(), Arc::new(fixture.again())), (home, second)]
}

fn accounts((home, registry): &(Home, Arc<Registry>)) -> Accounts {
    Accounts::of(home, registry, Random::System).unwrap()
}

fn logins((home, registry): &(Home, Arc<Registry>)) -> Logins {
    Logins::of(home, registry, Random::System)
}

fn account(refresh: &str) -> Account {
    Account { refresh: Some(Secret::new(refresh)), ..Account::new("whoop", NOW_US) }
}

fn refresh_of(account: Option<Account>) -> String {
    account.unwrap().refresh.unwrap().expose().clone()
}

#[test]
fn an_account_is_changed_by_one_replica_at_a_time() {
    let fixture = Fixture::new();
    let pair = pair(&fixture);
    let [first, second] = [accounts(&pair[0]), accounts(&pair[1])];
    let locked = first.lock("whoop").unwrap();
    locked.save(&account("one")).unwrap();
    assert!(second.try_lock("whoop").unwrap().is_none());
    drop(locked);
    let locked = second.lock("whoop").unwrap();
    assert_eq!(refresh_of(locked.load().unwrap()), "one", "the newest, whatever the copy had");
    assert_eq!(second.list().unwrap(), ["whoop"]);
    let before = first.version("whoop");
    locked.save(&account("two")).unwrap();
    drop(locked);
    pair[0].1.refresh().unwrap();
    assert_ne!(first.version("whoop"), before);
    assert_eq!(refresh_of(first.load("whoop").unwrap()), "two");
    assert!(first.lock("whoop").unwrap().wipe().unwrap());
    pair[1].1.refresh().unwrap();
    assert!(second.load("whoop").unwrap().is_none());
}

#[test]
fn a_token_is_refreshed_once_by_however_many_replicas() {
    let fixture = Fixture::new();
    let pair = pair(&fixture);
    accounts(&pair[0]).lock("whoop").unwrap().save(&account("old")).unwrap();
    let refreshed = AtomicU32::new(0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (accounts, refreshed) = (accounts(&pair[worker % 2]), &refreshed);
            scope.spawn(move || {
                let locked = accounts.lock("whoop").unwrap();
                if refresh_of(locked.load().unwrap()) == "old" {
                    refreshed.fetch_add(1, Ordering::Relaxed);
                    locked.save(&account("new")).unwrap();
                }
            });
        }
    });
    assert_eq!(refreshed.into_inner(), 1);
}

#[test]
fn a_holder_that_was_slow_writes_nothing_over_its_successor() {
    let fixture = Fixture::new();
    let pair = pair(&fixture);
    let [first, second] = [accounts(&pair[0]), accounts(&pair[1])];
    let slow = first.lock("whoop").unwrap();
    fixture.sql("UPDATE registry_leases SET until_us = 0");
    let next = second.lock("whoop").unwrap();
    next.save(&account("next")).unwrap();
    let error = slow.save(&account("late")).unwrap_err();
    assert!(error.to_string().contains("taken over"), "{error}");
    drop(slow);
    assert_eq!(refresh_of(next.load().unwrap()), "next");
    assert!(
        second.try_lock("whoop").unwrap().is_none(),
        "giving a lost lease back takes none away"
    );
}

fn locked(logins: &Logins, name: &str) -> LockedLogin {
    loop {
        if let Some(locked) = logins.try_lock(name).unwrap() {
            return locked;
        }
    }
}

#[test]
fn a_sign_in_begins_on_one_replica_and_ends_on_another() {
    let fixture = Fixture::new();
    let pair = pair(&fixture);
    let [first, second] = [logins(&pair[0]), logins(&pair[1])];
    let key = LoginKey::shared("notes");
    first.begin_attempt(&key, "state-1", "replaced", NOW_US).unwrap();
    first.begin_attempt(&key, "state-2", "verifier", NOW_US).unwrap();
    assert!(!second.is_attempt_open("state-1"), "one sign-in for each login");
    assert!(second.is_attempt_open("state-2"));
    let taken = second.take_attempt("state-2", NOW_US + SECOND_US).unwrap().unwrap();
    assert_eq!(taken.text.expose(), "verifier");
    assert!(first.take_attempt("state-2", NOW_US + SECOND_US).unwrap().is_none());
    let outcome = AttemptOutcome { is_signed_in: true, message: String::new() };
    second.finish_attempt("state-2", &outcome).unwrap();
    assert_eq!(first.take_outcome("state-2"), Some(outcome));
    assert_eq!(second.take_outcome("state-2"), None);
    let client = KnownClient {
        issuer: "https://issuer.example".to_owned(),
        mode: "dynamic".to_owned(),
        client_id: "c1".to_owned(),
        client_secret: Some(Secret::new("client-secret-4711")),
        auth_method: "client_secret_basic".to_owned(),
        redirect_uris: Vec::new(),
        secret_expires_s: None,
    };
    second.set_client(&client).unwrap();
    assert_eq!(first.client(&client.issuer).unwrap(), Some(client.clone()));
    first.forget_client(&client.issuer).unwrap();
    assert_eq!(second.client(&client.issuer).unwrap(), None);
    drop(locked(&first, "notes"));
    assert!(locked(&second, "notes").load().unwrap().is_none());
    for (path, bytes) in fixture.bytes() {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("client-secret-4711") && !text.contains("verifier"), "{path:?}");
    }
}

//! Tests of logins: what is stored, what cannot be moved, and what is used once.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::Path;

use super::*;
use crate::registry::{Origin, ServerOptions};
use crate::vault::KEY_BYTES;

const PLANTED: [&str; 3] = ["planted-client-secret", "planted-access", "planted-refresh"];

fn open(folder: &Path) -> Logins {
    let home = Home::create(&folder.join("home")).unwrap();
    let vault = Arc::new(Vault::from_key(Secret::new([7; KEY_BYTES])));
    Logins::at(&home, vault, Random::System)
}

fn login(server: &str, grant: Option<&str>) -> Login {
    Login {
        facts: LoginFacts {
            server: server.to_owned(),
            grant: grant.map(str::to_owned),
            url: "https://s.example/mcp".to_owned(),
            issuer: "https://a.example".to_owned(),
            token_endpoint: "https://a.example/token".to_owned(),
            revocation_endpoint: None,
            is_private: false,
            mode: "dynamic".to_owned(),
            client_id: "me".to_owned(),
            auth_method: "none".to_owned(),
            resource: None,
            scopes_requested: Vec::new(),
            scopes_granted: vec!["read".to_owned()],
            expires_us: Some(9),
            created_us: 5,
            refreshed_us: None,
            refreshing_us: None,
            state: LoginState::SignedIn,
            needs_scope: None,
        },
        tokens: LoginTokens {
            client_secret: Some(Secret::new(PLANTED[0])),
            access: Some(Secret::new(PLANTED[1])),
            refresh: Some(Secret::new(PLANTED[2])),
        },
    }
}

fn save(logins: &Logins, login: &Login) {
    let name = login.facts.key().file_name();
    logins.try_lock(&name).unwrap().unwrap().save(login).unwrap();
}

#[test]
fn a_login_is_read_as_it_was_saved_and_no_secret_is_in_clear() {
    let folder = tempfile::tempdir().unwrap();
    let logins = open(folder.path());
    let (shared, own) = (login("linear", None), login("linear", Some("g/1 é")));
    save(&logins, &shared);
    save(&logins, &own);
    assert_eq!(logins.load(&shared.facts.key()).unwrap().unwrap(), shared);
    assert_eq!(logins.load(&own.facts.key()).unwrap().unwrap(), own);
    assert_eq!(logins.of_server("linear").unwrap(), [shared.facts.clone(), own.facts.clone()]);
    assert_eq!(logins.of_server("lin").unwrap(), []);
    for entry in fs::read_dir(&logins.folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(PLANTED.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}

#[test]
fn rule_9_tokens_open_only_with_the_issuer_and_endpoint_they_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let logins = open(folder.path());
    let login = login("linear", None);
    save(&logins, &login);
    let path = logins.folder.join("linear.json");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("https://a.example/token", "https://evil.example/token"),
        ("\"https://a.example\"", "\"https://evil.example\""),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        fs::write(&path, changed).unwrap();
        assert!(matches!(logins.load(&login.facts.key()), Err(LoginsError::Sealed { .. })));
    }
    fs::write(logins.folder.join("notion.json"), &text).unwrap();
    assert!(logins.load(&LoginKey::shared("notion")).is_err());
}

#[test]
fn rule_5_a_client_is_kept_by_its_issuer() {
    let folder = tempfile::tempdir().unwrap();
    let logins = open(folder.path());
    let client = KnownClient {
        issuer: "https://a.example/t?x".to_owned(),
        mode: "dynamic".to_owned(),
        client_id: "me".to_owned(),
        client_secret: Some(Secret::new(PLANTED[0])),
        auth_method: "client_secret_basic".to_owned(),
        redirect_uris: vec!["http://127.0.0.1:4180/oauth/callback".to_owned()],
        secret_expires_s: None,
    };
    logins.set_client(&client).unwrap();
    assert_eq!(logins.client(&client.issuer).unwrap().as_ref(), Some(&client));
    assert_eq!(logins.client("https://a.example/t").unwrap(), None);
    logins.forget_client(&client.issuer).unwrap();
    assert_eq!(logins.client(&client.issuer).unwrap(), None);
    logins.forget_client(&client.issuer).unwrap();
}

#[test]
fn rule_7_a_sign_in_is_used_once_within_ten_minutes_and_replaces_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let logins = open(folder.path());
    let key = LoginKey::shared("linear");
    let made = folder.path().metadata().unwrap().modified().unwrap();
    let since = made.duration_since(std::time::UNIX_EPOCH).unwrap();
    let now_us = i64::try_from(since.as_micros()).unwrap();
    let take = |state: &str, at_us| {
        logins.take_attempt(state, at_us).unwrap().map(|found| found.text.expose().clone())
    };
    logins.begin_attempt(&key, "one", "first", now_us).unwrap();
    assert_eq!(take("other", now_us), None);
    assert_eq!(take("one", now_us + 1), Some("first".to_owned()));
    assert_eq!(take("one", now_us + 1), None);

    logins.begin_attempt(&key, "late", "x", now_us).unwrap();
    assert_eq!(take("late", now_us + attempts::ATTEMPT_US_MAX), None);
    logins.begin_attempt(&key, "early", "x", now_us).unwrap();
    assert_eq!(take("early", now_us - 1), None);

    logins.begin_attempt(&key, "two", "x", now_us).unwrap();
    logins.begin_attempt(&LoginKey::of_grant("linear", "g"), "three", "y", now_us).unwrap();
    logins.begin_attempt(&key, "four", "z", now_us).unwrap();
    assert!(!logins.is_attempt_open("two"));
    assert_eq!(take("three", now_us), Some("y".to_owned()));
    assert_eq!(take("four", now_us), Some("z".to_owned()));

    let outcome = AttemptOutcome { is_signed_in: true, message: String::new() };
    logins.finish_attempt("four", &outcome).unwrap();
    assert_eq!(logins.take_outcome("four"), Some(outcome));
    assert_eq!(logins.take_outcome("four"), None);
}

#[test]
fn a_locked_login_is_locked_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let logins = open(folder.path());
    let held = logins.try_lock("linear").unwrap().unwrap();
    assert!(logins.try_lock("linear").unwrap().is_none());
    assert!(logins.try_lock("notion").unwrap().is_some());
    drop(held);
    assert!(logins.try_lock("linear").unwrap().is_some());
    for name in ["", "../x", "a/b", "A"] {
        assert!(matches!(logins.try_lock(name), Err(LoginsError::Name(_))), "{name}");
    }
}

#[test]
fn a_login_is_for_the_address_that_was_signed_in_to() {
    let folder = tempfile::tempdir().unwrap();
    let logins = open(folder.path());
    save(&logins, &login("linear", None));
    let of = |url: &str| {
        let target = Target::Url {
            url: url.to_owned(),
            query: None,
            headers: Vec::new(),
            allow_plain_http: false,
        };
        let server = Server {
            name: "linear".to_owned(),
            target,
            options: ServerOptions::default(),
            created_at_us: 0,
            updated_at_us: 0,
            origin: Origin::Registry,
        };
        logins.at_server(&server).unwrap().remove(0)
    };
    for same in ["https://s.example/mcp", "https://S.example:443/mcp"] {
        assert_eq!(of(same), login("linear", None).facts, "{same}");
    }
    for other in ["https://s.example/mcp/", "https://s.example", "https://t.example/mcp", "x"] {
        let facts = of(other);
        let why = "the server's address has changed since the sign-in";
        assert_eq!(facts.owner_step(), Some(OwnerStep::SignIn { why }), "{other}");
    }
}

#[test]
fn only_what_the_owner_must_do_is_a_step() {
    let mut facts = login("linear", None).facts;
    assert_eq!(facts.owner_step(), None);
    let scopes = vec!["write".to_owned()];
    for (tries, expected) in [
        (0, OwnerStep::AllowScopes(&scopes)),
        (1, OwnerStep::AllowScopes(&scopes)),
        (2, OwnerStep::AskForRight(&scopes)),
    ] {
        facts.needs_scope = Some(NeedsScope { scopes: scopes.clone(), since_us: 1, tries });
        assert_eq!(facts.owner_step(), Some(expected), "{tries}");
    }
    facts.state = LoginState::NeedsSignIn { since_us: 1, message: "ended".to_owned() };
    assert_eq!(facts.owner_step(), Some(OwnerStep::SignIn { why: "ended" }));
}

//! People of the dashboard: links work once, sessions end, and one admin always remains.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its fixture should fail loudly")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::Fixture;
use store::registry::sessions::{
    ISSUER_SESSION_SECONDS_MAX, SESSION_IDLE_SECONDS_MAX, SESSION_SECONDS_MAX,
};
use store::registry::sign_in_links::LINK_SECONDS_MAX;
use store::registry::{
    Identity, IdentitySignIn, NewPasskey, OWNER, RegistryError, Role, SignInMethod, session_id,
};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

#[test]
fn a_link_signs_in_once_and_within_its_time() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let link = registry.create_sign_in_link(OWNER, 0).unwrap();
    assert!(registry.sign_in("tg_link_guessed", "test", 0).unwrap().is_none());
    let (person, cookie) = registry.sign_in(link.expose(), "test", 1).unwrap().unwrap();
    assert_eq!((person.name.as_str(), person.role), (OWNER, Role::Admin));
    assert!(registry.sign_in(link.expose(), "test", 2).unwrap().is_none(), "used before");
    let session = registry.browser_session(cookie.expose(), 3).unwrap().unwrap();
    assert_eq!(session.person, person);
    assert!(registry.browser_session(link.expose(), 3).unwrap().is_none(), "a link is no cookie");

    let late = registry.create_sign_in_link(OWNER, 0).unwrap();
    assert!(registry.sign_in(late.expose(), "test", LINK_SECONDS_MAX * SECOND).unwrap().is_none());
    assert!(registry.create_sign_in_link("stranger", 0).is_err());
}

#[test]
fn a_session_ends_when_idle_when_old_and_when_ended() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let signed_in = || {
        let link = registry.create_sign_in_link(OWNER, 0).unwrap();
        registry.sign_in(link.expose(), "test", 0).unwrap().unwrap().1
    };
    let lives = |cookie: &str, at: i64| registry.browser_session(cookie, at).unwrap().is_some();

    let idle = signed_in();
    assert!(lives(idle.expose(), SESSION_IDLE_SECONDS_MAX * SECOND));
    let other = signed_in();
    assert!(!lives(other.expose(), SESSION_IDLE_SECONDS_MAX * SECOND + 1));
    assert!(!lives(other.expose(), 0), "an ended session does not come back with the clock");

    let busy = signed_in();
    let days = SESSION_SECONDS_MAX * SECOND / DAY;
    assert!((1..=days).all(|day| lives(busy.expose(), day * DAY)));
    assert!(!lives(busy.expose(), SESSION_SECONDS_MAX * SECOND + 1));

    let (one, two) = (signed_in(), signed_in());
    registry.end_browser_session(one.expose()).unwrap();
    assert!(!lives(one.expose(), 1) && lives(two.expose(), 1));
    let unused = registry.create_sign_in_link(OWNER, 0).unwrap();
    registry.end_browser_sessions(OWNER, 2).unwrap();
    assert!(!lives(two.expose(), 3));
    assert!(registry.sign_in(unused.expose(), "test", 3).unwrap().is_none());
}

#[test]
fn sessions_of_a_person_are_bounded() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let cookies: Vec<_> = (0..25)
        .map(|at| {
            let link = registry.create_sign_in_link(OWNER, at).unwrap();
            registry.sign_in(link.expose(), "test", at).unwrap().unwrap().1
        })
        .collect();
    let alive: Vec<bool> = cookies
        .iter()
        .map(|cookie| registry.browser_session(cookie.expose(), 30).unwrap().is_some())
        .collect();
    assert_eq!(alive.iter().filter(|alive| **alive).count(), 20);
    assert_eq!((alive.first(), alive.last()), (Some(&false), Some(&true)), "the oldest end first");
}

#[test]
fn the_last_admin_stays() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    registry.create_sign_in_link(OWNER, 0).unwrap();
    let is_last = |error: RegistryError| matches!(error, RegistryError::LastAdmin(_));
    assert!(is_last(registry.remove_person(OWNER, 1).unwrap_err()));
    assert!(is_last(registry.set_role(OWNER, Role::Viewer, 1).unwrap_err()));
    registry.add_person("eve", Role::Viewer, None, 1).unwrap();
    assert!(registry.add_person("eve", Role::Admin, None, 1).is_err());
    assert!(registry.add_person("no good\n", Role::Viewer, None, 1).is_err());
    registry.set_role("eve", Role::Admin, 2).unwrap();
    let link = registry.create_sign_in_link(OWNER, 2).unwrap();
    let (_, cookie) = registry.sign_in(link.expose(), "test", 2).unwrap().unwrap();
    registry.remove_person(OWNER, 3).unwrap();
    assert!(registry.browser_session(cookie.expose(), 4).unwrap().is_none());
    let names: Vec<String> = registry.people().unwrap().into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["eve"]);
}

fn passkey<'a>(id: &'a [u8], name: &'a str) -> NewPasskey<'a> {
    NewPasskey { id, name, rp_id: "localhost", public_key: b"key", sign_count: 0 }
}

#[test]
fn a_passkey_belongs_to_one_person_and_its_counter_only_grows() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    registry.create_sign_in_link(OWNER, 0).unwrap();
    registry.add_person("eve", Role::Viewer, None, 0).unwrap();
    let handle = registry.user_handle(OWNER).unwrap();
    assert_eq!(handle, registry.user_handle(OWNER).unwrap(), "made once");
    assert_ne!(handle, registry.user_handle("eve").unwrap());
    assert!(registry.user_handle("stranger").is_err());

    registry.add_passkey(OWNER, &passkey(b"one", "Laptop"), 1).unwrap();
    assert!(registry.add_passkey("eve", &passkey(b"one", "Copy"), 1).is_err(), "taken");
    assert!(registry.add_passkey(OWNER, &passkey(b"two", " "), 1).is_err(), "no name");
    let stored = registry.passkey(b"one").unwrap().unwrap();
    assert_eq!((stored.person.as_str(), stored.user_handle), (OWNER, handle));

    for (count, is_good) in
        [(0, true), (0, true), (3, true), (3, false), (2, false), (0, false), (4, true)]
    {
        let signed_in = registry.sign_in_with_passkey(b"one", count, "test", 2).unwrap();
        assert_eq!(signed_in.is_some(), is_good, "{count}");
    }
    assert!(registry.sign_in_with_passkey(b"none", 9, "test", 2).unwrap().is_none());

    let number = registry.passkeys(OWNER).unwrap().first().unwrap().number;
    assert!(registry.remove_passkey("eve", number, 3).is_err(), "not hers");
    registry.remove_passkey(OWNER, number, 3).unwrap();
    assert!(registry.sign_in_with_passkey(b"one", 9, "test", 4).unwrap().is_none());
}

#[test]
fn passkeys_of_a_person_are_bounded_and_end_with_the_person() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    registry.add_person("eve", Role::Viewer, None, 0).unwrap();
    for number in 0..20_u8 {
        registry.add_passkey("eve", &passkey(&[number], "Key"), 1).unwrap();
    }
    let error = registry.add_passkey("eve", &passkey(&[99], "Key"), 1).unwrap_err();
    assert!(matches!(error, RegistryError::TooMany { .. }), "{error}");
    registry.remove_person("eve", 2).unwrap();
    assert!(registry.passkey(&[1]).unwrap().is_none());
}

#[test]
fn sessions_are_listed_and_end_one_by_one() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let cookies: Vec<_> = ["Firefox", "Chrome\n"]
        .into_iter()
        .map(|browser| {
            let link = registry.create_sign_in_link(OWNER, 0).unwrap();
            registry.sign_in(link.expose(), browser, 1).unwrap().unwrap().1
        })
        .collect();
    let listed = registry.browser_sessions(OWNER, 2).unwrap();
    let mut browsers: Vec<&str> = listed.iter().map(|one| one.browser.as_str()).collect();
    browsers.sort_unstable();
    assert_eq!(browsers, ["Chrome", "Firefox"]);
    assert!(listed.iter().all(|one| one.method == SignInMethod::Link));

    let first = session_id(cookies.first().unwrap().expose());
    registry.add_person("eve", Role::Viewer, None, 2).unwrap();
    registry.end_listed_session("eve", &first, 3).unwrap();
    assert_eq!(registry.browser_sessions(OWNER, 3).unwrap().len(), 2, "not hers to end");
    registry.end_listed_session(OWNER, &first, 3).unwrap();
    let left = registry.browser_sessions(OWNER, 3).unwrap();
    assert_eq!(left.len(), 1);
    assert_ne!(left.first().unwrap().id, first);
    assert!(registry.browser_sessions(OWNER, 40 * DAY).unwrap().is_empty(), "ended by time");
}

fn identity<'a>(subject: &'a str, email: Option<&'a str>, mapped: Option<Role>) -> Identity<'a> {
    Identity { issuer: "https://id.example", subject, email, mapped }
}

#[test]
fn an_issuer_signs_in_whom_an_admin_added_or_the_mapping_admits() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    registry.add_person("ann", Role::Auditor, Some("Ann@Example.com"), 0).unwrap();
    let signed_in = |identity: &Identity<'_>| match registry
        .sign_in_with_identity(identity, "test", 1)
        .unwrap()
    {
        IdentitySignIn::SignedIn(person, _) => Ok((person.name, person.role)),
        IdentitySignIn::Unknown => Err("unknown"),
        IdentitySignIn::OtherSubject => Err("other subject"),
        IdentitySignIn::NameTaken => Err("name taken"),
    };
    let name = |name: &str, role| Ok((name.to_owned(), role));
    let (ann, bob) = (Some("ann@example.com"), Some("bob@example.com"));
    let viewer = Some(Role::Viewer);
    let table = [
        (identity("9", None, None), Err("unknown")),
        (identity("9", bob, None), Err("unknown")),
        (identity("1", ann, viewer), name("ann", Role::Auditor)),
        (identity("1", None, None), name("ann", Role::Auditor)),
        (identity("2", ann, viewer), Err("other subject")),
        (identity("3", bob, viewer), name("bob@example.com", Role::Viewer)),
        (identity("3", bob, Some(Role::Admin)), name("bob@example.com", Role::Admin)),
        (identity("3", bob, None), Err("unknown")),
        (identity("owner", None, viewer), Err("name taken")),
        (identity("ann", None, viewer), Err("name taken")),
        (identity("no good", None, viewer), Err("name taken")),
        (identity("carl", None, viewer), name("carl", Role::Viewer)),
    ];
    for (identity, expected) in table {
        assert_eq!(signed_in(&identity), expected, "{identity:?}");
    }
    let other = Identity { issuer: "https://evil.example", ..identity("1", None, None) };
    assert_eq!(signed_in(&other), Err("unknown"), "a subject counts at its issuer only");
}

#[test]
fn the_mapping_decides_about_those_whom_it_admitted() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let carl = identity("carl", None, Some(Role::Admin));
    let IdentitySignIn::SignedIn(_, cookie) =
        registry.sign_in_with_identity(&carl, "test", 1).unwrap()
    else {
        unreachable!("the mapping admits carl");
    };
    assert!(matches!(registry.set_role("carl", Role::Viewer, 2), Err(RegistryError::Mapped(_))));
    assert!(matches!(registry.set_email("carl", None, 2), Err(RegistryError::Mapped(_))));
    let lives = |at| registry.browser_session(cookie.expose(), at).unwrap().is_some();
    assert!(lives(2));
    registry.sign_in_with_identity(&identity("carl", None, None), "test", 3).unwrap();
    assert!(!lives(4), "no longer admitted");
}

#[test]
fn a_session_of_an_issuer_lasts_a_day_and_ends_with_the_email() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    registry.add_person("ann", Role::Viewer, Some("ann@example.com"), 0).unwrap();
    let sign_in = |subject| {
        let ann = identity(subject, Some("ann@example.com"), None);
        match registry.sign_in_with_identity(&ann, "test", 0).unwrap() {
            IdentitySignIn::SignedIn(_, cookie) => Some(cookie),
            _ => None,
        }
    };
    let lives = |cookie: &str, at| registry.browser_session(cookie, at).unwrap().is_some();
    let one = sign_in("1").unwrap();
    assert!(lives(one.expose(), ISSUER_SESSION_SECONDS_MAX * SECOND));
    assert!(!lives(one.expose(), ISSUER_SESSION_SECONDS_MAX * SECOND + 1));
    let two = sign_in("1").unwrap();
    assert!(sign_in("2").is_none());
    registry.set_email("ann", Some("ann@example.com"), 1).unwrap();
    assert!(!lives(two.expose(), 2));
    assert!(sign_in("2").is_some(), "the binding was renewed");
    assert!(registry.add_person("eve", Role::Viewer, Some("ANN@example.com"), 3).is_err());
    for wrong in ["ann", "@example.com", "ann@example", "a b@example.com", "a@b@example.com"] {
        assert!(registry.set_email("ann", Some(wrong), 3).is_err(), "{wrong}");
    }
}

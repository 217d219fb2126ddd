//! People of the dashboard: links work once, sessions end, and one admin always remains.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its fixture should fail loudly")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::Fixture;
use store::registry::people::{LINK_SECONDS_MAX, SESSION_IDLE_SECONDS_MAX, SESSION_SECONDS_MAX};
use store::registry::{OWNER, RegistryError, Role};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

#[test]
fn a_link_signs_in_once_and_within_its_time() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let link = registry.create_sign_in_link(OWNER, 0).unwrap();
    assert!(registry.sign_in("tg_link_guessed", 0).unwrap().is_none());
    let (person, cookie) = registry.sign_in(link.expose(), 1).unwrap().unwrap();
    assert_eq!((person.name.as_str(), person.role), (OWNER, Role::Admin));
    assert!(registry.sign_in(link.expose(), 2).unwrap().is_none(), "used before");
    let session = registry.browser_session(cookie.expose(), 3).unwrap().unwrap();
    assert_eq!(session.person, person);
    assert!(registry.browser_session(link.expose(), 3).unwrap().is_none(), "a link is no cookie");

    let late = registry.create_sign_in_link(OWNER, 0).unwrap();
    assert!(registry.sign_in(late.expose(), LINK_SECONDS_MAX * SECOND).unwrap().is_none());
    assert!(registry.create_sign_in_link("stranger", 0).is_err());
}

#[test]
fn a_session_ends_when_idle_when_old_and_when_ended() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let signed_in = || {
        let link = registry.create_sign_in_link(OWNER, 0).unwrap();
        registry.sign_in(link.expose(), 0).unwrap().unwrap().1
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
    assert!(registry.sign_in(unused.expose(), 3).unwrap().is_none());
}

#[test]
fn sessions_of_a_person_are_bounded() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let cookies: Vec<_> = (0..25)
        .map(|at| {
            let link = registry.create_sign_in_link(OWNER, at).unwrap();
            registry.sign_in(link.expose(), at).unwrap().unwrap().1
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
    registry.add_person("eve", Role::Viewer, 1).unwrap();
    assert!(registry.add_person("eve", Role::Admin, 1).is_err());
    assert!(registry.add_person("no good\n", Role::Viewer, 1).is_err());
    registry.set_role("eve", Role::Admin, 2).unwrap();
    let link = registry.create_sign_in_link(OWNER, 2).unwrap();
    let (_, cookie) = registry.sign_in(link.expose(), 2).unwrap().unwrap();
    registry.remove_person(OWNER, 3).unwrap();
    assert!(registry.browser_session(cookie.expose(), 4).unwrap().is_none());
    let names: Vec<String> = registry.people().unwrap().into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["eve"]);
}

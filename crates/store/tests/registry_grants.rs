//! Grants and policies: tokens are shown once, end when they should, and lead where they may.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{ALLOW_ALL, DENY_ALL, Fixture, NOW_US, SECOND_US, holdings_of};
use policy::Format;
use store::clock::{Clock, Now};
use store::effective::{Effective, Ended, Lookup};
use store::gate_time::GateTime;
use store::registry::grants::OVERLAP_SECONDS_MAX;
use store::registry::{FileNames, ObjectKind, RegistryError, Token, TokenFault};

/// One word for what a token is good for.
fn word(effective: &Effective, token: &Token, now_us: i64) -> &'static str {
    match effective.lookup(token.expose(), now_us) {
        Lookup::Active(_) => "active",
        Lookup::Ended { why: Ended::Revoked, .. } => "revoked",
        Lookup::Ended { why: Ended::Expired, .. } => "expired",
        Lookup::Ended { why: Ended::Replaced, .. } => "replaced",
        Lookup::Unknown => "unknown",
        Lookup::NotAToken(_) => "not a token",
    }
}

#[test]
fn a_token_leads_to_its_grant_and_no_other() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let (alice, token) = fixture.grant("alice-laptop", &[("demo", None)]);
    let (_, other) = fixture.grant("bob@example.com", &[("demo", None)]);
    let effective = fixture.effective();
    assert_eq!(effective.lookup(token.expose(), NOW_US), Lookup::Active(&alice));
    assert!(
        matches!(effective.lookup(other.expose(), NOW_US), Lookup::Active(g) if g.label == "bob@example.com")
    );
    let unknown = Token::generate(&store::random::Random::System).unwrap();
    assert_eq!(word(&effective, &unknown, NOW_US), "unknown");
    let typo = token.expose().replace(token.expose().get(10..11).unwrap(), "_");
    assert_eq!(effective.lookup(&typo, NOW_US), Lookup::NotAToken(TokenFault::NotAToken));
    for text in ["", "Bearer", "tg_"] {
        assert!(matches!(effective.lookup(text, NOW_US), Lookup::NotAToken(_)));
    }
}

#[test]
fn a_rotated_token_works_through_the_overlap_and_not_longer() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let (_, first) = fixture.grant("alice", &[("demo", None)]);
    let second = fixture.registry.rotate_grant("alice", 60, NOW_US).unwrap();
    let effective = fixture.effective();
    // token, seconds after the rotation, what it is good for
    let table = [
        (&first, 0, "active"),
        (&first, 59, "active"),
        (&first, 60, "replaced"),
        (&second, 60, "active"),
    ];
    for (token, seconds, wanted) in table {
        assert_eq!(word(&effective, token, NOW_US + seconds * SECOND_US), wanted, "{seconds}");
    }
    assert_eq!(effective.next_end_us(NOW_US), Some(NOW_US + 60 * SECOND_US));

    // A second rotation never makes an old token last longer.
    let third = fixture.registry.rotate_grant("alice", 3_600, NOW_US + SECOND_US).unwrap();
    let effective = fixture.effective();
    assert_eq!(word(&effective, &first, NOW_US + 60 * SECOND_US), "replaced");
    assert_eq!(word(&effective, &second, NOW_US + 600 * SECOND_US), "active");

    // Without overlap all older tokens stop at once.
    let fourth = fixture.registry.rotate_grant("alice", 0, NOW_US + 2 * SECOND_US).unwrap();
    let effective = fixture.effective();
    for (token, wanted) in
        [(&first, "unknown"), (&second, "unknown"), (&third, "unknown"), (&fourth, "active")]
    {
        assert_eq!(word(&effective, token, NOW_US + 2 * SECOND_US), wanted);
    }
    let long = fixture.registry.rotate_grant("alice", OVERLAP_SECONDS_MAX + 1, NOW_US);
    assert!(matches!(long, Err(RegistryError::OverlapTooLong { .. })));
}

#[test]
fn a_revoked_grant_ends_at_once_and_its_label_is_free_again() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let (_, token) = fixture.grant("alice", &[("demo", None)]);
    let rotated = fixture.registry.rotate_grant("alice", 60, NOW_US).unwrap();
    fixture.registry.revoke_grant("alice", NOW_US).unwrap();
    let effective = fixture.effective();
    assert_eq!(word(&effective, &token, NOW_US), "revoked");
    assert_eq!(word(&effective, &rotated, NOW_US), "revoked");
    assert!(matches!(
        fixture.registry.grant("alice"),
        Err(RegistryError::Revoked { at_us: NOW_US, .. })
    ));
    let (again, new_token) = fixture.grant("alice", &[("demo", None)]);
    let effective = fixture.effective();
    assert_eq!(effective.lookup(new_token.expose(), NOW_US), Lookup::Active(&again));
    assert_eq!(word(&effective, &token, NOW_US), "revoked");
    assert_eq!(fixture.registry.grants().unwrap().len(), 2);
}

#[test]
fn an_expired_grant_stays_expired_when_the_clock_is_set_back() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let expires_us = NOW_US + 3_600 * SECOND_US;
    let (_, token) = fixture.try_grant("alice", &[("demo", None)], Some(expires_us)).unwrap();
    let clock = Clock::set(Now { wall_us: NOW_US, steady_us: 0 });
    let time = GateTime::new(clock.now(), fixture.registry.note_time(NOW_US).unwrap());
    let effective = fixture.effective();
    let at_now = || word(&effective, &token, time.at(clock.now()));
    assert_eq!(at_now(), "active");

    // Set back by a year: an hour later by the steady clock it has expired all the same.
    clock.set_wall(NOW_US - 365 * 86_400 * SECOND_US);
    assert_eq!(at_now(), "active");
    clock.advance(3_600 * 1_000_000);
    assert_eq!(at_now(), "expired");

    // A new process with the clock still wrong: what was noted and marked holds.
    let marked = fixture.registry.expire_due(time.at(clock.now())).unwrap();
    assert_eq!(marked, ["alice"]);
    assert!(fixture.registry.expire_due(time.at(clock.now())).unwrap().is_empty());
    assert_eq!(word(&fixture.effective(), &token, clock.now().wall_us), "expired");
    fixture.registry.note_time(time.at(clock.now())).unwrap();
    let noted_us = fixture.registry.note_time(clock.now().wall_us).unwrap();
    assert!(GateTime::new(clock.now(), noted_us).at(clock.now()) >= expires_us);

    // Only the owner brings it back.
    fixture.registry.set_expiry("alice", Some(expires_us + 10), expires_us).unwrap();
    assert_eq!(word(&fixture.effective(), &token, expires_us), "active");
    fixture.registry.forget_time().unwrap();
    assert_eq!(fixture.registry.note_time(7).unwrap(), 7);
}

#[test]
fn a_grant_holds_only_what_exists() {
    let fixture = Fixture::new();
    fixture.add_builtin("whoop");
    fixture.put_policy("read-only", DENY_ALL).unwrap();
    let (grant, _) = fixture.grant("alice", &[("whoop", Some("read-only"))]);
    let effective = fixture.effective();
    let access = effective.access(&grant, "whoop").unwrap();
    assert_eq!(access.policy.unwrap().label(), "read-only@1");
    assert!(effective.access(&grant, "other").is_none());

    let table: [(&str, Option<&str>, &str); 3] = [
        ("woop", None, "there is no server `woop`, did you mean `whoop`?"),
        ("whoop", Some("readonly"), "there is no policy `readonly`, did you mean `read-only`?"),
        ("zzz", None, "there is no server `zzz`"),
    ];
    for (server, policy, words) in table {
        let error = fixture.try_grant("bob", &[(server, policy)], None).unwrap_err();
        assert_eq!(error.to_string(), words);
    }
    let names = FileNames {
        servers: ["notes".to_owned()].into(),
        policies: ["from-file".to_owned()].into(),
        ..FileNames::default()
    };
    let server_access = holdings_of(&[("notes", Some("from-file"))]);
    fixture.registry.set_server_access("alice", &server_access, &names, NOW_US).unwrap();
    assert_eq!(fixture.registry.grant("alice").unwrap().server_access, server_access);
}

#[test]
fn labels_that_do_not_fit_or_are_taken_are_refused() {
    let fixture = Fixture::new();
    for label in ["", ".a", "a b", "a\n", "ä", &"a".repeat(65)] {
        let error = fixture.try_grant(label, &[], None).unwrap_err();
        assert!(matches!(error, RegistryError::Name { kind: ObjectKind::Grant, .. }), "{label}");
    }
    fixture.grant("alice", &[]);
    assert!(matches!(fixture.try_grant("alice", &[], None), Err(RegistryError::Exists { .. })));
    let past = fixture.try_grant("bob", &[], Some(NOW_US));
    assert!(matches!(past, Err(RegistryError::ExpiryPast(_))));
    let missing = fixture.registry.rotate_grant("alicia", 0, NOW_US).unwrap_err();
    assert!(missing.to_string().contains("did you mean `alice`?"), "{missing}");
}

#[test]
fn every_version_of_a_policy_is_kept() {
    let fixture = Fixture::new();
    assert_eq!(fixture.put_policy("p", DENY_ALL).unwrap(), 1);
    assert_eq!(fixture.put_policy("p", ALLOW_ALL).unwrap(), 2);
    assert_eq!(fixture.put_policy("p", ALLOW_ALL).unwrap(), 2, "the same text is no new version");
    let back = fixture.registry.roll_back_policy("p", 1, "test", NOW_US).unwrap();
    assert_eq!((back.version, back.source.as_str()), (3, DENY_ALL));
    let versions = fixture.registry.policy_versions("p").unwrap();
    assert_eq!(versions.iter().map(|v| v.version).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(fixture.registry.policy_version("p", 2).unwrap().source, ALLOW_ALL);
    assert!(fixture.registry.policy_version("p", 9).is_err());
    let found = fixture.registry.policy_by_sha256(&back.sha256).unwrap().unwrap();
    assert_eq!(found.source, DENY_ALL);
}

#[test]
fn a_policy_that_does_not_load_replaces_nothing() {
    let fixture = Fixture::new();
    fixture.put_policy("p", DENY_ALL).unwrap();
    let test =
        r#"{"version":"1","default":"deny","tests":[{"name":"t","tool":"x","expect":"EXPECT"}]}"#;
    let table = [
        ("", "line 1"),
        ("{", "line 1"),
        (r#"{"version":"1","default":"deny","colour":1}"#, "unknown field `colour`"),
        (r#"{"version":"1","version":"1"}"#, "line 1"),
        (&test.replace("EXPECT", "allow"), "test `t`"),
    ];
    for (bad, words) in table {
        let error = fixture.put_policy("p", bad).unwrap_err();
        assert!(matches!(error, RegistryError::PolicyDoesNotLoad { .. }), "{bad}: {error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(fixture.registry.policy_versions("p").unwrap().len(), 1);
    assert_eq!(fixture.put_policy("q", &test.replace("EXPECT", "deny")).unwrap(), 1);
    assert_eq!(fixture.registry.policy("p").unwrap().version, 1);
    assert_eq!(fixture.effective().policies.get("p").unwrap().source, DENY_ALL);
}

#[test]
fn a_policy_in_use_is_not_removed_and_its_history_outlives_it() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    fixture.put_policy("p", DENY_ALL).unwrap();
    fixture.grant("alice", &[("demo", Some("p"))]);
    let error = fixture.registry.remove_policy("p", NOW_US).unwrap_err();
    assert!(error.to_string().contains("in use by `alice`"), "{error}");
    fixture.registry.revoke_grant("alice", NOW_US).unwrap();
    fixture.registry.remove_policy("p", NOW_US).unwrap();
    assert!(fixture.registry.policies().unwrap().is_empty());
    assert!(matches!(
        fixture.registry.remove_policy("p", NOW_US),
        Err(RegistryError::Missing { .. })
    ));
    assert_eq!(fixture.registry.policy_version("p", 1).unwrap().source, DENY_ALL);
    assert_eq!(fixture.put_policy("p", ALLOW_ALL).unwrap(), 2, "numbers are never used again");
}

#[test]
fn the_text_of_a_policy_from_a_file_is_found_by_its_hash() {
    let fixture = Fixture::new();
    let mut text = fixture
        .registry
        .put_policy("p", DENY_ALL, Format::Json, "t", &FileNames::default(), NOW_US)
        .unwrap();
    text.sha256 = "00".repeat(32);
    fixture.registry.keep_file_policy(&text, NOW_US).unwrap();
    fixture.registry.keep_file_policy(&text, NOW_US + 1).unwrap();
    let found = fixture.registry.policy_by_sha256(&text.sha256).unwrap().unwrap();
    assert_eq!((found.source.as_str(), found.version), (DENY_ALL, 0));
    assert!(fixture.registry.policy_by_sha256("ff").unwrap().is_none());
}

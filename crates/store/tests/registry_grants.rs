//! Grants and policies: tokens are shown once, end when they should, and lead where they may.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage should fail loudly")]

#[path = "support/stage.rs"]
mod stage;

use policy::Format;
use stage::{ALLOW_ALL, DENY_ALL, NOW_US, SECOND_US, Stage, holdings_of};
use store::clock::{Clock, Now};
use store::effective::{Effective, Ended, Lookup};
use store::gate_time::GateTime;
use store::registry::grants::OVERLAP_SECONDS_MAX;
use store::registry::{FileNames, RegistryError, Thing, Token, TokenFault};

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
    let stage = Stage::new();
    stage.add_builtin("demo");
    let (alice, token) = stage.grant("alice-laptop", &[("demo", None)]);
    let (_, other) = stage.grant("bob@example.com", &[("demo", None)]);
    let effective = stage.effective();
    assert_eq!(effective.lookup(token.expose(), NOW_US), Lookup::Active(&alice));
    assert!(
        matches!(effective.lookup(other.expose(), NOW_US), Lookup::Active(g) if g.label == "bob@example.com")
    );
    let nobody = Token::generate(&store::random::Random::System).unwrap();
    assert_eq!(word(&effective, &nobody, NOW_US), "unknown");
    let typo = token.expose().replace(token.expose().get(10..11).unwrap(), "_");
    assert_eq!(effective.lookup(&typo, NOW_US), Lookup::NotAToken(TokenFault::NotAToken));
    for text in ["", "Bearer", "tg_"] {
        assert!(matches!(effective.lookup(text, NOW_US), Lookup::NotAToken(_)));
    }
}

#[test]
fn a_rotated_token_works_through_the_overlap_and_not_longer() {
    let stage = Stage::new();
    stage.add_builtin("demo");
    let (_, first) = stage.grant("alice", &[("demo", None)]);
    let second = stage.registry.rotate_grant("alice", 60, NOW_US).unwrap();
    let effective = stage.effective();
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
    let third = stage.registry.rotate_grant("alice", 3_600, NOW_US + SECOND_US).unwrap();
    let effective = stage.effective();
    assert_eq!(word(&effective, &first, NOW_US + 60 * SECOND_US), "replaced");
    assert_eq!(word(&effective, &second, NOW_US + 600 * SECOND_US), "active");

    // Without overlap all older tokens stop at once.
    let fourth = stage.registry.rotate_grant("alice", 0, NOW_US + 2 * SECOND_US).unwrap();
    let effective = stage.effective();
    for (token, wanted) in
        [(&first, "unknown"), (&second, "unknown"), (&third, "unknown"), (&fourth, "active")]
    {
        assert_eq!(word(&effective, token, NOW_US + 2 * SECOND_US), wanted);
    }
    let long = stage.registry.rotate_grant("alice", OVERLAP_SECONDS_MAX + 1, NOW_US);
    assert!(matches!(long, Err(RegistryError::OverlapTooLong { .. })));
}

#[test]
fn a_revoked_grant_ends_at_once_and_its_label_is_free_again() {
    let stage = Stage::new();
    stage.add_builtin("demo");
    let (_, token) = stage.grant("alice", &[("demo", None)]);
    let rotated = stage.registry.rotate_grant("alice", 60, NOW_US).unwrap();
    stage.registry.revoke_grant("alice", NOW_US).unwrap();
    let effective = stage.effective();
    assert_eq!(word(&effective, &token, NOW_US), "revoked");
    assert_eq!(word(&effective, &rotated, NOW_US), "revoked");
    assert!(matches!(
        stage.registry.grant("alice"),
        Err(RegistryError::Revoked { at_us: NOW_US, .. })
    ));
    let (again, new_token) = stage.grant("alice", &[("demo", None)]);
    let effective = stage.effective();
    assert_eq!(effective.lookup(new_token.expose(), NOW_US), Lookup::Active(&again));
    assert_eq!(word(&effective, &token, NOW_US), "revoked");
    assert_eq!(stage.registry.grants().unwrap().len(), 2);
}

#[test]
fn an_expired_grant_stays_expired_when_the_clock_is_set_back() {
    let stage = Stage::new();
    stage.add_builtin("demo");
    let expires_us = NOW_US + 3_600 * SECOND_US;
    let (_, token) = stage.try_grant("alice", &[("demo", None)], Some(expires_us)).unwrap();
    let clock = Clock::set(Now { wall_us: NOW_US, steady_us: 0 });
    let time = GateTime::new(clock.now(), stage.registry.note_time(NOW_US).unwrap());
    let effective = stage.effective();
    let at_now = || word(&effective, &token, time.at(clock.now()));
    assert_eq!(at_now(), "active");

    // Set back by a year: an hour later by the steady clock it has expired all the same.
    clock.set_wall(NOW_US - 365 * 86_400 * SECOND_US);
    assert_eq!(at_now(), "active");
    clock.advance(3_600 * 1_000_000);
    assert_eq!(at_now(), "expired");

    // A new process with the clock still wrong: what was noted and marked holds.
    let marked = stage.registry.expire_due(time.at(clock.now())).unwrap();
    assert_eq!(marked, ["alice"]);
    assert!(stage.registry.expire_due(time.at(clock.now())).unwrap().is_empty());
    assert_eq!(word(&stage.effective(), &token, clock.now().wall_us), "expired");
    stage.registry.note_time(time.at(clock.now())).unwrap();
    let noted_us = stage.registry.note_time(clock.now().wall_us).unwrap();
    assert!(GateTime::new(clock.now(), noted_us).at(clock.now()) >= expires_us);

    // Only the owner brings it back.
    stage.registry.set_expiry("alice", Some(expires_us + 10), expires_us).unwrap();
    assert_eq!(word(&stage.effective(), &token, expires_us), "active");
    stage.registry.forget_time().unwrap();
    assert_eq!(stage.registry.note_time(7).unwrap(), 7);
}

#[test]
fn a_grant_holds_only_what_exists() {
    let stage = Stage::new();
    stage.add_builtin("whoop");
    stage.put_policy("read-only", DENY_ALL).unwrap();
    let (grant, _) = stage.grant("alice", &[("whoop", Some("read-only"))]);
    let effective = stage.effective();
    let access = effective.access(&grant, "whoop").unwrap();
    assert_eq!(access.policy.unwrap().label(), "read-only@1");
    assert!(effective.access(&grant, "other").is_none());

    let table: [(&str, Option<&str>, &str); 3] = [
        ("woop", None, "there is no server `woop`, did you mean `whoop`?"),
        ("whoop", Some("readonly"), "there is no policy `readonly`, did you mean `read-only`?"),
        ("zzz", None, "there is no server `zzz`"),
    ];
    for (server, policy, words) in table {
        let error = stage.try_grant("bob", &[(server, policy)], None).unwrap_err();
        assert_eq!(error.to_string(), words);
    }
    let names = FileNames {
        servers: ["notes".to_owned()].into(),
        policies: ["from-file".to_owned()].into(),
        ..FileNames::default()
    };
    let holdings = holdings_of(&[("notes", Some("from-file"))]);
    stage.registry.set_holdings("alice", &holdings, &names, NOW_US).unwrap();
    assert_eq!(stage.registry.grant("alice").unwrap().holdings, holdings);
}

#[test]
fn labels_that_do_not_fit_or_are_taken_are_refused() {
    let stage = Stage::new();
    for label in ["", ".a", "a b", "a\n", "ä", &"a".repeat(65)] {
        let error = stage.try_grant(label, &[], None).unwrap_err();
        assert!(matches!(error, RegistryError::Name { thing: Thing::Grant, .. }), "{label}");
    }
    stage.grant("alice", &[]);
    assert!(matches!(stage.try_grant("alice", &[], None), Err(RegistryError::Exists { .. })));
    let past = stage.try_grant("bob", &[], Some(NOW_US));
    assert!(matches!(past, Err(RegistryError::ExpiryPast(_))));
    let missing = stage.registry.rotate_grant("alicia", 0, NOW_US).unwrap_err();
    assert!(missing.to_string().contains("did you mean `alice`?"), "{missing}");
}

#[test]
fn every_version_of_a_policy_is_kept() {
    let stage = Stage::new();
    assert_eq!(stage.put_policy("p", DENY_ALL).unwrap(), 1);
    assert_eq!(stage.put_policy("p", ALLOW_ALL).unwrap(), 2);
    assert_eq!(stage.put_policy("p", ALLOW_ALL).unwrap(), 2, "the same text is no new version");
    let back = stage.registry.roll_back_policy("p", 1, "test", NOW_US).unwrap();
    assert_eq!((back.version, back.source.as_str()), (3, DENY_ALL));
    let versions = stage.registry.policy_versions("p").unwrap();
    assert_eq!(versions.iter().map(|v| v.version).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(stage.registry.policy_version("p", 2).unwrap().source, ALLOW_ALL);
    assert!(stage.registry.policy_version("p", 9).is_err());
    let found = stage.registry.policy_by_sha256(&back.sha256).unwrap().unwrap();
    assert_eq!(found.source, DENY_ALL);
}

#[test]
fn a_policy_that_does_not_load_replaces_nothing() {
    let stage = Stage::new();
    stage.put_policy("p", DENY_ALL).unwrap();
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
        let error = stage.put_policy("p", bad).unwrap_err();
        assert!(matches!(error, RegistryError::PolicyDoesNotLoad { .. }), "{bad}: {error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(stage.registry.policy_versions("p").unwrap().len(), 1);
    assert_eq!(stage.put_policy("q", &test.replace("EXPECT", "deny")).unwrap(), 1);
    assert_eq!(stage.registry.policy("p").unwrap().version, 1);
    assert_eq!(stage.effective().policies.get("p").unwrap().source, DENY_ALL);
}

#[test]
fn a_policy_in_use_is_not_removed_and_its_history_outlives_it() {
    let stage = Stage::new();
    stage.add_builtin("demo");
    stage.put_policy("p", DENY_ALL).unwrap();
    stage.grant("alice", &[("demo", Some("p"))]);
    let error = stage.registry.remove_policy("p", NOW_US).unwrap_err();
    assert!(error.to_string().contains("in use by `alice`"), "{error}");
    stage.registry.revoke_grant("alice", NOW_US).unwrap();
    stage.registry.remove_policy("p", NOW_US).unwrap();
    assert!(stage.registry.policies().unwrap().is_empty());
    assert!(matches!(
        stage.registry.remove_policy("p", NOW_US),
        Err(RegistryError::Missing { .. })
    ));
    assert_eq!(stage.registry.policy_version("p", 1).unwrap().source, DENY_ALL);
    assert_eq!(stage.put_policy("p", ALLOW_ALL).unwrap(), 2, "numbers are never used again");
}

#[test]
fn the_text_of_a_policy_from_a_file_is_found_by_its_hash() {
    let stage = Stage::new();
    let mut text = stage
        .registry
        .put_policy("p", DENY_ALL, Format::Json, "t", &FileNames::default(), NOW_US)
        .unwrap();
    text.sha256 = "00".repeat(32);
    stage.registry.keep_file_policy(&text, NOW_US).unwrap();
    stage.registry.keep_file_policy(&text, NOW_US + 1).unwrap();
    let found = stage.registry.policy_by_sha256(&text.sha256).unwrap().unwrap();
    assert_eq!((found.source.as_str(), found.version), (DENY_ALL, 0));
    assert!(stage.registry.policy_by_sha256("ff").unwrap().is_none());
}

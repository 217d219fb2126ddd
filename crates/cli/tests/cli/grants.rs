//! `tollgate grant`.

use std::fs;

use insta::assert_snapshot;

use crate::cli_test::CliTest;

#[test]
fn a_new_grant_prints_its_configuration() {
    let test = CliTest::with_demo();
    assert_snapshot!(test.transcript(&[
        "grant",
        "create",
        "alice-laptop",
        "--server",
        "demo=demo",
        "--expires",
        "30d",
    ]));
}

#[test]
fn a_grant_on_several_servers_uses_the_common_address() {
    let test = CliTest::with_demo();
    test.succeed(&["server", "add", "other", "--builtin", "demo"]);
    assert_snapshot!(test.transcript(&[
        "grant",
        "create",
        "bob",
        "--server",
        "demo=demo",
        "--server",
        "other",
    ]));
}

#[test]
fn the_life_of_a_grant() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let story = test.transcripts(&[
        &["grant", "list"],
        &["grant", "show", "alice"],
        &["grant", "policy", "alice", "demo", "nothing"],
        &["grant", "policy", "alice", "demo", "demo"],
        &["grant", "show", "alice", "--json"],
        &["grant", "revoke", "alice"],
        &["grant", "revoke", "alice"],
        &["grant", "rotate", "alice"],
        &["grant", "show", "alice"],
        &["grant", "list"],
        &["policy", "list"],
    ]);
    assert_snapshot!(story);
}

#[test]
fn a_rotated_token_differs_and_the_overlap_is_shown() {
    let test = CliTest::with_demo();
    let first = test.grant("alice");
    let output = test.succeed(&["grant", "rotate", "alice", "--overlap", "1h", "--json"]);
    assert_eq!(output.stderr, "the old token works for 1h more\n");
    assert_ne!(output.json()["token"], first.as_str());
    assert_eq!(output.json()["tokens"], 2);
    let output = test.succeed(&["grant", "rotate", "alice", "--overlap", "0s", "--json"]);
    assert_eq!(output.stderr, "the old token has stopped working\n");
    assert_eq!(output.json()["tokens"], 1);
}

#[test]
fn wrong_arguments_about_grants_are_answered_with_a_hint() {
    let test = CliTest::with_demo();
    let story = test.transcripts(&[
        &["grant", "list"],
        &["grant", "create", "x", "--server", "dmeo=demo"],
        &["grant", "create", "x", "--server", "demo=demos"],
        &["grant", "create", "x", "--server", "=demo"],
        &["grant", "create", "x y", "--server", "demo=demo"],
        &["grant", "create", "x", "--server", "demo=demo", "--expires", "soon"],
        &["grant", "rotate", "x", "--overlap", "99d"],
    ]);
    assert_snapshot!(story);
}

#[test]
fn a_server_that_is_named_twice_is_refused() {
    let test = CliTest::with_demo();
    let output =
        test.run(&["grant", "create", "alice", "--server", "demo=demo", "--server", "demo"]);
    assert_eq!(output.code, 2, "{}", output.all_output());
    assert!(output.stderr.contains("`--server demo` is given twice"), "{}", output.stderr);
    assert_eq!(test.succeed(&["grant", "list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn a_grant_without_a_policy_shows_the_built_in_one() {
    let test = CliTest::with_demo();
    test.succeed(&["server", "add", "whoop", "--builtin", "whoop"]);
    test.succeed(&["grant", "create", "alice", "--server", "whoop"]);
    test.succeed(&["grant", "create", "bob", "--server", "demo"]);
    let list = test.succeed(&["grant", "list"]).stdout;
    assert!(list.contains("whoop (policy whoop (built in))"), "{list}");
    assert!(list.contains("demo (no policy)"), "{list}");
    let json = test.succeed(&["grant", "show", "alice", "--json"]).json();
    assert_eq!(json["servers"][0]["policy"], serde_json::Value::Null);
    assert_eq!(json["servers"][0]["built_in_policy"], "whoop (built in)");
}

/// A token that is created but never shown is useless.
#[test]
fn no_access_is_granted_without_an_audit_row() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let (audit, aside) = (test.home().join("audit"), test.path("aside"));
    fs::rename(&audit, &aside).unwrap();
    fs::write(&audit, "").unwrap();
    let before = test.run(&["grant", "list", "--json"]).stdout;
    for command in [
        &["grant", "create", "bob", "--server", "demo=demo"][..],
        &["grant", "rotate", "alice", "--overlap", "0s"],
        &["server", "add", "more", "--builtin", "demo"],
    ] {
        let output = test.run(command);
        assert_eq!(output.code, 2, "{}", output.all_output());
        assert!(output.stderr.contains("nothing was changed"), "{}", output.stderr);
    }
    assert_eq!(test.run(&["grant", "list", "--json"]).stdout, before);
    assert!(!test.run(&["server", "list"]).stdout.contains("more"));
    // Actions that reduce access are not blocked.
    assert_eq!(test.run(&["grant", "revoke", "alice"]).code, 2);
    assert!(test.run(&["grant", "list"]).stdout.contains("revoked"));
}

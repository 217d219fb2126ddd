//! `tollgate grant`.

use std::fs;

use insta::assert_snapshot;

use crate::stage::Stage;

#[test]
fn a_grant_comes_with_what_to_paste() {
    let stage = Stage::with_demo();
    assert_snapshot!(stage.told(&[
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
    let stage = Stage::with_demo();
    stage.fine(&["server", "add", "other", "--builtin", "demo"]);
    assert_snapshot!(stage.told(&[
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
    let stage = Stage::with_demo();
    stage.grant("alice");
    let story = stage.story(&[
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
fn a_rotated_token_is_another_one_and_the_overlap_is_said() {
    let stage = Stage::with_demo();
    let first = stage.grant("alice");
    let said = stage.fine(&["grant", "rotate", "alice", "--overlap", "1h", "--json"]);
    assert_eq!(said.stderr, "the old token works for 1h more\n");
    assert_ne!(said.json()["token"], first.as_str());
    assert_eq!(said.json()["tokens"], 2);
    let said = stage.fine(&["grant", "rotate", "alice", "--overlap", "0s", "--json"]);
    assert_eq!(said.stderr, "the old token has stopped working\n");
    assert_eq!(said.json()["tokens"], 1);
}

#[test]
fn wrong_words_are_answered_with_the_right_ones() {
    let stage = Stage::with_demo();
    let story = stage.story(&[
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
    let stage = Stage::with_demo();
    let said =
        stage.run(&["grant", "create", "alice", "--server", "demo=demo", "--server", "demo"]);
    assert_eq!(said.code, 2, "{}", said.everything());
    assert!(said.stderr.contains("`--server demo` is given twice"), "{}", said.stderr);
    assert_eq!(stage.fine(&["grant", "list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn a_grant_without_a_policy_of_its_own_shows_the_built_in_one_that_counts() {
    let stage = Stage::with_demo();
    stage.fine(&["server", "add", "whoop", "--builtin", "whoop"]);
    stage.fine(&["grant", "create", "alice", "--server", "whoop"]);
    stage.fine(&["grant", "create", "bob", "--server", "demo"]);
    let list = stage.fine(&["grant", "list"]).stdout;
    assert!(list.contains("whoop (policy whoop (built in))"), "{list}");
    assert!(list.contains("demo (no policy)"), "{list}");
    let json = stage.fine(&["grant", "show", "alice", "--json"]).json();
    assert_eq!(json["servers"][0]["policy"], serde_json::Value::Null);
    assert_eq!(json["servers"][0]["built_in_policy"], "whoop (built in)");
}

/// A token that is made and never shown opens the gate to nobody who should have it.
#[test]
fn nothing_is_given_away_without_a_row_that_says_so() {
    let stage = Stage::with_demo();
    stage.grant("alice");
    let (audit, aside) = (stage.home().join("audit"), stage.path("aside"));
    fs::rename(&audit, &aside).unwrap();
    fs::write(&audit, "").unwrap();
    let before = stage.run(&["grant", "list", "--json"]).stdout;
    for command in [
        &["grant", "create", "bob", "--server", "demo=demo"][..],
        &["grant", "rotate", "alice", "--overlap", "0s"],
        &["server", "add", "more", "--builtin", "demo"],
    ] {
        let said = stage.run(command);
        assert_eq!(said.code, 2, "{}", said.everything());
        assert!(said.stderr.contains("nothing was changed"), "{}", said.stderr);
    }
    assert_eq!(stage.run(&["grant", "list", "--json"]).stdout, before);
    assert!(!stage.run(&["server", "list"]).stdout.contains("more"));
    // What takes something away is not held up.
    assert_eq!(stage.run(&["grant", "revoke", "alice"]).code, 2);
    assert!(stage.run(&["grant", "list"]).stdout.contains("revoked"));
}

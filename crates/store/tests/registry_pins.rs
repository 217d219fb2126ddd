//! Pins: the first list is accepted, and nothing after it without the owner.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage should fail loudly")]

#[path = "support/stage.rs"]
mod stage;

use policy::Definition;
use stage::{NOW_US, Stage};
use store::effective::Endpoint;
use store::registry::{Accept, PinReport, RegistryError};

const FIRST: &str = r#"[{"name":"a","description":"reads"},{"name":"b"}]"#;

/// `a:changed b:new` and so on.
fn states(stage: &Stage, server: &str) -> String {
    let pins = stage.registry.pins(server).unwrap();
    let words: Vec<_> =
        pins.iter().map(|pin| format!("{}:{}", pin.tool, pin.state.as_str())).collect();
    words.join(" ")
}

#[test]
fn each_list_moves_the_pins_as_the_table_says() {
    let table = [
        (FIRST, "a:accepted b:accepted"),
        // Order of keys, white space and order of tools mean nothing.
        (r#"[{"name":"b"},{ "description":"reads", "name":"a"}]"#, "a:accepted b:accepted"),
        (r#"[{"name":"a","description":"deletes"},{"name":"b"}]"#, "a:changed b:accepted"),
        (FIRST, "a:accepted b:accepted"),
        (r#"[{"name":"b"}]"#, "a:gone b:accepted"),
        (r#"[{"name":"a","description":"x"},{"name":"b"}]"#, "a:changed b:accepted"),
        (
            r#"[{"name":"a","description":"reads"},{"name":"b"},{"name":"c"}]"#,
            "a:accepted b:accepted c:new",
        ),
        (
            r#"[{"name":"a","description":"reads"},{"name":"b"},{"name":"c","x":1}]"#,
            "a:accepted b:accepted c:new",
        ),
        (FIRST, "a:accepted b:accepted"),
        (
            r#"[{"name":"a","description":"reads"},{"name":"b"},{"name":"b"}]"#,
            "a:accepted b:conflict",
        ),
        (
            r#"[{"name":"a","description":"reads","annotations":{"readOnlyHint":true}},{"name":"b"}]"#,
            "a:changed b:accepted",
        ),
        ("[]", "a:gone b:gone"),
        (FIRST, "a:accepted b:accepted"),
    ];
    let stage = Stage::new();
    stage.add_builtin("s");
    for (row, (list, wanted)) in table.iter().enumerate() {
        let report = stage.observe("s", list).unwrap();
        assert_eq!(states(&stage, "s"), *wanted, "row {row}");
        assert_eq!(report.first, row == 0, "row {row}");
        let again = stage.observe("s", list).unwrap();
        assert_eq!(again, PinReport { first: false, moved: false, ..report }, "row {row}");
    }
}

#[test]
fn a_list_like_the_last_one_writes_nothing() {
    let stage = Stage::new();
    stage.add_builtin("s");
    stage.observe("s", FIRST).unwrap();
    let before = stage.registry.snapshot().unwrap().generation;
    assert!(!stage.observe("s", FIRST).unwrap().moved);
    assert!(!stage.registry.changed(before).unwrap());
}

#[test]
fn an_empty_first_list_is_not_a_first_list() {
    let stage = Stage::new();
    stage.add_builtin("s");
    assert!(!stage.observe("s", "[]").unwrap().first);
    assert!(stage.observe("s", FIRST).unwrap().first);
    // And a server that dropped everything, with the owner's blessing, is not trusted anew.
    stage.observe("s", "[]").unwrap();
    stage.registry.accept("s", Accept::All, "owner", NOW_US).unwrap();
    assert_eq!(states(&stage, "s"), "");
    assert!(!stage.observe("s", FIRST).unwrap().first);
    assert_eq!(states(&stage, "s"), "a:new b:new");
}

#[test]
fn a_doubled_name_in_the_first_list_is_not_accepted() {
    let stage = Stage::new();
    stage.add_builtin("s");
    stage.observe("s", r#"[{"name":"a"},{"name":"b"},{"name":"a","x":1}]"#).unwrap();
    assert_eq!(states(&stage, "s"), "a:conflict b:accepted");
    stage.registry.accept("s", Accept::Tool("a"), "owner", NOW_US).unwrap();
    assert_eq!(states(&stage, "s"), "a:accepted b:accepted");
}

#[test]
fn accepting_takes_what_is_seen_now_and_says_what_it_touched() {
    let stage = Stage::new();
    stage.add_builtin("s");
    stage.observe("s", FIRST).unwrap();
    stage.observe("s", r#"[{"name":"a","description":"deletes"},{"name":"c"}]"#).unwrap();
    assert_eq!(states(&stage, "s"), "a:changed b:gone c:new");
    let pin = stage.registry.pins("s").unwrap().into_iter().next().unwrap();
    let lines: Vec<_> = pin.difference().iter().map(ToString::to_string).collect();
    assert!(lines.concat().contains("deletes"), "{lines:?}");

    let touched = stage.registry.accept("s", Accept::Tool("a"), "owner", NOW_US + 5).unwrap();
    assert_eq!(touched, ["a"]);
    assert_eq!(states(&stage, "s"), "a:accepted b:gone c:new");
    let pin = stage.registry.pins("s").unwrap().into_iter().next().unwrap();
    assert_eq!((pin.accepted_by.as_deref(), pin.accepted_at_us), (Some("owner"), Some(NOW_US + 5)));
    assert!(pin.difference().is_empty());

    let touched = stage.registry.accept("s", Accept::All, "owner", NOW_US).unwrap();
    assert_eq!(touched, ["b", "c"]);
    assert_eq!(states(&stage, "s"), "a:accepted c:accepted");
    assert!(stage.registry.accept("s", Accept::All, "owner", NOW_US).unwrap().is_empty());
    let error = stage.registry.accept("s", Accept::Tool("aa"), "owner", NOW_US).unwrap_err();
    assert!(error.to_string().contains("did you mean `a`?"), "{error}");
}

#[test]
fn what_changed_after_the_owner_looked_is_not_accepted() {
    let stage = Stage::new();
    stage.add_builtin("s");
    stage.observe("s", FIRST).unwrap();
    stage.observe("s", r#"[{"name":"a","description":"mild"},{"name":"b"}]"#).unwrap();
    let looked_at = stage.registry.pins("s").unwrap().into_iter().next().unwrap().seen.unwrap();
    stage.observe("s", r#"[{"name":"a","description":"wild"},{"name":"b"}]"#).unwrap();
    let accept = Accept::Exactly("a", &looked_at.fingerprint);
    let error = stage.registry.accept("s", accept, "owner", NOW_US).unwrap_err();
    assert!(matches!(error, RegistryError::ChangedAgain { .. }));
    assert_eq!(states(&stage, "s"), "a:changed b:accepted");
    stage.observe("s", r#"[{"name":"a","description":"mild"},{"name":"b"}]"#).unwrap();
    stage.registry.accept("s", accept, "owner", NOW_US).unwrap();
    assert_eq!(states(&stage, "s"), "a:accepted b:accepted");
}

#[test]
fn a_call_meets_the_state_of_its_tool() {
    let stage = Stage::new();
    stage.add_builtin("s");
    stage.add_builtin("unseen");
    let (grant, _) = stage.grant("alice", &[("s", None), ("unseen", None)]);
    stage.observe("s", r#"[{"name":"a"},{"name":"b"},{"name":"c"}]"#).unwrap();
    stage.observe("s", r#"[{"name":"a"},{"name":"b","x":1},{"name":"d"}]"#).unwrap();
    let table = [
        ("s", "a", Definition::Unchanged),
        ("s", "b", Definition::Changed),
        ("s", "c", Definition::Changed),
        ("s", "d", Definition::New),
        ("s", "never-listed", Definition::New),
        ("unseen", "a", Definition::Unknown),
    ];
    let effective = stage.effective();
    for (server, tool, wanted) in table {
        for endpoint in [Endpoint::OneServer, Endpoint::AllServers] {
            assert_eq!(
                effective.definition(&grant, server, tool, endpoint),
                wanted,
                "{server} {tool}"
            );
        }
    }
}

#[test]
fn of_two_servers_with_one_tool_name_the_later_is_in_doubt() {
    let stage = Stage::new();
    for server in ["old", "new", "other"] {
        stage.add_builtin(server);
    }
    let (both, _) = stage.grant("both", &[("old", None), ("new", None)]);
    let (one, _) = stage.grant("one", &[("new", None), ("other", None)]);
    stage.observe_at("old", r#"[{"name":"search"},{"name":"a"}]"#, NOW_US).unwrap();
    stage.observe_at("new", r#"[{"name":"search"},{"name":"b"}]"#, NOW_US + 1).unwrap();
    let effective = stage.effective();
    let ask = |grant, server, tool, endpoint| effective.definition(grant, server, tool, endpoint);
    let (door, all) = (Endpoint::OneServer, Endpoint::AllServers);
    assert_eq!(ask(&both, "old", "search", all), Definition::Unchanged);
    assert_eq!(ask(&both, "new", "search", all), Definition::Conflict);
    assert_eq!(ask(&both, "new", "search", door), Definition::Unchanged);
    assert_eq!(ask(&both, "new", "b", all), Definition::Unchanged);
    assert_eq!(ask(&one, "new", "search", all), Definition::Unchanged, "this grant meets one only");

    let touched = stage.registry.accept("new", Accept::All, "owner", NOW_US).unwrap();
    assert_eq!(touched, ["search"]);
    let accepted = stage.effective();
    assert_eq!(accepted.definition(&both, "new", "search", all), Definition::Unchanged);
}

#[test]
fn lists_that_cannot_be_pinned_are_refused_whole() {
    let stage = Stage::new();
    stage.add_builtin("s");
    for list in [r#"[{"name":"a"},{}]"#, r#"[{"name":1}]"#, "[1]"] {
        let error = stage.observe("s", list).unwrap_err();
        assert!(matches!(error, RegistryError::ToolList { .. }), "{list}");
    }
    let large = format!(r#"[{{"name":"a","description":"{}"}}]"#, "x".repeat(1 << 20));
    assert!(matches!(stage.observe("s", &large), Err(RegistryError::ToolList { .. })));
    assert_eq!(states(&stage, "s"), "");
}

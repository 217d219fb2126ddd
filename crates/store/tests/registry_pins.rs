//! Pins: the first list is accepted, and nothing after it without the owner.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, NOW_US};
use store::registry::{Accept, OTHER_CAPABILITIES, Pin, PinReport, PinState, RegistryError};

const FIRST: &str = r#"[{"name":"a","description":"reads"},{"name":"b"}]"#;

/// `a:changed b:new` and so on.
fn states(fixture: &Fixture, server: &str) -> String {
    let pins = fixture.registry.pins(server).unwrap();
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
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    for (row, (list, wanted)) in table.iter().enumerate() {
        let report = fixture.observe("s", list).unwrap();
        assert_eq!(states(&fixture, "s"), *wanted, "row {row}");
        assert_eq!(report.first, row == 0, "row {row}");
        let again = fixture.observe("s", list).unwrap();
        assert_eq!(again, PinReport { first: false, moved: false, ..report }, "row {row}");
    }
}

#[test]
fn a_list_like_the_last_one_writes_nothing() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    fixture.observe("s", FIRST).unwrap();
    let before = fixture.registry.snapshot().unwrap().generation;
    assert!(!fixture.observe("s", FIRST).unwrap().moved);
    assert!(!fixture.registry.changed(before).unwrap());
}

#[test]
fn an_empty_first_list_is_not_a_first_list() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    assert!(!fixture.observe("s", "[]").unwrap().first);
    assert!(fixture.observe("s", FIRST).unwrap().first);
    // And a server that dropped everything, with the owner's blessing, is not trusted again.
    fixture.observe("s", "[]").unwrap();
    fixture.registry.accept("s", Accept::All, "owner", NOW_US).unwrap();
    assert_eq!(states(&fixture, "s"), "");
    assert!(!fixture.observe("s", FIRST).unwrap().first);
    assert_eq!(states(&fixture, "s"), "a:new b:new");
}

#[test]
fn a_doubled_name_in_the_first_list_is_not_accepted() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    fixture.observe("s", r#"[{"name":"a"},{"name":"b"},{"name":"a","x":1}]"#).unwrap();
    assert_eq!(states(&fixture, "s"), "a:conflict b:accepted");
    fixture.registry.accept("s", Accept::Tool("a"), "owner", NOW_US).unwrap();
    assert_eq!(states(&fixture, "s"), "a:accepted b:accepted");
}

#[test]
fn accepting_pins_the_current_definitions_and_lists_them() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    fixture.observe("s", FIRST).unwrap();
    fixture.observe("s", r#"[{"name":"a","description":"deletes"},{"name":"c"}]"#).unwrap();
    assert_eq!(states(&fixture, "s"), "a:changed b:gone c:new");
    let pin = fixture.registry.pins("s").unwrap().into_iter().next().unwrap();
    let lines: Vec<_> = pin.difference().iter().map(ToString::to_string).collect();
    assert!(lines.concat().contains("deletes"), "{lines:?}");

    let touched = fixture.registry.accept("s", Accept::Tool("a"), "owner", NOW_US + 5).unwrap();
    assert_eq!(touched, ["a"]);
    assert_eq!(states(&fixture, "s"), "a:accepted b:gone c:new");
    let pin = fixture.registry.pins("s").unwrap().into_iter().next().unwrap();
    assert_eq!((pin.accepted_by.as_deref(), pin.accepted_at_us), (Some("owner"), Some(NOW_US + 5)));
    assert!(pin.difference().is_empty());

    let touched = fixture.registry.accept("s", Accept::All, "owner", NOW_US).unwrap();
    assert_eq!(touched, ["b", "c"]);
    assert_eq!(states(&fixture, "s"), "a:accepted c:accepted");
    assert!(fixture.registry.accept("s", Accept::All, "owner", NOW_US).unwrap().is_empty());
    let error = fixture.registry.accept("s", Accept::Tool("aa"), "owner", NOW_US).unwrap_err();
    assert!(error.to_string().contains("did you mean `a`?"), "{error}");
}

#[test]
fn changes_made_after_the_owner_looked_are_not_accepted() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    fixture.observe("s", FIRST).unwrap();
    fixture.observe("s", r#"[{"name":"a","description":"mild"},{"name":"b"}]"#).unwrap();
    let looked_at = fixture.registry.pins("s").unwrap().into_iter().next().unwrap().seen.unwrap();
    fixture.observe("s", r#"[{"name":"a","description":"wild"},{"name":"b"}]"#).unwrap();
    let accept = Accept::Exactly("a", &looked_at.fingerprint);
    let error = fixture.registry.accept("s", accept, "owner", NOW_US).unwrap_err();
    assert!(matches!(error, RegistryError::ChangedAgain { .. }));
    assert_eq!(states(&fixture, "s"), "a:changed b:accepted");
    fixture.observe("s", r#"[{"name":"a","description":"mild"},{"name":"b"}]"#).unwrap();
    fixture.registry.accept("s", accept, "owner", NOW_US).unwrap();
    assert_eq!(states(&fixture, "s"), "a:accepted b:accepted");
}

const EVERY: &str = r#"[{"name":"a"},{"name":"b"},{"name":"ask"}]"#;
const FEW: &str = r#"[{"name":"a"},{"name":"b"}]"#;

/// Lists of clients with and without a capability in turn, and how the pins stand after each.
#[test]
fn a_server_that_shows_other_tools_to_other_clients_moves_no_pin() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    assert!(fixture.observe_by("s", "elicitation", EVERY).unwrap().first);
    assert!(fixture.observe_by("s", "", FEW).unwrap().moved, "the list of this set is kept once");
    for (capabilities, list) in [("elicitation", EVERY), ("", FEW), ("elicitation", EVERY)] {
        let report = fixture.observe_by("s", capabilities, list).unwrap();
        assert!(!report.moved, "{capabilities:?}");
        assert_eq!((report.accepted, report.gone), (3, Vec::new()));
    }
    // The same change for both sets is a change.
    fixture.observe_by("s", "elicitation", FEW).unwrap();
    assert_eq!(states(&fixture, "s"), "a:accepted ask:gone b:accepted");
}

#[test]
fn tools_first_shown_to_other_clients_are_not_accepted() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    fixture.observe_by("s", "", FEW).unwrap();
    fixture.observe_by("s", "elicitation", EVERY).unwrap();
    assert_eq!(states(&fixture, "s"), "a:accepted ask:new b:accepted");
    assert!(!fixture.observe_by("s", "", FEW).unwrap().moved);
    assert_eq!(states(&fixture, "s"), "a:accepted ask:new b:accepted", "it has not gone");
    fixture.registry.accept("s", Accept::All, "owner", NOW_US).unwrap();
    for (capabilities, list) in [("", FEW), ("elicitation", EVERY)] {
        assert!(!fixture.observe_by("s", capabilities, list).unwrap().moved);
    }
    assert_eq!(states(&fixture, "s"), "a:accepted ask:accepted b:accepted");
}

#[test]
fn definitions_that_differ_by_client_are_accepted_one_by_one() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    let (plain, forms) = (r#"[{"name":"a"}]"#, r#"[{"name":"a","title":"with forms"}]"#);
    fixture.observe_by("s", "", plain).unwrap();
    fixture.observe_by("s", "elicitation", forms).unwrap();
    let pin = fixture.registry.pins("s").unwrap().remove(0);
    assert_eq!(pin.state.as_str(), "changed");
    let by_set: Vec<_> =
        pin.seen_by.iter().map(|by| (&*by.capabilities, by.state.as_str())).collect();
    assert_eq!(by_set, [("", "accepted"), ("elicitation", "changed")]);
    let shown = pin.seen.unwrap();
    let accept = Accept::Exactly("a", &shown.fingerprint);
    fixture.registry.accept("s", accept, "owner", NOW_US).unwrap();
    assert_eq!(states(&fixture, "s"), "a:accepted");
    for (capabilities, list) in [("", plain), ("elicitation", forms), ("", plain)] {
        assert!(!fixture.observe_by("s", capabilities, list).unwrap().moved, "{capabilities:?}");
    }
    // A third text is a change for the clients that get it; one that no client gets is forgotten.
    fixture.observe_by("s", "", r#"[{"name":"a","title":"x"}]"#).unwrap();
    assert_eq!(states(&fixture, "s"), "a:changed");
    fixture.registry.accept("s", Accept::Tool("a"), "owner", NOW_US).unwrap();
    fixture.observe_by("s", "", plain).unwrap();
    assert_eq!(states(&fixture, "s"), "a:changed");
}

#[test]
fn capability_sets_beyond_the_bound_share_one_row() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    for set in 0..40 {
        fixture.observe_by("s", &format!("c{set}"), FEW).unwrap();
    }
    let sets = fixture.registry.tool_sets("s").unwrap().capabilities;
    assert_eq!(sets.len(), 33);
    assert!(sets.iter().any(|set| set == OTHER_CAPABILITIES));
    assert_eq!(states(&fixture, "s"), "a:accepted b:accepted");
}

#[test]
fn names_that_another_server_uses_are_not_in_doubt() {
    let fixture = Fixture::new();
    for server in ["old", "new"] {
        fixture.add_builtin(server);
        fixture.observe(server, r#"[{"name":"search"}]"#).unwrap();
    }
    assert_eq!(states(&fixture, "new"), "search:accepted");
    assert!(fixture.registry.accept("new", Accept::All, "owner", NOW_US).unwrap().is_empty());
}

#[test]
fn lists_that_cannot_be_pinned_are_refused_whole() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    for list in [r#"[{"name":"a"},{}]"#, r#"[{"name":1}]"#, "[1]"] {
        let error = fixture.observe("s", list).unwrap_err();
        assert!(matches!(error, RegistryError::ToolList { .. }), "{list}");
    }
    let large = format!(r#"[{{"name":"a","description":"{}"}}]"#, "x".repeat(1 << 20));
    assert!(matches!(fixture.observe("s", &large), Err(RegistryError::ToolList { .. })));
    assert_eq!(states(&fixture, "s"), "");
}

#[test]
fn a_changed_content_is_accepted_by_the_owner_only() {
    use PinState::{Accepted, Changed};
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    let registry = &fixture.registry;
    let uri = "ui://s/view.html";
    let page = |text: &str| format!(r#"{{"text":"{text}","uri":"{uri}"}}"#);
    let see = |text: &str| registry.observe_content("s", uri, &page(text), NOW_US).unwrap();
    let states: Vec<PinState> = ["one", "one", "two", "one", "two"].map(see).into();
    assert_eq!(states, [Accepted, Accepted, Changed, Accepted, Changed]);
    let pins = registry.content_pins("s").unwrap();
    let changes: Vec<String> =
        pins.iter().flat_map(Pin::difference).map(|change| change.to_string()).collect();
    assert!(changes.len() == 1 && changes.concat().contains("two"), "{changes:?}");
    let shown = pins.first().and_then(|pin| pin.seen.clone()).unwrap().fingerprint;
    assert_eq!(see("three"), Changed);
    let stale = registry.accept("s", Accept::Exactly(uri, &shown), "ada", NOW_US);
    assert!(matches!(stale, Err(RegistryError::ChangedAgain { .. })), "{stale:?}");
    assert_eq!(registry.accept("s", Accept::Tool(uri), "ada", NOW_US).unwrap(), [uri]);
    assert_eq!(["three", "one"].map(see), [Accepted, Changed]);
    // All accepts tools and contents together.
    fixture.observe("s", FIRST).unwrap();
    fixture.observe("s", "[]").unwrap();
    assert_eq!(registry.accept("s", Accept::All, "ada", NOW_US).unwrap(), [uri, "a", "b"]);
    assert!(matches!(
        registry.accept("s", Accept::Tool("ui://s/missing"), "ada", NOW_US),
        Err(RegistryError::Missing { .. })
    ));
}

#[test]
fn a_large_content_is_compared_by_its_digest_and_pages_are_bounded() {
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    let registry = &fixture.registry;
    let large = |letter: &str| format!(r#"{{"text":"{}"}}"#, letter.repeat(2 << 20));
    let see = |uri: &str, page: &str| registry.observe_content("s", uri, page, NOW_US).unwrap();
    assert_eq!(see("ui://s/0", &large("a")), PinState::Accepted);
    assert_eq!(see("ui://s/0", &large("a")), PinState::Accepted);
    assert_eq!(see("ui://s/0", &large("b")), PinState::Changed);
    let pins = registry.content_pins("s").unwrap();
    assert!(pins.iter().all(|pin| pin.seen.as_ref().unwrap().definition.len() < 200));
    for number in 1..100 {
        assert_eq!(see(&format!("ui://s/{number}"), "{}"), PinState::Accepted);
    }
    assert_eq!(see("ui://s/100", "{}"), PinState::New, "fails closed");
}

#[test]
fn the_skills_of_the_first_list_are_accepted_and_later_ones_are_new() {
    use PinState::{Accepted, Changed, New};
    let fixture = Fixture::new();
    fixture.add_builtin("s");
    let registry = &fixture.registry;
    let uri = |name: &str| format!("skill://{name}/SKILL.md");
    let see = |is_whole: bool, skills: &[(&str, &str)]| {
        let skills: Vec<(String, &str)> =
            skills.iter().map(|(name, entry)| (uri(name), *entry)).collect();
        let skills: Vec<(&str, &str)> =
            skills.iter().map(|(uri, entry)| (uri.as_str(), *entry)).collect();
        registry.observe_skills("s", &skills, is_whole, NOW_US).unwrap()
    };
    // A page does not count as a skill, and an empty list is no first list.
    registry.observe_content("s", "ui://s/view.html", "{}", NOW_US).unwrap();
    assert!(see(true, &[]).is_empty());
    assert_eq!(see(true, &[("a", "1"), ("b", "1")]), [Accepted, Accepted]);
    assert_eq!(see(true, &[("a", "2"), ("b", "1"), ("c", "1")]), [Changed, Accepted, New]);
    assert_eq!(see(false, &[("c", "1"), ("a", "1")]), [New, Accepted]);
    let states: Vec<PinState> =
        registry.content_pins("s").unwrap().into_iter().map(|pin| pin.state).collect();
    assert_eq!(states, [Accepted, Accepted, New, Accepted]);
    let pins = registry.content_pins("s").unwrap();
    assert!(pins.iter().any(|pin| pin.state == New && !pin.difference().is_empty()));
    registry.accept("s", Accept::Tool(&uri("c")), "ada", NOW_US).unwrap();
    assert_eq!(see(true, &[("c", "1"), ("c2", "1")]), [Accepted, New]);
    assert_eq!(see(false, &[("c", "2")]), [Changed]);
    // One that is found before the first list is not accepted, and neither is that list.
    fixture.add_builtin("t");
    let see = |is_whole| {
        registry.observe_skills("t", &[("skill://a/SKILL.md", "1")], is_whole, NOW_US).unwrap()
    };
    assert_eq!((see(false), see(true)), (vec![New], vec![New]));
    let many: Vec<String> = (0..1_001).map(|number| uri(&format!("{number:04}"))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|uri| (uri.as_str(), "1")).collect();
    fixture.add_builtin("u");
    let states = registry.observe_skills("u", &many, true, NOW_US).unwrap();
    assert_eq!(states.iter().filter(|state| **state == Accepted).count(), 1_000);
}

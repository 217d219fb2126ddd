//! Edits of hand-written texts: what is asked for changes, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage should fail loudly")]

use proptest::prelude::*;

use super::*;

const YAML: &str = "\
# The house rules. Ask Ada before you change them.
version: \"1\"
default: deny   # nothing goes unnamed

tools:
  # Money first.
  send_money:   # see the board's decision
    deny_if:
      # Above this the bank calls us.
      - conditions: [{path: args.amount, op: gt, value: 100}]
        on_deny: 'too much'
      - conditions:
          - path: args.to   # a person
            op: eq
            value: Mallory
    limits: [{window: day, max: 3}]
  list_notes: {}
  \"odd: name\":
    action: deny
# The end.
";

const JSON: &str = r#"{
  "version": "1",
  "default": "deny",
  "tools": {
    "send_money": {
      "deny_if": [
        { "conditions": [ { "path": "args.amount", "op": "gt", "value": 100.00 } ] }
      ],
      "limits": [{"window":"day","max":3}]
    },
    "list_notes": {}
  }
}
"#;

type Lines = &'static [&'static str];

fn edited(source: &str, format: Format, edits: &[Edit]) -> String {
    edit(source, format, edits).unwrap()
}

/// The lines that differ, in the order of the texts.
fn difference(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (mut old, mut new) = (lines(before), lines(after));
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    old.drain(..same);
    new.drain(..same);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    old.truncate(old.len() - same);
    new.truncate(new.len() - same);
    (old, new)
}

#[test]
fn only_the_changed_lines_of_a_text_change() {
    let set = |pointer: &str, json: &str| Edit::set(pointer, json);
    let table: Vec<(Edit, Lines, Lines, Lines, Lines)> = vec![
        (
            set("/tools/list_notes/action", "\"deny\""),
            &["  list_notes: {}"],
            &["  list_notes:", "    action: deny"],
            &["    \"list_notes\": {}"],
            &["    \"list_notes\": { \"action\": \"deny\" }"],
        ),
        (
            set("/default", "\"allow\""),
            &["default: deny   # nothing goes unnamed"],
            &["default: allow   # nothing goes unnamed"],
            &["  \"default\": \"deny\","],
            &["  \"default\": \"allow\","],
        ),
        (
            Edit::push("/tools/send_money/limits", r#"{"window":"hour","max":1.50}"#),
            &["    limits: [{window: day, max: 3}]"],
            &[
                "    limits:",
                "      - window: day",
                "        max: 3",
                "      - window: hour",
                "        max: 1.50",
            ],
            &["      \"limits\": [{\"window\":\"day\",\"max\":3}]"],
            &[
                "      \"limits\": [{ \"window\": \"day\", \"max\": 3 }, { \"window\": \"hour\", \"max\": 1.50 }]",
            ],
        ),
        (
            set("/tools/send_money/reason", "\"ask: first\""),
            &[],
            &["    reason: \"ask: first\""],
            &["      \"limits\": [{\"window\":\"day\",\"max\":3}]"],
            &[
                "      \"limits\": [{\"window\":\"day\",\"max\":3}],",
                "      \"reason\": \"ask: first\"",
            ],
        ),
        (
            set("/tools/new_tool", r#"{"action":"hide"}"#),
            &[],
            &["  new_tool:", "    action: hide"],
            &["    \"list_notes\": {}"],
            &["    \"list_notes\": {},", "    \"new_tool\": { \"action\": \"hide\" }"],
        ),
        (
            Edit::remove("/tools/list_notes"),
            &["  list_notes: {}"],
            &[],
            &["    },", "    \"list_notes\": {}"],
            &["    }"],
        ),
    ];
    for (edit, yaml_old, yaml_new, json_old, json_new) in table {
        let yaml = edited(YAML, Format::Yaml, std::slice::from_ref(&edit));
        assert_eq!(difference(YAML, &yaml), (owned(yaml_old), owned(yaml_new)), "{edit:?}\n{yaml}");
        let json = edited(JSON, Format::Json, std::slice::from_ref(&edit));
        assert_eq!(difference(JSON, &json), (owned(json_old), owned(json_new)), "{edit:?}\n{json}");
    }
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn rules_are_added_and_removed_with_the_comments_of_others_in_place() {
    let rule = r#"{"conditions":[{"path":"args.to","op":"exists"}]}"#;
    let pushed = edited(YAML, Format::Yaml, &[Edit::push("/tools/send_money/deny_if", rule)]);
    assert!(pushed.contains("            value: Mallory\n      - conditions:\n          - path: \"args.to\"\n            op: exists\n"), "{pushed}");
    let removed = edited(YAML, Format::Yaml, &[Edit::remove("/tools/send_money/deny_if/0")]);
    assert!(!removed.contains("too much"), "{removed}");
    for comment in ["# Above this the bank calls us.", "# see the board's decision", "# a person"] {
        assert!(pushed.contains(comment) && removed.contains(comment), "{comment}\n{removed}");
    }
    let first = Edit::remove("/tools/send_money/deny_if/1/conditions/0/path");
    let refused = edit(YAML, Format::Yaml, &[first]);
    assert!(
        matches!(refused, Err(EditError::Unsupported { .. })),
        "its comment would go: {refused:?}"
    );
}

#[test]
fn sections_are_created_when_they_are_needed() {
    let bare = "version: \"1\"\ndefault: deny";
    let yaml = edited(
        bare,
        Format::Yaml,
        &[Edit::set("/tools/x/limits", r#"[{"window":"day","max":3}]"#)],
    );
    assert_eq!(
        yaml,
        "version: \"1\"\ndefault: deny\ntools:\n  x:\n    limits:\n      - window: day\n        max: 3"
    );
    let json =
        edited(r#"{"version":"1","default":"deny"}"#, Format::Json, &[Edit::set("/tools/x", "{}")]);
    assert_eq!(
        json,
        "{\n  \"version\": \"1\",\n  \"default\": \"deny\",\n  \"tools\": {\n    \"x\": {}\n  }\n}"
    );
    let emptied = edited(
        "version: \"1\"\ndefault: deny\ntools:\n  x: {}\n",
        Format::Yaml,
        &[Edit::remove("/tools/x")],
    );
    assert_eq!(emptied, "version: \"1\"\ndefault: deny\ntools: {}\n");
    assert_eq!(edited(JSON, Format::Json, &[Edit::remove("/tools/absent/limits/0")]), JSON);
}

#[test]
fn edits_that_would_lose_text_are_refused() {
    let commented = "version: \"1\"\ndefault: deny\ntools: # all of them\n  x: {}\n";
    let refused = edit(commented, Format::Yaml, &[Edit::remove("/tools/x")]);
    assert!(matches!(refused, Err(EditError::Unsupported { .. })), "{refused:?}");
    let behind = "version: \"1\"\ndefault: deny\ntools:\n  x: {} # fine\n";
    let kept = edited(behind, Format::Yaml, &[Edit::set("/tools/x/action", "\"deny\"")]);
    assert!(kept.contains("x: { \"action\": \"deny\" } # fine"), "{kept}");
    assert!(matches!(
        edit("{", Format::Json, &[Edit::remove("/x")]),
        Err(EditError::Unreadable(_))
    ));
    assert!(matches!(edit(JSON, Format::Json, &[Edit::set("/x", "{")]), Err(EditError::Value(_))));
}

#[test]
fn names_that_yaml_reads_as_another_type_stay_names() {
    let names = ["yes", "null", "x_1", "010", "a: b", "- x", "#", "\"q\"", "日本", "~", "&a"];
    let tools: serde_json::Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), serde_json::json!({}))).collect();
    let test = |name: &&str| serde_json::json!({ "name": name, "tool": name, "expect": "allow" });
    let tests: Vec<_> = names.iter().map(test).collect();
    let policy = serde_json::json!({ "version": "1", "default": "deny", "hide": [], "tools": tools, "tests": tests });
    let yaml = to_yaml(&policy.to_string()).unwrap();
    let loaded = crate::Policy::load(&yaml, Format::Yaml).unwrap();
    assert_eq!(loaded.run_tests().len(), names.len(), "{yaml}");
}

#[test]
fn many_edits_at_once_give_the_text_of_one_after_the_other() {
    let names = ["send_money", "list_notes", "odd: name", "new_1", "new_2"];
    for (source, format) in [(YAML, Format::Yaml), (JSON, Format::Json)] {
        let edits: Vec<Edit> = names
            .iter()
            .map(|name| Edit::set(super::pointer(&["tools", name, "action"]), "\"deny\""))
            .chain([Edit::remove("/tools/new_1"), Edit::push("/hide", "\"x\"")])
            .collect();
        let at_once = edited(source, format, &edits);
        let one_by_one = edits.iter().fold(source.to_owned(), |text, edit| {
            edited(&text, format, std::slice::from_ref(edit))
        });
        assert_eq!(at_once, one_by_one);
    }
}

#[test]
fn a_part_has_its_line() {
    let table = [
        ("/tools", 5),
        ("/tools/send_money/deny_if/1", 12),
        ("/tools/odd: name/action", 19),
        ("/default", 3),
    ];
    for (pointer, line) in table {
        assert_eq!(line_of(YAML, Format::Yaml, pointer), Some(line), "{pointer}");
    }
    assert_eq!(line_of(YAML, Format::Yaml, "/tools/absent"), None);
}

fn pointers(source: &str, format: Format) -> Vec<String> {
    fn walk(node: &Node, at: &str, all: &mut Vec<String>) {
        for member in node.members() {
            let pointer = crate::pointer::member(at, &member.name);
            walk(&member.node, &pointer, all);
            all.push(pointer);
        }
        for (index, item) in node.items().iter().enumerate() {
            let pointer = crate::pointer::item(at, index);
            walk(item, &pointer, all);
            all.push(pointer);
        }
    }
    let mut all = Vec::new();
    walk(&tree::read(source, format).unwrap(), "", &mut all);
    all
}

fn comments(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.find('#').and_then(|at| line.get(at..))).collect()
}

proptest! {
    /// Every edit at every part either succeeds as the tree says, which `edit` checks itself, or is refused;
    /// a value that is set inside a part never loses a comment outside of it.
    #[test]
    fn every_part_can_be_edited_or_is_refused(
        at in any::<prop::sample::Index>(),
        change in 0..4_usize,
        is_json in any::<bool>(),
    ) {
        let (source, format) = if is_json { (JSON, Format::Json) } else { (YAML, Format::Yaml) };
        let all = pointers(source, format);
        let pointer = at.get(&all).clone();
        let one = match change {
            0 => Edit::remove(pointer.clone()),
            1 => Edit::set(pointer.clone(), r#"{"a":[1.0,{"b":"x: y"}],"c":{}}"#),
            2 => Edit::set(format!("{pointer}/added"), "\"deny\""),
            _ => Edit::push(pointer.clone(), r#"{"a":"b"}"#),
        };
        if let Ok(text) = edit(source, format, std::slice::from_ref(&one)) {
            if change >= 2 {
                prop_assert_eq!(comments(&text), comments(source), "{:?}\n{}", one, text);
            }
            prop_assert!(text.ends_with('\n'), "{:?}\n{}", one, text);
        }
    }
}

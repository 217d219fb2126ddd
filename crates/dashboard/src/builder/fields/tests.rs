//! What the form changes in a text, and what it leaves alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage should fail loudly")]

use super::*;

const YAML: &str = "\
# Rules of the house.
version: \"1\"
default: deny
hide: [wipe]
tools:
  pay: # the bank
    limits: [{window: day, max: 3}]
  get_*:
    limits: [{window: hour, max: 9}]
  read: {}
";

fn changed(base: &str, text: &str, form: &[(&str, &str)]) -> Result<String, String> {
    let form: Vec<(String, String)> =
        form.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let schema = json!({ "inputSchema": { "properties": { "amount": { "type": "number" } } } });
    let paths = arguments::argument_paths(&schema);
    let bulk = ["read".to_owned(), "pay".to_owned(), "wipe".to_owned()];
    let mut draft = Draft::new(text);
    let fields = Fields { form: &form, paths: &paths, bulk: &bulk };
    apply_fields(&mut draft, &Draft::new(base), &fields)?;
    draft
        .compile()
        .map_err(|problems| problems.iter().map(|p| p.message.clone()).collect::<String>())?;
    Ok(draft.text)
}

#[test]
fn switches_change_only_what_differs_from_the_text_they_were_made_from() {
    let same = [
        ("s:tools:pay", "custom"),
        ("s:tools:read", "allow"),
        ("s:tools:other", "deny"),
        ("s:tools:wipe", "hide"),
    ];
    assert_eq!(changed(YAML, YAML, &same).unwrap(), YAML);
    let table = [
        (("s:tools:read", "deny"), "  read:\n    action: deny\n"),
        (("s:tools:read", "ask"), "  read:\n    action: require_approval\n"),
        (("s:tools:pay", "deny"), "    limits: [{window: day, max: 3}]\n    action: deny\n"),
        (("s:tools:other", "allow"), "  read: {}\n  other: {}\n"),
        (
            ("s:tools:get_x", "ask"),
            "  get_x:\n    limits:\n      - window: hour\n        max: 9\n    action: require_approval\n",
        ),
        (("s:tools:get_x", "allow"), "  get_x: {}\n"),
        (
            ("v:text:/tools/get_x/reason", "no"),
            "  get_x:\n    limits:\n      - window: hour\n        max: 9\n    reason: \"no\"\n",
        ),
        (("s:tools:wipe", "allow"), "default: deny\ntools:\n"),
        (("v:text:/default", "allow"), "default: allow\n"),
        (("v:number:/tools/pay/limits/0/max", "2.50"), "max: 2.50"),
    ];
    for (field, expected) in table {
        let text = changed(YAML, YAML, &[field]).unwrap();
        assert!(text.contains(expected), "{field:?}\n{text}");
        assert!(text.contains("# Rules of the house.") && text.contains("# the bank"), "{text}");
    }
}

#[test]
fn an_edit_by_hand_and_an_edit_by_form_are_both_kept() {
    let by_hand = YAML.replace("max: 3", "max: 5") + "# new\n";
    let form = [
        ("s:tools:read", "deny"),
        ("s:tools:pay", "custom"),
        ("v:number:/tools/pay/limits/0/max", "3"),
    ];
    let text = changed(YAML, &by_hand, &form).unwrap();
    assert!(
        text.contains("max: 5") && text.contains("action: deny") && text.contains("# new"),
        "{text}"
    );
}

#[test]
fn rules_limits_and_redactions_are_added_and_removed() {
    let open = ("open", "/tools/pay");
    let rule = [
        open,
        ("do", "add_rule"),
        ("rule_kind", "deny_if"),
        ("rule_path", "args.amount"),
        ("rule_op", "gt"),
        ("rule_value", "100.50"),
        ("rule_words", "too much"),
    ];
    let text = changed(YAML, YAML, &rule).unwrap();
    assert!(
        text.contains("op: gt")
            && text.contains("value: 100.50")
            && text.contains("on_deny: \"too much\""),
        "{text}"
    );
    let second = [
        open,
        ("do", "add_rule"),
        ("rule_into", "/tools/pay/deny_if/0"),
        ("rule_path", "caller.grant"),
        ("rule_op", "in"),
        ("rule_value", "a, b"),
    ];
    let text = changed(&text, &text, &second).unwrap();
    assert!(
        text.contains("- a\n") && text.contains("- b\n") && text.contains("op: in\n"),
        "{text}"
    );
    let gone = changed(&text, &text, &[("do", "remove:/tools/pay/deny_if/0")]).unwrap();
    assert!(!gone.contains("deny_if"), "{gone}");
    let limit = [
        open,
        ("do", "add_limit"),
        ("limit_max", "1"),
        ("limit_window", "90s"),
        ("limit_scope", "session"),
        ("limit_increment", "args.amount"),
    ];
    let text = changed(YAML, YAML, &limit).unwrap();
    for part in ["window: \"90s\"", "scope: session", "increment: \"args.amount\""] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let redact = [open, ("do", "add_redact"), ("redact_path", "card.number")];
    assert!(changed(YAML, YAML, &redact).unwrap().contains("card.number"));
}

#[test]
fn many_tools_are_changed_at_once_and_wrong_fields_are_explained() {
    let text = changed(YAML, YAML, &[("do", "bulk"), ("bulk_state", "deny")]).unwrap();
    assert_eq!(text.matches("action: deny").count(), 3, "{text}");
    let open = ("open", "/tools/pay");
    let table = [
        (
            vec![
                open,
                ("do", "add_rule"),
                ("rule_path", "args.amount"),
                ("rule_op", "regex"),
                ("rule_value", "x"),
            ],
            "cannot compare",
        ),
        (
            vec![
                open,
                ("do", "add_rule"),
                ("rule_path", "args.amount"),
                ("rule_op", "gt"),
                ("rule_value", "many"),
            ],
            "not a number",
        ),
        (
            vec![open, ("do", "add_rule"), ("rule_path", "args.amount"), ("rule_op", "gt")],
            "value is missing",
        ),
        (vec![open, ("do", "add_limit"), ("limit_window", "day")], "maximum is missing"),
        (
            vec![("do", "add_entry"), ("new_section", "tools"), ("new_name", "read")],
            "has an entry already",
        ),
    ];
    for (form, message) in table {
        let error = changed(YAML, YAML, &form).unwrap_err();
        assert!(error.contains(message), "{form:?}: {error}");
    }
    let hidden = YAML.replace("hide: [wipe]", "hide: [\"wip*\"]");
    let error = changed(&hidden, &hidden, &[("s:tools:wipe", "allow")]).unwrap_err();
    assert!(error.contains("change `hide`"), "{error}");
}

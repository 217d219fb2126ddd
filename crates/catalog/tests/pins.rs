//! Pins through the public API: what changes a fingerprint, how a change is described, and which names
//! and characters are odd.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use catalog::pins::{
    Fingerprint, OddityKind, canonical_definition, difference, fingerprint,
    fingerprint_of_canonical, look_alike_key, oddities, render,
};
use policy::json::{Bounds, Doc};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use serde_json::{Value, json};

fn print_of(text: &str) -> Fingerprint {
    fingerprint(Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap().root())
}

fn canonical_of(value: &Value) -> String {
    let text = value.to_string();
    canonical_definition(Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap().root())
}

fn changes(old: &Value, new: &Value) -> String {
    render(&difference(&canonical_of(old), &canonical_of(new)))
}

fn mail() -> Value {
    json!({
        "name": "send_mail",
        "description": "Sends one message to the address given.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "to": {"type": "string", "description": "who receives it"},
                "format": {"enum": ["text", "html"]},
                "files": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}}}}
            },
            "required": ["to"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": false}
    })
}

/// The mail tool with one place set (or removed, for `None`).
fn edited(path: &[&str], value: Option<Value>) -> Value {
    let mut tool = mail();
    let (last, parents) = path.split_last().unwrap();
    let parent = parents.iter().fold(&mut tool, |at, key| &mut at[*key]).as_object_mut().unwrap();
    match value {
        Some(value) => drop(parent.insert((*last).to_owned(), value)),
        None => drop(parent.shift_remove(*last)),
    }
    tool
}

#[test]
fn spelling_does_not_move_a_fingerprint() {
    let plain = print_of(r#"{"name":"a","inputSchema":{"type":"object","maximum":100}}"#);
    for same in [
        "{ \"inputSchema\" : {\"maximum\":100,\n\"type\":\"object\"}, \"name\":\"a\" }",
        r#"{"name":"\u0061","inputSchema":{"type":"object","maximum":1e2}}"#,
        r#"{"name":"a","inputSchema":{"maximum":100.0,"type":"object"}}"#,
    ] {
        assert_eq!(print_of(same), plain, "{same}");
    }
    assert_eq!(plain.as_str().len(), 64);
    assert_eq!(Fingerprint::from_hex(plain.as_str()), Some(plain));
    assert_eq!(Fingerprint::from_hex("abc"), None);
}

#[test]
fn any_member_moves_a_fingerprint() {
    let base = r#"{"name":"a"}"#;
    for other in [
        r#"{"name":"b"}"#,
        r#"{"name":"a","description":""}"#,
        r#"{"name":"a","_meta":{"x":1}}"#,
        r#"{"name":"a","icons":[]}"#,
        r#"{"name":"a","annotations":{"readOnlyHint":true}}"#,
        r#"{"name":"a","newInSomeLaterRevision":null}"#,
    ] {
        assert_ne!(print_of(base), print_of(other), "{other}");
    }
}

#[test]
fn a_change_is_described_in_plain_words() {
    let set = |path: &[&str], value: Value| edited(path, Some(value));
    let cases: Vec<(Value, &str)> = vec![
        (
            set(&["description"], json!("Sends one message to the address given and to us.")),
            "~ description: … message to the address [-given.-] {+given and to us.+}\n",
        ),
        (
            set(&["description"], json!("Sends one message to the address given.\u{202e}")),
            "~ description: … message to the address [-given.-] {+given.⟨U+202E⟩+}\n",
        ),
        (set(&["title"], json!("Mail")), "+ title: added: \"Mail\"\n"),
        (
            set(&["inputSchema", "properties", "bcc"], json!({"type": "string"})),
            "+ parameter `bcc`: added: {\"type\":\"string\"}\n",
        ),
        (
            edited(&["inputSchema", "properties", "format"], None),
            "- parameter `format`: removed (was {\"enum\":[\"text\",\"html\"]})\n",
        ),
        (
            set(&["inputSchema", "properties", "to", "type"], json!("array")),
            "~ parameter `to`: type: [-string-] {+array+}\n",
        ),
        (
            set(
                &["inputSchema", "properties", "files", "items", "properties", "path"],
                json!(true),
            ),
            "~ parameter `files[].path`: {\"type\":\"string\"} → true\n",
        ),
        (
            set(&["inputSchema", "properties", "format", "enum"], json!(["text", "html", "exe"])),
            "~ parameter `format`: enum: adds \"exe\"\n",
        ),
        (set(&["inputSchema", "required"], json!([])), "~ parameter `to`: no longer required\n"),
        (
            set(&["inputSchema", "required"], json!(["to", "format"])),
            "~ parameter `format`: now required\n",
        ),
        (
            set(&["annotations", "readOnlyHint"], json!(true)),
            "~ annotation readOnlyHint: false → true\n",
        ),
        (
            set(&["outputSchema"], json!({"type": "object"})),
            "+ output schema: added: {\"type\":\"object\"}\n",
        ),
        (
            set(&["inputSchema", "additionalProperties"], json!(true)),
            "+ input schema: additionalProperties: added: true\n",
        ),
        (set(&["_meta"], json!({"v": 2})), "+ _meta: added: {\"v\":2}\n"),
        (mail(), ""),
    ];
    for (new, expected) in cases {
        assert_eq!(changes(&mail(), &new), expected);
    }
}

#[test]
fn a_pin_that_cannot_be_read_back_is_a_change() {
    assert_eq!(difference("{", &canonical_of(&mail())).len(), 1);
    assert_eq!(difference(r#"{"a":1,"a":2}"#, r#"{"a":2,"a":2}"#).len(), 1);
}

#[test]
fn odd_names_and_hidden_characters_are_found_where_they_are() {
    let cases: Vec<(Value, &str, OddityKind)> = vec![
        (json!({"name": "read file"}), "/name", OddityKind::NameOutsideAllowed),
        (json!({"name": "read "}), "/name", OddityKind::NameOutsideAllowed),
        (json!({"name": ""}), "/name", OddityKind::NameOutsideAllowed),
        (json!({"name": "a".repeat(129)}), "/name", OddityKind::NameOutsideAllowed),
        (json!({"name": "p\u{0430}y"}), "/name", OddityKind::MixedScript),
        (json!({"name": "\u{0440}\u{0430}\u{0443}"}), "/name", OddityKind::LookAlike),
        (json!({"name": "a", "description": "x\u{200b}y"}), "/description", OddityKind::Invisible),
        (
            json!({"name": "a", "description": "x\u{202e}y"}),
            "/description",
            OddityKind::Bidirectional,
        ),
        (
            json!({"name": "a", "description": "x\u{e0069}"}),
            "/description",
            OddityKind::TagCharacters,
        ),
        (json!({"name": "a", "description": "x\u{1b}[2J"}), "/description", OddityKind::Control),
        (
            json!({"name": "a", "description": "x\u{fe01}\u{fe02}"}),
            "/description",
            OddityKind::VariationSelectors,
        ),
        (json!({"name": "a", "title": "x\u{e000}"}), "/title", OddityKind::PrivateUse),
        (
            json!({"name": "a", "inputSchema": {"properties": {"u\u{0440}l": {}}}}),
            "/inputSchema/properties/u\u{0440}l",
            OddityKind::MixedScript,
        ),
        (
            json!({"name": "a", "inputSchema": {"properties": {"q": {"enum": ["\u{feff}"]}}}}),
            "/inputSchema/properties/q/enum/0",
            OddityKind::Invisible,
        ),
    ];
    for (tool, place, kind) in cases {
        let text = tool.to_string();
        let doc = Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap();
        let found = oddities(doc.root());
        assert!(found.iter().any(|o| o.kind == kind && o.location == place), "{tool}: {found:?}");
    }
    let twice = Doc::read(br#"{"name":"a","x":{"k":1,"k":2}}"#, &Bounds::ANSWER).unwrap();
    assert_eq!(oddities(twice.root())[0].kind, OddityKind::RepeatedKey);
}

#[test]
fn tag_characters_are_decoded() {
    let tool = json!({"name": "a", "description": "\u{e0068}\u{e0069}"}).to_string();
    let found = oddities(Doc::read(tool.as_bytes(), &Bounds::ANSWER).unwrap().root());
    assert_eq!(found[0].message, "2 tag characters that spell \"hi\"");
}

#[test]
fn ordinary_text_in_any_language_is_not_suspicious() {
    for text in [
        "⚠️ careful",
        "👩‍💻 1️⃣ ❤️",
        "刷新令牌。",
        "می‌خواهم",
        "naïve café — “quoted”",
        "line\nbreak\ttab",
    ] {
        let tool = json!({"name": "get_x", "description": text, "inputSchema": {"properties": {"城市": {}, "größe": {}, "$filter": {}}}});
        let text = tool.to_string();
        let found = oddities(Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap().root());
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn names_a_person_would_confuse_share_a_key() {
    for (a, b) in [
        ("send_mail", "send-mail"),
        ("send_mail", "sendMail"),
        ("pay", "p\u{0430}y"),
        ("list1", "listl"),
    ] {
        assert_eq!(look_alike_key(a), look_alike_key(b), "{a} {b}");
    }
    assert_ne!(look_alike_key("send_mail"), look_alike_key("read_mail"));
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_000_000_i64..1_000_000).prop_map(Value::from),
        "[a-zA-Z \u{200b}é\"\\\\/\n]{0,12}".prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 40, 5, |inner| {
        let key = prop_oneof![
            Just("properties".to_owned()),
            Just("required".to_owned()),
            Just("items".to_owned()),
            Just("enum".to_owned()),
            "[a-z]{1,4}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn definition() -> impl Strategy<Value = Value> {
    (leaf(), tree(), tree(), tree(), tree()).prop_map(
        |(description, input, output, hints, meta)| {
            json!({"name": "t", "description": description, "inputSchema": input,
               "outputSchema": output, "annotations": hints, "_meta": meta})
        },
    )
}

/// The same tree with the members of every object in another order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect())
        }
        Value::Array(items) => items.iter().map(reversed).collect(),
        other => other.clone(),
    }
}

/// Replaces the `n`th leaf (counting round) by something it is not.
fn with_leaf_changed(value: &mut Value, n: &mut usize) -> bool {
    match value {
        Value::Object(map) => map.values_mut().any(|v| with_leaf_changed(v, n)),
        Value::Array(items) => items.iter_mut().any(|v| with_leaf_changed(v, n)),
        leaf if *n == 0 => {
            *leaf = match leaf.take() {
                Value::Bool(b) => json!(!b),
                Value::Number(x) => json!(x.as_i64().unwrap() + 1),
                Value::String(s) => json!(format!("{s}!")),
                _ => json!("was null"),
            };
            true
        }
        _ => {
            *n -= 1;
            false
        }
    }
}

proptest! {
    #[test]
    fn key_order_and_white_space_never_matter(tool in definition()) {
        let shuffled = serde_json::to_string_pretty(&reversed(&tool)).unwrap();
        assert_eq!(print_of(&tool.to_string()), print_of(&shuffled));
        assert_eq!(difference(&canonical_of(&tool), &canonical_of(&reversed(&tool))), vec![]);
    }

    #[test]
    fn any_changed_leaf_changes_the_fingerprint_and_is_listed(tool in definition(), at in 0_usize..30) {
        let mut other = tool.clone();
        let mut n = at;
        if !with_leaf_changed(&mut other, &mut n) {
            with_leaf_changed(&mut other, &mut 0);
        }
        let (old, new) = (canonical_of(&tool), canonical_of(&other));
        assert_ne!(fingerprint_of_canonical(&old), fingerprint_of_canonical(&new));
        assert!(!difference(&old, &new).is_empty());
    }

    #[test]
    fn printed_text_has_no_hidden_characters(a in "\\PC{0,20}", b in any::<String>()) {
        let old = json!({"name": "t", "description": a});
        let new = json!({"name": "t", "description": b, b.clone(): b});
        for c in changes(&old, &new).chars().filter(|c| *c != '\n') {
            assert!(!c.is_control() && !('\u{202a}'..='\u{202e}').contains(&c), "{c:?}");
        }
    }
}

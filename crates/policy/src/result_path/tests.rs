//! Cases for redaction, and the property that what is cut leaves valid JSON without the named parts.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{ResultPath, cuts, redacted};
use crate::json::{Bounds, Doc};

fn redact(paths: &[&str], json: &str) -> String {
    let paths: Vec<_> = paths.iter().map(|path| ResultPath::parse(path).unwrap()).collect();
    let doc = Doc::read(json.as_bytes(), &Bounds::ANSWER).unwrap();
    redacted(&paths, doc.root()).unwrap_or_else(|| json.to_owned())
}

#[test]
fn named_parts_are_cut_with_one_comma_each() {
    let cases: [(&[&str], &str, &str); 24] = [
        (&["email"], r#"{"email":"x"}"#, "{}"),
        (&["email"], r#"{"email":"x","a":1}"#, r#"{"a":1}"#),
        (&["email"], r#"{"a":1,"email":"x"}"#, r#"{"a":1}"#),
        (&["email"], r#"{"a":1,"email":"x","b":2}"#, r#"{"a":1,"b":2}"#),
        (&["a", "b"], r#"{"a":1,"b":2,"c":3}"#, r#"{"c":3}"#),
        (&["b", "c"], r#"{"a":1,"b":2,"c":3}"#, r#"{"a":1}"#),
        (&["a", "c"], r#"{"a":1,"b":2,"c":3}"#, r#"{"b":2}"#),
        (&["a", "b", "c"], r#"{ "a" : 1 , "b":2,"c":3 }"#, "{  }"),
        (&["profile.email"], r#"{"profile":{"email":"x","n":1}}"#, r#"{"profile":{"n":1}}"#),
        (
            &["items[*].email"],
            r#"{"items":[{"email":1},{"n":2,"email":3}]}"#,
            r#"{"items":[{},{"n":2}]}"#,
        ),
        (&["items[1]"], r#"{"items":[1,2,3]}"#, r#"{"items":[1,3]}"#),
        (&["items[*]"], r#"{"items":[1,[2],{"a":3}]}"#, r#"{"items":[]}"#),
        (&["[*].email"], r#"[{"email":1,"a":2}]"#, r#"[{"a":2}]"#),
        (&["[\"odd.key\"]"], r#"{"odd.key":1,"odd":{"key":2}}"#, r#"{"odd":{"key":2}}"#),
        // An escaped key is the same key, and a repeated one goes too.
        (&["email"], r#"{"\u0065mail":1,"a":2,"email":3}"#, r#"{"a":2}"#),
        // Another shape than expected loses more, never less.
        (&["items.email"], r#"{"items":[{"email":1},[{"email":2}]]}"#, r#"{"items":[{},[{}]]}"#),
        (&["items[*].email"], r#"{"items":{"email":1,"n":2}}"#, r#"{"items":{"n":2}}"#),
        (&["items[*].email"], r#"{"items":{"ann":{"email":1}}}"#, r#"{"items":{"ann":{}}}"#),
        (&["a.email"], r#"{"a":"{\"email\":1}","b":2}"#, r#"{"b":2}"#),
        (&["a[*].email"], r#"{"a":["email: 1",{"n":2}]}"#, r#"{"a":[{"n":2}]}"#),
        // Nothing to remove.
        (&["email"], r#"{"a":{"email":1}}"#, r#"{"a":{"email":1}}"#),
        (&["a.b.c"], r#"{"a":5}"#, r#"{"a":5}"#),
        (&["a[0]"], r#"{"a":[]}"#, r#"{"a":[]}"#),
        (&["a"], "5", "5"),
    ];
    for (paths, json, expected) in cases {
        assert_eq!(redact(paths, json), expected, "{paths:?} on {json}");
    }
}

#[test]
fn a_value_inside_a_document_is_cut_in_its_own_coordinates() {
    let source = br#"{"result": {"secret": 1, "kept": 2}}"#;
    let doc = Doc::read(source, &Bounds::ANSWER).unwrap();
    let result = doc.root().get("result").unwrap();
    let paths = [ResultPath::parse("secret").unwrap()];
    assert_eq!(cuts(&paths, result), vec![12..25]);
    assert_eq!(redacted(&paths, result).unwrap(), r#"{"kept": 2}"#);
}

#[test]
fn a_path_that_leads_nowhere_is_refused() {
    for path in ["", ".", "a.", "a..b", "a[", "a[]", "a[-1]", "a[1.5]", "a b", "*", "a.*", "a[\"b]"]
    {
        assert!(ResultPath::parse(path).is_err(), "{path}");
    }
}

fn json() -> impl Strategy<Value = String> {
    let leaf =
        prop_oneof![Just("1".to_owned()), Just("null".to_owned()), Just("\"a,b\"".to_owned())];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let name = prop_oneof![Just("a"), Just("b"), Just("c")];
        let space = prop_oneof![Just(""), Just(" ")];
        let list = proptest::collection::vec(inner.clone(), 0..4);
        let map = proptest::collection::vec((name, inner), 0..4);
        prop_oneof![
            (list, space.clone()).prop_map(|(items, space)| format!(
                "[{space}{}{space}]",
                items.join(&format!("{space},"))
            )),
            (map, space).prop_map(|(members, space)| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\"{space}:{value}"))
                    .collect();
                format!("{{{}{space}}}", members.join(&format!(",{space}")))
            }),
        ]
    })
}

fn path() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        Just(".a".to_owned()),
        Just(".b".to_owned()),
        Just("[*]".to_owned()),
        Just("[0]".to_owned()),
        Just("[1]".to_owned())
    ];
    proptest::collection::vec(step, 1..4)
        .prop_map(|steps| steps.concat().trim_start_matches('.').to_owned())
}

proptest! {
    #[test]
    fn a_cut_result_is_json_and_needs_no_second_cut(
        json in json(),
        paths in proptest::collection::vec(path(), 1..4),
        by_index in any::<bool>(),
    ) {
        // Removing an element moves the next one to its index, so such paths may find more.
        let paths: Vec<_> = paths.iter().filter(|path| by_index || !path.contains(['0', '1'])).collect();
        let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
        let left = redact(&paths, &json);
        prop_assert!(Doc::read(left.as_bytes(), &Bounds::ANSWER).is_ok(), "{left}");
        if !paths.iter().any(|path| path.contains(['0', '1'])) {
            prop_assert_eq!(redact(&paths, &left), left);
        }
    }
}

//! What the YAML reader takes and what it refuses, with places.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::read;

#[test]
fn yaml_reads_as_the_same_json() {
    let cases = [
        ("a: 1\nb: [x, 'y', \"z\"]\n", r#"{"a":1,"b":["x","y","z"]}"#),
        ("---\na: {b: true}\n...\n", r#"{"a":{"b":true}}"#),
        ("default: no\n", r#"{"default":"no"}"#),
        ("a: [yes, on, off, n, Y]\n", r#"{"a":["yes","on","off","n","Y"]}"#),
        (
            "a: 15m\nb: 10.0.0.0/8\nc: 1.2.3.4\nd: 2024-01-01\n",
            r#"{"a":"15m","b":"10.0.0.0/8","c":"1.2.3.4","d":"2024-01-01"}"#,
        ),
        ("a: -1.50e3\nb: '1'\n", r#"{"a":-1.50e3,"b":"1"}"#),
        ("a: 9007199254740993\n", r#"{"a":9007199254740993}"#),
        ("a: ~\nb: null\n", r#"{"a":null,"b":null}"#),
        ("a: |\n  two\n  lines\n", r#"{"a":"two\nlines\n"}"#),
        ("# only this\nwhoop://db/*: {}\n", r#"{"whoop://db/*":{}}"#),
        ("'*': {}\n", r#"{"*":{}}"#),
        ("{\"json\": [1, \"is yaml\"]}", r#"{"json":[1,"is yaml"]}"#),
    ];
    for (yaml, json) in cases {
        assert_eq!(read(yaml).map(|node| node.to_json()).as_deref(), Ok(json), "{yaml}");
    }
}

#[test]
fn ambiguous_yaml_is_refused_with_its_position() {
    let cases = [
        ("", 1, 1, "the policy is empty"),
        ("# nothing\n", 1, 1, "the policy is empty"),
        ("a: 1\na: 2\n", 2, 1, "duplicate key"),
        ("a:\n  b: 1\n  'b': 2\n", 3, 3, "duplicate key"),
        ("a: &x 1\n", 1, 4, "anchors are not supported"),
        ("a: &x {b: 1}\n", 1, 4, "anchors are not supported"),
        ("a: &x 1\nb: *x\n", 1, 4, "anchors are not supported"),
        ("a: !!str 1\n", 1, 4, "tags are not supported"),
        ("a: !include x\n", 1, 4, "tags are not supported"),
        ("a: ! x\n", 1, 4, "tags are not supported"),
        ("a: !!python/object:os.system {}\n", 1, 4, "tags are not supported"),
        ("<<: {a: 1}\n", 1, 1, "merge keys are not supported"),
        ("a: 1\n---\nb: 2\n", 2, 1, "only one document is allowed"),
        ("tools:\n  echo:\n", 2, 7, "a value is missing"),
        ("a: [1, , 2]\n", 1, 8, "not valid YAML"),
        ("a: 010\n", 1, 4, "read differently"),
        ("a: 0x1F\n", 1, 4, "read differently"),
        ("a: 0o17\n", 1, 4, "read differently"),
        ("a: +5\n", 1, 4, "read differently"),
        ("a: .5\n", 1, 4, "read differently"),
        ("a: 5.\n", 1, 4, "read differently"),
        ("a: 1_000\n", 1, 4, "read differently"),
        ("a: .inf\n", 1, 4, "read differently"),
        ("a: .NaN\n", 1, 4, "read differently"),
        ("a: 1:30\n", 1, 4, "read differently"),
        ("1: x\n", 1, 1, "a key must be text"),
        ("true: x\n", 1, 1, "a key must be text"),
        ("~: x\n", 1, 1, "a key must be text"),
        ("? [a]\n: x\n", 1, 3, "a key must be text"),
        ("a: \u{0}\n", 1, 4, "must be escaped"),
        ("a: x\u{2028}y\n", 1, 5, "must be escaped"),
        ("\u{feff}a: 1\n", 1, 1, "must be escaped"),
        ("a: [1\n", 2, 1, "not valid YAML"),
        ("a: *nothing\n", 1, 4, "not valid YAML"),
        ("a: 'unclosed\n", 1, 4, "not valid YAML"),
    ];
    for (yaml, line, column, message) in cases {
        let problem = read(yaml).unwrap_err();
        assert!(problem.message.contains(message), "{yaml:?}: {problem}");
        assert_eq!((problem.line, problem.column), (line, column), "{yaml:?}: {problem}");
    }
}

#[test]
fn bounds_are_named() {
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let cases = [
        (deep, "nested deeper than 64"),
        (format!("a: {}", "x".repeat(64 * 1024 + 1)), "text longer than 65536 bytes"),
        (format!("a: {}", "1".repeat(65)), "a number longer than 64"),
        (format!("a: [{}]", "x,".repeat(300_000)), "more than 200000 values"),
        (" ".repeat(1024 * 1024 + 1), "longer than 1048576 bytes"),
    ];
    for (yaml, message) in cases {
        let problem = read(&yaml).unwrap_err();
        assert!(problem.message.contains(message), "{problem}");
    }
    assert!(read(&format!("{}1{}", "[".repeat(64), "]".repeat(64))).is_ok());
}

#[test]
fn a_glob_without_quotes_gets_a_hint() {
    for yaml in ["tools:\n  *_read: {}\n", "hide: [*]\n", "hide: [*_x]\n"] {
        let problem = read(yaml).unwrap_err();
        assert!(
            problem.hint.clone().unwrap_or_default().contains("in quotes"),
            "{yaml}: {problem:?}"
        );
    }
}

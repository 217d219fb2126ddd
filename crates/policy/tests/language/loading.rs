//! What does not load, where the fault is said to be, and what is suggested.

use policy::{Format, Policy, Problem};

mod faults;

fn problems(source: &str, format: Format) -> Vec<Problem> {
    match Policy::load(source, format) {
        Ok(_) => panic!("loads:\n{source}"),
        Err(error) => error.problems,
    }
}

/// Stands where the fault is said to be.
const MARK: char = '‸';

/// The one problem of a policy whose fault stands in line 2.
fn only(fault: &str) -> Problem {
    let source = format!("{{\"version\":\"1\",\"default\":\"deny\",\n{fault}}}");
    let mut found = problems(&source, Format::Json);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[test]
fn a_fault_has_a_line_a_column_a_pointer_and_a_message() {
    for (marked, pointer, message, hint) in faults::FAULTS {
        let column = marked.chars().position(|c| c == MARK).unwrap() + 1;
        let fault = marked.replace(MARK, "");
        let problem = only(&fault);
        assert!(problem.message.contains(message), "{fault}\n{problem:?}");
        assert!(problem.hint.clone().unwrap_or_default().contains(hint), "{fault}\n{problem:?}");
        assert_eq!(problem.pointer, *pointer, "{fault}\n{problem:?}");
        assert_eq!((problem.line, problem.column), (2, column), "{fault}\n{problem:?}");
        assert!(!problem.message.ends_with('.') && !problem.message.is_empty(), "{problem:?}");
    }
}

#[test]
fn version_and_default_are_needed_and_exact() {
    let cases = [
        ("{}", "the field `version` is missing"),
        (r#"{"version":"1"}"#, "the field `default` is missing"),
        (r#"{"version":1,"default":"deny"}"#, "expected `1`, found a number"),
        (r#"{"version":"2","default":"deny"}"#, "unknown value `2`"),
        (r#"{"version":"1","default":"ask"}"#, "unknown value `ask`"),
        (r#"{"version":"1","default":false}"#, "expected `deny`, `allow`, found true or false"),
        ("[]", "expected an object: policy, found a list"),
        ("null", "expected an object: policy, found null"),
        (r#""""#, "expected an object: policy, found text"),
        ("", "no JSON value"),
        ("{\"version\":\"1\",\"default\":\"deny\"} {}", ""),
        ("\u{feff}{\"version\":\"1\",\"default\":\"deny\"}", ""),
    ];
    for (source, message) in cases {
        let found = problems(source, Format::Json);
        assert!(
            found.iter().any(|problem| problem.message.contains(message)),
            "{source}: {found:?}"
        );
    }
}

#[test]
fn several_faults_are_shown_at_once_in_the_order_of_the_text() {
    let source = "{\"version\":\"1\",\n\"default\":\"no\",\n\"tools\":{\"x\":{\"acton\":\"deny\"},\n\"y\":{\"deny_if\":{}},\n\"z\":{\"rate_limit\":{\"max\":1}}}}";
    let found: Vec<_> = problems(source, Format::Json)
        .iter()
        .map(|problem| (problem.line, problem.pointer.clone()))
        .collect();
    let expected = [
        (2, "/default"),
        (3, "/tools/x/acton"),
        (4, "/tools/y/deny_if"),
        (5, "/tools/z/rate_limit"),
    ];
    assert_eq!(found, expected.map(|(line, pointer)| (line, pointer.to_owned())));
}

#[test]
fn bounds_are_refused_with_their_place() {
    let entries = |count: usize| {
        let entries: Vec<_> = (0..count).map(|index| format!("\"t{index}\":{{}}")).collect();
        format!("{{\"version\":\"1\",\"default\":\"deny\",\"tools\":{{{}}}}}", entries.join(","))
    };
    let rules = |count: usize| {
        let rules = vec!["{\"conditions\":[]}"; count].join(",");
        format!(
            "{{\"version\":\"1\",\"default\":\"deny\",\"tools\":{{\"x\":{{\"require\":[{rules}],\"deny_if\":[{{\"conditions\":[]}}]}}}}}}"
        )
    };
    let patterns = |count: usize| {
        let condition = r#"{"path":"args.a","op":"regex","value":"a"}"#;
        let conditions = vec![condition; count].join(",");
        format!(
            r#"{{"version":"1","default":"deny","tools":{{"x":{{"deny_if":[{{"conditions":[{conditions}]}}]}}}}}}"#
        )
    };
    let text = |count: usize| {
        format!(
            "{{\"version\":\"1\",\"default\":\"deny\",\"description\":\"{}\"}}",
            "x".repeat(count)
        )
    };
    let deep = |count: usize| {
        let args = format!("{}{}", "{\"a\":".repeat(count), "1");
        let ends = "}".repeat(count);
        format!(
            "{{\"version\":\"1\",\"default\":\"deny\",\"tests\":[{{\"tool\":\"x\",\"expect\":\"deny\",\"args\":{args}{ends}}}]}}"
        )
    };
    let fine = [entries(10_000), rules(999), patterns(4_096), text(65_536), deep(61)];
    for source in &fine {
        assert!(Policy::load(source, Format::Json).is_ok(), "{}", &source[..80]);
        assert!(Policy::load(source, Format::Yaml).is_ok(), "{}", &source[..80]);
    }
    let cases = [
        (entries(10_001), "/tools", "10001 entries, more than 10000"),
        (rules(1_000), "/tools/x", "1001 rules and limits in one entry, more than 1000"),
        (patterns(4_097), "/tools/x/deny_if/0/conditions/4096/value", "too large in total"),
        (text(65_537), "", ""),
        (deep(62), "", ""),
        (format!("{}{}", text(10), " ".repeat(1024 * 1024)), "", ""),
    ];
    let count = cases.len();
    for (source, pointer, message) in cases {
        for format in [Format::Json, Format::Yaml] {
            let found = problems(&source, format);
            assert_eq!(found[0].pointer, pointer);
            assert!(found[0].message.contains(message) && found[0].line == 1, "{:?}", found[0]);
        }
    }
    println!("P15: {count} policies over a bound refused with their place, as JSON and as YAML");
}

#[test]
fn a_flood_of_faults_is_cut_short() {
    let fields: Vec<_> = (0..500).map(|index| format!("\"field{index}\":1")).collect();
    let source = format!("{{\"version\":\"1\",\"default\":\"deny\",{}}}", fields.join(","));
    let found = problems(&source, Format::Json);
    assert_eq!(found.len(), 50);
    assert_eq!(found.last().unwrap().hint.as_deref(), Some("and 450 more problems"));
}

/// What `docs/guide/policies.md` shows for editors.
#[test]
fn a_policy_may_say_where_its_schema_is() {
    let json = r#"{ "$schema": "http://127.0.0.1:4180/schema/policy.json", "version": "1", "default": "deny" }"#;
    assert!(Policy::load(json, Format::Json).is_ok());
    let yaml = "# yaml-language-server: $schema=http://127.0.0.1:4180/schema/policy.json\nversion: \"1\"\ndefault: deny\n";
    assert!(Policy::load(yaml, Format::Yaml).is_ok());
}

#[test]
fn yaml_has_the_same_fields_and_the_same_faults() {
    let yaml = "# notes\nversion: \"1\"\ndefault: deny\nhide: [delete_*]\ntools:\n  create_charge:\n    deny_if:\n      - conditions:\n          - {path: args.amount, op: gt, value: 100}\n        on_deny: too much\n    rate_limit: {max: 10, window: 60}\n  'get_*': {}\ntests:\n  - {name: small, tool: create_charge, args: {amount: 5, note: ~}, expect: allow}\n  - {name: large, tool: create_charge, args: {amount: 500}, expect: deny, rule: /tools/create_charge/deny_if/0}\n  - {tool: delete_x, expect: hide}\n  - {tool: get_x, expect: allow}\n";
    assert!(Policy::load(yaml, Format::Yaml).is_ok());
    let cases = [
        ("default: no\nversion: \"1\"\n", 1, 10, "unknown value `no`"),
        ("version: 1\ndefault: deny\n", 1, 10, "expected `1`, found a number"),
        ("version: \"1\"\ndefault: deny\ntools:\n  echo:\n", 4, 7, "a value is missing"),
        (
            "version: \"1\"\ndefault: deny\ntools:\n  echo: ~\n",
            4,
            9,
            "expected an object: entry, found null",
        ),
        ("version: \"1\"\ndefault: deny\ntols:\n  echo: {}\n", 3, 1, "unknown field `tols`"),
        (
            "version: \"1\"\ndefault: deny\ntools:\n  x:\n    actoin: deny\n",
            5,
            5,
            "unknown field `actoin`",
        ),
        ("version: \"1\"\ndefault: deny\nhide: &h [x]\n", 3, 7, "anchors are not supported"),
        (
            "version: \"1\"\ndefault: deny\n---\nversion: \"1\"\ndefault: allow\n",
            3,
            1,
            "only one document is allowed",
        ),
        ("version: \"1\"\ndefault: deny\ndefault: allow\n", 3, 1, "duplicate key"),
        ("# nothing\n", 1, 1, "empty"),
    ];
    for (source, line, column, message) in cases {
        let found = problems(source, Format::Yaml);
        assert!(found[0].message.contains(message), "{source}: {found:?}");
        assert_eq!((found[0].line, found[0].column), (line, column), "{source}: {found:?}");
    }
}

#[test]
fn likely_mistakes_are_warnings() {
    let source = "{\"version\":\"1\",\"default\":\"deny\",\"hide\":[\"x*\"],\n\"tools\":{\"x1\":{},\n\"y\":{\"action\":\"deny\",\"deny_if\":[]},\n\"z\\u200b\":{}}}";
    let policy = Policy::load(source, Format::Json).unwrap();
    let warnings: Vec<_> =
        policy.warnings().iter().map(|warning| (warning.line, warning.message.as_str())).collect();
    assert_eq!(
        warnings,
        [
            (2, "`/tools/x1` is never used: `/hide/0` hides the name"),
            (3, "`deny_if` has no effect: the action already stops every call"),
            (4, "the name `z\\u{200b}` contains control or invisible characters"),
        ]
    );
}

#[test]
fn a_wildcard_of_another_language_is_a_warning() {
    let source = r#"{"version":"1","default":"allow","hide":["del?te","x://a?b","ok*"],
        "tools":{"get_?":{"action":"deny"},"get_[ab]*":{},"{a,b}":{},"fine_*":{}},
        "resources":{"x://a?b=[1]":{}}}"#;
    let policy = Policy::load(source, Format::Json).unwrap();
    let found: Vec<_> = policy.warnings().iter().map(|warning| warning.pointer.as_str()).collect();
    assert_eq!(found, ["/hide/0", "/tools/get_?", "/tools/get_[ab]*", "/tools/{a,b}"]);
    assert!(
        policy.warnings().iter().all(|w| w.message.ends_with("the only wildcard in names is `*`"))
    );
}

#[test]
fn a_policy_that_compares_paths_says_once_what_that_cannot_know() {
    let rule = r#"{ "conditions": [{ "path": "args.p", "op": "path_under", "value": "/srv" }] }"#;
    let source = format!(
        r#"{{ "version": "1", "default": "deny", "tools": {{ "a": {{ "require": [{rule}, {rule}] }}, "b": {{ "deny_if": [{rule}] }} }} }}"#
    );
    let policy = Policy::load(&source, Format::Json).unwrap();
    let found: Vec<_> = policy.warnings().iter().map(|warning| warning.pointer.as_str()).collect();
    assert_eq!(found, ["/tools/a/require/0/conditions/0"]);
    assert!(policy.warnings()[0].message.contains("symbolic link"));
}

#[test]
fn oversized_patterns_are_refused_once_however_many_there_are() {
    let condition = r#"{"path":"args.a","op":"regex","value":"(\\w{200}){200}"}"#;
    let conditions = vec![condition; 1_000].join(",");
    let source = format!(
        r#"{{"version":"1","default":"deny","tools":{{"x":{{"deny_if":[{{"conditions":[{conditions}]}}]}}}}}}"#
    );
    let found = problems(&source, Format::Json);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].pointer, "/tools/x/deny_if/0/conditions/0/value");
    assert!(found[0].message.contains("too large when compiled"), "{}", found[0].message);
}

/// A link to another file must not make its content part of an error.
#[test]
fn a_file_that_is_not_a_policy_is_not_quoted() {
    let texts = [
        "root:$6$SECRET:19000:0:99999:7:::\nfoo:SECRET:1\n",
        "-----BEGIN PRIVATE KEY-----\nSECRET==\n-----END PRIVATE KEY-----\n",
        "API_KEY=SECRET\nB=SECRET\n",
        "{\"private_key\":\"SECRET\",\"SECRET\":[\"SECRET\"]}",
        "SECRET: SECRET\nversion: 10\n",
        "{\"version\": 1.5, \"defaults\": \"denySECRET\", \"SECRET\": 1}",
        "\"SECRET\"",
    ];
    for text in texts {
        for format in [Format::Json, Format::Yaml] {
            let found = problems(text, format);
            assert!(!format!("{found:?}").contains("SECRET"), "{found:?}");
            assert!(found[0].line >= 1, "{found:?}");
        }
        assert!(!policy::looks_like_policy(text), "{text}");
    }
    for text in
        ["version: \"1\"\nx", "{\"version\":\"1\",}", "default: deny\nx: [", "'version' : 1"]
    {
        assert!(policy::looks_like_policy(text), "{text}");
    }
}

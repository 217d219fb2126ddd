//! `tollgate policy`.

use insta::assert_snapshot;

use crate::cli_test::CliTest;

const GOOD: &str = r#"{
  "version": "1",
  "default": "deny",
  "tools": {
    "pay": {
      "deny_if": [
        { "conditions": [{ "path": "args.amount", "op": "gt", "value": 100 }], "on_deny": "too much" }
      ],
      "limits": [{ "counter": "paid", "window": "day", "max": 250, "increment": "args.amount" }]
    }
  },
  "tests": [
    { "name": "small sums go", "tool": "pay", "args": { "amount": 5 }, "expect": "allow" },
    { "name": "large sums do not", "tool": "pay", "args": { "amount": 101 }, "expect": "deny" }
  ]
}
"#;

fn broken() -> String {
    GOOD.replace("\"day\"", "\"fortnight\"").replace("deny_if", "denyif")
}

#[test]
fn a_valid_policy_passes_the_check() {
    let test = CliTest::new();
    test.write("good.json", GOOD);
    assert_snapshot!(test.transcript(&["policy", "check", "good.json"]));
}

#[test]
fn problems_are_shown_like_compiler_errors() {
    let test = CliTest::new();
    test.write("bad.json", &broken());
    test.write("worse.json", "{ \"version\": \"1\", \"version\": \"1\" }");
    test.write("bad.yaml", "version: \"1\"\ndefault: maybe\ntools:\n  pay: {}\n");
    assert_snapshot!(test.transcript(&["policy", "check", "bad.json", "worse.json", "bad.yaml"]));
}

#[test]
fn invalid_utf8_is_reported_with_its_position() {
    let test = CliTest::new();
    for (bytes, place) in [
        (&b"\xff{}"[..], "line 1, column 1"),
        (b"{\n\n \"\xc3\xa9\": \"\xc0\xae\"}", "line 3, column 8"),
    ] {
        std::fs::write(test.path("bytes.json"), bytes).unwrap();
        let told = test.transcript(&["policy", "check", "bytes.json"]);
        assert!(told.contains(place), "{told}");
    }
}

#[test]
fn problems_are_json_with_the_json_option() {
    let test = CliTest::new();
    test.write("good.json", GOOD);
    test.write("bad.json", &broken());
    assert_snapshot!(test.transcript(&["policy", "check", "good.json", "bad.json", "--json"]));
}

#[test]
fn a_command_that_needs_a_policy_says_in_json_why_it_does_not_load() {
    let test = CliTest::new();
    test.write("bad.json", "{\"version\":\"1\",\n\"default\":\"deny\",\"tols\":{}}");
    for words in [
        &["policy", "test", "bad.json", "--json"][..],
        &["policy", "explain", "bad.json", "x", "--json"],
        &["policy", "set", "p", "bad.json", "--json"],
    ] {
        let output = test.run(words);
        assert_eq!(output.code, 2, "{}", output.all_output());
        let account: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
        assert_eq!(
            account["caused_by"][0], "line 2, column 18: unknown field `tols` in policy",
            "{account}"
        );
        assert_eq!(account["hints"][0], "did you mean `tools`?", "{account}");
    }
}

#[test]
fn a_missing_file_exits_with_2() {
    assert_snapshot!(CliTest::new().transcript(&["policy", "check", "nowhere.json"]));
}

#[test]
fn a_policy_is_read_from_stdin() {
    let output = CliTest::new().run_with(&["policy", "check", "-"], GOOD);
    assert_eq!((output.code, output.stdout.as_str()), (0, "<stdin>: ok, 2 tests passed\n"));
}

#[test]
fn tests_are_shown_one_by_one() {
    let test = CliTest::new();
    test.write("good.json", GOOD);
    test.write("failing.json", &GOOD.replace("\"amount\": 5 ", "\"amount\": 500 "));
    let story = test.transcripts(&[
        &["policy", "test", "good.json"],
        &["policy", "test", "failing.json"],
        &["policy", "test", "failing.json", "--json"],
    ]);
    assert_snapshot!(story);
}

#[test]
fn a_verdict_is_explained_step_by_step() {
    let test = CliTest::new();
    test.write("good.json", GOOD);
    test.write("amount.json", r#"{"amount":7}"#);
    let explain = ["policy", "explain", "good.json", "pay", "--args"];
    let with = |args: &'static str| [&explain[..], &[args]].concat();
    let story = test.transcripts(&[
        &with(r#"{"amount":5}"#),
        &with(r#"{"amount":"5000"}"#),
        &with("@amount.json"),
        &["policy", "explain", "good.json", "steal"],
        &["policy", "explain", "good.json", "pay", "--definition", "changed"],
    ]);
    assert_snapshot!(story);
}

#[test]
fn ambiguous_arguments_are_refused_before_any_rule() {
    let test = CliTest::new();
    test.write("good.json", GOOD);
    let twice = r#"{"amount":5,"amount":5000}"#;
    assert_snapshot!(test.transcript(&["policy", "explain", "good.json", "pay", "--args", twice]));
}

#[test]
fn arguments_that_are_not_an_object_are_refused_before_any_rule() {
    let test = CliTest::new();
    test.write("good.json", GOOD);
    for args in ["[1]", "5", "null", "\"x\""] {
        let output = test.run(&["policy", "explain", "good.json", "pay", "--args", args]);
        assert_eq!(output.code, 2, "{args}: {}", output.all_output());
        assert!(output.stderr.contains("they are not an object"), "{args}: {}", output.stderr);
    }
}

#[test]
fn times_are_explained_in_the_zone_that_the_gate_uses() {
    let mut test = CliTest::new();
    test.set("TZ", "America/New_York");
    test.write(
        "early.json",
        r#"{"version":"1","default":"deny","tools":{"x":{"require":[{"conditions":[
        {"path":"time.hour","op":"eq","value":3},{"path":"time.weekday","op":"eq","value":"tuesday"}]}]}}}"#,
    );
    test.write("tokyo.toml", "time_zone = \"Asia/Tokyo\"\n");
    test.write("broken.toml", "time_zone =\n");
    let at = |config: &str, time: &str| {
        let explain = ["policy", "explain", "early.json", "x", "--time", time];
        test.run(&[&["--config", config], &explain[..]].concat())
    };
    for time in ["2026-11-16T18:30:00Z", "2026-11-17T03:30"] {
        let output = at("tokyo.toml", time);
        assert_eq!(output.code, 0, "{time}: {}", output.all_output());
    }
    let output = at("broken.toml", "2026-11-17T03:30");
    assert_eq!(output.code, 0, "{}", output.all_output());
    assert!(output.stderr.contains("the settings file does not load"), "{}", output.stderr);
}

#[test]
fn the_schema_is_a_schema() {
    let schema = CliTest::new().succeed(&["policy", "schema"]).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(schema.pointer("/properties/tools").is_some());
}

#[test]
fn every_version_is_kept_and_a_broken_one_never_replaces_a_good_one() {
    let test = CliTest::new();
    test.write("one.json", GOOD);
    test.write("two.json", &GOOD.replace("250", "300"));
    test.write("bad.json", &broken());
    let story = test.transcripts(&[
        &["policy", "list"],
        &["policy", "set", "spending", "one.json"],
        &["policy", "set", "spending", "one.json"],
        &["policy", "set", "spending", "two.json"],
        &["policy", "set", "spending", "bad.json"],
        &["policy", "list"],
        &["policy", "show", "spending", "--history"],
        &["policy", "show", "nothing"],
    ]);
    assert_snapshot!(story);
    let one = test.succeed(&["policy", "show", "spending", "--version", "1"]).stdout;
    assert_eq!(one, GOOD, "the text comes back byte for byte");
}

#[test]
fn the_policy_of_a_grant_is_explained_too() {
    let test = CliTest::with_demo();
    test.grant("alice");
    let words = ["policy", "explain", "--grant", "alice", "--server", "demo"];
    let allowed = [&words[..], &["list_notes"]].concat();
    let denied = [&words[..], &["delete_note"]].concat();
    assert_snapshot!(test.transcripts(&[&allowed, &denied, &["policy", "explain", "pay"]]));
}

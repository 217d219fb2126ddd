//! Which paths are read and where they lead.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::ops::ControlFlow;

use super::{Leaf, Path, Seen};
use crate::call::{Call, Caller, LocalTime, Subject, ToolFacts, Weekday};
use crate::json::{Bounds, Doc};

/// The kinds of values a path leads to, in order.
fn found(path: &str, args: Option<&str>) -> Vec<String> {
    let doc = args.map(|args| Doc::read(args.as_bytes(), &Bounds::ANSWER).unwrap());
    let call = Call {
        subject: Subject::Tool("x"),
        args: doc.as_ref().map(Doc::root),
        params: doc.as_ref().map(Doc::root),
        caller: Caller { grant: "ann", session: Some("s1"), client: None },
        tool: ToolFacts { risk: Some("high"), ..ToolFacts::default() },
        time: LocalTime { hour: 7, weekday: Weekday::Friday },
    };
    let mut leaves = Vec::new();
    Path::parse(path).unwrap().each(&call, &mut |leaf| {
        leaves.push(match leaf {
            Leaf::Missing => "missing".to_owned(),
            Leaf::Misfit => "misfit".to_owned(),
            Leaf::Present(Seen::Text(text)) => format!("text {text}"),
            Leaf::Present(Seen::Number(number)) => format!("number {number}"),
            Leaf::Present(other) => other.kind().to_owned(),
        });
        ControlFlow::Continue(())
    });
    leaves
}

#[test]
fn a_path_leads_to_what_it_names() {
    let args = r#"{"a":{"b":5},"list":[1,"x",null],"items":[{"price":1},{"name":"n"},7],"odd.key":"o",
        "deep":[[1,2],[3]],"holes":[[],[4]],"empty":[],"none":null,"\u0061\"b":true}"#;
    let cases: [(&str, &[&str]); 28] = [
        ("args", &["an object"]),
        ("args.a.b", &["number 5"]),
        ("args[\"a\"][\"b\"]", &["number 5"]),
        ("args[\"\\u0061\"].b", &["number 5"]),
        ("args[\"odd.key\"]", &["text o"]),
        ("args[\"a\\\"b\"]", &["true or false"]),
        ("args.list[0]", &["number 1"]),
        ("args.list[1]", &["text x"]),
        ("args.list[2]", &["null"]),
        ("args.list[3]", &["missing"]),
        ("args.list[*]", &["number 1", "text x", "null"]),
        ("args.items[*].price", &["number 1", "missing", "misfit"]),
        ("args.deep[*][*]", &["number 1", "number 2", "number 3"]),
        ("args.deep[1][0]", &["number 3"]),
        // A list without elements has nothing to offer.
        ("args.empty[*]", &["missing"]),
        ("args.empty[*].x", &["missing"]),
        ("args.holes[*][*]", &["missing", "number 4"]),
        ("args.nothing", &["missing"]),
        ("args.nothing[*].x", &["missing"]),
        // What some readers take for the member is neither it nor nothing.
        ("args.A", &["misfit"]),
        ("args.a.B", &["misfit"]),
        ("args[\"Odd.Key\"]", &["misfit"]),
        // A way through a value without such parts is no way.
        ("args.a.b.c", &["misfit"]),
        ("args.a[0]", &["misfit"]),
        ("args.a[*]", &["misfit"]),
        ("args.list.x", &["misfit"]),
        ("args.none.x", &["misfit"]),
        ("args.none[*]", &["misfit"]),
    ];
    for (path, expected) in cases {
        assert_eq!(found(path, Some(args)), expected, "{path}");
    }
}

#[test]
fn facts_of_the_call_have_their_own_paths() {
    let cases = [
        ("caller.grant", "text ann"),
        ("caller.session", "text s1"),
        ("caller.client", "missing"),
        ("tool.category", "missing"),
        ("tool.risk", "text high"),
        ("time.hour", "number 7"),
        ("time.weekday", "text friday"),
        ("args.caller.grant", "missing"),
    ];
    for (path, expected) in cases {
        assert_eq!(found(path, None), [expected], "{path}");
    }
    assert_eq!(found("args.a", Some("[1]")), ["misfit"]);
    let params = Some(r#"{"_meta":{"to":"x"},"list":[1,2]}"#);
    assert_eq!(found("params._meta.to", params), ["text x"]);
    assert_eq!(found("params.list[*]", params), ["number 1", "number 2"]);
    assert_eq!(found("params.other", params), ["missing"]);
    assert_eq!(found("params", None), ["missing"]);
}

#[test]
fn a_path_that_cannot_be_read_is_refused() {
    let paths = [
        "",
        "amount",
        "arguments.x",
        "argsx",
        "args.",
        "args..a",
        "args.a.",
        "args[",
        "args[]",
        "args[-1]",
        "args[+1]",
        "args[1",
        "args[1]x",
        "args[1.0]",
        "args['a']",
        "args[\"a]",
        "args[\"a\"",
        "args[\"\\x\"]",
        "args.*",
        "args.a b",
        "args.a]",
        "args.\"a\"",
        "args[**]",
        "args[99999999999999999999999]",
        "caller",
        "caller.name",
        "caller.grant.x",
        "caller.grant[0]",
        "time.minute",
        "tool.name",
        " args.a",
        "Args.a",
    ];
    for path in paths {
        assert!(Path::parse(path).is_err(), "{path}");
    }
}

#[test]
fn two_spellings_of_one_path_are_equal() {
    assert_eq!(Path::parse("args.amount").unwrap(), Path::parse("args[\"amount\"]").unwrap());
    assert_ne!(Path::parse("args.amount").unwrap(), Path::parse("args.Amount").unwrap());
}

//! Which client messages are accepted, which are refused, and with which error.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq};
use proptest::proptest;

use crate::{
    Id, Message, Method, Named, Outcome, ProtocolError, Revision, error_body, notification_body,
    read, request_body, result_body,
};

/// How a message was parsed: its kind, or the status, code and id of the refusal.
fn parsed(source: &str) -> String {
    let summary = |refused: ProtocolError| {
        let id = refused.id.as_ref().map_or("null", Id::raw);
        format!("{} {} {id}", refused.http_status, refused.code)
    };
    let doc = match read(source.as_bytes()) {
        Ok(doc) => doc,
        Err(refused) => return summary(refused),
    };
    match Message::of(&doc) {
        Err(refused) => summary(refused),
        Ok(Message::Notification(notification)) => {
            format!("notification {:?}", notification.method)
        }
        Ok(Message::Response(response)) => match response.outcome {
            Outcome::Result(_) => format!("result {}", response.id),
            Outcome::Error(_) => format!("error {}", response.id),
        },
        Ok(Message::Request(request)) => match request.named() {
            Ok(named) => format!("{:?} {named:?} {}", request.method, request.id),
            Err(refused) => summary(refused),
        },
    }
}

fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(parsed(source), *expected, "{source}");
    }
}

#[test]
fn well_formed_messages_are_accepted() {
    check(&[
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "Ping Nothing 1"),
        (
            r#"{"jsonrpc":"2.0","id":"a\u0062","method":"tools/list","params":{}}"#,
            r#"ToolsList Nothing "a\u0062""#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":-3,"method":"tools\/call","params":{"name":"a.b-c_d/e"}}"#,
            r#"ToolsCall Tool("a.b-c_d/e") -3"#,
        ),
        (
            r#"{"params":{"arguments":{"Name":1},"name":"x"},"method":"tools/call","id":0,"jsonrpc":"2.0"}"#,
            r#"ToolsCall Tool("x") 0"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///My Documents/ä"}}"#,
            r#"ResourcesRead Resource("file:///My Documents/ä") 1"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"Guten Tag","arguments":{"a":"b"}}}"#,
            r#"PromptsGet Prompt("Guten Tag") 1"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}}"#,
            r#"Complete Prompt("p") 1"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"x://{y}"},"argument":{"name":"a","value":""}}}"#,
            r#"Complete Resource("x://{y}") 1"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t1"}}"#,
            r#"TasksGet Task("t1") 1"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x.vendor/Extra","params":{"Name":1,"URI":2}}"#,
            "Other Nothing 1",
        ),
        (r#"{"jsonrpc":"2.0","method":"x.vendor/told"}"#, "notification Other"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            "notification Cancelled",
        ),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}"#, "result 7"),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#, "error 7"),
    ]);
}

#[test]
fn malformed_envelopes_are_refused() {
    check(&[
        ("", "400 -32700 null"),
        ("{", "400 -32700 null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#, "400 -32700 null"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "400 -32600 null"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"x":1,"X":2}}}"#,
            "400 -32600 null",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1e400}}}"#,
            "400 -32600 1",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"n":9007199254740993},"id":"a"}"#,
            "400 -32600 \"a\"",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"ping","params":{"n":1e400},"id":1,"id":2}"#,
            "400 -32600 null",
        ),
        (r#"{"jsonrpc":"2.0","method":"ping","params":{"n":1e400},"id":{}}"#, "400 -32600 null"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":1e400}}]"#, "400 -32600 null"),
        ("[]", "400 -32600 null"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "400 -32600 null"),
        ("1", "400 -32600 null"),
        ("{}", "400 -32600 null"),
        (r#"{"jsonrpc":"2.0"}"#, "400 -32600 null"),
        (r#"{"id":1,"method":"ping"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","Params":{}}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"meſhod":"x","method":"ping"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","Id":1,"method":"ping"}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","id":1e0,"method":"ping"}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","result":{}}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"params":{}}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}"#, "400 -32600 1"),
    ]);
}

#[test]
fn look_alikes_of_methods_are_refused() {
    check(&[
        (r#"{"jsonrpc":"2.0","id":1,"method":""}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call "}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call\u0000"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"toolſ/call"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Tools/Call"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools//call"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"/tools/call"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools\\call"}"#, "400 -32600 1"),
        (r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","method":"resources/read","params":{"uri":"x"}}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","method":"initialize","params":{}}"#, "400 -32600 null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled"}"#, "400 -32600 1"),
    ]);
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "m".repeat(129));
    assert_eq!(parsed(&long), "400 -32600 1");
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "i".repeat(257));
    assert_eq!(parsed(&long), "400 -32600 null");
}

#[test]
fn params_that_do_not_fit_their_method_are_refused() {
    check(&[
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, "200 -32602 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}"#, "200 -32602 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}}"#, "200 -32602 1"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a b"}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\u0000"}}"#,
            "200 -32602 1",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"é"}}"#, "200 -32602 1"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":"{}"}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":null}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","Arguments":{}}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","requeſtState":""}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_META":{}}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":[]}}"#,
            "400 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"ProgressToken":1}}}"#,
            "200 -32602 1",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_Meta":{}}}"#, "200 -32602 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}"#, "200 -32602 1"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a\nb"}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x","arguments":{"a":1}}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/tool"},"argument":{}}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","Name":"x"},"argument":{}}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"taskid":"x"}}"#,
            "200 -32602 1",
        ),
    ]);
}

#[test]
fn a_refusal_is_one_json_object_without_the_input() {
    let source =
        r#"{"jsonrpc":"2.0","id":"\u003cid>","method":"tools/call","params":{"name":"</script>"}}"#;
    let doc = read(source.as_bytes()).unwrap();
    let Message::Request(request) = Message::of(&doc).unwrap() else { panic!("no request") };
    let body = request.named().unwrap_err().to_body();
    let expected = r#"{"jsonrpc":"2.0","id":"\u003cid>","error":{"code":-32602,"message":"a tool name may only contain letters, digits, `_`, `.`, `-` and `/`"}}"#;
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn a_request_exposes_arguments_meta_and_progress_token() {
    let source = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1},"_meta":{"progressToken":"p\u0031"}}}"#;
    let doc = read(source).unwrap();
    let Message::Request(request) = Message::of(&doc).unwrap() else { panic!("no request") };
    assert_eq!(request.arguments().unwrap().raw(), r#"{"a":1}"#);
    assert_eq!(request.meta().unwrap().len(), 1);
    assert_eq!(request.progress_token(), Some(r#""p\u0031""#));
    assert_eq!(request.named().unwrap(), Named::Tool("x".into()));
}

#[test]
fn ids_are_echoed_as_written_and_compared_by_value() {
    let same = [(r#""a""#, r#""\u0061""#), ("0", "-0")];
    let different = [("1", r#""1""#), ("1", "2"), (r#""a""#, r#""A""#)];
    let id = |raw: &str| Id::parse(raw).unwrap();
    for (a, b) in same {
        assert_eq!(id(a), id(b));
        assert_eq!(id(b).raw(), b);
    }
    for (a, b) in different {
        assert_ne!(id(a), id(b));
    }
    assert_eq!(id("18446744073709551615").raw(), "18446744073709551615");
    for illegal in ["18446744073709551616", "1.0", "1e2", "null", "true", "{}", ""] {
        assert!(Id::parse(illegal).is_none(), "{illegal}");
    }
    assert_eq!(Id::generated("ask", 7).raw(), r#""ask-7""#);
    assert_eq!(Id::generated("a\"b", 7), id(r#""ab-7""#));
    assert_eq!(Id::number(7), id("7"));
}

#[test]
fn written_bodies_are_valid_messages() {
    let id = Id::parse("\"x\"").unwrap();
    let cases = [
        (result_body(&id, "{}"), r#"{"jsonrpc":"2.0","id":"x","result":{}}"#),
        (
            error_body(None, -1, "no \"x\"", None),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no \"x\""}}"#,
        ),
        (
            error_body(Some(&id), -1, "", Some("[1]")),
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"","data":[1]}}"#,
        ),
        (request_body(&id, "ping", None), r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#),
        (notification_body("a/b", Some("{}")), r#"{"jsonrpc":"2.0","method":"a/b","params":{}}"#),
    ];
    for (body, expected) in cases {
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }
}

#[test]
fn every_method_knows_its_name_and_its_revisions() {
    for &method in Method::KNOWN {
        let name = method.name().unwrap();
        assert_eq!(Method::parse(name), method);
        assert!(Revision::ALL.iter().any(|revision| method.is_in(*revision)), "{name}");
    }
    let has = |name: &str| Revision::ALL.map(|revision| Method::parse(name).is_in(revision));
    assert_eq!(has("initialize"), [true, true, true, true, false]);
    assert_eq!(has("server/discover"), [false, false, false, false, true]);
    assert_eq!(has("elicitation/create"), [false, false, true, true, false]);
    assert_eq!(has("tools/call"), [true; 5]);
    assert_eq!(has("x.vendor/extra"), [true; 5]);
}

#[test]
fn handshakes_select_a_legacy_revision() {
    for revision in Revision::ALL {
        assert_eq!(Revision::parse(revision.as_str()), Some(revision));
    }
    assert_eq!(Revision::agree("2025-03-26"), Revision::V2025_03_26);
    assert_eq!(Revision::agree("2026-07-28"), Revision::V2025_11_25);
    assert_eq!(Revision::agree("1999-01-01"), Revision::V2025_11_25);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_bytes_get_a_message_or_a_valid_error(bytes in vec(any::<u8>(), 0..100)) {
        if let Err(refused) = read(&bytes).and_then(|doc| Message::of(&doc).map(drop)) {
            let body: serde_json::Value = serde_json::from_slice(&refused.to_body()).unwrap();
            prop_assert!(body["error"]["message"].is_string());
        }
    }

    #[test]
    fn any_text_in_any_member_gets_a_message_or_a_valid_error(texts in vec(".{0,8}", 4), place in 0..4_usize) {
        let text = |index: usize, usual: &str| {
            serde_json::to_string(if index == place { texts[index].as_str() } else { usual }).unwrap()
        };
        let source = format!(
            r#"{{"jsonrpc":{},"id":{},"method":{},"params":{{"name":{},"arguments":{{}}}}}}"#,
            text(0, "2.0"), text(1, "i"), text(2, "tools/call"), text(3, "tool"),
        );
        let doc = match read(source.as_bytes()) {
            Ok(doc) => doc,
            Err(refused) => { prop_assert_eq!(refused.code, -32700); return Ok(()); }
        };
        match Message::of(&doc) {
            Ok(Message::Request(request)) => prop_assert_eq!(request.id.raw(), text(1, "i")),
            Ok(_) => prop_assert!(false, "no request"),
            Err(refused) => drop(serde_json::from_slice::<serde_json::Value>(&refused.to_body()).unwrap()),
        }
    }
}

#[test]
fn params_have_only_the_members_of_their_method() {
    check(&[
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","ref":{}}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x","task":{}}}"#,
            "200 -32602 1",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"x"}}"#, "200 -32602 1"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"name":"x"}}"#,
            "200 -32602 null",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"a":1},"name":"x","task":{"ttl":1}}}"#,
            r#"ToolsCall Tool("x") 1"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p","uri":"x:y"},"argument":{"name":"a","value":""}}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"","x":1}}}"#,
            "200 -32602 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":{"arguments":{"b":"c"}}}}"#,
            r#"Complete Prompt("p") 1"#,
        ),
    ]);
}

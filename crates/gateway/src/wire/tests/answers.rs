//! What is taken from servers.

use crate::wire::{Id, Incoming, Outcome, read_answer};

fn taken(source: &str) -> Result<String, String> {
    let doc = read_answer(source.as_bytes(), 2).map_err(|unusable| unusable.words)?;
    let incoming = Incoming::of(&doc).map_err(|unusable| unusable.words)?;
    let params = |params: Option<policy::json::Value<'_>>| {
        params.map_or("-".to_owned(), |p| p.raw().to_owned())
    };
    Ok(match incoming {
        Incoming::Request { id, method, params: p, .. } => format!("{method:?} {id} {}", params(p)),
        Incoming::Notification { method_name, params: p, .. } => {
            format!("{method_name} {}", params(p))
        }
        Incoming::Response { id, outcome } => {
            let id = id.as_ref().map_or("null", Id::raw).to_owned();
            match outcome {
                Outcome::Result(result) => format!("result {id} {}", result.raw()),
                Outcome::Error(error) => format!("error {id} {}", error.raw()),
            }
        }
    })
}

#[test]
fn messages_of_servers_are_taken_with_members_we_do_not_know() {
    let cases = [
        (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"#, r#"result 1 {"a":1,"a":2}"#),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"result":18446744073709551716}"#,
            "result 1.5 18446744073709551716",
        ),
        (r#"{"result":null,"id":"x","jsonrpc":"2.0","_vendor":{"x":1}}"#, r#"result "x" null"#),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, "result 1 {}"),
        (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}"#, r#"error 1 {"code":1}"#),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#,
            r#"error null {"code":-32700,"message":"?"}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","error":{"code":1,"message":"?"}}"#,
            r#"error null {"code":1,"message":"?"}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{}}"#,
            r#"CreateMessage "s1" {}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":[1]}}"#,
            r#"notifications/message {"data":[1]}"#,
        ),
        (r#"{"jsonrpc":"2.0","method":"x","params":null}"#, "x -"),
    ];
    for (source, expected) in cases {
        assert_eq!(taken(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn envelopes_with_two_meanings_are_not_used() {
    let cases = [
        "",
        "x",
        "[]",
        "1",
        "{}",
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"ID":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"reſult":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"Result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"method\u0000":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"method":"x"}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"x","params":[1]}"#,
        r#"{"jsonrpc":"2.0","method":1}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
    ];
    for source in cases {
        assert!(taken(source).is_err(), "{source}");
    }
    let many = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{}}{}}}"#, ",\"x\":1".repeat(40));
    assert!(taken(&many).is_err());
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#, "x".repeat(2000));
    assert!(taken(&long).is_err());
}

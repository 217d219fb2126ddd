//! Parsers of protocol bytes, with valid inputs as seeds. A parser reports a fault by panicking;
//! `fuzz/` uses the same table.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use mcp::translate::{self, ClientMeta};
use mcp::{Message, Outcome, ParamHeaders, Response, Revision, headers, server_message, sse};
use policy::json::{Bounds, Doc, canonical};

use crate::surface::Surface;

const MESSAGES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1,2.5,"x",null,{"b":true}]},"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"file:///x"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"\u00e9\ud83d\ude00"}]}}"#,
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"m","data":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
];
const HEADS: &[&str] = &[
    "mcp-protocol-version: 2026-07-28\nmcp-method: tools/call\nmcp-name: echo\n",
    "mcp-protocol-version: 2025-06-18\nmcp-name: =?base64?ZWNobw==?=\nmcp-param-to: a\n",
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\nmcp-session-id: x\n",
];
const STREAMS: &[&str] = &[
    "id: 1\nretry: 500\ndata: {\"a\":1}\n\n: comment\n\nevent: message\ndata: x\ndata: y\n\n",
    "\u{feff}data:{}\r\n\r\ndata\r\rid\n\n",
];
const SCHEMAS: &[&str] = &[
    r#"{"name":"pay","description":"Sends money. \u202e","inputSchema":{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"To"},"amount":{"type":"number","minimum":0}},"required":["to"]},"annotations":{"readOnlyHint":true}}"#,
    r#"{"name":"run","title":"Run","description":"Executes any shell command","inputSchema":{"$ref":"http://x","anyOf":[{"type":"string"},{"type":["null","integer"]}]}}"#,
];

pub(crate) const SURFACES: &[Surface] = &[
    Surface { name: "messages of agents", seeds: MESSAGES, read: message },
    Surface { name: "responses of servers", seeds: MESSAGES, read: answer },
    Surface { name: "headers", seeds: HEADS, read: head },
    Surface { name: "event streams", seeds: STREAMS, read: stream },
    Surface { name: "arguments in headers", seeds: SCHEMAS, read: param_headers },
    Surface { name: "translation between eras", seeds: MESSAGES, read: translation },
];

fn message(bytes: &[u8]) {
    let first = mcp::read(bytes).map(|doc| meaning(&doc));
    let second = mcp::read(bytes).map(|doc| meaning(&doc));
    assert_eq!(first.is_ok(), second.is_ok());
    if let (Ok(first), Ok(second)) = (first, second) {
        assert_eq!(first, second, "one meaning");
    }
}

/// The canonical form of a message; parsing it again must give the same. It need not be valid
/// client input: a large integer has no exponent in it.
fn meaning(doc: &Doc<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    canonical(doc.root(), &mut out);
    let again = Doc::read(&out, &Bounds::ANSWER).expect("what we write can be read");
    let mut twice = Vec::new();
    canonical(again.root(), &mut twice);
    assert_eq!(out, twice);
    if let Ok(message) = Message::of(doc) {
        let _ = headers::era_of_body(&message, &[Revision::NEWEST]);
        if let Message::Request(request) = &message {
            let _ = request.named();
        }
    }
    out
}

fn answer(bytes: &[u8]) {
    for depth in [1, 3, usize::MAX] {
        if let Ok(doc) = Doc::read_shallow(bytes, &Bounds::ANSWER, depth) {
            let _ = server_message::fault(doc.root());
        }
    }
}

fn head(bytes: &[u8]) {
    let mut map = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            map.append(name, value);
        }
    }
    for text in MESSAGES {
        let doc = mcp::read(text.as_bytes()).unwrap();
        if let Ok(message) = Message::of(&doc) {
            let _ = headers::era_of_post(&message, &map, &[Revision::NEWEST]);
        }
    }
}

fn stream(bytes: &[u8]) {
    let mut decoder = sse::Decoder::new(4096);
    for piece in bytes.chunks(7) {
        decoder.feed(piece);
        while let Ok(Some(event)) = decoder.next_event() {
            let mut out = Vec::new();
            sse::write_event(&event, &mut out);
        }
    }
    assert!(decoder.held_bytes() <= 16 * 1024);
}

fn param_headers(bytes: &[u8]) {
    let Ok(doc) = Doc::read(bytes, &Bounds::ANSWER) else { return };
    if let Some(schema) = doc.root().get("inputSchema") {
        let _ = ParamHeaders::of_schema(schema);
    }
}

/// The output of a translation must parse.
fn translation(bytes: &[u8]) {
    let Ok(doc) = mcp::read(bytes) else { return };
    let client = ClientMeta { capabilities: "{}".to_owned(), info: None, log_level: None };
    let mut written = Vec::new();
    match Message::of(&doc) {
        Ok(Message::Request(request)) => {
            written.push(translate::modern_params(request.params, &client));
            written.extend(request.params.map(translate::legacy_params));
        }
        Ok(Message::Response(Response { outcome: Outcome::Result(result), .. })) => {
            for method in ["tools/call", "tools/list", "tasks/result", "resources/read"] {
                written.push(translate::modern_result(method, result));
                written.push(translate::legacy_result(method, result));
            }
            let _ = translate::input_requests(result);
        }
        Ok(Message::Response(Response { outcome: Outcome::Error(error), .. })) => {
            written.push(translate::error(error, true, "resources/read"));
            written.push(translate::url_elicitations(error));
        }
        _ => {}
    }
    for text in written {
        assert!(Doc::read(text.as_bytes(), &Bounds::ANSWER).is_ok(), "{text}");
    }
}

//! Servers on standard streams: when they are started, how long they stay, what they hear.

use std::fs;

use serde_json::{Value, json};

use crate::running::with_child;
use crate::world::Gate;

#[test]
fn a_child_hears_of_a_trace_as_a_whole() {
    let mut gate = Gate::new();
    let (token, notes) = with_child(&gate);
    gate.up();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let calls = [
        ("tracestate: a=1\r\ntracestate: b=2\r\n", json!({}), json!("a=1,b=2")),
        ("", json!({}), Value::Null),
        // What belongs to another parent does not go along.
        ("", json!({ "traceparent": parent, "tracestate": "old=1", "x/y": 1 }), Value::Null),
    ];
    for (headers, meta, state) in calls {
        let mut client = gate.client(&token, "/mcp/child");
        client.headers = format!("traceparent: {parent}\r\n{headers}");
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "echo", "arguments": {}, "_meta": meta },
        });
        assert!(client.send(&message).passed());
        let heard = fs::read_to_string(notes.with_extension("calls")).unwrap();
        let heard: Value = serde_json::from_str(heard.lines().last().unwrap()).unwrap();
        let told = &heard["params"]["_meta"];
        assert_eq!((&told["traceparent"], &told["tracestate"]), (&json!(parent), &state));
        assert_eq!(told["x/y"], meta["x/y"]);
    }
}

//! Headers that mirror arguments: a server gets only those that its tools declare, computed from the body; a
//! tool that declares impossible ones is not listed.

use serde_json::{Value, json};

use crate::http_client::Client;
use crate::recorder::{Manner, Recorder, tool};
use crate::test_gate::Gate;

fn world(tools: Vec<Value>) -> (Gate, Recorder, String) {
    let mut gate = Gate::new();
    let recorder = Recorder::new(&[]);
    recorder.behave(Manner::Newer);
    recorder.set_tools(tools);
    gate.policy("rules", &json!({ "version": "1", "default": "allow" }));
    gate.run(&["server", "add", "rec", "--url", &recorder.url()]);
    let token = gate.grant("agent", &["rec=rules"]);
    gate.up();
    (gate, recorder, token)
}

fn with_header(name: &str, schema: &Value) -> Value {
    let mut tool = tool(name, name);
    tool["inputSchema"]["properties"]["region"] = schema.clone();
    tool
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn a_header_that_no_tool_declares_reaches_no_server() {
    let declared = json!({ "type": "string", "x-mcp-header": "Region" });
    let (gate, recorder, token) = world(vec![with_header("echo", &declared), tool("plain", "x")]);
    for (path, prefix) in [("/mcp/rec", ""), ("/mcp", "rec__")] {
        for (name, arguments) in [("echo", json!({ "region": "eu" })), ("plain", json!({}))] {
            let name = format!("{prefix}{name}");
            let mut headers = format!(
                "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n\
                 Mcp-Param-Evil: undeclared\r\nMcp-Param-Nonce: undeclared\r\n"
            );
            if name.ends_with("echo") {
                headers.push_str("Mcp-Param-Region: eu\r\n");
            }
            let client = Client { headers, ..gate.client(&token, path) };
            let params = json!({ "name": name, "arguments": arguments, "_meta": meta() });
            let answer = client.send(
                &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }),
            );
            assert!(answer.passed(), "{path} {name}: {}", answer.text());
        }
    }
    let heads = recorder.heads().to_ascii_lowercase();
    assert!(!heads.contains("undeclared") && !heads.contains("mcp-param-evil"), "{heads}");
    assert_eq!(heads.matches("mcp-param-region: eu").count(), 2, "{heads}");
}

#[test]
fn a_tool_that_declares_impossible_headers_is_not_listed() {
    let bad = [
        json!({ "type": "object", "x-mcp-header": "Region" }),
        json!({ "type": "number", "x-mcp-header": "Region" }),
        json!({ "type": "string", "x-mcp-header": "a b" }),
        json!({ "type": "string", "x-mcp-header": "" }),
    ];
    let mut tools = vec![
        tool("plain", "x"),
        with_header("good", &json!({ "type": "string", "x-mcp-header": "Region" })),
    ];
    tools.extend(bad.iter().enumerate().map(|(n, schema)| with_header(&format!("bad{n}"), schema)));
    let (gate, _recorder, token) = world(tools);
    for path in ["/mcp/rec", "/mcp"] {
        let headers = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n".to_owned();
        let client = Client { headers, ..gate.client(&token, path) };
        let answer = client.send(&json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta() },
        }));
        let list = answer.text();
        assert!(list.contains("plain") && list.contains("good"), "{list}");
        assert!(!list.contains("bad"), "{list}");
    }
    assert!(gate.log().contains("x-mcp-header"), "{}", gate.log());
}

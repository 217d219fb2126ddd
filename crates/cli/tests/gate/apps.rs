//! MCP Apps at the common address: their tools and pages are found, and a changed page is refused until the
//! owner accepts it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::eras::{older, request};
use crate::http_client::{Answer, Client};
use crate::test_gate::{Gate, until};

const SERVER: &str = include_str!("apps.py");
const FIRST: &str = "<html><body>weather <script>show()</script></body></html>";
const SECOND: &str = "<html><body>weather <script>steal()</script></body></html>";

struct AppsGate {
    gate: Gate,
    token: String,
}

impl AppsGate {
    fn new(policy: &Value) -> AppsGate {
        let mut gate = Gate::new();
        fs::write(gate.folder.path().join("apps.py"), SERVER).unwrap();
        gate.policy("open", policy);
        for server in ["maps", "weather"] {
            let (script, page) = (gate.folder.path().join("apps.py"), page(&gate, server));
            fs::write(&page, FIRST).unwrap();
            let command = ["python3", script.to_str().unwrap(), server, page.to_str().unwrap()];
            gate.run(&[&["server", "add", server, "--"][..], &command].concat());
        }
        let token = gate.grant("agent", &["maps=open", "weather=open"]);
        gate.up();
        AppsGate { gate, token }
    }

    /// A session of a client that shows apps, after the owner accepted what such clients see.
    fn client(&self, path: &str) -> Client {
        let declared = json!({ "extensions": { "io.modelcontextprotocol/ui": {
            "mimeTypes": ["text/html;profile=mcp-app"],
        } } });
        older(&self.gate.client(&self.token, path), &declared)
    }

    fn accept_tools(&self, client: &Client) {
        for server in ["maps", "weather"] {
            until("its tools are seen", Duration::from_mins(1), || {
                client.send(&request("tools/list", &json!({})));
                !self.gate.cli(&["server", "pins", server]).status.success()
            });
            self.gate.run(&["server", "pins", server, "--accept"]);
        }
        until("they are shown", Duration::from_mins(1), || tools(client).len() == 10);
    }
}

fn page(gate: &Gate, server: &str) -> PathBuf {
    gate.folder.path().join(format!("{server}.html"))
}

fn allow() -> Value {
    json!({ "version": "1", "default": "allow", "resources": { "*": {} } })
}

fn tools(client: &Client) -> Vec<Value> {
    let list = client.send(&request("tools/list", &json!({}))).json();
    list["result"]["tools"].as_array().cloned().unwrap_or_default()
}

fn read(client: &Client, uri: &str) -> Answer {
    client.send(&request("resources/read", &json!({ "uri": uri })))
}

fn html(answer: &Answer) -> String {
    let text = answer.json()["result"]["contents"][0]["text"].clone();
    text.as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
}

#[test]
fn apps_work_at_the_common_address() {
    let setup = AppsGate::new(&allow());
    let client = setup.client("/mcp");
    setup.accept_tools(&client);
    let tools = tools(&client);
    let named = |name: &str| {
        let found = tools.iter().find(|tool| tool["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {tools:?}")).clone()
    };
    let view = &named("weather__show")["_meta"]["ui"]["resourceUri"];
    assert_eq!(view, "ui://weather/view.html");
    assert_eq!(named("weather__old")["_meta"]["ui/resourceUri"], "ui://weather/old.html");
    assert_eq!(named("weather__refresh")["_meta"]["ui"]["visibility"], json!(["app"]));
    // Both servers are found by the tools that name their pages.
    for server in ["maps", "weather"] {
        for uri in [format!("ui://{server}/view.html"), format!("ui://{server}/old.html")] {
            let answer = read(&client, &uri);
            assert_eq!(html(&answer), FIRST, "{uri}");
            let csp = &answer.json()["result"]["contents"][0]["_meta"]["ui"]["csp"];
            assert_eq!(csp["connectDomains"][0], format!("https://{server}.example"));
        }
    }
    // An app calls its server's tools by their own names.
    let own = client.call("shared_maps", &json!({})).json();
    assert_eq!(own["result"]["content"][0]["text"], "maps shared_maps");
    assert!(client.call("refresh", &json!({})).text().contains("ambiguous"));
    // A page that two servers claim belongs to neither: one would get the other's data.
    let claimed = read(&client, "ui://shared/view.html");
    assert!(
        claimed.refused() && claimed.text().contains("`maps` and `weather`"),
        "{}",
        claimed.text()
    );
    assert!(read(&client, "ui://nobody/view.html").refused());
    let plain = older(&setup.gate.client(&setup.token, "/mcp"), &json!({}));
    until("its own list was read", Duration::from_mins(1), || {
        let listed = self::tools(&plain);
        let names: Vec<&Value> = listed.iter().map(|tool| &tool["name"]).collect();
        names == ["maps__plain", "weather__plain"]
    });
}

#[test]
fn a_changed_page_is_refused_until_the_owner_accepts_it() {
    let setup = AppsGate::new(&allow());
    let client = setup.client("/mcp/weather");
    let uri = "ui://weather/view.html";
    assert_eq!(html(&read(&client, uri)), FIRST);
    fs::write(page(&setup.gate, "weather"), SECOND).unwrap();
    for _ in 0..2 {
        let refused = read(&client, uri);
        assert_eq!(refused.denial()["code"], "tool_changed", "{}", refused.text());
        assert!(!refused.text().contains("steal"), "{}", refused.text());
    }
    let shown = setup.gate.cli(&["server", "pins", "weather"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(!shown.status.success(), "there is something to accept");
    assert!(text.contains(uri) && text.contains("steal()"), "{text}");
    let json = setup.gate.cli(&["--json", "server", "pins", "weather"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["open"].as_array().unwrap().iter().any(|pin| pin["tool"] == uri), "{json}");
    setup.gate.run(&["server", "pins", "weather", "--accept", uri]);
    assert_eq!(html(&read(&client, uri)), SECOND);
    // The accepted one is the second now.
    fs::write(page(&setup.gate, "weather"), FIRST).unwrap();
    assert_eq!(read(&client, uri).denial()["code"], "tool_changed");
    let rows = setup.gate.rows();
    assert!(rows.iter().any(|row| row.to_string().contains("pins_accepted")), "{rows:?}");
}

#[test]
fn a_policy_may_allow_changed_pages() {
    let policy = json!({
        "version": "1", "default": "allow",
        "resources": { "ui://weather/view.html": { "on_change": "allow" }, "*": {} },
    });
    let setup = AppsGate::new(&policy);
    let client = setup.client("/mcp/weather");
    for (text, passes) in [(FIRST, true), (SECOND, false)] {
        fs::write(page(&setup.gate, "weather"), text).unwrap();
        assert_eq!(html(&read(&client, "ui://weather/view.html")), text);
        assert_eq!(read(&client, "ui://weather/old.html").refused(), !passes);
    }
}

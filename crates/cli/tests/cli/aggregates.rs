//! `aggregate_only` through the binary: whatever a grant asks of the WHOOP server, no single night leaves.

use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::http;
use crate::whoop;

/// As open as a policy can be, but for the bound.
const OPEN: &str = r#"{ "version": "1", "default": "allow", "aggregate_only": 6,
    "tools": { "*": {} }, "resources": { "*": {} }, "prompts": { "*": {} } }"#;
/// The tools that may answer. A tool that is added to this list needs a reason in decision 62.
const ANSWERING: &[&str] = &["get_whoop_auth_status", "get_whoop_aggregates"];

/// A request of the revision that needs no session, for the tool, URI or prompt `name`.
fn request(url: &str, token: &str, method: &str, name: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["text/html;profile=mcp-app"] } },
        },
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let bearer = format!("Bearer {token}");
    let mut headers = vec![
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
    ];
    if !name.is_empty() {
        headers.push(("Mcp-Name", name));
    }
    http::post(url, &headers, &body.to_string()).json()
}

fn names(list: &Value, member: &str, field: &str) -> Vec<String> {
    let items = list["result"][member].as_array().unwrap_or_else(|| panic!("{list}")).iter();
    items.map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

/// Arguments of the right types, so that a tool that is not denied would answer.
fn arguments(schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let value = |name: &str| match name {
        "sql" => json!("select * from whoop_recoveries"),
        "metric" | "x" => json!("hrv"),
        "y" => json!("recovery"),
        "date" | "first_from" | "second_from" => json!("yesterday"),
        "first_to" | "second_to" => json!("today"),
        _ => json!("1"),
    };
    required
        .iter()
        .map(|name| (name.as_str().unwrap().to_owned(), value(name.as_str().unwrap())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn bounded() -> (CliTest, whoop::Sandbox, String) {
    let (test, sandbox) = whoop::connected("200");
    test.succeed(&["sync", "whoop"]);
    test.succeed(&["server", "add", "whoop", "--builtin", "whoop", "--tools", "all"]);
    let policy = test.write("open.json", OPEN);
    test.succeed(&["policy", "set", "bounded", &policy]);
    let made = test.succeed(&["grant", "create", "coach", "--server", "whoop=bounded", "--json"]);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    (test, sandbox, token)
}

#[test]
fn no_tool_resource_or_prompt_of_whoop_shows_a_single_night_under_aggregate_only() {
    let (test, _sandbox, token) = bounded();
    let up = test.up(&[]);
    let url = format!("{}/whoop", up.url());
    let ask = |method: &str, name: &str, params: Value| request(&url, &token, method, name, params);
    let list = ask("tools/list", "", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
    assert!(tools.len() > 40, "{}", tools.len());
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        let told = json!({ "name": name, "arguments": arguments(&tool["inputSchema"]) });
        let answer = ask("tools/call", name, told);
        let text = answer.to_string();
        let is_denied = text.contains("denied_by_rule") && text.contains("/aggregate_only");
        assert_eq!(is_denied, !ANSWERING.contains(&name), "{name}: {text}");
    }
    let mut uris = names(&ask("resources/list", "", json!({})), "resources", "uri");
    let templates = ask("resources/templates/list", "", json!({}));
    uris.extend(names(&templates, "resourceTemplates", "uriTemplate"));
    assert!(uris.len() > 2, "{uris:?}");
    for uri in uris {
        let uri = uri.replace("{id}", "1").replace(['{', '}'], "");
        let answer = ask("resources/read", &uri, json!({ "uri": uri }));
        assert!(answer.to_string().contains("/aggregate_only"), "{uri}: {answer}");
    }
    for prompt in names(&ask("prompts/list", "", json!({})), "prompts", "name") {
        let answer = ask("prompts/get", &prompt, json!({ "name": prompt }));
        assert!(answer.to_string().contains("/aggregate_only"), "{prompt}: {answer}");
    }
    let argument = json!({ "name": "id", "value": "" });
    let reference = json!({ "type": "ref/resource", "uri": "whoop://db/sleep/{id}" });
    let completed =
        ask("completion/complete", "", json!({ "ref": reference, "argument": argument }));
    assert!(completed.get("result").is_none(), "{completed}");
    up.stop();
}

#[test]
fn an_open_policy_on_another_server_of_the_grant_does_not_lift_the_bound() {
    let (test, _sandbox, _) = bounded();
    test.succeed(&["server", "add", "personal", "--builtin", "personal"]);
    let open =
        test.write("wide.json", r#"{ "version": "1", "default": "allow", "tools": { "*": {} } }"#);
    test.succeed(&["policy", "set", "wide", &open]);
    let both = ["--server", "whoop=bounded", "--server", "personal=wide", "--json"];
    let made = test.succeed(&[&["grant", "create", "both"][..], &both].concat());
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let up = test.up(&[]);
    let url = format!("{}/personal", up.url());
    let pair = json!({ "x": "whoop.asleep", "y": "whoop.recovery" });
    let answer = http::call(&url, &token, "relate_daily_metrics", &pair).json();
    let related = &answer["result"]["structuredContent"];
    assert_eq!(related["block_days"], 7, "{answer}");
    let lagged = json!({ "x": "whoop.strain", "y": "whoop.recovery", "lag_days": 1 });
    let answer = http::call(&url, &token, "relate_daily_metrics", &lagged).json();
    assert!(answer["result"]["isError"] == true, "{answer}");
    let list = http::call(&url, &token, "list_daily_metrics", &json!({})).json();
    let metrics = list["result"]["structuredContent"]["metrics"].as_array().unwrap().clone();
    let recovery = metrics.iter().find(|own| own["metric"] == "whoop.recovery").unwrap();
    assert_eq!(recovery["n"].as_u64().unwrap() % 7, 0, "whole weeks: {recovery}");
    up.stop();
}

#[test]
fn aggregates_are_weekly_means_that_the_owner_can_recompute() {
    let (test, _sandbox, token) = bounded();
    let up = test.up(&[]);
    let url = format!("{}/whoop", up.url());
    let asked = |arguments: Value| {
        let answer = http::call(&url, &token, "get_whoop_aggregates", &arguments).json();
        answer["result"]["structuredContent"].clone()
    };
    let whole = asked(json!({ "metric": "recovery", "block_days": 1 }));
    assert_eq!(whole["block_days"], 7, "{whole}");
    let blocks = whole["blocks"].as_array().unwrap();
    assert!(blocks.len() >= 3, "{whole}");
    // Windows that end a day apart show the same weeks, whatever their length.
    for days in 60..75 {
        let part = asked(json!({ "metric": "recovery", "days": days }));
        for block in part["blocks"].as_array().unwrap() {
            assert_eq!(block["n"], 7, "{part}");
            assert!(blocks.contains(block), "a week of its own: {block}");
        }
    }
    let block = &blocks[blocks.len() / 2];
    let sql = format!(
        "select avg(recovery_score), count(*) from whoop_recoveries where local_date between '{}' and '{}'",
        block["from"].as_str().unwrap(),
        block["to"].as_str().unwrap()
    );
    let owner = test.succeed(&["sql", &sql, "--json"]).stdout;
    let mean = block["mean"]["value"].as_f64().unwrap();
    assert!(mean > 0.0 && mean < 100.0 && owner.contains('7'), "{block} {owner}");
    let why = ["policy", "explain", "--grant", "coach", "--server", "whoop", "get_whoop_today"];
    let explained = test.run(&why).all_output();
    assert!(explained.contains("/aggregate_only"), "{explained}");
    let fine =
        ["policy", "explain", "--grant", "coach", "--server", "whoop", "get_whoop_aggregates"];
    assert_eq!(test.run(&fine).code, 0);
    up.stop();
}

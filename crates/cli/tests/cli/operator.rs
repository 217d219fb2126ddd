//! The operator server through the gate: which grants can use it, and what they may decide.

use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::gate::wait_for_approval;
use crate::http::{self, Answer};

/// Money can be sent after an approval; everything else is allowed.
const PAY: &str =
    r#"{"version":"1","default":"allow","tools":{"send_money":{"action":"require_approval"}}}"#;
const OPEN: &str = r#"{"version":"1","default":"allow"}"#;

fn home(settings: &str) -> CliTest {
    let test = CliTest::with_demo();
    let added = test.succeed(&["server", "add", "operator", "--builtin", "operator"]);
    assert!(added.stderr.contains("grant create LABEL --operator --server operator"));
    for (name, text) in [("pay", PAY), ("open", OPEN)] {
        let file = test.write(&format!("{name}.json"), text);
        test.succeed(&["policy", "set", name, &file]);
    }
    test.write("home/tollgate.toml", settings);
    test
}

fn grant(test: &CliTest, words: &[&str]) -> String {
    let mut command = vec!["--json", "grant", "create"];
    command.extend(words);
    test.succeed(&command).json()["token"].as_str().unwrap().to_owned()
}

const OPERATOR: [&str; 5] = ["--operator", "--server", "operator", "--server", "demo=pay"];

fn operator(test: &CliTest, label: &str) -> String {
    grant(test, &[&[label][..], &OPERATOR].concat())
}

fn pay(url: &str, token: &str) -> Answer {
    http::call(&format!("{url}/demo"), token, "send_money", &json!({ "to": "Ada", "amount": 7 }))
}

fn ask(url: &str, token: &str, tool: &str, arguments: &Value) -> Value {
    http::call(&format!("{url}/operator"), token, tool, arguments).json()["result"].clone()
}

/// The code at the start of a failed result.
fn refusal(result: &Value) -> String {
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    text.split(':').next().unwrap().to_owned()
}

/// A response without what differs for every request.
fn comparable(answer: &Answer, server: &str) -> String {
    let audit_id = regex::Regex::new(r#""audit_id":\d+"#).unwrap();
    audit_id.replace_all(&answer.body.replace(server, "[SERVER]"), "").into_owned()
}

#[test]
fn an_operator_approves_a_waiting_call_and_the_call_continues() {
    let test = home("");
    let agent = grant(&test, &["agent", "--server", "demo=pay"]);
    let opal = operator(&test, "opal");
    let up = test.up(&[]);
    let url = up.url().to_owned();
    let waiting = {
        let url = url.clone();
        std::thread::spawn(move || pay(&url, &agent))
    };
    let id = wait_for_approval(&test);

    let list = ask(&url, &opal, "list_approvals", &json!({}));
    let row = &list["structuredContent"]["approvals"][0];
    assert_eq!((&row["id"], &row["grant"]), (&json!(id), &json!("agent")), "{list}");
    assert_eq!((&row["state"], &row["decidable"]), (&json!("waiting"), &json!(true)));
    assert!(row.get("arguments").is_none(), "a list has no arguments: {row}");
    let shown = ask(&url, &opal, "show_approval", &json!({ "id": id }));
    assert_eq!(shown["structuredContent"]["arguments"], r#"{"to":"Ada","amount":7}"#, "{shown}");

    let approved = ask(&url, &opal, "approve", &json!({ "id": id }));
    assert_eq!(approved["structuredContent"]["decided_by"], "opal (operator)", "{approved}");
    let answer = waiting.join().unwrap();
    assert_eq!(answer.json()["result"]["structuredContent"]["sent"], 7, "{}", answer.body);

    let text = test.succeed(&["audit", "search", "approval_decided", "--json"]).stdout;
    assert!(text.contains("opal (operator)"), "{text}");
    let again = ask(&url, &opal, "approve", &json!({ "id": id }));
    assert_eq!(refusal(&again), "not_decided");
    let found =
        ask(&url, &opal, "search_audit", &json!({ "grant": "agent", "subject": "send_money" }));
    let entry = &found["structuredContent"]["entries"][0];
    assert_eq!(
        (&entry["decision"], &entry["outcome"]),
        (&json!("admitted"), &json!("ok")),
        "{found}"
    );
    let one = ask(&url, &opal, "read_audit_entry", &json!({ "seq": entry["seq"] }));
    assert_eq!(&one["structuredContent"]["entry"], entry);
}

#[test]
fn an_operator_denies_with_a_reason_that_the_agent_gets() {
    let test = home("");
    let agent = grant(&test, &["agent", "--server", "demo=pay"]);
    let opal = operator(&test, "opal");
    let up = test.up(&[]);
    let url = up.url().to_owned();
    let waiting = {
        let url = url.clone();
        std::thread::spawn(move || pay(&url, &agent))
    };
    let id = wait_for_approval(&test);
    for reason in [json!({ "id": id }), json!({ "id": id, "reason": "  " })] {
        assert_eq!(refusal(&ask(&url, &opal, "deny", &reason)), "invalid_arguments");
    }
    let denied = ask(&url, &opal, "deny", &json!({ "id": id, "reason": "not on a Wednesday" }));
    assert_eq!(denied["structuredContent"]["state"], "denied", "{denied}");
    let answer = waiting.join().unwrap();
    assert!(answer.text().contains("not on a Wednesday"), "{}", answer.body);
}

/// Own calls, also with a rotated token, calls of an earlier grant of the same label, and calls of another
/// operator are for the owner.
#[test]
fn an_operator_cannot_decide_its_own_calls_or_those_of_another_operator() {
    let test = home("[limits]\napproval_hold_seconds = 0\n");
    let earlier = grant(&test, &["opal", "--server", "demo=pay"]);
    let up = test.up(&[]);
    let url = up.url().to_owned();
    pay(&url, &earlier);
    let of_earlier = wait_for_approval(&test);
    test.succeed(&["grant", "revoke", "opal"]);
    let opal = operator(&test, "opal");
    let olga = operator(&test, "olga");
    crate::gate::eventually("the new grants are known", || pay(&url, &olga).status == 200);
    pay(&url, &opal);
    let rotated = test.succeed(&["grant", "rotate", "opal", "--json"]).json();
    let rotated = rotated["token"].as_str().unwrap();
    crate::gate::eventually("the new token is known", || {
        http::call(&format!("{url}/operator"), rotated, "list_policies", &json!({})).status == 200
    });

    let list = ask(&url, rotated, "list_approvals", &json!({}));
    let rows = list["structuredContent"]["approvals"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "{list}");
    assert!(rows.iter().any(|row| row["id"] == of_earlier.as_str()));
    for row in rows {
        assert_eq!(row["decidable"], false, "{row}");
        for token in [&*opal, rotated] {
            let id = &row["id"];
            let approve = ask(&url, token, "approve", &json!({ "id": id }));
            assert_eq!(refusal(&approve), "not_yours_to_decide", "{row}");
            let deny = ask(&url, token, "deny", &json!({ "id": id, "reason": "no" }));
            assert_eq!(refusal(&deny), "not_yours_to_decide", "{row}");
        }
    }
    let states = test.succeed(&["approvals", "list", "--json"]).json();
    assert!(states.as_array().unwrap().iter().all(|row| row["state"] == "waiting"), "{states}");
}

/// The settings file can give any grant the server; without the mark the server does not exist for it.
#[test]
fn for_other_grants_the_operator_server_does_not_exist() {
    let token = CliTest::new().succeed(&["grant", "token", "--json"]).json();
    let (sha256, token) =
        (token["token_sha256"].clone(), token["token"].as_str().unwrap().to_owned());
    let test = home(&format!(
        "[grants.sly]\nservers = {{ demo = \"open\", operator = \"open\" }}\ntoken_sha256 = {sha256}\n"
    ));
    let up = test.up(&[]);
    let url = up.url().to_owned();
    let at = |server: &str| {
        let answer = http::call(&format!("{url}/{server}"), &token, "list_approvals", &json!({}));
        (answer.status, comparable(&answer, server))
    };
    assert_eq!(at("operator"), at("nothing"));
    let prefixed = |server: &str| {
        let name = format!("{server}__list_approvals");
        comparable(&http::call(&url, &token, &name, &json!({})), server)
    };
    assert_eq!(prefixed("operator"), prefixed("nothing"));

    let refused = test.run(&["grant", "create", "bob", "--server", "operator=open"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("for operator grants only"), "{}", refused.stderr);
    test.succeed(&["grant", "create", "bob", "--server", "demo=open"]);
    let refused = test.run(&["grant", "policy", "bob", "operator", "open"]);
    assert!(refused.stderr.contains("for operator grants only"), "{}", refused.stderr);
    let policy = test.path("open.json").display().to_string();
    for words in [&["stdio", "operator"][..], &["stdio", "operator", "--policy", &policy]] {
        let refused = test.run(words);
        assert!(refused.stderr.contains("needs an operator grant"), "{}", refused.stderr);
    }
}

#[test]
fn an_operator_simulates_calls_and_reads_policies() {
    let test = home("");
    let _agent = grant(&test, &["agent", "--server", "demo=pay"]);
    let opal = operator(&test, "opal");
    let up = test.up(&[]);
    let url = up.url();
    let decision = |arguments: Value| {
        let result = ask(url, &opal, "simulate", &arguments);
        let of = result["structuredContent"]["decision"].as_str().map(str::to_owned);
        of.unwrap_or_else(|| refusal(&result))
    };
    for (arguments, expected) in [
        (json!({ "grant": "agent", "server": "demo", "name": "send_money" }), "ask"),
        (json!({ "grant": "agent", "server": "demo", "name": "list_notes" }), "allow"),
        (json!({ "grant": "opal", "server": "operator", "name": "approve" }), "allow"),
        (json!({ "grant": "opal", "server": "operator", "name": "other" }), "deny"),
        (json!({ "grant": "agent", "server": "operator", "name": "approve" }), "not_found"),
        (json!({ "policy": "open", "name": "x://y", "kind": "resource" }), "allow"),
        (json!({ "policy": "none", "name": "x" }), "not_found"),
        (json!({ "name": "x" }), "invalid_arguments"),
    ] {
        assert_eq!(decision(arguments.clone()), expected, "{arguments}");
    }
    let list = ask(url, &opal, "list_policies", &json!({}));
    let policies = list["structuredContent"]["policies"].as_array().unwrap();
    let pay = policies.iter().find(|policy| policy["name"] == "pay").unwrap();
    assert_eq!(pay["used_by"], json!(["agent on demo", "opal on demo"]));
    let shown = ask(url, &opal, "show_policy", &json!({ "name": "pay" }));
    assert_eq!(shown["structuredContent"]["source"], PAY);
}

#[test]
fn the_mark_is_shown() {
    let test = home("");
    operator(&test, "opal");
    assert_eq!(test.succeed(&["grant", "show", "opal", "--json"]).json()["operator"], true);
    assert!(test.succeed(&["grant", "show", "opal"]).stdout.contains("active, operator"));
    assert!(test.succeed(&["grant", "list"]).stdout.contains("active, operator"));
}

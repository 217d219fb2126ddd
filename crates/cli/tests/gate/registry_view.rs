//! The servers of a grant as an MCP registry: only what the grant may use, in the registry's format, readable
//! by pages of any origin, and by `tollgate catalog import`.

use std::fs;

use serde_json::{Value, json};

use crate::http_client::{Answer, exchange};
use crate::recorder::Recorder;
use crate::test_gate::Gate;

const WAIT: std::time::Duration = std::time::Duration::from_secs(20);

fn ask(gate: &Gate, method: &str, path: &str, more: &str) -> Answer {
    let host = format!("127.0.0.1:{}", gate.port);
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
    exchange(gate.port, request.as_bytes(), WAIT)
}

fn gate_with_servers() -> (Gate, String) {
    let mut gate = Gate::new();
    gate.policy("open", &json!({ "version": "1", "default": "allow" }));
    let recorder = Recorder::new(&["read"]);
    for server in ["files", "notes", "bank", "other"] {
        gate.run(&["server", "add", server, "--url", &recorder.url()]);
    }
    // `bank` has no policy, `other` is not in the grant.
    let token = gate.grant("agent", &["files=open", "notes=open", "bank"]);
    gate.up();
    (gate, format!("Authorization: Bearer {token}\r\n"))
}

/// What the registry's schema requires of an entry.
fn check_entry(entry: &Value) {
    let server = &entry["server"];
    let (namespace, name) = server["name"].as_str().unwrap().split_once('/').unwrap();
    let fits = |part: &str, more: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    assert!(fits(namespace, ".-") && namespace.contains('.'), "{server}");
    assert!(fits(name, "._-"), "{server}");
    assert!((1..=100).contains(&server["description"].as_str().unwrap().len()));
    assert!((1..=100).contains(&server["title"].as_str().unwrap().len()));
    assert_eq!(server["version"], "1.0.0");
    for remote in server["remotes"].as_array().unwrap() {
        assert_eq!(remote["type"], "streamable-http");
        assert!(remote["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{remote}");
        assert_eq!(remote["headers"][0]["name"], "Authorization");
        assert_eq!(remote["headers"][0]["isSecret"], true);
    }
    let official = &entry["_meta"]["io.modelcontextprotocol.registry/official"];
    assert_eq!(official, &json!({ "status": "active", "isLatest": true }));
}

fn names(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let list = answer.json();
    let servers = list["servers"].as_array().unwrap();
    assert_eq!(list["metadata"]["count"], servers.len());
    servers.iter().for_each(check_entry);
    servers.iter().map(|entry| entry["server"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_grant_sees_its_servers_as_a_registry() {
    let (gate, token) = gate_with_servers();
    let get = |path: &str| ask(&gate, "GET", path, &token);
    let both = ["local.tollgate/files", "local.tollgate/notes"];
    assert_eq!(names(&get("/v0.1/servers")), both);
    assert_eq!(names(&get("/v0.1/servers?search=note&version=latest")), [both[1]]);
    let first = get("/v0.1/servers?limit=1");
    assert_eq!(names(&first), [both[0]]);
    let cursor = first.json()["metadata"]["nextCursor"].as_str().unwrap().replace('/', "%2F");
    let second = get(&format!("/v0.1/servers?limit=1&cursor={cursor}"));
    assert_eq!(names(&second), [both[1]]);
    assert!(second.json()["metadata"].get("nextCursor").is_none());
    let one = "/v0.1/servers/local.tollgate%2Ffiles/versions";
    assert_eq!(names(&get(one)), [both[0]]);
    for version in ["latest", "1.0.0"] {
        let answer = get(&format!("{one}/{version}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        check_entry(&answer.json());
        let url = format!("http://127.0.0.1:{}/mcp/files", gate.port);
        assert_eq!(answer.json()["server"]["remotes"][0]["url"], url.as_str());
    }
    // A server of another grant, one without a policy, and a version that does not exist are the same.
    for path in ["other/versions", "bank/versions/latest", "files/versions/2.0.0", "files"] {
        let answer = get(&format!("/v0.1/servers/local.tollgate%2F{path}"));
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.json(), json!({ "error": "Server not found" }), "{path}");
    }
    let file = gate.folder.path().join("registry.json");
    fs::write(&file, get("/v0.1/servers").body).unwrap();
    let imported = gate.run(&["catalog", "import", file.to_str().unwrap()]);
    assert!(imported.contains("2 servers"), "{imported}");
}

#[test]
fn the_registry_view_needs_a_token_and_is_readable_by_pages_of_any_origin() {
    let (gate, token) = gate_with_servers();
    let page = "Origin: https://editor.example\r\n";
    for (method, more, status) in [
        ("GET", String::new(), 401),
        ("GET", "Authorization: Bearer tg_wrong\r\n".to_owned(), 401),
        ("GET", token.clone(), 200),
        ("POST", token.clone(), 405),
        ("DELETE", token.clone(), 405),
        ("OPTIONS", String::new(), 204),
    ] {
        for path in ["/v0.1/servers", "/v0.1/servers/local.tollgate%2Ffiles/versions/latest"] {
            let answer = ask(&gate, method, path, &format!("{page}{more}"));
            assert_eq!(answer.status, status, "{method} {path} {more}: {}", answer.text());
            assert_eq!(answer.header("access-control-allow-origin").as_deref(), Some("*"));
            assert_eq!(
                answer.header("access-control-allow-headers").as_deref(),
                Some("Authorization")
            );
        }
    }
    // No other address is readable by such a page, and no foreign name of the gate is.
    assert_eq!(ask(&gate, "GET", "/mcp", &format!("{page}{token}")).status, 403);
    let rebound = format!(
        "GET /v0.1/servers HTTP/1.1\r\nHost: evil.example\r\n{token}Connection: close\r\n\r\n"
    );
    assert_eq!(exchange(gate.port, rebound.as_bytes(), WAIT).status, 403);
}

//! A home whose vault key is damaged, gone or another's: WHOOP still speaks, and says what is wrong.

use std::fs;

use serde_json::json;

use crate::http;
use crate::stage::Stage;
use crate::whoop::{answer, call, connected, lines, request};

/// What is the owner's: the key file, the login and the records, byte for byte. The gate goes on
/// keeping its own books in `gate.db` and the audit log.
fn kept(stage: &Stage) -> Vec<Option<Vec<u8>>> {
    let files = ["vault.key", "accounts/whoop.json", "data.db"];
    files.iter().map(|name| fs::read(stage.home().join(name)).ok()).collect()
}

#[test]
fn whoop_starts_without_the_right_key_and_says_so_to_every_call() {
    let (stage, sandbox) = connected("5");
    stage.fine(&["sync", "whoop"]);
    let key = stage.home().join("vault.key");
    let right = fs::read(&key).unwrap();
    let another = format!("{}\n", "ab".repeat(32));
    let asked =
        || http::get(&format!("{}/counters", sandbox.word("control"))).json()["requests"].clone();
    for text in [Some("tgvk1_damaged"), Some(""), Some(another.as_str()), None] {
        match text {
            Some(text) => fs::write(&key, text).unwrap(),
            None => fs::remove_file(&key).unwrap(),
        }
        let (before, asked_before) = (kept(&stage), asked());
        let input = lines(&[
            request(1, "tools/list", &json!({})),
            call(2, "list_whoop_cycles", &json!({})),
            call(3, "get_whoop_profile", &json!({ "fresh": true })),
            call(4, "sync_whoop", &json!({})),
            call(5, "get_whoop_auth_status", &json!({})),
            call(6, "health_check", &json!({})),
            call(7, "export_whoop", &json!({ "kind": "all", "format": "csv", "path": "x" })),
            call(8, "whoop-get-user-profile", &json!({})),
        ]);
        let said = stage.speak(&["stdio", "whoop", "--tools", "main,classic"], &input);
        assert_eq!(said.code, 0, "{}", said.everything());
        assert!(said.stderr.contains("vault key"), "the owner is told: {}", said.stderr);
        assert_eq!(answer(&said.stdout, 1)["result"]["tools"].as_array().unwrap().len(), 33);
        let found = |id: u64| answer(&said.stdout, id)["result"].clone();
        for (id, endpoint) in
            [(2, "/cycle"), (3, "/user/profile/basic"), (4, "/sync"), (7, "export_whoop")]
        {
            assert_eq!(found(id)["isError"], false, "{}", found(id));
            let error = found(id)["structuredContent"]["error"].clone();
            assert_eq!(
                (&error["code"], &error["endpoint"]),
                (&json!("AUTH_FAILED"), &json!(endpoint))
            );
            let words = error["message"].as_str().unwrap();
            assert!(words.contains("vault key") && words.contains("backup"), "{words}");
        }
        assert_eq!(found(5)["structuredContent"]["status"], "no_tokens");
        let health = found(6)["structuredContent"].clone();
        assert_eq!(
            (&health["status"], &health["checks"]["auth"]["status"]),
            (&json!("unhealthy"), &json!("fail"))
        );
        assert!(
            health["checks"]["auth"]["detail"].as_str().unwrap().contains("vault key"),
            "{health}"
        );
        assert_eq!(health["checks"].as_object().unwrap().len(), 6, "{health}");
        assert_eq!(found(8)["isError"], true);
        assert!(found(8).to_string().contains("AUTH_FAILED"), "{}", found(8));
        assert!(kept(&stage) == before, "something was overwritten");
        assert_eq!(asked(), asked_before, "nothing left for WHOOP");
        assert_eq!(stage.run(&["sync", "whoop"]).code, 2, "a command stops instead");
        let said = stage.run(&["stdio", "whoop", "--grant", "alice"]);
        assert_eq!(said.code, 2, "{}", said.everything());
        assert!(said.stderr.contains("the vault key"), "{}", said.stderr);
    }
    fs::write(&key, right).unwrap();
    let rows = stage.fine(&["audit", "search", "--tool", "sync_whoop", "--json"]).stdout;
    assert_eq!(rows.lines().filter(|row| row.contains("\"tools/call\"")).count(), 4, "{rows}");
    stage.fine(&["audit", "verify"]);
    let input = lines(&[call(1, "list_whoop_cycles", &json!({ "limit": 1 }))]);
    let said = stage.speak(&["stdio", "whoop"], &input);
    assert!(answer(&said.stdout, 1).to_string().contains("\"records\""), "{}", said.stdout);
}

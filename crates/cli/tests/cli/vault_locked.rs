//! A home whose vault key is damaged, missing or wrong: the WHOOP server still starts and reports it.

use std::fs;

use serde_json::json;

use crate::cli_test::CliTest;
use crate::http;
use crate::whoop::{answer, call, connected, lines, request};

/// The owner's files: the key, the login and the records. The gate still writes `gate.db` and the audit log.
fn kept(test: &CliTest) -> Vec<Option<Vec<u8>>> {
    let files = ["vault.key", "accounts/whoop.json", "data.db"];
    files.iter().map(|name| fs::read(test.home().join(name)).ok()).collect()
}

#[test]
fn whoop_starts_without_the_right_key_and_reports_it_to_every_call() {
    let (test, sandbox) = connected("5");
    test.succeed(&["sync", "whoop"]);
    let key = test.home().join("vault.key");
    let right = fs::read(&key).unwrap();
    let another = format!("{}\n", "ab".repeat(32));
    let asked =
        || http::get(&format!("{}/counters", sandbox.word("control"))).json()["requests"].clone();
    for text in [Some("tgvk1_damaged"), Some(""), Some(another.as_str()), None] {
        match text {
            Some(text) => fs::write(&key, text).unwrap(),
            None => fs::remove_file(&key).unwrap(),
        }
        let (before, asked_before) = (kept(&test), asked());
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
        let output = test.run_session(&["stdio", "whoop", "--tools", "main,classic"], &input);
        assert_eq!(output.code, 0, "{}", output.all_output());
        assert!(output.stderr.contains("vault key"), "the owner is told: {}", output.stderr);
        assert_eq!(answer(&output.stdout, 1)["result"]["tools"].as_array().unwrap().len(), 45);
        let found = |id: u64| answer(&output.stdout, id)["result"].clone();
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
        assert!(kept(&test) == before, "something was overwritten");
        assert_eq!(asked(), asked_before, "nothing was sent to WHOOP");
        assert_eq!(test.run(&["sync", "whoop"]).code, 2, "a command stops instead");
        let output = test.run(&["stdio", "whoop", "--grant", "alice"]);
        assert_eq!(output.code, 2, "{}", output.all_output());
        assert!(output.stderr.contains("the vault key"), "{}", output.stderr);
    }
    fs::write(&key, right).unwrap();
    let rows = test.succeed(&["audit", "search", "--tool", "sync_whoop", "--json"]).stdout;
    assert_eq!(rows.lines().filter(|row| row.contains("\"tools/call\"")).count(), 4, "{rows}");
    test.succeed(&["audit", "verify"]);
    let input = lines(&[call(1, "list_whoop_cycles", &json!({ "limit": 1 }))]);
    let output = test.run_session(&["stdio", "whoop"], &input);
    assert!(answer(&output.stdout, 1).to_string().contains("\"records\""), "{}", output.stdout);
}

//! Clients that are known by a metadata document, with a network and names of their own: what is fetched, from where,
//! and what is refused.
#![allow(clippy::print_stdout, reason = "says that a test was not tried")]

use std::process::Command;

use serde_json::Value;

use crate::cli_test::CliTest;
use crate::public_address::certificate_for;

const NAMES: [&str; 6] = [
    "client.example",
    "moved.example",
    "loopback.example",
    "private.example",
    "metadata.example",
    "mixed.example",
];

/// What the script found, unless this user cannot make a network of its own.
fn tried(test: &mut CliTest) -> Option<Value> {
    let (certificate, key) = certificate_for(test, &NAMES);
    let mut check = Command::new("unshare");
    check.args(["--net", "--mount", "sh", "-c", "command -v ip && command -v mount"]);
    let can_make_networks = check.output().is_ok_and(|output| output.status.success());
    if !can_make_networks {
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/client_documents.py");
    // The command brings the environment of the test's own home.
    let environment = test.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "python3", script, env!("CARGO_BIN_EXE_tollgate")]);
    command.args([certificate, key]).env_clear();
    for (name, value) in environment.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}")))
}

#[test]
fn a_client_document_is_fetched_from_public_addresses_only_and_never_elsewhere() {
    let mut test = CliTest::with_demo();
    let Some(found) = tried(&mut test) else {
        println!("not tried, because this user cannot make a network of its own");
        return;
    };
    let signed_in = found["signed_in"].as_object().unwrap();
    assert_eq!(signed_in.len(), 4);
    for (client, one) in signed_in {
        assert_eq!(one["status"], 200, "{client}: {one}");
        assert!(one["tokens"]["refresh_token"].is_string(), "{client}");
        let page = one["page"].as_str().unwrap();
        let is_copy = client.starts_with("https://claude.ai/");
        assert_eq!(page.contains("in the copy that tollgate has"), is_copy, "{page}");
        assert_eq!(page.contains("Far client"), !is_copy, "{page}");
    }
    // One request for each, although each consent reads the document twice; none inward.
    assert_eq!(found["fetched"], serde_json::json!({ "11.0.0.1": 3 }));

    let rows = test.succeed(&["audit", "search", "--json"]).stdout;
    let refused = found["refused"].as_object().unwrap();
    for (client, words) in [
        ("https://loopback.example/client.json", "private address"),
        ("https://private.example/client.json", "private address"),
        ("https://metadata.example/latest/meta-data", "private address"),
        ("https://moved.example/outward", "status 302"),
        ("https://moved.example/inward", "status 302"),
        ("https://client.example/liar.json", "does not name its own address"),
        ("https://client.example/large.json", ""),
        ("https://client.example/secret.json", "cannot hold a secret"),
        ("https://unknown.example/client.json", ""),
    ] {
        let one = &refused[client];
        assert_eq!((&one["status"], &one["location"]), (&400.into(), &Value::Null), "{client}");
        assert!(one["page"].as_str().unwrap().contains(words), "{client}: {one}");
        assert!(rows.contains(words), "{client}: {rows}");
    }
    let count = rows.matches("the document of this application cannot be used").count();
    assert_eq!(count, refused.len(), "each is a row: {rows}");
    for inward in ["127.0.0.1", "10.0.0.9", "169.254.169.254"] {
        assert!(found["requests"][inward].is_null(), "the gate connected to {inward}: {found}");
    }
}

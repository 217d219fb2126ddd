//! A built-in server on a full disk starts, answers the handshake, and reports the error in every response.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cli_test::{CliTest, CommandOutput};

/// A small disk, if this user may mount one.
struct Disk(PathBuf);

impl Disk {
    fn mounted(at: &Path) -> Option<Disk> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs"]).arg(at);
        mount.status().is_ok_and(|status| status.success()).then(|| Disk(at.to_owned()))
    }

    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("fill")).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 512]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

fn message(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n"
}

fn answer(output: &CommandOutput, id: u64) -> Value {
    let answers = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    { answers }
        .find(|answer| answer["id"] == id)
        .unwrap_or_else(|| panic!("{}", output.all_output()))
}

fn older() -> String {
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    message(0, "initialize", &hello)
        + &message(1, "tools/list", &json!({}))
        + &message(2, "tools/call", &json!({ "name": "health_check", "arguments": {} }))
        + &message(3, "resources/read", &json!({ "uri": "whoop://profile" }))
}

fn newer() -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({ "name": "health_check", "arguments": {}, "_meta": meta });
    message(0, "server/discover", &json!({ "_meta": meta }))
        + &message(1, "tools/list", &json!({ "_meta": meta }))
        + &message(2, "tools/call", &call)
        + &message(3, "resources/read", &json!({ "uri": "whoop://profile", "_meta": meta }))
}

#[test]
fn a_built_in_server_starts_on_a_full_disk_and_reports_it() {
    let mut test = CliTest::new();
    let at = test.path("disk");
    let Some(disk) = Disk::mounted(&at) else { return };
    test.set("TOLLGATE_HOME", at.join("home").to_str().unwrap());
    for made_before in [false, true] {
        if made_before {
            disk.free();
            test.succeed(&["server", "list"]);
        }
        disk.fill();
        for (input, member) in [(older(), "protocolVersion"), (newer(), "supportedVersions")] {
            let output = test.run_session(&["stdio", "whoop"], &input);
            assert_eq!(output.code, 0, "{}", output.all_output());
            let hello = answer(&output, 0);
            assert!(hello["result"][member].is_string() || hello["result"][member].is_array());
            assert!(hello.to_string().contains("the disk is full"), "{hello}");
            assert!(hello.to_string().contains("restart this server. tollgate"), "{hello}");
            let tools = answer(&output, 1)["result"]["tools"].as_array().unwrap().len();
            assert!(tools > 5, "{tools} tools");
            let called = answer(&output, 2);
            assert_eq!(called["result"]["isError"], true, "{called}");
            for id in [2, 3] {
                let words = answer(&output, id).to_string();
                assert!(words.contains("the disk is full"), "{words}");
            }
        }
    }
    disk.free();
    let output = test.run_session(&["stdio", "whoop"], &older());
    assert!(!output.stdout.contains("the disk is full"), "{}", output.all_output());
}

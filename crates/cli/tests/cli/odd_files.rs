//! Files of an odd kind: pipes and devices where a policy, a token, a header or the settings are due hang
//! nothing, a file that anybody may change is warned of, and a link to a secret is not quoted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::http;
use crate::stage::Stage;

const POLICY: &str = r#"{ "version": "1", "default": "allow" }"#;

fn pipe(path: &Path) -> String {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    path.display().to_string()
}

#[test]
fn no_command_waits_for_a_pipe_or_reads_a_device() {
    let stage = Stage::with_demo();
    let pipe = pipe(&stage.path("pipe"));
    let folder = stage.path("").display().to_string();
    for odd in [&*pipe, "/dev/zero", "/dev/tty", &folder] {
        let header = format!("X-Key=@{odd}");
        let commands: [&[&str]; 8] = [
            &["policy", "check", odd],
            &["policy", "test", odd],
            &["policy", "set", "odd", odd],
            &[
                "server",
                "add",
                "s",
                "--no-connect",
                "--url",
                "http://127.0.0.1:9",
                "--header",
                &header,
            ],
            &["--config", odd, "server", "list"],
            &["--config", odd, "up", "--listen", "127.0.0.1:0"],
            &["audit", "verify", "--checkpoint", odd],
            &["scan", odd],
        ];
        for command in commands {
            let said = stage.run(command);
            assert_eq!(said.code, 2, "{command:?}: {}", said.everything());
        }
    }
    let settings = format!("[policies.p]\nfile = \"{pipe}\"\n");
    let config = stage.write("odd.toml", &settings);
    let said = stage.run(&["--config", &config, "server", "list"]);
    assert_eq!(said.code, 2, "{}", said.everything());
    assert!(said.stderr.contains("it is a pipe, not a file"), "{}", said.stderr);
}

#[test]
fn a_running_gate_serves_and_stops_while_its_files_are_pipes() {
    let stage = Stage::with_demo();
    let token = stage.grant("alice");
    let policy = stage.path("rules.json");
    fs::write(&policy, POLICY).unwrap();
    let settings = stage.home().join("tollgate.toml");
    fs::write(&settings, format!("[policies.rules]\nfile = \"{}\"\n", policy.display())).unwrap();
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    for path in [&policy, &settings] {
        fs::remove_file(path).unwrap();
        pipe(path);
        // Longer than the gate takes to notice.
        std::thread::sleep(std::time::Duration::from_millis(600));
        let answer = http::call(&url, &token, "list_notes", &json!({}));
        assert!(answer.body.contains("\"result\""), "{}", answer.body);
    }
    let said = up.stop();
    assert_eq!(said.code, 0, "{}", said.everything());
    assert!(said.stderr.contains("it is a pipe, not a file"), "{}", said.stderr);
}

#[test]
fn a_file_that_anybody_may_change_is_warned_of() {
    let stage = Stage::with_demo();
    let policy = stage.write("rules.json", POLICY);
    let settings = stage.home().join("tollgate.toml");
    fs::write(&settings, format!("[policies.rules]\nfile = \"{policy}\"\n")).unwrap();
    let warned = |text: &str| text.contains("anyone on this machine may change");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(Path::new(&policy), 0o644);
    assert!(!warned(&stage.fine(&["policy", "check", &policy]).stderr));
    assert!(!warned(&stage.run(&["doctor"]).stdout));
    mode(Path::new(&policy), 0o666);
    assert!(warned(&stage.fine(&["policy", "check", &policy]).stderr));
    assert!(warned(&stage.run(&["doctor"]).stdout));
    let said = stage.up(&[]).stop();
    assert!(warned(&said.stderr) && said.stderr.contains("rules.json"), "{}", said.stderr);
}

#[test]
fn a_link_to_a_secret_is_not_quoted() {
    let stage = Stage::new();
    let secrets = [
        "root:$6$SECRET:19000:0:99999:7:::\n",
        "API_KEY=SECRET\n",
        "{\"private_key\":\"SECRET\",\"SECRET\":[\"SECRET\"]}",
        "token: SECRET\nSECRET: 1\n",
        "tgvk1_SECRET",
    ];
    for (number, secret) in secrets.iter().enumerate() {
        let file = stage.write(&format!("secret{number}"), secret);
        for ending in ["json", "yaml"] {
            let link = stage.path(&format!("link{number}.{ending}"));
            std::os::unix::fs::symlink(&file, &link).unwrap();
            let link = link.display().to_string();
            for command in [
                &["policy", "check", &link][..],
                &["policy", "check", &link, "--json"],
                &["policy", "set", "p", &link],
                &["policy", "test", &link],
            ] {
                let said = stage.run(command);
                assert_ne!(said.code, 0, "{command:?}: {}", said.everything());
                assert!(
                    !said.everything().contains("SECRET"),
                    "{command:?}: {}",
                    said.everything()
                );
            }
        }
    }
    // What is wrong with a policy is shown.
    let policy = stage.write("p.json", r#"{ "version": "1", "default": "dney" }"#);
    assert!(stage.run(&["policy", "check", &policy]).stderr.contains("dney"));
}

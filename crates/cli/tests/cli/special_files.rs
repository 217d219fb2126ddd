//! Special files: pipes and devices instead of a policy, a token, a header or the settings block no command, a
//! world-writable file gives a warning, and a link to a secret is not quoted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::cli_test::CliTest;
use crate::http;

const POLICY: &str = r#"{ "version": "1", "default": "allow" }"#;

fn pipe(path: &Path) -> String {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    path.display().to_string()
}

#[test]
fn no_command_waits_for_a_pipe_or_reads_a_device() {
    let test = CliTest::with_demo();
    let pipe = pipe(&test.path("pipe"));
    let folder = test.path("").display().to_string();
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
            let output = test.run(command);
            assert_eq!(output.code, 2, "{command:?}: {}", output.all_output());
        }
    }
    for command in [
        &["catalog", "import", &*pipe][..],
        &["import", "whoop", &pipe],
        &["import", "spotify", &pipe],
        &["import", "youtube", &pipe],
        &["import", "reddit", &pipe],
    ] {
        let output = test.run(command);
        assert_eq!(output.code, 2, "{command:?}: {}", output.all_output());
        assert!(output.stderr.contains("it is a pipe, not a file"), "{}", output.stderr);
    }
    let settings = format!("[policies.p]\nfile = \"{pipe}\"\n");
    let config = test.write("odd.toml", &settings);
    let output = test.run(&["--config", &config, "server", "list"]);
    assert_eq!(output.code, 2, "{}", output.all_output());
    assert!(output.stderr.contains("it is a pipe, not a file"), "{}", output.stderr);
}

#[test]
fn no_command_waits_for_a_pipe_in_the_home() {
    let test = CliTest::with_demo();
    test.succeed(&["audit", "verify"]);
    for name in ["gate.db", "data.db", "audit/00000001.log", "audit/clock", "audit/synced"] {
        let path = test.home().join(name);
        let kept = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        pipe(&path);
        for command in [&["audit", "verify"][..], &["status"], &["server", "list"], &["accounts"]] {
            let output = test.run(command);
            assert_ne!(output.code, 0, "{name} {command:?}: {}", output.all_output());
        }
        assert_eq!(test.run(&["doctor"]).code, 1, "{name}");
        fs::remove_file(&path).unwrap();
        if let Some(kept) = kept {
            fs::write(&path, kept).unwrap();
        }
    }
    test.succeed(&["audit", "verify"]);
}

#[test]
fn a_running_gate_serves_and_stops_while_its_files_are_pipes() {
    let test = CliTest::with_demo();
    let token = test.grant("alice");
    let policy = test.path("rules.json");
    fs::write(&policy, POLICY).unwrap();
    let settings = test.home().join("tollgate.toml");
    fs::write(&settings, format!("[policies.rules]\nfile = \"{}\"\n", policy.display())).unwrap();
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    for path in [&policy, &settings] {
        fs::remove_file(path).unwrap();
        pipe(path);
        // Longer than the gate's polling interval.
        std::thread::sleep(std::time::Duration::from_millis(600));
        let answer = http::call(&url, &token, "list_notes", &json!({}));
        assert!(answer.body.contains("\"result\""), "{}", answer.body);
    }
    let output = up.stop();
    assert_eq!(output.code, 0, "{}", output.all_output());
    assert!(output.stderr.contains("it is a pipe, not a file"), "{}", output.stderr);
}

#[test]
fn a_world_writable_file_gives_a_warning() {
    let test = CliTest::with_demo();
    let policy = test.write("rules.json", POLICY);
    let settings = test.home().join("tollgate.toml");
    fs::write(&settings, format!("[policies.rules]\nfile = \"{policy}\"\n")).unwrap();
    let warned = |text: &str| text.contains("anyone on this machine can change");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(Path::new(&policy), 0o644);
    assert!(!warned(&test.succeed(&["policy", "check", &policy]).stderr));
    assert!(!warned(&test.run(&["doctor"]).stdout));
    mode(Path::new(&policy), 0o666);
    assert!(warned(&test.succeed(&["policy", "check", &policy]).stderr));
    assert!(warned(&test.run(&["doctor"]).stdout));
    let output = test.up(&[]).stop();
    assert!(warned(&output.stderr) && output.stderr.contains("rules.json"), "{}", output.stderr);
    // Whoever can write the folder can replace the file, unless the folder is sticky.
    let folder = test.path("open");
    fs::create_dir(&folder).unwrap();
    let inside = folder.join("rules.json").display().to_string();
    fs::copy(&policy, &inside).unwrap();
    mode(Path::new(&inside), 0o644);
    for (folder_mode, is_open) in [(0o755, false), (0o777, true), (0o1777, false)] {
        mode(&folder, folder_mode);
        let said = test.succeed(&["policy", "check", &inside]).stderr;
        assert_eq!(warned(&said), is_open, "{folder_mode:o}: {said}");
    }
}

#[test]
fn a_link_to_a_secret_is_not_quoted() {
    let test = CliTest::new();
    let secrets = [
        "root:$6$SECRET:19000:0:99999:7:::\n",
        "API_KEY=SECRET\n",
        "{\"private_key\":\"SECRET\",\"SECRET\":[\"SECRET\"]}",
        "token: SECRET\nSECRET: 1\n",
        "tgvk1_SECRET",
    ];
    for (number, secret) in secrets.iter().enumerate() {
        let file = test.write(&format!("secret{number}"), secret);
        for ending in ["json", "yaml"] {
            let link = test.path(&format!("link{number}.{ending}"));
            std::os::unix::fs::symlink(&file, &link).unwrap();
            let link = link.display().to_string();
            for command in [
                &["policy", "check", &link][..],
                &["policy", "check", &link, "--json"],
                &["policy", "set", "p", &link],
                &["policy", "test", &link],
            ] {
                let output = test.run(command);
                assert_ne!(output.code, 0, "{command:?}: {}", output.all_output());
                assert!(
                    !output.all_output().contains("SECRET"),
                    "{command:?}: {}",
                    output.all_output()
                );
            }
        }
    }
    // The problems of a policy are shown.
    let policy = test.write("p.json", r#"{ "version": "1", "default": "dney" }"#);
    assert!(test.run(&["policy", "check", &policy]).stderr.contains("dney"));
}

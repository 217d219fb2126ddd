//! Which program a server runs, whose PATH finds it, and the service that starts the gate.

use std::fs;

use crate::cli_test::{CliTest, set_bits};
use crate::servers::{SHELL_SERVER, TOOLS};

/// A program in a separate folder.
fn program(test: &CliTest, folder: &str, name: &str, text: &str) -> String {
    fs::create_dir_all(test.path(folder)).unwrap();
    let path = test.write(&format!("{folder}/{name}"), text);
    set_bits(path.as_ref(), 0o755);
    path
}

/// The PATH of the tests with one more folder in front.
fn path_with(test: &CliTest, folder: &str) -> String {
    format!("{}:{}", test.path(folder).display(), std::env::var("PATH").unwrap())
}

#[test]
fn a_server_is_stored_with_the_full_path_of_its_program() {
    let mut test = CliTest::new();
    let tools = test.write("tools.json", TOOLS);
    // Its interpreter is in the same folder, like that of `npx`, and is found by name.
    let server = program(
        &test,
        "own/bin",
        "book-mcp",
        "#!/usr/bin/env own-sh\nexec own-sh \"$0.sh\" \"$1\"\n",
    );
    test.write("own/bin/book-mcp.sh", SHELL_SERVER);
    program(&test, "own/bin", "own-sh", "#!/bin/sh\nexec sh \"$@\"\n");
    let plain = std::env::var("PATH").unwrap();
    let rich = path_with(&test, "own/bin");
    test.set("PATH", &rich);
    let output = test.succeed(&["server", "add", "book", "--", "book-mcp", &tools]);
    assert!(
        output.stderr.contains(&format!("the gate runs `{server}`, which is `book-mcp` here")),
        "{}",
        output.stderr
    );
    let listed = test.succeed(&["server", "list", "--json"]).json();
    assert_eq!(listed[0]["target"], format!("{server} {tools}"));
    // A gate without that folder in its PATH starts it, too.
    test.set("PATH", &plain);
    test.succeed(&["server", "pins", "book", "--look"]);
    let doctor = test.run(&["doctor", "--thorough", "--json"]).json();
    let words: Vec<&str> =
        doctor.as_array().unwrap().iter().filter_map(|f| f["words"].as_str()).collect();
    assert!(words.contains(&"`book` answers with 2 tools"), "{words:?}");
}

#[test]
fn a_relative_program_is_stored_by_its_full_path() {
    let test = CliTest::new();
    let tools = test.write("tools.json", TOOLS);
    let server = program(&test, "here", "server", &format!("#!/bin/sh\n{SHELL_SERVER}"));
    test.succeed(&["server", "add", "book", "--", "./here/server", &tools]);
    let listed = test.succeed(&["server", "list", "--json"]).json();
    let target = listed[0]["target"].as_str().unwrap();
    assert!(target.ends_with(&format!(" {tools}")) && target.starts_with('/'), "{target}");
    assert_eq!(
        fs::canonicalize(target.split(' ').next().unwrap()).unwrap(),
        fs::canonicalize(server).unwrap()
    );
}

#[test]
fn doctor_looks_for_a_program_on_the_path_of_the_running_gate() {
    let mut test = CliTest::with_demo();
    let tools = test.write("tools.json", TOOLS);
    program(&test, "own/bin", "only-here", &format!("#!/bin/sh\n{SHELL_SERVER}"));
    // As an older version stored it, or as the settings file may name it: without its folder.
    let settings = format!("[servers.tool]\ncommand = [\"only-here\", {tools:?}]\n");
    test.write("home/tollgate.toml", &settings);
    let up = test.up(&[]);
    let rich = path_with(&test, "own/bin");
    test.set("PATH", &rich);
    let tool = |test: &CliTest| -> serde_json::Value {
        let findings = test.run(&["doctor", "--json"]).json();
        let findings = findings.as_array().unwrap().clone();
        findings.into_iter().find(|f| f["words"].as_str().unwrap().starts_with("`tool`")).unwrap()
    };
    let found = tool(&test);
    assert_eq!(found["words"], "`tool`: `only-here` is not on the running gate's PATH", "{found}");
    up.stop();
    let found = tool(&test);
    assert_eq!(found["health"], "good", "without a gate the shell's own PATH counts: {found}");
}

#[test]
fn a_program_that_is_not_on_the_gates_path_is_reported() {
    let test = CliTest::new();
    test.write("home-settings.toml", "[servers.tool]\ncommand = [\"only-elsewhere\"]\n");
    let config = test.path("home-settings.toml").display().to_string();
    let output = test.run(&["--config", &config, "server", "pins", "tool", "--look"]);
    assert_eq!(output.code, 2);
    assert!(
        output.stderr.contains("`only-elsewhere` is not on the gate's PATH; give the full path"),
        "{}",
        output.stderr
    );
}

/// Imitates `systemctl` and records its arguments.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$@" >> "$HOME/asked"
case "$*" in
  *is-active*) echo active ;;
  *is-enabled*) echo enabled ;;
esac
"#;

#[test]
fn the_service_is_installed_with_this_path_and_removed() {
    let mut test = CliTest::new();
    program(&test, "own/bin", "systemctl", SYSTEMCTL);
    let rich = path_with(&test, "own/bin");
    test.set("PATH", &rich);
    let status = test.run(&["service", "status"]);
    assert_eq!((status.code, status.stdout.contains("no service is installed")), (1, true));
    let output = test.succeed(&["service", "install"]);
    let unit = test.path(".config/systemd/user/tollgate.service");
    assert!(output.stdout.contains(unit.to_str().unwrap()), "{}", output.stdout);
    let text = fs::read_to_string(&unit).unwrap();
    for line in [
        format!("Environment=\"PATH={rich}\"\n"),
        format!("Environment=\"TOLLGATE_HOME={}\"\n", test.home().display()),
        format!("ExecStart=\"{}\" up\n", env!("CARGO_BIN_EXE_tollgate")),
        "NoNewPrivileges=yes\n".to_owned(),
        "WantedBy=default.target\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    assert_eq!(test.succeed(&["service", "file"]).stdout, text);
    test.succeed(&["service", "install"]);
    let status = test.succeed(&["service", "status", "--json"]).json();
    assert_eq!((&status["active"], &status["path"]), (&"active".into(), &rich.as_str().into()));
    test.succeed(&["service", "remove"]);
    assert!(!unit.exists());
    let asked = fs::read_to_string(test.path("asked")).unwrap();
    for words in [
        "--user daemon-reload\n--user enable --now tollgate.service\n",
        "--user disable --now tollgate.service\n--user daemon-reload\n",
    ] {
        assert!(asked.contains(words), "{asked}");
    }
    assert_eq!(test.run(&["service", "remove"]).code, 2);
    let audit = test.succeed(&["audit", "tail"]).stdout;
    assert!(audit.contains("service_installed") && audit.contains("service_removed"), "{audit}");
}

/// Imitates `launchctl` and the commands of Windows: remembers what is loaded, and prints its state.
const MANAGER: &str = r#"#!/bin/sh
echo "$(basename "$0") $*" >> "$HOME/asked"
case "$(basename "$0") $*" in
  "launchctl bootout"*) test -e "$HOME/loaded" || { echo "Boot-out failed: 3: No such process" >&2; exit 3; }
    rm "$HOME/loaded" ;;
  "launchctl bootstrap"*|"schtasks /Create"*) touch "$HOME/loaded" ;;
  "schtasks /Delete"*) rm "$HOME/loaded" ;;
  "launchctl print"*) test -e "$HOME/loaded" && printf 'gui/0/tollgate = {\n\tstate = running\n}\n' ;;
  "powershell"*) test -e "$HOME/loaded" && printf 'Running\r\n' ;;
esac
"#;

/// The managers of other systems, with imitations of their programs: install twice, status, remove.
#[test]
fn launchd_and_the_task_scheduler_are_told_to_load_and_unload_the_gate() {
    for (manager, file, asked) in [
        (
            "launchd",
            "Library/LaunchAgents/tollgate.plist",
            "launchctl bootout gui/UID/tollgate\nlaunchctl bootstrap gui/UID FILE\n\
             launchctl bootout gui/UID/tollgate\nlaunchctl bootstrap gui/UID FILE\n\
             launchctl print gui/UID/tollgate\nlaunchctl bootout gui/UID/tollgate\n",
        ),
        (
            "scheduler",
            "AppData/Local/tollgate-service/task.xml",
            "schtasks /Create /F /TN tollgate /XML FILE\nschtasks /Run /TN tollgate\n\
             schtasks /Create /F /TN tollgate /XML FILE\nschtasks /Run /TN tollgate\n\
             powershell -NoProfile -NonInteractive -Command (Get-ScheduledTask -TaskName 'tollgate').State\n\
             schtasks /End /TN tollgate\nschtasks /Delete /F /TN tollgate\n",
        ),
    ] {
        let mut test = CliTest::new();
        for name in ["launchctl", "schtasks", "powershell"] {
            program(&test, "own/bin", name, MANAGER);
        }
        test.set("PATH", &path_with(&test, "own/bin"));
        test.set("LOCALAPPDATA", &test.path("AppData/Local").display().to_string());
        let file = test.path(file).display().to_string();
        let run = |command: &str| test.run(&["service", command, "--manager", manager]);
        for _ in 0..2 {
            let installed = run("install");
            assert_eq!(installed.code, 0, "{}", installed.all_output());
            assert!(installed.stdout.contains(&file), "{}", installed.stdout);
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), run("file").stdout);
        let status = run("status");
        assert_eq!(
            (status.code, status.stdout.contains("unning\n")),
            (0, true),
            "{}",
            status.stdout
        );
        assert_eq!(run("remove").code, 0);
        assert!(!std::path::Path::new(&file).exists());
        assert_eq!(run("status").code, 1);
        let user = platform::private::this_user().unwrap().to_string();
        let expected = asked.replace("UID", &user).replace("FILE", &file);
        assert_eq!(fs::read_to_string(test.path("asked")).unwrap(), expected);
    }
}

/// Readers that are not ours, as far as this machine has them.
#[test]
fn definitions_for_other_systems_are_read_by_others() {
    let mut test = CliTest::new();
    test.set("PATH", &format!("{}:/a & <b>/ü", std::env::var("PATH").unwrap()));
    let home = test.path("home of Jürgen & Co").display().to_string();
    let file = |manager: &str| {
        test.succeed(&["--home", &home, "service", "file", "--manager", manager]).stdout
    };
    test.write("a.plist", &file("launchd"));
    test.write("task.xml", &file("scheduler"));
    let read = "import json, plistlib, xml.etree.ElementTree as tree\n\
                agent = plistlib.load(open('a.plist', 'rb'))\n\
                task = {e.tag.split('}')[-1]: e.text for e in tree.parse('task.xml').iter()}\n\
                print(json.dumps([agent, task]))";
    let mut python = std::process::Command::new("python3");
    let said = python.args(["-c", read]).current_dir(test.path("")).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let program = env!("CARGO_BIN_EXE_tollgate");
    assert_eq!(said[0]["ProgramArguments"], serde_json::json!([program, "up"]));
    assert_eq!(said[0]["EnvironmentVariables"]["TOLLGATE_HOME"], home.as_str());
    let path = said[0]["EnvironmentVariables"]["PATH"].as_str().unwrap();
    assert!(path.ends_with(":/a & <b>/ü"), "{path}");
    assert_eq!(said[1]["Command"], program);
    assert_eq!(said[1]["Arguments"], format!("--home \"{home}\" up"));
}

#[test]
fn without_a_user_manager_the_unit_is_written_and_the_commands_are_named() {
    let mut test = CliTest::new();
    test.set("PATH", &test.path("empty").display().to_string());
    let output = test.run(&["service", "install"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(test.path(".config/systemd/user/tollgate.service").exists());
    assert!(
        output.stderr.contains("`systemctl --user enable --now tollgate.service`"),
        "{}",
        output.stderr
    );
    test.succeed(&["service", "remove"]);
    assert!(!test.path(".config/systemd/user/tollgate.service").exists());
}

#[test]
fn a_unit_not_written_by_tollgate_is_not_changed() {
    let test = CliTest::new();
    fs::create_dir_all(test.path(".config/systemd/user")).unwrap();
    test.write(".config/systemd/user/tollgate.service", "[Service]\nExecStart=/bin/true\n");
    for command in [["service", "install"], ["service", "remove"]] {
        let output = test.run(&command);
        assert_eq!(output.code, 2);
        assert!(output.stderr.contains("was not written by tollgate"), "{}", output.stderr);
    }
}

//! Which program a server runs, whose PATH finds it, and the service that starts the gate.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::servers::{SHELL_SERVER, TOOLS};
use crate::stage::Stage;

/// A program in a folder of its own.
fn program(stage: &Stage, folder: &str, name: &str, text: &str) -> String {
    fs::create_dir_all(stage.path(folder)).unwrap();
    let path = stage.write(&format!("{folder}/{name}"), text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The PATH of the tests with one folder in front of it.
fn path_with(stage: &Stage, folder: &str) -> String {
    format!("{}:{}", stage.path(folder).display(), std::env::var("PATH").unwrap())
}

#[test]
fn a_server_is_kept_with_the_full_path_of_its_program() {
    let mut stage = Stage::new();
    let tools = stage.write("tools.json", TOOLS);
    // Its interpreter lies beside it, as that of `npx` does, and is found by name.
    let server = program(
        &stage,
        "own/bin",
        "book-mcp",
        "#!/usr/bin/env own-sh\nexec own-sh \"$0.sh\" \"$1\"\n",
    );
    stage.write("own/bin/book-mcp.sh", SHELL_SERVER);
    program(&stage, "own/bin", "own-sh", "#!/bin/sh\nexec sh \"$@\"\n");
    let plain = std::env::var("PATH").unwrap();
    let rich = path_with(&stage, "own/bin");
    stage.set("PATH", &rich);
    let said = stage.fine(&["server", "add", "book", "--", "book-mcp", &tools]);
    assert!(
        said.stderr.contains(&format!("the gate runs `{server}`, which is `book-mcp` here")),
        "{}",
        said.stderr
    );
    let listed = stage.fine(&["server", "list", "--json"]).json();
    assert_eq!(listed[0]["target"], format!("{server} {tools}"));
    // A gate whose PATH knows nothing of that folder starts it all the same.
    stage.set("PATH", &plain);
    stage.fine(&["server", "pins", "book", "--look"]);
    let doctor = stage.run(&["doctor", "--thorough", "--json"]).json();
    let words: Vec<&str> =
        doctor.as_array().unwrap().iter().filter_map(|f| f["words"].as_str()).collect();
    assert!(words.contains(&"`book` answers with 2 tools"), "{words:?}");
}

#[test]
fn a_relative_program_is_kept_by_its_full_path() {
    let stage = Stage::new();
    let tools = stage.write("tools.json", TOOLS);
    let server = program(&stage, "here", "server", &format!("#!/bin/sh\n{SHELL_SERVER}"));
    stage.fine(&["server", "add", "book", "--", "./here/server", &tools]);
    let listed = stage.fine(&["server", "list", "--json"]).json();
    let target = listed[0]["target"].as_str().unwrap();
    assert!(target.ends_with(&format!(" {tools}")) && target.starts_with('/'), "{target}");
    assert_eq!(
        fs::canonicalize(target.split(' ').next().unwrap()).unwrap(),
        fs::canonicalize(server).unwrap()
    );
}

#[test]
fn doctor_looks_for_a_program_on_the_path_of_the_running_gate() {
    let mut stage = Stage::with_demo();
    program(&stage, "own/bin", "only-here", "#!/bin/sh\ncat\n");
    // As an older version kept it, or as the settings file may name it: without its folder.
    stage.write("home/tollgate.toml", "[servers.tool]\ncommand = [\"only-here\"]\n");
    let up = stage.up(&[]);
    let rich = path_with(&stage, "own/bin");
    stage.set("PATH", &rich);
    let tool = |stage: &Stage| -> serde_json::Value {
        let findings = stage.run(&["doctor", "--json"]).json();
        let findings = findings.as_array().unwrap().clone();
        findings.into_iter().find(|f| f["words"].as_str().unwrap().starts_with("`tool`")).unwrap()
    };
    let found = tool(&stage);
    assert_eq!(found["words"], "`tool`: `only-here` is not on the running gate's PATH", "{found}");
    up.stop();
    assert_eq!(tool(&stage)["health"], "good", "without a gate the shell's own PATH counts");
}

#[test]
fn a_program_that_the_gate_does_not_find_is_said_to_be_off_its_path() {
    let stage = Stage::new();
    stage.write("home-settings.toml", "[servers.tool]\ncommand = [\"only-elsewhere\"]\n");
    let config = stage.path("home-settings.toml").display().to_string();
    let said = stage.run(&["--config", &config, "server", "pins", "tool", "--look"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("`only-elsewhere` is not on the gate's PATH; give the full path"),
        "{}",
        said.stderr
    );
}

/// A manager that notes what it is asked and answers as one would.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$@" >> "$HOME/asked"
case "$*" in
  *is-active*) echo active ;;
  *is-enabled*) echo enabled ;;
esac
"#;

#[test]
fn the_service_is_installed_with_this_path_and_taken_away_again() {
    let mut stage = Stage::new();
    program(&stage, "own/bin", "systemctl", SYSTEMCTL);
    let rich = path_with(&stage, "own/bin");
    stage.set("PATH", &rich);
    let status = stage.run(&["service", "status"]);
    assert_eq!((status.code, status.stdout.contains("no service is installed")), (1, true));
    let said = stage.fine(&["service", "install"]);
    let unit = stage.path(".config/systemd/user/tollgate.service");
    assert!(said.stdout.contains(unit.to_str().unwrap()), "{}", said.stdout);
    let text = fs::read_to_string(&unit).unwrap();
    for line in [
        format!("Environment=\"PATH={rich}\"\n"),
        format!("Environment=\"TOLLGATE_HOME={}\"\n", stage.home().display()),
        format!("ExecStart=\"{}\" up\n", env!("CARGO_BIN_EXE_tollgate")),
        "NoNewPrivileges=yes\n".to_owned(),
        "WantedBy=default.target\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    stage.fine(&["service", "install"]);
    let status = stage.fine(&["service", "status", "--json"]).json();
    assert_eq!((&status["active"], &status["path"]), (&"active".into(), &rich.as_str().into()));
    stage.fine(&["service", "uninstall"]);
    assert!(!unit.exists());
    let asked = fs::read_to_string(stage.path("asked")).unwrap();
    for words in [
        "--user daemon-reload\n--user enable --now tollgate.service\n",
        "--user disable --now tollgate.service\n--user daemon-reload\n",
    ] {
        assert!(asked.contains(words), "{asked}");
    }
    assert_eq!(stage.run(&["service", "uninstall"]).code, 2);
    let audit = stage.fine(&["audit", "tail"]).stdout;
    assert!(audit.contains("service_installed") && audit.contains("service_removed"), "{audit}");
}

#[test]
fn without_a_user_manager_the_unit_is_written_and_the_commands_are_named() {
    let mut stage = Stage::new();
    stage.set("PATH", &stage.path("empty").display().to_string());
    let said = stage.run(&["service", "install"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(stage.path(".config/systemd/user/tollgate.service").exists());
    assert!(
        said.stderr.contains("`systemctl --user enable --now tollgate.service`"),
        "{}",
        said.stderr
    );
    stage.fine(&["service", "uninstall"]);
    assert!(!stage.path(".config/systemd/user/tollgate.service").exists());
}

#[test]
fn a_unit_that_somebody_else_wrote_is_left_alone() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path(".config/systemd/user")).unwrap();
    stage.write(".config/systemd/user/tollgate.service", "[Service]\nExecStart=/bin/true\n");
    for command in [["service", "install"], ["service", "uninstall"]] {
        let said = stage.run(&command);
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains("was not written by tollgate"), "{}", said.stderr);
    }
}

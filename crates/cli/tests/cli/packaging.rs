//! The files shipped with the binary work with it.

use std::fs;

use crate::cli_test::CliTest;

fn shipped(name: &str) -> String {
    let path = format!("{}/../../packaging/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn the_example_settings_load() {
    let mut test = CliTest::new();
    test.set("WEATHER_TOKEN", "planted");
    fs::create_dir(test.path("policies")).unwrap();
    test.write("policies/reading.json", &shipped("policies/reading.json"));
    let file = test.write("tollgate.toml", &shipped("tollgate.toml"));
    let output = test.run(&["--config", &file, "doctor", "--json"]);
    let findings = output.json();
    let settings = findings.as_array().unwrap().iter().find(|f| f["about"] == "settings").unwrap();
    assert_eq!(settings["health"], "good", "{settings}");
    let servers = test.succeed(&["--config", &file, "server", "list", "--json"]).json();
    assert!(servers.as_array().unwrap().len() >= 3);
}

#[test]
fn the_units_start_commands_that_exist() {
    let test = CliTest::new();
    for unit in ["systemd/tollgate.service", "systemd/user/tollgate.service"] {
        let text = shipped(unit);
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words: Vec<&str> = start.split(' ').skip(1).chain(["--help"]).collect();
        test.succeed(&words);
        for line in text.lines().filter(|line| line.starts_with("Environment=TOLLGATE_")) {
            let name = line.trim_start_matches("Environment=").split('=').next().unwrap();
            let known = ["TOLLGATE_HOME", "TOLLGATE_LOG_FORMAT", "TOLLGATE_LOG", "TOLLGATE_CONFIG"];
            assert!(known.contains(&name), "{unit}: {name}");
        }
    }
}

/// The refresh helper is in the control group of the gate. Killed with it, it would lose the login.
#[test]
fn a_stop_of_a_unit_kills_the_gate_alone() {
    let installed = include_str!("../../../platform/src/autostart/systemd.rs").to_owned();
    let units = ["systemd/tollgate.service", "systemd/user/tollgate.service"].map(shipped);
    for unit in units.iter().chain([&installed]) {
        let mode = unit.lines().find_map(|line| line.strip_prefix("KillMode="));
        assert_eq!(mode, Some("process"), "{unit}");
    }
}

#[test]
fn the_container_file_names_the_toolchain_of_the_workspace() {
    let workspace =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")).unwrap();
    let version = workspace.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let image = format!("FROM rust:{}-", version.trim_matches('"'));
    assert!(shipped("Dockerfile").contains(&image), "{image}");
}

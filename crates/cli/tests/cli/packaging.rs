//! What is shipped beside the binary works with it.

use std::fs;

use crate::stage::Stage;

fn shipped(name: &str) -> String {
    let path = format!("{}/../../packaging/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn the_example_settings_load() {
    let mut stage = Stage::new();
    stage.set("WEATHER_TOKEN", "planted");
    fs::create_dir(stage.path("policies")).unwrap();
    stage.write("policies/reading.json", &shipped("policies/reading.json"));
    let file = stage.write("tollgate.toml", &shipped("tollgate.toml"));
    let said = stage.run(&["--config", &file, "doctor", "--json"]);
    let findings = said.json();
    let settings = findings.as_array().unwrap().iter().find(|f| f["about"] == "settings").unwrap();
    assert_eq!(settings["health"], "good", "{settings}");
    let servers = stage.fine(&["--config", &file, "server", "list", "--json"]).json();
    assert!(servers.as_array().unwrap().len() >= 3);
}

#[test]
fn the_units_start_commands_that_exist() {
    let stage = Stage::new();
    for unit in ["systemd/tollgate.service", "systemd/user/tollgate.service"] {
        let text = shipped(unit);
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words: Vec<&str> = start.split(' ').skip(1).chain(["--help"]).collect();
        stage.fine(&words);
        for line in text.lines().filter(|line| line.starts_with("Environment=TOLLGATE_")) {
            let name = line.trim_start_matches("Environment=").split('=').next().unwrap();
            let known = ["TOLLGATE_HOME", "TOLLGATE_LOG_FORMAT", "TOLLGATE_LOG", "TOLLGATE_CONFIG"];
            assert!(known.contains(&name), "{unit}: {name}");
        }
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

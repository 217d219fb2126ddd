//! Which room may use which: the table of the architecture page, compared with the manifests.

use super::{Finding, SourceFile};

/// A room and the rooms it may use. `tollgate` is the binary and may use all.
const DOORS: &[(&str, &[&str])] = &[
    ("policy", &[]),
    ("catalog", &["policy"]),
    ("store", &["policy", "catalog"]),
    ("connectors", &["policy", "store"]),
    ("sandbox", &[]),
    ("gateway", &["policy", "store", "connectors", "catalog"]),
    ("dashboard", &["policy", "catalog", "store", "connectors"]),
    ("tollgate", &["policy", "catalog", "store", "connectors", "sandbox", "gateway", "dashboard"]),
    ("xtask", &[]),
];

/// Outside crates that would break what a room promises: no waiting and no IO where the architecture
/// says so, no catch-all error type outside the binary.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("policy", &["tokio", "rusqlite", "hyper", "jiff", "getrandom", "anyhow", "tracing"]),
    ("catalog", &["tokio", "rusqlite", "hyper", "jiff", "getrandom", "anyhow"]),
    ("store", &["anyhow", "hyper", "clap"]),
    ("connectors", &["anyhow", "clap", "rusqlite"]),
    ("gateway", &["anyhow", "clap", "rusqlite"]),
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_manifest(&file.path)) {
        check_manifest(file, &mut findings);
    }
    findings
}

fn is_manifest(path: &str) -> bool {
    path.ends_with("/Cargo.toml") && (path.starts_with("crates/") || path.starts_with("xtask/"))
}

fn check_manifest(file: &SourceFile, findings: &mut Vec<Finding>) {
    let mut say = |words: String| findings.push(Finding { place: file.path.clone(), words });
    let Ok(manifest) = file.text.parse::<toml::Table>() else {
        return say("not a manifest that can be read".to_owned());
    };
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(toml::Value::as_str);
    let Some((name, may_use)) = DOORS.iter().find(|(room, _)| Some(*room) == name) else {
        return say(
            "a crate that no line of the table of doors names (xtask/src/tidy/doors.rs)".to_owned()
        );
    };
    let forbidden =
        FORBIDDEN.iter().find(|(room, _)| room == name).map_or(&[][..], |(_, list)| list);
    for used in dependencies(&manifest) {
        let is_room = DOORS.iter().any(|(room, _)| *room == used);
        if is_room && !may_use.contains(&used.as_str()) {
            say(format!(
                "`{name}` may not use `{used}` (see the table of rooms in docs/ARCHITECTURE.md)"
            ));
        }
        if forbidden.contains(&used.as_str()) {
            say(format!("`{name}` may not use `{used}`: it would break what the room promises"));
        }
    }
}

/// Test-only dependencies are free: they do not reach the binary.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    table.map(|table| table.keys().cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifest: &str) -> Vec<String> {
        let file = SourceFile { path: "crates/x/Cargo.toml".into(), text: manifest.into() };
        check(&[file]).into_iter().map(|finding| finding.words).collect()
    }

    #[test]
    fn a_door_that_is_not_in_the_table_is_found() {
        let fine = "[package]\nname = \"catalog\"\n[dependencies]\npolicy.workspace = true\n";
        assert_eq!(findings(fine), Vec::<String>::new());
        let wrong =
            "[package]\nname = \"policy\"\n[dependencies]\nstore.workspace = true\ntokio = \"1\"\n";
        assert_eq!(findings(wrong).len(), 2);
        let unknown = "[package]\nname = \"helpers\"\n";
        assert_eq!(findings(unknown).len(), 1);
    }

    #[test]
    fn a_test_may_use_what_it_likes() {
        let dev = "[package]\nname = \"policy\"\n[dev-dependencies]\nstore.workspace = true\n";
        assert_eq!(findings(dev), Vec::<String>::new());
    }
}

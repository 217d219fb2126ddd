//! Which crate may use which: the table in docs/ARCHITECTURE.md, compared with the manifests.

use super::{Finding, SourceFile};

/// A crate and the crates it may use. `tollgate` is the binary and may use all.
const DOORS: &[(&str, &[&str])] = &[
    ("platform", &[]),
    ("policy", &[]),
    ("mcp", &["policy"]),
    ("oauth", &[]),
    ("insights", &[]),
    ("catalog", &["policy"]),
    ("store", &["platform", "policy", "catalog", "oauth"]),
    ("connectors", &["platform", "policy", "oauth", "insights", "store"]),
    ("sandbox", &[]),
    ("gateway", &["platform", "policy", "mcp", "oauth", "catalog", "store", "connectors"]),
    ("dashboard", &["policy", "oauth", "insights", "catalog", "store", "connectors"]),
    ("notify", &["store", "connectors"]),
    (
        "tollgate",
        &[
            "platform",
            "policy",
            "mcp",
            "oauth",
            "insights",
            "catalog",
            "store",
            "connectors",
            "sandbox",
            "gateway",
            "dashboard",
            "notify",
        ],
    ),
    ("xtask", &["platform"]),
];

/// Outside crates that would break what a crate promises: no async and no IO where the architecture
/// says so, no catch-all error type outside the binary.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("policy", &["tokio", "rusqlite", "hyper", "jiff", "getrandom", "anyhow", "tracing"]),
    ("mcp", &["tokio", "rusqlite", "hyper", "jiff", "getrandom", "anyhow", "tracing"]),
    ("oauth", &["tokio", "rusqlite", "hyper", "jiff", "getrandom", "anyhow", "tracing"]),
    ("insights", &["tokio", "rusqlite", "hyper", "getrandom", "rand", "anyhow", "tracing"]),
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
        return say("this manifest cannot be parsed".to_owned());
    };
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(toml::Value::as_str);
    let Some((name, may_use)) = DOORS.iter().find(|(room, _)| Some(*room) == name) else {
        return say("this crate is not in the table of xtask/src/tidy/doors.rs".to_owned());
    };
    let forbidden =
        FORBIDDEN.iter().find(|(room, _)| room == name).map_or(&[][..], |(_, list)| list);
    for used in dependencies(&manifest) {
        let is_room = DOORS.iter().any(|(room, _)| *room == used);
        if is_room && !may_use.contains(&used.as_str()) {
            say(format!(
                "`{name}` may not use `{used}` (see the table of crates in docs/ARCHITECTURE.md)"
            ));
        }
        if forbidden.contains(&used.as_str()) {
            say(format!("`{name}` may not use `{used}`: it would break what the crate promises"));
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
    fn a_dependency_missing_in_the_table_is_found() {
        let fine = "[package]\nname = \"catalog\"\n[dependencies]\npolicy.workspace = true\n";
        assert_eq!(findings(fine), Vec::<String>::new());
        let wrong =
            "[package]\nname = \"policy\"\n[dependencies]\nstore.workspace = true\ntokio = \"1\"\n";
        assert_eq!(findings(wrong).len(), 2);
        let unknown = "[package]\nname = \"helpers\"\n";
        assert_eq!(findings(unknown).len(), 1);
    }

    #[test]
    fn the_architecture_page_has_the_same_table() {
        let page = include_str!("../../../docs/ARCHITECTURE.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        for (name, may_use) in DOORS {
            let place = match *name {
                "tollgate" => "crates/cli".to_owned(),
                "xtask" => "xtask".to_owned(),
                library => format!("crates/{library}"),
            };
            let names: Vec<String> = may_use.iter().map(|used| format!("`{used}`")).collect();
            let uses = match *name {
                "tollgate" => "all".to_owned(),
                _ if names.is_empty() => "–".to_owned(),
                _ => names.join(", "),
            };
            let (begin, end) = (format!("| `{place}` | "), format!(" | {uses} |"));
            let is_row = |row: &&str| row.starts_with(&begin) && row.ends_with(&end);
            assert!(rows.iter().any(is_row), "no row `{place}` with `{uses}`");
        }
    }

    #[test]
    fn a_test_may_use_what_it_likes() {
        let dev = "[package]\nname = \"policy\"\n[dev-dependencies]\nstore.workspace = true\n";
        assert_eq!(findings(dev), Vec::<String>::new());
    }
}

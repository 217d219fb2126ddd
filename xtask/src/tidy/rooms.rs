//! Which room (top-level module) of the gateway may use which: the second table of docs/ARCHITECTURE.md,
//! compared with every `crate::` path in the sources.

use super::{Finding, SourceFile};

const FOLDER: &str = "crates/gateway/src/";

/// A room and the rooms it may use. The order is the order of the doors: each room uses only rooms below it.
pub(super) const ROOMS: &[(&str, &[&str])] = &[
    (
        "gate",
        &["edge", "notify", "exchange", "session", "snapshot", "upstream", "builtin", "runtime"],
    ),
    ("edge", &["notify", "exchange", "session", "snapshot", "upstream", "runtime"]),
    ("notify", &["exchange", "session", "snapshot", "upstream", "runtime"]),
    ("exchange", &["session", "snapshot", "upstream", "runtime"]),
    ("session", &["upstream", "runtime"]),
    ("snapshot", &["upstream", "builtin", "runtime"]),
    ("upstream", &["builtin", "runtime"]),
    ("builtin", &["runtime"]),
    ("runtime", &[]),
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        match room_of(&file.path) {
            None | Some("lib") => {}
            Some(room) => check_file(file, room, &mut findings),
        }
    }
    findings
}

/// `crates/gateway/src/edge/http.rs` belongs to the room `edge`.
fn room_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(FOLDER)?.strip_suffix(".rs")?;
    rest.split(['/', '.']).next()
}

fn check_file(file: &SourceFile, room: &str, findings: &mut Vec<Finding>) {
    let Some((_, may_use)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        let words = format!("`{room}` is not a room of the gateway (xtask/src/tidy/rooms.rs)");
        findings.push(Finding { place: file.path.clone(), words });
        return;
    };
    for (index, line) in file.text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for used in used(code, &file.path) {
            if used != room && !may_use.contains(&used) {
                let words = format!(
                    "room `{room}` may not use `{used}` (see the rooms of the gateway in docs/ARCHITECTURE.md)"
                );
                findings.push(Finding { place: format!("{}:{}", file.path, index + 1), words });
            }
        }
    }
}

/// The rooms that a line names, by `crate::` or by enough `super::`. A list in braces is reported as `{` and
/// so never allowed: each room needs its own line.
fn used<'l>(code: &'l str, path: &str) -> impl Iterator<Item = &'l str> {
    let depth = path.strip_prefix(FOLDER).map_or(0, |rest| rest.matches('/').count());
    let prefixes = ["crate::".to_owned(), "super::".repeat(depth + 1)];
    let mut found: Vec<&str> = Vec::new();
    for prefix in prefixes {
        found.extend(
            code.match_indices(&prefix)
                .filter_map(|(at, _)| first_name(code.get(at + prefix.len()..)?)),
        );
    }
    found.into_iter().filter(|name| *name == "{" || ROOMS.iter().any(|(room, _)| room == name))
}

fn first_name(rest: &str) -> Option<&str> {
    if rest.starts_with('{') {
        return rest.get(..1);
    }
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let file = SourceFile { path: format!("{FOLDER}{path}"), text: text.into() };
        check(&[file]).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn a_dependency_missing_in_the_table_is_found() {
        let allowed =
            "use crate::exchange::context::RequestContext;\nuse crate::runtime::Services;\n";
        assert_eq!(findings("edge/http.rs", allowed), Vec::<String>::new());
        assert_eq!(
            findings("exchange/call.rs", "fn f() {}\nuse crate::edge::http;\n"),
            ["crates/gateway/src/exchange/call.rs:2"]
        );
        assert_eq!(findings("runtime/metrics.rs", "let x = crate::upstream::Event;").len(), 1);
        assert_eq!(findings("runtime.rs", "use super::upstream::Event;").len(), 1);
        assert_eq!(
            findings("exchange/flow/end.rs", "use super::super::super::gate::Gate;").len(),
            1
        );
    }

    #[test]
    fn own_paths_comments_and_other_crates_are_free() {
        assert_eq!(findings("runtime/a.rs", "use crate::runtime::bounds;").len(), 0);
        assert_eq!(findings("runtime/a.rs", "use super::bounds; // crate::gate").len(), 0);
        assert_eq!(findings("runtime/a.rs", "use store::ledger::Ledger;").len(), 0);
    }

    #[test]
    fn a_list_of_rooms_and_an_unknown_room_are_found() {
        assert_eq!(findings("edge/a.rs", "use crate::{exchange, gate};").len(), 1);
        assert_eq!(findings("helpers.rs", "fn f() {}").len(), 1);
    }

    #[test]
    fn the_architecture_page_has_the_same_table() {
        let page = include_str!("../../../docs/ARCHITECTURE.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        for (room, may_use) in ROOMS {
            let names: Vec<String> = may_use.iter().map(|used| format!("`{used}`")).collect();
            let uses = if names.is_empty() { "–".to_owned() } else { names.join(", ") };
            let (begin, end) = (format!("| `{room}` | "), format!(" | {uses} |"));
            let is_row = |row: &&str| row.starts_with(&begin) && row.ends_with(&end);
            assert!(rows.iter().any(is_row), "no row `{room}` with `{uses}`");
        }
    }

    #[test]
    fn each_room_uses_only_rooms_below_it() {
        for (index, (room, may_use)) in ROOMS.iter().enumerate() {
            let below: Vec<&str> = ROOMS.iter().skip(index + 1).map(|(name, _)| *name).collect();
            assert!(may_use.iter().all(|used| below.contains(used)), "{room}");
        }
    }
}

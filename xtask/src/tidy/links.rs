//! Documentation that points at the repository: relative links, their anchors, and source paths in
//! backticks must exist.

use std::collections::HashMap;

use super::{Finding, SourceFile};

/// The changelog may name files that later versions moved or removed.
const HISTORY: &str = "CHANGELOG.md";

/// Crates whose files pages name without the leading `crates/`.
const CRATES: &[&str] =
    &["policy", "mcp", "catalog", "store", "connectors", "sandbox", "gateway", "cli"];

/// Where paths from the root begin. `tools/call` and its like are methods of MCP.
const FOLDERS: &[&str] = &[
    "crates/",
    "xtask/",
    "tools/mcpbench/",
    "tests/e2e/",
    "docs/",
    "examples/",
    "packaging/",
    "fuzz/",
];

/// Compares every page with the tree. `exists` answers for a path from the root of the workspace.
pub(super) fn check(files: &[SourceFile], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let pages: HashMap<&str, &SourceFile> = files
        .iter()
        .filter(|file| file.has_extension("md"))
        .map(|file| (file.path.as_str(), file))
        .collect();
    let mut findings = Vec::new();
    for page in pages.values() {
        for (number, line) in prose(&page.text) {
            let mut say = |words: String| {
                findings.push(Finding { place: format!("{}:{number}", page.path), words });
            };
            for target in link_targets(line) {
                if let Err(words) = check_link(page, target, &pages, exists) {
                    say(words);
                }
            }
            if page.path == HISTORY {
                continue;
            }
            for path in code_spans(line).filter_map(source_path) {
                if !exists(&path) {
                    say(format!("names `{path}`, which does not exist"));
                }
            }
        }
    }
    findings.sort_by(|a, b| a.place.cmp(&b.place));
    findings
}

fn check_link(
    page: &SourceFile,
    target: &str,
    pages: &HashMap<&str, &SourceFile>,
    exists: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let is_external = target.contains("://") || target.starts_with("mailto:");
    if is_external {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
    let path = if file.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, file) };
    let Some(path) = path.filter(|path| exists(path)) else {
        return Err(format!("links to `{target}`, which does not exist"));
    };
    let (Some(anchor), Some(linked)) = (anchor, pages.get(path.as_str())) else { return Ok(()) };
    if headings(&linked.text).any(|heading| slug(heading) == anchor) {
        return Ok(());
    }
    Err(format!("links to `{target}`, but `{path}` has no such heading"))
}

/// `target` as seen from the folder of `page`, from the root of the workspace; nothing if it leaves it.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines outside fenced code, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then_some((index + 1, line))
    })
}

/// The targets of `[text](target)` outside code spans.
fn link_targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    // Every second part is a code span; a link's text may hold one, its target does not.
    for part in line.split('`').step_by(2) {
        let mut rest = part;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, behind)) = after.split_once(')') else { break };
            targets.push(target);
            rest = behind;
        }
    }
    targets
}

fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A code span that is the path of a file or folder of this repository, from its root.
fn source_path(span: &str) -> Option<String> {
    let is_path =
        span.contains('/') && span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    if !is_path {
        return None;
    }
    if FOLDERS.iter().any(|folder| format!("{span}/").starts_with(folder)) {
        return Some(span.trim_end_matches('/').to_owned());
    }
    let (first, rest) = span.split_once('/')?;
    let is_of_crate =
        CRATES.contains(&first) && ["src", "tests", "examples"].contains(&rest.split('/').next()?);
    is_of_crate.then(|| format!("crates/{}", span.trim_end_matches('/')))
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    prose(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len() && heading.starts_with(' ')).then_some(heading.trim())
    })
}

/// The anchor that code hosts give a heading.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &[&str] = &["docs/a.md", "docs/b.md", "docs/guide", "crates/store/src/ledger.rs"];

    fn findings(path: &str, text: &str) -> Vec<String> {
        let page = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [page(path, text), page("docs/b.md", "# B\n\n## The vault key\n")];
        let found = check(&files, &|path| TREE.contains(&path));
        found.into_iter().map(|finding| format!("{}: {}", finding.place, finding.words)).collect()
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let fine = "[b](b.md), [key](b.md#the-vault-key), [up](../docs/guide/), [web](https://x.y/z), [here](#a)\n\n# A\n";
        assert_eq!(findings("docs/a.md", fine), Vec::<String>::new());
        let broken = [
            "[c](c.md)",
            "[anchor](b.md#the-key)",
            "[outside](../../b.md)",
            "[itself](#b)",
            "fine [b](b.md) and [not](../b.md)",
        ];
        for line in broken {
            let found = findings("docs/a.md", &format!("\n{line}\n"));
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(
                found.iter().all(|words| words.starts_with("docs/a.md:2: links to")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn links_in_code_are_no_links() {
        let text = "```md\n[c](c.md)\n```\n`[c](c.md)` and [`b`](b.md)\n";
        assert_eq!(findings("docs/a.md", text), Vec::<String>::new());
    }

    #[test]
    fn source_paths_in_backticks_must_exist() {
        let fine = "`store/src/ledger.rs`, `crates/store/src/ledger.rs`, `docs/guide/`, `/mcp/files`, `tools/call`, `tests/…`, `store/x`\n";
        assert_eq!(findings("docs/a.md", fine), Vec::<String>::new());
        for path in ["`store/src/gone.rs`", "`crates/gone`", "`docs/gone.md`"] {
            assert_eq!(findings("docs/a.md", path).len(), 1, "{path}");
        }
        assert_eq!(findings("CHANGELOG.md", "`store/src/gone.rs`\n"), Vec::<String>::new());
    }
}

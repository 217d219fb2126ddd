//! Commands of the binary do not use each other: what two of them share is a named module below them.

use std::collections::BTreeSet;

use super::{Finding, SourceFile};

const FOLDER: &str = "crates/cli/src/commands/";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let names: BTreeSet<&str> = files.iter().filter_map(|file| command_of(&file.path)).collect();
    let mut findings = Vec::new();
    for file in files {
        if let Some(own) = command_of(&file.path) {
            check_file(file, own, &names, &mut findings);
        }
    }
    findings
}

/// `crates/cli/src/commands/up/demo.rs` belongs to the command `up`.
fn command_of(path: &str) -> Option<&str> {
    path.strip_prefix(FOLDER)?.strip_suffix(".rs")?.split('/').next()
}

fn check_file(file: &SourceFile, own: &str, names: &BTreeSet<&str>, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for other in used(code, &file.path).filter(|name| *name != own) {
            // `{` opens a list of commands, which a command has no reason to import.
            if other == "{" || names.contains(other) {
                let words = format!(
                    "command `{own}` uses command `{other}`; move what they share into a module of crates/cli/src"
                );
                findings.push(Finding { place: format!("{}:{}", file.path, index + 1), words });
            }
        }
    }
}

/// The commands that a line names, by their full path or by the way up from where the file is.
fn used<'l>(code: &'l str, path: &str) -> impl Iterator<Item = &'l str> {
    let depth = path.strip_prefix(FOLDER).map_or(0, |rest| rest.matches('/').count());
    let up = "super::".repeat(depth + 1);
    let mut found: Vec<&str> = Vec::new();
    for way in ["crate::commands::".to_owned(), up] {
        let places = code.match_indices(&way).filter(|(at, _)| {
            // One more `super::` in front leads elsewhere.
            !code.get(..*at).unwrap_or_default().ends_with("super::")
        });
        found.extend(places.filter_map(|(at, _)| first_name(code.get(at + way.len()..)?)));
    }
    // A list behind `super::` is of the file's own module in most cases; its names decide.
    found.into_iter().filter(move |name| *name != "{" || code.contains("crate::commands::{"))
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
        let file = |path: &str, text: &str| SourceFile {
            path: format!("{FOLDER}{path}"),
            text: text.to_owned(),
        };
        let files = [file("scan.rs", ""), file("policy/explain.rs", ""), file(path, text)];
        check(&files).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn a_command_that_uses_another_is_found() {
        for (path, text) in [
            ("policy.rs", "use crate::commands::scan::Offer;"),
            ("policy/recommend.rs", "let offer = crate::commands::scan::read();"),
            ("policy/recommend.rs", "use crate::commands::{policy, scan};"),
            ("policy.rs", "use super::scan;"),
            ("policy/recommend.rs", "use super::super::scan;"),
        ] {
            let place = format!("{FOLDER}{path}:1");
            assert_eq!(findings(path, text), [place], "{text}");
        }
    }

    #[test]
    fn a_command_may_use_itself_and_lower_modules() {
        for (path, text) in [
            ("policy/recommend.rs", "use crate::commands::policy::recorded::Then;"),
            ("policy/recommend.rs", "use super::explain;"),
            ("policy/simulate/report.rs", "use super::super::recorded::Then;"),
            ("policy.rs", "use crate::listing::Offer; // not crate::commands::scan"),
            ("policy.rs", "    use super::*;"),
        ] {
            assert_eq!(findings(path, text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn files_outside_the_folder_are_free() {
        let text = "use crate::commands::{policy, scan};".to_owned();
        let file = SourceFile { path: "crates/cli/src/cli.rs".to_owned(), text };
        assert_eq!(check(&[file]), []);
    }
}

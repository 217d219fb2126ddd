//! Shared code names no service: a service is known by its own folder, its stand-in and one line of
//! `services!` in `crates/connectors/src/lib.rs`.

use super::{Finding, SourceFile};

const CONNECTORS: &str = "crates/connectors/src/";
const LIST: &str = "crates/connectors/src/lib.rs";

/// Files that may name a service, each with its reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (LIST, "the list of services"),
    ("crates/cli/src/context.rs", "the variable and the folder of the Python server whoop-mcp"),
    ("crates/cli/src/commands/sync/import.rs", "imports of WHOOP's app and of whoop-mcp"),
    ("crates/cli/src/commands/sandbox.rs", "the command runs one stand-in"),
    ("crates/cli/src/commands/server/add.rs", "an example in a hint"),
    ("crates/cli/src/commands/reference/settings.rs", "examples of variables"),
];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    // The name of the demonstration is a common word.
    let services: Vec<&str> = names(files).into_iter().filter(|name| *name != "demo").collect();
    let shared = files.iter().filter(|file| is_shared(&file.path, &services));
    shared.flat_map(|file| named(file, &services)).collect()
}

/// The names in `services!`.
pub(super) fn names(files: &[SourceFile]) -> Vec<&str> {
    let list = files.iter().find(|file| file.path == LIST).map_or("", |file| &file.text);
    let list = list.split("\nservices! {").nth(1).unwrap_or_default();
    let list = list.split('}').next().unwrap_or_default();
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

fn is_shared(path: &str, services: &[&str]) -> bool {
    let is_source = path.starts_with("crates/")
        && path.contains("/src/")
        && path.rsplit('.').next() == Some("rs");
    let is_test = ["/tests.rs", "/tests/", "/testing", "/malformed_responses.rs"];
    let own = path.strip_prefix(CONNECTORS).and_then(|rest| rest.split(['/', '.']).next());
    is_source
        && !path.starts_with("crates/sandbox/")
        && !is_test.iter().any(|part| path.contains(part))
        && !own.is_some_and(|own| services.contains(&own))
        && !EXCEPTIONS.iter().any(|(exception, _)| *exception == path)
}

fn named(file: &SourceFile, services: &[&str]) -> Vec<Finding> {
    let code = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut findings = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().to_lowercase();
        for name in services.iter().filter(|name| line.contains(**name)) {
            let words = format!("shared code names `{name}` (see docs/guide/connectors.md)");
            findings.push(Finding { place: format!("{}:{}", file.path, index + 1), words });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICES: &str = "\nservices! {\n    demo,\n    whoop,\n}\n";

    fn places(path: &str, text: &str) -> Vec<String> {
        let list = SourceFile { path: LIST.into(), text: SERVICES.into() };
        let file = SourceFile { path: path.into(), text: text.into() };
        check(&[list, file]).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn services_are_named_only_where_allowed() {
        let text = "fn f() {}\nlet name = \"whoop\";\n";
        assert_eq!(places("crates/cli/src/a.rs", text), ["crates/cli/src/a.rs:2"]);
        assert_eq!(places("crates/connectors/src/sync.rs", "use crate::whoop::X;").len(), 1);
        for path in [
            "crates/connectors/src/whoop.rs",
            "crates/connectors/src/whoop/api.rs",
            "crates/sandbox/src/services.rs",
            "crates/cli/tests/cli/a.rs",
            "crates/cli/src/commands/sandbox.rs",
        ] {
            assert_eq!(places(path, text).len(), 0, "{path}");
        }
    }

    #[test]
    fn comments_tests_and_the_demonstration_are_free() {
        let path = "crates/cli/src/a.rs";
        assert_eq!(places(path, "let demo = 1; // such as whoop").len(), 0);
        assert_eq!(places(path, "#[cfg(test)]\nmod tests {\n    \"whoop\"\n}\n").len(), 0);
    }
}

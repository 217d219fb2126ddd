//! No two `pub` or `pub(crate)` types of one name in a crate: a reader should not have to look at an import to
//! know which one is meant. Types that a module keeps to itself may be called `State`, `Error` or `Args`.

use std::collections::BTreeMap;

use super::functions::{blanked, without_tests};
use super::rust::is_test_file;
use super::{Finding, SourceFile};

const KINDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Names that a crate uses more than once for a reason: the crate, the name and the reason.
const TWICE_FOR_A_REASON: &[(&str, &str, &str)] = &[];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    check_with(files, TWICE_FOR_A_REASON)
}

fn check_with(files: &[SourceFile], reasons: &[(&str, &str, &str)]) -> Vec<Finding> {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for file in files {
        let Some(crate_name) = crate_of(&file.path) else { continue };
        if is_other_system(&file.path) {
            continue;
        }
        let code = without_tests(&blanked(&file.text));
        for (index, line) in code.lines().enumerate() {
            if let Some(name) = visible_type(line) {
                let key = (crate_name.to_owned(), name.to_owned());
                places.entry(key).or_default().push(format!("{}:{}", file.path, index + 1));
            }
        }
    }
    let is_twice = |key: &(&str, &str)| {
        places.get(&(key.0.to_owned(), key.1.to_owned())).is_some_and(|found| found.len() > 1)
    };
    let needless = reasons.iter().filter(|(krate, name, _)| !is_twice(&(krate, name)));
    let needless = needless.map(|(krate, name, _)| Finding {
        place: "xtask/src/tidy/type_names.rs".to_owned(),
        words: format!("`{krate}` has one type `{name}` or none; take the reason out"),
    });
    let has_reason = |krate: &str, name: &str| {
        reasons
            .iter()
            .any(|(reason_crate, reason_name, _)| (*reason_crate, *reason_name) == (krate, name))
    };
    let twice =
        places.iter().filter(|((krate, name), found)| found.len() > 1 && !has_reason(krate, name));
    let twice = twice.filter_map(|((krate, name), found)| {
        let (last, others) = found.split_last()?;
        let words = format!(
            "`{krate}` has another type `{name}` at {}; rename one, or give the reason in xtask/src/tidy/type_names.rs",
            others.join(", ")
        );
        Some(Finding { place: last.clone(), words })
    });
    needless.chain(twice).collect()
}

/// `store` of `crates/store/src/vault.rs`; none for tests and examples.
fn crate_of(path: &str) -> Option<&str> {
    if path.rsplit('.').next() != Some("rs") || is_test_file(path) {
        return None;
    }
    let (folder, _) = path.split_once("/src/")?;
    folder.rsplit('/').next()
}

/// The interface of `crates/platform` has each type once for each system, and only one of them is compiled.
fn is_other_system(path: &str) -> bool {
    path.starts_with("crates/platform/") && path.ends_with("/windows.rs")
}

/// The type that a line defines, if other modules of its crate can name it.
fn visible_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = rest.strip_prefix("(crate)").unwrap_or(rest).strip_prefix(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    KINDS.contains(&kind).then(|| rest.get(..end)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)], reasons: &[(&str, &str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        check_with(&files, reasons).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn two_visible_types_of_one_name_in_a_crate_are_found() {
        let twice = [
            ("crates/a/src/one.rs", "pub struct State {}\n"),
            ("crates/a/src/two.rs", "//! Doc.\npub(crate) enum State<'a> {}\n"),
        ];
        assert_eq!(findings(&twice, &[]), ["crates/a/src/two.rs:2"]);
        let systems = [
            ("crates/platform/src/a/unix.rs", "pub struct State {}\n"),
            ("crates/platform/src/a/windows.rs", "pub struct State {}\n"),
        ];
        assert_eq!(findings(&systems, &[]), Vec::<String>::new());
        let reasons = [("a", "State", "two protocols, each with its own")];
        assert_eq!(findings(&twice, &reasons), Vec::<String>::new());
    }

    #[test]
    fn other_crates_tests_and_types_of_one_module_are_free() {
        let free = [
            ("crates/a/src/one.rs", "pub trait Row {}\npub(super) struct Entry;\nstruct Args;\n"),
            ("crates/b/src/one.rs", "pub type Row = u8;\n"),
            ("crates/a/src/two.rs", "pub(super) struct Entry;\nstruct Args;\n// pub struct Row;\n"),
            ("crates/a/src/tests.rs", "pub struct Row;\n"),
            ("crates/a/tests/row.rs", "pub struct Row;\n"),
            ("crates/a/src/three.rs", "#[cfg(test)]\nmod tests {\n    pub struct Row;\n}\n"),
            (
                "crates/a/src/four.rs",
                "pub struct Rows;\nconst TEXT: &str = \"\npub struct Row;\n\";\n",
            ),
        ];
        assert_eq!(findings(&free, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_reason_that_nothing_needs_is_found() {
        let once = [("crates/a/src/one.rs", "pub struct State;\n")];
        let reasons = [("a", "State", "no longer")];
        assert_eq!(findings(&once, &reasons), ["xtask/src/tidy/type_names.rs"]);
    }
}

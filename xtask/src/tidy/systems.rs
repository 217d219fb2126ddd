//! Only `crates/platform` asks which system it runs on: elsewhere no `cfg` of a system, no `/proc` and no calls that
//! one system has. Tests run where they can, and the development tools run on Linux.

use super::rust::is_test_file;
use super::{Finding, SourceFile};

/// What only one kind of system has, or asks for it.
const OF_ONE_SYSTEM: &[&str] = &[
    "cfg(unix",
    "cfg(windows",
    "cfg(not(unix",
    "cfg(not(windows",
    "target_os",
    "target_family",
    "rustix::",
    "signal_hook::",
    "std::os::unix",
    "std::os::fd",
    "std::os::linux",
    "std::os::windows",
    "signal::unix",
    "\"/proc",
    "cfg!(",
    "consts::OS",
];

/// Files that may: the place, what, and why.
const MAY: &[(&str, &str, &str)] = &[(
    "crates/catalog/src/poison/secrets.rs",
    "\"/proc",
    "a path that attackers name, not one that is read",
)];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    files.iter().filter(|file| is_product(file)).flat_map(findings).collect()
}

fn is_product(file: &SourceFile) -> bool {
    file.path.starts_with("crates/")
        && !file.path.starts_with("crates/platform/")
        && file.has_extension("rs")
        && !is_test_file(&file.path)
}

fn findings(file: &SourceFile) -> Vec<Finding> {
    let logic = file.text.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
    let code = logic.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()));
    code.flat_map(|(number, code)| {
        let found = OF_ONE_SYSTEM.iter().filter(move |word| code.contains(**word));
        let found = found.filter(|word| !MAY.iter().any(|(p, w, _)| *p == file.path && w == *word));
        found.map(move |word| Finding {
            place: format!("{}:{}", file.path, number + 1),
            words: format!("`{word}` belongs into crates/platform, behind what the caller wants"),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operating_systems_are_named_only_in_platform_and_tests() {
        let text = "//! rustix::fs\n#[cfg(unix)]\nfn f() { rustix::fs::sync(); }\n#[cfg(test)]\nmod tests { use std::os::unix; }\n";
        let places = |path: &str| -> Vec<String> {
            let file = SourceFile { path: path.into(), text: text.into() };
            check(&[file]).into_iter().map(|finding| finding.place).collect()
        };
        assert_eq!(
            places("crates/store/src/a.rs"),
            ["crates/store/src/a.rs:2", "crates/store/src/a.rs:3"]
        );
        for path in ["crates/platform/src/a.rs", "crates/store/tests/a.rs", "xtask/src/a.rs"] {
            assert_eq!(places(path), Vec::<String>::new(), "{path}");
        }
    }
}

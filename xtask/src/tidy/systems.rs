//! Only `crates/platform` asks which system it runs on: elsewhere no `cfg` of a system, no `/proc`, no calls that one
//! system has, and no dependency on crates that make them. Tests run where they can, and the development tools run on
//! Linux.

use super::rust::is_test_file;
use super::{Finding, SourceFile};

/// What only one kind of system has, or asks for it.
const OF_ONE_SYSTEM: &[&str] = &[
    "target_os",
    "target_family",
    "consts::OS",
    "rustix",
    "signal_hook",
    "libc::",
    "std::os::",
    "signal::unix",
    "signal::windows",
    "\"/proc",
];
/// The names of kinds of systems in a `cfg`, however it is nested.
const KINDS: &[&str] = &["unix", "windows"];
const CFGS: &[&str] = &["cfg(", "cfg!(", "cfg_attr("];
/// Crates whose interface depends on the system.
const CRATES: &[&str] = &["rustix", "libc", "nix", "signal-hook", "winapi", "windows", "cap-std"];

/// Files that may: the place, what, and why.
const MAY: &[(&str, &str, &str)] = &[(
    "crates/catalog/src/poison/secrets.rs",
    "\"/proc",
    "a path that attackers name, not one that is read",
)];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_outside_platform(file)) {
        if file.path.ends_with("/Cargo.toml") {
            found.extend(dependencies(file));
        } else if file.has_extension("rs") && !is_test_file(&file.path) {
            found.extend(findings(file));
        }
    }
    found
}

fn is_outside_platform(file: &SourceFile) -> bool {
    file.path.starts_with("crates/") && !file.path.starts_with("crates/platform/")
}

fn findings(file: &SourceFile) -> Vec<Finding> {
    let logic = file.text.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
    let code = logic.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()));
    code.flat_map(|(number, code)| {
        let found = OF_ONE_SYSTEM.iter().copied().filter(move |word| code.contains(word));
        let found = found.chain(KINDS.iter().copied().filter(move |kind| is_in_cfg(code, kind)));
        let found = found.filter(|word| !MAY.iter().any(|(p, w, _)| *p == file.path && w == word));
        found.map(move |word| finding(file, number, word))
    })
    .collect()
}

fn finding(file: &SourceFile, number: usize, word: &str) -> Finding {
    Finding {
        place: format!("{}:{}", file.path, number + 1),
        words: format!("`{word}` belongs into crates/platform, behind what the caller wants"),
    }
}

fn is_in_cfg(code: &str, kind: &str) -> bool {
    let rest = CFGS.iter().find_map(|cfg| code.split_once(cfg).map(|(_, rest)| rest));
    let mut words = rest.unwrap_or_default().split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == kind)
}

/// Dependencies for one system, and crates of one system, unless only tests use them.
fn dependencies(file: &SourceFile) -> Vec<Finding> {
    let mut section = "";
    let mut found = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        if section.contains("dev-dependencies") {
            continue;
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if line.starts_with("[target.") {
            found.push(finding(file, number, "[target."));
        } else if CRATES.contains(&name) {
            found.push(finding(file, number, name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &str, text: &str) -> Vec<String> {
        let file = SourceFile { path: path.into(), text: text.into() };
        check(&[file]).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn operating_systems_are_named_only_in_platform_and_tests() {
        let text = "//! rustix::fs\n#[cfg(unix)]\nfn f() { rustix::fs::sync(); }\n#[cfg(test)]\nmod tests { use std::os::unix; }\n";
        assert_eq!(
            places("crates/store/src/a.rs", text),
            ["crates/store/src/a.rs:2", "crates/store/src/a.rs:3"]
        );
        for path in ["crates/platform/src/a.rs", "crates/store/tests/a.rs", "xtask/src/a.rs"] {
            assert_eq!(places(path, text), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn a_system_is_found_however_the_question_is_written() {
        for line in [
            "#[cfg(any(test, windows))]",
            "#[cfg(all(unix, feature = \"demo\"))]",
            "#[cfg_attr(not(unix), path = \"x\")]",
            "if cfg!(windows) {",
            "if cfg!(target_os = \"macos\") {",
            "match std::env::consts::OS {",
            "fs::read(format!(\"/proc/{pid}/stat\"))",
            "use std::os::windows::fs::OpenOptionsExt;",
        ] {
            assert_eq!(
                places("crates/store/src/a.rs", line),
                ["crates/store/src/a.rs:1"],
                "{line}"
            );
        }
        for line in ["#[cfg(feature = \"demo\")]", "let windows = 3;", "// cfg(unix)"] {
            assert_eq!(places("crates/store/src/a.rs", line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn only_tests_depend_on_crates_of_one_system() {
        let tests = "[dependencies]\nserde = \"1\"\n[target.'cfg(unix)'.dev-dependencies]\nrustix = \"1\"\n[dev-dependencies]\nlibc = \"1\"\n";
        assert_eq!(places("crates/store/Cargo.toml", tests), Vec::<String>::new());
        let product = "[dependencies]\nrustix.workspace = true\n[target.'cfg(windows)'.dependencies]\nfs4 = \"1\"\n";
        assert_eq!(
            places("crates/store/Cargo.toml", product),
            ["crates/store/Cargo.toml:2", "crates/store/Cargo.toml:3"]
        );
    }
}

//! The shape of Rust files: a module doc, one subject, and no clock or environment where time and settings
//! are arguments.

use super::{Finding, SourceFile};

/// A longer file is a question: is it one subject? An answer is a line in `LONG_AND_ANSWERED`.
const LINES_MAX: usize = 450;

/// Long files that are right as they are, with the reason.
const LONG_AND_ANSWERED: &[(&str, &str)] = &[];

/// Ways to read the clock, the environment or the zone of the machine.
const READS: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "clock_gettime",
    "TimeZone::system",
    "env::var",
    "env::args",
    "env::current_dir",
    "env::temp_dir",
];

/// Files that may: the place, what it may read, and why.
const READS_AND_MAY: &[(&str, &[&str], &str)] = &[
    ("crates/cli/", READS, "the binary reads the clock and the environment and hands both in"),
    ("xtask/", READS, "a development tool, no part of the product"),
    ("tools/", READS, "a measuring tool, no part of the product"),
    ("fuzz/", &["env::var"], "a development tool, whose arguments are libFuzzer's"),
    (
        "crates/platform/",
        &["SystemTime::now", "clock_gettime", "Instant::now", "env::var"],
        "the system itself: its clocks, how long to wait for it, and its folders",
    ),
    (
        "crates/sandbox/src/main.rs",
        &["SystemTime::now", "env::args"],
        "the stand-in as a program of its own, for tests in other languages",
    ),
    (
        "crates/sandbox/src/clock.rs",
        &["Instant::now"],
        "how long a stand-in has run; the moment it begins at is an argument",
    ),
    (
        "crates/gateway/src/runtime/services.rs",
        &["TimeZone::system"],
        "the owner's zone when the settings name none; only rules about hours look at it",
    ),
    (
        "crates/gateway/",
        &["Instant::now"],
        "how long to wait for a peer; nothing is decided or recorded by it",
    ),
];

pub(super) fn check(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.has_extension("rs") {
        return;
    }
    check_shape(file, findings);
    if !is_test(&file.path) {
        check_reads(file, findings);
    }
}

fn check_shape(file: &SourceFile, findings: &mut Vec<Finding>) {
    let mut say = |words: String| findings.push(Finding { place: file.path.clone(), words });
    if file.path.ends_with("/mod.rs") {
        say("`mod.rs` hides its subject; name the file after it".to_owned());
    }
    if !file.text.trim_start().starts_with("//!") {
        say("begins without a module doc of one to three sentences".to_owned());
    }
    let lines = logic(&file.text).count();
    let answered = LONG_AND_ANSWERED.iter().any(|(entry, _)| covers(entry, &file.path));
    let is_table = file.path.contains("table") || is_test(&file.path);
    if lines > LINES_MAX && !is_table && !answered {
        say(format!(
            "{lines} lines of logic: is it one subject? (answer in xtask/src/tidy/sources.rs)"
        ));
    }
}

fn check_reads(file: &SourceFile, findings: &mut Vec<Finding>) {
    let may = READS_AND_MAY.iter().filter(|(place, ..)| covers(place, &file.path));
    let may: Vec<&str> = may.flat_map(|(_, reads, _)| *reads).copied().collect();
    let may_not = |read: &&&str| !may.contains(*read);
    for (number, line) in logic(&file.text).enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for read in READS.iter().filter(may_not).filter(|read| code.contains(**read)) {
            let place = format!("{}:{}", file.path, number + 1);
            let words =
                format!("reads `{read}`; time and settings are arguments outside the binary");
            findings.push(Finding { place, words });
        }
    }
}

/// The lines before the tests of the file itself.
fn logic(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| line.trim() != "#[cfg(test)]")
}

/// Tests and examples are not part of the product.
fn is_test(path: &str) -> bool {
    let in_folder = path.contains("/tests/") || path.contains("/examples/");
    in_folder || path.ends_with("/tests.rs") || path.ends_with("/properties.rs")
}

/// An entry that ends in `/` covers a folder.
fn covers(entry: &str, path: &str) -> bool {
    if entry.ends_with('/') { path.starts_with(entry) } else { path == entry }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&SourceFile { path: path.into(), text: text.into() }, &mut findings);
        findings.into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn a_clock_read_is_found_with_its_line_but_not_in_tests_or_comments() {
        let text = "//! Doc.\n// SystemTime::now\nfn f() { SystemTime::now(); }\n#[cfg(test)]\nmod tests { Instant::now }\n";
        assert_eq!(findings("crates/policy/src/a.rs", text), ["crates/policy/src/a.rs:3"]);
        assert_eq!(findings("crates/cli/src/a.rs", text), Vec::<String>::new());
        assert_eq!(findings("crates/policy/tests/a.rs", text), Vec::<String>::new());
    }

    #[test]
    fn shape_is_checked() {
        assert_eq!(findings("crates/a/src/b/mod.rs", "fn f() {}\n").len(), 2);
        let long = format!("//! Doc.\n{}", "\n".repeat(LINES_MAX + 1));
        assert_eq!(findings("crates/a/src/b.rs", &long).len(), 1);
        assert_eq!(findings("crates/a/src/table.rs", &long).len(), 0);
    }
}

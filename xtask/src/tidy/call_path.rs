//! The path of a call in `docs/ARCHITECTURE.md`, hop by hop: each function exists, its caller names it, and the
//! path stays short enough to read.

use std::collections::BTreeSet;

use super::{Finding, SourceFile, functions};

const PAGE: &str = "docs/ARCHITECTURE.md";
const HEADING: &str = "### Hop by hop";
const FUNCTIONS_MAX: usize = 80;
const FILES_MAX: usize = 45;

/// One line of the path. Deeper lines are called by the nearest shallower one before them.
struct Hop<'a> {
    line: usize,
    depth: usize,
    name: &'a str,
    /// Below `crates`.
    file: &'a str,
}

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![Finding { place: PAGE.to_owned(), words: "is missing".to_owned() }];
    };
    let hops = hops(&page.text);
    let mut findings: Vec<Finding> = Vec::new();
    let mut say = |line: usize, words: String| {
        findings.push(Finding { place: format!("{PAGE}:{line}"), words });
    };
    if hops.is_empty() {
        say(1, format!("has no path below `{HEADING}`"));
    }
    for (index, hop) in hops.iter().enumerate() {
        if bodies(files, hop).is_empty() {
            say(hop.line, format!("`{}` is not a function in crates/{}", hop.name, hop.file));
        }
        let before = hops.get(..index).unwrap_or_default();
        let caller = before.iter().rev().find(|before| before.depth < hop.depth);
        if let Some(caller) = caller
            && !bodies(files, caller).iter().any(|body| names(body, hop.name))
        {
            let words = format!("`{}` does not call `{}`; correct the path", caller.name, hop.name);
            say(hop.line, words);
        }
    }
    let all: BTreeSet<_> = hops.iter().map(|hop| (hop.file, hop.name)).collect();
    let in_files: BTreeSet<_> = hops.iter().map(|hop| hop.file).collect();
    let counted = format!("{} functions in {} files", all.len(), in_files.len());
    if !hops.is_empty() && !page.text.contains(&counted) {
        say(1, format!("must say that the path has {counted}"));
    }
    if all.len() > FUNCTIONS_MAX || in_files.len() > FILES_MAX {
        say(1, format!("the path has {counted}, more than {FUNCTIONS_MAX} in {FILES_MAX}"));
    }
    findings
}

/// The lines of the code block below the heading: indented name, file, and what it does.
fn hops(page: &str) -> Vec<Hop<'_>> {
    let lines = page.lines().enumerate().skip_while(|(_, line)| *line != HEADING);
    let block = lines.skip_while(|(_, line)| !line.starts_with("```")).skip(1);
    let block = block.take_while(|(_, line)| !line.starts_with("```"));
    block.filter_map(|(index, line)| hop(index + 1, line)).collect()
}

fn hop(line: usize, text: &str) -> Option<Hop<'_>> {
    let depth = text.len() - text.trim_start().len();
    let mut words = text.split_whitespace();
    Some(Hop { line, depth, name: words.next()?, file: words.next()? })
}

/// The bodies of the functions with the name of a hop in its file.
fn bodies(files: &[SourceFile], hop: &Hop<'_>) -> Vec<String> {
    let path = format!("crates/{}", hop.file);
    let file = files.iter().find(|file| file.path == path);
    file.map_or_else(Vec::new, |file| functions::bodies(&file.text, hop.name))
}

/// Whether a body contains a name as a whole word.
fn names(body: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    body.match_indices(name).any(|(at, _)| {
        let before = body.get(..at).and_then(|text| text.chars().next_back());
        let after = body.get(at + name.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let page = format!("# A\n\n{HEADING}\n\n2 functions in 1 files\n\n```text\n{path}```\n");
        let code =
            "fn first() {\n    // third()\n    second(1);\n}\nfn second(n: u8) {}\nfn third() {}\n";
        let files = [file(PAGE, &page), file("crates/a/src/b.rs", code)];
        check(&files).into_iter().map(|finding| finding.words).collect()
    }

    #[test]
    fn a_hop_is_called_by_the_one_above_it() {
        let first = "first    a/src/b.rs   does it\n";
        assert_eq!(findings(&format!("{first}  second a/src/b.rs  x\n")), Vec::<String>::new());
        for (wrong, words) in [
            (format!("{first}  third a/src/b.rs  x\n"), "`first` does not call `third`"),
            (format!("{first}  fourth a/src/b.rs  x\n"), "`fourth` is not a function"),
            (first.to_owned(), "must say that the path has 1 functions"),
            (String::new(), "has no path"),
        ] {
            let found = findings(&wrong);
            assert!(found.iter().any(|found| found.contains(words)), "{words}: {found:?}");
        }
    }

    #[test]
    fn the_path_stays_short() {
        let many: String = (0..=FILES_MAX)
            .fold(String::new(), |text, n| text + &format!("first a/src/b{n}.rs x\n"));
        assert!(findings(&many).iter().any(|found| found.contains("more than 80 in 45")));
    }
}

//! `docs/GLOSSARY.md` gives each term once, and the code names it gives exist.

use std::collections::BTreeSet;

use super::{Finding, SourceFile, rust};

const GLOSSARY: &str = "docs/GLOSSARY.md";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(glossary) = files.iter().find(|file| file.path == GLOSSARY) else {
        return vec![Finding { place: GLOSSARY.to_owned(), words: "is missing".to_owned() }];
    };
    let mut findings = Vec::new();
    let mut terms = BTreeSet::new();
    for (index, line) in glossary.text.lines().enumerate() {
        let Some((term, code)) = entry(line) else { continue };
        let mut say = |words: String| {
            findings.push(Finding { place: format!("{GLOSSARY}:{}", index + 1), words });
        };
        if !terms.insert(term.to_lowercase()) {
            say(format!("`{term}` is explained twice"));
        }
        let spans: Vec<&str> = code.split('`').skip(1).step_by(2).collect();
        if spans.is_empty() {
            say(format!("`{term}` does not say where it is in the code"));
        }
        for missing in missing_names(&spans, files) {
            say(missing);
        }
    }
    findings
}

/// Term and code of a row of the table `| Term | Meaning | Code |`.
fn entry(line: &str) -> Option<(&str, &str)> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let mut cells = row.split(" | ");
    let (term, _, code) = (cells.next()?, cells.next()?, cells.next()?);
    (term != "Term" && term != "---").then_some((term, code))
}

/// Paths that do not exist, and names that none of the paths of the same cell defines. Without a path,
/// the whole workspace is searched.
fn missing_names(spans: &[&str], files: &[SourceFile]) -> Vec<String> {
    let (paths, names): (Vec<&str>, Vec<&str>) = spans.iter().partition(|span| span.contains('/'));
    let below = |path: &str, file: &SourceFile| {
        file.path == path || file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    };
    let is_gone = |path: &&&str| !files.iter().any(|file| below(path.trim_end_matches('/'), file));
    let mut missing: Vec<String> = paths
        .iter()
        .filter(is_gone)
        .map(|path| format!("names `{path}`, which does not exist"))
        .collect();
    let searched: Vec<&SourceFile> = files
        .iter()
        .filter(|file| file.has_extension("rs") && !rust::is_test_file(&file.path))
        .filter(|file| {
            paths.is_empty() || paths.iter().any(|path| below(path.trim_end_matches('/'), file))
        })
        .collect();
    for name in names {
        // `Ledger::admit` needs both; where the function is written does not matter.
        let parts = name.trim_end_matches("()").split("::");
        let is_defined = |part: &str| {
            searched.iter().any(|file| file.text.lines().any(|line| rust::defines(line, part)))
        };
        if !parts.into_iter().all(is_defined) {
            let place =
                if paths.is_empty() { "the workspace".to_owned() } else { paths.join(", ") };
            missing.push(format!("`{name}` is not defined in {place}"));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rows: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [
            file(GLOSSARY, &format!("| Term | Meaning | Code |\n| --- | --- | --- |\n{rows}\n")),
            file(
                "crates/store/src/ledger.rs",
                "pub struct Ledger;\nimpl Ledger {\n    pub fn admit() {}\n}\n",
            ),
            file("crates/store/tests/x.rs", "struct OnlyInTests;\n"),
        ];
        check(&files).into_iter().map(|finding| finding.words).collect()
    }

    #[test]
    fn names_of_the_code_must_exist() {
        for fine in [
            "| ledger | x | `Ledger` in `crates/store/src/ledger.rs` |",
            "| ledger | x | `Ledger::admit`, `crates/store` |",
            "| ledger | x with `anything` | `Ledger` |",
        ] {
            assert_eq!(findings(fine), Vec::<String>::new(), "{fine}");
        }
        for wrong in [
            "| ledger | x | `Journal` |",
            "| ledger | x | `Ledger::settle` |",
            "| ledger | x | `crates/store/src/gone.rs` |",
            "| ledger | x | `OnlyInTests` |",
            "| ledger | x | in the store |",
        ] {
            assert_eq!(findings(wrong).len(), 1, "{wrong}: {:?}", findings(wrong));
        }
    }

    #[test]
    fn a_term_is_explained_once() {
        let twice = "| ledger | x | `Ledger` |\n| Ledger | y | `Ledger` |";
        assert_eq!(findings(twice), ["`Ledger` is explained twice"]);
    }
}

//! The workflow files of a forge hold no logic: they are YAML, and every step that runs something runs one script of
//! `scripts/`, which also runs on a developer's machine.

use std::collections::BTreeSet;

use saphyr_parser::Parser;

use super::{Finding, SourceFile};

const FOLDER: &str = ".github/workflows/";
const SCRIPTS: &str = "scripts/";

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let scripts: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let workflows = files.iter().filter(|file| file.path.starts_with(FOLDER));
    workflows.flat_map(|file| findings(file, &scripts)).collect()
}

fn findings(file: &SourceFile, scripts: &BTreeSet<&str>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |line: usize, words: String| {
        found.push(Finding { place: format!("{}:{line}", file.path), words });
    };
    if let Some(error) = Parser::new_from_str(&file.text).find_map(Result::err) {
        add(error.marker().line(), format!("this is not YAML: {}", error.info()));
    }
    for (number, line) in file.text.lines().enumerate() {
        let Some(command) = command(line) else { continue };
        let script = command.split_whitespace().next().unwrap_or_default();
        if !script.starts_with(SCRIPTS) {
            add(number + 1, format!("`{command}` is not a script of `{SCRIPTS}`"));
        } else if !scripts.contains(script) {
            add(number + 1, format!("there is no `{script}`"));
        }
        if command.contains(['|', '&', ';', '<', '>', '`']) || command.contains("$(") {
            add(number + 1, "a step runs one script; put the rest into it".to_owned());
        }
    }
    found
}

/// What a step runs. A mapping, such as `defaults.run`, is no command.
fn command(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("- ").unwrap_or(line).strip_prefix("run:")?;
    Some(rest.trim()).filter(|command| !command.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_yaml_and_runs_scripts_that_exist() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let of = |text: &str| -> Vec<String> {
            let script = file("scripts/ci/test.sh", "");
            let found = check(&[script, file(".github/workflows/a.yml", text)]);
            found
                .into_iter()
                .map(|finding| format!("{} {}", finding.place, finding.words))
                .collect()
        };
        assert_eq!(
            of("a:\n  - run: scripts/ci/test.sh x\n  - defaults:\n      run:\n        shell: b\n"),
            Vec::<String>::new()
        );
        let broken = of("a: [b\nc: }\n");
        assert!(broken.iter().any(|words| words.contains("not YAML")), "{broken:?}");
        for (text, words) in [
            ("a:\n  - run: scripts/ci/gone.sh\n", "there is no `scripts/ci/gone.sh`"),
            ("a:\n  - run: cargo test\n", "is not a script"),
            ("a:\n  - run: |\n      cargo test\n", "is not a script"),
            ("a:\n  - run: scripts/ci/test.sh && rm x\n", "a step runs one script"),
        ] {
            let found = of(text);
            assert!(found.iter().any(|f| f.contains(":2 ") && f.contains(words)), "{found:?}");
        }
    }
}

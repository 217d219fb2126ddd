//! The README convinces on its first screen: it stays short.

use super::{Finding, SourceFile};

const README: &str = "README.md";
const WORDS_MAX: usize = 700;

pub(super) fn check(files: &[SourceFile]) -> Option<Finding> {
    let readme = files.iter().find(|file| file.path == README)?;
    let words = readme.text.split_whitespace().count();
    (words > WORDS_MAX).then(|| Finding {
        place: README.to_owned(),
        words: format!("{words} words; at most {WORDS_MAX}, the rest belongs in docs/guide"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_readme_at_the_root_is_refused() {
        let file = |path: &str, words: usize| SourceFile {
            path: path.into(),
            text: "word ".repeat(words),
        };
        assert_eq!(check(&[file("README.md", WORDS_MAX), file("crates/README.md", 900)]), None);
        let found = check(&[file("README.md", WORDS_MAX + 1)]).map(|finding| finding.words);
        assert!(found.is_some_and(|words| words.starts_with("701 words")));
    }
}

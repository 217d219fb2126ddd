//! Finds the known word nearest to a mistyped one.

/// Longer words are truncated: they come from files of any size.
const LETTERS_MAX: usize = 64;

/// The nearest of `known`, unless even that one is far off. The beginning of a word is near to it, and
/// upper and lower case are the same.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word: String = word.to_lowercase().chars().take(LETTERS_MAX).collect();
    let letters = word.chars().count();
    let near = known.into_iter().filter_map(|candidate| {
        let lower = candidate.to_lowercase();
        let steps = strsim::osa_distance(&word, &lower);
        let is_near = steps <= letters / 3 + 1 || (letters > 2 && lower.starts_with(&word));
        is_near.then_some((steps, candidate))
    });
    near.min().map(|(_, known)| known)
}

/// ``, did you mean `x`?`` or nothing.
pub fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map(|known| format!(", did you mean `{known}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_word_is_offered() {
        let known = ["listen", "servers", "policies", "Demo"];
        for (word, expected) in [
            ("lisen", Some("listen")),
            ("litsen", Some("listen")),
            ("LISTEN", Some("listen")),
            ("server", Some("servers")),
            ("pol", Some("policies")),
            ("demo2", Some("Demo")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(did_you_mean("servrs", known), ", did you mean `servers`?");
        assert_eq!(did_you_mean("colour", known), "");
    }
}

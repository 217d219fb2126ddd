//! Finds the known word that a mistyped one was meant to be.

/// The nearest of `known`, unless even that one is far off. The beginning of a word is near to it.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let letters = word.chars().count();
    let is_near = |steps: usize, candidate: &str| {
        steps <= letters / 3 + 1 || (letters > 2 && candidate.starts_with(word))
    };
    let distances = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    distances.filter(|(steps, known)| is_near(*steps, known)).min().map(|(_, known)| known)
}

/// ``, did you mean `x`?`` or nothing.
pub(crate) fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map(|known| format!(", did you mean `{known}`?")).unwrap_or_default()
}

/// How many letters must be put in, taken out or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (to, above) in b.iter().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(from != *to)).min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn distances_are_the_least_number_of_edits() {
        let table = [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3)];
        let more = [("flaw", "lawn", 2), ("abc", "abc", 0), ("größe", "grosse", 3)];
        for (a, b, wanted) in table.into_iter().chain(more) {
            assert_eq!(distance(a, b), wanted, "{a} {b}");
            assert_eq!(distance(b, a), wanted, "{b} {a}");
        }
    }

    #[test]
    fn only_a_near_word_is_offered() {
        let known = ["listen", "servers", "policies"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("server", known), Some("servers"));
        assert_eq!(nearest("pol", known), Some("policies"));
        assert_eq!(nearest("colour", known), None);
    }
}

//! The difference between two texts, line by line, with a few lines of context.

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

const CONTEXT_LINES: usize = 2;

#[derive(Serialize)]
pub(crate) struct DiffLine {
    /// `+`, `-`, or a space; `…` between parts that are far from each other.
    pub(crate) sign: &'static str,
    pub(crate) text: String,
}

impl DiffLine {
    /// The class of the line in the page.
    pub(crate) fn class(&self) -> &'static str {
        match self.sign {
            "+" => "added",
            "-" => "removed",
            "…" => "gap",
            _ => "same",
        }
    }
}

/// Empty if the texts are equal.
pub(crate) fn difference(old: &str, new: &str) -> Vec<DiffLine> {
    let diff = TextDiff::from_lines(old, new);
    let mut lines = Vec::new();
    for (number, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if number > 0 {
            lines.push(DiffLine { sign: "…", text: String::new() });
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Insert => "+",
                ChangeTag::Delete => "-",
                ChangeTag::Equal => " ",
            };
            lines.push(DiffLine { sign, text: change.value().trim_end_matches('\n').to_owned() });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn only_changed_lines_and_their_neighbours_are_shown() {
        let old = "a\nb\nc\nd\ne\nf\n";
        let lines = difference(old, "a\nb\nc\nD\ne\nf\n");
        let shown: Vec<String> =
            lines.iter().map(|line| format!("{}{}", line.sign, line.text)).collect();
        assert_eq!(shown, [" b", " c", "-d", "+D", " e", " f"]);
        assert!(difference(old, old).is_empty());
    }
}

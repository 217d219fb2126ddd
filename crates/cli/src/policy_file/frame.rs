//! Shows the line of a problem with a mark under it, like a compiler.

use std::fmt::Write as _;

use policy::{Problem, looks_like_policy};

use crate::output::{Paint, pad, visible, width};

/// A line is cut to this many characters around the mark; policies may be one long line.
const SHOWN_MAX: usize = 100;

#[derive(Clone, Copy)]
pub(crate) enum Severity {
    Error,
    Warning,
}

/// The whole paragraph for one problem, ending in a line break.
pub(super) fn paragraph(
    severity: Severity,
    problem: &Problem,
    file: &str,
    text: &str,
    paint: Paint,
) -> String {
    let mut out = String::new();
    let head = match severity {
        Severity::Error => paint.bad("error:"),
        Severity::Warning => paint.careful("warning:"),
    };
    let _ = writeln!(out, "{head} {}", visible(&problem.message));
    let number = problem.line.to_string();
    let margin = " ".repeat(number.len());
    let position = format!("{}:{}:{}", visible(file), problem.line, problem.column);
    let _ = writeln!(out, "{margin}{} {position}", paint.dim("-->"));
    // The text of a file that is not a policy is not shown: it may be a link to a secret.
    let line = text.lines().nth(problem.line.saturating_sub(1));
    if let Some(line) = line.filter(|_| looks_like_policy(text)) {
        let (shown, mark_at) = window(line, problem.column.saturating_sub(1));
        let bar = paint.dim("|");
        let mark = match severity {
            Severity::Error => paint.bad("^"),
            Severity::Warning => paint.careful("^"),
        };
        let _ = writeln!(out, "{margin} {bar}");
        let _ = writeln!(out, "{} {bar} {shown}", paint.dim(&number));
        let _ = writeln!(out, "{margin} {bar} {}{mark}", pad("", mark_at));
    }
    if let Some(hint) = &problem.hint {
        let _ = writeln!(out, "{margin} {} {}", paint.good("hint:"), visible(hint));
    }
    out
}

/// The part of a line around a character, made visible, and the column of that character.
fn window(line: &str, at: usize) -> (String, usize) {
    let characters: Vec<char> = line.chars().collect();
    let at = at.min(characters.len());
    let start = if characters.len() <= SHOWN_MAX { 0 } else { at.saturating_sub(SHOWN_MAX / 2) };
    let end = characters.len().min(start + SHOWN_MAX);
    let part = |from: usize, to: usize| -> String {
        visible(&characters.iter().skip(from).take(to.saturating_sub(from)).collect::<String>())
    };
    let front = if start > 0 { "…" } else { "" };
    let back = if end < characters.len() { "…" } else { "" };
    let before = format!("{front}{}", part(start, at));
    let shown = format!("{before}{}{back}", part(at, end));
    (shown, width(&before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_under_the_character() {
        assert_eq!(window("abc", 1), ("abc".to_owned(), 1));
        assert_eq!(window("日x", 1), ("日x".to_owned(), 2));
        assert_eq!(window("a\u{7}bc", 2), ("a⟨U+0007⟩bc".to_owned(), 9));
        assert_eq!(window("ab", 9), ("ab".to_owned(), 2));
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let line = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let (shown, at) = window(&line, 500);
        assert_eq!(shown.chars().nth(at), Some('X'));
        assert_eq!(shown.chars().count(), SHOWN_MAX + 2);
    }
}

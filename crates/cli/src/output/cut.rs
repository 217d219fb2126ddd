//! Shortens untrusted text to a width, with control characters made visible.

use super::{visible, width};

/// Cuts the end, as for sentences.
pub(crate) fn cut_end(text: &str, columns: usize) -> String {
    cut(text, columns, 0)
}

/// Cuts the middle, as for names and JSON pointers, whose ends matter.
pub(crate) fn cut_middle(text: &str, columns: usize) -> String {
    cut(text, columns, columns / 2)
}

/// Text that is too wide keeps `end_columns` of its end.
fn cut(text: &str, columns: usize, end_columns: usize) -> String {
    let text = visible(text);
    if width(&text) <= columns {
        return text;
    }
    let mut short: String =
        within(text.chars(), columns.saturating_sub(end_columns + 1)).into_iter().collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short.extend(within(text.chars().rev(), end_columns).into_iter().rev());
    short
}

/// The first characters that fit into this many columns.
fn within(chars: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += width(c.encode_utf8(&mut [0; 4]));
            used <= columns
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_too_wide_is_cut_to_fit() {
        for (text, middle, end) in [
            ("/tools/pay/deny_if/0", "/tools/pay/deny_if/0", "/tools/pay/deny_if/0"),
            ("/tools/a_rather_long_name/deny_if/0", "/tools/a_…/deny_if/0", "/tools/a_rather_lon…"),
            ("日本日本日本日本日本日本", "日本日本…本日本日本", "日本日本日本日本日…"),
            ("says much and then goes on", "says much…en goes on", "says much and then…"),
            ("a\u{1b}[31m", "a⟨U+001B⟩[31m", "a⟨U+001B⟩[31m"),
        ] {
            assert_eq!((cut_middle(text, 20), cut_end(text, 20)), (middle.into(), end.into()));
            assert!(width(&cut_middle(text, 20)) <= 20 && width(&cut_end(text, 20)) <= 20);
        }
    }
}

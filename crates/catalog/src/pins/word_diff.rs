//! Renders the word difference of two texts on one line:
//! `sends the message [-once-] {+and a copy to audit@example.org+} …`.

use unicode_security::skeleton;

use super::visible::visible;

/// With a larger table, the whole middle is shown as replaced. Descriptions never need more.
const CELLS_MAX: usize = 1_000_000;
/// Unchanged words shown on each side of a change.
const CONTEXT_WORDS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

pub(super) fn word_difference(old: &str, new: &str) -> String {
    let before: Vec<&str> = old.split_whitespace().collect();
    let after: Vec<&str> = new.split_whitespace().collect();
    if before == after {
        return format!("only white space changed: \"{}\" → \"{}\"", visible(old), visible(new));
    }
    render(&edits(&before, &after))
}

fn edits<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Edit<'a>> {
    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (before_rest, after_rest) = (&tail(before, head), &tail(after, head));
    let end = before_rest.iter().rev().zip(after_rest.iter().rev()).take_while(|(a, b)| a == b);
    let end = end.count();
    let middle_before = front(before_rest, before_rest.len() - end);
    let middle_after = front(after_rest, after_rest.len() - end);

    let mut out: Vec<Edit<'a>> = front(before, head).iter().map(|w| Edit::Same(w)).collect();
    middle(middle_before, middle_after, &mut out);
    out.extend(tail(before_rest, before_rest.len() - end).iter().map(|w| Edit::Same(w)));
    out
}

fn front<'s, 'a>(words: &'s [&'a str], n: usize) -> &'s [&'a str] {
    words.get(..n).unwrap_or(words)
}

fn tail<'s, 'a>(words: &'s [&'a str], n: usize) -> &'s [&'a str] {
    words.get(n..).unwrap_or(&[])
}

/// Longest common subsequence of the part that differs at both ends.
fn middle<'a>(before: &[&'a str], after: &[&'a str], out: &mut Vec<Edit<'a>>) {
    if before.len().saturating_mul(after.len()) > CELLS_MAX {
        out.extend(before.iter().map(|w| Edit::Removed(w)));
        out.extend(after.iter().map(|w| Edit::Added(w)));
        return;
    }
    let width = after.len() + 1;
    let table = common_lengths(before, after, width);
    let length = |i: usize, j: usize| table.get(i * width + j).copied().unwrap_or(0);
    let (mut i, mut j) = (0, 0);
    loop {
        match (before.get(i), after.get(j)) {
            (Some(a), Some(b)) if a == b => {
                out.push(Edit::Same(a));
                i += 1;
                j += 1;
            }
            (Some(a), b) if b.is_none() || length(i + 1, j) >= length(i, j + 1) => {
                out.push(Edit::Removed(a));
                i += 1;
            }
            (_, Some(b)) => {
                out.push(Edit::Added(b));
                j += 1;
            }
            _ => return,
        }
    }
}

/// `table[i][j]` is the length of the longest common subsequence of the two tails.
fn common_lengths(before: &[&str], after: &[&str], width: usize) -> Vec<u32> {
    let mut table = vec![0_u32; (before.len() + 1) * width];
    for (i, a) in before.iter().enumerate().rev() {
        for (j, b) in after.iter().enumerate().rev() {
            let at = |i: usize, j: usize| table.get(i * width + j).copied().unwrap_or(0);
            let best = if a == b { at(i + 1, j + 1) + 1 } else { at(i + 1, j).max(at(i, j + 1)) };
            if let Some(cell) = table.get_mut(i * width + j) {
                *cell = best;
            }
        }
    }
    table
}

/// Groups adjacent edits of one kind and shortens long unchanged runs.
fn render(edits: &[Edit<'_>]) -> String {
    let groups: Vec<&[Edit<'_>]> =
        edits.chunk_by(|a, b| std::mem::discriminant(a) == std::mem::discriminant(b)).collect();
    let last = groups.len().saturating_sub(1);
    let mut parts = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let spelled = looks_like(group, at.checked_sub(1).and_then(|at| groups.get(at)))
            || looks_like(group, groups.get(at + 1));
        let show = if spelled { spelled_out } else { visible };
        let words: Vec<String> = group.iter().map(|s| show(word_of(*s))).collect();
        match group.first() {
            Some(Edit::Removed(_)) => parts.push(format!("[-{}-]", words.join(" "))),
            Some(Edit::Added(_)) => parts.push(format!("{{+{}+}}", words.join(" "))),
            _ => parts.push(context(&words, at == 0, at == last)),
        }
    }
    parts.join(" ")
}

/// Whether removed and added words look alike, so that a reader cannot see the change.
fn looks_like(group: &[Edit<'_>], other: Option<&&[Edit<'_>]>) -> bool {
    let looks = |group: &[Edit<'_>]| {
        let words: Vec<&str> = group.iter().map(|step| word_of(*step)).collect();
        skeleton(&words.join(" ")).collect::<String>()
    };
    let is_change = |group: &[Edit<'_>]| !matches!(group.first(), None | Some(Edit::Same(_)));
    let other = other.filter(|other| is_change(group) && is_change(other));
    other.is_some_and(|other| looks(group) == looks(other))
}

/// The text with the code point of each non-ASCII character.
fn spelled_out(text: &str) -> String {
    let spell = |c: char| match visible(&c.to_string()) {
        shown if c.is_ascii() || shown.contains("U+") => shown,
        shown => format!("{shown}⟨U+{:04X}⟩", u32::from(c)),
    };
    text.chars().map(spell).collect()
}

fn word_of(step: Edit<'_>) -> &str {
    match step {
        Edit::Same(word) | Edit::Removed(word) | Edit::Added(word) => word,
    }
}

fn context(words: &[String], first: bool, last: bool) -> String {
    let head = if first { 0 } else { CONTEXT_WORDS };
    let foot = if last { 0 } else { CONTEXT_WORDS };
    if words.len() <= head + foot + 1 {
        return words.join(" ");
    }
    let shown_head = words.get(..head).unwrap_or(&[]).join(" ");
    let shown_foot = words.get(words.len() - foot..).unwrap_or(&[]).join(" ");
    [shown_head.as_str(), "…", shown_foot.as_str()]
        .iter()
        .filter(|s| !s.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::word_difference;

    #[test]
    fn each_change_is_shown_with_a_little_context() {
        let long = "a b c d e f g h i j k l m n o p";
        let cases = [
            ("one two three", "one 2 three", "one [-two-] {+2+} three"),
            ("", "hello there", "{+hello there+}"),
            ("gone", "", "[-gone-]"),
            ("a  b", "a b", "only white space changed: \"a  b\" → \"a b\""),
            ("pay now", "pay\u{200b} now", "[-pay-] {+pay⟨U+200B⟩+} now"),
            ("a caf\u{e9}", "a cafe\u{301}", "a [-caf\u{e9}⟨U+00E9⟩-] {+cafe\u{301}⟨U+0301⟩+}"),
            ("pay it", "p\u{430}y it", "[-pay-] {+p\u{430}⟨U+0430⟩y+} it"),
            ("zwölf", "elf", "[-zwölf-] {+elf+}"),
            (long, &format!("{long} z"), "… m n o p {+z+}"),
            (long, &format!("0 {long} z"), "{+0+} a b c d … m n o p {+z+}"),
        ];
        for (old, new, expected) in cases {
            assert_eq!(word_difference(old, new), expected, "{old:?} → {new:?}");
        }
    }

    #[test]
    fn texts_too_long_to_align_are_shown_as_replaced() {
        let words = |c: &str| (0..1_200).map(|n| format!("{c}{n}")).collect::<Vec<_>>().join(" ");
        let shown = word_difference(&words("a"), &words("b"));
        assert!(shown.starts_with("[-a0 a1 ") && shown.ends_with(" b1199+}"));
    }
}

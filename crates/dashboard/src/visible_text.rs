//! Makes hidden characters visible in the text of a page: one that reverses the direction of what follows, or that has
//! no width, would show the owner another call than the one that is sent. Attributes and the contents of form fields
//! stay as they are, because a browser sends them back.

use catalog::pins::{is_hidden, visible};

/// Elements whose content is a value, or is not shown as text.
const KEPT: [&str; 4] = ["textarea", "option", "script", "style"];
const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];
/// They choose between two looks of the character before them.
const SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];
const KEYCAP: char = '\u{20e3}';

/// The page with a code point such as `⟨U+202E⟩` for each hidden character.
pub(crate) fn visible_text(page: String) -> String {
    if !page.contains(is_hidden) {
        return page;
    }
    let mut out = String::with_capacity(page.len() + 64);
    let mut rest = page.as_str();
    while let Some(start) = rest.find('<') {
        let (text, markup) = rest.split_at(start);
        push_text(text, &mut out);
        let (kept, after) = markup.split_at(markup_length(markup));
        out.push_str(kept);
        rest = after;
    }
    push_text(rest, &mut out);
    out
}

/// The length of a tag, with the content of an element whose content is kept.
fn markup_length(markup: &str) -> usize {
    let tag = markup.find('>').map_or(markup.len(), |end| end + 1);
    let is_kept = |name: &&str| {
        let after = markup.get(1..).and_then(|tag| tag.strip_prefix(*name));
        after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    let Some(name) = KEPT.into_iter().find(is_kept) else { return tag };
    let end = markup.get(tag..).and_then(|content| content.find(&format!("</{name}")));
    end.map_or(markup.len(), |end| tag + end)
}

fn push_text(text: &str, out: &mut String) {
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if is_hidden(c) && !is_part_of_glyph(before, c, chars.peek().copied()) {
            out.push_str(&visible(c.encode_utf8(&mut [0; 4])));
        } else {
            out.push(c);
        }
        before = Some(c);
    }
}

/// Joiners and selectors that scripts and emoji are written with. They follow a character that is not ASCII, so they
/// cannot split a name or a number.
fn is_part_of_glyph(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return false };
    let follows = !before.is_ascii() && !is_hidden(before);
    let is_keycap = after == Some(KEYCAP) && (before.is_ascii_digit() || "#*".contains(before));
    (SELECTORS.contains(&c) && (follows || is_keycap))
        || (JOINERS.contains(&c) && (follows || SELECTORS.contains(&before)))
}

#[cfg(test)]
mod tests {
    use super::visible_text;

    #[test]
    fn hidden_characters_of_the_text_are_visible_and_values_stay() {
        let table = [
            ("<p>plain · text…</p>", "<p>plain · text…</p>"),
            ("<b>100\u{202e}001</b>", "<b>100⟨U+202E⟩001</b>"),
            ("al\u{200b}ice\u{feff}", "al⟨U+200B⟩ice⟨U+FEFF⟩"),
            ("<i title=\"\u{202e}x\">\u{2066}y</i>", "<i title=\"\u{202e}x\">⟨U+2066⟩y</i>"),
            (
                "<textarea name=\"t\">\n\u{202e}</textarea>\u{202e}",
                "<textarea name=\"t\">\n\u{202e}</textarea>⟨U+202E⟩",
            ),
            (
                "<option>\u{200b}</option><options>\u{200b}",
                "<option>\u{200b}</option><options>⟨U+200B⟩",
            ),
            ("line\n\ttab\u{1b}[2J", "line\n\ttab⟨U+001B⟩[2J"),
            ("<textarea>\u{202e}", "<textarea>\u{202e}"),
            ("\u{202e}<", "⟨U+202E⟩<"),
        ];
        for (page, expected) in table {
            assert_eq!(visible_text(page.to_owned()), expected, "{page:?}");
        }
    }

    #[test]
    fn scripts_and_emoji_keep_what_they_are_written_with() {
        let kept = ["❤\u{fe0f}\u{200d}🔥", "👩\u{200d}👧", "1\u{fe0f}\u{20e3}", "می\u{200c}خواهم"];
        for text in kept {
            assert_eq!(visible_text(text.to_owned()), text);
        }
        for text in
            ["a\u{200d}b", "a\u{fe0f}b", "é\u{fe0f}\u{fe0f}", "\u{200d}", "é\u{200d}\u{200d}x"]
        {
            assert!(visible_text(text.to_owned()).contains('⟨'), "{text:?}");
        }
    }
}

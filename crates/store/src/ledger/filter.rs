//! The filter of a history query.

use super::encode;
use super::reader::Candidate;
use super::row::{AuditRow, RowKind};
use super::timestamp;

/// All conditions that are set must hold. Names must be equal; `text` may occur anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub grant: Option<String>,
    pub server: Option<String>,
    /// A tool, a resource's URI, a prompt or a skill.
    pub subject: Option<String>,
    pub decision: Option<String>,
    pub outcome: Option<String>,
    /// From this wall clock time on, and before that one.
    pub since_us: Option<i64>,
    pub until_us: Option<i64>,
    pub seq_min: Option<u64>,
    pub seq_max: Option<u64>,
    /// Occurs anywhere in the rows of an entry, ignoring ASCII case.
    pub text: Option<String>,
    /// Only requests, only notes, or both.
    pub only: Option<super::entry::EntryKind>,
}

impl Filter {
    /// Whether the first row of an entry can match.
    pub(crate) fn may_keep(&self, row: &AuditRow<'_>) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        self.seq_min.is_none_or(|seq| row.seq >= seq)
            && self.seq_max.is_none_or(|seq| row.seq <= seq)
            && self.is_within(&row.time)
            && is(&self.grant, &row.grant)
            && is(&self.server, &row.server)
            && self
                .subject
                .as_deref()
                .is_none_or(|wanted| row.kind == RowKind::Decision && row.subject().1 == wanted)
    }

    fn is_within(&self, time: &str) -> bool {
        if self.since_us.is_none() && self.until_us.is_none() {
            return true;
        }
        let time = timestamp::parse(time).unwrap_or_default();
        self.since_us.is_none_or(|since| time >= since)
            && self.until_us.is_none_or(|until| time < until)
    }

    /// Whether rows between two times, in either order, may match; an unknown time may be any.
    pub(crate) fn meets(&self, one: Option<i64>, other: Option<i64>) -> bool {
        let (Some(one), Some(other)) = (one, other) else { return true };
        let (earliest, latest) = (one.min(other), one.max(other));
        self.since_us.is_none_or(|since| latest >= since)
            && self.until_us.is_none_or(|until| earliest < until)
    }

    /// The remaining conditions, once all rows of the entry were read.
    pub(crate) fn keeps(&self, candidate: &Candidate) -> bool {
        let entry = &candidate.entry;
        self.only.is_none_or(|only| entry.kind == only)
            && self.decision.as_deref().is_none_or(|wanted| entry.decision == wanted)
            && self.outcome.as_deref().is_none_or(|wanted| entry.outcome == wanted)
            && (candidate.has_text || self.text.is_none())
    }

    /// What to look for in the rows of a segment.
    pub(crate) fn searched(&self) -> Option<SearchedText> {
        self.text.as_deref().map(SearchedText::new)
    }
}

/// A text to find in rows, ignoring ASCII case.
pub(crate) struct SearchedText {
    /// The text as is, and as a row escapes it: quotes and control characters are escaped there.
    spellings: Vec<Vec<u8>>,
}

impl SearchedText {
    fn new(text: &str) -> SearchedText {
        let mut escaped = Vec::new();
        encode::write_escaped(text, &mut escaped);
        let mut spellings = vec![text.as_bytes().to_vec()];
        if escaped != text.as_bytes() {
            spellings.push(escaped);
        }
        SearchedText { spellings }
    }

    pub(crate) fn is_in(&self, line: &[u8]) -> bool {
        self.spellings.iter().any(|wanted| holds(line, wanted))
    }
}

fn holds(line: &[u8], wanted: &[u8]) -> bool {
    let Some(first) = wanted.first() else { return true };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    memchr::memchr2_iter(lower, upper, line).any(|at| {
        let found = line.get(at..at + wanted.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::SearchedText;

    #[test]
    fn a_text_is_found_in_any_case_and_as_rows_escape_it() {
        let table: [(&str, &[u8], bool); 8] = [
            ("send", b"{\"tool\":\"SEND_money\"}", true),
            ("SEND", b"a sen send", true),
            ("money", b"mone", false),
            ("", b"anything", true),
            ("say \"hi\"", b"{\"x\":\"say \\\"hi\\\"\"}", true),
            ("\u{e9}t\u{e9}", "un \u{e9}T\u{e9}".as_bytes(), true),
            ("aab", b"aaab", true),
            ("x", b"", false),
        ];
        for (text, line, expected) in table {
            assert_eq!(SearchedText::new(text).is_in(line), expected, "{text}");
        }
    }
}

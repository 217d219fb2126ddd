//! Which entries a reader wants.

use super::reader::Candidate;
use super::row::{Kind, Row};
use super::stamp;

/// Every condition that is set must hold. Names must be equal; `text` may stand anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub grant: Option<String>,
    pub server: Option<String>,
    /// A tool, a resource's URI or a prompt.
    pub subject: Option<String>,
    pub decision: Option<String>,
    pub outcome: Option<String>,
    /// From this wall clock time on, and before that one.
    pub since_us: Option<i64>,
    pub until_us: Option<i64>,
    pub seq_min: Option<u64>,
    pub seq_max: Option<u64>,
    /// Found anywhere in the rows of an entry, whatever the case of its ASCII letters.
    pub text: Option<String>,
    /// Only requests, only notes, or both.
    pub only: Option<super::entry::EntryKind>,
}

impl Filter {
    /// What the row that begins an entry can say about it.
    pub(crate) fn may_keep(&self, row: &Row<'_>) -> bool {
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
                .is_none_or(|wanted| row.kind == Kind::Decision && row.subject().1 == wanted)
    }

    fn is_within(&self, time: &str) -> bool {
        if self.since_us.is_none() && self.until_us.is_none() {
            return true;
        }
        let time = stamp::parse(time).unwrap_or_default();
        self.since_us.is_none_or(|since| time >= since)
            && self.until_us.is_none_or(|until| time < until)
    }

    /// The rest, when all rows of the entry were seen.
    pub(crate) fn keeps(&self, candidate: &Candidate) -> bool {
        let entry = &candidate.entry;
        self.only.is_none_or(|only| entry.kind == only)
            && self.decision.as_deref().is_none_or(|wanted| entry.decision == wanted)
            && self.outcome.as_deref().is_none_or(|wanted| entry.outcome == wanted)
            && (candidate.has_text || self.text.is_none())
    }

    pub(crate) fn has_text(&self, line: &[u8]) -> bool {
        self.text.as_deref().is_some_and(|text| {
            let wanted = text.as_bytes();
            wanted.is_empty() || line.windows(wanted.len()).any(|w| w.eq_ignore_ascii_case(wanted))
        })
    }
}

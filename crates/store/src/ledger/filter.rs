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

    /// The text as is, or as a row escapes it: quotes and control characters are escaped there.
    pub(crate) fn has_text(&self, line: &[u8]) -> bool {
        self.text.as_deref().is_some_and(|text| {
            let mut spelled = Vec::new();
            encode::write_escaped(text, &mut spelled);
            holds(line, text.as_bytes()) || (spelled != text.as_bytes() && holds(line, &spelled))
        })
    }
}

fn holds(line: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || line.windows(wanted.len()).any(|w| w.eq_ignore_ascii_case(wanted))
}

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
    /// RFC 3339 in UTC with microseconds, as [`Filter::since_us`] writes it.
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
    pub seq_min: Option<u64>,
    pub seq_max: Option<u64>,
    /// Found anywhere in the rows of an entry, whatever the case of its ASCII letters.
    pub text: Option<String>,
    /// Only requests, only notes, or both.
    pub only: Option<super::entry::EntryKind>,
}

impl Filter {
    /// From this wall clock time on.
    #[must_use]
    pub fn since_us(mut self, wall_us: i64) -> Filter {
        self.since = Some(stamp::text(wall_us));
        self
    }

    /// Before this wall clock time.
    #[must_use]
    pub fn until_us(mut self, wall_us: i64) -> Filter {
        self.until = Some(stamp::text(wall_us));
        self
    }

    /// What the row that begins an entry can say about it.
    pub(crate) fn may_keep(&self, row: &Row<'_>) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let time = row.time.as_ref();
        self.seq_min.is_none_or(|seq| row.seq >= seq)
            && self.seq_max.is_none_or(|seq| row.seq <= seq)
            && self.since.as_deref().is_none_or(|since| time >= since)
            && self.until.as_deref().is_none_or(|until| time < until)
            && is(&self.grant, &row.grant)
            && is(&self.server, &row.server)
            && self
                .subject
                .as_deref()
                .is_none_or(|wanted| row.kind == Kind::Decision && row.subject().1 == wanted)
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

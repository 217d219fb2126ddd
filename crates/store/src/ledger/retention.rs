//! Retires the oldest rows, by age and by size, in whole segments. First a row records which rows
//! leave and how they ended, so that the rest can still be verified.

use super::error::LedgerError;
use super::paths::SegmentHead;
use super::row_writer::{self, Archive};
use super::shared::{LockedLedger, SharedLedger};
use super::source::LogSource;
use super::state::Archived;
use super::timestamp;

/// How long rows are kept; an unset bound keeps them for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    pub age_seconds_max: Option<u64>,
    pub bytes_max: Option<u64>,
}

/// The newest segment that may be retired, and how it ended.
struct RetiredSegments {
    segment: u32,
    last_seq: u64,
    last_hash: String,
}

impl SharedLedger {
    pub(crate) fn retire(&self) -> Result<(), LedgerError> {
        if self.options.retention == Retention::default() {
            return Ok(());
        }
        self.remove_retired()?;
        if self.with_lock(|locked| locked.archive(&self.source, &self.options.retention))? {
            self.remove_retired()?;
        }
        Ok(())
    }

    /// Removes the segments that a row names as retired, once that row is on disk; also after a
    /// crash between the two.
    fn remove_retired(&self) -> Result<(), LedgerError> {
        self.flush.sync();
        // The sealed row must not be among the retired ones.
        self.seal_last()?;
        // A failed flush makes this fail.
        self.with_lock(|locked| {
            let Some(archived) = &locked.core.state.archived else { return Ok(()) };
            self.source.remove(archived.segment, archived.last_seq)
        })
    }
}

impl LockedLedger<'_> {
    /// Writes which rows will be retired; false if none will.
    fn archive(&mut self, source: &LogSource, retention: &Retention) -> Result<bool, LedgerError> {
        let segments = source.segments()?;
        let Some((first, retired)) = self.choose(source, &segments, retention)? else {
            return Ok(false);
        };
        let archive = Archive {
            segment: retired.segment,
            first_seq: first.seq,
            last_seq: retired.last_seq,
            last_hash: &retired.last_hash,
            words: "these rows are retired",
        };
        self.append(|header, out| row_writer::archive(header, &archive, out))?;
        self.core.state.archived = Some(Archived {
            segment: retired.segment,
            last_seq: retired.last_seq,
            last_hash: retired.last_hash,
            time: timestamp::text(self.now.wall_us),
        });
        Ok(true)
    }

    fn choose(
        &self,
        source: &LogSource,
        segments: &[u32],
        retention: &Retention,
    ) -> Result<Option<(SegmentHead, RetiredSegments)>, LedgerError> {
        let mut bytes = total_bytes(source, segments)?;
        let mut chosen = None;
        for (number, next) in segments.iter().zip(segments.iter().skip(1)) {
            let Some(after) = source.head(*next)? else { break };
            let old = retention.age_seconds_max.is_some_and(|seconds| {
                after.tick.saturating_add(seconds.saturating_mul(1_000_000)) <= self.tick
            });
            let large = retention.bytes_max.is_some_and(|bytes_max| bytes > bytes_max);
            let needed = self.core.state.oldest_needed().is_some_and(|seq| seq < after.seq);
            if !(old || large) || needed {
                break;
            }
            bytes = bytes.saturating_sub(source.bytes(*number)?);
            chosen = Some(RetiredSegments {
                segment: *number,
                last_seq: after.seq.saturating_sub(1),
                last_hash: after.previous,
            });
        }
        let (Some(retired), Some(oldest)) = (chosen, segments.first()) else { return Ok(None) };
        Ok(source.head(*oldest)?.map(|first| (first, retired)))
    }
}

fn total_bytes(source: &LogSource, segments: &[u32]) -> Result<u64, LedgerError> {
    segments.iter().map(|number| source.bytes(*number)).sum()
}

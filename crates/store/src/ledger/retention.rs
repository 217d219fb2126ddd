//! Lets the oldest rows go, by age and by size, whole segments at a time. First a row says which rows
//! leave and how they ended, so that what stays can still be verified.

use std::fs;

use super::error::LedgerError;
use super::inner::{Inner, Turn};
use super::places::{Places, SegmentHead};
use super::rows::{self, Archive};
use super::stamp;
use super::state::Archived;

/// How long rows are kept; what is not set does not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    pub age_seconds_max: Option<u64>,
    pub bytes_max: Option<u64>,
}

/// The newest segment that may go, and how it ended.
struct Retired {
    segment: u32,
    last_seq: u64,
    last_hash: String,
}

impl Inner {
    pub(crate) fn retire(&self) -> Result<(), LedgerError> {
        if self.options.retention == Retention::default() {
            return Ok(());
        }
        self.remove_retired()?;
        if self.turn(|turn| turn.archive(&self.options.retention))? {
            self.remove_retired()?;
        }
        Ok(())
    }

    /// Removes what a row has said is retired, once that row is on disk; also after a crash between
    /// the two.
    fn remove_retired(&self) -> Result<(), LedgerError> {
        self.flush.sync();
        // The sealed row must not be among those that go.
        self.seal_last()?;
        // A flush that failed makes this turn fail.
        self.turn(|turn| {
            let Some(archived) = &turn.core.state.archived else { return Ok(()) };
            for number in self.places.segments()?.into_iter().take_while(|n| *n <= archived.segment)
            {
                let path = self.places.segment(number);
                fs::remove_file(&path).map_err(LedgerError::io("remove", &path))?;
            }
            Ok(())
        })
    }
}

impl Turn<'_> {
    /// Says which rows will leave; false if none will.
    fn archive(&mut self, retention: &Retention) -> Result<bool, LedgerError> {
        let places = self.core.journal.places.clone();
        let segments = places.segments()?;
        let Some((first, retired)) = self.choose(&places, &segments, retention)? else {
            return Ok(false);
        };
        let archive = Archive {
            segment: retired.segment,
            first_seq: first.seq,
            last_seq: retired.last_seq,
            last_hash: &retired.last_hash,
            words: "these rows are retired",
        };
        self.append(|stamp, out| rows::archive(stamp, &archive, out))?;
        self.core.state.archived = Some(Archived {
            segment: retired.segment,
            last_seq: retired.last_seq,
            last_hash: retired.last_hash,
            time: stamp::text(self.now.wall_us),
        });
        Ok(true)
    }

    fn choose(
        &self,
        places: &Places,
        segments: &[u32],
        retention: &Retention,
    ) -> Result<Option<(SegmentHead, Retired)>, LedgerError> {
        let mut bytes = total_bytes(places, segments);
        let mut chosen = None;
        for (number, next) in segments.iter().zip(segments.iter().skip(1)) {
            let Some(after) = head(places, *next)? else { break };
            let old = retention.age_seconds_max.is_some_and(|seconds| {
                after.tick.saturating_add(seconds.saturating_mul(1_000_000)) <= self.tick
            });
            let large = retention.bytes_max.is_some_and(|bytes_max| bytes > bytes_max);
            let needed = self.core.state.oldest_needed().is_some_and(|seq| seq < after.seq);
            if !(old || large) || needed {
                break;
            }
            bytes = bytes.saturating_sub(total_bytes(places, &[*number]));
            chosen = Some(Retired {
                segment: *number,
                last_seq: after.seq.saturating_sub(1),
                last_hash: after.previous,
            });
        }
        let (Some(retired), Some(oldest)) = (chosen, segments.first()) else { return Ok(None) };
        Ok(head(places, *oldest)?.map(|first| (first, retired)))
    }
}

fn head(places: &Places, number: u32) -> Result<Option<SegmentHead>, LedgerError> {
    let path = places.segment(number);
    SegmentHead::read(&path).map_err(LedgerError::io("read", &path))
}

fn total_bytes(places: &Places, segments: &[u32]) -> u64 {
    let sizes = segments.iter().map(|n| fs::metadata(places.segment(*n)).map_or(0, |m| m.len()));
    sizes.sum()
}

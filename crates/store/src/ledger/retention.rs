//! Lets the oldest rows go, by age and by size, whole segments at a time. First a row says which rows
//! leave and how they ended, so that what stays can still be verified.

use std::fs;

use super::error::LedgerError;
use super::inner::Turn;
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

impl Turn<'_> {
    pub(crate) fn retire(&mut self, retention: &Retention) -> Result<(), LedgerError> {
        if *retention == Retention::default() {
            return Ok(());
        }
        let places = self.core.journal.places.clone();
        self.remove_retired(&places)?;
        let segments = places.segments()?;
        let Some((first, retired)) = self.choose(&places, &segments, retention)? else {
            return Ok(());
        };
        let archive = Archive {
            segment: retired.segment,
            first_seq: first.seq,
            last_seq: retired.last_seq,
            last_hash: &retired.last_hash,
            words: "these rows are retired",
        };
        self.append(|stamp, out| rows::archive(stamp, &archive, out))?;
        let tail = &self.core.journal.tail;
        tail.file.sync_data().map_err(LedgerError::io("flush", &tail.path))?;
        self.core.state.archived = Some(Archived {
            segment: retired.segment,
            last_seq: retired.last_seq,
            last_hash: retired.last_hash,
            time: stamp::text(self.now.wall_us),
        });
        self.remove_retired(&places)
    }

    /// Removes what a row has said is retired; also after a crash between the two.
    fn remove_retired(&self, places: &Places) -> Result<(), LedgerError> {
        let Some(archived) = &self.core.state.archived else { return Ok(()) };
        for number in places.segments()?.into_iter().take_while(|n| *n <= archived.segment) {
            let path = places.segment(number);
            fs::remove_file(&path).map_err(LedgerError::io("remove", &path))?;
        }
        Ok(())
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

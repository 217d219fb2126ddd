//! The sync mark: how far the journal is known to be on disk. Before it a broken row is damage;
//! after it, it is what a power cut leaves behind.

use std::io;
use std::path::PathBuf;

use platform::files::AtOffset as _;

use super::chain;
use super::error::LedgerError;
use super::paths::{self, LogPaths};

/// A position in the journal: a byte offset of a segment. Ordered as the journal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) segment: u32,
    pub(crate) offset: u64,
}

const OFFSET_BITS: u32 = 40;

impl Position {
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.segment) << OFFSET_BITS | self.offset
    }

    pub(crate) fn unpack(packed: u64) -> Position {
        let segment = u32::try_from(packed >> OFFSET_BITS).unwrap_or(u32::MAX);
        Position { segment, offset: packed & ((1 << OFFSET_BITS) - 1) }
    }
}

/// Segment, offset and the first digits of their hash: a torn mark is ignored.
fn text(position: Position) -> String {
    let place = format!("{:08} {:016}", position.segment, position.offset);
    let check = chain::link(&chain::GENESIS, place.as_bytes());
    format!("{place} {}\n", chain::as_text(&check).get(..16).unwrap_or_default())
}

fn parse(found: &str) -> Option<Position> {
    let mut parts = found.split(' ');
    let position =
        Position { segment: parts.next()?.parse().ok()?, offset: parts.next()?.parse().ok()? };
    (text(position) == found).then_some(position)
}

#[derive(Debug)]
pub(crate) struct SyncMark {
    path: PathBuf,
}

impl SyncMark {
    pub(crate) fn open(paths: &LogPaths) -> Result<SyncMark, LedgerError> {
        let path = paths.mark();
        paths::open_or_create(&path).map_err(LedgerError::io("open", &path))?;
        Ok(SyncMark { path })
    }

    /// The last mark; none if it is missing or torn.
    pub(crate) fn read(paths: &LogPaths) -> Option<Position> {
        parse(&std::fs::read_to_string(paths.mark()).ok()?)
    }

    /// Never moves the mark back: another process may have flushed more. Reopened each time,
    /// because the folder may have been restored from a copy.
    pub(crate) fn advance(&self, position: Position) -> io::Result<()> {
        let file = match paths::open_or_create(&self.path) {
            // The folder is missing; an old mark only claims less than is true.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let mut found = vec![0; text(position).len()];
        let known = match file.read_at(&mut found, 0) {
            Ok(_) => std::str::from_utf8(&found).ok().and_then(parse),
            Err(_) => None,
        };
        if known.is_some_and(|known| known >= position) {
            return Ok(());
        }
        file.write_all_at(text(position).as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Position, parse, text};

    #[test]
    fn a_mark_reads_back_and_a_torn_one_does_not() {
        let position = Position { segment: 3, offset: 4_194_304 };
        let whole = text(position);
        assert_eq!(parse(&whole), Some(position));
        for cut in 0..whole.len() {
            assert_eq!(whole.get(..cut).and_then(parse), None);
        }
        assert_eq!(parse(&whole.replace('4', "5")), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn positions_are_ordered_also_when_packed() {
        let positions = [(0, 0), (1, 0), (1, 5), (2, 1), (70_000, 1 << 39)];
        let packed: Vec<u64> = positions
            .iter()
            .map(|(segment, offset)| Position { segment: *segment, offset: *offset }.pack())
            .collect();
        assert!(packed.is_sorted());
        assert!(packed.iter().all(|p| Position::unpack(*p).pack() == *p));
    }
}

//! The paths of the ledger's files in the audit folder, and how the files are created.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use platform::files::{open_no_follow, open_no_follow_nor_wait};

use super::chain::HASH_BYTES;
use super::error::LedgerError;
use crate::home::private;

const SUFFIX: &str = "log";

#[derive(Clone, Debug)]
pub(crate) struct LogPaths {
    folder: PathBuf,
}

impl LogPaths {
    /// Creates the folder if it is missing.
    pub(crate) fn create(folder: &Path) -> Result<LogPaths, LedgerError> {
        let folder = std::path::absolute(folder).map_err(LedgerError::io("find", folder))?;
        let paths = LogPaths { folder };
        for path in [paths.folder.clone(), paths.writers()] {
            match private::make_folder(&path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(LedgerError::io("make", &path)(e));
                }
                _ => {}
            }
        }
        Ok(paths)
    }

    pub(crate) fn existing(folder: &Path) -> LogPaths {
        LogPaths { folder: folder.to_owned() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn mark(&self) -> PathBuf {
        self.folder.join("synced")
    }

    /// Ledger time, stored while no rows are written.
    pub(crate) fn clock(&self) -> PathBuf {
        self.folder.join("clock")
    }

    /// The budget for rows of requests without a grant; see `row_budget`.
    pub(crate) fn row_budget(&self) -> PathBuf {
        self.folder.join("unauthenticated")
    }

    /// The last row under a key; see `seal`.
    pub(crate) fn seal(&self) -> PathBuf {
        self.folder.join("seal")
    }

    pub(crate) fn seal_tmp(&self) -> PathBuf {
        self.folder.join("seal.tmp")
    }

    pub(crate) fn writers(&self) -> PathBuf {
        self.folder.join("writers")
    }

    /// A segment being created; it gets its name when it is complete.
    pub(crate) fn next_segment(&self) -> PathBuf {
        self.folder.join("next.tmp")
    }

    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number:08}.{SUFFIX}"))
    }

    /// An unused name for truncated bytes.
    pub(crate) fn torn(&self, segment: u32, offset: u64) -> PathBuf {
        let name = |copy: u32| self.folder.join(format!("torn-{segment:08}-{offset}-{copy}.bin"));
        (0..1_000).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0))
    }

    /// Numbers of the existing segments, in order.
    pub(crate) fn segments(&self) -> Result<Vec<u32>, LedgerError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(LedgerError::Gone(self.segment(1)));
            }
            Err(e) => return Err(LedgerError::io("read", &self.folder)(e)),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(LedgerError::io("read", &self.folder))?.file_name();
            numbers.extend(name.to_str().and_then(segment_number));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(SUFFIX)?.strip_suffix('.')?;
    let plain = digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Opens for reading and appending; never creates it, never follows a link.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    open_no_follow(OpenOptions::new().read(true).append(true), path)
}

pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    open_no_follow_nor_wait(OpenOptions::new().read(true), path)
}

pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    open_no_follow_nor_wait(OpenOptions::new().read(true).write(true), path)
}

pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    open_no_follow(platform::private::if_created(&mut options), path)
}

/// A new empty file, replacing any existing one.
pub(crate) fn create_replacing(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    private::create_new(path)
}

/// The header of a segment, without the counters that may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) seq: u64,
    pub(crate) time: String,
    pub(crate) tick: u64,
    /// Hash of the last row of the previous segment.
    pub(crate) previous: String,
}

impl SegmentHead {
    pub(crate) fn read(path: &Path) -> io::Result<Option<SegmentHead>> {
        const HEAD_BYTES_MAX: u64 = 1_024;
        let mut bytes = Vec::new();
        File::open(path)?.take(HEAD_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(SegmentHead::parse(&bytes))
    }

    /// A state row begins with these fields in this order; see `docs/reference/audit-format.md`.
    pub(crate) fn parse(bytes: &[u8]) -> Option<SegmentHead> {
        let json = bytes.get(HASH_BYTES + 1..)?.utf8_chunks().next()?.valid();
        let rest = json.strip_prefix(r#"{"kind":"state","seq":"#)?;
        let (seq, rest) = rest.split_once(r#","time":""#)?;
        let (time, rest) = rest.split_once(r#"","tick":"#)?;
        let (tick, rest) = rest.split_once(r#",""#)?;
        let (_, rest) = rest.split_once(r#"previous":""#)?;
        let (previous, _) = rest.split_once('"')?;
        Some(SegmentHead {
            seq: seq.parse().ok()?,
            time: time.to_owned(),
            tick: tick.parse().ok()?,
            previous: previous.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::{SegmentHead, segment_number};

    #[test]
    fn only_segment_names_are_segments() {
        let table = [
            ("00000001.log", Some(1)),
            ("00012345.log", Some(12_345)),
            ("1.log", None),
            ("+0000001.log", None),
            ("00000001.log.bak", None),
            ("00000001log", None),
            ("lock", None),
        ];
        for (name, expected) in table {
            assert_eq!(segment_number(name), expected, "{name}");
        }
    }

    #[test]
    fn a_segment_head_is_read_without_its_state() {
        let previous = "e".repeat(64);
        let hash = "a".repeat(64);
        let text = format!(
            r#"{hash} {{"kind":"state","seq":9,"time":"2026-01-01T00:00:00.000000Z","tick":5,"format":1,"segment":2,"previous":"{previous}","state":{{"coun"#
        );
        let head = SegmentHead::parse(text.as_bytes()).unwrap();
        assert_eq!((head.seq, head.tick, head.previous), (9, 5, previous));
        assert_eq!(SegmentHead::parse(b"garbage"), None);
    }
}

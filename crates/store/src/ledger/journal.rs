//! The open end of the journal: the segment being written, how far it was read, and appending to it
//! with one write.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use platform::files::{FileId, NamedFile};

use super::chain::{self, HASH_BYTES, Hash};
use super::error::LedgerError;
use super::lock::FileLock;
use super::paths::{self, LogPaths};
use super::postgres_log::PostgresLog;
use super::sync_mark::Position;

/// A buffer that grew for a state row is not kept at that size.
const BATCH_BYTES_KEPT: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) log: LogStorage,
    batch: Batch,
}

/// Where the rows are.
#[derive(Debug)]
pub(crate) enum LogStorage {
    Files(FileLog),
    Postgres(PostgresLog),
}

/// A folder of segment files, with the lock between the processes that share it.
#[derive(Debug)]
pub(crate) struct FileLog {
    pub(crate) paths: LogPaths,
    pub(crate) lock: FileLock,
    pub(crate) tail: Tail,
}

/// How far this process knows the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) segment: u32,
    /// End of the last row, where the next one begins.
    pub(crate) offset: u64,
    /// End of the state row.
    pub(crate) body_start: u64,
    pub(crate) head: Head,
}

impl Cursor {
    /// The beginning of a segment that follows `head`.
    pub(crate) fn before(segment: u32, head: Head) -> Cursor {
        Cursor { segment, offset: 0, body_start: 0, head: Head { closed: false, ..head } }
    }
}

/// The open segment file, which ends at the cursor.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) cursor: Cursor,
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    named: NamedFile,
    /// Distinguishes the file from another one of its name.
    pub(crate) id: FileId,
}

/// The last row of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
    /// The row closed its segment; the next row starts another.
    pub(crate) closed: bool,
}

impl Head {
    pub(crate) const GENESIS: Head = Head { seq: 0, hash: chain::GENESIS, closed: false };
}

/// Rows to be written together.
#[derive(Debug)]
struct Batch {
    bytes: Vec<u8>,
    head: Head,
}

/// The result of checking the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailCheck {
    Same,
    /// Others have written; the segment now ends here.
    Grown(u64),
}

impl Tail {
    pub(crate) fn open(paths: &LogPaths, segment: u32) -> Result<Tail, LedgerError> {
        let path = paths.segment(segment);
        let file = paths::open_to_append(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => LedgerError::Gone(path.clone()),
            _ => LedgerError::io("open", &path)(e),
        })?;
        let id = FileId::of(&file).map_err(LedgerError::io("look at", &path))?;
        let named = NamedFile::new(&path).map_err(LedgerError::io("open", &path))?;
        Ok(Tail {
            cursor: Cursor::before(segment, Head::GENESIS),
            file: Arc::new(file),
            path,
            named,
            id,
        })
    }

    pub(crate) fn position(&self) -> Position {
        Position { segment: self.cursor.segment, offset: self.cursor.offset }
    }

    /// Whether the segment is still the file of that name, and its length. By name, because a file
    /// that was moved or replaced can still be written to while no reader will ever see it.
    pub(crate) fn check(&self) -> Result<TailCheck, LedgerError> {
        let found = self.named.find().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                LedgerError::Gone(self.path.clone())
            }
            _ => LedgerError::io("look at", &self.path)(e),
        })?;
        if found.id != self.id {
            return Err(self.replaced("another file has its name"));
        }
        let size = found.bytes;
        match size.cmp(&self.cursor.offset) {
            std::cmp::Ordering::Equal => Ok(TailCheck::Same),
            std::cmp::Ordering::Greater => Ok(TailCheck::Grown(size)),
            std::cmp::Ordering::Less => {
                Err(self
                    .replaced(&format!("it ends at byte {size} instead of {}", self.cursor.offset)))
            }
        }
    }

    pub(crate) fn replaced(&self, why: &str) -> LedgerError {
        LedgerError::Replaced { path: self.path.clone(), why: why.to_owned() }
    }
}

impl Journal {
    pub(crate) fn new(log: LogStorage) -> Journal {
        let head = log.cursor().head;
        Journal { log, batch: Batch { bytes: Vec::new(), head } }
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        self.log.cursor()
    }

    /// The last row that is not in the batch.
    pub(crate) fn head(&self) -> Head {
        self.cursor().head
    }

    /// Drops unwritten rows and continues from the last row.
    pub(crate) fn begin(&mut self) {
        self.batch.bytes.clear();
        self.batch.head = self.head();
    }

    /// The number of the next row.
    pub(crate) fn next_seq(&self) -> u64 {
        self.batch.head.seq + 1
    }

    /// Hash of the row before the next one.
    pub(crate) fn last_hash(&self) -> Hash {
        self.batch.head.hash
    }

    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch.bytes.len()
    }

    /// Where the journal ends once the batch is written.
    pub(crate) fn end(&self) -> Position {
        match &self.log {
            LogStorage::Files(log) => {
                let Position { segment, offset } = log.tail.position();
                let batch = u64::try_from(self.batch.bytes.len()).unwrap_or(0);
                Position { segment, offset: offset + batch }
            }
            LogStorage::Postgres(log) => log.position(self.batch.head.seq),
        }
    }

    /// Adds a row to the batch; `write` writes its JSON.
    pub(crate) fn row(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
        add_row(&mut self.batch.bytes, &mut self.batch.head, write);
        self.batch.head.seq
    }

    /// Writes the batch with one write. Either all of it is in the log or none. On Postgres it is
    /// in the log when the lock was released.
    pub(crate) fn commit(&mut self) -> Result<(), LedgerError> {
        let Batch { bytes, head } = &mut self.batch;
        let written = match &mut self.log {
            LogStorage::Files(log) => log.tail.write(bytes, *head),
            LogStorage::Postgres(log) => {
                log.add(bytes, *head);
                Ok(())
            }
        };
        if written.is_err() {
            self.begin();
            return written;
        }
        self.batch.bytes.clear();
        self.batch.bytes.shrink_to(BATCH_BYTES_KEPT);
        Ok(())
    }

    /// Closes the segment with a last row.
    pub(crate) fn close_segment(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), LedgerError> {
        self.begin();
        self.row(write);
        self.batch.head.closed = true;
        self.commit()
    }

    /// Starts the next segment with its first row, which is complete when the segment gets its
    /// name. The flusher makes both durable, so that no thread waits for the disk while holding the
    /// lock.
    pub(crate) fn open_segment(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), LedgerError> {
        let head = self.head();
        match &mut self.log {
            LogStorage::Files(log) => log.tail = make_segment(&log.paths, number, head, write)?,
            LogStorage::Postgres(log) => log.open_segment(number, write),
        }
        self.begin();
        Ok(())
    }
}

impl LogStorage {
    fn cursor(&self) -> &Cursor {
        match self {
            LogStorage::Files(log) => &log.tail.cursor,
            LogStorage::Postgres(log) => log.cursor(),
        }
    }
}

impl Tail {
    /// Appends these rows, the last of which is `head`, with one write.
    fn write(&mut self, rows: &[u8], head: Head) -> Result<(), LedgerError> {
        if let Err(e) = write_once(&self.file, rows) {
            // A partial row must not stay; if it cannot be truncated now, the next writer does it.
            let _ = self.file.set_len(self.cursor.offset);
            return Err(LedgerError::io("write", &self.path)(e));
        }
        self.cursor.offset += u64::try_from(rows.len()).unwrap_or(0);
        self.cursor.head = head;
        Ok(())
    }
}

/// Creates a segment whose first row follows `head`.
pub(crate) fn make_segment(
    paths: &LogPaths,
    number: u32,
    head: Head,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<Tail, LedgerError> {
    let mut head = Head { closed: false, ..head };
    let mut bytes = Vec::new();
    add_row(&mut bytes, &mut head, write);
    let tmp = paths.next_segment();
    let written = paths::create_replacing(&tmp).and_then(|mut file| file.write_all(&bytes));
    written.map_err(LedgerError::io("write", &tmp))?;
    let path = paths.segment(number);
    fs::rename(&tmp, &path).map_err(LedgerError::io("name", &path))?;
    let mut tail = Tail::open(paths, number)?;
    let length = u64::try_from(bytes.len()).unwrap_or(0);
    tail.cursor = Cursor { segment: number, offset: length, body_start: length, head };
    Ok(tail)
}

/// Adds a line: hash, space, JSON, newline.
pub(super) fn add_row(bytes: &mut Vec<u8>, head: &mut Head, write: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&chain::GENESIS);
    bytes.push(b' ');
    write(bytes);
    let json = bytes.get(start + HASH_BYTES + 1..).unwrap_or_default();
    head.hash = chain::link(&head.hash, json);
    head.seq += 1;
    if let Some(place) = bytes.get_mut(start..start + HASH_BYTES) {
        place.copy_from_slice(&head.hash);
    }
    bytes.push(b'\n');
}

fn write_once(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    loop {
        match file.write(bytes) {
            Ok(count) if count == bytes.len() => return Ok(()),
            // A regular file accepts less only when the disk is full.
            Ok(_) => return Err(io::ErrorKind::StorageFull.into()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

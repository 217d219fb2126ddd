//! Imports dumps in one pass: one thread splits the stream, several classify the tools, and the
//! caller's thread writes. The result does not depend on thread timing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::dump::{self, Listing, Skip};
use super::split::DumpSplitter;
use super::write::IndexWriter;
use super::{BUSY_MS_MAX, Index, IndexError, check, make, path};
use crate::home::Home;

const CHUNK_BYTES: usize = 1 << 20;
/// Items are handed to a thread in batches of this size.
const BATCH_BYTES: usize = 256 << 10;
/// Batches that can queue between two stages.
const WAITING_MAX: usize = 8;
/// A running catalogue is not locked for longer than so many batches.
const BATCHES_PER_COMMIT: usize = 64;

/// Memory for words that are not written yet.
const WORDS_BYTES_GATHERED: i64 = 64 << 20;

/// A dump, and the name for a server without one.
pub struct Source {
    pub name: String,
    pub read: Box<dyn Read + Send>,
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub bytes: u64,
    pub servers: u64,
    pub tools: u64,
    /// Older versions and deleted entries.
    pub superseded: u64,
    /// Entries that describe neither a server nor a tool.
    pub unreadable: u64,
}

struct ItemBatch {
    number: u64,
    bytes: u64,
    items: Vec<Vec<u8>>,
    fallback: String,
}

struct ClassifiedBatch {
    bytes: u64,
    listings: Vec<Result<Listing, Skip>>,
}

impl Index {
    /// Imports dumps into the catalogue of a home. With `fresh`, or when there is none, a new file
    /// is written and replaces the old one when it is complete.
    pub fn import(
        home: &Home,
        sources: Vec<Source>,
        fresh: bool,
        threads: usize,
        progress: &mut dyn FnMut(&Imported),
    ) -> Result<Imported, IndexError> {
        let path = path(home);
        if fresh || !path.exists() {
            return build(&path, sources, threads, progress);
        }
        let db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
        check(&db, &path)?;
        let _: String = db.pragma_update_and_check(None, "journal_mode", "wal", |r| r.get(0))?;
        db.pragma_update(None, "synchronous", "normal")?;
        db.pragma_update(None, "cache_size", -65_536)?;
        run(&db, sources, false, threads, progress)
    }
}

/// Creates a new file and moves it into place.
fn build(
    path: &Path,
    sources: Vec<Source>,
    threads: usize,
    progress: &mut dyn FnMut(&Imported),
) -> Result<Imported, IndexError> {
    let draft = path.with_extension("db.new");
    remove(&draft)?;
    let built = make(&draft).and_then(|db| {
        // No process reads the draft, and an interrupted draft is discarded.
        let _: String = db.pragma_update_and_check(None, "journal_mode", "off", |r| r.get(0))?;
        db.pragma_update(None, "synchronous", "off")?;
        db.pragma_update(None, "locking_mode", "exclusive")?;
        db.pragma_update(None, "cache_size", -131_072)?;
        // Words are buffered in memory and written in few large pieces: merging small ones took
        // most of the time of an import.
        let gather = "INSERT INTO tool_words (tool_words, rank) VALUES ('hashsize', ?1)";
        db.execute(gather, [WORDS_BYTES_GATHERED])?;
        let imported = run(&db, sources, true, threads, progress)?;
        db.close().map_err(|(_, e)| IndexError::from(e))?;
        Ok(imported)
    });
    let placed = built.and_then(|imported| {
        let io = |source| IndexError::Io { path: draft.clone(), source };
        fs::File::open(&draft).and_then(|file| file.sync_all()).map_err(io)?;
        for ending in ["db-wal", "db-shm"] {
            remove(&path.with_extension(ending))?;
        }
        fs::rename(&draft, path).map_err(io)?;
        Ok(imported)
    });
    if placed.is_err() {
        let _ = remove(&draft);
    }
    placed
}

fn remove(path: &Path) -> Result<(), IndexError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(IndexError::Io { path: path.into(), source })
        }
        _ => Ok(()),
    }
}

/// The three stages. The first error of any stage stops all.
fn run(
    db: &Connection,
    sources: Vec<Source>,
    is_fresh: bool,
    threads: usize,
    progress: &mut dyn FnMut(&Imported),
) -> Result<Imported, IndexError> {
    let (to_class, batches) = sync_channel::<ItemBatch>(WAITING_MAX);
    let (to_write, classed) = sync_channel::<(u64, ClassifiedBatch)>(WAITING_MAX);
    let batches = Mutex::new(batches);
    std::thread::scope(|scope| {
        let splitter_thread = scope.spawn(move || split(sources, &to_class));
        for _ in 0..threads.max(1) {
            let (batches, to_write) = (&batches, to_write.clone());
            scope.spawn(move || classify(batches, &to_write));
        }
        drop(to_write);
        let written = write(db, &classed, is_fresh, progress);
        // A failed writer drops its end of the queue, so that the other stages stop.
        drop(classed);
        let cut = splitter_thread.join().unwrap_or_else(|_| Err("the reader stopped".to_owned()));
        let written = written?;
        cut.map_err(IndexError::Dump)?;
        Ok(written)
    })
}

fn split(sources: Vec<Source>, to: &SyncSender<ItemBatch>) -> Result<(), String> {
    let mut number = 0;
    for mut source in sources {
        let mut splitter = DumpSplitter::default();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut batch = Vec::new();
        let (mut batch_bytes, mut read_bytes) = (0, 0);
        let named = |e: String| format!("`{}`: {e}", source.name);
        loop {
            let read = match source.read.read(&mut chunk) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.map_err(|e| named(e.to_string()))?,
            };
            read_bytes += read as u64;
            let mut send = |items: &mut Vec<Vec<u8>>, bytes: &mut u64| {
                let items = std::mem::take(items);
                let bytes = std::mem::take(bytes);
                let batch = ItemBatch { number, bytes, items, fallback: source.name.clone() };
                number += 1;
                // The receiver is gone: the writer has failed and reports why.
                to.send(batch).is_ok()
            };
            if read == 0 {
                splitter.finish().map_err(|e| named(e.to_string()))?;
                send(&mut batch, &mut read_bytes);
                break;
            }
            let mut listens = true;
            splitter
                .push(chunk.get(..read).unwrap_or_default(), &mut |item| {
                    batch_bytes += item.len();
                    batch.push(item);
                    if batch_bytes >= BATCH_BYTES {
                        batch_bytes = 0;
                        listens &= send(&mut batch, &mut read_bytes);
                    }
                })
                .map_err(|e| named(e.to_string()))?;
            if !listens {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn classify(batches: &Mutex<Receiver<ItemBatch>>, to: &SyncSender<(u64, ClassifiedBatch)>) {
    loop {
        let next = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = next else { return };
        let listings = batch.items.iter().map(|item| dump::read(item, &batch.fallback)).collect();
        if to.send((batch.number, ClassifiedBatch { bytes: batch.bytes, listings })).is_err() {
            // The splitter must not wait on a queue that has no reader.
            while batches.lock().unwrap_or_else(PoisonError::into_inner).recv().is_ok() {}
            return;
        }
    }
}

fn write(
    db: &Connection,
    classed: &Receiver<(u64, ClassifiedBatch)>,
    is_fresh: bool,
    progress: &mut dyn FnMut(&Imported),
) -> Result<Imported, IndexError> {
    let mut imported = Imported::default();
    let mut waiting: BTreeMap<u64, ClassifiedBatch> = BTreeMap::new();
    let mut next = 0;
    db.execute_batch("BEGIN IMMEDIATE")?;
    let mut writer = IndexWriter::new(db, is_fresh)?;
    let mut since_commit = 0;
    while let Ok((number, batch)) = classed.recv() {
        waiting.insert(number, batch);
        while let Some(batch) = waiting.remove(&next) {
            next += 1;
            put(&mut writer, batch, &mut imported)?;
            progress(&imported);
            since_commit += 1;
        }
        if !is_fresh && since_commit >= BATCHES_PER_COMMIT {
            db.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
            since_commit = 0;
        }
    }
    writer.finish()?;
    db.execute_batch("COMMIT")?;
    Ok(imported)
}

fn put(
    writer: &mut IndexWriter<'_>,
    batch: ClassifiedBatch,
    imported: &mut Imported,
) -> Result<(), IndexError> {
    imported.bytes += batch.bytes;
    for listing in batch.listings {
        match listing {
            Ok(listing) => {
                let is_new = writer.put(&listing)?;
                imported.servers += u64::from(is_new || listing.is_whole);
                imported.tools += listing.tools.len() as u64;
            }
            Err(Skip::Superseded) => imported.superseded += 1,
            Err(Skip::NotJson | Skip::NoName) => imported.unreadable += 1,
        }
    }
    Ok(())
}

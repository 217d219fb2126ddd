//! Runs one export from the first check to the last rename, for agents' tools and the owner's
//! command alike. The checks run in the documented order.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use platform::folder::Folder;
use serde_json::{Value, json};

use super::csv::CsvSafety;
use super::path::{Existing, ExportPath, PathScope};
use super::temp_file::{self, Replace, TempFile};
use super::writer::RecordWriter;
use super::{Compression, ExportError, ExportKind, Format, ServiceExports};
use crate::records::{Records, Window};

/// The name of a full export.
pub const ALL: &str = "all";
/// How often progress is reported, in records.
const STEP_RECORDS: u64 = 500;
const BUFFER_BYTES: usize = 64 << 10;

/// What to export, and where to.
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions<'a> {
    pub path: &'a str,
    /// Records that are at least partly in this window; none means all.
    pub from_us: Option<i64>,
    /// Exclusive.
    pub to_us: Option<i64>,
    /// When open records are assumed to end.
    pub now_us: i64,
    pub overwrite: bool,
    pub csv: CsvSafety,
    pub compression: Compression,
    pub reach: PathScope<'a>,
}

/// The progress of an export.
#[derive(Clone, Copy, Debug)]
pub struct ExportStep {
    pub resource: &'static str,
    pub records: u64,
    /// An upper bound; a window may leave some out.
    pub records_max: u64,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    pub resource: &'static str,
    /// As requested.
    pub path: String,
    /// Its resolved path.
    pub saved_to: String,
    pub records: u64,
    pub bytes: u64,
}

/// A completed export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportResult {
    pub kind: String,
    pub format: Format,
    pub files: Vec<WrittenFile>,
}

impl ExportResult {
    /// The documented response; `start` and `end` as requested.
    pub fn value(&self, start: Option<&str>, end: Option<&str>) -> Value {
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|file| {
                json!({
                    "resource": file.resource, "path": file.path, "records": file.records,
                    "bytes": file.bytes, "saved_to": file.saved_to,
                })
            })
            .collect();
        json!({
            "status": "success", "kind": self.kind, "format": self.format.as_str(),
            "files": files, "range": { "start": start, "end": end }, "warnings": [],
        })
    }
}

/// A UTC day such as `2026-04-14`, as a half-open range.
pub fn day(text: &str) -> Option<(i64, i64)> {
    // Exactly ten characters: some date parsers accept `2026-4-9`, which then compares wrongly.
    if text.len() != 10 {
        return None;
    }
    let date = Date::strptime("%Y-%m-%d", text).ok()?;
    let start = |date: Date| {
        let zoned = date.to_zoned(TimeZone::UTC).ok()?;
        Some(zoned.timestamp().as_microsecond())
    };
    Some((start(date)?, start(date.tomorrow().ok()?)?))
}

/// A request with a valid kind and format.
#[derive(Debug)]
pub struct ExportJob {
    exports: &'static ServiceExports,
    /// None for a full export.
    kind: Option<&'static ExportKind>,
    format: Format,
}

/// The suggestion for a mistyped kind.
pub fn nearest_kind(exports: &'static ServiceExports, kind: &str) -> Option<&'static str> {
    let names = exports.kinds.iter().filter(|k| !k.is_snapshot).map(|k| k.name);
    policy::nearest(kind, names)
}

impl ExportJob {
    pub fn new(
        exports: &'static ServiceExports,
        kind: &str,
        format: &str,
    ) -> Result<ExportJob, ExportError> {
        let found = exports.kinds.iter().find(|k| !k.is_snapshot && k.name == kind);
        if found.is_none() && kind != ALL {
            let known: Vec<&str> =
                exports.kinds.iter().filter(|k| !k.is_snapshot).map(|k| k.name).collect();
            let known = known.join(", ");
            return Err(ExportError::Invalid(format!("kind must be one of {known}, {ALL}")));
        }
        let format = Format::named(format).ok_or_else(|| {
            ExportError::Invalid("format must be one of csv, jsonl, parquet".into())
        })?;
        Ok(ExportJob { exports, kind: found, format })
    }

    /// Writes the files. On any error, no file under its final name is incomplete.
    pub fn write(
        &self,
        records: &Records,
        order: &ExportOptions<'_>,
        progress: &mut dyn FnMut(ExportStep),
    ) -> Result<ExportResult, ExportError> {
        let path = ExportPath::parse(order.path, order.reach)?;
        let work =
            Work { records, service: self.exports.service, format: self.format, order, path };
        let files = match self.kind {
            Some(kind) => vec![work.one(kind, progress)?],
            None => work.all(self.exports.kinds, progress)?,
        };
        let kind = self.kind.map_or(ALL, |kind| kind.name).to_owned();
        Ok(ExportResult { kind, format: self.format, files })
    }
}

/// One export in progress.
struct Work<'a> {
    records: &'a Records,
    service: &'static str,
    format: Format,
    order: &'a ExportOptions<'a>,
    path: ExportPath,
}

impl Work<'_> {
    fn one(
        &self,
        kind: &'static ExportKind,
        progress: &mut dyn FnMut(ExportStep),
    ) -> Result<WrittenFile, ExportError> {
        let records = self.count(kind)?;
        if records == 0 {
            return Err(ExportError::Empty(kind.name.to_owned()));
        }
        let replace = self.may_write_file()?;
        let (folder, name) = self.path.parent()?;
        temp_file::sweep(&folder);
        let full = self.path.full();
        let path = self.path.requested().to_owned();
        let destination = Destination { folder: &folder, name, path, replace };
        let written = self
            .write(kind, records, destination, full.display().to_string(), progress)?
            .finish()?;
        folder.sync().map_err(|e| write_error(self.path.requested(), &e))?;
        Ok(written)
    }

    fn may_write_file(&self) -> Result<Replace, ExportError> {
        let overwrite = self.order.overwrite;
        match self.path.existing()? {
            Existing::Nothing => Ok(if overwrite { Replace::Yes } else { Replace::No }),
            Existing::EmptyFile => Ok(Replace::Yes),
            Existing::File if overwrite => Ok(Replace::Yes),
            Existing::File => Err(self.exists()),
            Existing::Folder if !overwrite => Err(self.exists()),
            Existing::Folder | Existing::EmptyFolder => Err(ExportError::Refused(format!(
                "`{}` is a folder; name a file in it, or export `{ALL}`",
                self.path.requested()
            ))),
        }
    }

    fn all(
        &self,
        kinds: &'static [ExportKind],
        progress: &mut dyn FnMut(ExportStep),
    ) -> Result<Vec<WrittenFile>, ExportError> {
        match self.path.existing()? {
            Existing::Folder | Existing::File if !self.order.overwrite => return Err(self.exists()),
            Existing::File | Existing::EmptyFile => {
                let requested = self.path.requested();
                return Err(ExportError::Refused(format!(
                    "`{requested}` is a file; `{ALL}` needs a folder"
                )));
            }
            Existing::Nothing | Existing::EmptyFolder | Existing::Folder => {}
        }
        let mut counted = Vec::with_capacity(kinds.len());
        for kind in kinds {
            counted.push((self.count(kind)?, kind));
        }
        if counted.iter().all(|(records, _)| *records == 0) {
            return Err(ExportError::Empty("records".into()));
        }
        // The longest first, so that both threads end at about the same time. Small files go before
        // them, because their flush takes as long as any other.
        counted.sort_by_key(|(records, kind)| (!kind.is_snapshot, Reverse(*records)));
        let folder = self.path.as_folder()?;
        temp_file::sweep(&folder);
        let written = self.write_in_parallel(kinds, &counted, &folder, progress);
        let synced = folder.sync();
        synced.map_err(|e| write_error(self.path.requested(), &e))?;
        written
    }

    /// Writes two files at a time on two threads. A third thread only waits for flushes while the
    /// two assemble the next files; each flushes its own last file. Returns results in the order of
    /// the kinds.
    fn write_in_parallel<'f>(
        &self,
        kinds: &'static [ExportKind],
        queue: &[(u64, &'static ExportKind)],
        folder: &'f Folder,
        progress: &mut dyn FnMut(ExportStep),
    ) -> Result<Vec<WrittenFile>, ExportError> {
        let next = AtomicUsize::new(0);
        // Nothing new is started after a failure.
        let noted = |name, one: Result<WrittenFile, ExportError>| {
            if one.is_err() {
                next.store(queue.len(), Ordering::Relaxed);
            }
            (name, one)
        };
        let take = |progress: &mut dyn FnMut(ExportStep),
                    finisher: &mpsc::Sender<FilledFile<'f>>| {
            let mut written = Vec::new();
            while let Some((records, kind)) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                let filled = match self.write_one_of_all(kind, *records, folder, progress) {
                    Ok(filled) => filled,
                    Err(fault) => {
                        written.push(noted(kind.name, Err(fault)));
                        continue;
                    }
                };
                // The last file of a thread need not queue behind the third thread's work.
                let is_last = next.load(Ordering::Relaxed) >= queue.len();
                // Without a third thread it stays here.
                let back = if is_last { Some(filled) } else { sent(finisher, filled) };
                written.extend(back.map(|filled| noted(kind.name, filled.finish())));
            }
            written
        };
        let (tell, steps) = mpsc::channel();
        let mut written = thread::scope(|scope| {
            let (finisher, filled) = mpsc::channel::<FilledFile<'f>>();
            let third = || {
                let finish = |one: FilledFile<'_>| noted(one.written.resource, one.finish());
                filled.into_iter().map(finish).collect::<Vec<_>>()
            };
            let third = thread::Builder::new().spawn_scoped(scope, third);
            let (take, seconds) = (&take, finisher.clone());
            let second = move || {
                let mut progress = |step| {
                    let _ = tell.send(step);
                };
                take(&mut progress, &seconds)
            };
            let second = thread::Builder::new().spawn_scoped(scope, second);
            let mut progress_both = |step| {
                progress(step);
                steps.try_iter().for_each(&mut *progress);
            };
            let mut written = take(&mut progress_both, &finisher);
            drop(finisher);
            // Without a second thread everything is written by now.
            for thread in [second, third].into_iter().flatten() {
                written.extend(thread.join().unwrap_or_else(|e| resume_unwind(e)));
            }
            written
        });
        steps.try_iter().for_each(progress);
        let position =
            |name: &str| kinds.iter().position(|kind| kind.file == name || kind.name == name);
        written.sort_by_key(|(name, _)| position(name));
        written.into_iter().map(|(_, one)| one).collect()
    }

    fn write_one_of_all<'f>(
        &self,
        kind: &'static ExportKind,
        records_max: u64,
        folder: &'f Folder,
        progress: &mut dyn FnMut(ExportStep),
    ) -> Result<FilledFile<'f>, ExportError> {
        let file = format!("{}.{}", kind.file, self.format.as_str());
        let path = joined(self.path.requested(), &file);
        let full = self.path.full().join(&file);
        let name = OsString::from(file);
        let replace = if self.order.overwrite { Replace::Yes } else { Replace::No };
        let destination = Destination { folder, name, path, replace };
        self.write(kind, records_max, destination, full.display().to_string(), progress)
    }

    fn write<'f>(
        &self,
        kind: &'static ExportKind,
        records_max: u64,
        destination: Destination<'f>,
        saved_to: String,
        progress: &mut dyn FnMut(ExportStep),
    ) -> Result<FilledFile<'f>, ExportError> {
        let file = TempFile::create(destination.folder).map_err(|e| destination.write_error(&e))?;
        let records = self.fill(kind, records_max, file.file(), &destination, progress)?;
        let bytes = file.file().metadata().map_err(|e| destination.write_error(&e))?.len();
        let path = destination.path.clone();
        let written = WrittenFile { resource: kind.file, path, saved_to, records, bytes };
        Ok(FilledFile { file, destination, written })
    }

    fn fill(
        &self,
        kind: &'static ExportKind,
        records_max: u64,
        file: &File,
        destination: &Destination<'_>,
        progress: &mut dyn FnMut(ExportStep),
    ) -> Result<u64, ExportError> {
        let failed = |e: io::Error| destination.write_error(&e);
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let writer = RecordWriter::begin(out, kind, self.format, self.order, records_max);
        let mut writer = writer.map_err(failed)?;
        let mut seen = 0;
        let step = |records| ExportStep { resource: kind.name, records, records_max };
        let window = self.window(kind);
        self.records.each(self.service, kind.view.kind, &window, |flat| {
            writer.row(flat).map_err(failed)?;
            seen += 1;
            if seen % STEP_RECORDS == 0 {
                progress(step(seen));
            }
            Ok::<(), ExportError>(())
        })?;
        writer.end().map_err(failed)?;
        progress(step(seen));
        Ok(seen)
    }

    /// Both ends of an export are inclusive: a record that ends at the very first instant is part
    /// of it.
    fn window(&self, kind: &ExportKind) -> Window {
        let except_state = kind.view.except_state;
        if kind.is_snapshot {
            return Window { except_state, ..Window::default() };
        }
        Window {
            from_us: self.order.from_us.map(|from_us| from_us.saturating_sub(1)),
            to_us: self.order.to_us,
            overlap: true,
            open_end_us: Some(self.order.now_us),
            except_state,
            ..Window::default()
        }
    }

    fn count(&self, kind: &ExportKind) -> Result<u64, ExportError> {
        Ok(self.records.count(self.service, kind.view.kind)?)
    }

    fn exists(&self) -> ExportError {
        ExportError::Exists(self.path.requested().to_owned())
    }
}

/// Hands a file to the finishing thread; returns it if there is none.
fn sent<'f>(
    finisher: &mpsc::Sender<FilledFile<'f>>,
    filled: FilledFile<'f>,
) -> Option<FilledFile<'f>> {
    finisher.send(filled).err().map(|back| back.0)
}

/// The destination of one file.
struct Destination<'a> {
    folder: &'a Folder,
    name: OsString,
    /// For results and messages.
    path: String,
    replace: Replace,
}

impl Destination<'_> {
    fn write_error(&self, error: &io::Error) -> ExportError {
        write_error(&self.path, error)
    }
}

fn write_error(path: &str, error: &io::Error) -> ExportError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return ExportError::Exists(path.to_owned());
    }
    ExportError::Write { path: path.to_owned(), message: error.to_string() }
}

/// A file with all its records, not yet flushed and renamed.
struct FilledFile<'a> {
    file: TempFile,
    destination: Destination<'a>,
    written: WrittenFile,
}

impl FilledFile<'_> {
    fn finish(self) -> Result<WrittenFile, ExportError> {
        let FilledFile { file, destination, written } = self;
        file.finish(&destination.name, destination.replace)
            .map_err(|e| destination.write_error(&e))?;
        Ok(written)
    }
}

fn joined(folder: &str, file: &str) -> String {
    if folder.ends_with('/') { format!("{folder}{file}") } else { format!("{folder}/{file}") }
}

//! One export from the first check to the last rename, for the tool of an agent and for the command
//! of the owner alike. The checks come in the documented order.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::csv::CsvSafety;
use super::draft::{self, Draft, Replace};
use super::place::{Lies, Reach, Way};
use super::writer::Writer;
use super::{Compression, Fault, Format, Kind, Shelf};
use crate::records::{Records, Window};

/// The word for everything at once.
pub const ALL: &str = "all";
/// How often progress is told, in records.
const STEP_RECORDS: u64 = 500;
const BUFFER_BYTES: usize = 64 << 10;

/// What to write where.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    pub path: &'a str,
    /// Records that lie at least partly in this window; nothing means all.
    pub from_us: Option<i64>,
    /// Not in the window any more.
    pub to_us: Option<i64>,
    /// When records that are still open are taken to end.
    pub now_us: i64,
    pub overwrite: bool,
    pub csv: CsvSafety,
    pub compression: Compression,
    pub reach: Reach<'a>,
}

/// How far an export has come.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub resource: &'static str,
    pub records: u64,
    /// As many as there can be; a window may leave some out.
    pub records_max: u64,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub resource: &'static str,
    /// As it was asked for.
    pub path: String,
    /// Where it lies.
    pub saved_to: String,
    pub records: u64,
    pub bytes: u64,
}

/// An export that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub kind: String,
    pub format: Format,
    pub files: Vec<Written>,
}

impl Done {
    /// The documented answer; `start` and `end` as they were asked for.
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

/// A UTC day such as `2026-04-14`, from its first instant to the first after it.
pub fn day(text: &str) -> Option<(i64, i64)> {
    // Strictly ten characters: other readers of dates take `2026-4-9` and then compare it wrongly.
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

/// An order whose kind and format were understood.
#[derive(Debug)]
pub struct Plan {
    shelf: &'static Shelf,
    /// Nothing for everything.
    kind: Option<&'static Kind>,
    format: Format,
}

/// The kind that a mistyped one was meant to be.
pub fn nearest_kind(shelf: &'static Shelf, kind: &str) -> Option<&'static str> {
    let names = shelf.kinds.iter().filter(|k| !k.is_snapshot).map(|k| k.name);
    crate::nearest::nearest(kind, names)
}

impl Plan {
    pub fn new(shelf: &'static Shelf, kind: &str, format: &str) -> Result<Plan, Fault> {
        let found = shelf.kinds.iter().find(|k| !k.is_snapshot && k.name == kind);
        if found.is_none() && kind != ALL {
            let known: Vec<&str> =
                shelf.kinds.iter().filter(|k| !k.is_snapshot).map(|k| k.name).collect();
            let known = known.join(", ");
            return Err(Fault::Asked(format!("kind must be one of {known}, {ALL}")));
        }
        let format = Format::named(format)
            .ok_or_else(|| Fault::Asked("format must be one of csv, jsonl, parquet".into()))?;
        Ok(Plan { shelf, kind: found, format })
    }

    /// Writes the files. Whatever goes wrong, no file under its final name is incomplete.
    pub fn write(
        &self,
        records: &Records,
        order: &Order<'_>,
        told: &mut dyn FnMut(Step),
    ) -> Result<Done, Fault> {
        let way = Way::parse(order.path, order.reach)?;
        let work = Work { records, service: self.shelf.service, format: self.format, order, way };
        let files = match self.kind {
            Some(kind) => vec![work.one(kind, told)?],
            None => work.all(self.shelf.kinds, told)?,
        };
        let kind = self.kind.map_or(ALL, |kind| kind.name).to_owned();
        Ok(Done { kind, format: self.format, files })
    }
}

/// One order being carried out.
struct Work<'a> {
    records: &'a Records,
    service: &'static str,
    format: Format,
    order: &'a Order<'a>,
    way: Way,
}

impl Work<'_> {
    fn one(&self, kind: &'static Kind, told: &mut dyn FnMut(Step)) -> Result<Written, Fault> {
        let records = self.count(kind)?;
        if records == 0 {
            return Err(Fault::Empty(kind.name.to_owned()));
        }
        let replace = self.may_write_file()?;
        let (folder, name) = self.way.parent()?;
        draft::sweep(&folder);
        let full = self.way.full();
        let path = self.way.asked().to_owned();
        let spot = Spot { folder: &folder, name, path, replace };
        let written =
            self.write(kind, records, spot, full.display().to_string(), told)?.finish()?;
        draft::settle(&folder).map_err(|e| fault(self.way.asked(), &e))?;
        Ok(written)
    }

    fn may_write_file(&self) -> Result<Replace, Fault> {
        let overwrite = self.order.overwrite;
        match self.way.lies()? {
            Lies::Nothing => Ok(if overwrite { Replace::Yes } else { Replace::No }),
            Lies::EmptyFile => Ok(Replace::Yes),
            Lies::File if overwrite => Ok(Replace::Yes),
            Lies::File => Err(self.exists()),
            Lies::Folder if !overwrite => Err(self.exists()),
            Lies::Folder | Lies::EmptyFolder => Err(Fault::Refused(format!(
                "`{}` is a folder; name a file in it, or export `{ALL}`",
                self.way.asked()
            ))),
        }
    }

    fn all(
        &self,
        kinds: &'static [Kind],
        told: &mut dyn FnMut(Step),
    ) -> Result<Vec<Written>, Fault> {
        match self.way.lies()? {
            Lies::Folder | Lies::File if !self.order.overwrite => return Err(self.exists()),
            Lies::File | Lies::EmptyFile => {
                let asked = self.way.asked();
                return Err(Fault::Refused(format!("`{asked}` is a file; `{ALL}` needs a folder")));
            }
            Lies::Nothing | Lies::EmptyFolder | Lies::Folder => {}
        }
        let mut counted = Vec::with_capacity(kinds.len());
        for kind in kinds {
            counted.push((self.count(kind)?, kind));
        }
        if counted.iter().all(|(records, _)| *records == 0) {
            return Err(Fault::Empty("records".into()));
        }
        // The longest first, so that both threads end at about the same time. Before them what is
        // put together in no time, because the disk takes as long over it as over the rest.
        counted.sort_by_key(|(records, kind)| (!kind.is_snapshot, Reverse(*records)));
        let folder = self.way.as_folder()?;
        draft::sweep(&folder);
        let written = self.side_by_side(kinds, &counted, &folder, told);
        draft::settle(&folder).map_err(|e| Fault::Write {
            path: self.way.asked().to_owned(),
            words: e.to_string(),
        })?;
        written
    }

    /// Two files at a time: the second thread takes half of the work. What they have written goes to
    /// the disk on a third, which only waits, while they put the next ones together; the last file of
    /// each they see to themselves. Answers in the order of the kinds.
    fn side_by_side<'f>(
        &self,
        kinds: &'static [Kind],
        queue: &[(u64, &'static Kind)],
        folder: &'f OwnedFd,
        told: &mut dyn FnMut(Step),
    ) -> Result<Vec<Written>, Fault> {
        let next = AtomicUsize::new(0);
        // After a failure nothing more is begun.
        let noted = |name, one: Result<Written, Fault>| {
            if one.is_err() {
                next.store(queue.len(), Ordering::Relaxed);
            }
            (name, one)
        };
        let take = |told: &mut dyn FnMut(Step), finisher: &mpsc::Sender<Filled<'f>>| {
            let mut written = Vec::new();
            while let Some((records, kind)) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                let filled = match self.one_of_all(kind, *records, folder, told) {
                    Ok(filled) => filled,
                    Err(fault) => {
                        written.push(noted(kind.name, Err(fault)));
                        continue;
                    }
                };
                // The last of a thread need not wait behind what the third still has to do.
                let is_last = next.load(Ordering::Relaxed) >= queue.len();
                // Without a third thread nobody takes it.
                let back = if is_last { Some(filled) } else { sent(finisher, filled) };
                written.extend(back.map(|filled| noted(kind.name, filled.finish())));
            }
            written
        };
        let (tell, steps) = mpsc::channel();
        let mut written = thread::scope(|scope| {
            let (finisher, filled) = mpsc::channel::<Filled<'f>>();
            let third = || {
                let finish = |one: Filled<'_>| noted(one.written.resource, one.finish());
                filled.into_iter().map(finish).collect::<Vec<_>>()
            };
            let third = thread::Builder::new().spawn_scoped(scope, third);
            let (take, seconds) = (&take, finisher.clone());
            let second = move || {
                let mut told = |step| {
                    let _ = tell.send(step);
                };
                take(&mut told, &seconds)
            };
            let second = thread::Builder::new().spawn_scoped(scope, second);
            let mut told_both = |step| {
                told(step);
                steps.try_iter().for_each(&mut *told);
            };
            let mut written = take(&mut told_both, &finisher);
            drop(finisher);
            // Without a second thread all is written by now.
            for thread in [second, third].into_iter().flatten() {
                written.extend(thread.join().unwrap_or_else(|e| resume_unwind(e)));
            }
            written
        });
        steps.try_iter().for_each(told);
        let place =
            |name: &str| kinds.iter().position(|kind| kind.file == name || kind.name == name);
        written.sort_by_key(|(name, _)| place(name));
        written.into_iter().map(|(_, one)| one).collect()
    }

    fn one_of_all<'f>(
        &self,
        kind: &'static Kind,
        records_max: u64,
        folder: &'f OwnedFd,
        told: &mut dyn FnMut(Step),
    ) -> Result<Filled<'f>, Fault> {
        let file = format!("{}.{}", kind.file, self.format.as_str());
        let path = joined(self.way.asked(), &file);
        let full = self.way.full().join(&file);
        let name = OsString::from(file);
        let replace = if self.order.overwrite { Replace::Yes } else { Replace::No };
        let spot = Spot { folder, name, path, replace };
        self.write(kind, records_max, spot, full.display().to_string(), told)
    }

    fn write<'f>(
        &self,
        kind: &'static Kind,
        records_max: u64,
        spot: Spot<'f>,
        saved_to: String,
        told: &mut dyn FnMut(Step),
    ) -> Result<Filled<'f>, Fault> {
        let draft = Draft::create(spot.folder).map_err(|e| spot.fault(&e))?;
        let records = self.fill(kind, records_max, draft.file(), &spot, told)?;
        let bytes = draft.file().metadata().map_err(|e| spot.fault(&e))?.len();
        let path = spot.path.clone();
        let written = Written { resource: kind.file, path, saved_to, records, bytes };
        Ok(Filled { draft, spot, written })
    }

    fn fill(
        &self,
        kind: &'static Kind,
        records_max: u64,
        file: &File,
        spot: &Spot<'_>,
        told: &mut dyn FnMut(Step),
    ) -> Result<u64, Fault> {
        let failed = |e: io::Error| spot.fault(&e);
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let writer = Writer::begin(out, kind, self.format, self.order, records_max);
        let mut writer = writer.map_err(failed)?;
        let mut seen = 0;
        let step = |records| Step { resource: kind.name, records, records_max };
        let window = self.window(kind);
        self.records.each(self.service, kind.view.kind, &window, |flat| {
            writer.row(flat).map_err(failed)?;
            seen += 1;
            if seen % STEP_RECORDS == 0 {
                told(step(seen));
            }
            Ok::<(), Fault>(())
        })?;
        writer.end().map_err(failed)?;
        told(step(seen));
        Ok(seen)
    }

    /// Both ends of an export count: a record that ends at the very first instant is in it.
    fn window(&self, kind: &Kind) -> Window {
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

    fn count(&self, kind: &Kind) -> Result<u64, Fault> {
        Ok(self.records.count(self.service, kind.view.kind)?)
    }

    fn exists(&self) -> Fault {
        Fault::Exists(self.way.asked().to_owned())
    }
}

/// Hands a file to the thread that finishes them; answers it when there is none.
fn sent<'f>(finisher: &mpsc::Sender<Filled<'f>>, filled: Filled<'f>) -> Option<Filled<'f>> {
    finisher.send(filled).err().map(|back| back.0)
}

/// The place of one file.
struct Spot<'a> {
    folder: &'a OwnedFd,
    name: OsString,
    /// For answers and messages.
    path: String,
    replace: Replace,
}

impl Spot<'_> {
    fn fault(&self, error: &io::Error) -> Fault {
        fault(&self.path, error)
    }
}

fn fault(path: &str, error: &io::Error) -> Fault {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Fault::Exists(path.to_owned());
    }
    Fault::Write { path: path.to_owned(), words: error.to_string() }
}

/// A file that holds all its records, and is neither on the disk for sure nor under its name.
struct Filled<'a> {
    draft: Draft,
    spot: Spot<'a>,
    written: Written,
}

impl Filled<'_> {
    fn finish(self) -> Result<Written, Fault> {
        let Filled { draft, spot, written } = self;
        draft.finish(&spot.name, spot.replace).map_err(|e| spot.fault(&e))?;
        Ok(written)
    }
}

fn joined(folder: &str, file: &str) -> String {
    if folder.ends_with('/') { format!("{folder}{file}") } else { format!("{folder}/{file}") }
}

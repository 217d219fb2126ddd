//! Imports data exports of services: ZIPs or their unpacked folders. Nothing is unpacked to disk,
//! entries are read one after the other, and an archive beyond the size bounds is refused.

mod intake;
mod json;
mod meter;
mod source;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};
use store::records::RecordsError;

use crate::ConnectorContext;
use crate::sync::Mirror;
pub(crate) use intake::Intake;
pub(crate) use json::each_entry;
use meter::{Hit, Meter};
use source::{Entry, Source};
pub(crate) use table::{Cells, each_row, each_row_with_header};

/// The number of unreadable files that are named; further ones are only counted.
const PROBLEMS_NAMED_MAX: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot open `{name}`: {why}")]
    Closed { name: String, why: String },
    #[error(
        "`{name}` is not a ZIP: {why}\nhint: give the file as it was sent, or the folder it was unpacked to"
    )]
    NotAZip { name: String, why: String },
    #[error("`{name}` is a ZIP that is cut off or damaged: {why}\nhint: download it again")]
    Damaged { name: String, why: String },
    #[error("`{name}` cannot be read: {why}")]
    Unreadable { name: String, why: String },
    #[error("`{name}` is far larger than an archive")]
    TooMuch { name: String },
    #[error("it contains no known files\nhint: {0}")]
    NothingKnown(&'static str),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// The counts of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCounts {
    pub rows: usize,
    /// New in the mirror, or more complete than before.
    pub written: usize,
    /// Skipped: without a time or a name.
    pub odd: usize,
    /// Skipped: removed at the service since.
    pub stale: usize,
}

/// What an import did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub kinds: BTreeMap<&'static str, KindCounts>,
    /// Relevant files that could not be read: name and reason.
    pub problems: Vec<(String, String)>,
    pub problem_count: usize,
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    pub done_bytes: u64,
    pub total_bytes: u64,
    pub rows: u64,
}

pub(crate) type OnImportProgress<'a> = &'a dyn Fn(ImportProgress);

/// The input of an import.
pub struct ImportInput<'a> {
    /// ZIPs, folders or single files; parts of one archive may be given together.
    pub paths: &'a [PathBuf],
    /// The owner's time zone, for times without a known zone.
    pub zone: &'a TimeZone,
    /// Receives the progress.
    pub on_progress: &'a dyn Fn(ImportProgress),
}

/// The import of a service's archive, as a command.
pub struct ArchiveImport {
    /// Help text of `tollgate import SERVICE`.
    pub about: &'static str,
    pub import: fn(&ConnectorContext, &ImportInput<'_>) -> Result<ImportReport, ArchiveError>,
}

/// How the files of a service's archive are read.
pub(crate) struct Archive {
    /// Is the file relevant, by its path in lower case?
    pub(crate) wants: fn(&str) -> bool,
    /// A first pass over the files, for data that identifies others.
    pub(crate) learn: Option<Reads>,
    pub(crate) read: Reads,
    /// What to request from the service.
    pub(crate) hint: &'static str,
}

type Reads = fn(&mut OpenFile<'_>, &mut Intake<'_>) -> Result<(), Stop>;

/// One file of an archive while it is read.
pub(crate) struct OpenFile<'a> {
    /// Its full path in the archive.
    pub(crate) name: &'a str,
    pub(crate) reader: &'a mut dyn Read,
    pub(crate) meter: &'a Meter,
}

impl OpenFile<'_> {
    /// Without its folders.
    pub(crate) fn base(&self) -> &str {
        base(self.name)
    }

    /// In lower case, without the dot.
    pub(crate) fn extension(&self) -> String {
        let base = self.base();
        base.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).unwrap_or_default()
    }
}

/// Why the reading of a file ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It has no relevant data; not an error.
    Enough,
    /// It cannot be read, for this reason.
    File(String),
    Records(RecordsError),
}

impl From<RecordsError> for Stop {
    fn from(error: RecordsError) -> Stop {
        Stop::Records(error)
    }
}

/// An id derived from a name: short, stable, without spaces.
pub(crate) fn short_digest(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let (bytes, _) = digest.split_at(8);
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn base(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// Imports an archive. A repeated import changes nothing; after an interruption it continues where
/// it stopped.
pub(crate) fn import(
    ctx: &ConnectorContext,
    mirror: &'static Mirror,
    archive: &Archive,
    given: &ImportInput<'_>,
) -> Result<ImportReport, ArchiveError> {
    mirror.prepare(&ctx.records)?;
    let mut sources = Vec::new();
    for path in given.paths {
        sources.push(Source::open(path)?);
    }
    let mut files: Vec<(usize, Entry)> = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        files.extend(source.entries(archive.wants).map(|entry| (at, entry)));
    }
    let total_bytes = files.iter().map(|(_, entry)| entry.bytes).sum();
    let meter = Meter::default();
    let mut intake = Intake::new(ctx, mirror.service, given, &meter, total_bytes);
    let mut imported = ImportReport::default();
    if let Some(learn) = archive.learn {
        for (at, entry) in &files {
            // Errors of a file are reported when it is read.
            let _ =
                read(&mut sources, *at, entry, &Meter::default(), |file| learn(file, &mut intake));
        }
    }
    for (at, entry) in &files {
        let done = read(&mut sources, *at, entry, &meter, |file| (archive.read)(file, &mut intake));
        intake.passed(entry.bytes);
        match done {
            Ok(()) | Err(Stop::Enough) => {}
            Err(Stop::Records(error)) => return Err(error.into()),
            Err(Stop::File(_)) if meter.hit() == Some(Hit::Total) => {
                return Err(ArchiveError::TooMuch { name: entry.name.clone() });
            }
            Err(Stop::File(why)) => imported.problem(&entry.name, why),
        }
    }
    imported.kinds = intake.finish()?;
    if !imported.kinds.is_empty() {
        return Ok(imported);
    }
    match imported.problems.into_iter().next() {
        Some((name, why)) => Err(ArchiveError::Unreadable { name, why }),
        None => Err(ArchiveError::NothingKnown(archive.hint)),
    }
}

fn read(
    sources: &mut [Source],
    at: usize,
    entry: &Entry,
    meter: &Meter,
    take: impl FnOnce(&mut OpenFile<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let Some(source) = sources.get_mut(at) else { return Ok(()) };
    let opened = source.with(entry, |reader, packed_bytes| {
        meter.begin(packed_bytes);
        let mut reader = meter.reader(reader);
        let done = take(&mut OpenFile { name: &entry.name, reader: &mut reader, meter });
        match (done, meter.hit()) {
            (Err(Stop::File(_)), Some(hit)) => Err(Stop::File(hit.message().to_owned())),
            (done, _) => done,
        }
    });
    opened.unwrap_or_else(|why| Err(Stop::File(why)))
}

impl ImportReport {
    fn problem(&mut self, name: &str, why: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_NAMED_MAX {
            self.problems.push((name.to_owned(), why));
        }
    }
}

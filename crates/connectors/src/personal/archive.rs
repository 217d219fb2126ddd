//! Takes in the archives that services send their users on request: ZIPs, or what was unpacked from
//! them. Nothing is unpacked to disk, entries are read one after the other, and what grows past what
//! an archive can be is refused.

mod intake;
mod json;
mod meter;
#[cfg(test)]
pub(crate) mod parcel;
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

use crate::{Desk, Service};
pub(crate) use intake::Intake;
pub(crate) use json::each_entry;
use meter::{Hit, Meter};
use source::{Entry, Source};
pub(crate) use table::{Cells, each_row, each_row_with_header};

/// Files that could not be read are named so often; then they are only counted.
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
    #[error("`{name}` holds far more than an archive does")]
    TooMuch { name: String },
    #[error("there is nothing in it that is known here\nhint: {0}")]
    NothingKnown(&'static str),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// What an import did with one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub rows: usize,
    /// New in the mirror, or better than what was there.
    pub written: usize,
    /// Without a time or a name; left out.
    pub odd: usize,
    /// The service was seen without it since; left out.
    pub stale: usize,
}

/// What an import did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub kinds: BTreeMap<&'static str, Taken>,
    /// Files that hold something for us and could not be read: name and reason.
    pub problems: Vec<(String, String)>,
    pub problem_count: usize,
}

/// How far an import has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done_bytes: u64,
    pub total_bytes: u64,
    pub rows: u64,
}

pub(crate) type Told<'a> = &'a dyn Fn(Progress);

/// What an import is given.
pub struct Given<'a> {
    /// ZIPs, folders or single files; parts of one archive may be given together.
    pub paths: &'a [PathBuf],
    /// The owner's time zone, for texts that name none that is known.
    pub zone: &'a TimeZone,
    /// Hears how far it is.
    pub told: &'a dyn Fn(Progress),
}

/// How the files of a service's archive are read.
pub(crate) struct Archive {
    /// May the file hold something for us? Told by its path, in lower case.
    pub(crate) wants: fn(&str) -> bool,
    /// Looks at a file before any is read, for what later ones are known by.
    pub(crate) learn: Option<Reads>,
    pub(crate) read: Reads,
    /// What to ask the service for.
    pub(crate) hint: &'static str,
}

type Reads = fn(&mut OpenFile<'_>, &mut Intake<'_>) -> Result<(), Stop>;

/// One file of an archive while it is read.
pub(crate) struct OpenFile<'a> {
    /// With its folders, as the archive has it.
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
    /// There is nothing in it for us; nobody needs to know.
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

/// Stands for a name where an id is needed: short, always the same, without spaces.
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

/// Takes in an archive. It can be given again: what is here already stays as it is. Interrupted, the
/// same archive goes on where it stopped.
pub(crate) fn import(
    desk: &Desk,
    service: &'static Service,
    archive: &Archive,
    given: &Given<'_>,
) -> Result<Imported, ArchiveError> {
    crate::shelves::prepare(&desk.records)?;
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
    let mut intake = Intake::new(desk, service, given, &meter, total_bytes);
    let mut imported = Imported::default();
    if let Some(learn) = archive.learn {
        for (at, entry) in &files {
            // What is wrong with a file is said when it is read.
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
            (Err(Stop::File(_)), Some(hit)) => Err(Stop::File(hit.words().to_owned())),
            (done, _) => done,
        }
    });
    opened.unwrap_or_else(|why| Err(Stop::File(why)))
}

impl Imported {
    fn problem(&mut self, name: &str, why: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_NAMED_MAX {
            self.problems.push((name.to_owned(), why));
        }
    }
}

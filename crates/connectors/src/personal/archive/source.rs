//! The source of an archive: a ZIP, its unpacked folder, or a single file of it. Names in a ZIP are
//! never used as paths.

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use super::{ArchiveError, base};

const FILES_MAX: usize = 500_000;
const FOLDERS_DEEP_MAX: usize = 12;
const READ_BYTES: usize = 256 << 10;
const ZIP_BEGINS: &[u8] = b"PK";
const LOOSE: &[&str] = &["json", "csv", "html", "htm"];

pub(super) enum Source {
    Zip { zip: ZipArchive<BufReader<File>>, entries: Vec<Entry> },
    Files(Vec<Entry>),
}

/// A file of an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    /// As the ZIP directory claims.
    pub(super) bytes: u64,
    position: EntryLocation,
}

#[derive(Clone, Debug)]
enum EntryLocation {
    InZip(usize),
    At(PathBuf),
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Source, ArchiveError> {
        let name = path.display().to_string();
        let closed = |error: std::io::Error| ArchiveError::Closed {
            name: name.clone(),
            why: error.to_string(),
        };
        if fs::metadata(path).map_err(closed)?.is_dir() {
            let mut entries = Vec::new();
            walk(path, path, 0, &mut entries).map_err(closed)?;
            return Ok(Source::Files(entries));
        }
        let mut file = store::files::open(path).map_err(closed)?;
        let mut begins = [0; 2];
        let is_zip = file.read_exact(&mut begins).is_ok() && begins == ZIP_BEGINS;
        file.seek(SeekFrom::Start(0)).map_err(closed)?;
        if !is_zip && is_loose(path) {
            let bytes = file.metadata().map_err(closed)?.len();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Source::Files(vec![Entry {
                name,
                bytes,
                position: EntryLocation::At(path.into()),
            }]));
        }
        zip(file).map_err(|why| {
            if is_zip {
                ArchiveError::Damaged { name, why }
            } else {
                ArchiveError::NotAZip { name, why }
            }
        })
    }

    pub(super) fn entries(&self, wants: fn(&str) -> bool) -> impl Iterator<Item = Entry> {
        let (Source::Zip { entries, .. } | Source::Files(entries)) = self;
        let wanted = move |entry: &&Entry| {
            // Resource forks that macOS adds to each file.
            !base(&entry.name).starts_with("._") && wants(&entry.name.to_lowercase())
        };
        entries.iter().filter(wanted).cloned()
    }

    /// Opens a file for `take`, with its compressed size.
    pub(super) fn with<T>(
        &mut self,
        entry: &Entry,
        take: impl FnOnce(&mut dyn Read, u64) -> T,
    ) -> Result<T, String> {
        match (self, &entry.position) {
            (Source::Zip { zip, .. }, EntryLocation::InZip(index)) => {
                let mut file = zip.by_index(*index).map_err(|error| error.to_string())?;
                let packed_bytes = file.compressed_size();
                Ok(take(&mut file, packed_bytes))
            }
            (_, EntryLocation::At(path)) => {
                let file = store::files::open(path).map_err(|error| error.to_string())?;
                Ok(take(&mut BufReader::with_capacity(READ_BYTES, file), entry.bytes))
            }
            _ => Err("it is not in the archive any more".to_owned()),
        }
    }
}

fn is_loose(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    LOOSE.contains(&extension.as_str())
}

fn zip(file: File) -> Result<Source, String> {
    let reader = BufReader::with_capacity(READ_BYTES, file);
    let mut zip = ZipArchive::new(reader).map_err(|error| error.to_string())?;
    if zip.len() > FILES_MAX {
        return Err(format!("it holds more than {FILES_MAX} files"));
    }
    let mut entries = Vec::new();
    for index in 0..zip.len() {
        // Only the directory is read; errors of a file are reported when it is read.
        let Ok(file) = zip.by_index_raw(index) else { continue };
        if !file.is_dir() {
            let name = String::from_utf8_lossy(file.name_raw()).into_owned();
            entries.push(Entry { name, bytes: file.size(), position: EntryLocation::InZip(index) });
        }
    }
    Ok(Source::Zip { zip, entries })
}

/// Links are not followed: an unpacked archive has none.
fn walk(root: &Path, folder: &Path, depth: usize, into: &mut Vec<Entry>) -> std::io::Result<()> {
    let mut found: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    found.sort_by_key(fs::DirEntry::file_name);
    for one in found {
        if into.len() >= FILES_MAX {
            return Err(std::io::Error::other(format!("it holds more than {FILES_MAX} files")));
        }
        let (path, kind) = (one.path(), one.file_type()?);
        if kind.is_dir() && depth < FOLDERS_DEEP_MAX {
            walk(root, &path, depth + 1, into)?;
        } else if kind.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            let bytes = one.metadata()?.len();
            into.push(Entry { name, bytes, position: EntryLocation::At(path) });
        }
    }
    Ok(())
}

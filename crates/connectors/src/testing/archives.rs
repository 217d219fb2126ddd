//! Archives for tests: real ZIPs and folders on disk.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use sandbox::Config;
use serde_json::Value;
use store::records::Window;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

use crate::personal::{ArchiveError, ImportInput, ImportReport};
use crate::testing::{Fixture, signed_out_fixture};
use crate::{ConnectorContext, Service};

pub(crate) type Take =
    fn(&ConnectorContext, &ImportInput<'_>) -> Result<ImportReport, ArchiveError>;

pub(crate) struct ArchiveFiles {
    folder: TempDir,
}

impl ArchiveFiles {
    pub(crate) fn new() -> ArchiveFiles {
        ArchiveFiles { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn zip(&self, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let path = self.path(name);
        let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        for (name, bytes) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    /// The same files, unpacked.
    pub(crate) fn unpacked(&self, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        for (file, bytes) in files {
            self.file(&format!("{name}/{file}"), bytes);
        }
        self.path(name)
    }
}

/// An owner without an account, only with an archive.
pub(crate) fn owner(service: &'static Service) -> Fixture {
    signed_out_fixture(service, Config::spotify(1, 1, 1_776_247_200_000_000), |_, _| None)
}

impl Fixture {
    pub(crate) fn import(
        &self,
        take: Take,
        paths: &[PathBuf],
    ) -> Result<ImportReport, ArchiveError> {
        let given = ImportInput { paths, zone: &TimeZone::UTC, on_progress: &|_| {} };
        take(&self.ctx, &given)
    }

    /// How many rows of a kind an import read, wrote, skipped as invalid and as withdrawn.
    pub(crate) fn counts(imported: &ImportReport, kind: &str) -> (usize, usize, usize, usize) {
        let taken = imported.kinds.get(kind).copied().unwrap_or_default();
        (taken.rows, taken.written, taken.odd, taken.stale)
    }

    pub(crate) fn flats(&self, kind: &str) -> Vec<Value> {
        let records = &self.ctx.records;
        let texts = records.window_flat(self.service.name, kind, &Window::default()).unwrap();
        texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }
}

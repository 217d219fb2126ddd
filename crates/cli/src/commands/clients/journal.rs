//! Backups of client files, sealed in the home, one record for each change, so that every change can be
//! reverted byte for byte.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use store::random::Random;
use store::vault::{Purpose, Sealed};

use super::files;
use crate::context::Stores;

/// One change of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) number: u32,
    pub(super) client: String,
    pub(super) path: PathBuf,
    /// Whether the file was there before.
    pub(super) existed: bool,
    pub(super) mode: u32,
    pub(super) before_sha256: String,
    pub(super) after_sha256: String,
    /// The private copy next to the file.
    #[serde(alias = "beside")]
    pub(super) copy: Option<PathBuf>,
    pub(super) grant: String,
    pub(super) made_grant: bool,
    /// Servers that were registered for this change.
    pub(super) made_servers: Vec<String>,
    pub(super) at_us: i64,
}

pub(super) struct Journal<'s> {
    folder: PathBuf,
    stores: &'s Stores,
    random: &'s Random,
}

impl<'s> Journal<'s> {
    pub(super) fn open(stores: &'s Stores, random: &'s Random) -> Result<Journal<'s>> {
        let folder = stores.home.backups().join("clients");
        match platform::private::create_folder(&folder) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(e).with_context(|| format!("cannot make `{}`", folder.display()))
            }
            _ => Ok(Journal { folder, stores, random }),
        }
    }

    /// Every record, oldest first.
    pub(super) fn records(&self) -> Result<Vec<Record>> {
        let mut records: Vec<Record> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                let text = fs::read_to_string(&path)?;
                let shown = path.display();
                records.push(
                    serde_json::from_str(&text)
                        .with_context(|| format!("the record `{shown}` cannot be read"))?,
                );
            }
        }
        records.sort_by_key(|record| record.number);
        Ok(records)
    }

    /// Writes a record with the old text, under the next number.
    pub(super) fn write(&self, mut record: Record, before: &[u8]) -> Result<Record> {
        record.number = self.records()?.last().map_or(1, |last| last.number + 1);
        let vault = self.stores.registry.vault();
        let sealed = vault.seal(Purpose::ClientBackup, &row(&record), before, self.random)?;
        files::write_new(&self.sealed_path(record.number), sealed.as_bytes(), 0o600)?;
        let facts = serde_json::to_vec_pretty(&record)?;
        files::write_new(&self.facts_path(record.number), &facts, 0o600)?;
        Ok(record)
    }

    /// The old text.
    pub(super) fn before(&self, record: &Record) -> Result<Vec<u8>> {
        let path = self.sealed_path(record.number);
        let shown = path.display();
        let bytes = fs::read(&path).with_context(|| format!("cannot read the copy `{shown}`"))?;
        let sealed = Sealed::from_bytes(Purpose::ClientBackup, &row(record), bytes);
        Ok(self.stores.registry.vault().open(&sealed)?.expose().clone())
    }

    pub(super) fn drop(&self, record: &Record) -> Result<()> {
        fs::remove_file(self.facts_path(record.number))?;
        fs::remove_file(self.sealed_path(record.number))?;
        Ok(())
    }

    fn facts_path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number:06}.json"))
    }

    fn sealed_path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number:06}.sealed"))
    }
}

/// The context of the seal: a copy opens only as the copy of its own file.
fn row(record: &Record) -> String {
    format!("{} {}", record.number, record.path.display())
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

pub(super) fn sha256_of(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| sha256(&bytes))
}

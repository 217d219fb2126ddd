//! The seal: the last flushed row of the log under an HMAC of the vault key. An attacker without
//! the key can re-chain a rewritten log, but cannot forge the seal.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use platform::files::AtOffset as _;

use super::chain;
use super::error::LedgerError;
use super::paths::{self, LogPaths};
use super::reader::Reader;
use super::source::LogSource;
use super::verify::Checkpoint;
use crate::postgres::StoreError;
use crate::vault::{Purpose, Vault};

/// One of the two slots. A torn write damages one of them; the other still has the previous seal.
const SLOT_BYTES: usize = 512;
const SLOTS: usize = 2;

/// Writers hold the lock for microseconds. One that does not get it retries at its next interval.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE_MS: u64 = 1;

/// Where the seal is on Postgres, whose transactions are not torn: one slot is enough.
const FACT: &str = "seal";

/// The sealing key, derived from the vault key for this use only.
#[derive(Clone)]
pub struct SealKey(Hmac<Sha256>);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey([secret])")
    }
}

impl SealKey {
    /// A locked vault has no sealing key.
    pub fn of(vault: &Vault) -> Option<SealKey> {
        (!vault.is_locked()).then(|| SealKey(vault.digest(Purpose::AuditSeal)))
    }

    fn mac(&self, row: &Checkpoint, since: u64) -> Hmac<Sha256> {
        let Checkpoint { ledger, seq, hash, time } = row;
        let text = format!("tollgate audit seal 1\n{ledger}\n{seq}\n{hash}\n{since}\n{time}");
        self.0.clone().chain_update(text.as_bytes())
    }

    fn fits(&self, slot: &Slot) -> bool {
        let found: Option<[u8; 32]> = crate::hex::decode(&slot.mac);
        found.is_some_and(|found| self.mac(&slot.row, slot.since).verify_slice(&found).is_ok())
    }
}

/// How a ledger is sealed.
#[derive(Clone, Debug)]
pub struct Sealing {
    pub key: SealKey,
    /// This home has sealed its log before, so a missing seal means that it was removed.
    pub expected: bool,
}

/// A row that was the last one when it was sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seal {
    #[serde(flatten)]
    pub row: Checkpoint,
    /// The row at which this home began to seal; older rows were accepted as found.
    pub since: u64,
}

/// The content of the seal file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealState {
    Missing,
    /// No slot matches the key.
    Broken,
    Valid(Seal),
}

#[derive(Debug, Serialize, Deserialize)]
struct Slot {
    #[serde(flatten)]
    row: Checkpoint,
    since: u64,
    mac: String,
}

/// Why a log is not the one that was sealed; none if it is.
pub(crate) fn broken_in(
    state: &SealState,
    expected: bool,
    head: &Checkpoint,
    reader: &Reader,
) -> Result<Option<String>, LedgerError> {
    let seal = match state {
        SealState::Missing if expected => return Ok(Some(MISSING.to_owned())),
        SealState::Missing => return Ok(None),
        SealState::Broken => return Ok(Some(BROKEN.to_owned())),
        SealState::Valid(seal) => seal,
    };
    if let Some(words) = seal.row.missed_in(head) {
        return Ok(Some(words));
    }
    let Checkpoint { seq, time, .. } = &seal.row;
    if reader.hash_of(*seq)?.is_none() {
        // The seal is renewed before rows are retired, so the sealed row is never among them.
        return Ok(Some(format!(
            "row {seq} of the audit log, which was sealed at {time}, is gone"
        )));
    }
    reader.differs_from(&seal.row, "was sealed")
}

pub(crate) const MISSING: &str = "the seal of the audit log (`audit/seal`) is missing";
pub(crate) const BROKEN: &str = "the seal of the audit log (`audit/seal`) does not fit the vault key: it was changed, or made with another key";

pub(crate) fn read(source: &LogSource, key: &SealKey) -> Result<SealState, LedgerError> {
    match source {
        LogSource::Files(paths) => read_file(paths, key),
        LogSource::Postgres(table) => {
            let found = table.fact(FACT).map_err(|e| table.error(e))?;
            Ok(found.map_or(SealState::Missing, |bytes| match slot(&bytes, key) {
                Some(Slot { row, since, .. }) => SealState::Valid(Seal { row, since }),
                None => SealState::Broken,
            }))
        }
    }
}

fn read_file(paths: &LogPaths, key: &SealKey) -> Result<SealState, LedgerError> {
    let path = paths.seal();
    match paths::open_to_read(&path) {
        Ok(file) => Ok(best(&slots(&file, key)).map_or(SealState::Broken, |(_, slot)| {
            SealState::Valid(Seal { row: slot.row.clone(), since: slot.since })
        })),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(SealState::Missing),
        Err(e) => Err(LedgerError::io("open", &path)(e)),
    }
}

fn slots(file: &File, key: &SealKey) -> Vec<Option<Slot>> {
    let read = |number: usize| {
        let mut bytes = vec![0; SLOT_BYTES];
        file.read_exact_at(&mut bytes, offset(number)).ok()?;
        slot(&bytes, key)
    };
    (0..SLOTS).map(read).collect()
}

fn slot(bytes: &[u8], key: &SealKey) -> Option<Slot> {
    serde_json::from_slice::<Slot>(bytes).ok().filter(|slot| key.fits(slot))
}

/// The newest slot and its number.
fn best(slots: &[Option<Slot>]) -> Option<(usize, &Slot)> {
    let found = slots.iter().enumerate().filter_map(|(i, slot)| Some((i, slot.as_ref()?)));
    found.max_by_key(|(_, slot)| slot.row.seq)
}

fn offset(slot: usize) -> u64 {
    u64::try_from(slot * SLOT_BYTES).unwrap_or(0)
}

fn line(key: &SealKey, row: &Checkpoint, since: u64) -> Vec<u8> {
    let mac = crate::hex::encode(&key.mac(row, since).finalize().into_bytes());
    let slot = Slot { row: row.clone(), since, mac };
    let mut bytes = serde_json::to_vec(&slot).unwrap_or_default();
    bytes.resize(SLOT_BYTES - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// Creates or replaces the file with this row, and flushes it.
pub(crate) fn renew(
    source: &LogSource,
    key: &SealKey,
    row: &Checkpoint,
    since: u64,
) -> Result<(), LedgerError> {
    match source {
        LogSource::Files(paths) => renew_file(paths, key, row, since),
        LogSource::Postgres(table) => {
            for _ in 0..LOCK_TRIES {
                let old = table.fact(FACT).map_err(|e| table.error(e))?;
                let new = line(key, row, since);
                if table.change_fact(FACT, old, new).map_err(|e| table.error(e))? {
                    return Ok(());
                }
            }
            Err(table.error(StoreError::Unexpected("its seal changes all the time".to_owned())))
        }
    }
}

fn renew_file(
    paths: &LogPaths,
    key: &SealKey,
    row: &Checkpoint,
    since: u64,
) -> Result<(), LedgerError> {
    let (path, tmp) = (paths.seal(), paths.seal_tmp());
    let bytes = line(key, row, since).repeat(SLOTS);
    let made = paths::create_replacing(&tmp).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    made.map_err(LedgerError::io("write", &tmp))?;
    fs::rename(&tmp, &path).map_err(LedgerError::io("name", &path))?;
    platform::files::sync_folder(paths.folder()).map_err(LedgerError::io("flush", paths.folder()))
}

/// Seals a row that is on disk. Never goes back: another process may have sealed more. The slot is
/// not flushed, because an old seal only claims less than is true.
pub(crate) fn advance(
    source: &LogSource,
    key: &SealKey,
    row: &Checkpoint,
    since: u64,
) -> Result<(), LedgerError> {
    match source {
        LogSource::Files(paths) => advance_file(paths, key, row, since),
        LogSource::Postgres(table) => {
            let old = table.fact(FACT).map_err(|e| table.error(e))?;
            let since = match old.as_deref().and_then(|bytes| slot(bytes, key)) {
                Some(slot) if slot.row.ledger == row.ledger && slot.row.seq >= row.seq => {
                    return Ok(());
                }
                Some(slot) => slot.since,
                None => since,
            };
            // If another replica was faster, it has sealed as much.
            let changed = table.change_fact(FACT, old, line(key, row, since));
            changed.map(|_| ()).map_err(|e| table.error(e))
        }
    }
}

fn advance_file(
    paths: &LogPaths,
    key: &SealKey,
    row: &Checkpoint,
    since: u64,
) -> Result<(), LedgerError> {
    let path = paths.seal();
    let file = match paths::open_to_write(&path) {
        Ok(file) => file,
        // The written content is known, so the file can be recreated.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return renew_file(paths, key, row, since),
        Err(e) => return Err(LedgerError::io("open", &path)(e)),
    };
    if !lock(&file, &path)? {
        return Ok(());
    }
    let found = slots(&file, key);
    let (number, since) = match best(&found) {
        Some((_, slot)) if slot.row.ledger == row.ledger && slot.row.seq >= row.seq => {
            return Ok(());
        }
        Some((number, slot)) => ((number + 1) % SLOTS, slot.since),
        None => return renew_file(paths, key, row, since),
    };
    file.write_all_at(&line(key, row, since), offset(number))
        .map_err(LedgerError::io("write", &path))
}

/// False if another process holds the lock for too long.
fn lock(file: &File, path: &Path) -> Result<bool, LedgerError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(fs::TryLockError::WouldBlock) => {
                std::thread::sleep(std::time::Duration::from_millis(LOCK_PAUSE_MS));
            }
            Err(fs::TryLockError::Error(e)) => return Err(LedgerError::io("lock", path)(e)),
        }
    }
    Ok(false)
}

impl Reader {
    /// The state of this log's seal under that key.
    pub fn seal(&self, key: &SealKey) -> Result<SealState, LedgerError> {
        read(&self.source, key)
    }

    /// Why a row that is known from outside is not in this log; none if it is, or was retired.
    pub(crate) fn differs_from(
        &self,
        known: &Checkpoint,
        how: &str,
    ) -> Result<Option<String>, LedgerError> {
        let Checkpoint { seq, hash, time, .. } = known;
        Ok(match self.hash_of(*seq)? {
            Some(found) if chain::as_text(&found) != hash => Some(format!(
                "row {seq} of the audit log is not the row that {how} at {time}: the log was rewritten there or before"
            )),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::secret::Secret;

    fn key(byte: u8) -> SealKey {
        SealKey::of(&Vault::from_key(Secret::new([byte; 32]))).unwrap()
    }

    fn row(seq: u64) -> Checkpoint {
        let (ledger, hash) = ("a".repeat(64), format!("{seq:064}"));
        Checkpoint { ledger, seq, hash, time: "2026-11-18T00:00:00.000000Z".to_owned() }
    }

    fn sealed(paths: &LogPaths, key: &SealKey) -> Option<u64> {
        match read_file(paths, key).unwrap() {
            SealState::Valid(seal) => Some(seal.row.seq),
            _ => None,
        }
    }

    #[test]
    fn a_seal_advances_and_a_torn_or_forged_slot_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let paths = LogPaths::create(folder.path()).unwrap();
        assert_eq!(read_file(&paths, &key(1)).unwrap(), SealState::Missing);
        for seq in [5, 6, 9, 8] {
            advance_file(&paths, &key(1), &row(seq), 5).unwrap();
        }
        assert_eq!(sealed(&paths, &key(1)), Some(9), "never goes back");
        assert_eq!(read_file(&paths, &key(2)).unwrap(), SealState::Broken, "another key");

        let whole = fs::read(paths.seal()).unwrap();
        assert_eq!(whole.len(), SLOT_BYTES * SLOTS);
        let text = String::from_utf8(whole.clone()).unwrap();
        let place = text.find("\"seq\":9").unwrap();
        let mut torn = whole.clone();
        *torn.get_mut(place + 6).unwrap() = b'7';
        fs::write(paths.seal(), &torn).unwrap();
        assert_eq!(sealed(&paths, &key(1)), Some(6), "the seal before");
        for bytes in [&b""[..], &[0; 1024], &[b'x'; 700]] {
            fs::write(paths.seal(), bytes).unwrap();
            assert_eq!(read_file(&paths, &key(1)).unwrap(), SealState::Broken);
        }
    }
}

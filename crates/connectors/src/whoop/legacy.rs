//! Takes over what the Python server `whoop-mcp` keeps in `~/.whoop-mcp-server`: the login and the
//! records. Its files are read and never written.

mod fernet;
mod login;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use store::accounts::AccountsError;
use store::foreign::{Foreign, ForeignError};
use store::records::RecordsError;

use super::SERVICE;
use super::keep::{keep, keep_snapshot};
use super::kind::{CURRENT, Kind};
use super::takeout::Tally;
use crate::Desk;
use crate::member;

pub use login::{LocalTime, Login};

const BATCH_ROWS: usize = 500;
/// Tables of records, by the kind they hold.
const TABLES: [(Kind, &str); 6] = [
    (Kind::Cycles, "cycles"),
    (Kind::Recoveries, "recoveries"),
    (Kind::Sleeps, "sleeps"),
    (Kind::Workouts, "workouts"),
    (Kind::BodyMeasurement, "body_measurements"),
    (Kind::Profile, "profile_snapshots"),
];

#[derive(Debug, thiserror::Error)]
pub enum LegacyError {
    #[error("there is nothing of whoop-mcp in `{}`\nhint: name the folder that holds `tokens.json` or `whoop.db`", .0.display())]
    Nothing(PathBuf),
    #[error("cannot read `{}`: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Database(#[from] ForeignError),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    #[error(
        "the records in `{}` are of another person than those here\nhint: `--home DIR` takes them into a home of their own", .0.display()
    )]
    OtherPerson(PathBuf),
}

/// What was taken over.
#[derive(Debug)]
pub struct Taken {
    pub login: Login,
    /// By kind; empty when there is no database.
    pub kinds: BTreeMap<&'static str, Tally>,
    /// Records that could not be read; kept as they are.
    pub warnings: Vec<String>,
}

impl Taken {
    /// There was a login, which cannot be opened, and nothing besides.
    pub fn took_nothing(&self) -> bool {
        self.login == Login::Unreadable && self.kinds.values().all(Tally::is_nothing)
    }
}

/// Takes over a folder. `database` names the file when it lies elsewhere (`WHOOP_DB_PATH`).
pub fn import(
    desk: &Desk,
    folder: &Path,
    database: Option<&Path>,
    local: LocalTime<'_>,
) -> Result<Taken, LegacyError> {
    let usual = folder.join("whoop.db");
    let database = database.unwrap_or(&usual);
    let tokens = folder.join("tokens.json");
    if !database.is_file() && !tokens.is_file() {
        return Err(LegacyError::Nothing(folder.into()));
    }
    let mut taken = Taken { login: Login::None, kinds: BTreeMap::new(), warnings: Vec::new() };
    if database.is_file() {
        let foreign = Foreign::open(database, &desk.records, &desk.random)?;
        same_person(desk, &foreign, database)?;
        for (kind, table) in TABLES {
            let tally = records(desk, &foreign, kind, table, &mut taken.warnings)?;
            taken.kinds.insert(kind.name(), tally);
        }
    }
    let (tokens, key) = (text(&tokens)?, text(&folder.join(".encryption_key"))?);
    taken.login = login::take(desk, tokens.as_deref(), key.as_deref(), local)?;
    Ok(taken)
}

/// Its profile says whose records these are; without one nobody can tell.
fn same_person(desk: &Desk, foreign: &Foreign, database: &Path) -> Result<(), LegacyError> {
    foreign.column("profile_snapshots", "raw_json", |raw| {
        member::compare(desk, &SERVICE, raw.as_bytes())
            .map_err(|_| LegacyError::OtherPerson(database.into()))
    })
}

/// Their derived form is fixed when it is written and often old, so ours is made from the raw one.
fn records(
    desk: &Desk,
    foreign: &Foreign,
    kind: Kind,
    table: &'static str,
    warnings: &mut Vec<String>,
) -> Result<Tally, LegacyError> {
    let mut tally = Tally::default();
    let mut batch: Vec<String> = Vec::new();
    foreign.column(table, "raw_json", |raw| {
        batch.push(raw);
        if batch.len() >= BATCH_ROWS {
            put(desk, kind, &mut batch, &mut tally, warnings)?;
        }
        Ok::<(), LegacyError>(())
    })?;
    put(desk, kind, &mut batch, &mut tally, warnings)?;
    Ok(tally)
}

fn put(
    desk: &Desk,
    kind: Kind,
    batch: &mut Vec<String>,
    tally: &mut Tally,
    warnings: &mut Vec<String>,
) -> Result<(), LegacyError> {
    let rows = std::mem::take(batch);
    tally.rows += rows.len();
    if kind.is_snapshot() {
        return snapshot(desk, kind, &rows, tally);
    }
    let kept = keep(desk, kind, &rows)?;
    tally.written += kept.written;
    tally.unchanged += rows.len() - kept.written;
    warnings.extend(kept.warnings);
    Ok(())
}

/// A snapshot has no stamp that could say which is newer; one that is here came from WHOOP itself.
fn snapshot(
    desk: &Desk,
    kind: Kind,
    rows: &[String],
    tally: &mut Tally,
) -> Result<(), LegacyError> {
    for raw in rows {
        if desk.records.one(SERVICE.name, kind.name(), CURRENT)?.is_some() {
            tally.known += 1;
        } else {
            tally.written += usize::from(keep_snapshot(desk, kind, raw)?);
        }
    }
    Ok(())
}

/// Nothing when the file is not there.
fn text(path: &Path) -> Result<Option<String>, LegacyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LegacyError::Io { path: path.into(), source }),
    }
}

//! Imports the data of the Python server `whoop-mcp` in `~/.whoop-mcp-server`: the login and the
//! records. Its files are read and never written.

mod fernet;
mod login;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use store::accounts::AccountsError;
use store::records::RecordsError;
use store::sqlite_copy::{SqliteCopy, SqliteCopyError};

use super::SERVICE;
use super::kind::{CURRENT, Kind};
use super::mirror_writer::{store_page, store_snapshot};
use super::takeout::TakeoutCounts;
use crate::ConnectorContext;
use crate::identity;

pub use login::{LocalTime, LoginImport};

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
    Database(#[from] SqliteCopyError),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    #[error(
        "the records in `{}` belong to another person than the records here\nhint: `--home DIR` imports them into a separate home", .0.display()
    )]
    OtherPerson(PathBuf),
}

/// What was imported.
#[derive(Debug)]
pub struct LegacyImport {
    pub login: LoginImport,
    /// By kind; empty without a database.
    pub kinds: BTreeMap<&'static str, TakeoutCounts>,
    /// Records that could not be read; kept as they are.
    pub warnings: Vec<String>,
}

impl LegacyImport {
    /// There was only a login, which cannot be opened.
    pub fn took_nothing(&self) -> bool {
        self.login == LoginImport::Unreadable && self.kinds.values().all(TakeoutCounts::is_nothing)
    }
}

/// Imports a folder. `database` is the path of a database elsewhere (`WHOOP_DB_PATH`).
pub fn import(
    ctx: &ConnectorContext,
    folder: &Path,
    database: Option<&Path>,
    local: LocalTime<'_>,
) -> Result<LegacyImport, LegacyError> {
    let usual = folder.join("whoop.db");
    let database = database.unwrap_or(&usual);
    let tokens = folder.join("tokens.json");
    if !database.is_file() && !tokens.is_file() {
        return Err(LegacyError::Nothing(folder.into()));
    }
    let mut taken =
        LegacyImport { login: LoginImport::None, kinds: BTreeMap::new(), warnings: Vec::new() };
    if database.is_file() {
        let foreign = SqliteCopy::open(database, &ctx.records, &ctx.random)?;
        same_person(ctx, &foreign, database)?;
        for (kind, table) in TABLES {
            let tally = records(ctx, &foreign, kind, table, &mut taken.warnings)?;
            taken.kinds.insert(kind.name(), tally);
        }
    }
    let (tokens, key) = (text(&tokens)?, text(&folder.join(".encryption_key"))?);
    taken.login = login::take(ctx, tokens.as_deref(), key.as_deref(), local)?;
    Ok(taken)
}

/// The person of the records, by its profile; unknown without one.
fn same_person(
    ctx: &ConnectorContext,
    foreign: &SqliteCopy,
    database: &Path,
) -> Result<(), LegacyError> {
    foreign.column("profile_snapshots", "raw_json", |raw| {
        identity::compare(ctx, &SERVICE, raw.as_bytes())
            .map_err(|_| LegacyError::OtherPerson(database.into()))
    })
}

/// The stored derived form is often old, so ours is derived from the raw one.
fn records(
    ctx: &ConnectorContext,
    foreign: &SqliteCopy,
    kind: Kind,
    table: &'static str,
    warnings: &mut Vec<String>,
) -> Result<TakeoutCounts, LegacyError> {
    let mut tally = TakeoutCounts::default();
    let mut batch: Vec<String> = Vec::new();
    foreign.column(table, "raw_json", |raw| {
        batch.push(raw);
        if batch.len() >= BATCH_ROWS {
            put(ctx, kind, &mut batch, &mut tally, warnings)?;
        }
        Ok::<(), LegacyError>(())
    })?;
    put(ctx, kind, &mut batch, &mut tally, warnings)?;
    Ok(tally)
}

fn put(
    ctx: &ConnectorContext,
    kind: Kind,
    batch: &mut Vec<String>,
    tally: &mut TakeoutCounts,
    warnings: &mut Vec<String>,
) -> Result<(), LegacyError> {
    let rows = std::mem::take(batch);
    tally.rows += rows.len();
    if kind.is_snapshot() {
        return snapshot(ctx, kind, &rows, tally);
    }
    let kept = store_page(ctx, kind, &rows)?;
    tally.written += kept.written;
    tally.unchanged += rows.len() - kept.written;
    warnings.extend(kept.warnings);
    Ok(())
}

/// A snapshot has no time of change; an existing one came from WHOOP itself and is kept.
fn snapshot(
    ctx: &ConnectorContext,
    kind: Kind,
    rows: &[String],
    tally: &mut TakeoutCounts,
) -> Result<(), LegacyError> {
    for raw in rows {
        if ctx.records.one(SERVICE.name, kind.name(), CURRENT)?.is_some() {
            tally.known += 1;
        } else {
            tally.written += usize::from(store_snapshot(ctx, kind, raw)?);
        }
    }
    Ok(())
}

/// `None` if the file does not exist.
fn text(path: &Path) -> Result<Option<String>, LegacyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LegacyError::Io { path: path.into(), source }),
    }
}

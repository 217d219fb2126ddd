//! The registry's tables on Postgres: every statement that it uses. Changes are numbered under the
//! lock of the one row of `registry_state`, and the primary key refuses a number that is taken.

use std::collections::HashMap;
use std::io;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::image::RowImage;
use crate::postgres::{Address, Link, LinkKind, Session, StoreError, schema};

/// A copy that missed more changes than this is filled anew.
const KEPT_CHANGES: i64 = 10_000;
const TRIM_EVERY: i64 = 1_000;

const STATE: &str =
    "SELECT store, seq, mark, schema, oldest, full_from FROM registry_state WHERE one = 1";
const LOCK: &str = "SELECT store, seq, mark, schema, oldest, full_from FROM registry_state \
     WHERE one = 1 FOR UPDATE";
const MARK: &str = "SELECT mark FROM registry_changes WHERE seq = $1";
const LATER: &str = "SELECT table_name, key, image FROM registry_rows WHERE seq > $1";
const ALL: &str = "SELECT table_name, key, image FROM registry_rows WHERE image IS NOT NULL";
const IMAGES_OF: &str =
    "SELECT image FROM registry_rows WHERE table_name = $1 AND image IS NOT NULL";
const IMAGES: &str = "SELECT id, image FROM registry_rows WHERE id = ANY($1) AND image IS NOT NULL";
const PUT: &str = "INSERT INTO registry_rows (id, table_name, key, image, seq) \
     SELECT new.id, new.table_name, new.key, new.image, $5 \
     FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[]) AS new (id, table_name, key, image) \
     ON CONFLICT (id) DO UPDATE SET image = EXCLUDED.image, seq = EXCLUDED.seq";
const NUMBER: &str = "INSERT INTO registry_changes (seq, mark) VALUES ($1, $2)";
const ADVANCE: &str = "UPDATE registry_state SET seq = $1, mark = $2, generation = $3";
const REWRITTEN: &str = "UPDATE registry_state SET schema = $1, oldest = $2, full_from = seq";
const CLEAR: &str = "DELETE FROM registry_rows";
const TRIM_CHANGES: &str = "DELETE FROM registry_changes WHERE seq < $1";
const TRIM_ROWS: &str = "DELETE FROM registry_rows WHERE seq < $1 AND image IS NULL";
const LEASE: &str = "INSERT INTO registry_leases (name, holder, until_us) \
     VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3) \
     ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, until_us = EXCLUDED.until_us \
     WHERE registry_leases.until_us <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
const HOLD: &str = "SELECT holder FROM registry_leases WHERE name = $1 AND holder = $2 FOR UPDATE";
const RELEASE: &str = "DELETE FROM registry_leases WHERE name = $1 AND holder = $2";
const TRIMMED: &str = "UPDATE registry_state SET full_from = greatest(full_from, $1)";

/// Up to which change a copy is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The store it is a copy of.
    pub(super) store: String,
    pub(super) seq: i64,
    pub(super) mark: String,
}

/// A right to change something alone. It ends by itself, and another holder's ends it too.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) name: String,
    pub(crate) holder: String,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) position: Position,
    /// The version of the tables; 0 before the first row.
    pub(super) schema: i64,
    /// The oldest version that can use them.
    pub(super) oldest: i64,
    full_from: i64,
}

/// What a copy lacks.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) state: State,
    pub(super) rows: Vec<RowImage>,
    /// These are all rows: what else the copy has is not in the store.
    pub(super) is_all: bool,
}

/// What a transaction leaves in the store.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) position: Position,
    pub(super) generation: i64,
    pub(super) rows: Vec<RowImage>,
    /// Rows of newer tables may have columns that we do not know and must not drop.
    pub(super) keeps_unknown: bool,
    /// Nothing is changed if its holder has lost it.
    pub(super) lease: Option<Lease>,
    /// These are all rows, of tables of this version and for this one and newer.
    pub(super) rewrites: Option<(i64, i64)>,
}

#[derive(Debug)]
pub(super) struct StoreTable {
    link: Link,
}

impl StoreTable {
    pub(super) fn start(address: &Address) -> io::Result<StoreTable> {
        Ok(StoreTable { link: Link::start(address, LinkKind::Durable)? })
    }

    /// Makes the tables if they are missing or older.
    pub(super) fn migrate(&self) -> Result<(), StoreError> {
        self.link.run(schema::migrate)
    }

    /// All rows of a table, as they are in the store.
    pub(super) fn images_of(&self, table: &'static str) -> Result<Vec<String>, StoreError> {
        self.link.run(async move |session| {
            let (client, [images]) = session.prepared([IMAGES_OF]).await?;
            let rows = client.query(&images, &[&table]).await?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        })
    }

    pub(super) fn state(&self) -> Result<State, StoreError> {
        self.link.run(async |session| {
            let (client, [state]) = session.prepared([STATE]).await?;
            Ok(state_of(&client.query_one(&state, &[]).await?))
        })
    }

    /// What a copy at this position lacks; nothing if it is complete.
    pub(super) fn missing(&self, known: Option<Position>) -> Result<Option<Missing>, StoreError> {
        let state = self.state()?;
        if known.as_ref() == Some(&state.position) {
            return Ok(None);
        }
        self.link.run(async move |session| {
            // An error drops the connection, and this with it.
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            session.client().await?.batch_execute(begin).await?;
            let (client, [state]) = session.prepared([STATE]).await?;
            let state = state_of(&client.query_one(&state, &[]).await?);
            let missing = rows_after(session, state, known.as_ref()).await?;
            session.client().await?.batch_execute("COMMIT").await?;
            Ok(Some(missing))
        })
    }

    /// Opens a transaction that holds the lock, and reads what a copy at this position lacks.
    pub(super) fn lock(&self, known: Option<Position>) -> Result<Missing, StoreError> {
        self.link.run(async move |session| {
            session.client().await?;
            session.in_transaction = true;
            let (client, [lock]) = session.prepared([LOCK]).await?;
            let (begun, state) =
                tokio::join!(biased; client.batch_execute("BEGIN"), client.query_one(&lock, &[]));
            begun?;
            let state = state_of(&state?);
            rows_after(session, state, known.as_ref()).await
        })
    }

    /// What a copy at this position lacks, under the lock.
    pub(super) fn missing_under_lock(
        &self,
        state: State,
        known: Option<Position>,
    ) -> Result<Missing, StoreError> {
        self.link.run(async move |session| {
            still_locked(session).await?;
            rows_after(session, state, known.as_ref()).await
        })
    }

    /// Writes and ends the transaction. After an error the change may be there or not.
    pub(super) fn commit(&self, change: Change) -> Result<(), StoreError> {
        self.link.run(async move |session| {
            still_locked(session).await?;
            put(session, &change).await?;
            session.in_transaction = false;
            Ok(session.client().await?.batch_execute("COMMIT").await?)
        })
    }

    /// Takes a lease if nobody has it; false otherwise.
    pub(super) fn lease(&self, lease: Lease, length_us: i64) -> Result<bool, StoreError> {
        self.link.run(async move |session| {
            let taken = execute(session, LEASE, &[&lease.name, &lease.holder, &length_us]).await?;
            Ok(taken == 1)
        })
    }

    /// Gives a lease back, without waiting. If that fails, it ends by itself.
    pub(super) fn release(&self, lease: Lease) {
        self.link.post(async move |session| {
            execute(session, RELEASE, &[&lease.name, &lease.holder]).await?;
            Ok(())
        });
    }

    /// Ends the transaction without a change.
    pub(super) fn give_up(&self) -> Result<(), StoreError> {
        self.link.run(async |session| {
            if std::mem::take(&mut session.in_transaction) {
                session.client().await?.batch_execute("ROLLBACK").await?;
            }
            Ok(())
        })
    }
}

/// Fails if the connection was lost, and the lock with it.
async fn still_locked(session: &mut Session) -> Result<(), StoreError> {
    session.client().await?;
    if session.in_transaction {
        return Ok(());
    }
    Err(StoreError::Unexpected("the connection was lost during a change".to_owned()))
}

async fn rows_after(
    session: &mut Session,
    state: State,
    known: Option<&Position>,
) -> Result<Missing, StoreError> {
    let known = known.filter(|known| known.store == state.position.store);
    let known = match known {
        Some(known) if known.seq == state.position.seq => {
            (known.mark == state.position.mark).then_some(known)
        }
        // One that the store has not, or whose later deletes are forgotten.
        Some(known) if known.seq > state.position.seq || known.seq < state.full_from => None,
        Some(known) => {
            let (client, [mark]) = session.prepared([MARK]).await?;
            let found = client.query_opt(&mark, &[&known.seq]).await?;
            found.is_some_and(|row| row.get::<_, &str>(0) == known.mark).then_some(known)
        }
        None => None,
    };
    let rows = match known {
        Some(known) if known.seq == state.position.seq => Vec::new(),
        Some(known) => {
            let (client, [later]) = session.prepared([LATER]).await?;
            client.query(&later, &[&known.seq]).await?
        }
        None => {
            let (client, [all]) = session.prepared([ALL]).await?;
            client.query(&all, &[]).await?
        }
    };
    let rows = rows.iter().map(image_of).collect();
    Ok(Missing { state, rows, is_all: known.is_none() })
}

async fn put(session: &mut Session, change: &Change) -> Result<(), StoreError> {
    let Position { seq, mark, .. } = &change.position;
    if let Some(Lease { name, holder }) = &change.lease
        && execute(session, HOLD, &[name, holder]).await? != 1
    {
        let words = format!("another replica has taken over `{name}`, because this one was slow");
        return Err(StoreError::Unexpected(words));
    }
    if change.rewrites.is_some() {
        execute(session, CLEAR, &[]).await?;
    }
    let ids: Vec<Vec<u8>> = change.rows.iter().map(id_of).collect();
    let kept = if change.keeps_unknown { images(session, &ids).await? } else { HashMap::new() };
    let tables: Vec<&str> = change.rows.iter().map(|row| &*row.table).collect();
    let keys: Vec<&str> = change.rows.iter().map(|row| &*row.key).collect();
    let images: Vec<Option<String>> =
        change.rows.iter().zip(&ids).map(|(row, id)| merged(row, kept.get(id))).collect();
    execute(session, PUT, &[&ids, &tables, &keys, &images, seq]).await?;
    execute(session, NUMBER, &[seq, mark]).await?;
    execute(session, ADVANCE, &[seq, mark, &change.generation]).await?;
    if let Some((schema, oldest)) = change.rewrites {
        let versions = [schema, oldest].map(|n| i32::try_from(n).unwrap_or(i32::MAX));
        execute(session, REWRITTEN, &[&versions[0], &versions[1]]).await?;
    }
    if seq % TRIM_EVERY == 0 {
        let before = seq - KEPT_CHANGES;
        for trim in [TRIM_CHANGES, TRIM_ROWS, TRIMMED] {
            execute(session, trim, &[&before]).await?;
        }
    }
    Ok(())
}

async fn images(
    session: &mut Session,
    ids: &[Vec<u8>],
) -> Result<HashMap<Vec<u8>, String>, StoreError> {
    let (client, [images]) = session.prepared([IMAGES]).await?;
    let rows = client.query(&images, &[&ids]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The new image with the columns that only the old one has.
fn merged(row: &RowImage, old: Option<&String>) -> Option<String> {
    let new = row.image.as_ref()?;
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let Some((mut all, known)) = old.and_then(|old| Some((object(old)?, object(new)?))) else {
        return Some(new.clone());
    };
    all.extend(known);
    Some(Value::Object(all).to_string())
}

async fn execute(
    session: &mut Session,
    text: &'static str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, StoreError> {
    let (client, [statement]): (&Client, _) = session.prepared([text]).await?;
    Ok(client.execute(&statement, parameters).await?)
}

fn state_of(row: &Row) -> State {
    let position = Position { store: row.get(0), seq: row.get(1), mark: row.get(2) };
    let (schema, oldest): (i32, i32) = (row.get(3), row.get(4));
    State { position, schema: schema.into(), oldest: oldest.into(), full_from: row.get(5) }
}

fn image_of(row: &Row) -> RowImage {
    RowImage { table: row.get(0), key: row.get(1), image: row.get(2) }
}

/// Keys may be longer than an index entry.
fn id_of(row: &RowImage) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(row.table.as_bytes());
    hash.update([0]);
    hash.update(row.key.as_bytes());
    hash.finalize().to_vec()
}

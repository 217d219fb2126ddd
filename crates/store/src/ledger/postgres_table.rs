//! The ledger's tables on Postgres: every statement that it uses. Rows are inserted at the next
//! number under the lock of their log, and the primary key refuses a number that is taken.

use std::sync::{Mutex, PoisonError};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::chain::{HASH_BYTES, Hash};
use super::error::LedgerError;
use super::journal::Head;
use crate::postgres::{Address, Link, LinkKind, Session, StoreError, schema};

/// The one log. The tables have room for several.
const LOG: i32 = 0;

/// Rows that one statement reads.
const ROWS_AT_ONCE: usize = 2_000;

const LOCK: &str = "SELECT log FROM ledger_logs WHERE log = $1 FOR UPDATE";
const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
/// How many changes of the registry serving replicas must know.
const REGISTRY: &str = "SELECT generation FROM registry_state WHERE one = 1";
/// The known row by its hash alone, and the rows after it.
const READ: &str = "SELECT seq, CASE WHEN seq = $2 THEN substring(line FROM 1 FOR 64) ELSE line END \
     FROM ledger_rows WHERE log = $1 AND seq >= $2 ORDER BY seq LIMIT 2000";
const INSERT: &str = "INSERT INTO ledger_rows (log, seq, line) \
     SELECT $1, new.seq, new.line FROM unnest($2::bigint[], $3::bytea[]) AS new (seq, line)";
const OPEN_SEGMENT: &str =
    "INSERT INTO ledger_segments (log, segment, first_seq) VALUES ($1, $2, $3)";
const RENEW: &str = "INSERT INTO ledger_writers (log, writer, alive_until_us) VALUES ($1, $2, $3) \
     ON CONFLICT (log, writer) DO UPDATE SET alive_until_us = EXCLUDED.alive_until_us";
const FORGET: &str = "DELETE FROM ledger_writers WHERE log = $1 AND writer = $2";
const WRITERS: &str = "SELECT writer, alive_until_us FROM ledger_writers WHERE log = $1";
const SEGMENTS: &str =
    "SELECT segment, first_seq FROM ledger_segments WHERE log = $1 ORDER BY segment";
const HASH: &str =
    "SELECT substring(line FROM 1 FOR 64) FROM ledger_rows WHERE log = $1 AND seq = $2";
const RANGE: &str = "SELECT seq, line FROM ledger_rows WHERE log = $1 AND seq >= $2 AND seq < $3 \
     ORDER BY seq LIMIT $4";
const BYTES: &str = "SELECT coalesce(sum(length(line) + 1), 0)::bigint FROM ledger_rows \
     WHERE log = $1 AND seq >= $2 AND seq < $3";
const LAST: &str = "SELECT coalesce(max(seq), 0) FROM ledger_rows WHERE log = $1";
/// Does nothing but wait for the flush, in one statement with the proof that the row is there: a
/// server that restarted without it flushes nothing for us.
const FLUSH: &str = "SELECT pg_logical_emit_message(true, 'tollgate', '') FROM ledger_rows \
     WHERE log = $1 AND seq = $2 AND substring(line FROM 1 FOR 64) = $3";
const NEW_NAME: &str = "SELECT replace(gen_random_uuid()::text, '-', '')";
const RETIRE_ROWS: &str = "DELETE FROM ledger_rows WHERE log = $1 AND seq < $2";
const RETIRE_SEGMENTS: &str = "DELETE FROM ledger_segments WHERE log = $1 AND segment <= $2";
const FACT: &str = "SELECT value FROM ledger_facts WHERE log = $1 AND name = $2";
const NEW_FACT: &str = "INSERT INTO ledger_facts (log, name, value) VALUES ($1, $2, $3) \
     ON CONFLICT (log, name) DO NOTHING";
const CHANGE_FACT: &str =
    "UPDATE ledger_facts SET value = $4 WHERE log = $1 AND name = $2 AND value = $3";

/// The tables and the two connections of this process to them.
#[derive(Debug)]
pub(crate) struct PostgresTable {
    /// Without the password.
    name: String,
    append: Link,
    durable: Link,
    /// The last row that this process knows to be on disk.
    flushed: Mutex<Option<Head>>,
}

/// What the lock brought.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The server's clock.
    pub(crate) store_us: u64,
    /// The generation of the registry.
    pub(crate) registry: u64,
    /// The hash of the known row, if it is still there.
    pub(crate) known: Option<Hash>,
    /// The rows after it, as lines.
    pub(crate) rows: Vec<u8>,
}

/// What is written when the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    /// Rows as lines, without gaps.
    pub(crate) rows: Vec<u8>,
    pub(crate) first_seq: u64,
    /// Segments that begin in these rows, with their first row.
    pub(crate) segments: Vec<(u32, u64)>,
    /// Writers and until when they are alive.
    pub(crate) writers: Vec<(String, u64)>,
    pub(crate) closed_writers: Vec<String>,
}

impl Unsent {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.writers.is_empty() && self.closed_writers.is_empty()
    }

    fn lines(&self) -> Vec<(i64, Vec<u8>)> {
        let lines = super::reader::lines(&self.rows).map(|(_, line)| line.to_vec());
        (signed(self.first_seq)..).zip(lines).collect()
    }
}

impl PostgresTable {
    /// Connects, and makes the tables if they are missing or older.
    pub(crate) fn open(address: &Address) -> Result<PostgresTable, LedgerError> {
        let link = |kind| {
            Link::start(address, kind)
                .map_err(LedgerError::io("start", "a connection thread".as_ref()))
        };
        let table = PostgresTable {
            name: address.to_string(),
            append: link(LinkKind::Append)?,
            durable: link(LinkKind::Durable)?,
            flushed: Mutex::new(None),
        };
        table.durable.run(schema::migrate).map_err(|e| table.error(e))?;
        Ok(table)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn error(&self, source: StoreError) -> LedgerError {
        LedgerError::Store { store: self.name.clone(), source }
    }

    fn flushed(&self) -> Option<Head> {
        *self.flushed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a transaction that holds the log's lock, and reads from the known row on. One round
    /// trip unless there are many rows.
    pub(crate) fn lock(&self, known: u64) -> Result<Turn, StoreError> {
        self.append.run(async move |session| {
            session.client().await?;
            // An error drops the connection, and this with it.
            session.in_transaction = true;
            let statements = [LOCK, CLOCK, REGISTRY, READ];
            let (client, [lock, clock, registry, read]) = session.prepared(statements).await?;
            let first: [&(dyn ToSql + Sync); 2] = [&LOG, &signed(known)];
            let (begun, locked, now, generation, rows) = tokio::join!(
                biased;
                client.batch_execute("BEGIN"),
                client.query(&lock, &[&LOG]),
                client.query_one(&clock, &[]),
                client.query_one(&registry, &[]),
                client.query(&read, &first),
            );
            begun?;
            if locked?.len() != 1 {
                return Err(StoreError::Unexpected("the log has no row to lock".to_owned()));
            }
            let store_us = u64::try_from(now?.get::<_, i64>(0)).unwrap_or(0);
            let registry = unsigned(generation?.get(0));
            let mut turn = Turn { store_us, registry, known: None, rows: Vec::new() };
            let (mut page, mut last) = (rows?, known);
            turn.known =
                page.first().filter(|row| is_row(row, known)).and_then(|r| hash_of(r.get(1)));
            loop {
                let before = last;
                for row in page.iter().filter(|row| !is_row(row, before)) {
                    last = unsigned(row.get(0));
                    turn.rows.extend_from_slice(row.get(1));
                    turn.rows.push(b'\n');
                }
                if page.len() < ROWS_AT_ONCE {
                    return Ok(turn);
                }
                page = client.query(&read, &[&LOG, &signed(last)]).await?;
            }
        })
    }

    /// Writes and ends the transaction, which releases the lock. After an error the rows may be
    /// there or not.
    pub(crate) fn commit(&self, unsent: &Unsent) -> Result<(), StoreError> {
        if unsent.is_empty() {
            return self.roll_back();
        }
        let lines = unsent.lines();
        let segments = unsent.segments.clone();
        let (writers, closed) = (unsent.writers.clone(), unsent.closed_writers.clone());
        self.append.run(async move |session| {
            end_turn(session).await?;
            for (writer, until) in &writers {
                execute(session, RENEW, &[&LOG, writer, &signed(*until)]).await?;
            }
            for writer in &closed {
                execute(session, FORGET, &[&LOG, writer]).await?;
            }
            for (segment, first_seq) in &segments {
                execute(session, OPEN_SEGMENT, &[&LOG, &i64::from(*segment), &signed(*first_seq)])
                    .await?;
            }
            let (numbers, rows): (Vec<i64>, Vec<Vec<u8>>) = lines.into_iter().unzip();
            let (client, [insert]) = session.prepared([INSERT]).await?;
            let parameters: [&(dyn ToSql + Sync); 3] = [&LOG, &numbers, &rows];
            let (inserted, committed) = tokio::join!(
                biased;
                client.execute(&insert, &parameters),
                client.batch_execute("COMMIT"),
            );
            if inserted? != u64::try_from(rows.len()).unwrap_or(0) {
                return Err(StoreError::Unexpected("a row was not inserted".to_owned()));
            }
            Ok(committed?)
        })
    }

    pub(crate) fn roll_back(&self) -> Result<(), StoreError> {
        self.append.run(async |session| {
            end_turn(session).await?;
            Ok(session.client().await?.batch_execute("ROLLBACK").await?)
        })
    }

    /// Lets the server end the transaction without waiting for it.
    pub(crate) fn abandon(&self) {
        let _ = self.append.run(async |session| {
            session.drop_connection();
            Ok(())
        });
    }

    /// The newest segment as lines with its number; none if there is no row yet. Under the lock.
    pub(crate) fn newest_segment(&self) -> Result<Option<(u32, Vec<u8>)>, StoreError> {
        self.append.run(async |session| {
            let Some((segment, first)) = segments(session).await?.pop() else { return Ok(None) };
            Ok(Some((segment, range(session, first, None).await?)))
        })
    }

    /// The hash of a row, under the lock.
    pub(crate) fn hash(&self, seq: u64) -> Result<Option<Hash>, StoreError> {
        self.append.run(async move |session| {
            let (client, [hash]) = session.prepared([HASH]).await?;
            let row = client.query_opt(&hash, &[&LOG, &signed(seq)]).await?;
            Ok(row.and_then(|row| hash_of(row.get(0))))
        })
    }

    /// Writers and until when they are alive, under the lock.
    pub(crate) fn writers(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.append.run(async |session| {
            let (client, [writers]) = session.prepared([WRITERS]).await?;
            let rows = client.query(&writers, &[&LOG]).await?;
            let writer = |row: &tokio_postgres::Row| (row.get(0), unsigned(row.get(1)));
            Ok(rows.iter().map(writer).collect())
        })
    }

    /// A name that no other replica has.
    pub(crate) fn new_name(&self) -> Result<String, StoreError> {
        self.durable.run(async |session| {
            let name: String = session.client().await?.query_one(NEW_NAME, &[]).await?.get(0);
            Ok(name.chars().take(12).collect())
        })
    }

    /// Returns when this row and all before it are on disk, and on synchronous standbys.
    pub(crate) fn flush(&self, head: Head) -> Result<(), StoreError> {
        let flushed = self.durable.run(async move |session| {
            let (client, [flush]) = session.prepared([FLUSH]).await?;
            let hash: &[u8] = &head.hash;
            let rows = client.query(&flush, &[&LOG, &signed(head.seq), &hash]).await?;
            Ok(rows.len() == 1)
        })?;
        if !flushed {
            let words = format!("row {} is not there: the server restarted without it", head.seq);
            return Err(StoreError::Unexpected(words));
        }
        *self.flushed.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
        Ok(())
    }

    /// The row that was known to be on disk and is not there, or is another. Under the lock.
    pub(crate) fn lost(&self) -> Result<Option<u64>, StoreError> {
        let Some(flushed) = self.flushed() else { return Ok(None) };
        let found = self.hash(flushed.seq)?;
        Ok((found != Some(flushed.hash)).then_some(flushed.seq))
    }

    /// Numbers of the segments, with the first row of each.
    pub(crate) fn segments(&self) -> Result<Vec<(u32, u64)>, StoreError> {
        self.durable.run(segments)
    }

    /// The rows of this range as lines, at most `count` of them.
    pub(crate) fn rows(
        &self,
        first: u64,
        end: Option<u64>,
        count: Option<u32>,
    ) -> Result<Vec<u8>, StoreError> {
        self.durable.run(async move |session| match count {
            None => range(session, first, end).await,
            Some(count) => page(session, first, end, i64::from(count)).await.map(|(rows, ..)| rows),
        })
    }

    pub(crate) fn bytes(&self, first: u64, end: Option<u64>) -> Result<u64, StoreError> {
        self.durable.run(async move |session| {
            let (client, [bytes]) = session.prepared([BYTES]).await?;
            let end = end.map_or(i64::MAX, signed);
            Ok(unsigned(client.query_one(&bytes, &[&LOG, &signed(first), &end]).await?.get(0)))
        })
    }

    /// The number of the last row.
    pub(crate) fn last_seq(&self) -> Result<u64, StoreError> {
        self.durable.run(async |session| {
            let (client, [last]) = session.prepared([LAST]).await?;
            Ok(unsigned(client.query_one(&last, &[&LOG]).await?.get(0)))
        })
    }

    /// Removes the rows before `first` with their segments.
    pub(crate) fn retire(&self, segment: u32, first: u64) -> Result<(), StoreError> {
        self.durable.run(async move |session| {
            execute(session, RETIRE_SEGMENTS, &[&LOG, &i64::from(segment)]).await?;
            execute(session, RETIRE_ROWS, &[&LOG, &signed(first)]).await?;
            Ok(())
        })
    }

    pub(crate) fn fact(&self, name: &'static str) -> Result<Option<Vec<u8>>, StoreError> {
        self.durable.run(async move |session| {
            let (client, [fact]) = session.prepared([FACT]).await?;
            Ok(client.query_opt(&fact, &[&LOG, &name]).await?.map(|row| row.get(0)))
        })
    }

    /// Stores a fact if it still has the old value; false if another replica was faster.
    pub(crate) fn change_fact(
        &self,
        name: &'static str,
        old: Option<Vec<u8>>,
        new: Vec<u8>,
    ) -> Result<bool, StoreError> {
        self.durable.run(async move |session| {
            let changed = match &old {
                Some(old) => execute(session, CHANGE_FACT, &[&LOG, &name, old, &new]).await?,
                None => execute(session, NEW_FACT, &[&LOG, &name, &new]).await?,
            };
            Ok(changed == 1)
        })
    }
}

/// The transaction that holds the lock ends next. Fails if its connection was lost meanwhile: what
/// was judged under the lock is then worth nothing.
async fn end_turn(session: &mut Session) -> Result<(), StoreError> {
    session.client().await?;
    if std::mem::take(&mut session.in_transaction) {
        return Ok(());
    }
    Err(StoreError::Unexpected("the connection was lost while a call was judged".to_owned()))
}

fn is_row(row: &tokio_postgres::Row, seq: u64) -> bool {
    row.get::<_, i64>(0) == signed(seq)
}

async fn execute(
    session: &mut Session,
    text: &'static str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, StoreError> {
    let (client, [statement]): (&Client, [Statement; 1]) = session.prepared([text]).await?;
    Ok(client.execute(&statement, parameters).await?)
}

async fn segments(session: &mut Session) -> Result<Vec<(u32, u64)>, StoreError> {
    let (client, [segments]) = session.prepared([SEGMENTS]).await?;
    let rows = client.query(&segments, &[&LOG]).await?;
    let number =
        |row: &tokio_postgres::Row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX);
    Ok(rows.iter().map(|row| (number(row), unsigned(row.get(1)))).collect())
}

/// All rows of this range as lines.
async fn range(session: &mut Session, first: u64, end: Option<u64>) -> Result<Vec<u8>, StoreError> {
    let (mut rows, mut next) = (Vec::new(), first);
    loop {
        let count = i64::try_from(ROWS_AT_ONCE).unwrap_or(i64::MAX);
        let (bytes, found, last) = page(session, next, end, count).await?;
        rows.extend_from_slice(&bytes);
        if found < ROWS_AT_ONCE {
            return Ok(rows);
        }
        next = last + 1;
    }
}

async fn page(
    session: &mut Session,
    first: u64,
    end: Option<u64>,
    count: i64,
) -> Result<(Vec<u8>, usize, u64), StoreError> {
    let (client, [range]) = session.prepared([RANGE]).await?;
    let end = end.map_or(i64::MAX, signed);
    let rows = client.query(&range, &[&LOG, &signed(first), &end, &count]).await?;
    let mut bytes = Vec::new();
    for row in &rows {
        bytes.extend_from_slice(row.get(1));
        bytes.push(b'\n');
    }
    let last = rows.last().map_or(first, |row| unsigned(row.get(0)));
    Ok((bytes, rows.len(), last))
}

fn hash_of(line: &[u8]) -> Option<Hash> {
    line.first_chunk::<HASH_BYTES>().copied()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

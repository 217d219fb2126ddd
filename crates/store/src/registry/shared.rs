//! A registry that replicas share. Postgres has the rows; each machine has a copy in a file, from
//! which all is read. A change is made on the copy under the lock of the store, and the rows that it
//! changed are committed there before it is committed here.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use platform::files::FileId;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use sha2::{Digest, Sha256};

use super::{RegistryConnection, RegistryError, count, generation, schema};
use crate::captures::CaptureTable;
use crate::hex;
use crate::home::{Home, private};
use crate::postgres::Address;
use crate::random::Random;
use image::TableShape;
use table::{Change, Missing, Position, State, StoreTable};

pub(super) use image::RowImage;
pub(super) use table::Lease;

mod capture;
mod image;
mod table;

/// Where a copy notes up to which change it is complete. It is not shared.
const POSITION_TABLE: &str = "replica_position";
const SHARED_FILES: &str = "shared_files";
/// Tables that a registry has only where replicas share it.
const ONLY_SHARED: &str = "
    CREATE TABLE IF NOT EXISTS replica_position (
        one   INTEGER PRIMARY KEY CHECK (one = 1),
        store TEXT NOT NULL,
        seq   INTEGER NOT NULL,
        mark  TEXT NOT NULL
    ) STRICT;
    -- What is in files of its own in the home of a single machine: accounts and logins.
    CREATE TABLE IF NOT EXISTS shared_files (
        folder   TEXT NOT NULL,
        name     TEXT NOT NULL,
        content  BLOB NOT NULL,
        -- Another one after every change.
        version  INTEGER NOT NULL,
        put_at_us INTEGER NOT NULL,
        PRIMARY KEY (folder, name)
    ) STRICT, WITHOUT ROWID;";
/// The oldest version whose replicas can share a store with this one. A step that an older replica
/// cannot live with (anything but new tables and new columns with a default) raises it.
const OLDEST: i64 = 15;
/// How often another process of this machine may be faster in filling the copy.
const ATTEMPTS_MAX: u32 = 8;

pub(super) struct Shared {
    table: StoreTable,
    pub(super) captures: Arc<CaptureTable>,
    path: PathBuf,
    random: Random,
    /// The connection that changes the copy. Readers have another and never wait for the store.
    writer: Mutex<Option<Writer>>,
    /// The store could not be asked the last time.
    is_away: AtomicBool,
}

struct Writer {
    connection: RegistryConnection,
    shapes: Vec<TableShape>,
}

impl Shared {
    /// Connects to the store and fills the copy, whose file must be there.
    pub(super) fn open(
        address: &Address,
        path: &Path,
        random: &Random,
    ) -> Result<Shared, RegistryError> {
        let shared = Shared {
            table: StoreTable::start(address)?,
            captures: Arc::new(CaptureTable::start(address)?),
            path: path.to_owned(),
            random: random.clone(),
            writer: Mutex::new(None),
            is_away: AtomicBool::new(false),
        };
        shared.table.migrate()?;
        if shared.table.state()?.schema < schema::VERSION {
            let made = shared.make_or_upgrade();
            if made.is_err() {
                shared.give_up();
            }
            made?;
        }
        shared.pull()?;
        Ok(shared)
    }

    /// Takes what others changed into the copy.
    pub(super) fn pull(&self) -> Result<(), RegistryError> {
        let pulled = self.try_pull();
        self.is_away.store(pulled.is_err(), Ordering::Relaxed);
        pulled
    }

    /// Whether the last pull failed, so that another one may have to wait for the store.
    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    fn try_pull(&self) -> Result<(), RegistryError> {
        let mut guard = self.writer()?;
        let Some(writer) = guard.as_mut() else { return Err(RegistryError::Locked) };
        for _ in 0..ATTEMPTS_MAX {
            let known = writer.position()?;
            let Some(missing) = self.table.missing(known.clone())? else { return Ok(()) };
            refuse_newer(&missing.state)?;
            if writer.take(known.as_ref(), &missing)? {
                return Ok(());
            }
        }
        Err(RegistryError::Locked)
    }

    /// One transaction on the copy and the store. It is loud if serving replicas should notice it;
    /// with a lease it fails if that was lost.
    pub(super) fn write<T, E: From<RegistryError>>(
        &self,
        (is_loud, lease): (bool, Option<&Lease>),
        change: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut guard = self.writer()?;
        let Some(writer) = guard.as_mut() else { return Err(RegistryError::Locked.into()) };
        let done = self.lock(writer).map_err(E::from);
        let done = done.and_then(|state| self.change(writer, &state, (is_loud, lease), change));
        if done.is_err() {
            self.give_up();
        }
        done
    }

    /// Takes the lock and completes the copy.
    fn lock(&self, writer: &mut Writer) -> Result<State, RegistryError> {
        let mut known = writer.position()?;
        let mut missing = self.table.lock(known.clone())?;
        refuse_newer(&missing.state)?;
        for _ in 0..ATTEMPTS_MAX {
            let is_complete = known.as_ref() == Some(&missing.state.position);
            if is_complete || writer.take(known.as_ref(), &missing)? {
                return Ok(missing.state);
            }
            known = writer.position()?;
            missing = self.table.missing_under_lock(missing.state, known.clone())?;
        }
        Err(RegistryError::Locked)
    }

    /// Makes a change on the completed copy, under the lock.
    fn change<T, E: From<RegistryError>>(
        &self,
        writer: &mut Writer,
        state: &State,
        (is_loud, lease): (bool, Option<&Lease>),
        change: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let Writer { connection, shapes } = writer;
        let transaction = begin(&mut connection.db, &state.position)?;
        let before = capture::begin(&transaction)?;
        let done = change(&transaction)?;
        if is_loud {
            count(&transaction)?;
        }
        let rows = capture::changed(&transaction, shapes, &before)?;
        if rows.is_empty() {
            self.give_up();
            return Ok(done);
        }
        let position = self.next(&state.position)?;
        let generation = i64::try_from(generation(&transaction)?).unwrap_or(i64::MAX);
        let sent = Change {
            position,
            generation,
            rows,
            keeps_unknown: state.schema > schema::VERSION,
            lease: lease.cloned(),
            rewrites: None,
        };
        set_position(&transaction, &sent.position)?;
        self.commit(sent)?;
        // It is in the store. A copy that cannot take it now takes it before anybody reads on.
        if let Err(error) = transaction.commit() {
            tracing::warn!(%error, "the local copy of the registry will be completed later");
        }
        Ok(done)
    }

    fn commit(&self, change: Change) -> Result<(), RegistryError> {
        self.table.commit(change).map_err(RegistryError::Unconfirmed)
    }

    /// Makes the first rows, or brings those of an older version to this one.
    fn make_or_upgrade(&self) -> Result<(), RegistryError> {
        let Missing { state, rows, .. } = self.table.lock(None)?;
        if state.schema >= schema::VERSION {
            self.give_up();
            return Ok(());
        }
        let mut db = Connection::open_in_memory()?;
        schema::make(&mut db, state.schema)?;
        if state.schema > 0 {
            db.execute_batch(ONLY_SHARED)?;
            let shapes = image::shapes(&db)?;
            let transaction = db.transaction()?;
            image::apply(&transaction, &shapes, &rows, true)?;
            transaction.commit()?;
            db.pragma_update(None, "foreign_keys", true)?;
            tracing::info!(from = state.schema, to = schema::VERSION, "upgrading the store");
        }
        schema::make(&mut db, schema::VERSION)?;
        db.execute_batch(ONLY_SHARED)?;
        count(&db)?;
        let mut rows = Vec::new();
        for shape in image::shapes(&db)? {
            rows.extend(shape.dump(&db)?);
        }
        self.commit(Change {
            position: self.next(&state.position)?,
            generation: i64::try_from(generation(&db)?).unwrap_or(i64::MAX),
            rows,
            keeps_unknown: false,
            lease: None,
            rewrites: Some((schema::VERSION, OLDEST)),
        })
    }

    /// Takes a lease if nobody has it.
    pub(super) fn lease(
        &self,
        name: String,
        length_us: i64,
    ) -> Result<Option<Lease>, RegistryError> {
        let lease = Lease { name, holder: self.random.name()? };
        Ok(self.table.lease(lease.clone(), length_us)?.then_some(lease))
    }

    pub(super) fn release(&self, lease: Lease) {
        self.table.release(lease);
    }

    fn next(&self, position: &Position) -> Result<Position, RegistryError> {
        let (seq, mark) = (position.seq + 1, self.random.name()?);
        Ok(Position { seq, mark, ..position.clone() })
    }

    /// Lets the store end a transaction of ours. If it cannot be told, it ends it by itself.
    fn give_up(&self) {
        if let Err(error) = self.table.give_up() {
            tracing::debug!(%error, "could not end a transaction of the registry");
        }
    }

    /// The writer of the file that is in the home now.
    fn writer(&self) -> Result<MutexGuard<'_, Option<Writer>>, RegistryError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let id = FileId::of_path(&self.path).ok();
        if writer.as_ref().map(|writer| writer.connection.header.id()) != id || id.is_none() {
            *writer = Some(Writer::open(&self.path)?);
        }
        Ok(writer)
    }
}

impl Writer {
    fn open(path: &Path) -> Result<Writer, RegistryError> {
        let connection = open_copy(path)?;
        let shapes = image::shapes(&connection.db)?;
        capture::install(&connection.db, &shapes)?;
        Ok(Writer { connection, shapes })
    }

    fn position(&self) -> Result<Option<Position>, RegistryError> {
        position(&self.connection.db)
    }

    /// Applies what is missing after `known`; false if the copy is elsewhere by now.
    fn take(&mut self, known: Option<&Position>, missing: &Missing) -> Result<bool, RegistryError> {
        let db = &mut self.connection.db;
        db.pragma_update(None, "foreign_keys", false)?;
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if position(&transaction)?.as_ref() != known {
            return Ok(false);
        }
        image::apply(&transaction, &self.shapes, &missing.rows, missing.is_all)?;
        set_position(&transaction, &missing.state.position)?;
        transaction.commit()?;
        Ok(true)
    }
}

/// All rows of a table of a store. Makes and changes nothing.
pub(super) fn images_of(
    store: &Address,
    table: &'static str,
) -> Result<Vec<String>, RegistryError> {
    Ok(StoreTable::start(store)?.images_of(table)?)
}

/// All rows of a registry, whether replicas share it or not.
pub(super) fn all_rows(db: &Connection) -> Result<Vec<RowImage>, RegistryError> {
    let mut rows = Vec::new();
    for shape in registry_shapes(db)? {
        rows.extend(shape.dump(db)?);
    }
    Ok(rows)
}

/// Makes these all rows of a registry.
pub(super) fn replace_all(db: &Transaction<'_>, rows: &[RowImage]) -> Result<(), RegistryError> {
    image::apply(db, &registry_shapes(db)?, rows, true)
}

/// Accounts and logins are no part of it: a home has them elsewhere.
fn registry_shapes(db: &Connection) -> Result<Vec<TableShape>, RegistryError> {
    let mut shapes = image::shapes(db)?;
    shapes.retain(|shape| shape.name != SHARED_FILES);
    Ok(shapes)
}

/// A transaction for a change on a copy that is complete.
fn begin<'a>(db: &'a mut Connection, at: &Position) -> Result<Transaction<'a>, RegistryError> {
    db.pragma_update(None, "foreign_keys", true)?;
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if position(&transaction)?.as_ref() == Some(at) {
        Ok(transaction)
    } else {
        Err(RegistryError::Locked)
    }
}

/// The copy of a store in a home. Another version or another store has another file.
pub(super) fn path_of_copy(home: &Home, address: &Address) -> Result<PathBuf, RegistryError> {
    let folder = home.replicas();
    match private::make_folder(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let mut hash = Sha256::new();
    hash.update(address.identity());
    hash.update(schema::VERSION.to_be_bytes());
    let name = hash.finalize();
    let name = name.first_chunk::<8>().copied().unwrap_or_default();
    Ok(folder.join(format!("{}.db", hex::encode(&name))))
}

/// Opens the file of a copy. One that is missing or damaged is made anew: all that is in it is in
/// the store too.
pub(super) fn open_copy(path: &Path) -> Result<RegistryConnection, RegistryError> {
    let _lock = super::open_lock(path)?;
    match try_open_copy(path) {
        Err(RegistryError::Corrupt(why)) => {
            tracing::warn!(why, "the local copy of the registry is damaged; making it anew");
        }
        Err(RegistryError::NotOurs(_) | RegistryError::Newer { .. }) => {}
        done => return done,
    }
    for end in ["db", "db-wal", "db-shm"] {
        match private::remove(&path.with_extension(end)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    try_open_copy(path)
}

fn try_open_copy(path: &Path) -> Result<RegistryConnection, RegistryError> {
    private::ensure(path)?;
    schema::refuse_foreign(path)?;
    let mut connection = RegistryConnection::connect(path)?;
    schema::make(&mut connection.db, schema::VERSION)?;
    connection.db.execute_batch(ONLY_SHARED)?;
    Ok(connection)
}

fn position(db: &Connection) -> Result<Option<Position>, RegistryError> {
    let select = format!("SELECT store, seq, mark FROM {POSITION_TABLE}");
    let found = db.prepare_cached(&select)?.query_row([], |row| {
        Ok(Position { store: row.get(0)?, seq: row.get(1)?, mark: row.get(2)? })
    });
    Ok(found.optional()?)
}

fn set_position(db: &Connection, at: &Position) -> Result<(), RegistryError> {
    let put = format!(
        "INSERT INTO {POSITION_TABLE} (one, store, seq, mark) VALUES (1, ?1, ?2, ?3)
         ON CONFLICT (one) DO UPDATE SET store = ?1, seq = ?2, mark = ?3"
    );
    db.prepare_cached(&put)?.execute((&at.store, at.seq, &at.mark))?;
    Ok(())
}

fn refuse_newer(state: &State) -> Result<(), RegistryError> {
    if state.oldest <= schema::VERSION {
        return Ok(());
    }
    Err(RegistryError::NewerStore { found: state.schema, known: schema::VERSION })
}

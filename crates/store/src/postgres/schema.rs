//! The tables of a store, made by steps that run once and in order, under a lock.

use tokio_postgres::Client;

use super::link::{Session, StoreError};

/// The steps. One that was released never changes; a change is another step at the end.
const STEPS: &[&str] = &[
    "
    CREATE TABLE ledger_logs (
        log integer PRIMARY KEY
    );
    -- Every row of every log, as the lines of the public format without their newline.
    CREATE TABLE ledger_rows (
        log integer NOT NULL,
        seq bigint NOT NULL,
        line bytea NOT NULL,
        PRIMARY KEY (log, seq)
    );
    -- The row with the whole state at which each segment begins.
    CREATE TABLE ledger_segments (
        log integer NOT NULL,
        segment bigint NOT NULL,
        first_seq bigint NOT NULL,
        PRIMARY KEY (log, segment)
    );
    -- Replicas that may have open calls, and until when each is alive unless it says so again.
    CREATE TABLE ledger_writers (
        log integer NOT NULL,
        writer text NOT NULL,
        alive_until_us bigint NOT NULL,
        PRIMARY KEY (log, writer)
    );
    -- Small facts beside the chain, such as its seal.
    CREATE TABLE ledger_facts (
        log integer NOT NULL,
        name text NOT NULL,
        value bytea NOT NULL,
        PRIMARY KEY (log, name)
    );
    INSERT INTO ledger_logs (log) VALUES (0);
",
    "
    -- One row: which change of the registry is the last.
    CREATE TABLE registry_state (
        one integer PRIMARY KEY CHECK (one = 1),
        store text NOT NULL,
        seq bigint NOT NULL,
        -- Random, so that a store that was restored from a copy is told from one that went on.
        mark text NOT NULL,
        -- Counts the changes that a serving replica runs with.
        generation bigint NOT NULL,
        -- The version of the registry's tables, and the oldest version that can use them.
        schema integer NOT NULL,
        oldest integer NOT NULL,
        -- Changes before this one are no longer complete.
        full_from bigint NOT NULL
    );
    INSERT INTO registry_state VALUES
        (1, replace(gen_random_uuid()::text, '-', ''), 0, '', 0, 0, 0, 0);
    -- Every row of every table of the registry with the change that wrote it last. A row without an
    -- image was deleted.
    CREATE TABLE registry_rows (
        id bytea PRIMARY KEY,
        table_name text NOT NULL,
        key text NOT NULL,
        image text,
        seq bigint NOT NULL
    );
    CREATE INDEX registry_rows_by_seq ON registry_rows (seq);
    CREATE TABLE registry_changes (
        seq bigint PRIMARY KEY,
        mark text NOT NULL
    );
    -- Sealed params of calls.
    CREATE TABLE captures (
        server text NOT NULL,
        digest text NOT NULL,
        sealed bytea,
        bytes bigint NOT NULL,
        captured_at_us bigint NOT NULL,
        PRIMARY KEY (server, digest)
    );
    CREATE INDEX captures_by_time ON captures (captured_at_us);
    -- Who may change what alone, and until when by the server's clock.
    CREATE TABLE registry_leases (
        name text PRIMARY KEY,
        holder text NOT NULL,
        until_us bigint NOT NULL
    );
",
];

/// The version of the tables that this program makes.
pub(super) const VERSION: usize = STEPS.len();

/// Brings the tables up to this version. Fails if a newer version made them.
pub(crate) async fn migrate(session: &mut Session) -> Result<(), StoreError> {
    let client = session.client().await?;
    // A role that may not make tables can use those that are there.
    let exists = client.query_one("SELECT to_regclass('store_versions') IS NOT NULL", &[]).await?;
    if exists.get(0) && version(client).await? == STEPS.len() {
        return Ok(());
    }
    client
        .batch_execute(
            "BEGIN;
             SELECT pg_advisory_xact_lock(8317);
             CREATE TABLE IF NOT EXISTS store_versions (version integer PRIMARY KEY);",
        )
        .await?;
    let found = version(client).await?;
    for (number, step) in STEPS.iter().enumerate().skip(found) {
        client.batch_execute(step).await?;
        let version = i32::try_from(number + 1).unwrap_or(i32::MAX);
        client.execute("INSERT INTO store_versions (version) VALUES ($1)", &[&version]).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}

async fn version(client: &Client) -> Result<usize, StoreError> {
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM store_versions", &[]).await?;
    let found = usize::try_from(row.get::<_, i32>(0)).unwrap_or(0);
    if found > STEPS.len() {
        return Err(StoreError::Unexpected(format!(
            "its tables are of version {found}, and this tollgate knows {}\nhint: update tollgate",
            STEPS.len()
        )));
    }
    Ok(found)
}

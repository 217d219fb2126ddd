//! The tables of a store, made by steps that run once and in order, under a lock.

use tokio_postgres::Client;

use super::link::{Session, StoreError};

/// The steps. One that was released never changes; a change is another step at the end.
const STEPS: &[&str] = &["
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
"];

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

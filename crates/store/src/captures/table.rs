//! Captures on the store that replicas share: every statement that they use. Replicas do not copy them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{Bounds, StoredCapture};
use crate::postgres::{Address, Link, LinkKind, Session, StoreError};

const PUT: &str = "INSERT INTO captures AS old (server, digest, sealed, bytes, captured_at_us) \
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (server, digest) DO UPDATE SET \
     sealed = coalesce(old.sealed, EXCLUDED.sealed), captured_at_us = EXCLUDED.captured_at_us";
const GET: &str = "SELECT server, digest, sealed, bytes, captured_at_us FROM captures \
     WHERE server = $1 AND digest = $2";
const PAGE: &str = "SELECT server, digest, sealed, bytes, captured_at_us FROM captures \
     WHERE (server, digest) > ($1, $2) ORDER BY server, digest LIMIT $3";
const TOO_OLD: &str = "DELETE FROM captures WHERE captured_at_us < $1";
const BYTES: &str = "SELECT coalesce(sum(length(sealed)), 0)::bigint FROM captures";
/// Newest first, until they are as many as may stay; the rest goes.
const TOO_MUCH: &str = "DELETE FROM captures USING ( \
         SELECT server, digest, sum(coalesce(length(sealed), 0)) OVER ( \
             ORDER BY captured_at_us DESC, server, digest) AS so_far FROM captures \
     ) AS counted WHERE captures.server = counted.server \
     AND captures.digest = counted.digest AND so_far > $1";

/// Captures on Postgres.
pub(crate) struct CaptureTable {
    /// Its own connection, so that captures and the registry do not wait for each other.
    link: Link,
    /// An estimate of all sealed bytes, none before they were counted; other replicas add some, too.
    bytes: Arc<AtomicI64>,
}

const NOT_COUNTED: i64 = -1;

impl CaptureTable {
    pub(crate) fn start(address: &Address) -> io::Result<CaptureTable> {
        let link = Link::start(address, LinkKind::Durable)?;
        Ok(CaptureTable { link, bytes: Arc::new(AtomicI64::new(NOT_COUNTED)) })
    }

    pub(super) fn put(&self, new: StoredCapture, bounds: Bounds) -> Result<(), StoreError> {
        let bytes = Arc::clone(&self.bytes);
        self.link.run(async move |session| {
            let StoredCapture { server, digest, sealed, .. } = &new;
            let added = super::stored_number(sealed.as_ref().map_or(0, Vec::len));
            execute(session, PUT, &[server, digest, sealed, &new.bytes, &new.captured_at_us])
                .await?;
            let is_counted = bytes.load(Ordering::Relaxed) != NOT_COUNTED;
            if is_counted && bytes.fetch_add(added, Ordering::Relaxed) <= bounds.bytes_max - added {
                return Ok(());
            }
            bytes.store(prune(session, bounds).await?, Ordering::Relaxed);
            Ok(())
        })
    }

    pub(super) fn get(
        &self,
        server: &str,
        digest: &str,
    ) -> Result<Option<StoredCapture>, StoreError> {
        let (server, digest) = (server.to_owned(), digest.to_owned());
        self.link.run(async move |session| {
            let (client, [get]) = session.prepared([GET]).await?;
            let row = client.query_opt(&get, &[&server, &digest]).await?;
            Ok(row.as_ref().map(capture))
        })
    }

    /// Up to so many captures after this one, in the order of their keys.
    pub(super) fn page(
        &self,
        (server, digest): (&str, &str),
        count: i64,
    ) -> Result<Vec<StoredCapture>, StoreError> {
        let (server, digest) = (server.to_owned(), digest.to_owned());
        self.link.run(async move |session| {
            let (client, [page]) = session.prepared([PAGE]).await?;
            let rows = client.query(&page, &[&server, &digest, &count]).await?;
            Ok(rows.iter().map(capture).collect())
        })
    }

    pub(super) fn prune(&self, bounds: Bounds) -> Result<(), StoreError> {
        let bytes = Arc::clone(&self.bytes);
        self.link.run(async move |session| {
            bytes.store(prune(session, bounds).await?, Ordering::Relaxed);
            Ok(())
        })
    }
}

fn capture(row: &Row) -> StoredCapture {
    StoredCapture {
        server: row.get(0),
        digest: row.get(1),
        sealed: row.get(2),
        bytes: row.get(3),
        captured_at_us: row.get(4),
    }
}

/// Returns how many sealed bytes remain.
async fn prune(session: &mut Session, bounds: Bounds) -> Result<i64, StoreError> {
    execute(session, TOO_OLD, &[&bounds.before_us]).await?;
    let bytes = sealed_bytes(session).await?;
    if bytes <= bounds.bytes_max {
        return Ok(bytes);
    }
    execute(session, TOO_MUCH, &[&bounds.kept_max]).await?;
    sealed_bytes(session).await
}

async fn sealed_bytes(session: &mut Session) -> Result<i64, StoreError> {
    let (client, [bytes]) = session.prepared([BYTES]).await?;
    Ok(client.query_one(&bytes, &[]).await?.get(0))
}

async fn execute(
    session: &mut Session,
    text: &'static str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, StoreError> {
    let (client, [statement]) = session.prepared([text]).await?;
    Ok(client.execute(&statement, parameters).await?)
}

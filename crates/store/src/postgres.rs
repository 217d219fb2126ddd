//! Postgres as the engine that several machines share: where it is ([`Address`]), the one thread
//! that talks to it ([`Link`]), its tables, and who may use them.

pub use address::{Address, AddressError, SslMode};
pub use link::StoreError;
pub(crate) use link::{Link, LinkKind, Session};
pub use rights::{Rights, rights_sql};

mod address;
mod link;
mod rights;
pub(crate) mod schema;
mod tls;

/// Makes the tables, or brings those of an older version up to this one, and gives rights on them.
/// Returns their version.
pub fn migrate(address: &Address, rights: Option<&Rights>) -> Result<usize, StoreError> {
    let link = Link::start(address, LinkKind::Durable);
    let link = link.map_err(|e| StoreError::Unexpected(format!("cannot start a thread: {e}")))?;
    link.run(schema::migrate)?;
    if let Some(sql) = rights.map(|rights| rights_sql(address, rights)) {
        link.run(async move |session| Ok(session.client().await?.batch_execute(&sql).await?))?;
    }
    Ok(schema::VERSION)
}

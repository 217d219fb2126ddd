//! Postgres as the engine that several machines share: where it is ([`Address`]), the one thread
//! that talks to it ([`Link`]), and its tables.

pub use address::{Address, AddressError, SslMode};
pub use link::StoreError;
pub(crate) use link::{Link, LinkKind, Session};

mod address;
mod link;
pub(crate) mod schema;
mod tls;

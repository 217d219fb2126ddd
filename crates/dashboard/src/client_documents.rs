//! What the dashboard asks of its host to read the metadata document of an OAuth client.

use bytes::Bytes;

/// Fetches client metadata documents: https only, public addresses only, no redirect, bounded in size and
/// time. May block.
pub trait ClientDocuments: Send + Sync {
    fn fetch(&self, url: &str, bytes_max: usize) -> Result<Bytes, String>;
}

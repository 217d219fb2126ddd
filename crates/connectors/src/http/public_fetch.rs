//! Fetches a document whose address another party named: https only, public addresses only, no redirect,
//! status 200 only, bounded in size and time.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use oauth::client::address::{self, AddressRefused, Network};

use super::{Http, HttpError, Request};

const WAIT_MAX: Duration = Duration::from_secs(5);

/// A client without a connection to any service.
#[derive(Clone)]
pub struct PublicFetch {
    http: Http,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicFetchError {
    #[error(transparent)]
    Address(#[from] AddressRefused),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("`{host}` answered with status {status}")]
    Status { host: String, status: u16 },
}

impl Default for PublicFetch {
    fn default() -> PublicFetch {
        PublicFetch { http: Http::to_public_addresses() }
    }
}

impl PublicFetch {
    /// The address is checked, and the resolved address again when it is connected to.
    pub async fn get(&self, url: &str, bytes_max: usize) -> Result<Bytes, PublicFetchError> {
        let url = address::parse(url, Network::Public)?;
        let request = Request::at(Method::GET, &url).wait_max(WAIT_MAX).reply_bytes_max(bytes_max);
        let host = request.host();
        let reply = self.http.send(request).await?;
        match reply.status {
            200 => Ok(reply.body),
            status => Err(PublicFetchError::Status { host, status }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_inside_are_not_fetched() {
        let fetch = PublicFetch::default();
        for url in [
            "http://a.example/x",
            "https://127.0.0.1/x",
            "https://[::1]/x",
            "https://10.0.0.1/x",
            "https://169.254.169.254/latest/meta-data",
            "https://localhost/x",
            "file:///etc/passwd",
        ] {
            let refused = fetch.get(url, 5_000).await;
            assert!(matches!(refused, Err(PublicFetchError::Address(_))), "{url}: {refused:?}");
        }
    }
}

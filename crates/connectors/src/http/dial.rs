//! Opens connections: resolve, check the address, connect, TLS.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use oauth::client::address::{Network, is_private};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);

/// Loading the roots takes milliseconds, so it happens at the first https connection.
#[derive(Clone, Default)]
pub(super) struct Dialer {
    tls: Arc<OnceLock<Result<TlsConnector, String>>>,
    network: Option<Network>,
    /// Connects here, whatever the name resolves to.
    fixed: Option<SocketAddr>,
}

pub(super) enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Service<Uri> for Dialer {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_WAIT_MAX, dialer.dial(&to)).await {
                Ok(stream) => stream,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long")),
            }
        })
    }
}

impl Dialer {
    pub(super) fn to_public_addresses() -> Dialer {
        Dialer { network: Some(Network::Public), ..Dialer::default() }
    }

    pub(super) fn to(address: SocketAddr) -> Dialer {
        Dialer { fixed: Some(address), ..Dialer::default() }
    }

    async fn dial(&self, to: &Uri) -> io::Result<Stream> {
        let https = to.scheme_str() == Some("https");
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = to.port_u16().unwrap_or(if https { 443 } else { 80 });
        let is_public_only = self.network == Some(Network::Public);
        let stream = match self.fixed {
            Some(address) if https => TcpStream::connect(address).await?,
            _ => connect(host, port, !https, is_public_only).await?,
        };
        stream.set_nodelay(true)?;
        if !https {
            return Ok(Stream::Plain(TokioIo::new(stream)));
        }
        let connector = self.connector()?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = connector.connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(TokioIo::new(stream))))
    }

    fn connector(&self) -> io::Result<TlsConnector> {
        self.tls.get_or_init(connector).clone().map_err(io::Error::other)
    }
}

async fn connect(
    host: &str,
    port: u16,
    loopback_only: bool,
    public_only: bool,
) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    for address in addresses {
        // Connect to exactly the address that was checked.
        if loopback_only && !address.ip().is_loopback() {
            last =
                io::Error::other("it is not on this machine, and plain http is for loopback only");
            continue;
        }
        if public_only && is_private(address.ip()) {
            last = io::Error::other("it has a private address, and the server is a public one");
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The system's roots, the same that the gate's upstreams trust.
fn connector() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("this machine has no root certificates; install `ca-certificates`".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, into),
        }
    }
}

impl Write for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, from),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, from),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}

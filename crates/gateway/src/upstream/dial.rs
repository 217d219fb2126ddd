//! Makes connections to one server: look up, check, connect, encrypt.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::connection::Connection;
use super::error::UpstreamError;
use super::in_seconds;
use super::options::{HttpBounds, HttpOptions, Waits};
use super::socket::{Socket, Stream};

/// The kernel asks a silent peer for a sign of life after so long.
const TCP_KEEP_ALIVE: Duration = Duration::from_mins(1);

/// So long an address has for itself before the next of the same name is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);
/// Of a name with more addresses, the first ones are tried.
const ADDRESSES_MAX: usize = 8;

/// Why an address cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum TargetRefused {
    #[error("`{0}` is not an http or https address")]
    Scheme(String),
    #[error("the address has no host")]
    NoHost,
    #[error("`{0}` is not a name that TLS can check")]
    Name(String),
    #[error(
        "`{0}` is reached over plain http, where anybody on the way can read and change it\nhint: use https, or allow plain http for this server"
    )]
    PlainHttp(String),
    #[error("https needs a TLS configuration\nhint: make one with `client_config`")]
    NoTls,
    #[error(
        "the address holds a user name or password\nhint: set an `authorization` header instead"
    )]
    Credentials,
    #[error(transparent)]
    Header(#[from] super::headers::HeaderRefused),
}

/// Where to connect, and how.
pub(super) struct Dialer {
    host: Host<String>,
    port: u16,
    /// What the `host` header says.
    pub(super) authority: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    loopback_only: bool,
    waits: Waits,
    bounds: HttpBounds,
}

impl Dialer {
    pub(super) fn new(options: &HttpOptions) -> Result<Dialer, TargetRefused> {
        let url = &options.url;
        let https = match url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(TargetRefused::Scheme(other.to_owned())),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetRefused::Credentials);
        }
        let host = url.host().ok_or(TargetRefused::NoHost)?.to_owned();
        let loopback_only = !https && !options.allow_plain_http;
        if loopback_only && !may_be_loopback(&host) {
            return Err(TargetRefused::PlainHttp(host.to_string()));
        }
        let tls = if https { Some(tls_for(options.tls.as_ref(), &host)?) } else { None };
        Ok(Dialer {
            port: url.port_or_known_default().unwrap_or(if https { 443 } else { 80 }),
            authority: authority(url)?,
            tls,
            host,
            loopback_only,
            waits: options.waits.clone(),
            bounds: options.bounds.clone(),
        })
    }

    /// A fresh connection, or why it certainly was not made.
    pub(super) async fn dial(&self) -> Result<Connection, UpstreamError> {
        let why = match tokio::time::timeout(self.waits.connect_max, self.connect()).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(why)) => why,
            Err(_) => format!("it took longer than {}", in_seconds(self.waits.connect_max)),
        };
        Err(UpstreamError::never_sent(format!("cannot connect to `{}`: {why}", self.name())))
    }

    fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream = self.tcp().await?;
        let (socket, tap) = Socket::new(stream);
        let stream = match &self.tls {
            None => Stream::Plain(socket),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), socket).await;
                Stream::Tls(Box::new(stream.map_err(|error| why_no_tls(&error))?))
            }
        };
        Connection::open(stream, tap, &self.bounds, &self.waits)
            .await
            .map_err(|error| error.to_string())
    }

    async fn tcp(&self) -> Result<TcpStream, String> {
        let mut addresses = self.addresses().await?;
        if self.loopback_only {
            // The address that was checked is the address that is used.
            addresses.retain(|address| address.ip().is_loopback());
            if addresses.is_empty() {
                return Err(
                    "it is not on this machine, and plain http is not allowed for it".into()
                );
            }
        }
        prepared(first_to_answer(addresses).await?)
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        match &self.host {
            Host::Ipv4(ip) => Ok(vec![SocketAddr::from((*ip, self.port))]),
            Host::Ipv6(ip) => Ok(vec![SocketAddr::from((*ip, self.port))]),
            Host::Domain(name) => {
                let found = tokio::net::lookup_host((name.as_str(), self.port)).await;
                found.map(Iterator::collect).map_err(|error| error.to_string())
            }
        }
    }
}

/// Connects to the first address that takes us. One that says nothing, such as one of a network that leads
/// nowhere, holds up the next for a moment only.
async fn first_to_answer(addresses: Vec<SocketAddr>) -> Result<TcpStream, String> {
    let mut last = "the name has no address".to_owned();
    let mut trying = JoinSet::new();
    let mut addresses = addresses.into_iter().take(ADDRESSES_MAX);
    loop {
        let wait = match addresses.next() {
            Some(address) => {
                trying.spawn(TcpStream::connect(address));
                if addresses.len() > 0 { HEAD_START } else { Duration::MAX }
            }
            None => Duration::MAX,
        };
        match tokio::time::timeout(wait, trying.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => last = error.to_string(),
            Ok(Some(Err(error))) => last = error.to_string(),
            Ok(None) => return Err(last),
            Err(_) => {}
        }
    }
}

/// What went wrong with TLS; of a certificate that nobody vouches for, what can be done.
fn why_no_tls(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
            "nobody that this machine trusts vouches for its certificate; install its CA here, or name the CA's file in `SSL_CERT_FILE`".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Small messages leave at once, and a peer that vanished is noticed.
fn prepared(stream: TcpStream) -> Result<TcpStream, String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    sockopt::set_socket_keepalive(&stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(&stream, TCP_KEEP_ALIVE))
        .map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Names are checked again by address when they are looked up.
fn may_be_loopback(host: &Host<String>) -> bool {
    match host {
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
        Host::Domain(_) => true,
    }
}

fn authority(url: &Url) -> Result<HeaderValue, TargetRefused> {
    let host = url.host_str().ok_or(TargetRefused::NoHost)?;
    let text = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HeaderValue::try_from(text).map_err(|_| TargetRefused::NoHost)
}

fn tls_for(
    config: Option<&Arc<ClientConfig>>,
    host: &Host<String>,
) -> Result<(TlsConnector, ServerName<'static>), TargetRefused> {
    let config = config.ok_or(TargetRefused::NoTls)?;
    let name = match host {
        Host::Ipv4(ip) => ServerName::from(std::net::IpAddr::from(*ip)),
        Host::Ipv6(ip) => ServerName::from(std::net::IpAddr::from(*ip)),
        Host::Domain(name) => {
            ServerName::try_from(name.clone()).map_err(|_| TargetRefused::Name(name.clone()))?
        }
    };
    Ok((TlsConnector::from(Arc::clone(config)), name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::{Instant, timeout};

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    /// An address that says nothing to who connects, as long as what comes with it is kept.
    async fn silent() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let at = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        // When its queue is full, the system does not answer for it any more.
        while let Ok(stream) = timeout(HEAD_START, TcpStream::connect(at)).await {
            waiting.push(stream.unwrap());
        }
        (at, listener, waiting)
    }

    #[tokio::test]
    async fn an_address_that_says_nothing_does_not_hide_the_next() {
        let (nowhere, _listener, _waiting) = silent().await;
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = open.local_addr().unwrap();
        for addresses in [vec![nowhere, closed, at], vec![closed, nowhere, at], vec![at, nowhere]] {
            let began = Instant::now();
            let stream = first_to_answer(addresses.clone()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), at);
            assert!(began.elapsed() < SOON, "{addresses:?}");
        }
        let refused = first_to_answer(vec![closed, closed]).await.unwrap_err();
        assert!(refused.contains("refused"), "{refused}");
        assert!(first_to_answer(Vec::new()).await.unwrap_err().contains("no address"));
    }
}

//! Opens connections to one server: resolve, check, connect, encrypt.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
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
use super::socket::{Socket, TcpOrTls};

/// TCP keep-alive starts after this idle time.
const TCP_KEEP_ALIVE: Duration = Duration::from_mins(1);

/// How long to wait for one address before trying the next in parallel.
const HEAD_START: Duration = Duration::from_millis(250);
/// Addresses tried per name.
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
        "`{0}` uses plain http, which anyone on the network can read and change\nhint: use https, or allow plain http for this server"
    )]
    PlainHttp(String),
    #[error("https needs a TLS configuration\nhint: make one with `client_config`")]
    NoTls,
    #[error(
        "the address contains a user name or password\nhint: set an `authorization` header instead"
    )]
    Credentials,
    #[error(transparent)]
    Header(#[from] super::headers::HeaderRefused),
}

/// Where and how to connect.
pub(super) struct Dialer {
    host: Host<String>,
    port: u16,
    /// The `host` header.
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

    /// A new connection, or why there certainly is none.
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
        let (socket, monitor) = Socket::new(stream);
        let stream = match &self.tls {
            None => TcpOrTls::Plain(socket),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), socket).await;
                TcpOrTls::Tls(Box::new(stream.map_err(|error| tls_error_text(&error))?))
            }
        };
        Connection::open(stream, monitor, &self.bounds, &self.waits)
            .await
            .map_err(|error| error.to_string())
    }

    async fn tcp(&self) -> Result<TcpStream, String> {
        let mut addresses = self.addresses().await?;
        if self.loopback_only {
            addresses = on_this_machine(addresses)?;
        }
        prepared(connect_first(addresses).await?)
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

/// The loopback addresses of a name. The address that is checked is the address that is used.
fn on_this_machine(mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
    addresses.retain(|address| address.ip().is_loopback());
    if addresses.is_empty() {
        return Err("it is not on this machine, and plain http is not allowed for it".into());
    }
    Ok(addresses)
}

/// Connects to the first address that accepts. An unresponsive address delays the next one only briefly.
async fn connect_first(addresses: Vec<SocketAddr>) -> Result<TcpStream, String> {
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

/// The TLS error. For an unknown CA, also what to do.
fn tls_error_text(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
            "its certificate is not signed by a CA that this machine trusts; install the CA, or name its file in `SSL_CERT_FILE`".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Disables Nagle's algorithm and enables keep-alive.
fn prepared(stream: TcpStream) -> Result<TcpStream, String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    platform::sockets::keep_alive(&stream, TCP_KEEP_ALIVE).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Names are checked again by address when they are resolved.
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

    /// An address that accepts no connection, as long as the returned values live.
    async fn unresponsive() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let at = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        // Once its backlog is full, connections get no response.
        while let Ok(stream) = timeout(HEAD_START, TcpStream::connect(at)).await {
            waiting.push(stream.unwrap());
        }
        (at, listener, waiting)
    }

    #[test]
    fn a_name_is_used_only_if_it_means_this_machine() {
        let here = ["127.0.0.1:80", "127.8.9.10:80", "[::1]:80"];
        let elsewhere = [
            "192.0.2.1:80",
            "10.0.0.1:80",
            "0.0.0.0:80",
            "[2001:db8::1]:80",
            "[::ffff:127.0.0.1]:80",
        ];
        let parsed = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(on_this_machine(parsed(&here)).unwrap(), parsed(&here));
        // A name may have both kinds: the others are dropped.
        let mixed = parsed(&[elsewhere[0], here[0], elsewhere[3], here[2]]);
        assert_eq!(on_this_machine(mixed).unwrap(), parsed(&[here[0], here[2]]));
        for address in elsewhere {
            let refused = on_this_machine(parsed(&[address])).unwrap_err();
            assert!(refused.contains("not on this machine"), "{address}: {refused}");
        }
    }

    #[tokio::test]
    async fn a_silent_address_does_not_hide_the_next() {
        let (nowhere, _listener, _waiting) = unresponsive().await;
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = open.local_addr().unwrap();
        for addresses in [vec![nowhere, closed, at], vec![closed, nowhere, at], vec![at, nowhere]] {
            let began = Instant::now();
            let stream = connect_first(addresses.clone()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), at);
            assert!(began.elapsed() < SOON, "{addresses:?}");
        }
        let refused = connect_first(vec![closed, closed]).await.unwrap_err();
        assert!(refused.contains("refused"), "{refused}");
        assert!(connect_first(Vec::new()).await.unwrap_err().contains("no address"));
    }
}

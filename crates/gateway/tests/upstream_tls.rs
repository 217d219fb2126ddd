//! HTTPS servers: trusted through the owner's CA, or not contacted at all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    dead_code,
    reason = "a failed unwrap is a failed test; helpers are shared by several tests"
)]

#[path = "upstream_support/fake.rs"]
mod fake;
#[path = "upstream_support/permit.rs"]
mod permit;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake::{one, request};
use gateway::upstream::{CaError, HttpLink, HttpOptions, HttpServer, UpstreamError, client_config};
use permit::permit;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server with a certificate for `localhost`, and the file of the CA that signed it.
struct TlsServer {
    port: u16,
    connections: Arc<AtomicUsize>,
    ca_file: tempfile::NamedTempFile,
}

impl TlsServer {
    async fn start() -> TlsServer {
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &ca).unwrap();
        let ca_file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(ca_file.path(), ca.pem()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(acceptor.clone(), socket));
            }
        });
        TlsServer { port, connections, ca_file }
    }

    fn link(&self, host: &str, ca_file: Option<&Path>) -> HttpLink {
        let mut options =
            HttpOptions::new(format!("https://{host}:{}/mcp", self.port).parse().unwrap());
        options.tls = Some(client_config(ca_file).unwrap());
        options.waits.connect_max = Duration::from_secs(5);
        HttpLink::new(HttpServer::new(options).unwrap())
    }
}

/// Sends the same small response to every request on a connection.
async fn serve(acceptor: TlsAcceptor, socket: tokio::net::TcpStream) {
    let Ok(mut stream) = acceptor.accept(socket).await else { return };
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(1..) = stream.read(&mut buffer).await {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n";
        stream.write_all(format!("{head}{{}}").as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
    }
}

#[tokio::test]
async fn the_owners_ca_is_trusted_and_the_connection_reused() {
    let server = TlsServer::start().await;
    let link = server.link("localhost", Some(server.ca_file.path()));
    for id in 0..10 {
        assert_eq!(one(link.request(&permit(), request(id)).await.unwrap()).1, "{}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_unknown_ca_or_another_name_gets_no_request() {
    let server = TlsServer::start().await;
    for (link, words) in [
        (server.link("localhost", None), "`SSL_CERT_FILE`"),
        (server.link("127.0.0.1", Some(server.ca_file.path())), "not valid for name"),
    ] {
        let error = link.request(&permit(), request(1)).await.err().unwrap();
        assert!(matches!(error, UpstreamError::NeverSent { .. }), "{error}");
        assert!(error.to_string().contains("certificate"), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_a_tls_handshake_times_out() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut options = HttpOptions::new(format!("https://localhost:{port}/").parse().unwrap());
    options.tls = Some(client_config(None).unwrap());
    options.waits.connect_max = Duration::from_millis(100);
    let link = HttpLink::new(HttpServer::new(options).unwrap());
    let error = link.request(&permit(), request(1)).await.err().unwrap();
    assert!(matches!(error, UpstreamError::NeverSent { .. }), "{error}");
}

#[test]
fn a_ca_file_must_contain_a_certificate() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    for path in [empty.path(), Path::new("/nowhere/ca.pem")] {
        assert!(matches!(client_config(Some(path)), Err(CaError::CaFile { .. })));
    }
}

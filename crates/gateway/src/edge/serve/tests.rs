//! A TLS listener, tested from outside.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::sync::Mutex;

use rustls::pki_types::ServerName;
use store::clock::Now;
use store::settings::Limits;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::*;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A listener, the client configuration that trusts it, and the recorded statuses of connections
/// without a valid request.
struct TestListener {
    at: SocketAddr,
    client_config: Arc<rustls::ClientConfig>,
    statuses: Arc<Mutex<Vec<u16>>>,
    _stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

impl TestListener {
    async fn new(connections_max: usize) -> TestListener {
        let folder = tempfile::tempdir().unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let cert = params.self_signed(&key).unwrap();
        std::fs::write(&cert_file, cert.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let tls = Tls::from_files(&cert_file, &key_file).unwrap();
        let bounds = Bounds { connections_max, ..Bounds::from_limits(&Limits::default()) };
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(any, Some(tls), Arc::new(bounds)).await.unwrap();
        let (at, statuses) = (listener.address().unwrap(), Arc::<Mutex<Vec<u16>>>::default());
        let recorded = Arc::clone(&statuses);
        let on_bad_connection: OnBadConnection = Arc::new(move |_, status, message| {
            recorded.lock().unwrap().push(status);
            let mut response = Response::new(Body::complete(message));
            *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
            response
        });
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(async move {
            let clock = Clock::set(Now { wall_us: 0, steady_us: 0 });
            let answer = |remote: Remote, request: Request<IncomingBody>| async move {
                if request.uri().path() == "/known" {
                    remote.register_grant("agent");
                }
                Response::new(Body::complete("served"))
            };
            listener
                .serve(&Workers::start(1).unwrap(), clock, answer, on_bad_connection, stopping)
                .await;
        });
        let mut roots = rustls::RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client_config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        TestListener {
            at,
            client_config: Arc::new(client_config),
            statuses,
            _stop: stop,
            _folder: folder,
        }
    }

    async fn connect(&self) -> tokio_rustls::client::TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.at).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::clone(&self.client_config)).connect(name, stream).await.unwrap()
    }
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
    stream.write_all(GET).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn a_client_without_tls_gets_a_400() {
    let listener = TestListener::new(2).await;
    let response = ask(TcpStream::connect(listener.at).await.unwrap()).await;
    assert!(response.starts_with("HTTP/1.1 400 ") && response.contains("`https://`"), "{response}");
    assert_eq!(*listener.statuses.lock().unwrap(), [400]);
    assert!(ask(listener.connect().await).await.ends_with("served"));
}

#[tokio::test]
async fn a_client_over_the_limit_gets_a_503_over_tls() {
    let listener = TestListener::new(1).await;
    let mut first = listener.connect().await;
    // An authenticated client that keeps its connection open.
    first.write_all(b"GET /known HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut begin = [0; 12];
    first.read_exact(&mut begin).await.unwrap();
    let response = ask(listener.connect().await).await;
    assert!(
        response.starts_with("HTTP/1.1 503 ") && response.contains("`connections_max`"),
        "{response}"
    );
    assert_eq!(*listener.statuses.lock().unwrap(), [503]);
    assert!(ask(first).await.ends_with("served"));
}

#[tokio::test]
async fn an_unauthenticated_connection_is_evicted() {
    let listener = TestListener::new(2).await;
    let (mut first, second) =
        (TcpStream::connect(listener.at).await.unwrap(), listener.connect().await);
    assert!(ask(listener.connect().await).await.ends_with("served"));
    assert_eq!(*listener.statuses.lock().unwrap(), [503]);
    assert_eq!(first.read(&mut [0]).await.unwrap(), 0, "the oldest one is closed");
    assert!(ask(second).await.ends_with("served"));
}

//! A listener with TLS, from outside.
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

/// A listener for so many connections, what a client must trust, and what was told of connections
/// that never became a request.
struct Stage {
    at: SocketAddr,
    trusts: Arc<rustls::ClientConfig>,
    told: Arc<Mutex<Vec<u16>>>,
    _stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new(connections_max: usize) -> Stage {
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
        let (at, told) = (listener.address().unwrap(), Arc::<Mutex<Vec<u16>>>::default());
        let tells = Arc::clone(&told);
        let broken: OnBroken = Arc::new(move |_, status, words| {
            tells.lock().unwrap().push(status);
            let mut response = Response::new(Body::whole(words));
            *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
            response
        });
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(async move {
            let clock = Clock::set(Now { wall_us: 0, steady_us: 0 });
            let answer = |remote: Remote, request: Request<Arriving>| async move {
                if request.uri().path() == "/known" {
                    remote.let_stay("agent");
                }
                Response::new(Body::whole("served"))
            };
            listener.serve(&Lanes::start(1).unwrap(), clock, answer, broken, stopping).await;
        });
        let mut roots = rustls::RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusts = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Stage { at, trusts: Arc::new(trusts), told, _stop: stop, _folder: folder }
    }

    async fn connect(&self) -> tokio_rustls::client::TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.at).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::clone(&self.trusts)).connect(name, stream).await.unwrap()
    }
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
    stream.write_all(GET).await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    heard
}

#[tokio::test]
async fn who_forgets_tls_hears_so() {
    let stage = Stage::new(2).await;
    let heard = ask(TcpStream::connect(stage.at).await.unwrap()).await;
    assert!(heard.starts_with("HTTP/1.1 400 ") && heard.contains("`https://`"), "{heard}");
    assert_eq!(*stage.told.lock().unwrap(), [400]);
    assert!(ask(stage.connect().await).await.ends_with("served"));
}

#[tokio::test]
async fn who_finds_no_place_hears_so_over_tls() {
    let stage = Stage::new(1).await;
    let mut first = stage.connect().await;
    // Somebody with a grant, who keeps the connection open.
    first.write_all(b"GET /known HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut begin = [0; 12];
    first.read_exact(&mut begin).await.unwrap();
    let heard = ask(stage.connect().await).await;
    assert!(heard.starts_with("HTTP/1.1 503 ") && heard.contains("`connections_max`"), "{heard}");
    assert_eq!(*stage.told.lock().unwrap(), [503]);
    assert!(ask(first).await.ends_with("served"));
}

#[tokio::test]
async fn who_has_shown_no_grant_makes_room() {
    let stage = Stage::new(2).await;
    let (mut first, second) = (TcpStream::connect(stage.at).await.unwrap(), stage.connect().await);
    assert!(ask(stage.connect().await).await.ends_with("served"));
    assert_eq!(*stage.told.lock().unwrap(), [503]);
    assert_eq!(first.read(&mut [0]).await.unwrap(), 0, "the one that waited longest is gone");
    assert!(ask(second).await.ends_with("served"));
}

//! TLS for the listener, from a certificate and a key file. Certificates are renewed while a gate runs,
//! so the files are looked at again.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

mod validity;

pub use validity::Validity;

/// How often new connections have the files looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A certificate and its key, ready to accept with.
#[derive(Clone)]
pub struct Tls {
    shared: Arc<Shared>,
}

struct Shared {
    cert_file: PathBuf,
    key_file: PathBuf,
    current: Mutex<Current>,
}

struct Current {
    acceptor: TlsAcceptor,
    /// The files as they were when they were last read.
    stamps: [Stamp; 2],
    looked: Instant,
}

/// Tells one state of a file from another; none when it is not there.
type Stamp = Option<(u64, u64, i64, i64)>;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "cannot read a certificate from `{path}`: {words}\nhint: it must be a PEM file, the server's certificate first"
    )]
    Certificate { path: PathBuf, words: String },
    #[error(
        "cannot read a private key from `{path}`: {words}\nhint: it must be a PEM file with one private key"
    )]
    Key { path: PathBuf, words: String },
    #[error(
        "certificate and key do not fit each other: {0}\nhint: `tls_key_file` must be the key that the certificate in `tls_cert_file` was made for"
    )]
    Mismatch(rustls::Error),
}

impl Tls {
    pub fn from_files(cert_file: &Path, key_file: &Path) -> Result<Tls, TlsError> {
        let stamps = [stamp(cert_file), stamp(key_file)];
        let acceptor = read(cert_file, key_file)?;
        let current = Mutex::new(Current { acceptor, stamps, looked: Instant::now() });
        let (cert_file, key_file) = (cert_file.to_owned(), key_file.to_owned());
        Ok(Tls { shared: Arc::new(Shared { cert_file, key_file, current }) })
    }

    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = self.shared.acceptor();
        acceptor.accept(stream).await
    }
}

impl Shared {
    /// What the files hold, as far as they hold a pair; what they held before if they do not.
    fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK_EVERY {
            current.looked = Instant::now();
            let stamps = [stamp(&self.cert_file), stamp(&self.key_file)];
            if stamps != current.stamps {
                // Whoever renews them writes one file after the other: the last change counts.
                current.stamps = stamps;
                match read(&self.cert_file, &self.key_file) {
                    Ok(acceptor) => {
                        current.acceptor = acceptor;
                        tracing::info!("the TLS files were read again");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the TLS files changed and are not a pair; the old one is used");
                    }
                }
            }
        }
        current.acceptor.clone()
    }
}

fn stamp(file: &Path) -> Stamp {
    let found = fs::metadata(file).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

fn read(cert_file: &Path, key_file: &Path) -> Result<TlsAcceptor, TlsError> {
    let certificate_error =
        |words: String| TlsError::Certificate { path: cert_file.to_owned(), words };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect)
        .map_err(|error| certificate_error(error.to_string()))?;
    if chain.is_empty() {
        return Err(certificate_error("it holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| TlsError::Key { path: key_file.to_owned(), words: error.to_string() })?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Mismatch)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Mismatch)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A certificate and its key as PEM.
    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// Looks now, and says whether it was the old one that came back.
    fn is_still(tls: &Tls, old: &Arc<rustls::ServerConfig>) -> bool {
        tls.shared.current.lock().unwrap().looked -= LOOK_EVERY;
        Arc::ptr_eq(tls.shared.acceptor().config(), old)
    }

    #[test]
    fn a_renewed_pair_is_taken_and_half_of_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let (cert, key) = pair();
        fs::write(&cert_file, cert).unwrap();
        fs::write(&key_file, key).unwrap();
        let tls = Tls::from_files(&cert_file, &key_file).unwrap();
        let old = Arc::clone(tls.shared.acceptor().config());
        assert!(is_still(&tls, &old), "nothing changed");
        // Renamed into place, so that their stamps differ however coarse the clock of the disk is.
        let put = |name: &str, text: &str| {
            let draft = folder.path().join("draft");
            fs::write(&draft, text).unwrap();
            fs::rename(&draft, folder.path().join(name)).unwrap();
        };
        let (cert, key) = pair();
        put("cert.pem", &cert);
        assert!(is_still(&tls, &old), "the key is still the old one");
        put("key.pem", "no key");
        assert!(is_still(&tls, &old));
        fs::remove_file(&key_file).unwrap();
        assert!(is_still(&tls, &old));
        put("key.pem", &key);
        assert!(!is_still(&tls, &old));
    }
}

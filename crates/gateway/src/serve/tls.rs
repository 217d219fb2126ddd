//! TLS for the listener, from a certificate and a key file. Certificates are renewed while a gate runs,
//! so the files are looked at again.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
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
        "the private key in `{path}` is encrypted, and nobody is there to give its passphrase\nhint: `openssl pkey -in FILE -out NEW-FILE` writes it without one; keep that file to yourself (mode 0600)"
    )]
    EncryptedKey { path: PathBuf },
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

/// Whether a client begins as one that speaks HTTP without TLS does; a handshake begins otherwise.
pub(super) async fn begins_with_a_letter(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_alphabetic()
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
    // A pipe would hold up everybody who connects.
    store::files::open(cert_file).map_err(|error| certificate_error(error.to_string()))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect)
        .map_err(|error| certificate_error(error.to_string()))?;
    if chain.is_empty() {
        return Err(certificate_error("it holds no certificate".to_owned()));
    }
    store::files::open(key_file)
        .map_err(|error| TlsError::Key { path: key_file.to_owned(), words: error.to_string() })?;
    let key =
        PrivateKeyDer::from_pem_file(key_file).map_err(|error| key_error(key_file, &error))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Mismatch)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InvalidCertificate(why) => certificate_error(format!("{why:?}")),
            error => TlsError::Mismatch(error),
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn key_error(file: &Path, error: &pem::Error) -> TlsError {
    let path = file.to_owned();
    let text = fs::read(file).unwrap_or_default();
    // So both kinds say it: the older one in a line of its own, the newer one in its first line.
    if memchr::memmem::find(&text, b"ENCRYPTED").is_some() {
        return TlsError::EncryptedKey { path };
    }
    let words = match error {
        pem::Error::NoItemsFound => "it holds no private key".to_owned(),
        error => error.to_string(),
    };
    TlsError::Key { path, words }
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
    fn what_is_wrong_with_the_files_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let ((cert, key), (_, other)) = (pair(), pair());
        let newer = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (cert, key, expected) in [
            (&*cert, &*newer, "is encrypted"),
            (&cert, older, "is encrypted"),
            (&cert, "", "holds no private key"),
            (&cert, &other, "do not fit each other"),
            ("", &key, "holds no certificate"),
            (junk, &key, "cannot read a certificate"),
        ] {
            fs::write(&cert_file, cert).unwrap();
            fs::write(&key_file, key).unwrap();
            let words = Tls::from_files(&cert_file, &key_file).err().unwrap().to_string();
            assert!(words.contains(expected) && words.contains("\nhint: "), "{words}");
        }
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

//! TLS for the listener, from a certificate and a key file. Certificates are renewed while a gate
//! runs, so the files are checked again, on a separate thread: a stalled disk blocks no connection.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use platform::files::FileVersion;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

mod validity;

pub use validity::Validity;

/// How often new connections trigger a check of the files.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a connection waits for the check, so that it gets a certificate that was just renewed.
const CHECK_WAIT_MAX: Duration = Duration::from_millis(100);
/// Files that are not read within this time are reported once.
const CHECK_SLOW: Duration = Duration::from_secs(5);
/// More than any chain of certificates needs.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate and its key, ready to accept with.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
}

struct TlsFiles {
    cert_file: PathBuf,
    key_file: PathBuf,
    current: Mutex<TlsState>,
}

struct TlsState {
    acceptor: TlsAcceptor,
    /// The files when they were last read.
    stamps: [Stamp; 2],
    checked_at: Instant,
    checking: Checking,
}

/// Whether a thread is reading the files. There is never more than one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checking {
    No,
    Running,
    /// Reported as slow.
    Slow,
}

/// `None` if the file is missing.
type Stamp = Option<FileVersion>;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "cannot read a certificate from `{path}`: {message}\nhint: it must be a PEM file, the server's certificate first"
    )]
    Certificate { path: PathBuf, message: String },
    #[error(
        "cannot read a private key from `{path}`: {message}\nhint: it must be a PEM file with one private key"
    )]
    Key { path: PathBuf, message: String },
    #[error(
        "the private key in `{path}` is encrypted, and the gate cannot ask for its passphrase\nhint: `openssl pkey -in FILE -out NEW-FILE` writes it without one; keep that file to yourself (mode 0600)"
    )]
    EncryptedKey { path: PathBuf },
    #[error(
        "certificate and key do not match: {0}\nhint: `tls_key_file` must be the key that the certificate in `tls_cert_file` was made for"
    )]
    Mismatch(rustls::Error),
}

impl Tls {
    pub fn from_files(cert_file: &Path, key_file: &Path) -> Result<Tls, TlsError> {
        let (stamps, acceptor) = first_read(cert_file, key_file)?;
        let (checked_at, checking) = (Instant::now(), Checking::No);
        let current = Mutex::new(TlsState { acceptor, stamps, checked_at, checking });
        let (cert_file, key_file) = (cert_file.to_owned(), key_file.to_owned());
        Ok(Tls { files: Arc::new(TlsFiles { cert_file, key_file, current }) })
    }

    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if let Some(checked) = self.files.check_if_due() {
            // If this takes longer, the old pair is used.
            let _ = tokio::time::timeout(CHECK_WAIT_MAX, checked).await;
        }
        let acceptor = self.files.current().acceptor.clone();
        acceptor.accept(stream).await
    }
}

/// Whether the client sends plain HTTP: a TLS handshake does not start with a letter.
pub(super) async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_alphabetic()
}

impl TlsFiles {
    fn current(&self) -> MutexGuard<'_, TlsState> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a check of the files on a thread if one is due. A thread that hangs on a stalled disk
    /// stays the only one.
    fn check_if_due(self: &Arc<Self>) -> Option<oneshot::Receiver<()>> {
        let mut current = self.current();
        if current.checking == Checking::Running && current.checked_at.elapsed() >= CHECK_SLOW {
            current.checking = Checking::Slow;
            tracing::warn!(
                "cannot read the TLS files for {} s; still using the old pair",
                CHECK_SLOW.as_secs()
            );
        }
        if current.checking != Checking::No || current.checked_at.elapsed() < CHECK_EVERY {
            return None;
        }
        current.checked_at = Instant::now();
        let (done, checked) = oneshot::channel();
        let files = Arc::clone(self);
        let started = std::thread::Builder::new().name("tls-files".to_owned()).spawn(move || {
            files.check();
            files.current().checking = Checking::No;
            // The connection may be gone.
            let _ = done.send(());
        });
        current.checking = if started.is_ok() { Checking::Running } else { Checking::No };
        Some(checked)
    }

    /// Loads the files if they changed and form a valid pair.
    fn check(&self) {
        let stamps = [stamp(&self.cert_file), stamp(&self.key_file)];
        if stamps == self.current().stamps {
            return;
        }
        let acceptor = read_pair(&self.cert_file, &self.key_file, open_and_read);
        let mut current = self.current();
        // A renewal writes one file after the other; the second write triggers another check.
        current.stamps = stamps;
        match acceptor {
            Ok(acceptor) => {
                current.acceptor = acceptor;
                tracing::info!("reloaded the TLS files");
            }
            Err(error) => {
                tracing::warn!(%error, "the TLS files changed but do not form a valid pair; still using the old one");
            }
        }
    }
}

fn stamp(file: &Path) -> Stamp {
    FileVersion::of_target(file)
}

/// Reads both files with a timeout: a gate does not start on a stalled disk.
fn first_read(cert_file: &Path, key_file: &Path) -> Result<([Stamp; 2], TlsAcceptor), TlsError> {
    let files = [cert_file.to_owned(), key_file.to_owned()];
    let stamps = store::files::within(store::files::READ_WAIT_MS_MAX, move || {
        files.map(|file| stamp(&file))
    });
    let stamps = stamps.map_err(|error| TlsError::Certificate {
        path: cert_file.to_owned(),
        message: error.to_string(),
    })?;
    Ok((stamps, read_pair(cert_file, key_file, |path| store::files::read(path, FILE_BYTES_MAX))?))
}

/// Reads a regular file without a timeout.
fn open_and_read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    store::files::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_pair(
    cert_file: &Path,
    key_file: &Path,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<TlsAcceptor, TlsError> {
    let certificate_error =
        |message: String| TlsError::Certificate { path: cert_file.to_owned(), message };
    let text = read(cert_file).map_err(|error| certificate_error(error.to_string()))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| certificate_error(error.to_string()))?;
    if chain.is_empty() {
        return Err(certificate_error("it contains no certificate".to_owned()));
    }
    let text = read(key_file)
        .map_err(|error| TlsError::Key { path: key_file.to_owned(), message: error.to_string() })?;
    let key =
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| key_error(key_file, &text, &error))?;
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

fn key_error(file: &Path, text: &[u8], error: &pem::Error) -> TlsError {
    let path = file.to_owned();
    // Both formats contain the word: the older one in a header line, the newer one in its first
    // line.
    if memchr::memmem::find(text, b"ENCRYPTED").is_some() {
        return TlsError::EncryptedKey { path };
    }
    let message = match error {
        pem::Error::NoItemsFound => "it contains no private key".to_owned(),
        error => error.to_string(),
    };
    TlsError::Key { path, message }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use rcgen::{CertificateParams, KeyPair};

    use std::fs;

    use super::*;

    /// A certificate and its key as PEM.
    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// Runs a check and returns whether the old pair is still used.
    fn still_uses(tls: &Tls, old: &Arc<rustls::ServerConfig>) -> bool {
        tls.files.current().checked_at -= CHECK_EVERY;
        tls.files.check_if_due().unwrap().blocking_recv().unwrap();
        Arc::ptr_eq(tls.files.current().acceptor.config(), old)
    }

    #[test]
    fn errors_name_the_problem_with_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let ((cert, key), (_, other)) = (pair(), pair());
        let newer = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (cert, key, expected) in [
            (&*cert, &*newer, "is encrypted"),
            (&cert, older, "is encrypted"),
            (&cert, "", "contains no private key"),
            (&cert, &other, "do not match"),
            ("", &key, "contains no certificate"),
            (junk, &key, "cannot read a certificate"),
        ] {
            fs::write(&cert_file, cert).unwrap();
            fs::write(&key_file, key).unwrap();
            let message = Tls::from_files(&cert_file, &key_file).err().unwrap().to_string();
            assert!(message.contains(expected) && message.contains("\nhint: "), "{message}");
        }
    }

    #[test]
    fn a_renewed_pair_is_loaded_and_half_of_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let (cert, key) = pair();
        fs::write(&cert_file, cert).unwrap();
        fs::write(&key_file, key).unwrap();
        let tls = Tls::from_files(&cert_file, &key_file).unwrap();
        let old = Arc::clone(tls.files.current().acceptor.config());
        assert!(still_uses(&tls, &old), "nothing changed");
        // Renamed, so that the metadata differ however coarse the file system's clock is.
        let put = |name: &str, text: &str| {
            let draft = folder.path().join("draft");
            fs::write(&draft, text).unwrap();
            fs::rename(&draft, folder.path().join(name)).unwrap();
        };
        let (cert, key) = pair();
        put("cert.pem", &cert);
        assert!(still_uses(&tls, &old), "the key is still the old one");
        put("key.pem", "no key");
        assert!(still_uses(&tls, &old));
        fs::remove_file(&key_file).unwrap();
        assert!(still_uses(&tls, &old));
        put("key.pem", &key);
        assert!(!still_uses(&tls, &old));
    }

    /// The lock is not held while a thread waits for the disk, and no second thread is started.
    #[test]
    fn a_hanging_check_blocks_no_connection() {
        let folder = tempfile::tempdir().unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let (cert, key) = pair();
        fs::write(&cert_file, cert).unwrap();
        fs::write(&key_file, key).unwrap();
        let tls = Tls::from_files(&cert_file, &key_file).unwrap();
        tls.files.current().checking = Checking::Running;
        for _ in 0..3 {
            tls.files.current().checked_at -= CHECK_SLOW;
            assert!(tls.files.check_if_due().is_none());
        }
        assert!(tls.files.current().checking == Checking::Slow, "reported once");
    }

    #[test]
    fn a_pipe_or_a_folder_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let (cert, key) = pair();
        fs::write(&cert_file, cert).unwrap();
        fs::write(&key_file, key).unwrap();
        let tls = Tls::from_files(&cert_file, &key_file).unwrap();
        let old = Arc::clone(tls.files.current().acceptor.config());
        fs::remove_file(&key_file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&key_file).status().unwrap().success());
        assert!(still_uses(&tls, &old));
        for (cert_file, key_file) in [(&cert_file, &key_file), (&key_file, &cert_file)] {
            let message = Tls::from_files(cert_file, key_file).err().unwrap().to_string();
            assert!(message.contains("a pipe, not a file"), "{message}");
        }
        assert_eq!(Validity::of_file(&key_file), None);
    }
}

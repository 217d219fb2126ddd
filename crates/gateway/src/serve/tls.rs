//! TLS for the listener, from a certificate and a key file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A certificate and its key, ready to accept with.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

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
    #[error("certificate and key do not fit each other: {0}")]
    Mismatch(rustls::Error),
}

impl Tls {
    pub fn from_files(cert_file: &Path, key_file: &Path) -> Result<Tls, TlsError> {
        let certificate_error =
            |words: String| TlsError::Certificate { path: cert_file.to_owned(), words };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert_file)
            .and_then(Iterator::collect)
            .map_err(|error| certificate_error(error.to_string()))?;
        if chain.is_empty() {
            return Err(certificate_error("it holds no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| TlsError::Key {
            path: key_file.to_owned(),
            words: error.to_string(),
        })?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Mismatch)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(TlsError::Mismatch)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.acceptor.accept(stream).await
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

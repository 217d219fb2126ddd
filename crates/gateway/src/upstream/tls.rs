//! How we trust the servers we call over https: the system's roots, and the owner's own on top.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Why no server could be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "cannot read the CA file `{path}`: {why}\nhint: name a PEM file with at least one certificate"
    )]
    CaFile { path: PathBuf, why: String },
    #[error(
        "this machine has no root certificates\nhint: install `ca-certificates`, or name a CA file"
    )]
    NoRoots,
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// The one place that chooses provider, versions and roots. Reading the roots takes milliseconds,
/// so make one and share it.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let refused = |why: String| TlsError::CaFile { path: path.to_owned(), why };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(error.to_string()))?;
    if certificates.is_empty() {
        return Err(refused("there is no certificate in it".to_owned()));
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    Ok(())
}

//! TLS trust for servers: the system's root certificates, and the owner's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
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

/// A bundle of all public roots has a few hundred kB.
const CA_BYTES_MAX: u64 = 8 << 20;

/// The only place that chooses provider, versions and roots. Loading the roots takes milliseconds, so share the
/// result.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, CaError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        return Err(CaError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), CaError> {
    let refused = |why: String| CaError::CaFile { path: path.to_owned(), why };
    let text =
        store::files::read(path, CA_BYTES_MAX).map_err(|error| refused(error.to_string()))?;
    let certificates = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refused(error.to_string()))?;
    if certificates.is_empty() {
        return Err(refused("there is no certificate in it".to_owned()));
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    Ok(())
}

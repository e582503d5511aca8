//! Whom a client trusts.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificates of the experiment.
    #[error("workload.ca holds no certificates that can be trusted: {0}")]
    Certificates(String),
    /// None are there.
    #[error("this system trusts no certificates: give a file of them as workload.ca")]
    None,
    /// The library's own.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// The configuration of connections that trust these certificates (PEM), or the system's.
pub(super) fn configuration(ca: Option<&str>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(ca) => {
            for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
                let certificate =
                    certificate.map_err(|error| TlsError::Certificates(error.to_string()))?;
                roots
                    .add(certificate)
                    .map_err(|error| TlsError::Certificates(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(TlsError::Certificates("there are none".to_owned()));
            }
        }
        None => {
            // Some that can't be read are no matter as long as there are others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(TlsError::None);
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

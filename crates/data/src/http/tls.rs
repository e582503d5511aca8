//! Which certificates are trusted.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Why TLS can't be spoken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the certificates of {origin}: {reason}")]
pub struct TlsError {
    /// A file, or the system.
    pub origin: String,
    /// What is wrong with them.
    pub reason: String,
}

/// TLS that trusts the authorities of a file in PEM, or else the system's.
///
/// # Errors
/// If there is none to trust.
pub fn config(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let origin = ca_file.map_or_else(|| "the system".to_owned(), |path| path.display().to_string());
    let unusable = |reason: String| TlsError { origin: origin.clone(), reason };
    let certificates = match ca_file {
        Some(path) => in_file(path),
        None => of_system(),
    };
    let mut roots = RootCertStore::empty();
    let (added, ignored) = roots.add_parsable_certificates(certificates.map_err(unusable)?);
    if added == 0 {
        return Err(unusable(format!("none of {ignored} can be used as an authority")));
    }
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn in_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    if found.is_empty() { Err("there is no PEM certificate in it".to_owned()) } else { Ok(found) }
}

fn of_system() -> Result<Vec<CertificateDer<'static>>, String> {
    let loaded = rustls_native_certs::load_native_certs();
    if loaded.certs.is_empty() {
        let failure = loaded.errors.first().map(ToString::to_string);
        return Err(failure.unwrap_or_else(|| "there are none".to_owned()));
    }
    Ok(loaded.certs)
}

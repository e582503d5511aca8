//! Which certificates are trusted.

use std::path::{Path, PathBuf};

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

/// Which authorities are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The system's.
    System,
    /// Those of a file in PEM.
    File(PathBuf),
    /// Those of a file in PEM, and the system's, of which there may be none.
    Both(PathBuf),
}

impl Trust {
    /// The authorities of the file, or else the system's.
    pub fn of(ca_file: Option<PathBuf>) -> Self {
        ca_file.map_or(Self::System, Self::File)
    }

    /// The system's authorities, and those of the file.
    pub fn with(ca_file: Option<PathBuf>) -> Self {
        ca_file.map_or(Self::System, Self::Both)
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let (origin, certificates) = match self {
            Self::System => ("the system".to_owned(), of_system()),
            Self::File(path) | Self::Both(path) => (path.display().to_string(), in_file(path)),
        };
        let unusable = |reason| TlsError { origin, reason };
        let mut roots = RootCertStore::empty();
        match certificates.map(|certificates| roots.add_parsable_certificates(certificates)) {
            Ok((0, ignored)) => {
                return Err(unusable(format!("none of {ignored} can be used as an authority")));
            }
            Ok(_) => {}
            Err(reason) => return Err(unusable(reason)),
        }
        if let Self::Both(_) = self {
            roots.add_parsable_certificates(of_system().unwrap_or_default());
        }
        Ok(roots)
    }
}

/// TLS that trusts these.
///
/// # Errors
/// If there is none to trust.
pub fn config(trust: &Trust) -> Result<ClientConfig, TlsError> {
    let roots = trust.roots()?;
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError { origin: "TLS".to_owned(), reason: error.to_string() })?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_trusted_alone_or_beside_the_system() {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), issued.cert.pem()).unwrap();
        let path = || Some(file.path().to_owned());
        let system = Trust::of(None).roots().map_or(0, |roots| roots.len());
        assert_eq!(Trust::of(path()).roots().unwrap().len(), 1);
        assert_eq!(Trust::with(path()).roots().unwrap().len(), system + 1);

        std::fs::write(file.path(), "nothing").unwrap();
        for trust in [Trust::of(path()), Trust::with(path())] {
            let error = trust.roots().unwrap_err();
            assert_eq!(error.origin, file.path().display().to_string());
        }
    }
}

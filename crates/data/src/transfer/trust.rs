//! Whom to trust: the hosts that the operator names, and the authorities of their certificates.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::{Addresses, Moving, TransferError};
use crate::settings::SettingsError;

/// Hosts that the operator's own settings name: wherever they are, they may be asked. Never for
/// what a caller names.
#[derive(Debug)]
pub(crate) struct Named;

impl Addresses for Named {
    fn resolve<'t>(&'t self, host: &'t str, port: u16) -> Moving<'t, Vec<SocketAddr>> {
        Box::pin(async move {
            let broken = |reason: String| TransferError::Broken { peer: host.to_owned(), reason };
            let found = tokio::net::lookup_host((host, port)).await;
            let found: Vec<_> = found.map_err(|error| broken(error.to_string()))?.collect();
            if found.is_empty() {
                return Err(broken("its name has no address".to_owned()));
            }
            Ok(found)
        })
    }
}

/// TLS that trusts the authorities of a file, or else the system's.
pub(super) fn client_config(
    key: &str,
    ca_file: Option<&Path>,
) -> Result<Arc<ClientConfig>, SettingsError> {
    let unusable = |reason: String| SettingsError::unusable(key, reason);
    let certificates = match ca_file {
        Some(path) => certificates_in(path)
            .map_err(|reason| unusable(format!("ca_file {}: {reason}", path.display())))?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(unusable("no certificate of an authority was found; set ca_file".to_owned()));
    }
    let config =
        ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
    Ok(Arc::new(config))
}

fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())
}

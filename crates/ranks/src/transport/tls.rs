//! Which gateways are trusted: those whose certificates the system's authorities issued, or others that a file names.

use std::cell::{OnceCell, RefCell};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};

use crate::error::{Error, Result};

/// The environment variable that names a file of authorities in PEM, which are trusted beside the system's.
pub const CA_FILE: &str = "FISHPLATE_CA_FILE";

/// Who is trusted. Nothing is read before TLS is needed.
pub(super) struct Trust {
    ca_file: Option<PathBuf>,
    config: OnceCell<Arc<ClientConfig>>,
    /// Whose certificates were looked at.
    checked: RefCell<Vec<ServerName<'static>>>,
}

impl Trust {
    pub(super) fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, config: OnceCell::new(), checked: RefCell::default() }
    }

    /// TLS that trusts them.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let config = self.read().map_err(|problem| Error::Join {
            problem: format!("gateways can't be reached over TLS: {problem}"),
        })?;
        Ok(self.config.get_or_init(|| config.into()).clone())
    }

    /// Looks at the certificate of a gateway, so that who is not trusted is told before the first message; what else is wrong with it may
    /// pass.
    pub(super) fn check(
        &self,
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
        sockets: &[SocketAddr],
        timeout: Duration,
    ) -> std::result::Result<(), String> {
        if self.checked.borrow().contains(name) {
            return Ok(());
        }
        let mut connected = sockets.iter().map(|at| TcpStream::connect_timeout(at, timeout));
        let Some(mut socket) = connected.find_map(io::Result::ok) else { return Ok(()) };
        // One that says nothing is tried again with the first message.
        if socket.set_read_timeout(Some(timeout)).is_err() {
            return Ok(());
        }
        let tls = ClientConnection::new(config.clone(), name.clone());
        let mut tls = tls.map_err(|error| error.to_string())?;
        while tls.is_handshaking() {
            let Err(error) = tls.complete_io(&mut socket) else { continue };
            return match error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>()) {
                Some(rustls::Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::BadSignature,
                )) => Err(format!(
                    "its certificate was issued by no authority that is trusted here; {CA_FILE} names a file of another (of a server's ranks: --rank-ca)"
                )),
                Some(error) => Err(error.to_string()),
                None => Ok(()),
            };
        }
        self.checked.borrow_mut().push(name.clone());
        Ok(())
    }

    fn read(&self) -> std::result::Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.ca_file {
            let unusable = |what: String| format!("{CA_FILE} is {}: {what}", path.display());
            let found = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
                .map_err(|error| unusable(error.to_string()))?;
            if roots.add_parsable_certificates(found).0 == 0 {
                return Err(unusable(
                    "no certificate of an authority, in PEM, is in it".to_owned(),
                ));
            }
        }
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let what = "this system trusts no authority";
            return Err(format!("{what}; {CA_FILE} names a file of one, in PEM"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_not_be_used_is_named() {
        let path = std::env::temp_dir().join("no such authority");
        let error = Trust::new(Some(path.clone())).config().unwrap_err().to_string();
        assert!(error.contains(CA_FILE) && error.contains(path.to_str().unwrap()), "{error}");
    }
}

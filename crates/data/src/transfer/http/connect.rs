//! Connections: to allowed addresses only, within a deadline.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use super::peer;
use crate::transfer::{Addresses, TransferError, TransferSettings, root_cause};

/// A connection, with TLS or without.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to the host of an address, with TLS if that is https.
pub(super) async fn dial(
    url: &Url,
    addresses: &dyn Addresses,
    tls: Option<&TlsConnector>,
    allowed: Duration,
) -> Result<Box<dyn Stream>, TransferError> {
    tokio::time::timeout(allowed, dial_at_leisure(url, addresses, tls)).await.unwrap_or_else(|_| {
        let reason = format!("no connection within {} s (transfer_connect)", allowed.as_secs_f64());
        Err(TransferError::Broken { peer: peer(url), reason })
    })
}

async fn dial_at_leisure(
    url: &Url,
    addresses: &dyn Addresses,
    tls: Option<&TlsConnector>,
) -> Result<Box<dyn Stream>, TransferError> {
    let broken =
        |error: io::Error| TransferError::Broken { peer: peer(url), reason: root_cause(&error) };
    let strange =
        |reason: &str| TransferError::Strange { peer: peer(url), reason: reason.to_owned() };
    let host = url.host_str().ok_or_else(|| strange("its address names no host"))?;
    let port = url.port_or_known_default().ok_or_else(|| strange("its address names no port"))?;
    let stream = connect(&addresses.resolve(host, port).await?).await.map_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            TransferError::Unreachable { peer: peer(url), reason: root_cause(&error) }
        } else {
            broken(error)
        }
    })?;
    stream.set_nodelay(true).map_err(broken)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|_| strange("its host's name can't stand in a certificate"))?;
    match tls.connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        // Its certificate will not be another one the next time.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(strange(&root_cause(&error)))
        }
        Err(error) => Err(broken(error)),
    }
}

/// A connection to the first address that answers.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    /// An address that does not answer leaves time for the next one.
    const EACH: Duration = Duration::from_secs(4);
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (nth, address) in addresses.iter().enumerate() {
        let connecting = TcpStream::connect(address);
        let connected = if nth + 1 == addresses.len() {
            connecting.await
        } else {
            let late = || io::Error::from(io::ErrorKind::TimedOut);
            tokio::time::timeout(EACH, connecting).await.unwrap_or_else(|_| Err(late()))
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// What makes a connection to an https server; fails if there are no certificates to trust.
pub(super) fn tls(settings: &TransferSettings) -> Result<TlsConnector, String> {
    let provider = rustls::crypto::ring::default_provider();
    let mut config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(settings.ca_file.as_deref())?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The system's certificates, and those of the file.
fn roots(ca_file: Option<&Path>) -> Result<rustls::RootCertStore, String> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(loaded.certs);
    if let Some(path) = ca_file {
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(format!("{}: it holds no certificate in PEM", path.display()));
        }
    }
    if roots.is_empty() {
        let reason = loaded.errors.first().map_or("the system has none".to_owned(), |error| {
            format!("the system's can't be read: {error}")
        });
        return Err(format!("there are no certificates to trust: {reason}"));
    }
    Ok(roots)
}

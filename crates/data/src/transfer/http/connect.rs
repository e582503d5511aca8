//! Connections: to allowed addresses only, within a deadline.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio::net::TcpStream;
use tower_service::Service;

use super::body::Sending;
use crate::transfer::{Addresses, TransferError, TransferSettings};

/// Servers close idle connections after some time; ours go before.
const IDLE: Duration = Duration::from_secs(20);
/// How much of a body hyper reads at once, at most. Larger pieces are fewer writes to the disk.
const READ_SIZE: usize = 1 << 20;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

pub(super) type Plain = Client<Timed<Tcp>, Sending>;
pub(super) type Tls = Client<Timed<HttpsConnector<Tcp>>, Sending>;

/// A client for `http:`.
pub(super) fn plain(settings: &TransferSettings, addresses: Arc<dyn Addresses>) -> Plain {
    build(Timed { inner: Tcp { addresses }, allowed: settings.connect })
}

/// A client for `https:`; fails if there are no certificates to trust.
pub(super) fn tls(
    settings: &TransferSettings,
    addresses: Arc<dyn Addresses>,
) -> Result<Tls, String> {
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(settings.ca_file.as_deref())?)
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http1()
        .wrap_connector(Tcp { addresses });
    Ok(build(Timed { inner: connector, allowed: settings.connect }))
}

fn build<C>(connector: C) -> Client<C, Sending>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http1_max_buf_size(READ_SIZE)
        .build(connector)
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

/// Connects to what [`Addresses`] gives.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    addresses: Arc<dyn Addresses>,
}

impl Service<Uri> for Tcp {
    type Response = TokioIo<TcpStream>;
    type Error = Failure;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let addresses = Arc::clone(&self.addresses);
        Box::pin(async move {
            let host = to.host().unwrap_or_default();
            let standard = if to.scheme_str() == Some("https") { 443 } else { 80 };
            let port = to.port_u16().unwrap_or(standard);
            let stream = connect(&addresses.resolve(host, port).await?).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}

/// A connection to the first address that answers.
pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, TransferError> {
    /// An address that does not answer leaves time for the next one.
    const EACH: Duration = Duration::from_secs(4);
    let mut failure = ("nowhere".to_owned(), io::Error::from(io::ErrorKind::AddrNotAvailable));
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
            Err(error) => failure = (address.to_string(), error),
        }
    }
    Err(TransferError::Broken { peer: failure.0, reason: failure.1.to_string() })
}

/// A connector with a deadline for the whole of a connection, name and TLS included.
#[derive(Clone)]
pub(super) struct Timed<C> {
    inner: C,
    allowed: Duration,
}

impl<C> Service<Uri> for Timed<C>
where
    C: Service<Uri, Error = Failure>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = Failure;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, allowed) = (self.inner.call(to), self.allowed);
        Box::pin(async move {
            tokio::time::timeout(allowed, connecting).await.unwrap_or_else(|_| {
                let message = format!("no connection within {} s", allowed.as_secs_f64());
                Err(io::Error::new(io::ErrorKind::TimedOut, message).into())
            })
        })
    }
}

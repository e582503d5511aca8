//! Connections to allowed addresses only, within a deadline.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Uri;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client::ClientError;
use crate::transfer::{Addresses, TransferError, TransferFuture};

/// A peer that is gone is noticed after about two minutes, also while nothing is sent.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// An address that does not answer for so long is tried beside the next one (RFC 8305, section 5).
const NEXT_AFTER: Duration = Duration::from_millis(250);

/// A connection, with TLS or without.
pub trait DialedStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> DialedStream for S {}

/// The system's resolver, every address allowed: for hosts that the operator's own settings or the
/// user's own words name, never for what a caller names.
#[derive(Clone, Copy, Debug)]
pub struct SystemAddresses;

impl Addresses for SystemAddresses {
    fn resolve<'t>(&'t self, host: &'t str, port: u16) -> TransferFuture<'t, Vec<SocketAddr>> {
        Box::pin(async move {
            let broken = |reason: String| TransferError::Broken { peer: host.to_owned(), reason };
            let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
            let found: Vec<_> = found.map_err(|error| broken(error.to_string()))?.collect();
            if found.is_empty() {
                return Err(broken("its name has no address".to_owned()));
            }
            Ok(found)
        })
    }
}

/// Connects to the host of an address, with TLS if there is a connector for it; the connection, and where it leads.
///
/// # Errors
/// If the host has no address, or none that may be used, none answers, or TLS does not come about; or not within `allowed`.
pub async fn dial(
    uri: &Uri,
    addresses: &dyn Addresses,
    tls: Option<&TlsConnector>,
    allowed: Duration,
) -> Result<(Box<dyn DialedStream>, IpAddr), ClientError> {
    let dialling = dial_at_leisure(uri, addresses, tls);
    tokio::time::timeout(allowed, dialling).await.unwrap_or(Err(ClientError::Late(allowed)))
}

async fn dial_at_leisure(
    uri: &Uri,
    addresses: &dyn Addresses,
    tls: Option<&TlsConnector>,
) -> Result<(Box<dyn DialedStream>, IpAddr), ClientError> {
    let no_host = || io::Error::new(io::ErrorKind::InvalidInput, "its address names no host");
    let host = uri.host().ok_or_else(no_host).map_err(ClientError::Connect)?;
    let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let addresses = addresses.resolve(host, port).await.map_err(ClientError::Address)?;
    let stream = connect(&addresses).await.map_err(ClientError::Connect)?;
    let peer = stream.peer_addr().map_err(ClientError::Connect)?.ip();
    let Some(tls) = tls else { return Ok((Box::new(stream), peer)) };
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|_| {
        let what = "its host's name can't stand in a certificate";
        ClientError::Connect(io::Error::new(io::ErrorKind::InvalidData, what))
    })?;
    let stream =
        tls.connect(name, stream).await.map_err(|error| ClientError::Connect(told(error)))?;
    Ok((Box::new(stream), peer))
}

/// What is said of a certificate that nobody who is trusted has issued.
pub const UNKNOWN_ISSUER: &str = "its certificate was issued by no authority that is trusted here";

/// What went wrong with TLS, in other words where those of its own would be a riddle.
fn told(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let what = match tls {
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not answer in TLS; if it speaks plain HTTP, write http:// in its address"
        }
        // The signature is bad where one of the same name is trusted: that from before it was made anew, say.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => UNKNOWN_ISSUER,
        // Its type is in a crate that only this would need.
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "its certificate is one of an authority (CA:TRUE), which no server may show; it needs another, made by \
             `openssl req -x509` with `-addext basicConstraints=critical,CA:FALSE`"
        }
        _ => return error,
    };
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A connection to the first address that answers.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut rest = addresses.iter();
    let mut trying = FuturesUnordered::new();
    loop {
        if let Some(address) = rest.next() {
            trying.push(TcpStream::connect(address));
        }
        let first = if rest.len() > 0 {
            tokio::time::timeout(NEXT_AFTER, trying.next()).await
        } else {
            Ok(trying.next().await)
        };
        match first {
            Ok(Some(Ok(stream))) => return prepared(stream),
            Ok(Some(Err(error))) => failure = error,
            Ok(None) => return Err(failure),
            Err(_not_yet) => {}
        }
    }
}

fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_PROBES);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_address_that_refuses_or_does_not_answer_leaves_it_to_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let connected = connect(&[nobody, there]).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), there);
        // Its queue is full: what else wants in waits for an answer.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let busy = socket.listen(0).unwrap();
        let full = busy.local_addr().unwrap();
        let _queued = TcpStream::connect(full).await.unwrap();
        let connected = connect(&[full, there]).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), there);
        assert_eq!(connect(&[nobody]).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect(&[]).await.is_err());
    }
}

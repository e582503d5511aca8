//! HTTP and HTTPS (RFC 9110): ranges of one version, digests (RFC 9530), redirects that are
//! checked hop by hop. No credentials, no cookies: none are ever sent.

mod answer;
mod ask;
mod body;
mod connect;
mod deliver;
mod line;
mod raw;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use url::Url;

use super::{
    Addresses, Delivery, Moving, Opened, TransferError, TransferSettings, Transport, Want,
};

/// The transport of `http:` and `https:`. Cheap to clone: all clones share their connections.
#[derive(Clone, Debug)]
pub struct Http(Arc<ask::Asking>);

impl Http {
    /// A transport that connects to what `addresses` gives it, and to nothing else.
    pub fn new(settings: &TransferSettings, addresses: Arc<dyn Addresses>) -> Self {
        Self(Arc::new(ask::Asking::new(settings, addresses)))
    }
}

impl Transport for Http {
    fn schemes(&self) -> &[&'static str] {
        &["http", "https"]
    }

    fn accepts(&self, to: &Url) -> Result<(), TransferError> {
        self.0.accepts(to)
    }

    fn open<'t>(&'t self, from: &'t Url, want: Want) -> Moving<'t, Opened> {
        Box::pin(answer::open(&self.0, from, want))
    }

    fn deliver<'t>(&'t self, parcel: &'t Delivery, to: &'t Url) -> Moving<'t, Option<Url>> {
        Box::pin(deliver::deliver(&self.0, parcel, to))
    }
}

/// Scheme and authority of an address, without a user's name: what is told of the other end.
pub(crate) fn peer(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

/// What a connection's or a body's failure is to a transfer: what is no HTTP will be none the next
/// time either.
fn broken(peer: &str, error: &(dyn std::error::Error + 'static)) -> TransferError {
    let (peer, reason) = (peer.to_owned(), super::root_cause(error));
    if is_malformed(error) {
        TransferError::Strange { peer, reason }
    } else {
        TransferError::Broken { peer, reason }
    }
}

/// The other end spoke, and not as HTTP does.
fn is_malformed(error: &(dyn std::error::Error + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<hyper::Error>() else { return false };
    if error.is_parse() {
        return true;
    }
    // How hyper tells of chunks that are none; TLS that was garbled on its way is another matter.
    let cause = std::error::Error::source(error).and_then(|e| e.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| match cause.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            let tls = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            tls.is_none()
        }
        _ => false,
    })
}

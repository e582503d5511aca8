//! HTTP and HTTPS (RFC 9110): ranges of one version, digests (RFC 9530), redirects that are
//! checked hop by hop. No credentials, no cookies: none are ever sent.

mod answer;
mod ask;
mod body;
mod deliver;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use url::Url;

use super::{
    Addresses, Delivery, OpenedSource, ReadRequest, TransferError, TransferFuture,
    TransferSettings, Transport,
};

/// The transport of `http:` and `https:`. Cheap to clone: all clones share their connections.
#[derive(Clone, Debug)]
pub struct Http(Arc<ask::Requester>);

impl Http {
    /// A transport that connects to what `addresses` gives it, and to nothing else.
    pub fn new(settings: &TransferSettings, addresses: Arc<dyn Addresses>) -> Self {
        Self(Arc::new(ask::Requester::new(settings, addresses)))
    }
}

impl Transport for Http {
    fn schemes(&self) -> &[&'static str] {
        &["http", "https"]
    }

    fn accepts(&self, to: &Url) -> Result<(), TransferError> {
        self.0.accepts(to)
    }

    fn open<'t>(&'t self, from: &'t Url, want: ReadRequest) -> TransferFuture<'t, OpenedSource> {
        Box::pin(answer::open(&self.0, from, want))
    }

    fn deliver<'t>(&'t self, parcel: &'t Delivery, to: &'t Url) -> TransferFuture<'t, Option<Url>> {
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

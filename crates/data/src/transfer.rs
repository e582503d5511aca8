//! Transports: one trait, one conformance suite, one file a transport. To add another, see
//! `docs/guides/transports.md`.

#[cfg(test)]
pub(crate) mod conformance;
mod fault;
pub mod file;
pub mod ftp;
pub mod http;
pub mod mailto;
pub(crate) mod parallel;
mod registry;
pub mod s3;
#[cfg(test)]
pub(crate) mod servers;
mod settings;
mod source;

use std::fmt::Debug;
use std::fs::File;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{Digest, Payload};
use url::Url;

use crate::Progress;

pub use fault::root_cause;
pub use file::Files;
pub use ftp::Ftp;
pub use http::Http;
pub use mailto::Mailto;
pub use registry::Transports;
pub use s3::S3;
pub use settings::TransferSettings;

/// The schemes of addresses that data can be fetched from.
pub const SOURCES: [&str; 5] = ["http", "https", "ftp", "s3", "file"];
/// The schemes of addresses that data can be delivered to.
pub const DESTINATIONS: [&str; 5] = ["mailto", "s3", "ftp", "http", "https"];

/// A future of a transport.
pub type TransferFuture<'t, T> =
    Pin<Box<dyn Future<Output = Result<T, TransferError>> + Send + 't>>;

/// A way to get bytes from an address, or to bring them there.
pub trait Transport: Send + Sync + Debug {
    /// The URL schemes that it serves, lower-case.
    fn schemes(&self) -> &[&'static str];

    /// Whether data can be fetched from its addresses.
    fn reads(&self) -> bool {
        true
    }

    /// Whether data can be delivered to its addresses.
    fn delivers(&self) -> bool {
        true
    }

    /// Whether a delivery to an address may be tried at all, told before anything is computed:
    /// its form and our own policy. The other end is not asked.
    fn accepts(&self, to: &Url) -> Result<(), TransferError> {
        let _ = to;
        Ok(())
    }

    /// Opens the data at an address for reading.
    fn open<'t>(&'t self, from: &'t Url, want: ReadRequest) -> TransferFuture<'t, OpenedSource>;

    /// The data itself, open, if it is a file of this machine: then it need not be moved.
    fn local<'t>(&'t self, _from: &'t Url) -> TransferFuture<'t, Option<File>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Brings a payload, which is in memory or in a file, to an address. Gives the address at which
    /// it can be had then, where the other end gave it another one.
    fn deliver<'t>(&'t self, parcel: &'t Delivery, to: &'t Url) -> TransferFuture<'t, Option<Url>>;
}

/// What is wanted of the data at an address.
#[derive(Clone, Debug, Default)]
pub struct ReadRequest {
    /// First byte wanted: what a broken transfer has already.
    pub offset: u64,
    /// How many bytes; else all to the end.
    pub len: Option<u64>,
    /// Only if it is still this version; else all of the new one from its first byte.
    pub version: Option<Validator>,
}

/// What tells one version of data at an address from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validator(pub String);

/// Data that was opened for reading.
#[derive(Debug)]
pub struct OpenedSource {
    /// First byte of `body`: what was wanted, or 0 if the other end can't begin elsewhere or its
    /// data has changed.
    pub offset: u64,
    /// Bytes of the whole.
    pub total: Option<u64>,
    /// Its version, if it can be told from others: without, a transfer that breaks is begun again.
    pub version: Option<Validator>,
    /// Digest of the whole, if the other end tells it before.
    pub digest: Option<Digest>,
    /// The bytes.
    pub body: Box<dyn TransferBody>,
}

/// Bytes as they come.
pub trait TransferBody: Send + Debug {
    /// The next bytes, or `None` at the end. Fails if the connection breaks or ends too early.
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>>;

    /// Digest of the whole, if the other end tells it once all was read.
    fn digest(&mut self) -> TransferFuture<'_, Option<Digest>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A body of which all was here already.
#[derive(Debug)]
pub(crate) struct EmptyBody;

impl TransferBody for EmptyBody {
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A payload to be delivered.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The bytes; never a reference.
    pub payload: Payload,
    /// A file name for it, where the other end wants one.
    pub name: String,
    /// Its media type; empty if not told.
    pub media_type: String,
    /// Its digest, if it is known.
    pub digest: Option<Digest>,
    /// A sentence for people, where people read it (a mail's subject).
    pub subject: String,
    /// It is for the other end to act upon (POST), once for each of these keys, not to be stored under the address (PUT); http and https only.
    pub posts: Option<PostKey>,
    /// Told by the transport as the payload's bytes go: a delivery of which nothing goes for a
    /// while (`transfer_stall`) is given up.
    pub progress: Progress,
}

/// What is the same of a message whenever it is posted again: its `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostKey(pub String);

/// Why data could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The connection failed or broke: worth trying again from where it stopped.
    #[error("the connection to {peer} failed: {reason}")]
    Broken {
        /// Scheme and authority.
        peer: String,
        /// What happened.
        reason: String,
    },
    /// Nobody listens at its address, or its name can't be resolved for now: worth trying again,
    /// though not as often if there never was a connection.
    #[error("the connection to {peer} failed: {reason}")]
    Unreachable {
        /// Scheme and authority.
        peer: String,
        /// What happened.
        reason: String,
    },
    /// The other end refuses for now: worth trying again after a while.
    #[error("{peer} answers {answer}; it may do better later")]
    Busy {
        /// Scheme and authority.
        peer: String,
        /// What it said.
        answer: String,
        /// When it wants to be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// The other end has no such data, or not for us (it has expired, or was revoked), or takes
    /// no delivery: trying again does not help.
    #[error("{peer} answers {answer}")]
    Refused {
        /// Scheme and authority.
        peer: String,
        /// What it said.
        answer: String,
    },
    /// The other end does not do what its protocol asks for: trying again does not help.
    #[error("{peer} does not answer as it should: {reason}")]
    Strange {
        /// Scheme and authority.
        peer: String,
        /// What was wrong.
        reason: String,
    },
    /// Its host has no address: trying again does not help.
    #[error("the name {host} can't be resolved: {reason}")]
    Unresolved {
        /// The host's name.
        host: String,
        /// What the resolver says.
        reason: String,
    },
    /// Our own policy forbids the address.
    #[error("{address}: the rule {rule} does not allow that")]
    Forbidden {
        /// The address, and what is wrong with it: `10.0.0.7 is private`.
        address: String,
        /// The rule, by the name of its setting.
        rule: &'static str,
    },
    /// This transport does not do that.
    #[error("{0}")]
    Unsupported(String),
    /// Reading or writing here failed.
    #[error("{what}: {source}")]
    Local {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Which addresses may be asked. A transport resolves names through it and connects to what it
/// gives, and to nothing else: so a name that resolves anew (DNS rebinding) gains nothing.
pub trait Addresses: Send + Sync + Debug {
    /// The allowed addresses of a host and port, at least one.
    fn resolve<'t>(&'t self, host: &'t str, port: u16) -> TransferFuture<'t, Vec<SocketAddr>>;

    /// Whether a host may be asked, as far as that is known without a look-up: a name can tell
    /// nothing before it is resolved.
    fn permits(&self, host: &str) -> Result<(), TransferError> {
        let _ = host;
        Ok(())
    }
}

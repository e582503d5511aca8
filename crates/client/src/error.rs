//! What can go wrong between us and a service.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fishplate_contract::Fault;
use fishplate_contract::FaultCode;
use fishplate_data::settings::SettingsError;
use fishplate_data::transfer::TransferError;
use fishplate_wire::wsdl::WsdlError;

use crate::arguments::WordError;
use crate::array::ArrayError;
use crate::deliver::DeliveryError;

/// Why an exchange gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be used.
    #[error("{:?} cannot be used as a URL: {reason}", without_user(url))]
    BadUrl {
        /// As it was given.
        url: String,
        /// What would be right.
        reason: String,
    },
    /// No connection came about; nothing was sent.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// Whom we wanted to reach.
        url: String,
        /// What the system says.
        reason: String,
    },
    /// The connection broke after something was sent, and trying again did not help.
    #[error("lost the connection to {url}: {reason}")]
    ConnectionLost {
        /// Whom we had reached.
        url: String,
        /// What the system says.
        reason: String,
    },
    /// [`Settings::timeout`](crate::Settings) or [`Options::timeout`](crate::Options) has passed.
    #[error("no answer from {url} within {}", seconds(*after))]
    TimedOut {
        /// Who did not answer.
        url: String,
        /// The time allowed.
        after: Duration,
    },
    /// An HTTP answer that is no SOAP.
    #[error("{url} answered {status}{}", said(line))]
    Http {
        /// Who answered.
        url: String,
        /// HTTP status.
        status: u16,
        /// First line of the body, shortened.
        line: String,
    },
    /// What stands at the URL is no description of a service.
    #[error("{url} is not the description of a service")]
    NotWsdl {
        /// Where it stands.
        url: String,
        /// What its reader met.
        source: WsdlError,
    },
    /// There is a server of ours, but no such service.
    #[error("{}", no_service(url, server))]
    NoService {
        /// Where it was looked for.
        url: String,
        /// The server's address.
        server: String,
        /// Names of its services.
        known: Vec<String>,
    },
    /// The description gives no address that we can call.
    #[error("the description of {service} gives no address for SOAP {version}")]
    NoAddress {
        /// Name of the service.
        service: String,
        /// `1.1` or `1.2`.
        version: &'static str,
    },
    /// The certificates to trust cannot be read.
    #[error("cannot use the certificates of {origin}: {reason}")]
    Certificates {
        /// A file, or the system.
        origin: String,
        /// What is wrong with them.
        reason: String,
    },
    /// A file of what says who calls can't be used.
    #[error("cannot use {}: {reason}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The service has no such operation.
    #[error("{service} has no operation {name}")]
    UnknownOperation {
        /// Name of the service.
        service: String,
        /// As it was asked for.
        name: String,
        /// The one that was perhaps meant.
        closest: Option<String>,
        /// All there are.
        known: Vec<String>,
    },
    /// The operation has no such input or output.
    #[error("operation {operation} has no {direction} {name}")]
    UnknownParameter {
        /// Name of the operation.
        operation: String,
        /// `input` or `output`.
        direction: &'static str,
        /// As it was given.
        name: String,
        /// The one that was perhaps meant.
        closest: Option<String>,
        /// All there are.
        known: Vec<String>,
    },
    /// A required input was not given.
    #[error("operation {operation} needs the input {name}")]
    MissingParameter {
        /// Name of the operation.
        operation: String,
        /// Name of the input.
        name: String,
    },
    /// An input that stands once was given several times.
    #[error("input {name} of operation {operation} was given more than once")]
    RepeatedParameter {
        /// Name of the operation.
        operation: String,
        /// Name of the input.
        name: String,
    },
    /// A file of ours.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// `read`, `write`...
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A stream ended before its end: an input of ours, or an output after the call had been answered.
    #[error("the data broke off")]
    BrokenOff(#[source] Fault),
    /// A word of a call cannot be understood.
    #[error(transparent)]
    Word(#[from] WordError),
    /// An input is no array of its type.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// An output cannot be put where it shall go.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// Data is not what its reference or its origin says, or what was sent did not arrive so.
    #[error("the data at {url} is not what it should be: {reason}")]
    DataMismatch {
        /// Where it is.
        url: String,
        /// What differs.
        reason: String,
    },
    /// The server has no sessions.
    #[error("there is no service that opens sessions at {url}")]
    NoSessions {
        /// Where one was looked for.
        url: String,
    },
    /// A file of ours cannot be served at this address.
    #[error("cannot offer files at {address}: {reason}")]
    CannotOffer {
        /// Where we wanted to listen.
        address: String,
        /// What is in the way.
        reason: String,
    },
    /// What was said of accounts and stores cannot be used.
    #[error(transparent)]
    Transports(#[from] SettingsError),
    /// Data could not be moved.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The service answered with a fault.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The answer is not what the description promises.
    #[error("the answer of {url} is not what its description says: {reason}")]
    BadAnswer {
        /// Who answered.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.get_ref().and_then(|inner| inner.downcast_ref::<Fault>()) {
            // The file is not to blame.
            Some(fault) => Self::BrokenOff(fault.clone()),
            None => Self::File { doing, path, source },
        }
    }

    /// Whether the same exchange may do better: the failure lies in the transport or in a gateway.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::ConnectionLost { .. } => true,
            Self::Http { status, .. } => matches!(status, 502..=504),
            Self::Fault(fault) => fault.code == FaultCode::Unavailable,
            Self::Transfer(
                TransferError::Broken { .. }
                | TransferError::Unreachable { .. }
                | TransferError::Busy { .. },
            ) => true,
            _ => false,
        }
    }

    /// No connection came about, and the next one will hardly do so.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Transfer(TransferError::Unreachable { .. }))
    }

    /// What is said of it while it is waited for another try.
    pub(crate) fn trouble(&self, wait: Duration, attempt: u32, attempts: u32) -> String {
        let what = match self {
            Self::Unreachable { url, reason } | Self::ConnectionLost { url, reason } => {
                format!("{url}: {reason}")
            }
            Self::Transfer(
                TransferError::Broken { peer, reason }
                | TransferError::Unreachable { peer, reason },
            ) => format!("{peer}: {reason}"),
            other => other.to_string(),
        };
        let wait = seconds(wait);
        format!("{what}; trying again in {wait} (attempt {attempt} of {attempts})")
    }
}

fn no_service(url: &str, server: &str) -> String {
    let bare = |url: &str| {
        let url = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        url.rsplit_once("://").map_or(url, |(_, rest)| rest).to_owned()
    };
    match bare(url) == bare(server) {
        true => format!("{url} is a server, not a service"),
        false => format!("there is no service at {url}"),
    }
}

/// A URL as it may be shown: whose user's name and password are left out.
pub fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) if scheme.is_empty() => rest[at + 1..].to_owned(),
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

fn said(line: &str) -> String {
    if line.is_empty() { " without SOAP".to_owned() } else { format!(": {line}") }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

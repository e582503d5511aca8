//! What the caller is told of a transfer that failed: the one place where it is decided.

use std::io;

use fishplate_contract::{Fault, FaultCode};

use super::TransferError;
use crate::http::ClientError;

impl TransferError {
    /// The code of its fault.
    pub fn code(&self) -> FaultCode {
        match self {
            Self::Refused { .. } => FaultCode::NoSuchData,
            Self::Forbidden { .. } => FaultCode::AddressForbidden,
            Self::Unsupported(_) => FaultCode::NotSupported,
            Self::Busy { .. }
            | Self::Broken { .. }
            | Self::Unreachable { .. }
            | Self::Strange { .. }
            | Self::Unresolved { .. } => FaultCode::TransferFailed,
            Self::Local { .. } => FaultCode::Internal,
        }
    }

    /// What it is to a transfer that a request got no answer.
    pub(super) fn unanswered(peer: String, failure: ClientError) -> Self {
        let failed = |error: io::Error| {
            let reason = root_cause(&error);
            match error.kind() {
                io::ErrorKind::ConnectionRefused => {
                    Self::Unreachable { peer: peer.clone(), reason }
                }
                // Its certificate will not be another one the next time.
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                    Self::Strange { peer: peer.clone(), reason }
                }
                _ => Self::Broken { peer: peer.clone(), reason },
            }
        };
        match failure {
            ClientError::Address(error) => error,
            ClientError::Connect(error) => failed(error),
            ClientError::Late(allowed) => {
                let allowed = allowed.as_secs_f64();
                let reason = format!("no connection within {allowed} s (transfer_connect)");
                Self::Broken { peer, reason }
            }
            ClientError::Tls(error) => {
                Self::Strange { peer, reason: format!("TLS can't be spoken: {error}") }
            }
            ClientError::Broken { error, .. } => Self::broken(&peer, &error),
        }
    }

    /// What a connection's or a body's failure is to a transfer: what is no HTTP will be none the next
    /// time either.
    pub(super) fn broken(peer: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        let (peer, reason) = (peer.to_owned(), root_cause(error));
        if is_malformed(error) {
            Self::Strange { peer, reason }
        } else {
            Self::Broken { peer, reason }
        }
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

/// The innermost cause of an error: what the system said, without what libraries wrapped around it.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error).to_string()
}

impl From<&TransferError> for Fault {
    fn from(error: &TransferError) -> Self {
        let fault = Self::new(error.code(), error.to_string());
        match error {
            TransferError::Forbidden { address, rule } => fault.limit(*rule, address),
            TransferError::Busy { retry_after: Some(wait), .. } => fault.retry_after(*wait),
            _ => fault,
        }
    }
}

impl From<TransferError> for Fault {
    fn from(error: TransferError) -> Self {
        Self::from(&error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_error_has_its_fault() {
        let text = || "x".to_owned();
        let retry_after = Some(Duration::from_secs(3));
        for (error, code) in [
            (TransferError::Broken { peer: text(), reason: text() }, FaultCode::TransferFailed),
            (
                TransferError::Unreachable { peer: text(), reason: text() },
                FaultCode::TransferFailed,
            ),
            (TransferError::Strange { peer: text(), reason: text() }, FaultCode::TransferFailed),
            (TransferError::Unresolved { host: text(), reason: text() }, FaultCode::TransferFailed),
            (
                TransferError::Busy { peer: text(), answer: text(), retry_after },
                FaultCode::TransferFailed,
            ),
            (TransferError::Refused { peer: text(), answer: text() }, FaultCode::NoSuchData),
            (TransferError::Unsupported(text()), FaultCode::NotSupported),
        ] {
            let waits = matches!(error, TransferError::Busy { .. });
            let fault = Fault::from(error);
            assert_eq!(fault.code, code);
            assert_eq!(fault.retry_after.is_some(), waits);
        }
        let address = "10.0.0.7 is private".to_owned();
        let fault = Fault::from(TransferError::Forbidden { address, rule: "allow_private" });
        assert_eq!(fault.code, FaultCode::AddressForbidden);
        let limit = fault.limit.unwrap();
        assert_eq!((&*limit.name, &*limit.value), ("allow_private", "10.0.0.7 is private"));
    }
}

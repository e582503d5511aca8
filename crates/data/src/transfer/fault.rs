//! What the caller is told of a transfer that failed: the one place where it is decided.

use fishplate_contract::{Fault, FaultCode};

use super::TransferError;

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
}

/// The innermost cause of an error: what the system said, without what libraries wrapped around it.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error).to_string()
}

impl From<TransferError> for Fault {
    fn from(error: TransferError) -> Self {
        let fault = Self::new(error.code(), error.to_string());
        match error {
            TransferError::Forbidden { address, rule } => fault.limit(rule, address),
            TransferError::Busy { retry_after: Some(wait), .. } => fault.retry_after(wait),
            _ => fault,
        }
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

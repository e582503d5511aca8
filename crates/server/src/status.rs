//! Which HTTP status goes with a fault: a row for each code, a column for each protocol.

use fishplate_contract::{Fault, FaultCode};
use fishplate_wire::SoapVersion;
use hyper::header::HeaderValue;

/// A protocol in which a fault is answered: a column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SOAP 1.1 knows 500 only (section 6.2), but a media type that cannot be read is 415 (WS-I Basic
    /// Profile 1.1, R1115), and who calls is HTTP's affair in both versions, as is a server that takes no
    /// calls: proxies go by that.
    Soap11,
    /// SOAP 1.2 says 400 where the sender is to blame, but for the faults that it names itself (part 2,
    /// table 20).
    Soap12,
    /// Plain HTTP (RFC 9110): data, pages, problem details (RFC 9457).
    Http,
    /// OGC API - Processes. Results that are not there yet are 404 (18-062r2, requirement 45). What a process did not do with
    /// its inputs is no error of the server's (5xx): 422, or 410 if its job was ended on request.
    Ogc,
}

impl From<SoapVersion> for Protocol {
    fn from(version: SoapVersion) -> Self {
        match version {
            SoapVersion::V11 => Self::Soap11,
            SoapVersion::V12 => Self::Soap12,
        }
    }
}

/// The status of an answer that tells of a fault.
pub fn status(protocol: impl Into<Protocol>, code: FaultCode) -> u16 {
    let [soap_11, soap_12, http, ogc] = row(code);
    match protocol.into() {
        Protocol::Soap11 => soap_11,
        Protocol::Soap12 => soap_12,
        Protocol::Http => http,
        Protocol::Ogc => ogc,
    }
}

/// The table; `docs/reference/faults.md` is generated from it.
fn row(code: FaultCode) -> [u16; 4] {
    match code {
        // SOAP 1.1, SOAP 1.2, HTTP, OGC
        FaultCode::Unauthenticated => [401, 401, 401, 401],
        FaultCode::Forbidden => [403, 403, 403, 403],
        FaultCode::MalformedMessage => [500, 400, 400, 400],
        FaultCode::ForbiddenContent => [500, 400, 400, 400],
        FaultCode::VersionMismatch => [500, 500, 400, 400],
        FaultCode::UnsupportedMediaType => [415, 415, 415, 415],
        FaultCode::MessageTooLarge => [500, 400, 413, 413],
        FaultCode::TimedOut => [500, 400, 408, 408],
        FaultCode::MustUnderstand => [500, 500, 400, 400],
        FaultCode::DataEncodingUnknown => [500, 500, 400, 400],
        FaultCode::InvalidAddressing => [500, 400, 400, 400],
        FaultCode::UnknownOperation => [500, 400, 404, 404],
        FaultCode::ActionMismatch => [500, 400, 400, 400],
        FaultCode::UnknownService => [500, 400, 404, 404],
        FaultCode::MissingParameter => [500, 400, 400, 400],
        FaultCode::UnexpectedParameter => [500, 400, 400, 400],
        FaultCode::InvalidValue => [500, 400, 400, 400],
        FaultCode::ValueOutOfRange => [500, 400, 400, 400],
        FaultCode::NoSuchJob => [500, 400, 404, 404],
        FaultCode::NotFinished => [500, 400, 409, 404],
        FaultCode::KeyConflict => [500, 400, 409, 409],
        FaultCode::NoSuchData => [500, 400, 404, 404],
        FaultCode::AddressForbidden => [500, 400, 403, 403],
        FaultCode::DataMismatch => [500, 400, 422, 422],
        FaultCode::NoSuchSession => [500, 400, 404, 404],
        FaultCode::TransferFailed => [500, 500, 502, 422],
        FaultCode::QueueFull => [500, 500, 503, 503],
        FaultCode::Unavailable => [503, 503, 503, 503],
        FaultCode::QuotaExceeded => [500, 500, 413, 413],
        FaultCode::StorageFull => [500, 500, 507, 507],
        FaultCode::ProgramMissing => [500, 500, 500, 500],
        FaultCode::ProgramFailed => [500, 500, 500, 422],
        FaultCode::ProgramKilled => [500, 500, 500, 422],
        FaultCode::OutputInvalid => [500, 500, 500, 422],
        FaultCode::LimitExceeded => [500, 500, 500, 422],
        FaultCode::JobKilled => [500, 500, 500, 410],
        FaultCode::OutcomeUnknown => [500, 500, 500, 500],
        FaultCode::NotSupported => [500, 400, 405, 400],
        FaultCode::Internal => [500, 500, 500, 500],
    }
}

/// When it is worth trying again, in whole seconds (`Retry-After`).
pub fn retry_after(fault: &Fault) -> Option<HeaderValue> {
    fault.retry_after.map(|wait| HeaderValue::from(wait.as_secs().max(1)))
}

#[cfg(test)]
mod tests {
    use fishplate_contract::Blame;

    use super::*;

    #[test]
    fn each_fault_has_a_status_that_blames_the_right_one() {
        for &code in FaultCode::ALL {
            let of_http = match code {
                FaultCode::Unauthenticated => Some(401),
                FaultCode::Forbidden => Some(403),
                FaultCode::UnsupportedMediaType => Some(415),
                FaultCode::Unavailable => Some(503),
                _ => None,
            };
            assert_eq!(status(Protocol::Soap11, code), of_http.unwrap_or(500), "{code:?}");
            let of_soap = matches!(
                code,
                FaultCode::MustUnderstand
                    | FaultCode::VersionMismatch
                    | FaultCode::DataEncodingUnknown
            );
            let sender = code.blame() == Blame::Sender;
            let newer = status(SoapVersion::V12, code);
            assert_eq!((400..500).contains(&newer), sender && !of_soap, "{code:?}: {newer}");
            assert!(matches!(newer, 400 | 500) || of_http == Some(newer), "{code:?}: {newer}");
            // A quota is the server's, though less data would do.
            let sender = sender || code == FaultCode::QuotaExceeded;
            let plain = status(Protocol::Http, code);
            assert_eq!((400..500).contains(&plain), sender, "{code:?}: {plain}");
            let ogc = status(Protocol::Ogc, code);
            let of_job = matches!(
                code,
                FaultCode::TransferFailed
                    | FaultCode::ProgramFailed
                    | FaultCode::ProgramKilled
                    | FaultCode::OutputInvalid
                    | FaultCode::LimitExceeded
                    | FaultCode::JobKilled
            );
            assert_eq!((400..500).contains(&ogc), sender || of_job, "{code:?}: {ogc}");
        }
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds_and_never_as_none() {
        let fault = Fault::new(FaultCode::QueueFull, "full");
        assert_eq!(retry_after(&fault), None);
        for (millis, told) in [(10, "1"), (2900, "2")] {
            let fault = fault.clone().retry_after(std::time::Duration::from_millis(millis));
            assert_eq!(retry_after(&fault).unwrap(), told);
        }
    }
}

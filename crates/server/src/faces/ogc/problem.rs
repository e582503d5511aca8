//! Faults as problem details (RFC 9457), of the types that the standard names where it names one.

use fishplate_contract::{Fault, FaultCode};
use serde_json::Map;

use crate::faces::data::problem;
use crate::http::HttpResponse;
use crate::status::Protocol;

/// The type of a problem, if the standard has one for it.
fn kind(code: FaultCode) -> Option<String> {
    let name = match code {
        FaultCode::UnknownService | FaultCode::UnknownOperation => "no-such-process",
        FaultCode::NoSuchJob => "no-such-job",
        FaultCode::NotFinished => "result-not-ready",
        _ => return None,
    };
    Some(format!("http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/{name}"))
}

/// The answer that tells of a fault.
pub(crate) fn reply(fault: &Fault) -> HttpResponse {
    problem::in_json(Protocol::Ogc, fault, kind(fault.code).as_deref(), Map::new())
}

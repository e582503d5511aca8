//! Faults as problem details (RFC 9457), of the types that the standard names where it names one.

use fishplate_contract::{Fault, FaultCode};
use hyper::header::{self, HeaderMap, HeaderValue};
use serde_json::Map;

use super::links::JSON;
use crate::faces::data::problem;
use crate::http::HttpResponse;
use crate::http::accept::Accepted;
use crate::status::Protocol;

const PROBLEM: &str = "application/problem+json";

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

/// The same with a status of its own.
pub(super) fn reply_as(status: u16, fault: &Fault) -> HttpResponse {
    problem::with_status(status, fault, kind(fault.code).as_deref(), Map::new())
}

/// Who accepts JSON, but neither problems nor everything, gets a problem as JSON (RFC 9110, section 12.5.1).
pub(super) fn negotiate(reply: &mut HttpResponse, asked: &HeaderMap) {
    let is_problem = reply.headers().get(header::CONTENT_TYPE).is_some_and(|told| told == PROBLEM);
    let accepted = Accepted::of(asked);
    if is_problem && accepted.weight(JSON) > 0 && accepted.weight(PROBLEM) == 0 {
        reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    }
}

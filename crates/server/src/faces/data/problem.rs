//! Faults as answers of plain HTTP: a sentence, or a problem detail (RFC 9457) for programs.

use fishplate_contract::{Fault, LimitHit};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use serde_json::{Map, Value, json};

use crate::http::accept::Accepted;
use crate::http::{HttpBody, HttpResponse, reply_with};
use crate::status::{Protocol, retry_after, status};

const PROBLEM: &str = "application/problem+json";

/// The answer that tells of a fault.
pub(crate) fn reply(fault: &Fault, asked: &HeaderMap) -> HttpResponse {
    typed(fault, None, Map::new(), asked)
}

/// The same with a registered problem type and its members.
pub(super) fn typed(
    fault: &Fault,
    kind: Option<&str>,
    members: Map<String, Value>,
    asked: &HeaderMap,
) -> HttpResponse {
    if wants_json(asked) || kind.is_some() {
        return in_json(Protocol::Http, fault, kind, members);
    }
    let limit = fault.limit.as_ref();
    let limit = limit.map(|limit| format!(" (limit {}: {})", limit.name, limit.value));
    let text = format!("{fault}{}\n", limit.unwrap_or_default());
    told(status(Protocol::Http, fault.code), fault, "text/plain; charset=utf-8", text)
}

/// A problem detail with the fault's own detail (docs/reference/faults.md) and further members.
pub(crate) fn in_json(
    protocol: Protocol,
    fault: &Fault,
    kind: Option<&str>,
    members: Map<String, Value>,
) -> HttpResponse {
    with_status(status(protocol, fault.code), fault, kind, members)
}

/// The same where another status is right than the table has for the fault's code.
pub(crate) fn with_status(
    status: u16,
    fault: &Fault,
    kind: Option<&str>,
    mut members: Map<String, Value>,
) -> HttpResponse {
    let limit = |limit: &LimitHit| json!({ "name": limit.name, "value": limit.value });
    let detail = [
        ("type", Some(json!(kind.unwrap_or("about:blank")))),
        ("title", Some(json!(fault.code.name()))),
        ("status", Some(json!(status))),
        ("detail", Some(json!(fault.message))),
        ("code", Some(json!(fault.code.name()))),
        ("parameter", fault.parameter.as_ref().map(|name| json!(name))),
        ("limit", fault.limit.as_ref().map(limit)),
        ("job", fault.job.map(|job| json!(job.to_string()))),
        ("exitCode", fault.exit_code.map(|code| json!(code))),
        ("signal", fault.signal.as_ref().map(|signal| json!(signal))),
        ("stderr", fault.stderr.as_ref().map(|text| json!(text))),
    ];
    let detail = detail.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    members.extend(detail);
    told(status, fault, PROBLEM, format!("{}\n", Value::Object(members)))
}

fn told(status: u16, fault: &Fault, content_type: &str, body: String) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-store")];
    let mut reply = reply_with(status, &fields, HttpBody::bytes(body));
    if let Some(seconds) = retry_after(fault) {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    reply
}

/// Whether a program asks.
pub(super) fn wants_json(asked: &HeaderMap) -> bool {
    let accepted = Accepted::of(asked);
    ["application/json", PROBLEM].iter().any(|json| accepted.names(json, "text/plain"))
}

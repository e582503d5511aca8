//! Faults as answers of plain HTTP: a sentence, or a problem detail (RFC 9457) for programs.

use fishplate_contract::Fault;
use hyper::header::{self, HeaderMap};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::conditions::lines;
use super::send::put;
use crate::http::{HttpBody, HttpResponse};
use crate::status::{Protocol, retry_after, status};

/// The answer that tells of a fault.
pub(crate) fn reply(fault: &Fault, asked: &HeaderMap) -> HttpResponse {
    typed(fault, None, Map::new(), asked)
}

/// The same with a registered problem type and its members.
pub(super) fn typed(
    fault: &Fault,
    kind: Option<&str>,
    mut members: Map<String, Value>,
    asked: &HeaderMap,
) -> HttpResponse {
    let status = status(Protocol::Http, fault.code);
    let (content_type, body) = if wants_json(asked) || kind.is_some() {
        let kind = kind.map_or_else(|| "about:blank".to_owned(), ToOwned::to_owned);
        members.insert("type".to_owned(), json!(kind));
        members.insert("title".to_owned(), json!(fault.code.name()));
        members.insert("status".to_owned(), json!(status));
        members.insert("detail".to_owned(), json!(fault.message));
        members.insert("code".to_owned(), json!(fault.code.name()));
        if let Some(limit) = &fault.limit {
            let limit = json!({ "name": limit.name, "value": limit.value });
            members.insert("limit".to_owned(), limit);
        }
        ("application/problem+json", format!("{}\n", Value::Object(members)))
    } else {
        let limit = fault.limit.as_ref();
        let limit = limit.map(|limit| format!(" (limit {}: {})", limit.name, limit.value));
        ("text/plain; charset=utf-8", format!("{fault}{}\n", limit.unwrap_or_default()))
    };
    let mut reply = Response::new(HttpBody::bytes(body));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    put(&mut reply, header::CONTENT_TYPE, content_type);
    put(&mut reply, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(&mut reply, header::CACHE_CONTROL, "no-store");
    if let Some(seconds) = retry_after(fault) {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    reply
}

/// Whether a program asks.
pub(super) fn wants_json(asked: &HeaderMap) -> bool {
    lines(asked, &header::ACCEPT).is_some_and(|accept| accept.contains("json"))
}

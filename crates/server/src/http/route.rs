//! From a request of HTTP to a face.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fishplate_contract::interface::{DOMAINS, MCP, METRICS, QUOTA, SITES};
use fishplate_contract::{Fault, FaultCode, Principal};
use fishplate_ranks::transport::route::PROTOCOL;
use fishplate_wire::wsdl::View;
use fishplate_wire::{MessageHead, ReplyForm, pack_reply, write_fault};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use super::accept::{Accepted, takes_coding};
use super::body::Incoming;
use super::origin::Refusal;
use super::reply::{HttpBody, HttpResponse, reply_with};
use super::sender::Sender;
use crate::dispatch::authorise::{Access, Action};
use crate::faces::html::domain::{self as domain_html, DomainResource};
use crate::faces::html::form::Filled;
use crate::faces::html::page::{self, StaticFile};
use crate::faces::mcp;
use crate::faces::ogc::{self, OgcResource};
use crate::faces::passage::asks_for;
use crate::faces::quota;
use crate::faces::{data, gateway, html, sites, soap};
use crate::host::{Host, ServiceEntry};
use crate::status::{Protocol, retry_after, status};

/// Answers one request, whatever it is.
pub async fn respond<B>(
    host: &Arc<Host>,
    request: Request<B>,
    sender: impl Into<Sender>,
) -> HttpResponse
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Display,
{
    let (parts, body) = request.into_parts();
    let (name, mut sender) = (below(host, parts.uri.path()), sender.into());
    let Some(principal) = sender.principal().cloned() else {
        return match (host.service(name), content_coding(&parts.headers)) {
            // A message that can't be read does not tell.
            (Some(_), Some(fault)) => {
                let fault = sender.unreadable(host, name, None, fault).await;
                denied(host, &parts, &body, &fault)
            }
            (Some(entry), None) => {
                let body = Incoming::new(body, &host.settings);
                post(host, entry, &parts, body, sender).await
            }
            (None, _) => {
                let message = "only a message to a service tells who sent it in its own header";
                denied(host, &parts, &body, &Fault::new(FaultCode::Unauthenticated, message))
            }
        };
    };
    // Most requests are calls; no service is called as something else is (`RESERVED_NAMES`).
    if let Some(entry) = host.service(name) {
        let (principal, service) = (&principal, name);
        let access = Access { principal, service, operation: "", action: Action::Describe };
        if let Err(fault) = host.authorise(&access) {
            return denied(host, &parts, &body, &fault);
        }
        return match parts.method {
            Method::POST => {
                let body = Incoming::new(body, &host.settings);
                post(host, entry, &parts, body, sender).await
            }
            Method::GET | Method::HEAD => Box::pin(describe(host, entry, &parts, principal)).await,
            _ => not_allowed("GET to read and POST to call", "GET, HEAD, POST"),
        };
    }
    // On the heap: a call must not carry the room of what is asked for otherwise.
    Box::pin(elsewhere(host, parts, body, &principal)).await
}

/// Answers a request for what is no service.
async fn elsewhere<B>(
    host: &Arc<Host>,
    parts: Parts,
    body: B,
    principal: &Principal,
) -> HttpResponse
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Display,
{
    let name = below(host, parts.uri.path());
    let read = matches!(parts.method, Method::GET | Method::HEAD);
    if let Some(file) = StaticFile::of(name) {
        return if read { file.reply(&parts) } else { not_allowed("GET to read", "GET, HEAD") };
    }
    let ogc = OgcResource::of(name);
    // Lists have what the caller may know of, tools too, and one's quota and jobs are one's own.
    let is_own = matches!(name, "" | QUOTA | MCP) || ogc.is_some_and(|it| it.service().is_none());
    if !is_own && let Err(fault) = host.authorise(&access(name, &parts, principal)) {
        return denied(host, &parts, &body, &fault);
    }
    if let Some(resource) = ogc {
        let body = Incoming::new(body, &host.settings);
        return Box::pin(ogc::answer(host, resource, &parts, body, principal)).await;
    }
    if name == MCP {
        let body = Incoming::new(body, &host.settings);
        return Box::pin(mcp::answer(host, parts, body, principal)).await;
    }
    if let Some(place) = data::DataResource::of(name) {
        let mut body = Incoming::new(body, &host.settings);
        return Box::pin(data::answer(host, place, &parts, &mut body, principal)).await;
    }
    if let Some(rank) = gateway::RankAddress::of(name) {
        return match Box::pin(gateway::admit(host, rank, &parts.headers)).await {
            Ok(passage) => {
                let body = Incoming::new(body, &host.settings);
                Box::pin(passage.pass(parts, body)).await
            }
            Err(fault) => {
                let mut reply = denied(host, &parts, &body, &fault);
                // One that is not there yet is worth another try.
                if fault.code == FaultCode::Unavailable && fault.retry_after.is_none() {
                    *reply.status_mut() = StatusCode::BAD_GATEWAY;
                }
                reply
            }
        };
    }
    if let Some(at) = sites::SiteAddress::of(name) {
        return match Box::pin(sites::admit(host, at, &parts)).await {
            Ok(admission) => {
                let body = Incoming::new(body, &host.settings);
                Box::pin(admission.answer(host, parts, body)).await
            }
            Err(fault) => denied(host, &parts, &body, &fault),
        };
    }
    if let Some(asked) = DomainResource::of(name) {
        return Box::pin(domain_page(host, asked, &parts.method, principal)).await;
    }
    match name {
        "" if read => index(host, &parts.headers, principal),
        METRICS if read => text(
            200,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            host.metrics().await,
        ),
        QUOTA if read => own_quota(host, principal).await,
        "" | METRICS | QUOTA => not_allowed("GET to read and POST to call", "GET, HEAD, POST"),
        name if parts.method == Method::POST => unknown_service(host, name, &parts, principal),
        name if read => {
            let status = status(Protocol::Http, FaultCode::UnknownService);
            page::reply(status, html::not_found(host, principal, name))
        }
        _ => {
            let what = format!("there is nothing here; data goes to {}/data/\n", host.data.origin);
            text(404, PLAIN, what)
        }
    }
}

/// The path that tells whether the process works.
const HEALTH: &str = "healthz";

/// The path that tells whether it takes calls.
const READINESS: &str = "readyz";

/// The answer to who asks how the server is, whoever that is and whatever name he has for it.
pub(super) fn probe(name: &str, admitted: &Result<(), Fault>) -> Option<HttpResponse> {
    match (name, admitted) {
        (HEALTH, _) => Some(text(200, PLAIN, "the server works\n".to_owned())),
        (READINESS, Ok(())) => Some(text(200, PLAIN, "calls are taken\n".to_owned())),
        (READINESS, Err(fault)) => {
            let mut reply = text(status(Protocol::Http, fault.code), PLAIN, format!("{fault}\n"));
            set_retry_after(&mut reply, fault);
            Some(reply)
        }
        _ => None,
    }
}

/// A path below the public URL, without slashes at its ends.
pub(super) fn below<'p>(host: &Host, path: &'p str) -> &'p str {
    let below = path.strip_prefix(host.public_path());
    let path = below.filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or(path);
    path.trim_matches('/')
}

/// What a request to this address is, before it is read. Who may not know of a service is told the same whether it is
/// there or not; which verb is asked for, dispatch knows.
fn access<'a>(name: &'a str, asked: &Parts, principal: &'a Principal) -> Access<'a> {
    let site = sites::SiteAddress::of(name);
    if let Some(at) = site.filter(|at| at.is_registration(&asked.method, &asked.headers)) {
        let (service, operation) = (SITES, at.site);
        return Access { principal, service, operation, action: Action::Register };
    }
    if let Some(service) = OgcResource::of(name).and_then(|resource| resource.service()) {
        return Access { principal, service, operation: "", action: Action::Describe };
    }
    let (service, action) = match data::DataResource::of(name) {
        Some(place) => place.access(&asked.method),
        None if site.is_some() => (SITES, Action::Pass),
        None if gateway::RankAddress::of(name).is_some() => (DOMAINS, Action::Pass),
        None if DomainResource::of(name).is_some() => return DomainResource::access(principal),
        None if name == METRICS => (METRICS, Action::Read),
        None => (name, Action::Describe),
    };
    Access { principal, service, operation: "", action }
}

/// Whether a request for what is no service needs nobody's name: its address is the permission, or it is for what every
/// server has.
pub(super) fn is_open<B>(name: &str, request: &Request<B>) -> bool {
    let site = sites::SiteAddress::of(name);
    let is_registration =
        |at: sites::SiteAddress<'_>| at.is_registration(request.method(), request.headers());
    data::DataResource::of(name).is_some_and(|place| place.is_open(request.method()))
        || StaticFile::of(name).is_some()
        || is_passage(name) && !site.is_some_and(is_registration)
}

/// Whether a request for what is no service is one of a rank, a site or its server, or is to be passed on to one.
pub(super) fn is_passage(name: &str) -> bool {
    gateway::RankAddress::of(name).is_some() || sites::SiteAddress::of(name).is_some()
}

/// Whether a request is for a connection to somebody else.
pub(super) fn is_switch<B>(request: &Request<B>) -> bool {
    let asks_for = |protocol| asks_for(request.method(), request.headers(), protocol);
    asks_for(PROTOCOL) || asks_for(sites::SITE_PROTOCOL)
}

/// The service that a request for something else is about, or the first segment of its path.
pub(super) fn service_of(name: &str) -> &str {
    let of_process = OgcResource::of(name).and_then(|resource| resource.service());
    of_process.or_else(|| name.split('/').next()).unwrap_or_default()
}

/// The answer to a request of which it is not known who sent it, or who may not send it, or that is not taken any more:
/// in the form of what was asked for, unread.
pub(super) fn denied<B: Body>(host: &Host, asked: &Parts, body: &B, fault: &Fault) -> HttpResponse {
    let name = below(host, asked.uri.path());
    let mut reply = if data::DataResource::of(name).is_some() {
        data::problem::reply(fault, &asked.headers)
    } else if DomainResource::of(name).is_some() || wants_page(host, name, asked) {
        refused_page(host, None, page_protocol(name), fault)
    } else if OgcResource::of(name).is_some() {
        ogc::refused(fault)
    } else if name == MCP {
        mcp::refused(fault)
    } else if asked.method == Method::POST {
        refused(asked, None, fault)
    } else {
        let mut reply = text(status(Protocol::Http, fault.code), PLAIN, format!("{fault}\n"));
        set_retry_after(&mut reply, fault);
        reply
    };
    if fault.code == FaultCode::Unauthenticated {
        challenge(host, asked, &mut reply);
    }
    if !body.is_end_stream() {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    host.metrics.refused(reply.status().as_u16());
    reply
}

/// Whether a browser asks, and not for data.
fn wants_page(host: &Host, name: &str, asked: &Parts) -> bool {
    let is_of_pages = OgcResource::of(name).is_some()
        || asked.method != Method::POST && (name.is_empty() || host.service(name).is_some());
    is_of_pages && ogc::prefers_page(&asked.headers)
}

/// Tells how to say who calls (RFC 9110, section 15.5.2).
fn challenge(host: &Host, asked: &Parts, reply: &mut HttpResponse) {
    if gateway::RankAddress::of(below(host, asked.uri.path())).is_some() {
        let bearer = HeaderValue::from_static("Bearer realm=\"communication domain\"");
        reply.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        return;
    }
    for challenge in host.authenticators.challenges() {
        reply.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
    }
}

/// The answer to a request that was meant for somebody else, unread.
pub(crate) fn not_for_us(host: &Host, refusal: &Refusal) -> HttpResponse {
    host.metrics.refused(refusal.status.as_u16());
    tracing::debug!(status = refusal.status.as_u16(), what = refusal.what, "refused");
    let mut reply = text(refusal.status.as_u16(), PLAIN, format!("{}\n", refusal.what));
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// What a message in SOAP 1.1 is to do (section 6.1.1).
const SOAP_ACTION: HeaderName = HeaderName::from_static("soapaction");

async fn describe(
    host: &Host,
    entry: &ServiceEntry,
    asked: &Parts,
    caller: &Principal,
) -> HttpResponse {
    let query = asked.uri.query().unwrap_or("");
    if let Some(examples) = html::example::asked_for(host, entry, query) {
        return page::reply(200, examples);
    }
    match View::from_query(query) {
        Ok(Some(view)) => wsdl(&asked.headers, entry.wsdl(view)),
        Ok(None) => {
            let name = entry.service().name.as_str();
            let earlier = ogc::given_to(host, caller, name, query).await;
            let filled = earlier.as_ref().map_or_else(Filled::default, |(operation, given)| {
                Filled { operation, given: Some(given), fault: None }
            });
            page::reply(200, html::service(host, caller, entry, filled))
        }
        Err(error) => text(404, PLAIN, format!("{error}\n")),
    }
}

/// A description, compressed for who takes that: tens of kilobytes of the same words, which across a long link are several
/// round trips on a new connection. It has no secrets, of which a compressed length could tell.
fn wsdl(asked: &HeaderMap, plain: String) -> HttpResponse {
    let compressed = || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain.as_bytes()).and_then(|()| encoder.finish()).ok()
    };
    let compressed = takes_coding(asked, "gzip").then(compressed).flatten();
    let coding = compressed.is_some().then_some((header::CONTENT_ENCODING, "gzip"));
    let fields =
        [(header::CONTENT_TYPE, "text/xml; charset=utf-8"), (header::VARY, "Accept-Encoding")];
    let fields: Vec<_> = fields.into_iter().chain(coding).collect();
    let body = compressed.map_or_else(|| HttpBody::bytes(plain), HttpBody::bytes);
    reply_with(StatusCode::OK, &fields, body)
}

/// What is wrong with a message's content coding.
pub(crate) fn content_coding(headers: &HeaderMap) -> Option<Fault> {
    let coding = headers.get(header::CONTENT_ENCODING)?;
    let message = || format!("content coding {coding:?} is not taken; send the message plain");
    let is_plain = coding.as_bytes().eq_ignore_ascii_case(b"identity");
    (!is_plain).then(|| Fault::new(FaultCode::UnsupportedMediaType, message()))
}

async fn post<B>(
    host: &Arc<Host>,
    entry: &Arc<ServiceEntry>,
    asked: &Parts,
    mut body: Incoming<B>,
    sender: Sender,
) -> HttpResponse
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Display,
{
    let headers = &asked.headers;
    if let Some(fault) = content_coding(headers) {
        let _ = body.drain().await;
        return refused(asked, Some(&entry.service().namespace), &fault);
    }
    let begun = Instant::now();
    let accept = joined(headers, &header::ACCEPT);
    let head = head(asked, accept.as_deref());
    // On the heap, where it stays: what surrounds it is moved about.
    let handling = Box::pin(soap::handle(host, entry, &head, body, sender));
    let (answer, rest) = handling.await;
    let elapsed = begun.elapsed();
    let fault = answer.fault.as_ref().map(|fault| fault.code);
    // By its header, who sent it is not let in: as in `denied`.
    let refused = answer.verb.is_none()
        && matches!(fault, Some(FaultCode::Unauthenticated | FaultCode::Forbidden));
    if refused {
        host.metrics.refused(answer.status);
    } else {
        host.metrics.called(entry, answer.verb, fault, elapsed);
    }
    // What was understood, dispatch has told of.
    if let (None, Some(fault), false) = (answer.verb, &answer.fault, refused) {
        let (service, fault, why) = (&entry.service().name, fault.code.name(), &fault.message);
        tracing::info!(service, fault, why, "not understood");
    }
    let mut reply = packed(answer.status, answer.packed, answer.fault.as_ref());
    if fault == Some(FaultCode::Unauthenticated) {
        challenge(host, asked, &mut reply);
    }
    // What is made of a file that still arrives can't wait for its end.
    let complete = if reply.body().is_stream() && rest.is_fed() {
        false
    } else if let Some(mut body) = rest.body().await {
        body.drain().await
    } else {
        false
    };
    reply.body_mut().keep(answer.memory);
    if let Some(job) = answer.ephemeral {
        reply.body_mut().delivers(job);
    }
    if !complete {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

fn unknown_service(host: &Host, name: &str, asked: &Parts, caller: &Principal) -> HttpResponse {
    let known = host.services_for(caller);
    let names: Vec<&str> = known.map(|entry| entry.service().name.as_str()).collect();
    let shown = fishplate_contract::lexical::shortened(name);
    let message = format!("there is no service {shown:?} here; there is {}", names.join(", "));
    refused(asked, None, &Fault::new(FaultCode::UnknownService, message))
}

/// A message that is answered unread.
fn refused(asked: &Parts, namespace: Option<&str>, fault: &Fault) -> HttpResponse {
    let accept = joined(&asked.headers, &header::ACCEPT);
    let form = ReplyForm::of_head(&head(asked, accept.as_deref()));
    let envelope = write_fault(&form, namespace, fault);
    let mut reply =
        packed(status(form.version, fault.code), pack_reply(&envelope, &form), Some(fault));
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
}

fn head<'h>(asked: &'h Parts, accept: Option<&'h str>) -> MessageHead<'h> {
    let field = |name: HeaderName| asked.headers.get(name).and_then(|value| value.to_str().ok());
    MessageHead {
        content_type: field(header::CONTENT_TYPE).unwrap_or(""),
        soap_action: field(SOAP_ACTION),
        accept,
        query: asked.uri.query(),
    }
}

fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let fields: Vec<&str> =
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!fields.is_empty()).then(|| fields.join(", "))
}

fn packed(
    status: u16,
    packed: fishplate_wire::PackedMessage,
    fault: Option<&Fault>,
) -> HttpResponse {
    let content_type = match packed.content_type {
        Cow::Borrowed("") => None,
        Cow::Borrowed(fixed) => Some(HeaderValue::from_static(fixed)),
        Cow::Owned(ref made) => HeaderValue::from_str(made).ok(),
    };
    let mut reply = with_type(status, content_type, HttpBody::packed(packed));
    if let Some(fault) = fault {
        set_retry_after(&mut reply, fault);
    }
    reply
}

fn set_retry_after(reply: &mut HttpResponse, fault: &Fault) {
    if let Some(seconds) = retry_after(fault) {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
}

/// The services there are: a page, or JSON for who asks for it.
fn index(host: &Host, asked: &HeaderMap, caller: &Principal) -> HttpResponse {
    let mut reply = if Accepted::of(asked).names("application/json", "text/html") {
        let service = |entry: &Arc<ServiceEntry>| {
            let service = entry.service();
            json!({ "name": service.name, "title": service.title, "url": entry.url })
        };
        let services: Vec<_> = host.services_for(caller).map(service).collect();
        text(200, "application/json", json!({ "services": services }).to_string())
    } else {
        page::reply(200, html::index(host, caller))
    };
    reply.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    reply
}

/// A domain of the caller, or what ends it: a form of the page itself, because pages of other origins may not send here
/// (`http::origin`).
async fn domain_page(
    host: &Host,
    DomainResource(id): DomainResource,
    method: &Method,
    caller: &Principal,
) -> HttpResponse {
    let made = match method {
        &Method::GET | &Method::HEAD => domain_html::domain(host, caller, id).await,
        &Method::POST => domain_html::end(host, caller, id).await,
        _ => return not_allowed("GET to look and POST to end it", "GET, HEAD, POST"),
    };
    match made {
        Ok(html) => page::reply(200, html),
        Err(fault) if fault.code == FaultCode::InvalidValue => {
            page::reply(404, domain_html::not_found(host, caller))
        }
        Err(fault) => refused_page(host, Some(caller), Protocol::Http, &fault),
    }
}

/// Why there is no page, for people.
fn refused_page(
    host: &Host,
    caller: Option<&Principal>,
    protocol: Protocol,
    fault: &Fault,
) -> HttpResponse {
    let page = html::refused(host, caller, fault);
    page::of_fault(status(protocol, fault.code), fault, page)
}

/// The protocol that programs speak at a page's address.
fn page_protocol(name: &str) -> Protocol {
    if OgcResource::of(name).is_some() { Protocol::Ogc } else { Protocol::Http }
}

/// The answer to a method that means nothing there.
fn not_allowed(what: &str, methods: &'static str) -> HttpResponse {
    let mut reply = text(405, PLAIN, format!("use {what}\n"));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    reply
}

/// What the caller may have and has used.
async fn own_quota(host: &Host, caller: &Principal) -> HttpResponse {
    match quota::told(host, caller).await {
        Ok(told) => text(200, "application/json", told),
        Err(fault) => text(status(Protocol::Http, fault.code), PLAIN, format!("{fault}\n")),
    }
}

fn text(status: u16, content_type: &str, text: String) -> HttpResponse {
    with_type(status, HeaderValue::from_str(content_type).ok(), HttpBody::bytes(text))
}

fn with_type(status: u16, content_type: Option<HeaderValue>, body: HttpBody) -> HttpResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(value) = content_type {
        reply.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    let sniff = HeaderValue::from_static("nosniff");
    reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, sniff);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_what_this_server_may_grant() {
        // Else a request that passes alone would be cut when the server stops.
        for (method, protocol, is_one) in [
            (Method::GET, PROTOCOL, true),
            (Method::GET, sites::SITE_PROTOCOL, true),
            (Method::GET, "h2c", false),
            (Method::POST, PROTOCOL, false),
        ] {
            let request = Request::builder().method(method).header(header::UPGRADE, protocol);
            assert_eq!(is_switch(&request.body(()).unwrap()), is_one, "{protocol}");
        }
    }
}

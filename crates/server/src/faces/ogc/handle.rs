//! A request, and its answer.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Argument, CallOptions, Fault, FaultCode, Principal, Results, Verb};
use hyper::body::Body;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::address::OgcResource;
use super::execute::{ResponseForm, ResultsChoice};
use super::jobs::CallersJob;
use super::links::{self, JSON, Link, address};
use super::list::{self, FoundJobs};
use super::process::{self, Process};
use super::query::{self, Query};
use super::run::run;
use super::{documents, openapi, problem, results};
use crate::dispatch::perform::perform_counted;
use crate::dispatch::request::{Reply, Request};
use crate::faces::html;
use crate::faces::html::page::{self, local};
use crate::host::{Host, ServiceEntry};
use crate::http::accept::Accepted;
use crate::http::body::Incoming;
use crate::http::{HttpBody, HttpResponse, reply_with};
use crate::memory::MemoryReservation;
use crate::providers::session;
use crate::status::{Protocol, status};

/// Answers a request below `PUBLIC/ogc`.
pub async fn answer<B>(
    host: &Arc<Host>,
    resource: OgcResource<'_>,
    asked: &Parts,
    mut body: Incoming<B>,
    caller: &Principal,
) -> HttpResponse
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let answered = answered(host, resource, asked, &mut body, caller).await;
    let mut reply = answered.unwrap_or_else(|fault| {
        tracing::debug!(%fault, path = "ogc", "refused");
        refused(host, asked, caller, status(Protocol::Ogc, fault.code), &fault)
    });
    problem::negotiate(&mut reply, &asked.headers);
    reply.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    body.drain_before(&mut reply).await;
    reply
}

/// The answer that tells of a fault: a page for people, else a problem.
fn refused(
    host: &Host,
    asked: &Parts,
    caller: &Principal,
    status: u16,
    fault: &Fault,
) -> HttpResponse {
    if query::wants_page(asked) || query::prefers_page(&asked.headers) {
        let page = html::refused(host, Some(caller), fault);
        return page::of_fault(status, fault, page);
    }
    problem::reply_as(status, fault)
}

async fn answered<B>(
    host: &Arc<Host>,
    resource: OgcResource<'_>,
    asked: &Parts,
    body: &mut Incoming<B>,
    caller: &Principal,
) -> Result<HttpResponse, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let read = matches!(asked.method, Method::GET | Method::HEAD);
    let post = asked.method == Method::POST;
    match resource {
        OgcResource::Execution(id) if post => {
            run(host, Process::find(host, id)?, asked, body, caller).await
        }
        OgcResource::Kill(id) if post => {
            CallersJob::find(host, caller, id).await?.kill().await?;
            Ok(page::see(local(host, &address(host, &format!("/jobs/{id}")))))
        }
        OgcResource::Remove(id) if post => {
            CallersJob::find(host, caller, id).await?.remove().await?;
            Ok(page::see(local(host, &address(host, "/jobs"))))
        }
        OgcResource::CloseSession(id) if post => {
            close_session(host, caller, id).await?;
            Ok(page::see(local(host, &address(host, ""))))
        }
        OgcResource::Execution(_)
        | OgcResource::Kill(_)
        | OgcResource::Remove(_)
        | OgcResource::CloseSession(_) => Ok(not_allowed(host, asked, caller, "POST")),
        OgcResource::Job(_) if asked.method == Method::DELETE => {
            Box::pin(resource_of(host, resource, asked, caller)).await
        }
        _ if read => Box::pin(resource_of(host, resource, asked, caller)).await,
        OgcResource::Job(_) => Ok(not_allowed(host, asked, caller, "GET, HEAD, DELETE")),
        _ => Ok(not_allowed(host, asked, caller, "GET, HEAD")),
    }
}

/// What is there.
async fn resource_of(
    host: &Host,
    resource: OgcResource<'_>,
    asked: &Parts,
    caller: &Principal,
) -> Result<HttpResponse, Fault> {
    let page = query::wants_page(asked);
    let public = host.settings.public_url.as_str();
    let (document, links) = match resource {
        OgcResource::Processes if page => {
            return Ok(page::see(&format!("{public}/")));
        }
        OgcResource::Landing if page => {
            return Ok(page::reply(200, html::account::page(host, caller).await?));
        }
        OgcResource::Jobs if page => {
            let FoundJobs { jobs, next } =
                list::find(host, asked, caller, html::jobs::ROWS).await?;
            let query = Query::of(asked);
            let chosen = |name: &str| query.get(name).unwrap_or_default().to_owned();
            let shown = html::jobs::page(host, caller, &chosen, &jobs, next.as_deref());
            return Ok(page::reply(200, shown));
        }
        OgcResource::Landing => documents::landing(host),
        OgcResource::Conformance if page => {
            return Ok(page::reply(200, html::conformance(host, caller, &documents::CLASSES)));
        }
        OgcResource::Conformance => documents::conformance(host),
        OgcResource::OpenApi if page => {
            return Ok(page::reply(
                200,
                html::openapi(host, caller, &openapi::document_for(host, caller)),
            ));
        }
        OgcResource::OpenApi => return openapi::reply(host, asked, caller),
        OgcResource::Processes => process::list(host, asked, caller)?,
        OgcResource::Process(id) => {
            let process = Process::find(host, id)?;
            if page {
                return Ok(page::see(&process.entry.url));
            }
            process.description(host)
        }
        OgcResource::Job(id) if page => {
            return html::job::page(&CallersJob::find(host, caller, id).await?).await;
        }
        OgcResource::Results(id) if page => {
            let job = CallersJob::find(host, caller, id).await?;
            let job = address(host, &format!("/jobs/{}#results", job.job.id));
            return Ok(page::see(local(host, &job)));
        }
        OgcResource::Events(id) => {
            return html::events::reply(&CallersJob::find(host, caller, id).await?).await;
        }
        OgcResource::Jobs => list::list(host, asked, caller).await?,
        OgcResource::Job(id) => {
            let job = CallersJob::find(host, caller, id).await?;
            match asked.method {
                Method::DELETE if query::prefers_page(&asked.headers) => {
                    job.dismiss().await?;
                    let is_there = CallersJob::find(host, caller, id).await.is_ok();
                    let path = if is_there { format!("/jobs/{id}") } else { "/jobs".to_owned() };
                    return Ok(page::see(local(host, &address(host, &path))));
                }
                Method::DELETE => job.dismiss().await?,
                _ => job.status().await?,
            }
        }
        OgcResource::Log(id) => return log(host, asked, caller, id).await,
        OgcResource::Results(id) => {
            return job_results(host, asked, caller, id, None).await;
        }
        OgcResource::Output(id, output) => {
            return job_results(host, asked, caller, id, Some(output)).await;
        }
        OgcResource::Execution(_)
        | OgcResource::Kill(_)
        | OgcResource::Remove(_)
        | OgcResource::CloseSession(_)
        | OgcResource::Unknown => {
            let what = format!("there is nothing here; {public}/ogc tells what there is");
            let fault = Fault::new(FaultCode::UnknownService, what);
            return Ok(refused(host, asked, caller, 404, &fault));
        }
    };
    Ok(answer_with(StatusCode::OK, document, &links))
}

/// A document with its links, which stand in its header too.
pub(super) fn answer_with(status: StatusCode, mut document: Value, links: &[Link]) -> HttpResponse {
    document["links"] = links::in_body(links);
    let mut reply = json_of(status, JSON, &document);
    links::in_header(&mut reply, links);
    reply
}

/// A document in JSON.
pub(super) fn json_of(status: StatusCode, media_type: &str, document: &Value) -> HttpResponse {
    // It is the caller's, and changes.
    let fields = [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "private, no-cache")];
    reply_with(status, &fields, HttpBody::bytes(format!("{document}\n")))
}

fn not_allowed(
    host: &Host,
    asked: &Parts,
    caller: &Principal,
    methods: &'static str,
) -> HttpResponse {
    let what = format!("here one can {methods}");
    let fault = Fault::new(FaultCode::NotSupported, what);
    let mut reply = refused(host, asked, caller, 405, &fault);
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    reply
}

/// Asks dispatch for a verb of a service, and has it counted.
pub(super) async fn ask(
    host: &Host,
    entry: &Arc<ServiceEntry>,
    (verb, operation): (Verb, &str),
    arguments: Vec<Argument>,
    options: CallOptions,
    caller: &Principal,
    memory: &mut MemoryReservation,
) -> Result<Reply, Fault> {
    let (definition, principal) = (entry.definition(verb, operation)?, caller.clone());
    perform_counted(
        host,
        Request { service: entry, definition, arguments, options, principal },
        memory,
    )
    .await
}

/// Closes a session as its service does.
async fn close_session(host: &Host, caller: &Principal, id: &str) -> Result<(), Fault> {
    let entry = host.service(session::NAME).filter(|_| caller.is_for(session::NAME));
    let entry = entry.ok_or_else(|| {
        Fault::new(FaultCode::UnknownService, "there are no sessions here that you may close")
    })?;
    let (arguments, options) = (vec![Argument::text("session", id)], CallOptions::default());
    let mut memory = MemoryReservation::default();
    let verb = (Verb::Call, "close");
    ask(host, entry, verb, arguments, options, caller, &mut memory).await.map(drop)
}

/// The results of a job as they were wanted when it was accepted, or one of its outputs.
async fn job_results(
    host: &Host,
    asked: &Parts,
    caller: &Principal,
    id: &str,
    output: Option<&str>,
) -> Result<HttpResponse, Fault> {
    let job = CallersJob::find(host, caller, id).await?;
    let known = job.process()?.outputs();
    let mut choice = ResultsChoice::of_note(job.job.note.as_deref());
    if let Some(output) = output {
        if known.iter().all(|parameter| parameter.name != output) {
            let what = format!("the process {} has no output {output}", job.process()?.id());
            let fault = Fault::new(FaultCode::UnexpectedParameter, what);
            return Ok(refused(host, asked, caller, 404, &fault));
        }
        let place = Query::of(asked).read::<usize>("item", "a number of a value, from 0")?;
        let parameter = known.iter().find(|parameter| parameter.name == output);
        if let (Some(place), Some(parameter)) = (place, parameter) {
            let value = (parameter, place);
            return html::preview::item(host, job.entry, caller, &job.job, value, asked).await;
        }
        if query::wants_page(asked) {
            return html::job::output_page(&job, output).await;
        }
        choice.outputs = vec![output.to_owned()];
        choice.response = Some(ResponseForm::Raw);
    }
    let mut memory = MemoryReservation::default();
    let reply = job.ask(Verb::Results, Vec::new(), &mut memory).await?;
    let Reply::Results { results: Results { outputs, .. }, .. } = reply else {
        return Err(Fault::new(FaultCode::Internal, "results gave what another verb gives"));
    };
    let headers = &asked.headers;
    let mut reply = results::reply(host, caller, known, outputs, &choice, headers).await?;
    let up = Link::new(host, &format!("/jobs/{id}"), "up", "The job");
    links::in_header(&mut reply, &[up]);
    reply.body_mut().keep(memory);
    Ok(reply)
}

/// What a job's program wrote, from an offset: JSON, or the text itself with a link to what follows.
async fn log(
    host: &Host,
    asked: &Parts,
    caller: &Principal,
    id: &str,
) -> Result<HttpResponse, Fault> {
    let query = Query::of(asked);
    let stream = query.get("stream").unwrap_or("stdout");
    if !["stdout", "stderr"].contains(&stream) {
        return Err(query::invalid("stream", stream, "stdout or stderr"));
    }
    let offset = query.read::<u64>("offset", "a number of bytes from 0")?.unwrap_or(0);
    let job = CallersJob::find(host, caller, id).await?;
    let piece = job.log(stream, offset).await?;
    let path = format!("/jobs/{}", job.job.id);
    let mut links = vec![Link::new(host, &path, "up", "The job")];
    if !piece.end {
        let next = format!("{path}/log?stream={stream}&offset={}", piece.next);
        links.push(Link::new(host, &next, "next", "What is written from here on"));
    }
    if query::wants_page(asked) {
        return Ok(page::reply(200, html::job::log_page(&job, stream, &piece)));
    }
    if query.get("f") == Some("text") || Accepted::of(&asked.headers).names("text/plain", JSON) {
        let fields = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        let mut reply = reply_with(StatusCode::OK, &fields, HttpBody::bytes(piece.text));
        links::in_header(&mut reply, &links);
        return Ok(reply);
    }
    let told =
        json!({ "stream": stream, "text": piece.text, "next": piece.next, "end": piece.end });
    Ok(answer_with(StatusCode::OK, told, &links))
}

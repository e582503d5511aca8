//! A request, and its answer.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fishplate_contract::{
    Argument, CallOptions, Fault, FaultCode, Principal, Results, SubmittedJob, Verb,
};
use fishplate_jobs::engine::{EphemeralJob, OwnJob};
use hyper::body::Body;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::address::OgcResource;
use super::callback::Subscriber;
use super::execute::{self, ResponseForm, ResultsChoice};
use super::jobs::{self, CallersJob};
use super::links::{self, JSON, Link, address};
use super::process::{self, Process};
use super::query::{self, Query};
use super::{documents, list, openapi, problem, results};
use crate::dispatch::perform::perform;
use crate::dispatch::request::{Reply, Request};
use crate::host::{Host, ServiceEntry};
use crate::http::body::Incoming;
use crate::http::{HttpBody, HttpResponse};
use crate::memory::{self, MemoryReservation};

/// Tells which preference was honoured (RFC 7240, section 3).
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

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
        problem::reply(&fault)
    });
    problem::negotiate(&mut reply, &asked.headers);
    reply.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    if !body.drain().await {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
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
    let is_job = matches!(resource, OgcResource::Job(_));
    if let OgcResource::Execution(id) = resource {
        return match asked.method {
            Method::POST => run(host, Process::find(host, id)?, asked, body, caller).await,
            _ => Ok(not_allowed("POST")),
        };
    }
    if is_job && asked.method == Method::DELETE || read {
        return Box::pin(resource_of(host, resource, asked, caller)).await;
    }
    Ok(not_allowed(if is_job { "GET, HEAD, DELETE" } else { "GET, HEAD" }))
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
        OgcResource::Landing | OgcResource::Processes if page => {
            return Ok(redirect(&format!("{public}/")));
        }
        OgcResource::Landing => documents::landing(host),
        OgcResource::Conformance => documents::conformance(host),
        OgcResource::OpenApi => return openapi::reply(host, asked, caller),
        OgcResource::Processes => process::list(host, asked, caller)?,
        OgcResource::Process(id) => {
            let process = Process::find(host, id)?;
            if page {
                return Ok(redirect(&process.entry.url));
            }
            process.description(host)
        }
        OgcResource::Jobs => list::list(host, asked, caller).await?,
        OgcResource::Job(id) => {
            let job = CallersJob::find(host, caller, id).await?;
            match asked.method {
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
        OgcResource::Execution(_) | OgcResource::Unknown => {
            let what = format!("there is nothing here; {public}/ogc tells what there is");
            let fault = Fault::new(FaultCode::UnknownService, what);
            return Ok(problem::reply_as(StatusCode::NOT_FOUND, &fault));
        }
    };
    Ok(answer_with(StatusCode::OK, document, &links))
}

/// A document with its links, which stand in its header too.
fn answer_with(status: StatusCode, mut document: Value, links: &[Link]) -> HttpResponse {
    document["links"] = links::in_body(links);
    let mut reply = json_of(status, JSON, &document);
    links::in_header(&mut reply, links);
    reply
}

/// A document in JSON.
pub(super) fn json_of(status: StatusCode, media_type: &str, document: &Value) -> HttpResponse {
    let mut reply = Response::new(HttpBody::bytes(format!("{document}\n")));
    *reply.status_mut() = status;
    let fields: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, media_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // It is the caller's, and changes.
        (header::CACHE_CONTROL, "private, no-cache"),
    ];
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(value) {
            reply.headers_mut().insert(name, value);
        }
    }
    reply
}

/// The page for people is elsewhere (RFC 9110, section 15.4.4).
fn redirect(to: &str) -> HttpResponse {
    let mut reply = Response::new(HttpBody::bytes(""));
    *reply.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(to) = HeaderValue::from_str(to) {
        reply.headers_mut().insert(header::LOCATION, to);
    }
    reply
}

fn not_allowed(methods: &'static str) -> HttpResponse {
    let what = format!("here one can {methods}");
    let fault = Fault::new(FaultCode::NotSupported, what);
    let mut reply = problem::reply_as(StatusCode::METHOD_NOT_ALLOWED, &fault);
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
    let verbs = &entry.interface.verbs;
    let position = verbs.iter().position(|it| it.verb == verb && it.operation == operation);
    let position = position.ok_or_else(|| {
        let what = format!("{} can't be asked for so", entry.service().name);
        Fault::new(FaultCode::UnknownOperation, what)
    })?;
    let begun = Instant::now();
    let (definition, principal) = (&verbs[position], caller.clone());
    let request = Request { service: entry, definition, arguments, options, principal };
    let done = perform(host, request, memory).await;
    let fault = done.as_ref().err().map(|fault| fault.code);
    host.metrics.called(entry, Some(position), fault, begun.elapsed());
    done
}

/// Runs a process: waits for its results, or answers with its job.
async fn run<B>(
    host: &Arc<Host>,
    process: Process<'_>,
    asked: &Parts,
    body: &mut Incoming<B>,
    caller: &Principal,
) -> Result<HttpResponse, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    if let Some(fault) = crate::http::content_coding(&asked.headers) {
        return Err(fault);
    }
    let mut memory = MemoryReservation::default();
    let execution = execute::read(host, process, &asked.headers, body, &mut memory).await?;
    memory.shrink(memory::held_by(&execution.arguments));
    if let Some(subscriber) = &execution.choice.subscriber {
        subscriber.check(host, process, caller)?;
    }
    let execute::Execution { arguments, mut options, choice, is_async } = execution;
    options.session = Query::of(asked).read("session", "the ID of a session, from its service")?;
    let entry = process.entry;
    let operation = process.call.operation.as_str();
    // Without a job there would be nothing to tell of.
    let wants_job = is_async || choice.subscriber.is_some();
    if wants_job && process.verb(Verb::Spawn).is_some() {
        options.note = choice.note();
        options.notices = choice.subscriber.as_ref().map(Subscriber::notices).unwrap_or_default();
        let verb = (Verb::Spawn, operation);
        let reply =
            Box::pin(ask(host, entry, verb, arguments, options, caller, &mut memory)).await?;
        let Reply::Spawned(SubmittedJob { id, .. }) = reply else {
            return Err(Fault::new(FaultCode::Internal, "spawn gave what another verb gives"));
        };
        let job = OwnJob {
            id,
            service: entry.service().name.clone(),
            operation: operation.to_owned(),
            is_final: false,
            note: choice.note(),
        };
        return Ok(accepted(host, &job, is_async));
    }
    let verb = (Verb::Call, operation);
    let reply = Box::pin(ask(host, entry, verb, arguments, options, caller, &mut memory)).await?;
    let Reply::Results { results: Results { outputs, job }, ephemeral } = reply else {
        return Err(Fault::new(FaultCode::Internal, "call gave what another verb gives"));
    };
    let known = process.outputs();
    let headers = &asked.headers;
    let mut reply = match results::reply(host, caller, known, outputs, &choice, headers).await {
        Ok(reply) => reply,
        // What was computed is there for whoever asks again.
        Err(fault) => return Err(kept(ephemeral, fault)),
    };
    if let Some(job) = job {
        let monitor = Link::new(host, &format!("/jobs/{}", job.id), "monitor", "The job");
        links::in_header(&mut reply, &[monitor]);
    }
    reply.body_mut().keep(memory);
    if let Some(job) = ephemeral {
        reply.body_mut().delivers(job);
    }
    Ok(reply)
}

fn kept(ephemeral: Option<EphemeralJob>, fault: Fault) -> Fault {
    match ephemeral.and_then(EphemeralJob::keep) {
        Some(job) => fault.job(job),
        None => fault,
    }
}

/// The answer to who does not wait.
fn accepted(host: &Host, job: &OwnJob, is_asked: bool) -> HttpResponse {
    let told = jobs::brief(job, "accepted", "the job was accepted");
    let links = jobs::job_links(host, job.id, "accepted");
    let mut reply = answer_with(StatusCode::CREATED, told, &links);
    let place = address(host, &format!("/jobs/{}", job.id));
    if let Ok(place) = HeaderValue::from_str(&place) {
        reply.headers_mut().insert(header::LOCATION, place);
    }
    if is_asked {
        let applied = HeaderValue::from_static("respond-async");
        reply.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
    reply
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
            return Ok(problem::reply_as(StatusCode::NOT_FOUND, &fault));
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
    let page = job.log(stream, offset).await?;
    let path = format!("/jobs/{}", job.job.id);
    let mut links = vec![Link::new(host, &path, "up", "The job")];
    if !page.end {
        let next = format!("{path}/log?stream={stream}&offset={}", page.next);
        links.push(Link::new(host, &next, "next", "What is written from here on"));
    }
    if query::accepts(&asked.headers, "text/plain") {
        let mut reply = Response::new(HttpBody::bytes(page.text));
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        reply.headers_mut().insert(header::CONTENT_TYPE, text);
        let sniff = HeaderValue::from_static("nosniff");
        reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, sniff);
        links::in_header(&mut reply, &links);
        return Ok(reply);
    }
    let told = json!({ "stream": stream, "text": page.text, "next": page.next, "end": page.end });
    Ok(answer_with(StatusCode::OK, told, &links))
}

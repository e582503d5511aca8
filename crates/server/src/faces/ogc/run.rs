//! A request that runs a process: in JSON, or a form. It waits for the results, or is answered with its job. A browser is always led to
//! the job's page; if nothing was run, it gets the form again, as it was filled, with what is wrong.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode, Principal, Results, SubmittedJob, Verb};
use fishplate_jobs::engine::{EphemeralJob, OwnJob};
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;

use super::callback::Subscriber;
use super::given::GivenInputs;
use super::handle::{answer_with, ask};
use super::links::{self, Link, address};
use super::process::Process;
use super::query::{Query, prefers_page};
use super::{execute, jobs, results};
use crate::dispatch::request::Reply;
use crate::faces::html::form::Filled;
use crate::faces::html::{self, page};
use crate::host::Host;
use crate::http::HttpResponse;
use crate::http::body::Incoming;
use crate::memory::{self, MemoryReservation};
use crate::status::{Protocol, status};

/// Tells which preference was honoured (RFC 7240, section 3).
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Runs a process.
///
/// # Errors
/// What is wrong with the request, or with what it asks for.
pub(super) async fn run<B>(
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
    let mut given = GivenInputs::default();
    match begun(host, process, asked, body, caller, &mut given).await {
        Err(fault) if prefers_page(&asked.headers) => {
            let operation = process.call.operation.as_str();
            let filled = Filled { operation, given: Some(&given), fault: Some(&fault) };
            let page = html::service(host, caller, process.entry, filled);
            Ok(page::of_fault(status(Protocol::Ogc, fault.code), &fault, page))
        }
        answered => answered,
    }
}

async fn begun<B>(
    host: &Arc<Host>,
    process: Process<'_>,
    asked: &Parts,
    body: &mut Incoming<B>,
    caller: &Principal,
    given: &mut GivenInputs,
) -> Result<HttpResponse, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    if let Some(fault) = crate::http::content_coding(&asked.headers) {
        return Err(fault);
    }
    let mut memory = MemoryReservation::default();
    let headers = &asked.headers;
    let session = Query::of(asked).read("session", "the ID of a session, from its service")?;
    let mut execution = execute::read(host, process, headers, body, &mut memory, given).await?;
    execution.options.session = session;
    memory.shrink(memory::held_by(&execution.arguments));
    if let Some(subscriber) = &execution.choice.subscriber {
        subscriber.check(host, process, caller)?;
    }
    let is_page = prefers_page(headers);
    // Without a job there would be nothing to tell of, and nothing to look at.
    let wants_job = execution.is_async || execution.choice.subscriber.is_some() || is_page;
    if !wants_job || process.verb(Verb::Spawn).is_none() {
        return called(host, process, asked, caller, execution, memory).await;
    }
    let is_async = execution.is_async;
    let job = Box::pin(spawned(host, process, caller, execution, memory)).await?;
    if is_page {
        let path = address(host, &format!("/jobs/{}", job.id));
        return Ok(page::see(page::local(host, &path)));
    }
    Ok(accepted(host, &job, is_async))
}

/// Makes a job of it.
async fn spawned(
    host: &Arc<Host>,
    process: Process<'_>,
    caller: &Principal,
    execution: execute::Execution,
    mut memory: MemoryReservation,
) -> Result<OwnJob, Fault> {
    let execute::Execution { arguments, mut options, choice, .. } = execution;
    let (entry, operation) = (process.entry, process.call.operation.as_str());
    options.note = choice.note();
    options.notices = choice.subscriber.as_ref().map(Subscriber::notices).unwrap_or_default();
    let verb = (Verb::Spawn, operation);
    let reply = ask(host, entry, verb, arguments, options, caller, &mut memory).await?;
    let Reply::Spawned(SubmittedJob { id, .. }) = reply else {
        return Err(Fault::new(FaultCode::Internal, "spawn gave what another verb gives"));
    };
    Ok(OwnJob {
        id,
        service: entry.service().name.clone(),
        operation: operation.to_owned(),
        is_final: false,
        note: choice.note(),
    })
}

/// Waits for the results.
async fn called(
    host: &Arc<Host>,
    process: Process<'_>,
    asked: &Parts,
    caller: &Principal,
    execution: execute::Execution,
    mut memory: MemoryReservation,
) -> Result<HttpResponse, Fault> {
    let execute::Execution { arguments, options, choice, .. } = execution;
    let (entry, headers) = (process.entry, &asked.headers);
    let verb = (Verb::Call, process.call.operation.as_str());
    let reply = Box::pin(ask(host, entry, verb, arguments, options, caller, &mut memory)).await?;
    let Reply::Results { results: Results { outputs, job }, ephemeral } = reply else {
        return Err(Fault::new(FaultCode::Internal, "call gave what another verb gives"));
    };
    let known = process.outputs();
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

//! What each verb does: from arguments to a job and back.

use std::str::FromStr;
use std::time::Instant;

use fishplate_contract::interface::DATA;
use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{
    Argument, Call, CallOptions, Fault, FaultCode, JobId, JobPage, JobState, KillResult, Outcome,
    OutputChoice, Payload, Principal, Results, SessionId, SubmittedJob, Verb, lexical,
};
use fishplate_jobs::completion::Completion;
use fishplate_jobs::engine::{
    AcceptedJob, Engine, JobRequest, SessionJob, content_digest, fingerprint,
};
use fishplate_jobs::store::Filter;
use fishplate_jobs::store::quota::Quota;
use fishplate_jobs::workspace::OutputStream;

use super::authorise::{Access, Action};
use super::event::Event;
use super::init;
use super::request::{Reply, Request};
use super::scalars::Scalars;
use super::usage::{CallUsage, bytes};
use crate::data::blocking;
use crate::host::{Host, ServiceEntry};
use crate::memory::MemoryReservation;
use crate::providers::session;
use crate::stager::SESSION;

/// How a key begins whose call takes the results of an equal one of before, if there is one that its caller may have.
const REUSE: &str = "reuse/";

/// The most jobs that one `jobs` answers.
const JOBS_PAGE: usize = DEFAULTS.jobs_page;

/// Does what is asked for. `memory` is what the arguments have; afterwards, what the outputs have.
///
/// # Errors
/// Those of the verb; first that whoever asks may not.
pub async fn perform(
    host: &Host,
    request: Request<'_>,
    memory: &mut MemoryReservation,
) -> Result<Reply, Fault> {
    let event = Event::of(&request);
    let done = answer(host, request, memory).await;
    event.done(&done);
    done
}

/// The same, counted as a call: for what does not come by itself in a request of HTTP, which is counted where it arrives.
///
/// # Errors
/// As [`perform`].
pub async fn perform_counted(
    host: &Host,
    request: Request<'_>,
    memory: &mut MemoryReservation,
) -> Result<Reply, Fault> {
    let (service, begun) = (request.service, Instant::now());
    let position = service.interface.position(&request.definition.name);
    let done = perform(host, request, memory).await;
    let fault = done.as_ref().err().map(|fault| fault.code);
    host.metrics.called(service, position, fault, begun.elapsed());
    done
}

async fn answer(
    host: &Host,
    request: Request<'_>,
    memory: &mut MemoryReservation,
) -> Result<Reply, Fault> {
    let Request { service, definition, arguments, options, principal } = request;
    let name = service.service().name.as_str();
    let access = Access {
        principal: &principal,
        service: name,
        operation: &definition.operation,
        action: Action::Verb(definition.verb),
    };
    host.authorise(&access)?;
    if options.outputs.iter().any(|choice| choice.to.is_some()) {
        host.authorise(&Access { action: Action::Deliver, ..access })?;
    }
    if arguments.iter().any(|argument| is_elsewhere(host, argument)) {
        host.authorise(&Access { action: Action::Fetch, ..access })?;
    }
    let (Verb::Call | Verb::Spawn | Verb::Init) = definition.verb else {
        let given = Scalars::accept(&definition.signature, arguments)?;
        if definition.verb == Verb::Results {
            let asked = (name, definition.operation.as_str(), &given);
            let outputs = results(host, asked, &principal, &options.outputs, memory);
            return Box::pin(outputs).await.map(Reply::from);
        }
        let about = JobScope { engine: &host.engine, service: name, owner: &principal };
        return Box::pin(about.perform(definition.verb, &given)).await;
    };
    let operation = definition.operation.clone();
    let call = Call { service: name.to_owned(), operation, arguments, options, principal };
    check_key(host, &call.options)?;
    check_session(host, &call.options, &call.principal).await?;
    if definition.verb == Verb::Init {
        let id = Box::pin(init::init(host, service, call)).await?;
        return Ok(Reply::Spawned(SubmittedJob { id, existing: false }));
    }
    if definition.verb == Verb::Spawn {
        return Ok(Reply::Spawned(Box::pin(submit(host, service, call)).await?.submitted()));
    }
    if service.provider.answers(&call) {
        return answer_here(host, service, call, memory).await.map(Reply::from);
    }
    // On the heap: a call that is answered here must not carry the room of one that takes a job.
    Box::pin(call_and_wait(host, service, call, memory)).await
}

/// Whether an argument is to be fetched from another place than this server.
fn is_elsewhere(host: &Host, argument: &Argument) -> bool {
    let Some(Payload::Reference(reference)) = argument.value.payload() else { return false };
    let url = reference.url.trim();
    let below = url.strip_prefix(host.data.origin.as_str());
    // Behind a proxy other programs may answer beside us: only data and files of sessions are surely ours.
    let is_data = |path: &str| {
        let first = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        first.is_some_and(|(first, _)| [DATA, session::NAME].contains(&first))
    };
    !(url.starts_with(SESSION) || below.is_some_and(is_data))
}

/// `call` of what runs in this process: no job notes what it used.
async fn answer_here(
    host: &Host,
    service: &ServiceEntry,
    mut call: Call,
    memory: &mut MemoryReservation,
) -> Outcome {
    if service.is_built_in() {
        return service.provider.answer(host, call, &CallUsage::none(), memory).await;
    }
    let bytes_in = call.arguments.iter().map(bytes).sum();
    let wanted = [(Quota::CpuTime, 0), (Quota::Traffic, bytes_in)];
    host.engine.check_quotas(&call.principal, &wanted).await?;
    let usage = CallUsage::of(&host.engine, &service.service().name, &mut call)?;
    usage.answered(service.provider.answer(host, call, &usage, memory).await)
}

/// `call`: accepted as a job like any other, and waited for without a thread. If the caller hangs
/// up, the job goes on.
async fn call_and_wait(
    host: &Host,
    service: &ServiceEntry,
    call: Call,
    memory: &mut MemoryReservation,
) -> Result<Reply, Fault> {
    if call.options.key.is_some() {
        return call_with_key(host, service, call, memory).await;
    }
    let (owner, session) = (call.principal.clone(), call.options.session);
    let work = work(host, service, call).await?;
    let name = work.service.clone();
    let mut job = host.engine.call(work).await?;
    note_session(host, session, &owner, name, job.id());
    // What the job was given was written to files.
    *memory = MemoryReservation::default();
    let end = job.ended().await?;
    if let Err(fault) = hold(host, &end, memory).await {
        // Its outputs are there for whoever asks again.
        return Err(job.keep().map_or(fault.clone(), |job| fault.job(job)));
    }
    match host.engine.outcome(&owner, job.id(), &end, &[]).await {
        Ok(outputs) => {
            let results = Results { outputs, job: None };
            Ok(Reply::Results { results, ephemeral: Some(job) })
        }
        // Outputs that could not be sent are there, and the job's ID in the fault leads to them.
        Err(fault) if end.unsent => Err(fault),
        Err(fault) => {
            job.delivered();
            Err(fault)
        }
    }
}

/// `call` of which the results can be asked for again.
async fn call_with_key(
    host: &Host,
    service: &ServiceEntry,
    call: Call,
    memory: &mut MemoryReservation,
) -> Result<Reply, Fault> {
    let owner = call.principal.clone();
    let accepted = submit(host, service, call).await?;
    *memory = MemoryReservation::default();
    let (job, submitted) = (accepted.job, accepted.submitted());
    let end = host.engine.wait(accepted).await?;
    hold(host, &end, memory).await.map_err(|fault| fault.job(job))?;
    let outputs = hand_out(host, &owner, job, &end, &[]).await?;
    let results = Results { outputs, job: Some(submitted) };
    Ok(Reply::Results { results, ephemeral: None })
}

/// `results`: of a service, its operation and what was given.
async fn results(
    host: &Host,
    (service, operation, given): (&str, &str, &Scalars),
    owner: &Principal,
    chosen: &[OutputChoice],
    memory: &mut MemoryReservation,
) -> Outcome {
    let job = job_id(given.text("job").unwrap_or_default())?;
    let end = host.engine.completion(owner, service, operation, job).await?;
    hold(host, &end, memory).await?;
    hand_out(host, owner, job, &end, chosen).await
}

/// The outputs of a job that is kept. What goes of them again is a transfer; the job's own record counts the first time.
async fn hand_out(
    host: &Host,
    owner: &Principal,
    job: JobId,
    end: &Completion,
    chosen: &[OutputChoice],
) -> Outcome {
    let (outputs, again) = host.engine.hand_out(owner, job, end, chosen).await?;
    if again {
        let mut transfer = host.data.transfer(owner, "results");
        transfer.went = outputs.iter().map(bytes).sum();
        transfer.state = JobState::Done;
    }
    Ok(outputs)
}

/// Reserves memory for a job's outputs until they are sent, before they are read.
pub(super) async fn hold(
    host: &Host,
    end: &Completion,
    memory: &mut MemoryReservation,
) -> Result<(), Fault> {
    host.memory.resize(memory, end.in_memory(), host.settings.body_stall).await
}

async fn submit(host: &Host, service: &ServiceEntry, call: Call) -> Result<AcceptedJob, Fault> {
    let (owner, session) = (call.principal.clone(), call.options.session);
    let work = work(host, service, call).await?;
    let name = work.service.clone();
    let accepted = host.engine.submit(work).await?;
    note_session(host, session, &owner, name, accepted.job);
    Ok(accepted)
}

/// A job that runs in a session keeps it in use.
pub(super) fn note_session(
    host: &Host,
    session: Option<SessionId>,
    owner: &Principal,
    service: String,
    job: JobId,
) {
    if let Some(session) = session {
        host.data.works(SessionJob { session, owner: owner.clone(), service, job });
    }
}

/// What a call asks for, as work for the engine.
pub(super) async fn work(
    host: &Host,
    service: &ServiceEntry,
    mut call: Call,
) -> Result<JobRequest, Fault> {
    // A job's inputs are whole when it is accepted.
    call.arguments = host.spool.collected(call.arguments).await?;
    let bytes_in = call.arguments.iter().map(bytes).sum();
    service.provider.fetch(host, &mut call).await?;
    let (mut fingerprint, mut content) = (0, None);
    if call.options.key.is_some() {
        let digested = digest(service, &call.options, call.operation.clone(), call.arguments);
        (fingerprint, content, call.arguments) = digested.await?;
    }
    let (mut plan, placements) = service.provider.plan(host, &call.operation, call.arguments)?;
    plan.choose(&call.options)?;
    plan.reuse = content;
    let max_running = service.provider.max_running();
    Ok(JobRequest {
        service: call.service,
        operation: call.operation,
        owner: call.principal,
        key: call.options.key,
        fingerprint,
        plan,
        bytes_in,
        placements,
        max_running: max_running.unwrap_or(host.engine.settings().max_running),
        domain: None,
    })
}

fn check_key(host: &Host, options: &CallOptions) -> Result<(), Fault> {
    let most = host.settings.key_length;
    match &options.key {
        Some(key) if !(1..=most).contains(&key.chars().count()) => {
            let what = format!("an idempotency key has 1 to {most} characters");
            Err(Fault::new(FaultCode::InvalidValue, what)
                .parameter("key")
                .limit("key_length", format!("{most} characters")))
        }
        _ => Ok(()),
    }
}

/// Whether the session that a call names is there; it was used now.
async fn check_session(host: &Host, options: &CallOptions, owner: &Principal) -> Result<(), Fault> {
    let Some(session) = options.session else { return Ok(()) };
    let Some(sessions) = host.data.sessions.clone() else {
        let what = "this server offers no sessions; leave the header session out";
        return Err(Fault::new(FaultCode::NotSupported, what));
    };
    let owner = owner.clone();
    blocking(move || sessions.touch(&owner, &session)).await.map(drop)
}

/// The digest of a call, that by which an equal one is found if its caller takes results of that, and its arguments again.
async fn digest(
    service: &ServiceEntry,
    options: &CallOptions,
    operation: String,
    arguments: Vec<Argument>,
) -> Result<(u64, Option<String>, Vec<Argument>), Fault> {
    let reuses = options.key.as_ref().is_some_and(|key| key.starts_with(REUSE));
    // What a job leaves in its session, or brings somewhere, it has to make itself.
    let is_free = options.session.is_none() && options.outputs.iter().all(|it| it.to.is_none());
    let described = (reuses && is_free).then(|| service.plain_wsdl());
    let name = service.service().name.clone();
    let digest = tokio::task::spawn_blocking(move || {
        let fingerprint = fingerprint(&operation, &arguments)?;
        let about = |wsdl: String| content_digest(&[&name, &wsdl, &operation], &arguments);
        let content = described.map(about).transpose()?;
        Ok::<_, std::io::Error>((fingerprint, content, arguments))
    });
    match digest.await {
        Ok(Ok(digested)) => Ok(digested),
        _ => Err(Fault::new(FaultCode::Internal, "the message's data could not be read back")),
    }
}

/// What is asked about jobs of a service.
struct JobScope<'a> {
    engine: &'a Engine,
    service: &'a str,
    owner: &'a Principal,
}

impl JobScope<'_> {
    async fn perform(&self, verb: Verb, given: &Scalars) -> Result<Reply, Fault> {
        let Self { engine, service, owner } = *self;
        if verb == Verb::Jobs {
            let (limit, services) = (page(given.text("limit"))?, vec![service.to_owned()]);
            let filter = Filter {
                states: given.text("state").and_then(JobState::from_name).into_iter().collect(),
                after: given.text("after").map(job_id).transpose()?,
                ..Filter::new(owner.clone(), services, limit)
            };
            let (jobs, more) = engine.jobs(&filter).await?;
            return Ok(Reply::Jobs(JobPage { jobs, more }));
        }
        let job = job_id(given.text("job").unwrap_or_default())?;
        Ok(match verb {
            Verb::Running => Reply::Running(engine.running(owner, service, job).await?),
            Verb::Kill => {
                let (state, message) = engine.kill(owner, service, job).await?;
                Reply::Killed(KillResult { state, message })
            }
            Verb::Status => Reply::Status(Box::new(engine.status(owner, service, job).await?)),
            Verb::Log => {
                let stream = match given.text("stream") {
                    Some("stderr") => OutputStream::Stderr,
                    _ => OutputStream::Stdout,
                };
                let offset = offset(given.text("offset"))?;
                Reply::Log(engine.log(owner, service, job, stream, offset).await?)
            }
            Verb::Remove => {
                engine.remove(owner, service, job).await?;
                Reply::Removed
            }
            Verb::Call | Verb::Spawn | Verb::Init | Verb::Jobs | Verb::Results => {
                return Err(Fault::new(FaultCode::Internal, "a verb that is not about a job"));
            }
        })
    }
}

fn job_id(text: &str) -> Result<JobId, Fault> {
    JobId::from_str(lexical::trimmed(text)).map_err(|error| {
        let shown = lexical::shortened(text);
        Fault::new(FaultCode::NoSuchJob, format!("there is no job {shown:?}: {error}"))
            .parameter("job")
    })
}

fn page(limit: Option<&str>) -> Result<usize, Fault> {
    let limit = limit.map_or(Ok(100), str::parse::<usize>);
    limit.ok().filter(|limit| (1..=JOBS_PAGE).contains(limit)).ok_or_else(|| {
        Fault::new(FaultCode::ValueOutOfRange, format!("limit must be 1 to {JOBS_PAGE}"))
            .parameter("limit")
            .limit("jobs_page", JOBS_PAGE)
    })
}

fn offset(text: Option<&str>) -> Result<u64, Fault> {
    text.map_or(Ok(0), str::parse).map_err(|_| {
        Fault::new(FaultCode::ValueOutOfRange, "offset must be 0 or more").parameter("offset")
    })
}

//! What each verb does: from arguments to a job and back.

use std::str::FromStr;
use std::sync::Arc;

use fishplate_contract::{
    Argument, Call, CallOptions, Exposed, Fault, FaultCode, JobId, JobState, Principal, Value, Verb,
};
use fishplate_jobs::conclusion::Conclusion;
use fishplate_jobs::engine::{Accepted, Delivery, Ended, Engine, InSession, NewWork, fingerprint};
use fishplate_jobs::function;
use fishplate_jobs::plan::Plan;
use fishplate_jobs::program::Placement;
use fishplate_jobs::store::Filter;
use fishplate_jobs::workspace::Stream;

use super::fields;
use super::handle::Given;
use crate::data::blocking;
use crate::functions;
use crate::functions::references::{fetched, refers};
use crate::host::{Handler, Host, Hosted};
use crate::memory::Reserved;
use crate::sessions;

/// The most jobs that one `jobs` answers.
const JOBS_PAGE: usize = 1000;

/// What was asked for.
#[derive(Debug)]
pub(super) struct Asked<'h> {
    pub(super) exposed: &'h Exposed,
    pub(super) arguments: Vec<Argument>,
    pub(super) options: CallOptions,
    pub(super) principal: Principal,
}

/// Does what was asked for.
pub(super) async fn perform(
    host: &Host,
    hosted: &Arc<Hosted>,
    asked: Asked<'_>,
    memory: &mut Reserved,
) -> Result<Given, Fault> {
    let engine = &host.engine;
    let service = hosted.service().name.as_str();
    let Asked { exposed, arguments, options, principal } = asked;
    let outputs = match exposed.verb {
        Verb::Call if let Handler::Sessions(service) = &hosted.handler => {
            let operation = service.operation(&exposed.operation).ok_or_else(no_operation)?;
            sessions::answer(&host.data, operation, arguments, principal).await?
        }
        Verb::Call if functions::answers(hosted, &exposed.operation, &options) => {
            check_session(host, &options, &principal).await?;
            let by = functions::Caller { owner: &principal, options: &options };
            functions::call(host, hosted, &exposed.operation, arguments, by, memory).await?
        }
        Verb::Call => {
            let call = Call {
                service: service.to_owned(),
                operation: exposed.operation.clone(),
                arguments,
                options,
                principal,
            };
            return call_and_wait(host, hosted, call, memory).await;
        }
        Verb::Spawn => {
            let call = Call {
                service: service.to_owned(),
                operation: exposed.operation.clone(),
                arguments,
                options,
                principal,
            };
            let accepted = submit(host, hosted, call, Delivery::Later).await?;
            let job = accepted.job;
            let outputs = vec![Argument::text("job", job.to_string())];
            return Ok(Given { outputs, job: Some(job), release: None });
        }
        Verb::Results => {
            let given = checked(exposed, arguments)?;
            let job = job_id(given.text("job").unwrap_or_default())?;
            let end = engine.conclusion(&principal, service, &exposed.operation, job)?;
            hold(host, &end, memory).await?;
            engine.outcome(&principal, job, &end, &options.outputs).await?
        }
        verb => {
            let given = checked(exposed, arguments)?;
            on_jobs(engine, service, &principal, verb, &given).await?
        }
    };
    Ok(Given { outputs, ..Given::default() })
}

/// `call`: accepted as a job like any other, and waited for without a thread. If the caller hangs
/// up, the job goes on.
async fn call_and_wait(
    host: &Host,
    hosted: &Hosted,
    call: Call,
    memory: &mut Reserved,
) -> Result<Given, Fault> {
    let keyed = call.options.key.is_some();
    let delivery = if keyed { Delivery::Later } else { Delivery::Now };
    let owner = call.principal.clone();
    let accepted = submit(host, hosted, call, delivery).await?;
    // What the job was given was written to files.
    *memory = Reserved::default();
    let job = accepted.job;
    let ended = host.engine.wait(accepted).await?;
    let release = (!keyed && is_over(&ended)).then_some(job);
    if let Err(fault) = hold(host, &ended.conclusion, memory).await {
        // Its outputs are there for whoever asks again.
        return Err(if ended.kept { fault.job(job) } else { fault });
    }
    match host.engine.outcome(&owner, job, &ended.conclusion, &[]).await {
        Ok(outputs) => Ok(Given { outputs, job: keyed.then_some(job), release }),
        Err(fault) => {
            if let Some(job) = release {
                host.engine.release(job);
            }
            Err(fault)
        }
    }
}

/// Reserves memory for a job's outputs until they are sent, before they are read.
async fn hold(host: &Host, end: &Conclusion, memory: &mut Reserved) -> Result<(), Fault> {
    host.memory.resize(memory, end.in_memory(), host.settings.body_stall).await
}

/// Nobody asks for this job again once its end is told. Of one whose outputs could not be sent, they
/// are there, and the job's ID in the fault leads to them.
fn is_over(ended: &Ended) -> bool {
    ended.kept && !ended.conclusion.unsent
}

async fn submit(
    host: &Host,
    hosted: &Hosted,
    mut call: Call,
    delivery: Delivery,
) -> Result<Accepted, Fault> {
    let most = host.settings.key_length;
    if let Some(key) = &call.options.key
        && !(1..=most).contains(&key.chars().count())
    {
        let what = format!("an idempotency key has 1 to {most} characters");
        return Err(Fault::new(FaultCode::InvalidValue, what)
            .parameter("key")
            .limit("key_length", format!("{most} characters")));
    }
    check_session(host, &call.options, &call.principal).await?;
    if let Handler::Functions(service) = &hosted.handler
        && refers(&call.arguments)
    {
        let operation = service.entry(&call.operation)?.operation();
        let given = std::mem::take(&mut call.arguments);
        let session = call.options.session;
        call.arguments = fetched(host, operation, given, &call.principal, session).await?;
    }
    let mut fingerprint = 0;
    if call.options.key.is_some() {
        (fingerprint, call.arguments) = digest(call.operation.clone(), call.arguments).await?;
    }
    let (mut plan, placements) = plan(host, hosted, &call.operation, call.arguments)?;
    plan.choose(&call.options)?;
    let max_running = hosted.handler.max_running();
    let max_running = max_running.unwrap_or(host.engine.settings().max_running);
    let work = NewWork {
        service: call.service,
        operation: call.operation,
        owner: call.principal,
        key: call.options.key,
        fingerprint,
        plan,
        placements,
        max_running,
        delivery,
    };
    let session = call.options.session;
    let (owner, service) = (work.owner.clone(), work.service.clone());
    let accepted = host.engine.submit(work).await?;
    if let Some(session) = session {
        host.data.works(InSession { session, owner, service, job: accepted.job });
    }
    Ok(accepted)
}

/// How to run a call as a job.
fn plan(
    host: &Host,
    hosted: &Hosted,
    operation: &str,
    arguments: Vec<Argument>,
) -> Result<(Plan, Vec<Placement>), Fault> {
    match &hosted.handler {
        Handler::Program(program) => program.plan(operation, arguments),
        Handler::Sessions(_) => Err(no_operation()),
        Handler::Functions(service) => {
            let entry = service.entry(operation)?;
            let arguments = entry.accept(arguments)?;
            let planned = function::plan::plan(service, operation, arguments, &host.worker);
            let (mut plan, placements) = planned?;
            plan.limits.disk_reserve = host.engine.settings().disk_reserve;
            Ok((plan, placements))
        }
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

fn no_operation() -> Fault {
    Fault::new(FaultCode::UnknownOperation, "the service has no such operation")
}

/// The digest of a call, and its arguments again.
async fn digest(
    operation: String,
    arguments: Vec<Argument>,
) -> Result<(u64, Vec<Argument>), Fault> {
    let digest = tokio::task::spawn_blocking(move || {
        fingerprint(&operation, &arguments).map(|digest| (digest, arguments))
    });
    match digest.await {
        Ok(Ok(digested)) => Ok(digested),
        _ => Err(Fault::new(FaultCode::Internal, "the message's data could not be read back")),
    }
}

async fn on_jobs(
    engine: &Engine,
    service: &str,
    owner: &Principal,
    verb: Verb,
    given: &Checked,
) -> Result<Vec<Argument>, Fault> {
    if verb == Verb::Jobs {
        let filter = Filter {
            owner: owner.clone(),
            service: service.to_owned(),
            state: given.text("state").and_then(JobState::from_name),
            after: given.text("after").map(job_id).transpose()?,
            limit: page(given.text("limit"))?,
        };
        let (reports, more) = engine.jobs(&filter)?;
        return Ok(fields::jobs(&reports, more));
    }
    let job = job_id(given.text("job").unwrap_or_default())?;
    Ok(match verb {
        Verb::Running => {
            let running = engine.running(owner, service, job)?;
            vec![Argument::text("running", running.to_string())]
        }
        Verb::Kill => {
            let (state, message) = engine.kill(owner, service, job).await?;
            vec![Argument::text("state", state.name()), Argument::text("message", message)]
        }
        Verb::Status => fields::report(&engine.status(owner, service, job)?),
        Verb::Log => {
            let stream = match given.text("stream") {
                Some("stderr") => Stream::Stderr,
                _ => Stream::Stdout,
            };
            let offset = offset(given.text("offset"))?;
            fields::log(&engine.log(owner, service, job, stream, offset)?)
        }
        Verb::Remove => {
            engine.remove(owner, service, job).await?;
            vec![Argument::text("removed", "true")]
        }
        Verb::Call | Verb::Spawn | Verb::Jobs | Verb::Results => {
            return Err(Fault::new(FaultCode::Internal, "a verb that is not about a job"));
        }
    })
}

/// Scalars, each accepted by its parameter.
struct Checked(Vec<(String, String)>);

impl Checked {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(its, _)| its == name).map(|(_, text)| text.as_str())
    }
}

fn checked(exposed: &Exposed, arguments: Vec<Argument>) -> Result<Checked, Fault> {
    let mut checked = Vec::new();
    for argument in arguments {
        let parameter = exposed.signature.input(&argument.name);
        if let (Value::Text(text), Some(parameter)) = (&argument.value, parameter) {
            let text = parameter.accept(text)?.to_owned();
            checked.push((argument.name, text));
        }
    }
    Ok(Checked(checked))
}

fn job_id(text: &str) -> Result<JobId, Fault> {
    JobId::from_str(text).map_err(|error| {
        let shown = fishplate_contract::lexical::shortened(text);
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

#[cfg(test)]
mod tests {
    use fishplate_contract::Timestamp;

    use super::*;

    #[test]
    fn a_job_whose_outputs_could_not_be_sent_is_kept_and_named() {
        let (failed, code) = (JobState::Failed, FaultCode::TransferFailed);
        let mut conclusion = Conclusion::without_ending(failed, code, "nobody there", Timestamp(0));
        let ended = |conclusion: &Conclusion, kept| Ended {
            conclusion: Arc::new(conclusion.clone()),
            kept,
        };
        assert!(is_over(&ended(&conclusion, true)));
        assert!(!is_over(&ended(&conclusion, false)), "it is gone already");
        conclusion.unsent = true;
        assert!(!is_over(&ended(&conclusion, true)));
        let job = JobId::from_bytes([1; 16]);
        assert_eq!(conclusion.fault(job).unwrap().job, Some(job));
    }
}

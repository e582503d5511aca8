//! Functions of this process behind the same faces as programs: a call runs here, within bounds of
//! its own, and leaves no record; a job runs in a process of the same binary.
//!
//! A program that offers functions of its own begins with [`run_if_child`];
//! `examples/functions` is one.

pub(crate) mod references;

use std::ffi::OsString;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fishplate_contract::{Argument, CallOptions, Fault, FaultCode, Outcome, Principal};
use fishplate_jobs::executor::local::keeper_main;
use fishplate_jobs::function::context::Context;
use fishplate_jobs::function::worker::{self, Ended};
use fishplate_jobs::function::{Entry, Functions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::host::{Handler, Host, Hosted};
use crate::memory::{Reserved, held_by};
use crate::settings::Settings;

/// First argument of a process that runs a function as a job.
pub const WORKER: &str = "function";

/// First argument of the process that keeps a data directory's jobs.
const KEEPER: &str = "supervise";

/// Set in the environment of every job.
const JOB_VARIABLE: &str = "FISHPLATE_JOB";

/// When it is worth trying again after a full queue.
const RETRY_FULL_QUEUE: Duration = Duration::from_secs(1);

/// If this process was started by a server of this program, to keep its jobs (`supervise --data
/// DIR`) or as a job of a function (`function SERVICE OPERATION`), does that and does not return.
/// To be called first in the `main` of a program that offers functions of its own, before there is
/// a second thread; the functions are made only if they are needed.
pub fn run_if_child(functions: impl FnOnce() -> Vec<Functions>) {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [command, first, second] = &arguments[..] else { return };
    if command == KEEPER && first == "--data" {
        keeper_main(second.as_ref());
    }
    if command == WORKER
        && std::env::var_os(JOB_VARIABLE).is_some()
        && let (Some(service), Some(operation)) = (first.to_str(), second.to_str())
    {
        process::exit(run_worker(&functions(), service, operation));
    }
}

/// Runs a function in the workspace that is the current directory, as a job; gives the process's
/// exit code.
#[expect(clippy::print_stderr, reason = "standard error is the job's log")]
pub fn run_worker(functions: &[Functions], service: &str, operation: &str) -> i32 {
    match worker::run(functions, service, operation, ".".as_ref()) {
        Ok(Ended::Well) => 0,
        Ok(Ended::WithFault) => 1,
        Err(error) => {
            eprintln!("the function {operation} of {service} could not be run: {error}");
            2
        }
    }
}

/// How many functions run at once, and how many wait for that.
#[derive(Debug)]
pub struct Gate {
    places: Arc<Semaphore>,
    running: usize,
    waiting: AtomicUsize,
    queued: usize,
}

impl Gate {
    pub(crate) fn new(settings: &Settings) -> Self {
        let running = settings.functions_running.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(running)),
            running,
            waiting: AtomicUsize::new(0),
            queued: settings.functions_queued,
        }
    }

    /// Waits for a place among those who run.
    async fn enter(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let full = || {
            let what = format!(
                "{} functions run already, and {} calls wait; try again in {} s",
                self.running,
                self.queued,
                RETRY_FULL_QUEUE.as_secs()
            );
            Fault::new(FaultCode::QueueFull, what)
                .limit("functions_queued", self.queued)
                .retry_after(RETRY_FULL_QUEUE)
        };
        let waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queued {
            drop(waiting);
            return Err(full());
        }
        let place = Arc::clone(&self.places).acquire_owned().await;
        place.map_err(|_| full())
    }
}

/// Somebody who waits; a caller who hangs up waits no more.
struct Waiting<'w>(&'w AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells a function that its result is not wanted any more, whatever the reason.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether a call is answered here. One with an idempotency key is a job, whose record keeps the
/// key's promise, unless the function keeps it by itself.
pub(crate) fn answers(hosted: &Hosted, operation: &str, options: &CallOptions) -> bool {
    match (&hosted.handler, &options.key) {
        (Handler::Program(_) | Handler::Sessions(_), _) => false,
        (Handler::Functions(_), None) => true,
        (Handler::Functions(functions), Some(_)) => {
            functions.entry(operation).is_ok_and(Entry::is_repeatable)
        }
    }
}

/// Who calls a function, and what they want beside its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'c> {
    pub(crate) owner: &'c Principal,
    pub(crate) options: &'c CallOptions,
}

/// Runs a function here.
///
/// # Errors
/// The faults of programs for arguments that are wrong; `QueueFull`; `LimitExceeded` if it takes
/// too long; `TimedOut` if there is no memory for its outputs; the function's own.
pub(crate) async fn call(
    host: &Host,
    hosted: &Arc<Hosted>,
    operation: &str,
    arguments: Vec<Argument>,
    by: Caller<'_>,
    memory: &mut Reserved,
) -> Outcome {
    let (entry, _) = entry(hosted, operation)?;
    let arguments = match references::refers(&arguments) {
        true => {
            let session = by.options.session;
            references::fetched(host, entry.operation(), arguments, by.owner, session).await?
        }
        false => arguments,
    };
    let outputs = run(host, hosted, operation, arguments, memory).await?;
    if by.options.outputs.is_empty() && by.options.session.is_none() {
        return Ok(outputs);
    }
    let outputs = references::sent(host, entry.operation(), outputs, by.options, by.owner).await?;
    memory.shrink(held_by(&outputs));
    Ok(outputs)
}

async fn run(
    host: &Host,
    hosted: &Arc<Hosted>,
    operation: &str,
    arguments: Vec<Argument>,
    memory: &mut Reserved,
) -> Outcome {
    let (entry, index) = entry(hosted, operation)?;
    let arguments = entry.accept(arguments)?;
    let most = host.settings.function_memory as u64;
    let mut context = Context::new(&host.scratch).with_most_in_memory(most);
    if entry.is_quick() {
        let outputs = entry.run(arguments, &context)?;
        hold(host, &outputs, memory).await?;
        return Ok(outputs);
    }
    let (limit, most) = match entry.most_time() {
        Some(most) => ("wall_time", most),
        None => ("function_time", host.settings.function_time),
    };
    let place = host.gate.enter().await?;
    let cancel = Cancel(context.cancellation());
    let hosted = Arc::clone(hosted);
    let running = tokio::task::spawn_blocking(move || {
        // It keeps its place for as long as it runs, wanted or not.
        let outcome = match &hosted.handler {
            Handler::Functions(functions) => functions.at(index).run(arguments, &context),
            Handler::Program(_) | Handler::Sessions(_) => Err(not_functions()),
        };
        (outcome, place)
    });
    match timeout(most, running).await {
        Ok(Ok((outcome, _place))) => {
            // It keeps its place until there is memory for its outputs, so that those who wait for
            // it are no more than those who run.
            let outputs = outcome?;
            hold(host, &outputs, memory).await?;
            Ok(outputs)
        }
        Ok(Err(error)) => {
            tracing::error!(%error, operation, "a function was not run");
            Err(Fault::new(FaultCode::Internal, "the function was not run; try again"))
        }
        Err(_) => {
            drop(cancel);
            let most = format!("{} s", most.as_secs_f64());
            let what = format!(
                "{operation} was given up: it ran into the limit {limit} of {most}; what takes \
                 longer is spawned as a job"
            );
            Err(Fault::new(FaultCode::LimitExceeded, what).limit(limit, most))
        }
    }
}

/// Reserves memory for outputs until they are sent. The arguments are gone by now.
async fn hold(host: &Host, outputs: &[Argument], memory: &mut Reserved) -> Result<(), Fault> {
    host.memory.resize(memory, held_by(outputs), host.settings.body_stall).await
}

fn entry<'h>(hosted: &'h Hosted, operation: &str) -> Result<(&'h Entry, usize), Fault> {
    match &hosted.handler {
        Handler::Functions(functions) => {
            let index = functions.index_of(operation)?;
            Ok((functions.at(index), index))
        }
        Handler::Program(_) | Handler::Sessions(_) => Err(not_functions()),
    }
}

fn not_functions() -> Fault {
    Fault::new(FaultCode::Internal, "a service of functions that is none")
}

#[cfg(test)]
mod tests;

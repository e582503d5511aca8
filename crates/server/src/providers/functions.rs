//! Functions of this process behind the same faces as programs: a call runs here, within bounds of
//! its own, and leaves no record; a job runs in a process of the same binary ([`crate::worker`]).

mod references;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fishplate_contract::{Argument, Call, Fault, FaultCode, Outcome, Payload, Service};
use fishplate_data::stream::limited;
use fishplate_jobs::function::context::Context;
use fishplate_jobs::function::{self, FunctionEntry, Functions};
use tokio::runtime::{self, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::dispatch::provider::{PlannedJob, Provider, ProviderFuture};
use crate::dispatch::usage::CallUsage;
use crate::host::Host;
use crate::memory::{MemoryReservation, held_by};
use crate::settings::Settings;

/// When it is worth trying again after a full queue.
const RETRY_FULL_QUEUE: Duration = Duration::from_secs(1);

/// How many functions run at once, and how many wait for that.
#[derive(Debug)]
pub struct FunctionSlots {
    places: Arc<Semaphore>,
    threads: Threads,
    running: usize,
    waiting: AtomicUsize,
    queued: usize,
}

impl FunctionSlots {
    /// So many places, and so many who wait for one.
    pub(crate) fn new(running: usize, queued: usize) -> Self {
        let running = running.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(running)),
            threads: Threads::new(running),
            running,
            waiting: AtomicUsize::new(0),
            queued,
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
        let waiting = SlotRequest(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queued {
            drop(waiting);
            return Err(full());
        }
        let place = Arc::clone(&self.places).acquire_owned().await;
        place.map_err(|_| full())
    }
}

/// No more threads than places. (The runtime of the server starts another one whenever none is idle at that instant: with 50 places it had 142
/// to 300, and each keeps a third of a mebibyte of the allocator's.)
#[derive(Debug)]
struct Threads(Option<Runtime>);

impl Threads {
    fn new(most: usize) -> Self {
        let started = AtomicUsize::new(0);
        let name = move || format!("function-{}", started.fetch_add(1, Ordering::Relaxed) + 1);
        let runtime = runtime::Builder::new_current_thread()
            .max_blocking_threads(most)
            .thread_name_fn(name)
            .build();
        Self(Some(runtime.expect("without a driver it asks nothing of the system")))
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let runtime = self.0.as_ref().expect("until it is dropped");
        runtime.handle().spawn_blocking(work)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // What still runs is not waited for.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Somebody who waits; a caller who hangs up waits no more.
struct SlotRequest<'w>(&'w AtomicUsize);

impl Drop for SlotRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells a function that its result is not wanted any more, whatever the reason.
struct CancelFlag(Arc<AtomicBool>);

impl Drop for CancelFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A service of functions.
#[derive(Clone, Debug)]
pub struct FunctionProvider(Arc<Functions>);

impl FunctionProvider {
    /// Of these functions.
    pub fn new(functions: Functions) -> Self {
        Self(Arc::new(functions))
    }
}

impl Provider for FunctionProvider {
    fn service(&self) -> &Service {
        self.0.service()
    }

    fn about_jobs(&self) -> Option<&str> {
        Some(
            "A call is answered by the server itself. What is spawned is a job, and so is a call \
             with an idempotency key, unless the function may as well run twice.",
        )
    }

    fn memory(&self, settings: &Settings) -> usize {
        settings.function_memory
    }

    fn max_running(&self) -> Option<u32> {
        self.0.most_running()
    }

    /// One with an idempotency key is a job, whose record keeps the key's promise, unless the
    /// function keeps it by itself.
    fn answers(&self, call: &Call) -> bool {
        let repeatable = || self.0.entry(&call.operation).is_ok_and(FunctionEntry::is_repeatable);
        call.options.key.is_none() || repeatable()
    }

    fn answer<'a>(
        &'a self,
        host: &'a Host,
        call: Call,
        usage: &'a CallUsage,
        memory: &'a mut MemoryReservation,
    ) -> ProviderFuture<'a, Vec<Argument>> {
        Box::pin(answer(&self.0, host, call, usage, memory))
    }

    fn fetch<'a>(&'a self, host: &'a Host, call: &'a mut Call) -> ProviderFuture<'a, ()> {
        Box::pin(async move { fetch(host, self.0.entry(&call.operation)?, call).await })
    }

    fn plan(
        &self,
        host: &Host,
        operation: &str,
        arguments: Vec<Argument>,
    ) -> Result<PlannedJob, Fault> {
        let arguments = self.0.entry(operation)?.accept(arguments)?;
        let planned = function::plan::plan(&self.0, operation, arguments, &host.worker);
        let (mut plan, placements) = planned?;
        plan.limits.disk_reserve = host.engine.settings().disk_reserve;
        Ok((plan, placements))
    }
}

/// Brings what the arguments refer to here.
async fn fetch(host: &Host, entry: &FunctionEntry, call: &mut Call) -> Result<(), Fault> {
    if references::refers(&call.arguments) {
        let given = std::mem::take(&mut call.arguments);
        let (owner, session) = (&call.principal, call.options.session);
        let fetched = references::fetched(host, entry.operation(), given, owner, session);
        // On the heap: a call that refers to nothing must not carry its room.
        call.arguments = Box::pin(fetched).await?;
    }
    Ok(())
}

/// Runs a function here.
///
/// # Errors
/// The faults of programs for arguments that are wrong; `QueueFull`; `LimitExceeded` if it takes
/// too long; `TimedOut` if there is no memory for its outputs; the function's own.
async fn answer(
    functions: &Arc<Functions>,
    host: &Host,
    mut call: Call,
    usage: &CallUsage,
    memory: &mut MemoryReservation,
) -> Outcome {
    let entry = functions.entry(&call.operation)?;
    fetch(host, entry, &mut call).await?;
    let Call { operation, arguments, options, principal, .. } = call;
    let outputs = run(functions, host, &operation, arguments, usage, memory).await?;
    if options.outputs.is_empty() && options.session.is_none() {
        return Ok(outputs);
    }
    let sent = references::sent(host, entry.operation(), outputs, &options, &principal);
    let outputs = Box::pin(sent).await?;
    memory.shrink(held_by(&outputs));
    Ok(outputs)
}

async fn run(
    functions: &Arc<Functions>,
    host: &Host,
    operation: &str,
    arguments: Vec<Argument>,
    usage: &CallUsage,
    memory: &mut MemoryReservation,
) -> Outcome {
    let index = functions.index_of(operation)?;
    let entry = functions.at(index);
    let arguments = entry.accept(arguments)?;
    let most = host.settings.function_memory as u64;
    let context = Context::new(&host.scratch).with_most_in_memory(most);
    // One that reads while its caller sends, or writes while its caller reads, waits for the caller: its
    // places and its time are others, and no caller's slowness takes those of functions that compute.
    let reads = arguments.iter().any(|argument| argument.value.is_stream());
    if !reads && entry.is_quick(&arguments) {
        let outputs = usage.measure_quick(|| entry.run(arguments, &context))?;
        hold(host, &outputs, memory).await?;
        return Ok(outputs);
    }
    let streams = reads || entry.gives_streams();
    let (limit, most) = match entry.most_time() {
        Some(most) => ("wall_time", most),
        None if streams => ("stream_time", host.settings.stream_time),
        None => ("function_time", host.settings.function_time),
    };
    let slots = if streams { &host.streams } else { &host.gate };
    let place = Arc::new(slots.enter().await?);
    let over = over(operation, limit, most);
    let until = Instant::now() + most;
    // It keeps its place for as long as it runs, wanted or not.
    let mut context = context.with_place(place.clone());
    let cancel = CancelFlag(context.cancellation());
    let functions = Arc::clone(functions);
    let usage = usage.clone();
    let running =
        slots.threads.run(move || usage.measure(|| functions.at(index).run(arguments, &context)));
    match timeout_at(until, running).await {
        Ok(Ok(outcome)) => {
            // It keeps its place until there is memory for its outputs, so that those who wait for
            // it are no more than those who run.
            let mut outputs = outcome?;
            hold(host, &outputs, memory).await?;
            for output in &mut outputs {
                limit_stream(output, until, &over)?;
            }
            Ok(outputs)
        }
        Ok(Err(error)) => {
            tracing::error!(%error, operation, "a function was not run");
            Err(Fault::new(FaultCode::Internal, "the function was not run; try again"))
        }
        Err(_) => {
            drop(cancel);
            Err(over)
        }
    }
}

/// The fault of a call that took too long.
fn over(operation: &str, limit: &str, most: Duration) -> Fault {
    let most = format!("{} s", most.as_secs_f64());
    let what = format!(
        "{operation} was given up: it ran into the limit {limit} of {most}; what takes longer is \
         spawned as a job"
    );
    Fault::new(FaultCode::LimitExceeded, what).limit(limit, most)
}

/// A function runs for as long as its output is being made, and no longer than it may.
fn limit_stream(output: &mut Argument, until: Instant, over: &Fault) -> Result<(), Fault> {
    if let Some(payload) = output.value.payload_mut()
        && let Payload::Stream(stream) = payload
    {
        let over = over.clone();
        *payload = Payload::Stream(limited(stream, async move {
            sleep_until(until).await;
            over
        })?);
    }
    Ok(())
}

/// Reserves memory for outputs until they are sent. The arguments are gone by now.
async fn hold(
    host: &Host,
    outputs: &[Argument],
    memory: &mut MemoryReservation,
) -> Result<(), Fault> {
    host.memory.resize(memory, held_by(outputs), host.settings.body_stall).await
}

#[cfg(test)]
mod tests;

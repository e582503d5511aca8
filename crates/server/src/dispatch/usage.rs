//! What a call that this process answers uses. It is noted once all of it is over: the function, the streams that it
//! reads and writes, and whoever waited. So it is noted too if the caller hangs up; and not at all, if nothing began.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fishplate_contract::{
    Argument, ByteStream, Call, Chunks, Clock as _, Fault, JobState, Outcome, Payload, Principal,
    SystemClock, Value,
};
use fishplate_jobs::engine::Engine;
use fishplate_jobs::store::UsageRecord;
use futures_util::Stream;

/// What a call uses. Whoever has a part in it holds one; with the last it is noted.
#[derive(Clone, Debug)]
pub struct CallUsage(Arc<CallRecord>);

#[derive(Debug)]
struct CallRecord {
    /// `None`: it is not counted.
    engine: Option<Engine>,
    owner: Principal,
    service: String,
    operation: String,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    /// When the function began.
    begun: Option<Instant>,
    bytes_in: u64,
    bytes_out: u64,
    cpu: Duration,
    /// How it ended; `None`: whoever called went before.
    state: Option<JobState>,
    /// Outputs that are not all read yet.
    streams: usize,
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

impl CallUsage {
    /// Of a call of this service, by which the streams among its arguments are counted.
    ///
    /// # Errors
    /// If somebody reads one of them already.
    pub(super) fn of(engine: &Engine, service: &str, call: &mut Call) -> Result<Self, Fault> {
        let usage = Self(Arc::new(CallRecord {
            engine: Some(engine.clone()),
            owner: call.principal.clone(),
            service: service.to_owned(),
            operation: call.operation.clone(),
            used: Mutex::default(),
        }));
        let bytes_in = call.arguments.iter().map(bytes).sum();
        usage.used().bytes_in = bytes_in;
        call.arguments.iter_mut().try_for_each(|it| usage.count(it, Direction::In).map(drop))?;
        Ok(usage)
    }

    /// Of a call that is not counted.
    pub fn none() -> Self {
        Self(Arc::new(CallRecord {
            engine: None,
            owner: Principal::anonymous(),
            service: String::new(),
            operation: String::new(),
            used: Mutex::default(),
        }))
    }

    /// Does the work of the call, on this thread.
    pub(crate) fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        self.used().begun.get_or_insert_with(Instant::now);
        let before = thread_time();
        let done = work();
        self.used().cpu += thread_time().saturating_sub(before);
        done
    }

    /// Does work that takes microseconds. All of its time counts as the processor's: to ask the system for that takes
    /// two calls, longer than the work.
    pub(crate) fn measure_quick<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        self.used().begun.get_or_insert(begun);
        let done = work();
        self.used().cpu += begun.elapsed();
        done
    }

    /// It has answered; streams among its outputs are counted as they are read.
    ///
    /// # Errors
    /// If somebody reads one of them already.
    pub(super) fn answered(&self, mut outcome: Outcome) -> Outcome {
        match &mut outcome {
            Ok(outputs) => {
                let mut streams = 0;
                for output in outputs.iter_mut() {
                    streams += usize::from(self.count(output, Direction::Out)?);
                }
                let mut used = self.used();
                used.bytes_out += outputs.iter().map(bytes).sum::<u64>();
                used.streams = streams;
                used.state = (streams == 0).then_some(JobState::Done);
            }
            Err(_) => self.used().state = Some(JobState::Failed),
        }
        outcome
    }

    /// Has a stream counted, if this is one.
    fn count(&self, argument: &mut Argument, direction: Direction) -> Result<bool, Fault> {
        let Some(payload) = argument.value.payload_mut() else { return Ok(false) };
        let Payload::Stream(stream) = payload else { return Ok(false) };
        let chunks = stream.take()?;
        let counted = CountedStream { chunks, usage: self.clone(), direction };
        *payload = Payload::Stream(ByteStream::new(counted));
        Ok(true)
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        let used = std::mem::take(self.used.get_mut().unwrap_or_else(PoisonError::into_inner));
        let (Some(engine), Some(begun)) = (&self.engine, used.begun) else { return };
        let what = (std::mem::take(&mut self.service), std::mem::take(&mut self.operation));
        let state = used.state.unwrap_or(JobState::Killed);
        let (took, now) = (begun.elapsed(), SystemClock.now());
        let record = UsageRecord::without_job(self.owner.clone(), what, state, took, now);
        engine.account(UsageRecord {
            cpu_seconds: used.cpu.as_secs_f64(),
            bytes_in: used.bytes_in,
            bytes_out: used.bytes_out,
            ..record
        });
    }
}

/// A stream whose bytes are counted.
struct CountedStream {
    chunks: Chunks,
    usage: CallUsage,
    direction: Direction,
}

impl Stream for CountedStream {
    type Item = Result<Bytes, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.chunks.as_mut().poll_next(context));
        let direction = self.direction;
        let mut used = self.usage.used();
        match (&next, direction) {
            (Some(Ok(chunk)), Direction::In) => used.bytes_in += chunk.len() as u64,
            (Some(Ok(chunk)), Direction::Out) => used.bytes_out += chunk.len() as u64,
            (Some(Err(_)), Direction::Out) => used.state = Some(JobState::Failed),
            (None, Direction::Out) => {
                used.streams = used.streams.saturating_sub(1);
                if used.streams == 0 {
                    used.state.get_or_insert(JobState::Done);
                }
            }
            (_, Direction::In) => {}
        }
        drop(used);
        Poll::Ready(next)
    }
}

/// How many came with an argument, or go with an output; what is fetched, or is a stream, is counted then.
pub(super) fn bytes(argument: &Argument) -> u64 {
    match (&argument.value, argument.value.payload()) {
        (Value::Text(text), _) => text.len() as u64,
        (_, Some(Payload::Reference(_)) | None) => 0,
        (_, Some(payload)) => payload.len().unwrap_or(0),
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

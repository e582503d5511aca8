//! A service of this process as a [`Caller`]: what it asks for enters [`dispatch`](crate::dispatch) as
//! from every face.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{
    Argument, Array, CallError, CallFuture, CallOptions, Caller, Fault, FaultCode, FileHandle,
    JobFilter, JobId, JobPage, JobReport, KillResult, LogPage, LogStream, OutputChoice, Payload,
    Principal, ProgressCallback, Results, SharedFile, Value, Verb,
};
use fishplate_jobs::engine::EphemeralJob;
use fishplate_wire::bind;
use tokio::runtime::Handle;

use crate::audit::CALLER;
use crate::dispatch::perform::perform_counted;
use crate::dispatch::request::{Reply, Request, unlike};
use crate::host::{Host, ServiceEntry};
use crate::memory::MemoryReservation;

/// How often progress is told, and whether a job has ended that another process works on.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Calls a service of this process in the name of a principal.
#[derive(Clone, Debug)]
pub struct LocalCaller {
    host: Arc<Host>,
    service: Arc<ServiceEntry>,
    principal: Principal,
    /// From where the principal calls, if somebody else does in whose name this is; for the audit log.
    address: Option<IpAddr>,
}

impl LocalCaller {
    /// A caller of the service of that name.
    ///
    /// # Errors
    /// `UnknownService`.
    pub fn new(host: &Arc<Host>, service: &str, principal: Principal) -> Result<Self, Fault> {
        let service = host.service(service).cloned().ok_or_else(|| {
            Fault::new(FaultCode::UnknownService, format!("there is no service {service} here"))
        })?;
        Ok(Self { host: Arc::clone(host), service, principal, address: None })
    }

    /// The same, for a principal who calls from this address.
    pub(crate) fn with_address(self, address: Option<IpAddr>) -> Self {
        Self { address, ..self }
    }

    async fn ask(
        &self,
        verb: Verb,
        operation: &str,
        arguments: Vec<Argument>,
        options: CallOptions,
    ) -> Result<(Reply, MemoryReservation), Fault> {
        let definition = self.service.definition(verb, operation)?;
        let mut arguments =
            bind::accept(&definition.name, &definition.signature.inputs, arguments)?;
        for payload in arguments.iter_mut().filter_map(data) {
            if let Payload::Spooled(held) = payload {
                lend(held, None);
            }
        }
        let principal = self.principal.clone();
        let request = Request { service: &self.service, definition, arguments, options, principal };
        let mut memory = MemoryReservation::default();
        let performed = perform_counted(&self.host, request, &mut memory);
        let done = match self.address {
            Some(address) => Box::pin(CALLER.scope(address, performed)).await,
            None => performed.await,
        };
        Ok((done?, memory))
    }

    /// Asks for what gives results.
    async fn results(
        &self,
        verb: Verb,
        operation: &str,
        arguments: Vec<Argument>,
        options: CallOptions,
    ) -> Result<Results, CallError> {
        let (reply, memory) = self.ask(verb, operation, arguments, options).await?;
        let Reply::Results { mut results, ephemeral } = reply else {
            return Err(unlike(verb).into());
        };
        let until = Arc::new(Until { ephemeral, runtime: Handle::current() });
        let memory = Arc::new(memory);
        for payload in results.outputs.iter_mut().filter_map(data) {
            match payload {
                Payload::Inline(bytes) => *bytes = counted(bytes, &memory),
                Payload::Pieces(pieces) => {
                    *pieces = pieces.iter().map(|piece| counted(piece, &memory)).collect();
                }
                Payload::Spooled(held) => lend(held, Some(&until)),
                Payload::Reference(_) | Payload::Stream(_) => {}
            }
        }
        Ok(results)
    }

    /// Asks for what is about jobs.
    async fn about(&self, verb: Verb, arguments: Vec<Argument>) -> Result<Reply, Fault> {
        Ok(self.ask(verb, "", arguments, CallOptions::default()).await?.0)
    }
}

/// The argument that names a job.
fn job(job: JobId) -> Argument {
    Argument::text("job", job.to_string())
}

impl Caller for LocalCaller {
    fn call<'a>(
        &'a self,
        operation: &'a str,
        arguments: Vec<Argument>,
        options: CallOptions,
    ) -> CallFuture<'a, Results> {
        Box::pin(self.results(Verb::Call, operation, arguments, options))
    }

    fn spawn<'a>(
        &'a self,
        operation: &'a str,
        arguments: Vec<Argument>,
        options: CallOptions,
    ) -> CallFuture<'a, JobId> {
        Box::pin(async move {
            let (reply, _) = self.ask(Verb::Spawn, operation, arguments, options).await?;
            let Reply::Spawned(job) = reply else { return Err(unlike(Verb::Spawn).into()) };
            Ok(job.id)
        })
    }

    fn results<'a>(
        &'a self,
        operation: &'a str,
        of: JobId,
        outputs: Vec<OutputChoice>,
    ) -> CallFuture<'a, Results> {
        let options = CallOptions { outputs, ..CallOptions::default() };
        Box::pin(self.results(Verb::Results, operation, vec![job(of)], options))
    }

    fn status(&self, of: JobId) -> CallFuture<'_, JobReport> {
        Box::pin(async move {
            let reply = self.about(Verb::Status, vec![job(of)]).await?;
            let Reply::Status(report) = reply else { return Err(unlike(Verb::Status).into()) };
            Ok(*report)
        })
    }

    fn wait<'a>(&'a self, of: JobId, progress: ProgressCallback<'a>) -> CallFuture<'a, JobReport> {
        Box::pin(async move {
            loop {
                // Before it is asked how it stands, so that its end is not missed.
                let end = self.host.engine.end_of(of);
                let report = self.status(of).await?;
                progress(&report);
                if report.state.is_final() {
                    return Ok(report);
                }
                let _ = tokio::time::timeout(LOOK_EVERY, end).await;
            }
        })
    }

    fn kill(&self, of: JobId) -> CallFuture<'_, KillResult> {
        Box::pin(async move {
            let reply = self.about(Verb::Kill, vec![job(of)]).await?;
            let Reply::Killed(killed) = reply else { return Err(unlike(Verb::Kill).into()) };
            Ok(killed)
        })
    }

    fn log(&self, of: JobId, stream: LogStream, offset: u64) -> CallFuture<'_, LogPage> {
        Box::pin(async move {
            let stream = Argument::text("stream", stream.name());
            let arguments = vec![job(of), stream, Argument::text("offset", offset.to_string())];
            let reply = self.about(Verb::Log, arguments).await?;
            let Reply::Log(page) = reply else { return Err(unlike(Verb::Log).into()) };
            Ok(page)
        })
    }

    fn jobs(&self, filter: JobFilter) -> CallFuture<'_, JobPage> {
        Box::pin(async move {
            let reply = self.about(Verb::Jobs, filter.arguments()).await?;
            let Reply::Jobs(page) = reply else { return Err(unlike(Verb::Jobs).into()) };
            Ok(page)
        })
    }

    fn remove(&self, of: JobId) -> CallFuture<'_, ()> {
        Box::pin(async move { Ok(self.about(Verb::Remove, vec![job(of)]).await.map(drop)?) })
    }
}

/// Keeps the job whose files results are as long as they are used; it is forgotten afterwards.
#[derive(Debug)]
struct Until {
    ephemeral: Option<EphemeralJob>,
    runtime: Handle,
}

impl Drop for Until {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        self.ephemeral.take().into_iter().for_each(EphemeralJob::delivered);
    }
}

fn lend(held: &mut Arc<dyn FileHandle>, until: Option<&Arc<Until>>) {
    let (path, len) = (held.path().to_owned(), held.len());
    *held = Arc::new(SharedFile { path, len, guard: (Arc::clone(held), until.cloned()) });
}

/// Bytes that are counted in the memory of all messages until the last part of them is gone.
struct CountedBytes {
    bytes: Bytes,
    _memory: Arc<MemoryReservation>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn counted(bytes: &Bytes, memory: &Arc<MemoryReservation>) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes: bytes.clone(), _memory: Arc::clone(memory) })
}

/// The data of a value.
fn data(argument: &mut Argument) -> Option<&mut Payload> {
    match &mut argument.value {
        Value::Data(data) | Value::Array(Array { data, .. }) => Some(data),
        Value::Text(_) | Value::Record(_) => None,
    }
}

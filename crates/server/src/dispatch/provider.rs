//! What runs the operations of a service. A new kind of service is one of these, in a file of
//! [`crate::providers`], and one line in [`crate::assembly`].

use std::fmt::Debug;
use std::path::Path;
use std::pin::Pin;

use fishplate_contract::{
    Argument, Call, Fault, FaultCode, Interface, Service, Verb, VerbDefinition,
};
use fishplate_programs::plan::Plan;
use fishplate_programs::program::InputPlacement;

use super::usage::CallUsage;
use crate::host::Host;
use crate::memory::MemoryReservation;
use crate::settings::Settings;

/// What a provider is busy with.
pub type ProviderFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// How to run a call as a job, and what is put into its workspace when it is accepted.
pub type PlannedJob = (Plan, Vec<InputPlacement>);

/// What runs the operations of a service: in this process, or as jobs.
pub trait Provider: Debug + Send + Sync {
    /// What it offers.
    fn service(&self) -> &Service;

    /// Its verbs.
    fn interface(&self) -> Interface {
        Interface::of(self.service())
    }

    /// Whether it is the server's own, and not one that somebody serves with it.
    fn is_built_in(&self) -> bool {
        false
    }

    /// Which of its calls are jobs, in words; `None`: there are no jobs of it.
    fn about_jobs(&self) -> Option<&str>;

    /// Bytes of a message's payloads that may stay in memory because they are read there; the faces' own
    /// limits are for those that become files in the end.
    fn memory(&self, _: &Settings) -> usize {
        0
    }

    /// How many of its jobs run at once; `None`: as many as the server allows.
    fn max_running(&self) -> Option<u32> {
        None
    }

    /// How many ranks its program may be at once, of all domains together; `None`: it is no rank.
    fn ranks(&self) -> Option<u32> {
        None
    }

    /// Has a plan's program find libraries in this directory before all others.
    fn lead_to_libraries(&self, _: &mut Plan, _: &Path) {}

    /// Whether this process answers a call, which then is no job.
    fn answers(&self, _: &Call) -> bool {
        false
    }

    /// Answers a call that it [answers](Self::answers). `usage` [measures](CallUsage::measure) its work; `memory` is
    /// what the arguments have, and is for the outputs afterwards.
    fn answer<'a>(
        &'a self,
        _: &'a Host,
        call: Call,
        _: &'a CallUsage,
        _: &'a mut MemoryReservation,
    ) -> ProviderFuture<'a, Vec<Argument>> {
        Box::pin(async move { Err(no_operation(&call.operation)) })
    }

    /// Brings here what the arguments refer to, if that can't be done as a part of the job.
    fn fetch<'a>(&'a self, _: &'a Host, _: &'a mut Call) -> ProviderFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// How to run a call as a job.
    ///
    /// # Errors
    /// A fault that names the parameter and says what would be right.
    fn plan(&self, _: &Host, operation: &str, _: Vec<Argument>) -> Result<PlannedJob, Fault> {
        Err(no_operation(operation))
    }
}

/// The operations of a service under their own names, and no verbs about jobs.
pub fn calls_only(service: &Service) -> Interface {
    let verbs = service.operations.iter().map(|operation| VerbDefinition {
        name: operation.name.clone(),
        verb: Verb::Call,
        operation: operation.name.clone(),
        documentation: operation.documentation.clone(),
        signature: operation.signature.clone(),
    });
    Interface { verbs: verbs.collect() }
}

/// The fault of a call that nothing here can do.
pub fn no_operation(operation: &str) -> Fault {
    let what = format!("the service has no operation {operation} that can be asked for so");
    Fault::new(FaultCode::UnknownOperation, what)
}

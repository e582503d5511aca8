//! One line of the log for each thing that was asked of a service: who, what, which job, how long,
//! and how it ended. Whoever only looks (`status`, `log`) is told of at `debug`.

use std::time::Instant;

use fishplate_contract::{Fault, JobId, Principal, Value, Verb, VerbDefinition};

use super::request::{Reply, Request};

/// Something that was asked for, until the log has it.
pub(super) struct Event<'h> {
    service: &'h str,
    definition: &'h VerbDefinition,
    caller: Principal,
    /// The job that it is about.
    job: Option<JobId>,
    begun: Instant,
    told: bool,
}

impl<'h> Event<'h> {
    /// Begins now.
    pub(super) fn of(request: &Request<'h>) -> Self {
        let about = request.arguments.iter().find(|argument| argument.name == "job");
        let job = match (request.definition.verb, about.map(|argument| &argument.value)) {
            (Verb::Call | Verb::Spawn | Verb::Init, _) => None,
            (_, Some(Value::Text(id))) => id.parse().ok(),
            _ => None,
        };
        Self {
            job,
            service: &request.service.service().name,
            definition: request.definition,
            caller: request.principal.clone(),
            begun: Instant::now(),
            told: false,
        }
    }

    /// It is done, so.
    pub(super) fn done(mut self, done: &Result<Reply, Fault>) {
        self.told = true;
        match done {
            Ok(reply) => self.log(reply.job(), None, ""),
            Err(fault) => self.log(fault.job, Some(fault.code.name()), &fault.message),
        }
    }

    fn log(&self, job: Option<JobId>, fault: Option<&str>, why: &str) {
        let Self { service, definition, .. } = *self;
        let ms = || u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let job = job.or(self.job).map(tracing::field::display);
        let caller = (!self.caller.is_anonymous()).then(|| self.caller.as_str());
        let why = (!why.is_empty()).then_some(why);
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(service, caller, job, ms = ms(), fault, why, "{}", definition.name)
            };
        }
        match definition.verb {
            Verb::Call | Verb::Spawn | Verb::Results | Verb::Init | Verb::Kill | Verb::Remove => {
                line!(info);
            }
            Verb::Running | Verb::Status | Verb::Log | Verb::Jobs => line!(debug),
        }
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        if !self.told {
            self.log(None, None, "the caller has gone");
        }
    }
}

impl Reply {
    /// The job that was made.
    fn job(&self) -> Option<JobId> {
        match self {
            Self::Results { results, .. } => results.job.map(|job| job.id),
            Self::Spawned(job) => Some(job.id),
            _ => None,
        }
    }
}

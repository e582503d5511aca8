//! The outputs of a job for who looks at them, or takes one alone: what goes of them is counted by whoever sends it.

use std::sync::Arc;

use fishplate_contract::{Outcome, OutputChoice, OutputForm, Principal, Verb};
use fishplate_jobs::engine::OwnJob;

use super::authorise::{Access, Action};
use super::perform::hold;
use crate::host::{Host, ServiceEntry};
use crate::memory::MemoryReservation;

/// All outputs of the caller's job, by value but for what was delivered elsewhere: files and arrays as handles. `memory` is
/// what the others hold.
///
/// # Errors
/// Those of the verb `results`.
pub(crate) async fn outputs(
    host: &Host,
    entry: &Arc<ServiceEntry>,
    caller: &Principal,
    job: &OwnJob,
    memory: &mut MemoryReservation,
) -> Outcome {
    let service = entry.service().name.as_str();
    let action = Action::Verb(Verb::Results);
    let operation = job.operation.as_str();
    host.authorise(&Access { principal: caller, service, operation, action })?;
    let end = host.engine.completion(caller, service, operation, job.id).await?;
    hold(host, &end, memory).await?;
    let name = OutputChoice::ALL.to_owned();
    let by_value = OutputChoice { name, form: OutputForm::Value, to: None };
    host.engine.outcome(caller, job.id, &end, &[by_value]).await
}

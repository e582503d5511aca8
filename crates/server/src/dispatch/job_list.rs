//! A caller's jobs of several services at once: those that the caller may list.

use fishplate_contract::{Fault, JobId, JobPage, JobState, Principal, Timestamp, Verb};
use fishplate_jobs::store::{Filter, RunTime};

use super::authorise::{Access, Action};
use crate::host::Host;

/// Which of a caller's jobs are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSelection {
    /// Of which operations, service first; none: of all services.
    pub operations: Vec<(String, String)>,
    /// In which states; none: in all.
    pub states: Vec<JobState>,
    /// Submitted not before this.
    pub since: Option<Timestamp>,
    /// Submitted not after this.
    pub until: Option<Timestamp>,
    /// How long they ran, or have run by now.
    pub ran: RunTime,
    /// Only jobs older than this one.
    pub after: Option<JobId>,
}

/// Some of the caller's jobs, newest first, at most so many.
///
/// # Errors
/// What the store says.
pub async fn page(
    host: &Host,
    caller: &Principal,
    selection: &JobSelection,
    limit: usize,
) -> Result<JobPage, Fault> {
    let JobSelection { operations, states, since, until, ran, after } = selection.clone();
    let may_list = |service: &str| {
        let action = Action::Verb(Verb::Jobs);
        let access = Access { principal: caller, service, operation: "", action };
        caller.is_for(service) && host.authoriser.authorise(&access).is_ok()
    };
    let is_wanted =
        |name: &str| operations.is_empty() || operations.iter().any(|(service, _)| service == name);
    let names = host.services().map(|entry| entry.service().name.as_str());
    let names = names.filter(|name| is_wanted(name) && may_list(name));
    let services = names.map(str::to_owned).collect();
    let new = Filter::new(caller.clone(), services, limit);
    let filter = Filter { operations, states, since, until, ran, after, ..new };
    let (jobs, more) = host.engine.jobs(&filter).await?;
    Ok(JobPage { jobs, more })
}

//! A caller's jobs of several services at once: those that the caller may list.

use fishplate_contract::{Fault, JobId, JobPage, JobState, Principal, Verb};
use fishplate_jobs::store::Filter;

use super::authorise::{Access, Action};
use crate::host::Host;

/// Some of the caller's jobs, newest first; of these services only, if there are any.
///
/// # Errors
/// What the store says.
pub async fn page(
    host: &Host,
    caller: &Principal,
    services: &[&str],
    state: Option<JobState>,
    after: Option<JobId>,
    limit: usize,
) -> Result<JobPage, Fault> {
    let may_list = |service: &str| {
        let action = Action::Verb(Verb::Jobs);
        let access = Access { principal: caller, service, operation: "", action };
        caller.is_for(service) && host.authoriser.authorise(&access).is_ok()
    };
    let names = host.services().map(|entry| entry.service().name.as_str());
    let wanted = names.filter(|name| services.is_empty() || services.contains(name));
    let services = wanted.filter(|name| may_list(name)).map(str::to_owned).collect();
    let filter = Filter { owner: caller.clone(), services, state, after, limit };
    let (jobs, more) = host.engine.jobs(&filter).await?;
    Ok(JobPage { jobs, more })
}

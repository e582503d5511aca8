//! How a call that is waited for goes on: what the server tells of its job, found among the caller's own.

use std::convert::Infallible;
use std::time::Duration;

use fishplate_contract::{JobFilter, JobId, JobReport, Verb};
use tokio::time::sleep;

use crate::error::Error;
use crate::service::Service;

/// How long a call lasts before it is worth asking what it waits for.
const WORTH_ASKING: Duration = Duration::from_secs(2);
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);
/// Jobs among which that of the call is looked for.
const MOST_NEW: u32 = 20;

/// Looks how a call goes on.
pub struct CallWatch {
    service: Service,
    operation: String,
    /// The caller's newest job before the call was sent.
    before: Option<JobId>,
}

impl CallWatch {
    /// Looks what jobs there are already, before the call is sent. `None` if nothing can be told of it: it has no
    /// idempotency key, so there is no job that could be asked for, or the service tells of no jobs.
    pub async fn before(service: &Service, operation: &str, key: Option<&str>) -> Option<Self> {
        let mut offered = service.description().operations.iter();
        if key.is_none() || !offered.any(|of| of.definition.verb == Verb::Jobs) {
            return None;
        }
        let newest = JobFilter { limit: Some(1), ..JobFilter::default() };
        // Why nothing can be told is of no interest.
        let listed = service.jobs(&newest).await.ok()?;
        let before = listed.jobs.first().map(|report| report.id);
        Some(Self { service: service.clone(), operation: operation.to_owned(), before })
    }

    /// Tells how the call's job goes on, again and again. It does not end, whatever fails: only the call matters.
    pub async fn follow(self, tell: impl FnMut(JobReport)) -> Infallible {
        let _ = self.reports(tell).await;
        std::future::pending().await
    }

    async fn reports(self, mut tell: impl FnMut(JobReport)) -> Result<(), Error> {
        sleep(WORTH_ASKING).await;
        let job = loop {
            let newest = JobFilter { limit: Some(MOST_NEW), ..JobFilter::default() };
            let jobs = self.service.jobs(&newest).await?.jobs;
            let new = jobs.iter().take_while(|report| Some(report.id) != self.before);
            let mut ours = new.filter(|report| report.operation == self.operation);
            match (ours.next(), ours.next()) {
                (Some(report), None) => break report.id,
                // Still sent, or a function, of which no job is made.
                (None, _) => sleep(BETWEEN_QUESTIONS).await,
                // Somebody else calls under the same name: which is ours can't be told.
                (Some(_), Some(_)) => return Ok(()),
            }
        };
        loop {
            let report = self.service.status(job).await?;
            let ended = report.state.is_final();
            tell(report);
            if ended {
                return Ok(());
            }
            sleep(BETWEEN_QUESTIONS).await;
        }
    }
}

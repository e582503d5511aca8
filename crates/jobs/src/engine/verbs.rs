//! What callers ask of jobs. Every verb checks the owner; a job of another owner is answered as if
//! it were not there.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode, JobId, JobReport, JobState, Principal, SessionId};

use super::driver::DriverCommand;
use super::log::beside_runtime;
use super::reactor::Event;
use super::{Engine, lock, record, storage_fault, transfers, write_fault};
use crate::completion::Completion;
use crate::store::quota::Quota;
use crate::store::{Filter, JobRecord, KillRequest, PendingJobs};
use crate::workspace;
use fishplate_programs::plan::Plan;

/// How long `kill` waits for the end before it answers that the job is being ended.
const KILL_WAIT: Duration = Duration::from_secs(20);

/// A job that has not ended, in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionJob {
    /// The session.
    pub session: SessionId,
    /// Whose job it is.
    pub owner: Principal,
    /// Its service.
    pub service: String,
    /// Its ID.
    pub job: JobId,
}

/// What a job of an owner is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnJob {
    /// Its ID.
    pub id: JobId,
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    /// It has ended.
    pub is_final: bool,
    /// What the face that took the call keeps with it.
    pub note: Option<String>,
}

impl Engine {
    /// What a job is, of whatever service.
    ///
    /// # Errors
    /// `NoSuchJob`, also if it is somebody else's.
    pub async fn own_job(&self, owner: &Principal, id: JobId) -> Result<OwnJob, Fault> {
        let record = self.shared.find(id).await?.filter(|record| record.owner == *owner);
        let record = record.ok_or_else(|| no_such_job(id))?;
        // What was killed before it ran has no choices in its end.
        let ran = |end: &Completion| end.ending.is_some();
        let (record, note) = match record.completion.as_ref().filter(|end| ran(end)) {
            Some(end) => (record.clone(), end.answer.note.clone()),
            None => {
                let (record, plan) = self.with_plan(record).await?;
                let kept = record.completion.as_ref().and_then(|end| end.answer.note.clone());
                (record, kept.or_else(|| plan?.answer.note))
            }
        };
        let is_final = record.state.is_final();
        Ok(OwnJob { id, service: record.service, operation: record.operation, is_final, note })
    }

    /// A job with its plan, which may be gone with its files if it has ended; and with its record as it is then, for it may
    /// end or be removed meanwhile.
    pub(super) async fn with_plan(
        &self,
        record: JobRecord,
    ) -> Result<(JobRecord, Option<Plan>), Fault> {
        let (id, owner) = (record.id, record.owner.clone());
        let error = match self.shared.read_plan(id).await {
            Ok(plan) => return Ok((record, Some(plan))),
            Err(_) if record.state.is_final() => return Ok((record, None)),
            Err(error) => error,
        };
        let again = self.shared.find(id).await?.filter(|record| record.owner == owner);
        let again = again.ok_or_else(|| no_such_job(id))?;
        if again.state.is_final() {
            return Ok((again, None));
        }
        tracing::error!(job = %id, error, "a job's plan cannot be read");
        Err(Fault::new(FaultCode::Internal, "the job's plan cannot be read").job(id))
    }

    pub(super) async fn record(
        &self,
        owner: &Principal,
        service: &str,
        job: JobId,
    ) -> Result<JobRecord, Fault> {
        let record = self.shared.find(job).await?;
        record.filter(|record| record.owner == *owner && record.service == service).ok_or_else(
            || {
                Fault::new(
                    FaultCode::NoSuchJob,
                    format!(
                        "you have no job {job} on service {service}; it may have been removed, or \
                         have expired"
                    ),
                )
                .job(job)
            },
        )
    }

    pub(super) async fn plan(&self, job: JobId) -> Result<Plan, Fault> {
        self.shared.read_plan(job).await.map_err(|error| {
            tracing::error!(%job, error, "a job's plan cannot be read");
            Fault::new(FaultCode::Internal, "the job's plan cannot be read").job(job)
        })
    }

    /// Whether a job has not ended yet.
    ///
    /// # Errors
    /// `NoSuchJob`.
    pub async fn running(
        &self,
        owner: &Principal,
        service: &str,
        job: JobId,
    ) -> Result<bool, Fault> {
        Ok(!self.record(owner, service, job).await?.state.is_final())
    }

    /// Whose a job is, whoever asks, and whether it has not ended yet; `None` if it is not there (any more).
    ///
    /// # Errors
    /// If its record can't be read.
    pub async fn owner(&self, job: JobId) -> Result<Option<(Principal, bool)>, Fault> {
        let found = self.shared.find(job).await?;
        Ok(found.map(|record| (record.owner, !record.state.is_final())))
    }

    /// The jobs that have not ended and run in sessions, whosever they are.
    ///
    /// # Errors
    /// If the records can't be read.
    pub async fn in_sessions(&self) -> Result<Vec<SessionJob>, Fault> {
        let in_session = |found: JobRecord, plan: Plan| {
            let JobRecord { owner, service, id: job, .. } = found;
            let session = plan.answer.session()?;
            Some(SessionJob { session, owner, service, job })
        };
        self.unfinished(None, in_session).await
    }

    /// The jobs of an owner that have not ended and whose programs have this variable; each with its service.
    ///
    /// # Errors
    /// If the records can't be read.
    pub async fn with_variable(
        &self,
        owner: &Principal,
        name: &'static str,
        value: &str,
    ) -> Result<Vec<(String, JobId)>, Fault> {
        let value = value.to_owned();
        let has_it = move |found: JobRecord, plan: Plan| {
            let is_it = plan.environment.get(name) == Some(&value);
            is_it.then_some((found.service, found.id))
        };
        self.unfinished(Some(owner), has_it).await
    }

    /// What is wanted of the jobs that have not ended: of an owner, or of all.
    async fn unfinished<T: Send + 'static>(
        &self,
        owner: Option<&Principal>,
        wanted: impl Fn(JobRecord, Plan) -> Option<T> + Send + 'static,
    ) -> Result<Vec<T>, Fault> {
        let owner = owner.cloned();
        let read = self.shared.store.read(move |t| {
            let mut jobs = Vec::new();
            for job in t.unfinished()? {
                let found = t.find(job)?;
                let found =
                    found.filter(|found| owner.as_ref().is_none_or(|owner| found.owner == *owner));
                let Some(found) = found else { continue };
                let Some(plan) = t.plan(job)? else { continue };
                let plan = record::read(&plan, &found.directory).ok();
                jobs.extend(plan.and_then(|plan| wanted(found, plan)));
            }
            Ok(jobs)
        });
        read.await.map_err(|error| storage_fault(&error))
    }

    /// All there is to tell of a job.
    ///
    /// # Errors
    /// `NoSuchJob`.
    pub async fn status(
        &self,
        owner: &Principal,
        service: &str,
        job: JobId,
    ) -> Result<JobReport, Fault> {
        // Before its record is read: what is live then has not ended there.
        let live = self.shared.live(job).await;
        // Of what has ended nearly all is in the record.
        let (record, plan) = self.with_plan(self.record(owner, service, job).await?).await?;
        let mut report = self.report(&record);
        report.transfers = transfers::told(live.transfers, &record, plan.as_ref());
        if record.state == JobState::Queued
            && let Some(excess) = self.shared.excess(owner, &[(Quota::CpuTime, 0)]).await?
        {
            report.message = format!("waits for processor time: {excess}");
        }
        if record.state == JobState::Running {
            if let Some(plan) = plan {
                report.progress = progress(plan, record).await?;
            }
            if live.sending {
                "sends its outputs".clone_into(&mut report.message);
            } else if !live.waits_for.is_empty() {
                report.message = live.waits_for;
            }
        }
        Ok(report)
    }

    /// Ends a job and all of its processes; waits a while for the end. Answers the state it is in
    /// then, and a sentence.
    ///
    /// # Errors
    /// `NoSuchJob`.
    pub async fn kill(
        &self,
        owner: &Principal,
        service: &str,
        job: JobId,
    ) -> Result<(JobState, String), Fault> {
        let record = self.record(owner, service, job).await?;
        let shared = &self.shared;
        let at = shared.clock.now();
        let request = shared.store.write(true, move |t| t.request_kill(job, at)).await;
        let handle = match request.map_err(|error| write_fault(&error))? {
            KillRequest::NoSuchJob => {
                return Err(Fault::new(FaultCode::NoSuchJob, "the job was removed").job(job));
            }
            KillRequest::Ended(state) => {
                return Ok((state, format!("the job had ended already: {}", state.name())));
            }
            KillRequest::Dequeued => {
                // Who fetches for it here stops before anything of that is forgotten.
                if record.state == JobState::Fetching && !shared.live(job).await.fetching {
                    self.forget_fetches(owner, job).await;
                }
                lock(&shared.places).forget(job);
                shared.tell_dequeued(job).await;
                let _ = shared.orders.send(DriverCommand::Claim);
                let why = "the job did not run yet; its program was never started";
                return Ok((JobState::Killed, why.to_owned()));
            }
            KillRequest::Requested(handle) => handle,
        };
        // The holder ends it; if that is another process, the executor is asked from here too,
        // so that nobody waits for the holder to look.
        shared.tell(Event::KillRequested(job));
        if let Some(handle) = handle {
            shared.executor.cancel(&handle).await;
        }
        self.after_kill(owner, service, job).await
    }

    /// What has come of a killed job's data is nobody's, beside the answer.
    async fn forget_fetches(&self, owner: &Principal, job: JobId) {
        let Ok(plan) = self.plan(job).await else { return };
        let (shared, owner) = (Arc::clone(&self.shared), owner.clone());
        tokio::spawn(async move { shared.forget_fetches(&plan, &owner).await });
    }

    async fn after_kill(
        &self,
        owner: &Principal,
        service: &str,
        job: JobId,
    ) -> Result<(JobState, String), Fault> {
        let waiter = self.shared.wait_for(job);
        let mut pause = Duration::from_millis(5);
        let ended = async {
            loop {
                let record = self.record(owner, service, job).await?;
                if record.state.is_final() {
                    return Ok::<JobRecord, Fault>(record);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(200));
            }
        };
        let timeout = async {
            let _ = tokio::time::timeout(KILL_WAIT, waiter).await;
            // Whoever told us wrote the record before; give reading it its turn.
            tokio::time::sleep(Duration::from_millis(500)).await;
        };
        tokio::select! {
            record = ended => {
                let record = record?;
                let message = record.completion.as_ref().map_or("", Completion::message);
                Ok((record.state, message.to_owned()))
            }
            () = timeout => Ok((
                JobState::Running,
                "the job is being ended; ask for its status".to_owned(),
            )),
        }
    }

    /// An owner's jobs on a service, newest first, and whether there are more.
    ///
    /// # Errors
    /// What the store says.
    pub async fn jobs(&self, filter: &Filter) -> Result<(Vec<JobReport>, bool), Fault> {
        let one_more = Filter { limit: filter.limit.saturating_add(1), ..filter.clone() };
        let read = self.shared.store.read(move |t| t.list(&one_more)).await;
        let mut records = read.map_err(|error| storage_fault(&error))?;
        let more = records.len() > filter.limit;
        records.truncate(filter.limit);
        let mut reports: Vec<JobReport> =
            records.iter().map(|record| self.report(record)).collect();
        let listed = reports.iter_mut().zip(records);
        for (report, record) in listed.filter(|(of, _)| of.state == JobState::Running) {
            // It may have ended meanwhile, and its files be gone.
            if let Ok(plan) = self.shared.read_plan(record.id).await {
                report.progress = progress(plan, record).await.unwrap_or_default();
            }
        }
        Ok((reports, more))
    }

    /// How many jobs wait and run; nothing if the store cannot be read.
    pub async fn backlog(&self) -> PendingJobs {
        self.shared.store.read(|t| t.backlog()).await.unwrap_or_default()
    }

    /// Bytes that jobs occupy, as counted some seconds ago, and those of jobs accepted since; lost jobs
    /// among them.
    pub fn disk_used(&self) -> u64 {
        lock(&self.shared.occupied).bytes()
    }

    fn report(&self, record: &JobRecord) -> JobReport {
        let queued = record.state == JobState::Queued;
        let waits_for = queued.then(|| self.shared.shortage(record.id)).flatten();
        report(record, waits_for.as_deref())
    }

    /// How many directories have no record and were set aside, as counted some seconds ago.
    pub fn lost_jobs(&self) -> u64 {
        lock(&self.shared.housekeeping).lost.count
    }

    /// Forgets an ended job and frees its space.
    ///
    /// # Errors
    /// `NoSuchJob`, or `NotFinished` if it has not ended.
    pub async fn remove(&self, owner: &Principal, service: &str, job: JobId) -> Result<(), Fault> {
        let record = self.record(owner, service, job).await?;
        if !record.state.is_final() {
            return Err(Fault::new(
                FaultCode::NotFinished,
                format!("job {job} is {}; kill it first", record.state.name()),
            )
            .job(job));
        }
        if self.shared.discard(vec![job]).await == 0 {
            let what = "the job could not be removed; the server's log has more";
            return Err(Fault::new(FaultCode::Internal, what).job(job));
        }
        Ok(())
    }
}

/// What is told of a job that is not there, and of one that its caller may not know of.
pub fn no_such_job(id: JobId) -> Fault {
    let what = format!("you have no job {id}; it may have been removed, or have expired");
    Fault::new(FaultCode::NoSuchJob, what).job(id)
}

/// How far the program of a job says it is, from 0 to 1.
async fn progress(plan: Plan, record: JobRecord) -> Result<Option<f64>, Fault> {
    if plan.progress.is_none() {
        return Ok(None);
    }
    beside_runtime(move || workspace::progress(&plan, &record.directory)).await
}

fn report(record: &JobRecord, waits_for: Option<&str>) -> JobReport {
    let ending = record.completion.as_ref().and_then(|end| end.ending.as_ref());
    let message = match (&record.completion, record.state) {
        (Some(completion), _) => completion.message().to_owned(),
        (None, JobState::Fetching) => "fetches its data".to_owned(),
        (None, JobState::Queued) => waits_for.unwrap_or("waits for its turn").to_owned(),
        (None, _) if record.kill_requested => "is being killed".to_owned(),
        (None, _) => String::new(),
    };
    JobReport {
        id: record.id,
        service: record.service.clone(),
        operation: record.operation.clone(),
        state: record.state,
        progress: (record.state == JobState::Done).then_some(1.0),
        message,
        submitted: record.submitted,
        started: record.began(),
        ended: record.ended(),
        exit_code: ending.and_then(|ending| ending.exit_code),
        signal: ending.and_then(|ending| ending.signal.clone()),
        usage: ending.map(crate::executor::ProgramExit::usage),
        ended_by: ending.map_or_else(String::new, |ending| ending.ended_by.clone()),
        transfers: Vec::new(),
    }
}

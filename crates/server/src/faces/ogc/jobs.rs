//! Jobs of a caller: their status, their log, their results, and their end.

use std::sync::Arc;

use fishplate_contract::{
    Argument, CallOptions, Fault, FaultCode, JobId, JobReport, JobState, KillResult, LogPage,
    Principal, Verb,
};
use fishplate_jobs::engine::{OwnJob, no_such_job};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::address::ProcessId;
use super::execute::ResultsChoice;
use super::given::GivenInputs;
use super::links::{self, EXCEPTIONS, LOG, Link, PROCESSES, RESULTS};
use super::process::Process;
use crate::dispatch::report::date_time;
use crate::dispatch::request::{Reply, unlike};
use crate::host::{Host, ServiceEntry};
use crate::memory::MemoryReservation;

/// A job of the caller, and the service that it is of.
pub(crate) struct CallersJob<'h> {
    pub(crate) host: &'h Host,
    pub(crate) caller: &'h Principal,
    pub(crate) entry: &'h Arc<ServiceEntry>,
    pub(crate) job: OwnJob,
}

impl<'h> CallersJob<'h> {
    /// The job of that ID.
    ///
    /// # Errors
    /// `NoSuchJob`, also if its service is not here any more.
    pub(crate) async fn find(
        host: &'h Host,
        caller: &'h Principal,
        id: &str,
    ) -> Result<Self, Fault> {
        let id = id.parse::<JobId>().map_err(|error| {
            let shown = fishplate_contract::lexical::shortened(id);
            Fault::new(FaultCode::NoSuchJob, format!("there is no job {shown:?}: {error}"))
        })?;
        let job = host.engine.own_job(caller, id).await?;
        // Whose credential is good for other services only does not learn that it is there.
        if !caller.is_for(&job.service) {
            return Err(no_such_job(id));
        }
        match host.service(&job.service) {
            Some(entry) => Ok(Self { host, caller, entry, job }),
            None => {
                let what =
                    format!("the service of job {id}, {}, is not here any more", job.service);
                Err(Fault::new(FaultCode::NoSuchJob, what).job(id))
            }
        }
    }

    /// The process that it runs.
    ///
    /// # Errors
    /// `UnknownOperation`, if it is not here any more.
    pub(crate) fn process(&self) -> Result<Process<'h>, Fault> {
        let (service, operation) = (&*self.job.service, &*self.job.operation);
        Process::find(self.host, ProcessId { service, operation })
    }

    /// Asks for something about it.
    pub(super) async fn ask(
        &self,
        verb: Verb,
        more: Vec<Argument>,
        memory: &mut MemoryReservation,
    ) -> Result<Reply, Fault> {
        let mut arguments = vec![Argument::text("job", self.job.id.to_string())];
        arguments.extend(more);
        let operation = if verb == Verb::Results { &*self.job.operation } else { "" };
        let options = CallOptions::default();
        super::handle::ask(
            self.host,
            self.entry,
            (verb, operation),
            arguments,
            options,
            self.caller,
            memory,
        )
        .await
    }

    async fn about(&self, verb: Verb, more: Vec<Argument>) -> Result<Reply, Fault> {
        self.ask(verb, more, &mut MemoryReservation::default()).await
    }

    /// How it stands (`statusInfo.yaml`).
    pub(super) async fn status(&self) -> Result<(Value, Vec<Link>), Fault> {
        self.report().await.map(|report| status(self.host, &report))
    }

    /// All there is to tell of it.
    ///
    /// # Errors
    /// As of the verb `status`.
    pub(crate) async fn report(&self) -> Result<JobReport, Fault> {
        match self.about(Verb::Status, Vec::new()).await? {
            Reply::Status(report) => Ok(*report),
            _ => Err(unlike(Verb::Status)),
        }
    }

    /// What it was given, as far as that was kept.
    pub(crate) fn given(&self) -> GivenInputs {
        ResultsChoice::of_note(self.job.note.as_deref()).given
    }

    /// A piece of its log.
    pub(crate) async fn log(&self, stream: &str, offset: u64) -> Result<LogPage, Fault> {
        let more =
            vec![Argument::text("stream", stream), Argument::text("offset", offset.to_string())];
        match self.about(Verb::Log, more).await? {
            Reply::Log(page) => Ok(page),
            _ => Err(unlike(Verb::Log)),
        }
    }

    /// Ends it, if it has not ended.
    pub(super) async fn kill(&self) -> Result<KillResult, Fault> {
        match self.about(Verb::Kill, Vec::new()).await? {
            Reply::Killed(killed) => Ok(killed),
            _ => Err(unlike(Verb::Kill)),
        }
    }

    /// Forgets it, if it has ended.
    pub(super) async fn remove(&self) -> Result<(), Fault> {
        self.about(Verb::Remove, Vec::new()).await.map(drop)
    }

    /// Ends it if it has not ended, else forgets it; tells what has become of it.
    pub(super) async fn dismiss(&self) -> Result<(Value, Vec<Link>), Fault> {
        if self.job.is_final {
            self.remove().await?;
            let message = "the job and its results were removed";
            return Ok(self.dismissed(message, Link::new(self.host, "/jobs", "up", "Jobs")));
        }
        let killed = self.kill().await?;
        if killed.state == JobState::Killed {
            let path = format!("/jobs/{}", self.job.id);
            return Ok(
                self.dismissed(&killed.message, Link::new(self.host, &path, "self", "The job"))
            );
        }
        // It was done before, or takes its time.
        let (mut told, links) = self.status().await?;
        told["message"] = json!(killed.message);
        Ok((told, links))
    }

    fn dismissed(&self, message: &str, link: Link) -> (Value, Vec<Link>) {
        let mut told = brief(&self.job, "dismissed", message);
        told["progress"] = json!(0);
        (told, vec![link])
    }
}

/// The job that a query names with `from`, if it is the caller's and of this service: its operation, and what it was given.
pub(crate) async fn given_to(
    host: &Host,
    caller: &Principal,
    service: &str,
    query: &str,
) -> Option<(String, GivenInputs)> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let (_, id) = pairs.find(|(name, _)| name == "from")?;
    let found = CallersJob::find(host, caller, &id).await.ok()?;
    let given = found.given();
    let OwnJob { service: own, operation, .. } = found.job;
    (own == service).then_some((operation, given))
}

/// What is told of a job that was not asked how it stands.
pub(super) fn brief(job: &OwnJob, status: &str, message: &str) -> Value {
    json!({
        "id": job.id.to_string(),
        "jobID": job.id.to_string(),
        "processID": process(&job.service, &job.operation),
        "type": "process",
        "status": status,
        "message": message,
    })
}

fn process(service: &str, operation: &str) -> String {
    ProcessId { service, operation }.to_string()
}

/// The word of the standard for a state (`statusCode.yaml`).
pub(super) fn status_code(state: JobState) -> &'static str {
    match state {
        JobState::Fetching | JobState::Queued => "accepted",
        JobState::Running => "running",
        JobState::Done => "successful",
        JobState::Failed | JobState::Unknown => "failed",
        JobState::Killed => "dismissed",
    }
}

/// Links of a job whose status is this.
pub(super) fn job_links(host: &Host, id: JobId, status: &str) -> Vec<Link> {
    let path = format!("/jobs/{id}");
    let mut links = vec![
        Link::new(host, &path, "self", "The job"),
        Link::new(host, "/jobs", "up", "Jobs"),
        Link::new(host, &format!("{path}/log"), LOG, "What its program wrote"),
    ];
    let results = format!("{path}/results");
    match status {
        "accepted" | "running" => links.push(Link::new(host, &path, "monitor", "How it stands")),
        "successful" => links.push(Link::new(host, &results, RESULTS, "The results")),
        "failed" => links.push(Link::new(host, &results, EXCEPTIONS, "Why it failed")),
        _ => {}
    }
    links
}

/// How a job stands, as it is told: in the names of 1.0, and beside them in those of the draft of 2.0 (`id`, `process`, `exception`).
pub(super) fn status(host: &Host, report: &JobReport) -> (Value, Vec<Link>) {
    let code = status_code(report.state);
    let process = process(&report.service, &report.operation);
    let updated = report.ended.or(report.started).unwrap_or(report.submitted);
    let of = Link::new(host, &format!("/processes/{process}"), PROCESSES, "The process");
    let mut told = json!({
        "id": report.id.to_string(),
        "jobID": report.id.to_string(),
        "process": of.json(),
        "processID": process,
        "type": "process",
        "status": code,
        "created": date_time(report.submitted),
        "updated": date_time(updated),
    });
    if !report.message.is_empty() {
        told["message"] = json!(report.message);
    }
    if code == "failed" {
        told["exception"] =
            json!({ "type": "about:blank", "title": code, "detail": report.message });
    }
    let moments = [("started", report.started), ("finished", report.ended)];
    for (name, at) in moments.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        told[name] = json!(date_time(at));
    }
    let share = if report.state == JobState::Done { Some(1.0) } else { report.progress };
    if let Some(share) = share {
        told["progress"] = json!(percent(share));
    }
    let mut links = job_links(host, report.id, code);
    links.push(of);
    (told, links)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
fn percent(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * 100.0) as u8
}

/// The same with its links in it, as it stands in a list.
pub(super) fn listed(host: &Host, report: &JobReport) -> Value {
    let (mut told, links) = status(host, report);
    told["links"] = links::in_body(&links);
    told
}

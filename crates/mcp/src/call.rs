//! One call of a tool: its job, which is waited for, told of, and ended if nobody waits any more; and its answer.

use std::time::Duration;

use fishplate_contract::{
    Argument, CallError, CallOptions, Caller, Fault, FaultCode, JobId, JobReport, OutputChoice,
    OutputForm, Parameter, Results, Verb,
};
use rmcp::model::{CallToolResult, ContentBlock, ProgressNotificationParam};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::job::{self, JobName};
use crate::output::{self, Bounds};
use crate::services::ServiceTools;

/// Shortest time between two messages about progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Percent by which progress grows from one message to the next, though the program tells nothing new: it has to grow.
const TICK: f64 = 0.001;

/// An operation of a service, and its job.
#[derive(Clone)]
pub(crate) struct OperationJob {
    pub(crate) service: ServiceTools,
    pub(crate) operation: String,
    pub(crate) job: JobName,
}

/// How waiting for a job ended.
pub(crate) enum Waited {
    /// The job has ended.
    Ended(Box<JobReport>),
    /// It goes on; nobody may wait for longer.
    GoesOn(Box<JobReport>),
    /// Who waited does not any more.
    Cancelled,
}

/// An outcome of a call that assistants read: a fault is no error of the protocol, because its message tells what to do.
pub(crate) fn answer(done: Result<CallToolResult, Fault>) -> CallToolResult {
    done.unwrap_or_else(|fault| {
        CallToolResult::error(vec![ContentBlock::text(fault_text(&fault, None))])
    })
}

/// The fault of an error of whoever called.
#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
pub(crate) fn fault_of(error: CallError) -> Fault {
    match error.fault() {
        Some(fault) => fault.clone(),
        None => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                text.push_str(&format!(": {error}"));
                source = error.source();
            }
            Fault::new(FaultCode::Unavailable, text)
        }
    }
}

/// A fault in lines for who has to go on with it.
pub(crate) fn fault_text(fault: &Fault, job: Option<&JobName>) -> String {
    let mut text = fault.to_string();
    let lines = [
        fault.parameter.as_ref().map(|name| format!("parameter: {name}")),
        fault.limit.as_ref().map(|limit| format!("limit: {} = {}", limit.name, limit.value)),
        fault.exit_code.map(|code| format!("exit code: {code}")),
        fault.signal.as_ref().map(|signal| format!("signal: {signal}")),
        fault.retry_after.map(|wait| format!("try again in {} s", wait.as_secs().max(1))),
        job.map(|job| format!("job: {job} (job_log has what its program wrote)")),
        fault.stderr.as_ref().map(|last| format!("standard error ended with:\n{last}")),
    ];
    for line in lines.into_iter().flatten() {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Runs an operation of which no job can be made.
///
/// # Errors
/// What it gave instead of results.
pub(crate) async fn at_once(
    service: &ServiceTools,
    operation: &str,
    known: &[Parameter],
    arguments: Vec<Argument>,
    bounds: Bounds,
) -> Result<CallToolResult, Fault> {
    let options = CallOptions::default();
    let Results { outputs, .. } =
        service.caller.call(operation, arguments, options).await.map_err(fault_of)?;
    let content = output::content(known, &outputs, None, bounds).await?;
    Ok(structured(json!({ "outputs": content.value }), content.blocks))
}

impl OperationJob {
    /// Starts an operation as a job.
    ///
    /// # Errors
    /// Why it was not accepted.
    pub(crate) async fn begin(
        service: ServiceTools,
        (name, operation): (String, String),
        arguments: Vec<Argument>,
    ) -> Result<Self, Fault> {
        let options = CallOptions::default();
        let id = service.caller.spawn(&operation, arguments, options).await.map_err(fault_of)?;
        Ok(Self { service, operation, job: JobName { service: name, id } })
    }

    /// A job that was begun before.
    ///
    /// # Errors
    /// `NoSuchJob`, if there is none of this caller's.
    pub(crate) async fn find(
        service: ServiceTools,
        job: JobName,
    ) -> Result<(Self, JobReport), Fault> {
        let report = service.caller.status(job.id).await.map_err(fault_of)?;
        let operation = report.operation.clone();
        Ok((Self { service, operation, job }, report))
    }

    fn caller(&self) -> &dyn Caller {
        &*self.service.caller
    }

    fn id(&self) -> JobId {
        self.job.id
    }

    /// Waits until it has ended, for so long at the most, and tells how far it is to who asked for that.
    ///
    /// # Errors
    /// Why it can't be told.
    pub(crate) async fn wait(
        &self,
        patience: Duration,
        context: &RequestContext<RoleServer>,
    ) -> Result<Waited, Fault> {
        let deadline = Instant::now() + patience;
        let (tell, mut told) = watch::channel(None::<JobReport>);
        let mut noted = move |report: &JobReport| {
            tell.send_replace(Some(report.clone()));
        };
        let mut end = self.caller().wait(self.id(), &mut noted);
        let mut progress = Progress::of(context);
        loop {
            tokio::select! {
                biased;
                ended = &mut end => return Ok(Waited::Ended(Box::new(ended.map_err(fault_of)?))),
                () = context.ct.cancelled() => return Ok(Waited::Cancelled),
                () = sleep_until(deadline) => break,
                () = progress.tell(&mut told) => {}
            }
        }
        drop(end);
        let last = told.borrow().clone();
        let report = match last {
            Some(report) => report,
            None => self.caller().status(self.id()).await.map_err(fault_of)?,
        };
        Ok(if report.state.is_final() {
            Waited::Ended(Box::new(report))
        } else {
            Waited::GoesOn(Box::new(report))
        })
    }

    /// Ends it.
    ///
    /// # Errors
    /// Why it can't be ended.
    pub(crate) async fn cancel(&self) -> Result<Value, Fault> {
        let killed = self.caller().kill(self.id()).await.map_err(fault_of)?;
        Ok(json!({
            "job": self.job.to_string(),
            "state": killed.state.name(),
            "ended": killed.state.is_final(),
            "message": killed.message,
        }))
    }

    /// The answer that has what it gave, or why it gave nothing.
    pub(crate) async fn results(&self, report: &JobReport, bounds: Bounds) -> CallToolResult {
        self.outputs(report, bounds).await.unwrap_or_else(|fault| {
            CallToolResult::error(vec![ContentBlock::text(fault_text(&fault, Some(&self.job)))])
        })
    }

    async fn outputs(&self, report: &JobReport, bounds: Bounds) -> Result<CallToolResult, Fault> {
        let known = self.known()?;
        let mut outputs = self.chosen(Vec::new()).await?;
        let large = output::too_large(known, &outputs, bounds);
        if !large.is_empty() && self.service.takes_options {
            let by_reference = |name| OutputChoice { name, form: OutputForm::Reference, to: None };
            outputs = self.chosen(large.into_iter().map(by_reference).collect()).await?;
        }
        let content = output::content(known, &outputs, Some(&self.job), bounds).await?;
        let told = json!({ "outputs": content.value, "job": job::told(&self.job, report) });
        Ok(structured(told, content.blocks))
    }

    /// The outputs, each in the form that is chosen here, else by value if it is small.
    ///
    /// # Errors
    /// The job's fault.
    pub(crate) async fn chosen(
        &self,
        mut choices: Vec<OutputChoice>,
    ) -> Result<Vec<Argument>, Fault> {
        if self.service.takes_options {
            let name = OutputChoice::ALL.to_owned();
            choices.push(OutputChoice { name, form: OutputForm::Auto, to: None });
        }
        let results = self.caller().results(&self.operation, self.id(), choices).await;
        Ok(results.map_err(fault_of)?.outputs)
    }

    /// What the operation gives.
    ///
    /// # Errors
    /// `UnknownOperation`, if the service has it no more.
    pub(crate) fn known(&self) -> Result<&[Parameter], Fault> {
        let verb = self.service.verb(Verb::Results, &self.operation);
        let verb = verb.or_else(|| self.service.verb(Verb::Call, &self.operation));
        verb.map(|verb| &*verb.signature.outputs).ok_or_else(|| {
            let what = format!(
                "the operation of job {}, {}, is not here any more",
                self.job, self.operation
            );
            Fault::new(FaultCode::UnknownOperation, what).job(self.id())
        })
    }

    /// The answer as long as it has not ended.
    pub(crate) fn goes_on(&self, report: &JobReport) -> CallToolResult {
        let told = json!({ "job": job::told(&self.job, report) });
        let what = format!(
            "The job {} goes on. job_status tells how it stands, job_results waits for what it gives, job_log shows what its \
             program writes, job_cancel ends it.",
            self.job
        );
        let mut answer = structured(told, Vec::new());
        answer.content.insert(0, ContentBlock::text(what));
        answer
    }
}

/// An answer in JSON, which also stands in its text.
pub(crate) fn structured(value: Value, blocks: Vec<ContentBlock>) -> CallToolResult {
    let mut answer = CallToolResult::structured(value);
    answer.content.extend(blocks);
    answer
}

/// Messages about progress to who asked for them.
struct Progress<'c> {
    context: &'c RequestContext<RoleServer>,
    /// What was told last, in percent.
    last: f64,
    next: Instant,
}

impl<'c> Progress<'c> {
    fn of(context: &'c RequestContext<RoleServer>) -> Self {
        Self { context, last: 0.0, next: Instant::now() }
    }

    /// Tells the next report, as soon as there is one and it is time; never, if nobody asked.
    async fn tell(&mut self, reports: &mut watch::Receiver<Option<JobReport>>) {
        let Some(token) = self.context.meta.get_progress_token() else {
            return std::future::pending().await;
        };
        sleep_until(self.next).await;
        if reports.changed().await.is_err() {
            return std::future::pending().await;
        }
        let report = reports.borrow_and_update().clone();
        let Some(report) = report else { return };
        self.next = Instant::now() + TELL_EVERY;
        self.last = percent(self.last, report.progress);
        let mut told =
            ProgressNotificationParam::new(token, self.last).with_message(message(&report));
        if report.progress.is_some() {
            told = told.with_total(100.0);
        }
        // Who can't be told is gone; the request's end says so.
        let _ = self.context.peer.notify_progress(told).await;
    }
}

/// What is told after `last`: more than that, whatever the program says, and never beyond the whole.
fn percent(last: f64, share: Option<f64>) -> f64 {
    let now = share.unwrap_or(0.0).clamp(0.0, 1.0) * 100.0;
    now.max(last + TICK)
}

fn message(report: &JobReport) -> String {
    match (report.state.name(), report.message.as_str()) {
        (state, "") => state.to_owned(),
        (state, message) => format!("{state}: {message}"),
    }
}

/// A fault that is an error of the protocol: what was asked for is not there.
pub(crate) fn protocol_error(fault: &Fault) -> ErrorData {
    let data = json!({ "code": fault.code.name() });
    match fault.code.blame() {
        fishplate_contract::Blame::Sender => {
            ErrorData::invalid_params(fault.message.clone(), Some(data))
        }
        fishplate_contract::Blame::Receiver => {
            ErrorData::internal_error(fault.message.clone(), Some(data))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_grows_from_one_message_to_the_next() {
        let mut last = 0.0;
        for share in [None, Some(0.1), Some(0.1), Some(0.05), None, Some(0.9)] {
            let next = percent(last, share);
            assert!(next > last, "{share:?}");
            last = next;
        }
        assert!((90.0..91.0).contains(&last));
    }

    #[test]
    fn a_fault_tells_what_to_do_with_it() {
        let mut fault =
            Fault::new(FaultCode::ProgramFailed, "it ended with 3").limit("cpu_time", "1 s");
        fault.exit_code = Some(3);
        fault.stderr = Some("no such mesh".to_owned());
        let job = JobName::parse("heat/000102030405060708090a0b0c0d0e0f").unwrap();
        let text = fault_text(&fault, Some(&job));
        for said in
            ["ProgramFailed: it ended", "cpu_time = 1 s", "exit code: 3", "no such mesh", "heat/00"]
        {
            assert!(text.contains(said), "{text}");
        }
    }
}

//! Who asked for it is told how a job ends (conformance class `callback`): a POST to the addresses that the request named, within
//! the rules for what this server may ask (`data::policy`).
//!
//! The addresses are kept with the job. A server that is started anew goes on with the jobs that have not ended; one that is
//! killed between a job's end and its callback does not tell it.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{
    Argument, CallOptions, Fault, FaultCode, JobState, OutputChoice, OutputForm, Payload,
    Principal, Verb,
};
use fishplate_data::Progress;
use fishplate_data::transfer::Delivery;
use fishplate_jobs::engine::OwnJob;
use http_body_util::BodyExt as _;
use hyper::header::HeaderMap;
use serde::{Deserialize, Serialize};

use super::execute::{ResponseForm, ResultsChoice};
use super::handle;
use super::jobs::CallersJob;
use super::links::JSON;
use super::process::Process;
use crate::dispatch::authorise::{Access, Action};
use crate::dispatch::request::Reply;
use crate::host::{Host, PublicAddress};
use crate::memory::MemoryReservation;

/// How often a job is looked at that another process works on, or whose beginning is to be told.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who is told (`subscriber.yaml`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subscriber {
    /// Gets the results, as a document; large files by reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    success_uri: Option<String>,
    /// Gets the status when the program was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_progress_uri: Option<String>,
    /// Gets the status of a job that did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_uri: Option<String>,
}

/// The longest address of a subscriber: it is kept with the job.
const LONGEST_ADDRESS: usize = 4096;

impl Subscriber {
    /// Whether all of its addresses may be told, and the caller may have them told.
    ///
    /// # Errors
    /// `Forbidden`, `AddressForbidden`, `InvalidValue`, `NotSupported`.
    pub(super) fn check(
        &self,
        host: &Host,
        process: Process<'_>,
        caller: &Principal,
    ) -> Result<(), Fault> {
        let named = |name, uri: &Option<String>| Some((name, uri.clone()?));
        let all = [
            named("successUri", &self.success_uri),
            named("inProgressUri", &self.in_progress_uri),
            named("failedUri", &self.failed_uri),
        ];
        for (name, uri) in all.into_iter().flatten() {
            host.authorise(&Access {
                principal: caller,
                service: &process.entry.service().name,
                operation: &process.call.operation,
                action: Action::Deliver,
            })?;
            if host.place() == PublicAddress::At {
                let what = "a script tells nobody how a job ends: leave subscriber out, and ask for its status";
                return Err(Fault::new(FaultCode::NotSupported, what).parameter("subscriber"));
            }
            if uri.len() > LONGEST_ADDRESS {
                let what = format!("subscriber: {name} has more than {LONGEST_ADDRESS} characters");
                return Err(Fault::new(FaultCode::InvalidValue, what).parameter("subscriber"));
            }
            let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
            if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
                let what = format!("subscriber: {name} is an address of http or https");
                return Err(Fault::new(FaultCode::InvalidValue, what).parameter("subscriber"));
            }
            host.data.resolver.accepts(&uri).map_err(|fault| fault.parameter("subscriber"))?;
        }
        Ok(())
    }
}

/// Goes on with what was to be told when the server was stopped.
pub async fn resume(host: Arc<Host>) {
    match host.engine.noted().await {
        Ok(noted) => noted.into_iter().for_each(|(owner, job)| watch(&host, owner, job)),
        Err(fault) => tracing::error!(%fault, "who is to be told of jobs can't be told"),
    }
}

/// Has whoever asked for it told how a job goes on, beside everything else.
pub(super) fn watch(host: &Arc<Host>, owner: Principal, job: OwnJob) {
    let subscriber = ResultsChoice::of_note(job.note.as_deref()).subscriber;
    let Some(subscriber) = subscriber.filter(|it| *it != Subscriber::default()) else { return };
    let host = Arc::clone(host);
    tokio::spawn(async move {
        let id = job.id;
        if let Err(fault) = follow(&host, &owner, job, &subscriber).await {
            tracing::warn!(job = %id, %fault, "nobody was told of a job");
        }
    });
}

async fn follow(
    host: &Host,
    owner: &Principal,
    job: OwnJob,
    subscriber: &Subscriber,
) -> Result<(), Fault> {
    let mut in_progress = subscriber.in_progress_uri.as_deref();
    let state = loop {
        // Before it is asked how it stands, so that its end is not missed.
        let end = host.engine.end_of(job.id);
        let state = host.engine.status(owner, &job.service, job.id).await?.state;
        if state == JobState::Running
            && let Some(uri) = in_progress.take()
        {
            tell_status(host, owner, &job, uri).await;
        }
        if state.is_final() {
            break state;
        }
        let _ = tokio::time::timeout(LOOK_EVERY, end).await;
    };
    match (state, &subscriber.success_uri, &subscriber.failed_uri) {
        (JobState::Done, Some(uri), _) => {
            let results = results(host, owner, &job).await?;
            post(host, owner, uri, results).await
        }
        (JobState::Done, None, _) | (_, _, None) => Ok(()),
        (_, _, Some(uri)) => {
            tell_status(host, owner, &job, uri).await;
            Ok(())
        }
    }
}

/// Tells how a job stands; if that can't be told, it goes on all the same.
async fn tell_status(host: &Host, owner: &Principal, job: &OwnJob, uri: &str) {
    let told = async {
        let found = CallersJob::find(host, owner, &job.id.to_string()).await?;
        let (mut status, links) = found.status().await?;
        status["links"] = super::links::in_body(&links);
        post(host, owner, uri, status.to_string().into()).await
    };
    if let Err(fault) = told.await {
        tracing::warn!(job = %job.id, %fault, "nobody was told how a job stands");
    }
}

/// The results as a document; what is large in them by reference.
async fn results(host: &Host, owner: &Principal, job: &OwnJob) -> Result<bytes::Bytes, Fault> {
    let found = CallersJob::find(host, owner, &job.id.to_string()).await?;
    let verb = (Verb::Results, &*job.operation);
    let arguments = vec![Argument::text("job", job.id.to_string())];
    let large =
        OutputChoice { name: OutputChoice::ALL.to_owned(), form: OutputForm::Auto, to: None };
    let options = CallOptions { outputs: vec![large], ..CallOptions::default() };
    let mut memory = MemoryReservation::default();
    let reply =
        handle::ask(host, found.entry, verb, arguments, options, owner, &mut memory).await?;
    let Reply::Results { results, .. } = reply else {
        return Err(Fault::new(FaultCode::Internal, "results gave what another verb gives"));
    };
    let process = found.process()?;
    let choice = ResultsChoice {
        response: Some(ResponseForm::Document),
        ..ResultsChoice::of_note(job.note.as_deref())
    };
    let (known, headers) = (process.outputs(), HeaderMap::new());
    let reply =
        super::results::reply(host, owner, known, results.outputs, &choice, &headers).await?;
    let failed = |error| Fault::new(FaultCode::Internal, format!("results can't be read: {error}"));
    Ok(reply.into_body().collect().await.map_err(failed)?.to_bytes())
}

async fn post(host: &Host, owner: &Principal, uri: &str, body: bytes::Bytes) -> Result<(), Fault> {
    let message = Delivery {
        payload: Payload::Inline(body),
        name: String::new(),
        media_type: JSON.to_owned(),
        digest: None,
        subject: String::new(),
        posts: true,
        progress: Progress::default(),
    };
    host.data.resolver.deliver(&message, uri, owner, &Progress::default()).await.map(drop)
}

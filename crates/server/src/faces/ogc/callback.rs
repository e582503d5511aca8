//! Who asked for it is told how a job ends (conformance class `callback`): a POST to the addresses that the request named, within
//! the rules for what this server may ask (`data::policy`).
//!
//! That somebody is to be told is kept with the job, in one transaction with it, until he was: a server that is stopped or killed
//! tells it when it is started anew, and of several servers on one store one tells it, unless it is killed meanwhile. So it is told at
//! least once; a request that tells the same again has the same `Idempotency-Key`.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{
    Argument, CallOptions, Clock as _, Fault, FaultCode, Notices, OutputChoice, OutputForm,
    Payload, Principal, SystemClock, Verb,
};
use fishplate_data::Progress;
use fishplate_data::transfer::{Delivery, PostKey};
use fishplate_jobs::engine::OwnJob;
use fishplate_jobs::store::notices::{DueNotice, Notice};
use http_body_util::BodyExt as _;
use hyper::header::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::execute::{ResponseForm, ResultsChoice};
use super::handle;
use super::jobs::CallersJob;
use super::links::JSON;
use super::process::Process;
use crate::current::CurrentHost;
use crate::dispatch::authorise::{Access, Action};
use crate::dispatch::request::Reply;
use crate::host::{Host, PublicAddress};
use crate::memory::MemoryReservation;

/// How often it is looked for what other processes have left: what happens here wakes us.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How many are told at once; of one owner `owner_callbacks`.
const TOLD_AT_ONCE: usize = 32;

/// One try takes so long at most: nobody's subscriber keeps others' from being told.
const TRY: Duration = Duration::from_secs(60);

/// How long it is left alone to tell what could not be told.
const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(300);

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
    /// What of a job it is told.
    pub(super) fn notices(&self) -> Notices {
        let end = self.success_uri.is_some() || self.failed_uri.is_some();
        Notices { start: self.in_progress_uri.is_some(), end }
    }

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

/// Has subscribers told, as long as it is awaited, of all jobs of the store that this server's services have: by this server, or by
/// another one on the same store, whichever claims it first.
pub async fn tell_subscribers(current: Arc<CurrentHost>) {
    let mut telling = JoinSet::new();
    loop {
        let host = current.get();
        let room = TOLD_AT_ONCE.saturating_sub(telling.len());
        if room > 0 && host.place() != PublicAddress::At {
            let of_owner = host.settings.owner_callbacks;
            match host.engine.claim_notices(names(&host), room, of_owner).await {
                Ok(claimed) => claimed.into_iter().for_each(|due| {
                    let host = Arc::clone(&host);
                    telling.spawn(async move { tell(&host, &due).await });
                }),
                Err(fault) => tracing::warn!(%fault, "who is to be told of jobs is not known"),
            }
        }
        tokio::select! {
            () = host.engine.notice_due() => {}
            Some(told) = telling.join_next() => {
                // Nobody renews its claim any more: it is told again.
                let _ = told.inspect_err(|error| tracing::error!(%error, "telling of a job broke off"));
            }
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn names(host: &Host) -> Vec<String> {
    host.services().map(|entry| entry.service().name.clone()).collect()
}

/// Tells it once, or lets it rest for as long again as it waits already.
async fn tell(host: &Host, due: &DueNotice) {
    let told = tokio::select! {
        told = timeout(TRY, told(host, due)) => told.unwrap_or_else(|_| {
            Err(Fault::new(FaultCode::TransferFailed, "the subscriber takes too long to answer"))
        }),
        () = host.engine.keep_notice(due) => return,
    };
    let Err(fault) = told else { return host.engine.settle_notice(due).await };
    let waited = SystemClock.now().since(due.since);
    let can_change = !matches!(
        fault.code,
        FaultCode::AddressForbidden
            | FaultCode::Forbidden
            | FaultCode::InvalidValue
            | FaultCode::NoSuchJob
            | FaultCode::NotSupported
    );
    let job = due.job;
    if can_change && waited < host.settings.callback_time {
        tracing::info!(%job, %fault, "a subscriber was not told of a job; he will be");
        host.engine.release_notice(due, waited.clamp(SHORTEST_REST, LONGEST_REST)).await;
    } else {
        tracing::warn!(%job, %fault, "a subscriber is not told of a job any more");
        host.engine.settle_notice(due).await;
    }
}

async fn told(host: &Host, due: &DueNotice) -> Result<(), Fault> {
    let owner = &due.owner;
    let found = CallersJob::find(host, owner, &due.job.to_string()).await?;
    // Of a job with something to tell there always is a note: without it, its record could not be read.
    let Some(note) = found.job.note.as_deref() else {
        let what = "the job's record can't be read, which says who is to be told";
        return Err(Fault::new(FaultCode::Internal, what).job(due.job));
    };
    let note = ResultsChoice::of_note(Some(note));
    let Some(subscriber) = &note.subscriber else { return Ok(()) };
    let (mut status, links) = found.status().await?;
    let is = |code: &str| status["status"] == code;
    let (uri, moment) = match due.notice {
        // It has ended meanwhile, which is told instead.
        Notice::Started if !is("running") => return Ok(()),
        Notice::Started => (&subscriber.in_progress_uri, "started"),
        Notice::Ended if is("successful") => (&subscriber.success_uri, "ended"),
        Notice::Ended => (&subscriber.failed_uri, "ended"),
    };
    let Some(uri) = uri else { return Ok(()) };
    let body = if is("successful") {
        results(host, owner, &found.job).await?
    } else {
        status["links"] = super::links::in_body(&links);
        status.to_string().into()
    };
    post(host, due, uri, body, &format!("{}-{moment}", due.job)).await
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

/// `key` is the same however often this is told, so that whoever is told can see that he was before.
async fn post(
    host: &Host,
    due: &DueNotice,
    uri: &str,
    body: bytes::Bytes,
    key: &str,
) -> Result<(), Fault> {
    let message = Delivery {
        payload: Payload::Inline(body),
        name: String::new(),
        media_type: JSON.to_owned(),
        digest: None,
        subject: String::new(),
        posts: Some(PostKey(key.to_owned())),
        progress: Progress::default(),
    };
    let progress = Progress::default();
    host.data.resolver.deliver(&message, uri, &due.owner, &progress).await.map(drop)
}

//! Outputs that are brought somewhere before the job is done: to the destination that the caller
//! named, or into the job's session.

use std::path::Path;
use std::sync::Arc;

use fishplate_contract::{DataRef, Fault, FaultCode, JobId, JobState, OutputForm, TransferState};
use tokio::task::JoinSet;

use super::outcome::{lacks_room, no_references};
use super::output::{self, Remembered};
use super::transfers::Move;
use super::{Shared, lock};
use crate::conclusion::{Conclusion, Sent};
use crate::executor::Output;
use crate::fetcher::{AdoptOrder, DeliverOrder, OutputFile};
use crate::store::Record;

/// An output that is to be sent, by its place among the outputs.
struct Parcel {
    at: usize,
    /// Where it is delivered; else it is put into the session.
    to: Option<(String, Arc<Move>)>,
}

/// Why outputs were not sent.
enum Unsent {
    /// Somebody asked for the job's end.
    Killed,
    /// A transfer failed; the output's parameter is in it.
    Failed(Box<Fault>),
}

impl Shared {
    /// Sends what is to be sent of a job that ended well. Whether that succeeds is part of its end.
    pub(super) async fn send_outputs(
        self: &Arc<Self>,
        job: JobId,
        fence: u64,
        mut conclusion: Conclusion,
    ) -> Conclusion {
        if conclusion.state() != JobState::Done {
            return conclusion;
        }
        let parcels = self.parcels(&conclusion);
        if parcels.is_empty() {
            return conclusion;
        }
        let moves: Vec<Arc<Move>> =
            parcels.iter().filter_map(|it| Some(Arc::clone(&it.to.as_ref()?.1))).collect();
        let mut stopped = self.sends(job, fence, moves.clone());
        let mut sent = Vec::new();
        let done = tokio::select! {
            done = self.send_all(job, &conclusion, parcels, &mut sent) => {
                done.map_err(|fault| Unsent::Failed(Box::new(fault)))
            }
            Ok(_) = stopped.wait_for(|stop| *stop) => Err(Unsent::Killed),
        };
        for known in &moves {
            if done.is_err() && known.progress.state() != TransferState::Done {
                known.progress.enter(TransferState::Failed);
            }
        }
        conclusion.transfers.extend(moves.iter().map(|known| known.moved()));
        conclusion.sent = sent;
        conclusion.ended = self.clock.now().0;
        if let Err(why) = done {
            why.conclude(&mut conclusion);
        }
        self.moved(job, fence);
        conclusion
    }

    fn parcels(&self, conclusion: &Conclusion) -> Vec<Parcel> {
        let answer = &conclusion.answer;
        let parcel = |(at, output): (usize, &Output)| {
            let len = output.len()?;
            if let Some(to) = answer.destination(&output.name) {
                let known = Arc::new(Move::of_output(&output.name, to, len));
                return Some(Parcel { at, to: Some((to.to_owned(), known)) });
            }
            let stays = answer.session.is_some() && self.refers(answer, output);
            stays.then_some(Parcel { at, to: None })
        };
        conclusion.outputs().iter().enumerate().filter_map(parcel).collect()
    }

    async fn send_all(
        self: &Arc<Self>,
        job: JobId,
        conclusion: &Conclusion,
        parcels: Vec<Parcel>,
        sent: &mut Vec<Sent>,
    ) -> Result<(), Fault> {
        let Some(record) = self.find(job)? else {
            return Err(Fault::new(FaultCode::NoSuchJob, "the job was removed"));
        };
        let outputs: Arc<[Output]> = conclusion.outputs().into();
        let record = Arc::new(record);
        let answer = Arc::new(conclusion.answer.clone());
        let session = answer.session();
        let mut tasks = JoinSet::new();
        for parcel in parcels {
            let (shared, outputs, record, answer) =
                (Arc::clone(self), Arc::clone(&outputs), Arc::clone(&record), Arc::clone(&answer));
            tasks.spawn(async move {
                let name = outputs[parcel.at].name.clone();
                // What the server may choose goes by value then.
                let by_value = parcel.to.is_none() && answer.form(&name) == OutputForm::Auto;
                match shared.send(&record, &outputs, parcel, session).await {
                    Err(fault) if by_value && lacks_room(&fault) => Ok(None),
                    sent => sent.map(Some).map_err(|fault| fault.parameter(name)),
                }
            });
        }
        while let Some(one) = tasks.join_next().await {
            sent.extend(one.unwrap_or_else(|error| {
                tracing::error!(%job, %error, "sending an output failed");
                Err(Fault::new(FaultCode::Internal, "the output was not sent"))
            })?);
        }
        Ok(())
    }

    async fn send(
        &self,
        record: &Record,
        outputs: &Arc<[Output]>,
        parcel: Parcel,
        session: Option<fishplate_contract::SessionId>,
    ) -> Result<Sent, Fault> {
        let output = &outputs[parcel.at];
        let directory = record.directory.clone();
        if let Some((_, known)) = &parcel.to
            && let Some(sent) = sent_before(&directory, output).await
        {
            // By an engine that was killed before it could write the job's end.
            known.progress.set(sent.len.unwrap_or(0));
            known.progress.enter(TransferState::Done);
            return Ok(sent);
        }
        let file = file_of(&directory, outputs, parcel.at, parcel.to.is_none()).await?;
        let fetcher = self.fetcher.get().ok_or_else(no_references)?;
        let (job, owner) = (record.id, record.owner.clone());
        let reference = match parcel.to {
            None => {
                let order = AdoptOrder { job, owner, file, session, earlier: None };
                fetcher.adopt(&order).await?.reference
            }
            Some((to, known)) => {
                let to = if to.ends_with('/') { format!("{to}{}", file.name) } else { to };
                let subject = format!("{}: {}", record.service, output.name);
                let order = DeliverOrder { job, owner, file, to, subject };
                known.progress.enter(TransferState::Running);
                let delivered = fetcher.deliver(&order, &known.progress).await;
                let state = match &delivered {
                    Ok(_) => TransferState::Done,
                    Err(_) => TransferState::Failed,
                };
                known.progress.enter(state);
                let sent = sent(output, delivered?);
                return Ok(remember(&directory, sent).await);
            }
        };
        Ok(sent(output, reference))
    }

    /// Whether outputs of a job are being sent by this process.
    pub(super) fn is_sending(&self, job: JobId) -> bool {
        lock(&self.underway).get(&job).is_some_and(super::transfers::Underway::is_sending)
    }
}

impl Unsent {
    fn conclude(self, conclusion: &mut Conclusion) {
        conclusion.unsent = true;
        let (state, fault) = match self {
            Self::Killed => {
                let why = "the job was killed on request while its outputs were being sent";
                (JobState::Killed, Fault::new(FaultCode::JobKilled, why))
            }
            Self::Failed(fault) => (JobState::Failed, *fault),
        };
        state.name().clone_into(&mut conclusion.state);
        let message = match state {
            JobState::Failed => format!(
                "{}; the program ended well, and results gives the outputs in another way, if they \
                 are chosen again",
                fault.message
            ),
            _ => fault.message,
        };
        conclusion.fault = Some((fault.code.name().to_owned(), message));
        conclusion.parameter = fault.parameter;
        conclusion.refused_by = fault.limit.map(|limit| (limit.name, limit.value));
    }
}

fn sent(output: &Output, reference: DataRef) -> Sent {
    Sent {
        name: output.name.clone(),
        label: output.label.clone(),
        url: reference.url,
        len: reference.len,
        digest: reference.digest.map(|digest| digest.to_string()),
        expires: None,
    }
}

async fn file_of(
    directory: &Path,
    outputs: &Arc<[Output]>,
    at: usize,
    in_session: bool,
) -> Result<OutputFile, Fault> {
    let (directory, outputs) = (directory.to_owned(), Arc::clone(outputs));
    let file = move || output::file(&directory, &outputs, at, in_session);
    match tokio::task::spawn_blocking(file).await {
        Ok(Ok(file)) => Ok(file),
        Ok(Err(error)) => Err(output::unreadable(&error)),
        Err(_) => Err(Fault::new(FaultCode::Internal, "the server is ending")),
    }
}

async fn sent_before(directory: &Path, output: &Output) -> Option<Sent> {
    let directory = directory.to_owned();
    let known = tokio::task::spawn_blocking(move || Remembered::Delivered.read(&directory));
    let known = known.await.unwrap_or_default();
    known.into_iter().find(|sent| sent.name == output.name && sent.label == output.label)
}

/// Remembers what was delivered, so that it is not delivered again if this process is killed
/// before the job's end is written.
async fn remember(directory: &Path, sent: Sent) -> Sent {
    let (directory, noted) = (directory.to_owned(), sent.clone());
    let note = move || Remembered::Delivered.note(&directory, noted);
    let _ = tokio::task::spawn_blocking(note).await;
    sent
}

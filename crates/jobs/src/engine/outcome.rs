//! From a completion to what callers get: each output by value or by reference.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{
    Argument, Array, DataRef, ElementType, Fault, FaultCode, JobId, OutputChoice, OutputForm,
    Payload, Principal, Value,
};

use super::output::{self, CachedOutputs, OutputHandle};
use super::{Engine, EngineInner};
use crate::completion::{Completion, DeliveredOutput};
use crate::executor::{ArrayBytes, Output, OutputContent};
use crate::stager::RegisterOrder;
use crate::store::quota::Quota;
use crate::workspace;
use fishplate_programs::output_choices::{self, OutputChoices};

/// An address that stands no longer than this is not given again.
const SOON: Duration = Duration::from_secs(60);

impl Engine {
    /// How a job ended.
    ///
    /// # Errors
    /// `NoSuchJob`, `NotFinished`.
    pub async fn completion(
        &self,
        owner: &Principal,
        service: &str,
        operation: &str,
        job: JobId,
    ) -> Result<Completion, Fault> {
        let record = self.record(owner, service, job).await?;
        if record.operation != operation {
            let what = format!("job {job} runs operation {}, not {operation}", record.operation);
            return Err(Fault::new(FaultCode::NoSuchJob, what).job(job));
        }
        let state = record.state.name();
        record.completion.ok_or_else(|| {
            let what = format!("job {job} is {state}; ask for its results once it has ended");
            let fault = Fault::new(FaultCode::NotFinished, what).job(job);
            fault.retry_after(Duration::from_secs(1))
        })
    }

    /// What a completion means to its owner: every output as it was chosen `again`, else with the
    /// call. What the server may choose, or was not chosen again, goes by value where a quota or the
    /// disk has no room for it.
    ///
    /// # Errors
    /// The fault that the job ended with, unless that is only that an output could not be sent and
    /// outputs are chosen again; what is wrong with the choices; what the pool says.
    pub async fn outcome(
        &self,
        owner: &Principal,
        job: JobId,
        completion: &Completion,
        again: &[OutputChoice],
    ) -> Result<Vec<Argument>, Fault> {
        if let Some(fault) = completion.fault(job)
            && (again.is_empty() || !completion.unsent)
        {
            return Err(fault);
        }
        let rechosen = self.choose_again(job, completion, again).await?;
        let answer = rechosen.as_ref().unwrap_or(&completion.answer);
        let shared = &self.shared;
        let outputs = completion.outputs();
        let mut arguments = Vec::with_capacity(outputs.len());
        for (at, output) in outputs.iter().enumerate() {
            let sent = completion.sent_as(output).filter(|_| {
                let to = completion.answer.destination(&output.name).is_some();
                if to {
                    answer.destination(&output.name).is_some()
                } else {
                    shared.refers(answer, output)
                }
            });
            let value = match sent {
                Some(sent) => refer(sent.reference()),
                None if shared.refers(answer, output) => {
                    let insisted = match rechosen {
                        Some(_) => again
                            .iter()
                            .any(|it| it.name == output.name || it.name == OutputChoice::ALL),
                        None => true,
                    };
                    let by_value = !insisted || answer.form(&output.name) == OutputForm::Auto;
                    match shared.register(owner, job, answer, outputs, at).await {
                        Ok(reference) => refer(reference),
                        Err(fault) if by_value && lacks_room(&fault) => {
                            shared.value(job, output)?
                        }
                        Err(fault) => return Err(fault),
                    }
                }
                None => shared.value(job, output)?,
            };
            let (name, label) = (output.name.clone(), output.label.clone());
            arguments.push(Argument { name, label, value });
        }
        Ok(arguments)
    }

    /// [`Engine::outcome`] of a job that is kept, and whether somebody was given it before: the first time is what the
    /// job's record counts.
    ///
    /// # Errors
    /// `QuotaExceeded`, if somebody was, and the owner's traffic is used up.
    pub async fn hand_out(
        &self,
        owner: &Principal,
        job: JobId,
        completion: &Completion,
        again: &[OutputChoice],
    ) -> Result<(Vec<Argument>, bool), Fault> {
        let mark = self.shared.directory(job).join(workspace::HANDED_OUT);
        if tokio::fs::try_exists(&mark).await.unwrap_or(false) {
            self.check_quotas(owner, &[(Quota::Traffic, 0)]).await?;
        }
        let outputs = self.outcome(owner, job, completion, again).await?;
        // A mark that can't be made, on a full disk, makes nobody pay twice.
        let made = tokio::task::spawn_blocking(move || File::create_new(mark)).await;
        let is_there = |made: io::Result<File>| {
            made.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        };
        Ok((outputs, made.is_ok_and(is_there)))
    }

    async fn choose_again(
        &self,
        job: JobId,
        completion: &Completion,
        again: &[OutputChoice],
    ) -> Result<Option<OutputChoices>, Fault> {
        if again.is_empty() {
            return Ok(None);
        }
        if let Some(choice) = again.iter().find(|choice| choice.to.is_some()) {
            let what = "outputs are delivered when the job ends: name the destination in the call";
            return Err(Fault::new(FaultCode::NotSupported, what).parameter(&choice.name).job(job));
        }
        let choices = output_choices::choices(&self.plan(job).await?.outputs, again)?;
        Ok(Some(completion.answer.chosen_again(choices)))
    }
}

fn refer(reference: DataRef) -> Value {
    Value::Data(Payload::Reference(reference))
}

impl Completion {
    /// Where an output was brought before the job was done.
    fn sent_as(&self, output: &Output) -> Option<&DeliveredOutput> {
        self.sent.iter().find(|sent| sent.name == output.name && sent.label == output.label)
    }
}

impl EngineInner {
    /// Whether an output goes by reference.
    pub(super) fn refers(&self, answer: &OutputChoices, output: &Output) -> bool {
        output
            .len()
            .is_some_and(|len| answer.by_reference(&output.name, len, self.settings.reference_size))
    }

    /// An output by value: in memory, or in its file.
    fn value(&self, job: JobId, output: &Output) -> Result<Value, Fault> {
        let directory = self.directory(job);
        let internal = |what: String| Fault::new(FaultCode::Internal, what).job(job);
        Ok(match &output.content {
            OutputContent::Text(text) => Value::Text(text.clone()),
            OutputContent::TextFile { path, .. } => Value::Text(
                workspace::open_output(&directory, path).and_then(io::read_to_string).map_err(
                    |error| internal(format!("output {} can't be read: {error}", output.name)),
                )?,
            ),
            OutputContent::File { path, len } => held(&workspace::work(&directory), path, *len),
            OutputContent::Archive { path, len } => held(&directory, path, *len),
            OutputContent::Array { element, shape, bytes } => {
                let element = ElementType::from_name(element).ok_or_else(|| {
                    internal(format!("output {} is an array of {element}", output.name))
                })?;
                let data = match bytes {
                    ArrayBytes::Inline(bytes) => Payload::Inline(bytes.clone().into()),
                    ArrayBytes::File { path, len } => {
                        Payload::Spooled(Arc::new(OutputHandle::new(directory.join(path), *len)))
                    }
                };
                Value::Array(Array { element, shape: shape.clone(), data })
            }
        })
    }

    /// An output's address. It is remembered in the job's directory, so that who asks again gets
    /// the same.
    async fn register(
        &self,
        owner: &Principal,
        job: JobId,
        answer: &OutputChoices,
        outputs: &[Output],
        at: usize,
    ) -> Result<DataRef, Fault> {
        let output = &outputs[at];
        let named = |fault: Fault| fault.parameter(&output.name).job(job);
        let stager = self.stager.get().ok_or_else(|| named(no_references()))?;
        let session = answer.session();
        let directory = self.directory(job);
        let (all, in_session) = (outputs.to_vec(), session.is_some());
        let prepared = tokio::task::spawn_blocking(move || {
            let file = output::file(&directory, &all, at, in_session)?;
            Ok::<_, io::Error>((file, CachedOutputs::Addresses.read(&directory)))
        });
        let (file, known) = match prepared.await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(error)) => return Err(named(output::unreadable(&error))),
            Err(_) => return Err(named(Fault::new(FaultCode::Internal, "the server is ending"))),
        };
        let soon = self.clock.now().after(SOON);
        let earlier = known.into_iter().find(|sent| {
            let same = sent.name == output.name && sent.label == output.label;
            same && sent.expires.is_none_or(|expires| expires > soon.0)
        });
        let earlier = earlier.map(|sent| sent.reference());
        let order = RegisterOrder { job, owner: owner.clone(), file, session, earlier };
        let adopted = stager.register(&order).await.map_err(named)?;
        if order.earlier.as_ref() != Some(&adopted.reference) {
            let sent = DeliveredOutput {
                name: output.name.clone(),
                label: output.label.clone(),
                url: adopted.reference.url.clone(),
                len: adopted.reference.len,
                digest: adopted.reference.digest.map(|digest| digest.to_string()),
                expires: adopted.expires.map(|at| at.0),
            };
            let directory = self.directory(job);
            let note = move || CachedOutputs::Addresses.note(&directory, sent);
            let _ = tokio::task::spawn_blocking(note).await;
        }
        Ok(adopted.reference)
    }
}

fn held(root: &Path, path: &str, len: u64) -> Value {
    Value::Data(Payload::Spooled(Arc::new(OutputHandle::new(root.join(path), len))))
}

/// The pool or the session has no room: by value it can be had all the same.
pub(super) fn lacks_room(fault: &Fault) -> bool {
    matches!(fault.code, FaultCode::QuotaExceeded | FaultCode::StorageFull)
}

/// This server moves no data by reference.
pub(super) fn no_references() -> Fault {
    let what = "this server does not take part in transfers by reference; send the data itself";
    Fault::new(FaultCode::NotSupported, what)
}

//! Calls without a key: jobs that only the caller who waits here knows of.

use std::sync::Arc;

use fishplate_contract::{Fault, JobId, JobState};
use tokio::sync::oneshot;

use super::submit::{CompletedJob, JobRequest, accepting, new_id};
use super::{Engine, EngineInner, lock};
use crate::completion::Completion;
use crate::executor::{ArrayBytes, Output, OutputContent};

/// A job that nobody can ask for but the caller who waits for it: it need not survive the machine,
/// has no manifest, and is forgotten once its results are delivered.
///
/// All of that lasts as long as this does. Dropped before the results are delivered (the caller has
/// gone, the answer broke off, a panic), it leaves an ordinary job behind, which goes on and can be
/// found; dropped afterwards, nothing.
#[derive(Debug)]
pub struct EphemeralJob {
    engine: Engine,
    job: JobId,
    waiter: Option<oneshot::Receiver<CompletedJob>>,
    fate: Disposition,
}

/// What becomes of the job when its guard is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposition {
    /// It is a job as any other.
    Stays,
    /// It was delivered, and is forgotten.
    Forgotten,
    /// It was forgotten when it ended: its caller had all of it.
    Gone,
}

impl Engine {
    /// Accepts work whose results nobody but the caller will want. Once this returns, the job
    /// survives this process.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub async fn call(&self, work: JobRequest) -> Result<EphemeralJob, Fault> {
        let job = new_id()?;
        // It comes to be before anybody can claim the job, and goes with the task if the caller
        // hangs up meanwhile.
        let mut ephemeral = EphemeralJob::new(self.clone(), job);
        accepting(async move {
            ephemeral.waiter = ephemeral.engine.shared.accept(job, work, false).await?.waiter;
            Ok(ephemeral)
        })
        .await
    }
}

impl EphemeralJob {
    fn new(engine: Engine, job: JobId) -> Self {
        lock(&engine.shared.ephemeral).insert(job);
        Self { engine, job, waiter: None, fate: Disposition::Stays }
    }

    /// The job.
    pub fn id(&self) -> JobId {
        self.job
    }

    /// Waits for its end. Costs no thread.
    ///
    /// # Errors
    /// As [`Engine::wait`].
    pub async fn ended(&mut self) -> Result<Arc<Completion>, Fault> {
        let ended = self.engine.shared.wait(self.job, self.waiter.take()).await?;
        if !ended.kept {
            self.fate = Disposition::Gone;
        }
        Ok(ended.completion)
    }

    /// Its results, or why there are none, were delivered.
    pub fn delivered(mut self) {
        if self.fate == Disposition::Stays {
            self.fate = Disposition::Forgotten;
        }
    }

    /// Leaves an ordinary job behind: its ID, unless it is gone already.
    pub fn keep(self) -> Option<JobId> {
        (self.fate == Disposition::Stays).then_some(self.job)
    }
}

impl Drop for EphemeralJob {
    fn drop(&mut self) {
        lock(&self.engine.shared.ephemeral).remove(&self.job);
        if self.fate == Disposition::Forgotten {
            self.engine.shared.release(self.job);
        }
    }
}

/// While it lives, the record of a delivered job is on its way out of the store.
pub(super) struct Release(Arc<EngineInner>);

impl Release {
    pub(super) fn begin(shared: &Arc<EngineInner>) -> Self {
        shared.releasing.send_modify(|count| *count += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        self.0.releasing.send_modify(|count| *count -= 1);
    }
}

impl EngineInner {
    /// Whether nobody but a caller who still waits here can ask for a job.
    pub(super) fn is_ephemeral(&self, job: JobId) -> bool {
        lock(&self.ephemeral).contains(&job)
    }

    /// Whether the caller of an ephemeral job gets all there is in memory: then its record and its
    /// files have served. Whoever killed it may still ask.
    pub(super) fn delivers_whole(&self, job: JobId, completion: &Completion) -> bool {
        let in_memory = |output: &Output| match &output.content {
            OutputContent::Text(_) => true,
            OutputContent::Array { bytes, .. } => matches!(bytes, ArrayBytes::Inline(_)),
            OutputContent::TextFile { .. }
            | OutputContent::File { .. }
            | OutputContent::Archive { .. } => false,
        };
        self.is_ephemeral(job)
            && completion.state() != JobState::Killed
            && completion.answer.is_plain()
            && completion.outputs().iter().all(in_memory)
    }

    /// Forgets a job whose results were delivered, and frees its space.
    fn release(self: &Arc<Self>, job: JobId) {
        // Where no runtime is, the process is ending: the job stays until it expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (shared, release) = (Arc::clone(self), Release::begin(self));
        runtime.spawn(async move {
            shared.discard(vec![job]).await;
            drop(release);
        });
    }
}

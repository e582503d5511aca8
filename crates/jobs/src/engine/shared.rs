//! What the parts of an engine share, and how one is made.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

use fishplate_contract::{Clock, Fault, FaultCode, JobId, lock};
use tokio::sync::{mpsc, oneshot, watch};

use super::quotas::{self, QuotaSource};
use super::submit::CompletedJob;
use super::{Settings, disk_usage, driver, housekeeping, places, plans, resting};
use crate::executor::Executor;
use crate::process;
use crate::stager::Stager;
use crate::store::commit::WriteError;
use crate::store::usage::UsageAccumulator;
use crate::store::{AsyncStore, JobRecord, Store, StoreError};

/// The jobs of one data directory, as this process works on them. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(super) shared: Arc<EngineInner>,
}

pub(super) struct EngineInner {
    pub(super) settings: Settings,
    pub(super) holder: String,
    pub(super) boot: String,
    pub(super) store: AsyncStore,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) orders: mpsc::UnboundedSender<driver::DriverCommand>,
    pub(super) inbox: Mutex<Option<mpsc::UnboundedReceiver<driver::DriverCommand>>>,
    pub(super) waiters: Mutex<HashMap<JobId, Vec<oneshot::Sender<CompletedJob>>>>,
    /// Plans of jobs that were accepted here and are not claimed yet.
    pub(super) plans: Mutex<plans::PlanCache>,
    /// Jobs of which an [`super::EphemeralJob`] lives.
    pub(super) ephemeral: Mutex<HashSet<JobId>>,
    /// Tells what each owner may have now.
    pub(super) quotas: RwLock<QuotaSource>,
    /// What jobs occupy.
    pub(super) occupied: Mutex<disk_usage::DiskUsage>,
    /// Queued jobs whose start found no room.
    pub(super) resting: Mutex<resting::RestingJobs>,
    /// Places for ranks.
    pub(super) places: Arc<Mutex<places::Places>>,
    /// Held while it is looked whether there are any.
    pub(super) reserving: tokio::sync::Mutex<()>,
    /// What was used without a job, and is not written yet.
    pub(super) unwritten: Mutex<UsageAccumulator>,
    /// Held from taking what is unwritten until it is written.
    pub(super) writing_usage: tokio::sync::Mutex<()>,
    /// How many records of delivered jobs are on their way out of the store.
    pub(super) releasing: watch::Sender<usize>,
    /// When ended jobs are looked through next, and directories.
    pub(super) housekeeping: Mutex<housekeeping::HousekeepingState>,
    /// Directories that are to go.
    pub(super) removal: Mutex<housekeeping::RemovalQueue>,
    /// Sees to it that another process works on accepted jobs, if this one does not.
    pub(super) worker: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Moves data by reference; without one there is none.
    pub(super) stager: std::sync::OnceLock<Arc<dyn Stager>>,
    /// Who may have results of whose jobs; without it nobody has another's.
    pub(super) reuse_rule: RwLock<Option<Arc<super::ReuseRule>>>,
    /// Something may be to be told of jobs.
    pub(super) notices: tokio::sync::Notify,
    /// Whether [`Engine::run`] works on this process's side; else another process must.
    pub(super) working: std::sync::atomic::AtomicBool,
}

impl Engine {
    /// An engine on this store and executor. It accepts and answers at once, and works on jobs
    /// while [`Engine::run`] runs.
    ///
    /// # Errors
    /// If the data directory cannot be made.
    pub fn new(
        settings: Settings,
        store: Arc<dyn Store>,
        executor: Arc<dyn Executor>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        std::fs::create_dir_all(settings.data.join("jobs"))?;
        let (orders, inbox) = mpsc::unbounded_channel();
        Ok(Self {
            shared: Arc::new(EngineInner {
                holder: process::this_process(),
                boot: process::boot().to_owned(),
                store: AsyncStore::new(store),
                executor,
                clock,
                orders,
                inbox: Mutex::new(Some(inbox)),
                waiters: Mutex::default(),
                plans: Mutex::new(plans::PlanCache::new(settings.plan_memory)),
                ephemeral: Mutex::default(),
                quotas: RwLock::new(quotas::of_settings(&settings)),
                occupied: Mutex::default(),
                resting: Mutex::default(),
                places: Arc::default(),
                reserving: tokio::sync::Mutex::default(),
                unwritten: Mutex::default(),
                writing_usage: tokio::sync::Mutex::default(),
                releasing: watch::Sender::default(),
                housekeeping: Mutex::default(),
                removal: Mutex::default(),
                worker: std::sync::OnceLock::new(),
                stager: std::sync::OnceLock::new(),
                reuse_rule: RwLock::default(),
                notices: tokio::sync::Notify::new(),
                working: std::sync::atomic::AtomicBool::new(false),
                settings,
            }),
        })
    }

    /// An engine that only accepts and answers: `worker` is called after each job it accepts, and
    /// sees to it that another process works on it.
    #[must_use]
    pub fn worked_by(self, worker: impl Fn() + Send + Sync + 'static) -> Self {
        let _ = self.shared.worker.set(Box::new(worker));
        self
    }

    /// An engine that moves data by reference with this.
    #[must_use]
    pub fn fetched_by(self, stager: Arc<dyn Stager>) -> Self {
        let _ = self.shared.stager.set(stager);
        self
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

impl EngineInner {
    /// Whether this process works on jobs.
    pub(super) fn is_working(&self) -> bool {
        self.working.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(super) fn directory(&self, job: JobId) -> PathBuf {
        self.settings.data.join("jobs").join(job.to_string())
    }

    pub(super) async fn find(&self, job: JobId) -> Result<Option<JobRecord>, Fault> {
        let found = self.store.read(move |t| t.find(job)).await;
        found.map_err(|error| storage_fault(&error))
    }

    /// Tells everybody who waits for this job how it ended.
    pub(super) fn announce(&self, job: JobId, ended: &CompletedJob) {
        // Of others only their callers know, and what they were told is logged.
        if ended.kept {
            let completion = &*ended.completion;
            let ran_ms = completion.ending.as_ref().map(|of| completion.ended - of.started);
            let why = Some(completion.message()).filter(|why| !why.is_empty());
            tracing::info!(%job, state = completion.state, ran_ms, why, "job ended");
        }
        // What was killed before it ran has no choices in its end.
        if ended.completion.answer.notices.end || ended.completion.ending.is_none() {
            self.notices.notify_one();
        }
        let waiters = lock(&self.waiters).remove(&job);
        for waiter in waiters.into_iter().flatten() {
            let _ = waiter.send(ended.clone());
        }
    }
}

pub(super) fn storage_fault(error: &StoreError) -> Fault {
    match error {
        StoreError::Full => Fault::new(FaultCode::StorageFull, error.to_string()),
        StoreError::Damaged(source) | StoreError::Storage(source) => {
            tracing::error!(%source, "the job store failed");
            Fault::new(FaultCode::Internal, "the job store failed; the server's log has more")
        }
        StoreError::Closed => Fault::new(FaultCode::Internal, "the server is shutting down"),
    }
}

pub(super) fn write_fault(error: &WriteError) -> Fault {
    storage_fault(error)
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

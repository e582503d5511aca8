//! The engine: claims jobs, starts them, observes them, concludes them, and answers for them.
//!
//! Reading order: [`reactor`] (the steps, no effects), [`driver`] (the effects and the clock),
//! `fetching` and `arrival` (data by reference before the start), `sending` (and after the end),
//! `transfers` (what moves just now), `record` and `plans` (plans of jobs that wait, on the disk and in
//! memory), `room` (what jobs occupy, and what must stay free),
//! [`judge`] (from a program's end to a job's), [`verbs`] (what callers ask of jobs), `outcome`
//! (outputs as the caller wants them),
//! [`housekeeping`] (retention and what kills left behind), [`holder`] (who holds a lease).

mod arrival;
mod driver;
mod fetching;
pub mod holder;
mod housekeeping;
mod judge;
mod outcome;
mod output;
mod plans;
pub mod reactor;
pub(crate) mod record;
mod room;
mod sending;
mod submit;
mod transfers;
mod verbs;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fishplate_contract::{Clock, Fault, FaultCode, JobId};
use tokio::sync::{mpsc, oneshot};

pub use driver::Until;
pub use submit::{Accepted, Delivery, Ended, NewWork, fingerprint};
pub use verbs::{InSession, LogPage};

use crate::executor::Executor;
use crate::fetcher::Fetcher;
use crate::store::commit::{GroupCommit, WriteError};
use crate::store::{Record, Store, StoreError};

/// What an administrator may set. Each has its row in `docs/reference/limits.md`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory that holds all state; see ARCHITECTURE.md.
    pub data: PathBuf,
    /// How many jobs may run at once in the whole data directory.
    pub max_running: u32,
    /// How many jobs of one service may wait.
    pub max_queued: u32,
    /// Bytes of plans of waiting jobs that are kept in memory; those of more are read from the store.
    pub plan_memory: u64,
    /// How long an ended job is kept.
    pub retention: Duration,
    /// How many ended jobs are kept.
    pub keep_jobs: u64,
    /// Bytes that jobs may occupy, ended or not, before new ones are refused.
    pub disk_quota: Option<u64>,
    /// Bytes that must stay free on the file system of the data directory.
    pub disk_reserve: u64,
    /// For how long a claim lasts unless it is renewed.
    pub lease: Duration,
    /// How often starts are observed even if the executor tells of no change.
    pub observe_every: Duration,
    /// How many jobs this process fetches data for at once.
    pub max_fetching: u32,
    /// How many of those may be one owner's.
    pub owner_fetching: u32,
    /// Bytes from which on an output goes by reference if its form is `auto`.
    pub reference_size: u64,
    /// Bytes from which on an input that nobody writes to is linked into a workspace; a smaller one
    /// is copied.
    pub link_size: u64,
    /// What a directory that a caller sends may hold.
    pub directories: fishplate_formats::archive::Limits,
}

impl Settings {
    /// The defaults for this data directory and this machine.
    pub fn new(data: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            data,
            max_running: u32::try_from((2 * cores).max(4)).unwrap_or(4),
            max_queued: 1000,
            plan_memory: 16 << 20,
            retention: Duration::from_secs(7 * 24 * 3600),
            keep_jobs: 100_000,
            disk_quota: None,
            disk_reserve: 256 << 20,
            lease: Duration::from_secs(15),
            observe_every: Duration::from_millis(500),
            max_fetching: 32,
            owner_fetching: 16,
            reference_size: 1 << 20,
            link_size: 1 << 20,
            directories: fishplate_formats::archive::Limits::default(),
        }
    }
}

/// The jobs of one data directory, as this process works on them. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    holder: String,
    boot: String,
    store: Arc<dyn Store>,
    commit: GroupCommit,
    executor: Arc<dyn Executor>,
    clock: Arc<dyn Clock>,
    orders: mpsc::UnboundedSender<driver::Order>,
    inbox: Mutex<Option<mpsc::UnboundedReceiver<driver::Order>>>,
    waiters: Mutex<HashMap<JobId, Vec<oneshot::Sender<Ended>>>>,
    waits_for: Mutex<HashMap<JobId, String>>,
    /// Plans of jobs that were accepted here and are not claimed yet.
    plans: Mutex<plans::Plans>,
    /// Starts that are not recorded yet.
    unrecorded: Mutex<HashMap<JobId, driver::Start>>,
    /// What moves for jobs in this process.
    underway: Mutex<HashMap<JobId, transfers::Underway>>,
    /// Jobs that nobody can ask for but the caller who waits here.
    passing: Mutex<HashSet<JobId>>,
    /// What jobs occupy.
    occupied: Mutex<room::Occupied>,
    /// Queued jobs whose start found no room.
    resting: Mutex<room::Resting>,
    /// Releases under way in a process that does not work on jobs.
    releasing: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    /// When ended jobs are looked through next, and directories.
    house: Mutex<housekeeping::House>,
    /// Sees to it that another process works on accepted jobs, if this one does not.
    worker: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Moves data by reference; without one there is none.
    fetcher: std::sync::OnceLock<Arc<dyn Fetcher>>,
    /// Whether [`Engine::run`] works on this process's side; else another process must.
    working: std::sync::atomic::AtomicBool,
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
            shared: Arc::new(Shared {
                holder: holder::this_process(),
                boot: holder::boot(),
                commit: GroupCommit::new(Arc::clone(&store)),
                store,
                executor,
                clock,
                orders,
                inbox: Mutex::new(Some(inbox)),
                waiters: Mutex::default(),
                waits_for: Mutex::default(),
                plans: Mutex::new(plans::Plans::new(settings.plan_memory)),
                unrecorded: Mutex::default(),
                underway: Mutex::default(),
                passing: Mutex::default(),
                occupied: Mutex::default(),
                resting: Mutex::default(),
                releasing: Mutex::default(),
                house: Mutex::default(),
                worker: std::sync::OnceLock::new(),
                fetcher: std::sync::OnceLock::new(),
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
    pub fn fetched_by(self, fetcher: Arc<dyn Fetcher>) -> Self {
        let _ = self.shared.fetcher.set(fetcher);
        self
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

impl Shared {
    fn directory(&self, job: JobId) -> PathBuf {
        self.settings.data.join("jobs").join(job.to_string())
    }

    fn find(&self, job: JobId) -> Result<Option<Record>, Fault> {
        let mut found = None;
        self.store
            .read(&mut |t| t.find(job).map(|record| found = record))
            .map_err(|error| storage_fault(&error))?;
        Ok(found)
    }

    /// Tells everybody who waits for this job how it ended.
    fn announce(&self, job: JobId, ended: &Ended) {
        let waiters = lock(&self.waiters).remove(&job);
        for waiter in waiters.into_iter().flatten() {
            let _ = waiter.send(ended.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn storage_fault(error: &StoreError) -> Fault {
    match error {
        StoreError::Full => Fault::new(FaultCode::StorageFull, error.to_string()),
        StoreError::Damaged(source) | StoreError::Storage(source) => {
            tracing::error!(%source, "the job store failed");
            Fault::new(FaultCode::Internal, "the job store failed; the server's log has more")
        }
        StoreError::Closed => Fault::new(FaultCode::Internal, "the server is shutting down"),
    }
}

fn write_fault(error: &WriteError) -> Fault {
    storage_fault(error)
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

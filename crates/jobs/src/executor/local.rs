//! Plans on this machine, under supervisors that outlive the server.
//!
//! ```text
//! supervisor (subreaper; one a data directory; forks runners, inherits what they leave)
//!   └─ runner (subreaper; one connection, one running job at a time)
//!        └─ program and all its descendants
//! ```
//!
//! In the supervisors' processes (no runtime, one thread): `supervisor`, `runner`, `run`, `spawn`, `tree`,
//! `sampler`, `shortage`, `slot`, `wait`, `cgroup`, `guard`, `capability`. In the server's: this module and `link`.
//! In both: `address`, `message`, `journal`, `procfs`; `recovery` is what anybody can do without a
//! supervisor.

mod address;
mod capability;
mod cgroup;
mod disk_shortage;
mod journal;
mod link;
mod message;
mod orphan_exit;
mod process_tree;
mod procfs;
mod read_only;
mod recovery;
mod run;
mod runner;
mod sampler;
mod slot;
mod spawn;
mod supervisor;
mod wait;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fishplate_contract::{JobId, Timestamp};
use tokio::sync::Notify;

use self::link::{ConnectionPool, RunnerConnection};
use self::message::{RunnerReply, RunnerRequest, StartMessageRef};
use self::orphan_exit::OrphanWatch;
use self::recovery::StartEvidence;
use super::{
    BoxFuture, Executor, Handle, Observation, ProgramExit, RecoveredRun, StartError, StartOrder,
    StartTrace,
};

pub use self::run::run_plan;
pub use self::supervisor::supervisor_main;

/// How a [`LocalExecutor`] works.
#[derive(Clone, Debug)]
pub struct LocalSettings {
    /// The data directory; it exists.
    pub data: PathBuf,
    /// The program that becomes the supervisor when it is started with `supervise --data DIR`, and
    /// calls [`supervisor_main`] then. Default: the program that runs now.
    pub program: PathBuf,
    /// Where control groups for jobs are made.
    pub cgroup: CgroupUse,
    /// Most runners kept waiting for the next job.
    pub idle_runners: usize,
}

/// Where control groups for jobs are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CgroupUse {
    /// In that of this process, if it was delegated.
    #[default]
    Auto,
    /// In this directory of a cgroup2 file system.
    At(PathBuf),
    /// Nowhere: jobs are ended by sweeping.
    Off,
}

impl LocalSettings {
    /// The defaults, for this data directory.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            // Not its path: that may be of another version by the time it is needed.
            program: PathBuf::from("/proc/self/exe"),
            cgroup: CgroupUse::Auto,
            idle_runners: 16,
        }
    }
}

/// Runs plans on this machine.
#[derive(Clone, Debug)]
pub struct LocalExecutor {
    shared: Arc<ExecutorInner>,
}

#[derive(Debug)]
struct ExecutorInner {
    data: PathBuf,
    cgroup: Option<PathBuf>,
    /// Whether a program can be kept from its inputs here; looked at once.
    guards: OnceLock<bool>,
    links: ConnectionPool,
    /// Jobs whose runners talk to us.
    near: Mutex<HashMap<Handle, RunningJob>>,
    /// Jobs that we can only look at from time to time, and whether somebody does.
    far: Mutex<(HashSet<Handle>, bool)>,
    /// Sees how programs end whose supervisors are all dead.
    orphan_watch: OrphanWatch,
    changed: Notify,
}

#[derive(Debug)]
enum RunningJob {
    Running { started: i64, cancel: Arc<Notify> },
    Ended(Box<ProgramExit>),
}

/// How often jobs that nobody tells us of are looked at.
const PATROL: Duration = Duration::from_millis(200);

/// How long a start under way by somebody else is waited for.
const PENDING_TIME: Duration = Duration::from_secs(10);

/// How long a start is tried before it is given up.
const START_TIME: Duration = Duration::from_secs(30);

impl LocalExecutor {
    /// An executor on a data directory. Supervisors are started when they are needed.
    ///
    /// # Errors
    /// The data directory is not there, or its name is not UTF-8.
    pub fn new(settings: LocalSettings) -> std::io::Result<Self> {
        let data = std::fs::canonicalize(&settings.data)?;
        if data.to_str().is_none() {
            return Err(std::io::Error::other("the data directory's name is not UTF-8"));
        }
        crate::workspace::make_directory_cache(&data)?;
        let cgroup = match settings.cgroup {
            CgroupUse::Auto => cgroup::delegated(),
            CgroupUse::At(path) => Some(path),
            CgroupUse::Off => None,
        };
        let links = ConnectionPool::new(&data, settings.program, settings.idle_runners);
        let shared = ExecutorInner {
            data,
            cgroup,
            guards: OnceLock::new(),
            links,
            near: Mutex::default(),
            far: Mutex::default(),
            orphan_watch: OrphanWatch::default(),
            changed: Notify::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    async fn start_once(&self, order: &StartOrder) -> Result<Handle, StartError> {
        let give_up = tokio::time::Instant::now() + START_TIME;
        let mut taken = 0;
        loop {
            let not_started = |error: std::io::Error| {
                let why = format!("can't reach the supervisors: {error}");
                if spawn::is_exhausted(&error) {
                    StartError::Exhausted(why)
                } else {
                    StartError::NotStarted(why)
                }
            };
            let mut link = self.shared.links.get().await.map_err(not_started)?;
            let start_message = RunnerRequest::Start(StartMessageRef {
                job: order.job,
                fence: order.fence,
                directory: &order.directory,
                sent: procfs::boot_millis(),
                cgroup: self.shared.cgroup.as_deref(),
                plan: &order.plan,
            });
            let reply = match link.send(&start_message).await {
                Ok(()) => self.first_reply(&mut link, order).await,
                Err(error) => Err(error),
            };
            match reply {
                Ok(RunnerReply::Started(started)) => return Ok(self.watch(order, link, started)),
                Ok(RunnerReply::Ended(ending)) => {
                    let handle = self.shared.handle(order, order.fence);
                    self.shared.near().insert(handle.clone(), RunningJob::Ended(ending));
                    self.shared.links.put(link);
                    self.shared.changed.notify_one();
                    return Ok(handle);
                }
                Ok(RunnerReply::Refused(refusal)) => {
                    self.shared.links.put(link);
                    return Err(refusal.into());
                }
                Ok(RunnerReply::Taken) => {
                    self.shared.links.put(link);
                    taken += 1;
                    tokio::time::sleep(Duration::from_millis(taken * 2)).await;
                }
                // The runner or its supervisor was killed: the journal knows what became of it.
                Ok(RunnerReply::Retired) | Err(_) => drop(link),
            }
            match self.resolve(order).await {
                StartTrace::Started(handle) => return Ok(handle),
                // Not started, but not ours to start: a later claim tried and could not. Now and
                // then it is only that somebody held the journal for a moment.
                StartTrace::Never if taken > 3 => {
                    return Err(StartError::NotStarted("a later claim on the job failed".into()));
                }
                StartTrace::Unproven(why) => return Err(StartError::Unproven(why)),
                StartTrace::Never if tokio::time::Instant::now() >= give_up => {
                    return Err(StartError::NotStarted("the supervisors keep dying".to_owned()));
                }
                StartTrace::Never => {}
            }
        }
    }

    /// What a runner says to an order. It may prepare the workspace for a long time; but if it has
    /// not even begun when the order is too old to be carried out, it never will.
    async fn first_reply(
        &self,
        link: &mut RunnerConnection,
        order: &StartOrder,
    ) -> std::io::Result<RunnerReply> {
        let time_limit = Duration::from_millis(message::ORDER_TIME.unsigned_abs() + 1000);
        loop {
            match tokio::time::timeout(time_limit, link.receive()).await {
                Ok(reply) => return reply,
                Err(_) => {
                    if !order.directory.join(super::NOTE).exists() {
                        return Err(std::io::ErrorKind::TimedOut.into());
                    }
                }
            }
        }
    }

    /// Looks what became of a start until it is settled.
    async fn resolve(&self, order: &StartOrder) -> StartTrace {
        let give_up = tokio::time::Instant::now() + PENDING_TIME;
        let mut pause = Duration::from_millis(2);
        loop {
            let (directory, job) = (order.directory.clone(), order.job);
            let shared = self.shared.clone();
            let trace =
                blocking(move || recovery::trace(&directory, job, &shared.orphan_watch)).await;
            match trace {
                Some(StartEvidence::Never) => return StartTrace::Never,
                Some(StartEvidence::Started(fence)) => {
                    return StartTrace::Started(self.shared.handle(order, fence));
                }
                Some(StartEvidence::Unproven(why)) => return StartTrace::Unproven(why),
                Some(StartEvidence::Pending(fence)) if tokio::time::Instant::now() >= give_up => {
                    return StartTrace::Started(self.shared.handle(order, fence));
                }
                Some(StartEvidence::Pending(_)) => {}
                None => return StartTrace::Unproven("the runtime is shutting down".to_owned()),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Has a task listen to the runner of a running job.
    fn watch(&self, order: &StartOrder, mut link: RunnerConnection, started: i64) -> Handle {
        let handle = self.shared.handle(order, order.fence);
        let cancel = Arc::new(Notify::new());
        let near = RunningJob::Running { started, cancel: cancel.clone() };
        self.shared.near().insert(handle.clone(), near);
        let (shared, name) = (self.shared.clone(), handle.clone());
        tokio::spawn(async move {
            let mut cancelled = false;
            let end = loop {
                tokio::select! {
                    reply = link.receive() => break reply,
                    () = cancel.notified() => {
                        cancelled = true;
                        if let Err(error) = link.send(&RunnerRequest::<()>::Cancel).await {
                            break Err(error);
                        }
                    }
                }
            };
            if let Ok(RunnerReply::Ended(ending)) = end {
                shared.near().insert(name, RunningJob::Ended(ending));
                shared.links.put(link);
            } else {
                // The runner was killed; from now on the journal is all there is.
                shared.near().remove(&name);
                // Whoever asked for its end just before may not have been heard yet.
                let asked = std::pin::pin!(cancel.notified()).enable();
                if cancelled || asked {
                    shared.end(&name).await;
                }
                shared.follow(&name);
            }
            shared.changed.notify_one();
        });
        handle
    }
}

impl Executor for LocalExecutor {
    fn start<'a>(&'a self, order: &'a StartOrder) -> BoxFuture<'a, Result<Handle, StartError>> {
        Box::pin(self.start_once(order))
    }

    fn observe<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Vec<Observation>> {
        Box::pin(async move {
            let mut observations: Vec<Option<Observation>> = {
                let mut near = self.shared.near();
                handles.iter().map(|handle| take_near(&mut near, handle)).collect()
            };
            if observations.iter().any(Option::is_none) {
                let shared = self.shared.clone();
                let far: Vec<Handle> = handles
                    .iter()
                    .zip(&observations)
                    .filter(|(_, seen)| seen.is_none())
                    .map(|(handle, _)| handle.clone())
                    .collect();
                let looked = blocking(move || {
                    far.iter().map(|handle| shared.look(handle)).collect::<Vec<_>>()
                });
                let mut looked = looked.await.unwrap_or_default().into_iter();
                for (handle, seen) in handles.iter().zip(&mut observations) {
                    if seen.is_none() {
                        *seen = looked.next();
                        if !seen.as_ref().is_some_and(is_final) {
                            self.shared.follow(handle);
                        }
                    }
                }
            }
            let unclear = || Observation::Unclear("the runtime is shutting down".to_owned());
            observations.into_iter().map(|seen| seen.unwrap_or_else(unclear)).collect()
        })
    }

    fn locate<'a>(&'a self, order: &'a StartOrder) -> BoxFuture<'a, StartTrace> {
        Box::pin(self.resolve(order))
    }

    fn cancel<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(RunningJob::Running { cancel, .. }) = self.shared.near().get(handle) {
                cancel.notify_one();
                return;
            }
            self.shared.end(handle).await;
        })
    }

    fn guards_inputs(&self) -> bool {
        *self.shared.guards.get_or_init(|| read_only::works(&self.shared.data))
    }

    fn recovered(&self, directory: &Path) -> std::io::Result<(RecoveredRun, u64)> {
        recovery::recovered(directory)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.changed.notified())
    }
}

/// What is known without a look at the disk. An end is told once from here: the journal has it.
fn take_near(near: &mut HashMap<Handle, RunningJob>, handle: &Handle) -> Option<Observation> {
    if let RunningJob::Running { started, .. } = near.get(handle)? {
        return Some(Observation::Running { started: Timestamp(*started) });
    }
    match near.remove(handle)? {
        RunningJob::Ended(ending) => Some(Observation::Ended(ending)),
        RunningJob::Running { started, .. } => {
            Some(Observation::Running { started: Timestamp(started) })
        }
    }
}

fn is_final(observation: &Observation) -> bool {
    matches!(observation, Observation::Ended(_) | Observation::Died(_) | Observation::Lost(_))
}

/// Runs what reads files or waits; `None` if the runtime is shutting down.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

impl ExecutorInner {
    fn near(&self) -> std::sync::MutexGuard<'_, HashMap<Handle, RunningJob>> {
        self.near.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn far(&self) -> std::sync::MutexGuard<'_, (HashSet<Handle>, bool)> {
        self.far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `local:1:JOB:FENCE:DIRECTORY`, the directory from the data directory on if it is in it, so
    /// that handles stay good when that is moved.
    fn handle(&self, order: &StartOrder, fence: u64) -> Handle {
        let directory = order.directory.strip_prefix(&self.data).unwrap_or(&order.directory);
        Handle(format!("local:1:{}:{fence}:{}", order.job, directory.display()))
    }

    /// The job and its directory.
    fn read_handle(&self, handle: &Handle) -> Option<(JobId, PathBuf)> {
        let mut parts = handle.0.strip_prefix("local:1:")?.splitn(3, ':');
        let job = parts.next()?.parse().ok()?;
        let _fence: u64 = parts.next()?.parse().ok()?;
        Some((job, self.data.join(Path::new(parts.next()?))))
    }

    fn look(&self, handle: &Handle) -> Observation {
        match self.read_handle(handle) {
            Some((job, directory)) => recovery::look(&directory, job, &self.orphan_watch),
            None => Observation::Lost(format!("{:?} is no handle of this executor", handle.0)),
        }
    }

    async fn end(&self, handle: &Handle) {
        let Some((job, directory)) = self.read_handle(handle) else { return };
        let ended = blocking(move || recovery::end(&directory, job)).await;
        if let Some(Err(error)) = ended {
            tracing::warn!(handle = handle.0, %error, "can't ask for the end of a job");
        }
        self.changed.notify_one();
    }

    /// Looks at a job from time to time until its end shows.
    fn follow(self: &Arc<Self>, handle: &Handle) {
        let mut far = self.far();
        if !far.0.contains(handle) {
            far.0.insert(handle.clone());
        }
        if !std::mem::replace(&mut far.1, true) {
            drop(far);
            tokio::spawn(patrol(Arc::downgrade(self)));
        }
    }
}

/// Looks at jobs that nobody tells us of, as long as there are some.
async fn patrol(shared: std::sync::Weak<ExecutorInner>) {
    loop {
        tokio::time::sleep(PATROL).await;
        let Some(shared) = shared.upgrade() else { return };
        let handles: Vec<Handle> = shared.far().0.iter().cloned().collect();
        let looker = shared.clone();
        let ended = blocking(move || {
            let over = |handle: &Handle| is_final(&looker.look(handle));
            handles.into_iter().filter(over).collect::<Vec<_>>()
        });
        let Some(ended) = ended.await else { return };
        let mut far = shared.far();
        for handle in &ended {
            far.0.remove(handle);
        }
        far.1 = !far.0.is_empty();
        let go_on = far.1;
        drop(far);
        if !ended.is_empty() {
            shared.changed.notify_one();
        }
        if !go_on {
            return;
        }
    }
}

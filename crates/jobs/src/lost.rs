//! Jobs whose record was lost: the store was lost, emptied, cut, or an older one was put in its place,
//! and the directories have stayed. They are set aside where they are, so that the right store finds
//! them again; an operator lists them, and adopts or discards them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use fishplate_contract::{JobId, Timestamp};

use crate::engine::record;
use crate::executor::{Executor, NOTE, RecoveredRun};
use crate::store::quota::OwnerLimits;
use crate::store::{NewJob, Store, StoreError, Submission};
use crate::workspace::{self, Manifest, Unrecorded};

/// Directories that are looked at between two that others may read the store.
const AT_ONCE: usize = 256;

/// A directory whose record was lost.
#[derive(Clone, Debug, PartialEq)]
pub struct LostJob {
    /// The job.
    pub id: JobId,
    /// Where its files are.
    pub directory: PathBuf,
    /// What it was, if it can be told.
    pub manifest: Option<Manifest>,
    /// How far its program got.
    pub recovered: RecoveredRun,
    /// When its directory was last changed.
    pub changed: Timestamp,
    /// Bytes that it occupies.
    pub size: u64,
}

/// Why something could not be done with a lost job.
#[derive(Debug, thiserror::Error)]
pub enum LostError {
    /// There is no directory of that name.
    #[error("there is no directory of job {0}; `fishplate lost list` lists those without a record")]
    NotThere(JobId),
    /// It is as it should be.
    #[error("job {0} has its record: it is not lost")]
    Recorded(JobId),
    /// Nobody can tell whose it was.
    #[error(
        "nothing tells what job {0} was: it was a call that nobody could ask for again, or of an \
         earlier version; take what you need from {directory}, then discard it",
        directory = .1.display()
    )]
    Unknown(JobId, PathBuf),
    /// It is still in use.
    #[error("the program of job {0} still runs: adopt it, or end its processes first")]
    Running(JobId),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk.
    #[error("can't {what} {}", path.display())]
    Io {
        /// What could not be done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What is set aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostState {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// What seems to have happened to the store.
    pub(crate) why: &'static str,
}

/// What was found of directories that are set aside, so that the next look need not go through all
/// that is in them.
pub(crate) type SizeCache = HashMap<JobId, MeasuredSize>;

/// What was found of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredSize {
    /// When it, or its journal, was changed: later it counts no more.
    changed: Timestamp,
    submitted: Timestamp,
    size: u64,
    /// Its files grow, and its directory tells nothing of it.
    runs: bool,
}

impl MeasuredSize {
    fn of(directory: &Path, executor: &dyn Executor) -> Self {
        Self {
            changed: changed(directory),
            runs: matches!(executor.recovered(directory), Ok((RecoveredRun::Running, _))),
            submitted: submitted(directory),
            size: workspace::disk_use(directory),
        }
    }
}

/// What a look through the directories did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SweepReport {
    /// Directories that were removed.
    pub(crate) removed: u64,
    pub(crate) lost: LostState,
}

/// Looks at every directory that has no record: removes what may go, and counts the others. Where
/// the store can't be read, nothing happens.
pub(crate) fn sweep(
    data: &Path,
    store: &dyn Store,
    executor: &dyn Executor,
    measures: &mut SizeCache,
) -> Result<SweepReport, LostError> {
    let mut swept = SweepReport::default();
    let mut before = std::mem::take(measures);
    let mut newest = Timestamp(i64::MIN);
    for (job, directory) in unrecorded(data, store)? {
        let recorded = || !matches!(is_recorded(store, job), Ok(false));
        match workspace::sweep(&directory, &recorded) {
            Err(error) => {
                let directory = directory.display();
                tracing::warn!(%directory, %error, "what a kill has left can't be removed");
            }
            Ok(Unrecorded::Removed) => swept.removed += 1,
            Ok(Unrecorded::InUse) => {}
            Ok(Unrecorded::Lost) => {
                let known = before.remove(&job);
                let measure = known
                    .filter(|it| !it.runs && it.changed == changed(&directory))
                    .unwrap_or_else(|| MeasuredSize::of(&directory, executor));
                measures.insert(job, measure);
                swept.lost.count += 1;
                swept.lost.bytes += measure.size;
                newest = newest.max(measure.submitted);
            }
        }
    }
    if swept.lost.count > 0 {
        let mut known = None;
        store.read(&mut |t| t.newest().map(|found| known = found))?;
        swept.lost.why = match known {
            None => "the job store is new or empty, so jobs.sqlite was lost or replaced",
            Some(known) if known < newest => {
                "the job store is older than they are, so an older one was put in its place, or \
                 its log was cut"
            }
            Some(_) => "the job store knows younger ones, so it was damaged, or put together anew",
        };
    }
    Ok(swept)
}

/// The jobs whose record was lost, the last changed first. Without a store, all are lost.
///
/// # Errors
/// If the directories or the store can't be read.
pub fn list(
    data: &Path,
    store: Option<&dyn Store>,
    executor: &dyn Executor,
) -> Result<Vec<LostJob>, LostError> {
    let unrecorded = match store {
        Some(store) => unrecorded(data, store)?,
        None => directories(data)?.0,
    };
    let mut lost = Vec::new();
    for (id, directory) in unrecorded {
        if !workspace::is_lost(&directory) {
            continue;
        }
        // Its record may have come just now.
        if let Some(store) = store
            && is_recorded(store, id)?
        {
            continue;
        }
        lost.push(describe(id, directory, executor)?);
    }
    lost.sort_by_key(|job| std::cmp::Reverse((job.changed, job.id)));
    Ok(lost)
}

/// Gives a lost job a record again, so that its owner has it as before: a server on this data
/// directory takes it over at once, or the next that is started. What has ended is judged; what runs
/// goes on; what was never started is queued.
///
/// # Errors
/// If there is no such job, it has a record, or nothing tells what it was.
pub fn adopt(
    data: &Path,
    store: &dyn Store,
    executor: &dyn Executor,
    job: JobId,
) -> Result<LostJob, LostError> {
    let lost = find(data, store, executor, job)?;
    let unknown = || LostError::Unknown(job, lost.directory.clone());
    let manifest = lost.manifest.clone().ok_or_else(unknown)?;
    let plan = record::read(&manifest.plan, &lost.directory).map_err(|_| unknown())?;
    let (recovered, fence) = executor
        .recovered(&lost.directory)
        .map_err(failed("read what is known of the run in", &lost.directory))?;
    let started = fence > 0 && recovered != RecoveredRun::NotStarted;
    let mut new = NewJob {
        id: job,
        service: manifest.service.clone(),
        operation: manifest.operation.clone(),
        owner: manifest.owner(),
        key: manifest.key.clone(),
        fingerprint: manifest.fingerprint,
        plan: manifest.plan.clone(),
        disk: lost.size,
        bytes_in: 0,
        directory: lost.directory.clone(),
        max_running: manifest.max_running,
        max_queued: u32::MAX,
        limits: OwnerLimits::default(),
        data_bytes: 0,
        // As the job was accepted: what was fetched since, its record told, so it is fetched again.
        fetching: !started && plan.fetches().next().is_some(),
        submitted: manifest.submitted(),
        boot: None,
        notices: plan.answer.notices,
    };
    let mut refused = None;
    store.transact(true, &mut |t| {
        refused = if t.exists(job)? {
            Some(LostError::Recorded(job))
        } else if !workspace::is_lost(&new.directory) {
            Some(LostError::NotThere(job))
        } else {
            None
        };
        if refused.is_some() {
            return Ok(());
        }
        // Under a journal, only a claim with a larger fence may start it.
        let adopt = |t: &mut dyn crate::store::Transaction, new: &NewJob| match fence {
            0 => t.submit(new),
            fence => t.adopt(new, fence),
        };
        if adopt(t, &new)? != Submission::Accepted {
            // Its caller has sent it again under the same key.
            new.key = None;
            adopt(t, &new)?;
        }
        Ok(())
    })?;
    refused.map_or(Ok(lost), Err)
}

/// Removes a lost job and all of its files.
///
/// # Errors
/// If there is no such job, it has a record, or its program runs.
pub fn discard(
    data: &Path,
    store: &dyn Store,
    executor: &dyn Executor,
    job: JobId,
) -> Result<LostJob, LostError> {
    let lost = find(data, store, executor, job)?;
    if lost.recovered == RecoveredRun::Running {
        return Err(LostError::Running(job));
    }
    let mut aside = None;
    // In the transaction, so that nobody adopts it between.
    store.transact(false, &mut |t| {
        if !t.exists(job)? {
            aside = Some(workspace::put_aside(&lost.directory));
        }
        Ok(())
    })?;
    let aside = aside.ok_or(LostError::Recorded(job))?;
    match aside.and_then(|going| workspace::remove_going(&going)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(LostError::NotThere(job)),
        done => done.map(|()| lost.clone()).map_err(failed("remove", &lost.directory)),
    }
}

fn find(
    data: &Path,
    store: &dyn Store,
    executor: &dyn Executor,
    job: JobId,
) -> Result<LostJob, LostError> {
    if is_recorded(store, job)? {
        return Err(LostError::Recorded(job));
    }
    let directory = data.join("jobs").join(job.to_string());
    if !directory.is_dir() {
        return Err(LostError::NotThere(job));
    }
    describe(job, directory, executor)
}

fn describe(id: JobId, directory: PathBuf, executor: &dyn Executor) -> Result<LostJob, LostError> {
    let (recovered, _) = executor
        .recovered(&directory)
        .map_err(failed("read what is known of the run in", &directory))?;
    Ok(LostJob {
        id,
        manifest: Manifest::read(&directory),
        recovered,
        changed: changed(&directory),
        size: workspace::disk_use(&directory),
        directory,
    })
}

/// When a job was submitted, or its directory changed.
fn submitted(directory: &Path) -> Timestamp {
    Manifest::read(directory).map_or_else(|| changed(directory), |manifest| manifest.submitted())
}

/// The last change of a directory or its journal.
fn changed(directory: &Path) -> Timestamp {
    let modified = |path: &Path| fs::symlink_metadata(path).and_then(|it| it.modified()).ok();
    let latest = modified(directory).max(modified(&directory.join(NOTE)));
    let since = latest.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Timestamp(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

type Directories = Vec<(JobId, PathBuf)>;

/// Directories that had no record when they were looked at.
fn unrecorded(data: &Path, store: &dyn Store) -> Result<Directories, LostError> {
    let (directories, going) = directories(data)?;
    for directory in going {
        // Whoever removes it goes on, or was killed. What can't go is in nobody else's way.
        if let Err(error) = workspace::remove_going(&directory) {
            let directory = directory.display();
            tracing::warn!(%directory, %error, "the files of a removed job can't be removed");
        }
    }
    let mut found = Vec::new();
    for some in directories.chunks(AT_ONCE) {
        store.read(&mut |t| {
            for (job, directory) in some {
                if !t.exists(*job)? {
                    found.push((*job, directory.clone()));
                }
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Directories of jobs, and those that are being removed.
fn directories(data: &Path) -> Result<(Directories, Vec<PathBuf>), LostError> {
    let jobs = data.join("jobs");
    let listed = match workspace::listed(&jobs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(failed("list", &jobs))?,
    };
    let (mut directories, mut going) = (Vec::new(), Vec::new());
    for (name, path) in listed {
        if workspace::is_going(&name) {
            going.push(path);
        } else if let Ok(job) = JobId::from_str(&name) {
            directories.push((job, path));
        }
    }
    Ok((directories, going))
}

fn is_recorded(store: &dyn Store, job: JobId) -> Result<bool, StoreError> {
    let mut recorded = false;
    store.read(&mut |t| t.exists(job).map(|found| recorded = found))?;
    Ok(recorded)
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LostError {
    let path = path.to_owned();
    move |source| LostError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::executor::conformance;
    use crate::executor::fake::FakeExecutor;
    use crate::executor::local::{LocalExecutor, LocalSettings};
    use crate::store::Transaction;
    use crate::store::conformance::job;
    use crate::store::memory::MemoryStore;

    type Work<'w> = &'w mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>;

    /// A store that somebody else writes to just before the first write.
    struct Interrupted<'s> {
        store: &'s MemoryStore,
        by: Mutex<Option<Box<dyn FnOnce() + Send + 's>>>,
    }

    impl Store for Interrupted<'_> {
        fn transact(&self, durable: bool, work: Work<'_>) -> Result<(), StoreError> {
            let by = self.by.lock().unwrap().take();
            by.into_iter().for_each(|by| by());
            self.store.transact(durable, work)
        }

        fn read(&self, work: Work<'_>) -> Result<(), StoreError> {
            self.store.read(work)
        }
    }

    /// A data directory with a job that was accepted and has no record.
    fn with_lost() -> (tempfile::TempDir, NewJob) {
        let data = tempfile::tempdir().unwrap();
        let id = JobId::from_bytes([1; 16]);
        let directory = data.path().join("jobs").join(id.to_string());
        let plan = serde_json::to_string(&*conformance::order(&directory, "").plan).unwrap();
        let job = NewJob { plan, directory, disk: 0, ..job(1, "s") };
        fs::create_dir_all(job.directory.join("work")).unwrap();
        Manifest::of(&job).write(&job.directory).unwrap();
        (data, job)
    }

    #[test]
    fn a_job_is_adopted_or_discarded_and_never_both() {
        type Deed = fn(&Path, &dyn Store, &dyn Executor, JobId) -> Result<LostJob, LostError>;
        for (first, second, stays) in
            [(adopt as Deed, discard as Deed, true), (discard, adopt, false)]
        {
            let (data, job) = with_lost();
            let store = MemoryStore::default();
            let executor = &FakeExecutor::new(1);
            let (path, inner) = (data.path(), &store);
            let by = move || drop(first(path, inner, executor, job.id).unwrap());
            let store_of_second = Interrupted { store: &store, by: Mutex::new(Some(Box::new(by))) };
            let refused = second(path, &store_of_second, executor, job.id).unwrap_err();
            let there = (is_recorded(&store, job.id).unwrap(), job.directory.exists());
            assert_eq!(there, (stays, stays), "{refused}");
            match refused {
                LostError::Recorded(_) => assert!(stays),
                LostError::NotThere(_) => assert!(!stays),
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn what_is_set_aside_is_measured_when_it_was_changed() {
        let (data, job) = with_lost();
        let (store, mut measures) = (MemoryStore::default(), SizeCache::new());
        let executor = LocalExecutor::new(LocalSettings::new(data.path())).unwrap();
        let mut bytes = || {
            let lost = sweep(data.path(), &store, &executor, &mut measures).unwrap().lost;
            (lost.count, lost.bytes, measures.len())
        };
        let write = |file: &str| fs::write(job.directory.join(file), [1; 100]).unwrap();
        write("work/mesh");
        assert_eq!(bytes(), (1, 100, 1));
        // Nobody looks into it again until it is changed.
        write("work/more");
        assert_eq!(bytes(), (1, 100, 1));
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
        fs::File::open(&job.directory).unwrap().set_modified(later).unwrap();
        assert_eq!(bytes(), (1, 200, 1));
        // What runs is changed all the time.
        let journal = fs::File::create(job.directory.join("run")).unwrap();
        let l_type = libc::c_short::try_from(libc::F_WRLCK).unwrap();
        let lock = libc::flock { l_type, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
        nix::fcntl::fcntl(&journal, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).unwrap();
        assert_eq!(bytes(), (1, 200, 1));
        write("work/most");
        assert_eq!(bytes(), (1, 300, 1));
        drop(journal);
        // What has its record is forgotten, and what is gone.
        adopt(data.path(), &store, &executor, job.id).unwrap();
        assert_eq!(bytes(), (0, 0, 0));
    }
}

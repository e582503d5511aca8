//! The jobs of a data directory as they are at one moment, in another place; and there as jobs again.
//!
//! What has ended never changes, and goes in two steps, its record first: so a directory is whole if
//! its record is still there after it was brought. What has not ended is none of a backup's: its
//! files are being written, and to run it again where it was restored could run it twice. There it is
//! `unknown`.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use fishplate_contract::{FaultCode, JobId, JobState, Timestamp};
use fishplate_data::backup::{Copier, CopyMode};

use crate::completion::Completion;
use crate::store::sqlite::{SqliteStore, StoreCopy};
use crate::store::{Store as _, StoreError};
use crate::workspace;

/// Jobs that were brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackedUpJobs {
    /// Those that had ended.
    pub ended: u64,
    /// Those that had not, and are unknown in the copy.
    pub unfinished: u64,
}

/// Why jobs were not brought.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk.
    #[error("can't bring the files of a job to {}", path.display())]
    Io {
        /// The file that could not be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Brings the store of `data` and the directories of jobs that have ended into `to`, where neither is
/// yet. Servers go on meanwhile.
///
/// # Errors
/// If something can't be read or written.
pub fn backup(
    data: &Path,
    to: &Path,
    now: Timestamp,
    bringing: &mut Copier<'_>,
) -> Result<BackedUpJobs, BackupError> {
    let failed = |source| BackupError::Io { path: to.to_owned(), source };
    let live = SqliteStore::open_in(data)?;
    let copy = StoreCopy::of(data, to)?;
    let ended = copy.ended()?;
    let unfinished = copy.conclude_unfinished(&unfinished(now))?;
    let mut jobs = BackedUpJobs { ended: 0, unfinished };
    fs::create_dir_all(to.join("jobs")).map_err(failed)?;
    for job in ended {
        let name = job.to_string();
        let (from, target) = (data.join("jobs").join(&name), to.join("jobs").join(&name));
        let before = bringing.brought;
        let brought = bring(&from, &target, bringing);
        let mut is_there = false;
        live.read(&mut |t| t.exists(job).map(|found| is_there = found))?;
        if is_there {
            brought.map_err(failed)?;
            jobs.ended += 1;
        } else {
            // Removed while we were at it, maybe in part.
            bringing.brought = before;
            let _ = fs::remove_dir_all(&target);
            copy.forget(job)?;
        }
    }
    copy.close()?;
    Ok(jobs)
}

/// How often a directory is begun anew in which something is renamed meanwhile: an output's file that
/// is made when somebody asks for it.
const TRIES: usize = 20;

/// Brings a directory, if there is one.
fn bring(from: &Path, to: &Path, bringing: &mut Copier<'_>) -> io::Result<()> {
    let before = bringing.brought;
    for tries in 1.. {
        match bringing.tree(from, to, |_: &Metadata| CopyMode::Link) {
            Ok(()) => {
                // It may be about to go where it comes from.
                workspace::unmark(to);
                return Ok(());
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound || tries == TRIES => {
                return Err(error);
            }
            Err(_) => {}
        }
        bringing.brought = before;
        let _ = fs::remove_dir_all(to);
        if !from.exists() {
            break;
        }
    }
    Ok(())
}

/// What has not ended is not run again from a copy.
fn unfinished(now: Timestamp) -> Completion {
    let why = "the server was restored from a backup that was made before the job had ended: \
               whether it has ended since can't be told; send it again if its results are needed";
    Completion::without_ending(JobState::Unknown, FaultCode::OutcomeUnknown, why, now)
}

/// Makes jobs that were brought into the directory `at` ones of a data directory: `data` is where they
/// will be. What is kept for so long from its end on, is kept that much longer.
///
/// # Errors
/// If the store is damaged or can't be written.
pub fn relocate(at: &Path, data: &Path, by: Duration) -> Result<(), BackupError> {
    let directories = data.join("jobs");
    let directories = directories.to_str().ok_or_else(|| BackupError::Io {
        path: directories.clone(),
        source: io::Error::other("its name is not UTF-8"),
    })?;
    Ok(StoreCopy::relocate(at, directories, by)?)
}

/// Brings the directories of a backup into a data directory.
///
/// # Errors
/// If something can't be read or written.
pub fn restore(from: &Path, to: &Path, bringing: &mut Copier<'_>) -> Result<u64, BackupError> {
    let failed = |source| BackupError::Io { path: to.to_owned(), source };
    bringing
        .file(&from.join(SqliteStore::FILE), &to.join(SqliteStore::FILE), CopyMode::Copy)
        .map_err(failed)?;
    fs::create_dir_all(to.join("jobs")).map_err(failed)?;
    let mut count = 0;
    for entry in fs::read_dir(from.join("jobs")).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(name) = name.to_str().filter(|name| JobId::from_str(name).is_ok()) else {
            continue;
        };
        let (from, to) = (from.join("jobs").join(name), to.join("jobs").join(name));
        bringing.tree(&from, &to, |_: &Metadata| CopyMode::Link).map_err(failed)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::conformance::job;
    use crate::store::quota::OwnerLimits;
    use crate::store::{ClaimRequest, NewJob, Transaction};

    fn new(data: &Path, n: u8) -> NewJob {
        let id = JobId::from_bytes([n; 16]);
        let directory = data.join("jobs").join(id.to_string());
        NewJob { directory, max_running: 9, disk: 0, ..job(n, "s") }
    }

    fn write(store: &SqliteStore, mut work: impl FnMut(&mut dyn Transaction)) {
        store
            .transact(true, &mut |t| {
                work(t);
                Ok(())
            })
            .unwrap();
    }

    /// A data directory with jobs 1, 2 and 3, of which the last has not ended.
    fn data() -> (tempfile::TempDir, SqliteStore) {
        let data = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_in(data.path()).unwrap();
        let request = ClaimRequest {
            holder: "h".to_owned(),
            lease: Duration::from_secs(10),
            max_running: 9,
            quotas: Arc::new(OwnerLimits::default()),
            take_over: false,
            resting: Vec::new(),
            reserved: Vec::new(),
            first: Vec::new(),
        };
        for n in 1..=3 {
            let job = new(data.path(), n);
            fs::create_dir_all(job.directory.join("work")).unwrap();
            for file in ["a", "b"] {
                fs::write(job.directory.join("work").join(file), [n; 100]).unwrap();
            }
            write(&store, |t| {
                t.submit(&job).unwrap();
                let fence = t.claim(&request).unwrap()[0].fence;
                let mut end = Completion::without_ending(
                    JobState::Done,
                    FaultCode::Internal,
                    "",
                    Timestamp(5),
                );
                end.fault = None;
                if n < 3 {
                    let _ = t.conclude(job.id, fence, &end).unwrap();
                }
            });
        }
        (data, store)
    }

    /// Backs up while `removed` is removed as soon as a first file was brought.
    fn backed_up(removed: Option<u8>) -> (BackedUpJobs, tempfile::TempDir) {
        let (data, store) = data();
        let to = tempfile::tempdir().unwrap();
        let mut removed = removed.map(|n| new(data.path(), n));
        let mut progress = |_| {
            let Some(job) = removed.take() else { return };
            workspace::mark(&job.directory);
            write(&store, |t| assert!(t.remove(job.id).unwrap()));
            workspace::remove(&job.directory).unwrap();
        };
        let mut bringing = Copier::new(&mut progress);
        let jobs = backup(data.path(), to.path(), Timestamp(9), &mut bringing).unwrap();
        (jobs, to)
    }

    #[test]
    fn what_has_ended_is_there_and_the_rest_is_unknown() {
        let (jobs, to) = backed_up(None);
        assert_eq!(jobs, BackedUpJobs { ended: 2, unfinished: 1 });
        let elsewhere = Path::new("/elsewhere");
        relocate(to.path(), elsewhere, Duration::from_millis(100)).unwrap();
        let store = SqliteStore::open_in(to.path()).unwrap();
        for n in 1..=3 {
            let job = new(elsewhere, n);
            let mut found = None;
            store.read(&mut |t| t.find(job.id).map(|record| found = record)).unwrap();
            let record = found.unwrap();
            let state = if n < 3 { JobState::Done } else { JobState::Unknown };
            assert_eq!((record.state, record.directory), (state, job.directory));
            let file = to.path().join("jobs").join(job.id.to_string()).join("work/b");
            assert_eq!(fs::read(file).ok(), (n < 3).then(|| vec![n; 100]));
        }
        // It expires as much later as it was restored later.
        let expired = |before: i64| {
            let mut found = Vec::new();
            let read = &mut |t: &mut dyn Transaction| {
                t.expired(Timestamp(before), 9).map(|jobs| found = jobs)
            };
            store.read(read).unwrap();
            found.len()
        };
        assert_eq!((expired(105), expired(106)), (0, 2));
    }

    #[test]
    fn what_is_removed_meanwhile_is_not_there_in_part() {
        for gone in [1, 2] {
            let (jobs, to) = backed_up(Some(gone));
            assert_eq!(jobs.ended, 1, "{gone}");
            let store = SqliteStore::open_in(to.path()).unwrap();
            let job = new(to.path(), gone);
            let mut found = true;
            store.read(&mut |t| t.exists(job.id).map(|there| found = there)).unwrap();
            assert!(!found && !job.directory.exists(), "{gone}");
        }
    }
}

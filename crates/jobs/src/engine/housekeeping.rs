//! Retention, and what kills left behind: nothing grows without end.

use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use fishplate_contract::{JobId, Timestamp};

use super::{Shared, lock};
use crate::store::Totals;
use crate::workspace;

/// How often ended jobs are looked through.
const KEEP_HOUSE_EVERY: Duration = Duration::from_secs(10);

/// This part of `disk_reserve` is kept for the store, so that it can go on when the disk is full,
const SHARE_OF_STORE: u64 = 4;

/// but no more than this: some hundred ends.
const MOST_FOR_STORE: u64 = 8 << 20;

/// Directories of no job known are left alone for this long if no program was started in them:
/// their record may be on its way.
const ORPHAN_AGE: Duration = Duration::from_secs(3600);

impl Shared {
    /// Frees the files of a job whose record is gone.
    pub(super) fn free_later(&self, job: JobId) {
        let directory = self.directory(job);
        tokio::task::spawn_blocking(move || remove(&directory));
    }

    /// Forgets a job that was delivered.
    pub(super) fn forget(self: &Arc<Self>, job: JobId) {
        let shared = Arc::clone(self);
        tokio::spawn(async move { shared.discard(vec![job]).await });
    }

    /// Removes ended jobs: first the records, then the files, so that a kill in between leaves
    /// files without a record (swept later) and never a record without files.
    pub(super) async fn discard(&self, jobs: Vec<JobId>) -> usize {
        let listed = jobs.clone();
        let removal = self.commit.write(false, move |t| {
            let mut removed = Vec::new();
            for job in listed {
                if t.remove(job)? {
                    removed.push(job);
                }
            }
            Ok(removed)
        });
        let removed = match removal.await {
            Ok(removed) => removed,
            Err(error) => {
                tracing::error!(%error, "ended jobs were not removed");
                return 0;
            }
        };
        let count = removed.len();
        removed.iter().for_each(|job| lock(&self.occupied).forget(*job));
        let directories: Vec<_> = removed.into_iter().map(|job| self.directory(job)).collect();
        let free = move || directories.iter().for_each(|directory| remove(directory));
        let _ = tokio::task::spawn_blocking(free).await;
        count
    }

    /// Callers who hung up leave nothing behind.
    fn forget_those_who_left(&self) {
        let mut waiters = lock(&self.waiters);
        waiters.retain(|_, waiting| {
            waiting.retain(|waiter| !waiter.is_closed());
            !waiting.is_empty()
        });
        lock(&self.passing).retain(|job| waiters.contains_key(job));
    }

    /// Removes what has expired and counts what is left.
    pub(super) async fn keep_house(&self) {
        let now = self.clock.now();
        if now.since(Timestamp(self.kept_house.load(Ordering::Relaxed))) < KEEP_HOUSE_EVERY {
            return;
        }
        self.kept_house.store(now.0, Ordering::Relaxed);
        self.forget_those_who_left();
        self.keep_room().await;
        let retention = i64::try_from(self.settings.retention.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp(now.0.saturating_sub(retention));
        let keep = self.settings.keep_jobs;
        let (mut expired, mut totals) = (Vec::new(), Totals::default());
        let read = self.store.read(&mut |t| {
            expired = t.expired(before, keep)?;
            totals = t.totals()?;
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!(%error, "the job store cannot be read");
            return;
        }
        self.counted(totals);
        if !expired.is_empty() {
            let removed = self.discard(expired).await;
            tracing::info!(removed, "removed expired jobs");
        }
        self.give_back().await;
    }

    /// Gives room back that removed jobs took in the store.
    async fn give_back(&self) {
        let store = Arc::clone(&self.store);
        let given = tokio::task::spawn_blocking(move || store.give_back()).await;
        if let Ok(Err(error)) = given {
            tracing::warn!(%error, "the job store gives no room back");
        }
    }

    /// Sees to it that the ends of jobs can be written when somebody has filled the disk: else he
    /// would never be known to have ended, and what he occupies never be free again.
    async fn keep_room(&self) {
        let bytes = (self.settings.disk_reserve / SHARE_OF_STORE).min(MOST_FOR_STORE);
        let store = Arc::clone(&self.store);
        let kept = tokio::task::spawn_blocking(move || store.keep_room(bytes)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "no room is kept for the job store when the disk is full");
        }
    }

    /// Removes directories of jobs that have no record, left by a kill at the wrong moment.
    pub(super) fn sweep_orphans(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let Ok(entries) = fs::read_dir(shared.settings.data.join("jobs")) else { return };
            for entry in entries.flatten() {
                let job = entry.file_name().to_str().and_then(|name| JobId::from_str(name).ok());
                let Some(job) = job else { continue };
                let path = entry.path();
                let old = entry.metadata().and_then(|data| data.modified()).is_ok_and(is_old);
                if (old || was_started(&path)) && matches!(shared.find(job), Ok(None)) {
                    remove(&path);
                }
            }
        });
    }
}

/// An executor was here, and so there was a record.
fn was_started(directory: &Path) -> bool {
    ["run", "stdout", "stderr"].iter().any(|file| directory.join(file).exists())
}

fn is_old(modified: SystemTime) -> bool {
    modified.elapsed().is_ok_and(|age| age > ORPHAN_AGE)
}

fn remove(directory: &Path) {
    if let Err(error) = workspace::remove(directory) {
        tracing::warn!(directory = %directory.display(), %error, "a job's files were not removed");
    }
}

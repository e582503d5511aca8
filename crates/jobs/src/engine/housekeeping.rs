//! Retention, and what kills left behind: nothing grows without end.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{JobId, Timestamp};
use tokio::time::Instant;

use super::{EngineInner, lock};
use crate::lost;
use crate::workspace;

/// How often ended jobs are looked through.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(10);

/// For so long, in milliseconds, it is known when an owner without jobs was given a place last.
const OWNERS_KEPT: i64 = 3_600_000;

/// This part of `disk_reserve` is kept for the store, so that it can go on when the disk is full,
const SHARE_OF_STORE: u64 = 4;

/// but no more than this: some hundred ends.
const MOST_FOR_STORE: u64 = 8 << 20;

/// Looking through the directories takes at most one part in so many of the time.
const SWEEPING_SHARE: u32 = 100;

/// unless they would not be looked through within a minute.
const LONGEST_UNSWEPT: Duration = Duration::from_secs(50);

/// What housekeeping remembers. By the monotonic clock: the other may be set back by a month.
#[derive(Debug, Default)]
pub(super) struct HousekeepingState {
    kept: Option<Instant>,
    sweep_at: Option<Instant>,
    sweeping: bool,
    measures: lost::SizeCache,
    pub(super) lost: lost::LostState,
}

/// Most threads that remove directories.
const MOST_REMOVERS: usize = 4;

/// So many directories wait for each thread before there is one more: waking it costs more than removing one.
const REMOVER_BACKLOG: usize = 64;

/// Directories that are to be removed, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RemovalQueue {
    waiting: VecDeque<PathBuf>,
    /// Threads that take them.
    threads: usize,
}

impl RemovalQueue {
    /// One more; whether that takes one more thread.
    fn push(&mut self, directory: PathBuf) -> bool {
        self.waiting.push_back(directory);
        let wanted = (1 + self.waiting.len() / REMOVER_BACKLOG).min(MOST_REMOVERS);
        let more = self.threads < wanted;
        self.threads += usize::from(more);
        more
    }

    /// The next; that there is none is the end of the thread.
    fn next(&mut self) -> Option<PathBuf> {
        let next = self.waiting.pop_front();
        self.threads -= usize::from(next.is_none());
        next
    }
}

impl EngineInner {
    /// Frees the files of a job whose record is gone: in few threads, which go on as long as there are
    /// more.
    pub(super) fn free_later(self: &Arc<Self>, job: JobId) {
        let directory = self.directory(job);
        if !lock(&self.removal).push(directory) {
            return;
        }
        let shared = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            loop {
                let next = lock(&shared.removal).next();
                let Some(directory) = next else { return };
                remove(&directory);
            }
        });
    }

    /// Removes ended jobs: first the records, then the files, so that a kill in between leaves
    /// files without a record, marked as such that are to go, and never a record without files.
    pub(super) async fn discard(&self, jobs: Vec<JobId>) -> usize {
        let (listed, directories) = (jobs.clone(), self.directories(&jobs));
        let mark = move || directories.iter().for_each(|directory| workspace::mark(directory));
        let _ = tokio::task::spawn_blocking(mark).await;
        let removal = self.store.write(false, move |t| {
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
                Vec::new()
            }
        };
        let count = removed.len();
        removed.iter().for_each(|job| lock(&self.occupied).forget(*job));
        let stay: Vec<_> = jobs.into_iter().filter(|job| !removed.contains(job)).collect();
        let (free, keep) = (self.directories(&removed), self.directories(&stay));
        let free = move || {
            keep.iter().for_each(|directory| workspace::unmark(directory));
            free.iter().for_each(|directory| remove(directory));
        };
        let _ = tokio::task::spawn_blocking(free).await;
        count
    }

    fn directories(&self, jobs: &[JobId]) -> Vec<PathBuf> {
        jobs.iter().map(|job| self.directory(*job)).collect()
    }

    /// Callers who hung up leave nothing behind.
    fn forget_those_who_left(&self) {
        let mut waiters = lock(&self.waiters);
        waiters.retain(|_, waiting| {
            waiting.retain(|waiter| !waiter.is_closed());
            !waiting.is_empty()
        });
    }

    /// Removes what has expired and counts what is left.
    pub(super) async fn housekeeping(self: &Arc<Self>) {
        {
            let mut housekeeping = lock(&self.housekeeping);
            if housekeeping.kept.is_some_and(|at| at.elapsed() < HOUSEKEEPING_PERIOD) {
                return;
            }
            housekeeping.kept = Some(Instant::now());
        }
        self.sweep();
        self.forget_those_who_left();
        self.keep_room().await;
        let retention = i64::try_from(self.settings.retention.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp(self.clock.now().0.saturating_sub(retention));
        let keep = self.settings.keep_jobs;
        let read = self.store.read(move |t| Ok((t.expired(before, keep)?, t.totals()?))).await;
        let (expired, totals) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "the job store cannot be read");
                return;
            }
        };
        self.counted(totals);
        self.fold_usage().await;
        self.forget_owners().await;
        if !expired.is_empty() {
            let removed = self.discard(expired).await;
            tracing::info!(removed, "removed expired jobs");
        }
        self.give_back().await;
    }

    /// Forgets when owners were served that have had no jobs for long.
    async fn forget_owners(&self) {
        let before = Timestamp(self.clock.now().0.saturating_sub(OWNERS_KEPT));
        if let Err(error) = self.store.write(false, move |t| t.forget_owners(before)).await {
            tracing::warn!(%error, "owners without jobs were not forgotten");
        }
    }

    /// Gives room back that removed jobs took in the store.
    async fn give_back(&self) {
        if let Err(error) = self.store.run(|store| store.give_back()).await {
            tracing::warn!(%error, "the job store gives no room back");
        }
    }

    /// Sees to it that the ends of jobs can be written when somebody has filled the disk: else he
    /// would never be known to have ended, and what he occupies never be free again.
    async fn keep_room(&self) {
        let bytes = (self.settings.disk_reserve / SHARE_OF_STORE).min(MOST_FOR_STORE);
        if let Ok(Err(error)) = self.store.run(move |store| Ok(store.keep_room(bytes))).await {
            tracing::warn!(%error, "no room is kept for the job store when the disk is full");
        }
    }

    /// Looks through the directories: removes what nobody accepted and whose end was decided,
    /// and counts those whose record was lost. In a thread of its own, one at a time.
    fn sweep(self: &Arc<Self>) {
        let mut measures = {
            let mut housekeeping = lock(&self.housekeeping);
            let due = housekeeping.sweep_at.is_none_or(|at| at <= Instant::now());
            if housekeeping.sweeping || !due {
                return;
            }
            housekeeping.sweeping = true;
            std::mem::take(&mut housekeeping.measures)
        };
        let shared = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let begun = std::time::Instant::now();
            let swept = lost::sweep(
                &shared.settings.data,
                shared.store.blocking(),
                &*shared.executor,
                &mut measures,
            );
            let pause = pause_after(begun.elapsed());
            let mut housekeeping = lock(&shared.housekeeping);
            (housekeeping.sweeping, housekeeping.sweep_at) = (false, Some(Instant::now() + pause));
            housekeeping.measures = measures;
            match swept {
                Ok(swept) => shared.note_lost(&mut housekeeping, swept),
                Err(error) => {
                    tracing::error!(%error, "directories of jobs were not looked through");
                }
            }
        });
    }

    /// Says what was set aside, whenever it has become more.
    fn note_lost(&self, housekeeping: &mut HousekeepingState, swept: lost::SweepReport) {
        if swept.removed > 0 {
            tracing::info!(removed = swept.removed, "removed directories that kills had left");
        }
        let data = self.settings.data.display();
        if swept.lost.count > housekeeping.lost.count {
            tracing::warn!(
                directories = swept.lost.count,
                bytes = swept.lost.bytes,
                "directories of jobs have no record and are set aside; nothing of them was removed: \
                 {}. `fishplate lost list --data {data}` lists them, adopts and discards them",
                swept.lost.why,
            );
        }
        lock(&self.occupied).set_lost(swept.lost.bytes);
        housekeeping.lost = swept.lost;
    }
}

/// How long the directories are left alone after looking through them took so long.
fn pause_after(sweep: Duration) -> Duration {
    (sweep * SWEEPING_SHARE).clamp(HOUSEKEEPING_PERIOD, LONGEST_UNSWEPT)
}

fn remove(directory: &Path) {
    if let Err(error) = workspace::remove(directory) {
        tracing::warn!(directory = %directory.display(), %error, "a job's files were not removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_sweeps_is_bounded() {
        let pause = |millis| pause_after(Duration::from_millis(millis)).as_secs();
        assert_eq!((pause(1), pause(200), pause(30_000)), (10, 20, 50));
    }
}

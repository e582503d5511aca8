//! Room on the disk: what jobs occupy of `disk_quota`, and what waits while less than `disk_reserve`
//! is free.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fishplate_contract::{Fault, FaultCode, JobId};
use fishplate_formats::disk::FreeSpace;

use super::{EngineInner, lock, storage_fault};
use crate::store::Totals;

/// How long a job rests whose start found no room; twice as long after each further one,
const FIRST_REST: Duration = Duration::from_secs(1);

/// but no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// What all jobs occupy.
#[derive(Debug, Default)]
pub(super) struct DiskUsage {
    /// As it was counted last.
    counted: u64,
    /// Jobs that were accepted here since.
    since: HashMap<JobId, u64>,
    /// What those occupy.
    added: u64,
    /// What directories occupy that have no record.
    lost: u64,
}

impl DiskUsage {
    pub(super) fn bytes(&self) -> u64 {
        self.counted.saturating_add(self.added).saturating_add(self.lost)
    }

    /// A job occupies so much that the last count did not see.
    pub(super) fn add(&mut self, job: JobId, bytes: u64) {
        self.forget(job);
        if bytes > 0 {
            self.added += bytes;
            self.since.insert(job, bytes);
        }
    }

    /// A job is gone.
    pub(super) fn forget(&mut self, job: JobId) {
        self.added -= self.since.remove(&job).unwrap_or_default();
    }

    /// Directories without a record were counted.
    pub(super) fn set_lost(&mut self, bytes: u64) {
        self.lost = bytes;
    }

    fn count(&mut self, counted: u64) {
        *self = Self { counted, lost: self.lost, ..Self::default() };
    }
}

/// Queued jobs whose start found no room, though as much as must be is free: what they bring along
/// needs more.
#[derive(Debug, Default)]
pub(super) struct SpaceQueue(HashMap<JobId, SpaceWait>);

#[derive(Debug)]
struct SpaceWait {
    why: String,
    times: u32,
    until: Instant,
}

impl SpaceQueue {
    /// Has a job rest; tells for how long.
    pub(super) fn rest(&mut self, job: JobId, why: String) -> Duration {
        let times = self.0.get(&job).map_or(0, |rest| rest.times);
        let pause = FIRST_REST.saturating_mul(1 << times.min(16)).min(LONGEST_REST);
        let until = Instant::now() + pause;
        self.0.insert(job, SpaceWait { why, times: times + 1, until });
        pause
    }

    /// A job does not wait for room any more.
    pub(super) fn forget(&mut self, job: JobId) {
        self.0.remove(&job);
    }

    /// Those that are to be left where they are now.
    pub(super) fn jobs(&self, now: Instant) -> Vec<JobId> {
        self.0.iter().filter(|(_, rest)| rest.until > now).map(|(job, _)| *job).collect()
    }

    fn why(&self, job: JobId) -> Option<&str> {
        self.0.get(&job).map(|rest| rest.why.as_str())
    }
}

impl EngineInner {
    /// Whether there is room for one more job.
    pub(super) async fn check_room(&self) -> Result<(), Fault> {
        if !self.is_working() && self.settings.disk_quota.is_some() {
            // Nobody does housekeeping in this process.
            let totals = self.store.read(|t| t.totals()).await;
            self.counted(totals.map_err(|error| storage_fault(&error))?);
        }
        self.check_quota(lock(&self.occupied).bytes().saturating_add(1))?;
        let Some(free) = self.missing() else { return Ok(()) };
        let reserve = self.settings.disk_reserve;
        let what = format!("the server's disk is full: {free}, {reserve} are reserved");
        Err(Fault::new(FaultCode::StorageFull, what)
            .limit("disk_reserve", format!("{reserve} bytes")))
    }

    /// Takes what a new job has put into its directory, if the quota has room for it.
    pub(super) fn occupy(&self, job: JobId, bytes: u64) -> Result<(), Fault> {
        let mut occupied = lock(&self.occupied);
        self.check_quota(occupied.bytes().saturating_add(bytes))?;
        occupied.add(job, bytes);
        Ok(())
    }

    /// All jobs were counted.
    pub(super) fn counted(&self, totals: Totals) {
        lock(&self.occupied).count(totals.disk);
    }

    fn check_quota(&self, bytes: u64) -> Result<(), Fault> {
        let Some(quota) = self.settings.disk_quota.filter(|quota| bytes > *quota) else {
            return Ok(());
        };
        let what = format!(
            "jobs would occupy {bytes} bytes of {quota}; remove ended ones, or wait until they expire"
        );
        Err(Fault::new(FaultCode::QuotaExceeded, what)
            .limit("disk_quota", format!("{quota} bytes")))
    }

    /// What is free, if it is less than must stay free. If the file system can't be asked, the write
    /// that fails will say so.
    pub(super) fn missing(&self) -> Option<FreeSpace> {
        let free = FreeSpace::at(&self.settings.data).ok()?;
        (free.room() < self.settings.disk_reserve).then_some(free)
    }

    /// Why a queued job waits though it may be its turn.
    pub(super) fn waits_for_room(&self, job: JobId) -> Option<String> {
        if let Some(free) = self.missing() {
            let reserve = self.settings.disk_reserve;
            return Some(format!(
                "waits for room on the server's disk: {free}, {reserve} are reserved \
                 (disk_reserve)"
            ));
        }
        let resting = lock(&self.resting);
        resting.why(job).map(|why| format!("waits for room on the server's disk: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_rests_longer_each_time_but_not_for_ever() {
        let (mut resting, job) = (SpaceQueue::default(), JobId::from_bytes([1; 16]));
        let mut rest = || {
            let pause = resting.rest(job, "full".to_owned());
            assert_eq!(resting.jobs(Instant::now()), [job]);
            pause.as_secs()
        };
        let pauses: Vec<u64> = (0..7).map(|_| rest()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        (0..40).for_each(|_| assert_eq!(rest(), 30));
        assert_eq!(resting.jobs(Instant::now() + LONGEST_REST), []);
        assert_eq!(resting.why(job), Some("full"), "it is told until it has started");
        resting.forget(job);
        assert_eq!(resting.why(job), None);
        assert_eq!(resting.rest(job, String::new()), FIRST_REST);
    }

    #[test]
    fn what_was_accepted_since_the_last_count_counts_until_the_next_or_until_it_is_gone() {
        let (mut occupied, job) = (DiskUsage::default(), |n| JobId::from_bytes([n; 16]));
        occupied.count(100);
        occupied.add(job(1), 10);
        occupied.add(job(2), 5);
        // The same job again, with what it has come to.
        occupied.add(job(1), 20);
        assert_eq!(occupied.bytes(), 125);
        occupied.forget(job(2));
        occupied.forget(job(3));
        assert_eq!(occupied.bytes(), 120);
        occupied.count(130);
        occupied.forget(job(1));
        assert_eq!(occupied.bytes(), 130);
    }
}

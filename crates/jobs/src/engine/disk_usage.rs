//! Room on the disk: what jobs occupy of `disk_quota`, and what waits while less than `disk_reserve`
//! is free.

use std::collections::HashMap;

use fishplate_contract::{Fault, FaultCode, JobId};
use fishplate_formats::disk::FreeSpace;

use super::{EngineInner, lock, storage_fault};
use crate::store::Totals;

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
    pub(super) fn shortage(&self, job: JobId) -> Option<String> {
        if let Some(free) = self.missing() {
            let reserve = self.settings.disk_reserve;
            return Some(format!(
                "waits for room on the server's disk: {free}, {reserve} are reserved \
                 (disk_reserve)"
            ));
        }
        lock(&self.resting).shortage(job).map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

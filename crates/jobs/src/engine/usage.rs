//! What was used: jobs' ends write it themselves; what takes no job is gathered here, and written once a second.

use fishplate_contract::Timestamp;

use super::{Engine, EngineInner, lock};
use crate::store::UsageRecord;
use crate::store::usage::UsageAccumulator;

impl Engine {
    /// Notes what was used without a job: within a second it survives this process.
    pub fn account(&self, record: UsageRecord) {
        lock(&self.shared.unwritten).add(record);
    }

    /// The same, of much.
    pub fn account_all(&self, records: UsageAccumulator) {
        lock(&self.shared.unwritten).merge(records);
    }

    /// How many jobs and transfers could not be noted, because the store was not written for so long.
    pub fn usage_dropped(&self) -> u64 {
        lock(&self.shared.unwritten).dropped()
    }

    /// Writes what was noted, before the process ends.
    pub async fn write_usage(&self) {
        self.shared.write_usage().await;
    }
}

impl EngineInner {
    pub(super) async fn write_usage(&self) {
        // Whoever writes last before the process ends waits for what another one has taken.
        let _writing = self.writing_usage.lock().await;
        let records = lock(&self.unwritten).take();
        if records.is_empty() {
            return;
        }
        let written = records.clone();
        let write = self
            .store
            .write(false, move |t| written.iter().try_for_each(|record| t.account(record)));
        if let Err(error) = write.await {
            let mut unwritten = lock(&self.unwritten);
            records.into_iter().for_each(|record| unwritten.add(record));
            let dropped = unwritten.dropped();
            tracing::error!(%error, dropped, "what was used was not written; trying again");
        }
    }

    /// Keeps records one by one as far as they are to be.
    pub(super) async fn fold_usage(&self) {
        // Quotas are counted by the same days.
        let retention = self.settings.usage_retention.max(self.settings.quota_period);
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp(self.clock.now().0.saturating_sub(retention));
        let keep = self.settings.usage_records;
        loop {
            match self.store.write(false, move |t| t.fold_usage(before, keep)).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "records of what was used were not summed up");
                    return;
                }
            }
        }
    }
}

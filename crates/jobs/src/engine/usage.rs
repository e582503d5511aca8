//! What was used: jobs' ends write it themselves; what takes no job is gathered here, and written once a second.

use fishplate_contract::Timestamp;

use super::{Engine, EngineInner, lock};
use crate::store::UsageRecord;

/// More are not gathered while the store can't be written.
const MOST_UNWRITTEN: usize = 100_000;

impl Engine {
    /// Notes what was used without a job: within a second it survives this process.
    pub fn account(&self, record: UsageRecord) {
        let mut unwritten = lock(&self.shared.unwritten);
        if unwritten.len() < MOST_UNWRITTEN {
            unwritten.push(record);
        }
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
        let records = std::mem::take(&mut *lock(&self.unwritten));
        if records.is_empty() {
            return;
        }
        let written = records.clone();
        let write = self
            .store
            .write(false, move |t| written.iter().try_for_each(|record| t.account(record)));
        if let Err(error) = write.await {
            tracing::error!(%error, "what was used was not written; trying again");
            lock(&self.unwritten).splice(0..0, records);
        }
    }

    /// Keeps records one by one as far as they are to be.
    pub(super) async fn fold_usage(&self) {
        let retention =
            i64::try_from(self.settings.usage_retention.as_millis()).unwrap_or(i64::MAX);
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

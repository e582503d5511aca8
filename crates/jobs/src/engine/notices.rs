//! What is to be told of jobs without being asked for: claimed in the store by one process, whichever, until it was told.

use std::time::Duration;

use fishplate_contract::Fault;

use super::{Engine, storage_fault, write_fault};
use crate::store::FencedWrite;
use crate::store::notices::DueNotice;

/// How long a claim lasts that is not renewed.
const LEASE: Duration = Duration::from_secs(30);

impl Engine {
    /// Comes about when there may be something to tell; for one task.
    pub async fn notice_due(&self) {
        self.shared.notices.notified().await;
    }

    /// Claims what is to be told of jobs of these services: at most so many, and of one owner no more than `most_of_owner`, whichever
    /// processes tell it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn claim_notices(
        &self,
        services: Vec<String>,
        most: usize,
        most_of_owner: usize,
    ) -> Result<Vec<DueNotice>, Fault> {
        let store = &self.shared.store;
        let read = store.read(move |t| t.due_notices(&services, most, most_of_owner)).await;
        let due = read.map_err(|error| storage_fault(&error))?;
        if due.is_empty() {
            return Ok(due);
        }
        let holder = self.shared.holder.clone();
        let claimed = self.shared.store.write(false, move |t| {
            let mut claimed = Vec::new();
            for due in due {
                if t.claim_notice(&due, &holder, LEASE)? == FencedWrite::Accepted {
                    claimed.push(due);
                }
            }
            Ok(claimed)
        });
        claimed.await.map_err(|error| write_fault(&error))
    }

    /// Keeps the claim as long as this is awaited, which never ends.
    pub async fn keep_notice(&self, claimed: &DueNotice) {
        let job = claimed.job;
        loop {
            tokio::time::sleep(LEASE / 3).await;
            let holder = self.shared.holder.clone();
            let renew =
                self.shared.store.write(false, move |t| t.renew_notice(job, &holder, LEASE));
            if let Err(error) = renew.await {
                tracing::warn!(%job, %error, "a claim to tell of a job was not renewed");
            }
        }
    }

    /// It was told, or never can be. If that can't be written, it is told once more.
    pub async fn settle_notice(&self, told: &DueNotice) {
        let (job, notice, holder) = (told.job, told.notice, self.shared.holder.clone());
        let settled =
            self.shared.store.write(false, move |t| t.settle_notice(job, &holder, notice));
        if let Err(error) = settled.await {
            tracing::warn!(%job, %error, "what was told of a job will be told again");
        }
    }

    /// It was not told; nobody tries for so long.
    pub async fn release_notice(&self, untold: &DueNotice, rest: Duration) {
        let (job, holder) = (untold.job, self.shared.holder.clone());
        let released =
            self.shared.store.write(false, move |t| t.release_notice(job, &holder, rest));
        if let Err(error) = released.await {
            tracing::warn!(%job, %error, "a claim to tell of a job was not given back");
        }
    }
}

//! What owners may have: told at each question, so that a policy that changes holds at once.

use std::sync::{Arc, PoisonError, Weak};

use fishplate_contract::{Fault, Principal};

use super::{Engine, EngineInner, Settings, storage_fault};
use crate::store::quota::{OwnerLimits, OwnerQuotas, OwnerUsage, Quota, QuotaExcess};

/// Tells what is in force now.
pub(super) type QuotaSource = Box<dyn Fn() -> Arc<dyn OwnerQuotas> + Send + Sync>;

/// The same for all, as the settings say.
pub(super) fn of_settings(settings: &Settings) -> QuotaSource {
    let limits = Arc::new(settings.owner_limits());
    Box::new(move || Arc::clone(&limits) as _)
}

impl Engine {
    /// From now on this tells what each owner may have. It is asked for each job, and whenever one may begin.
    pub fn set_quotas(&self, quotas: impl Fn() -> Arc<dyn OwnerQuotas> + Send + Sync + 'static) {
        let mut source = self.shared.quotas.write().unwrap_or_else(PoisonError::into_inner);
        *source = Box::new(quotas);
    }

    /// What an owner may have, and has used.
    ///
    /// # Errors
    /// What the store or the pool says.
    pub async fn quotas_of(&self, owner: &Principal) -> Result<(OwnerLimits, OwnerUsage), Fault> {
        let limits = self.shared.quotas().of(owner.as_str());
        let mut usage = self.shared.usage(owner, &limits).await?;
        if let Some(stager) = self.shared.stager.get() {
            usage.data_bytes = stager.data_bytes(owner, u64::MAX).await?;
        }
        Ok((limits, usage))
    }

    /// Whether an owner may use so much more of these, beside jobs; with 0, whether anything. What was used is known a
    /// second later.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub async fn check_quotas(
        &self,
        owner: &Principal,
        wanted: &[(Quota, u64)],
    ) -> Result<(), Fault> {
        match self.shared.excess(owner, wanted).await? {
            Some(excess) => Err(excess.fault(self.shared.clock.now())),
            None => Ok(()),
        }
    }

    /// What the pool asks about owners.
    pub fn owner_disk(&self) -> OwnerDisk {
        OwnerDisk(Arc::downgrade(&self.shared))
    }
}

/// What owners may have on the disk, and what their jobs occupy of it: as long as the engine is there.
#[derive(Debug)]
pub struct OwnerDisk(Weak<EngineInner>);

impl OwnerDisk {
    /// What an owner may have; `None`: as much as there is.
    pub fn quota(&self, owner: &Principal) -> Option<u64> {
        self.0.upgrade()?.quotas().of(owner.as_str()).disk
    }

    /// What the owner's jobs occupy. Reads the store: not for a task.
    pub fn job_bytes(&self, owner: &Principal) -> u64 {
        let Some(shared) = self.0.upgrade() else { return 0 };
        let (now, mut bytes) = (shared.clock.now(), 0);
        let read = shared.store.blocking().read(&mut |t| {
            bytes = t.owner_usage(owner.as_str(), now)?.job_bytes;
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!(%error, "what an owner's jobs occupy can't be told");
        }
        bytes
    }
}

impl EngineInner {
    /// What each owner may have now.
    pub(super) fn quotas(&self) -> Arc<dyn OwnerQuotas> {
        self.quotas.read().unwrap_or_else(PoisonError::into_inner)()
    }

    async fn usage(&self, owner: &Principal, limits: &OwnerLimits) -> Result<OwnerUsage, Fault> {
        let (owner, since) = (owner.clone(), limits.period.start(self.clock.now()));
        let read = self.store.read(move |t| t.owner_usage(owner.as_str(), since)).await;
        read.map_err(|error| storage_fault(&error))
    }

    /// What stands against so much more of these.
    pub(super) async fn excess(
        &self,
        owner: &Principal,
        wanted: &[(Quota, u64)],
    ) -> Result<Option<QuotaExcess>, Fault> {
        let limits = self.quotas().of(owner.as_str());
        if wanted.iter().all(|(quota, _)| limits.get(*quota).is_none()) {
            return Ok(None);
        }
        // On the heap: it is seldom needed, and would make the future of each call larger.
        let usage = Box::pin(self.usage(owner, &limits)).await?;
        Ok(wanted.iter().find_map(|(quota, wanted)| usage.excess(*quota, &limits, *wanted)))
    }

    /// Bytes of data that an owner has beside jobs, if they count; what nobody needs of it goes if a job of theirs takes
    /// so much room.
    pub(super) async fn data_bytes(
        &self,
        owner: &Principal,
        limits: &OwnerLimits,
        wanted: u64,
    ) -> Result<u64, Fault> {
        let (Some(most), Some(stager)) = (limits.disk, self.stager.get()) else { return Ok(0) };
        let jobs = self.usage(owner, limits).await?.job_bytes;
        stager.data_bytes(owner, most.saturating_sub(jobs).saturating_sub(wanted)).await
    }
}

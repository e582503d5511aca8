//! What each owner may hold of a pool.

use std::fmt::Debug;

use fishplate_contract::Principal;

/// Tells what each owner may have on the disk, of which the pool is a part. Asked for each piece of data that comes.
pub trait OwnerQuota: Debug + Send + Sync {
    /// Bytes that an owner may have; `None`: as much as there is room for.
    fn quota(&self, owner: &Principal) -> Option<u64>;

    /// Bytes that the owner has elsewhere, and which count too. May block.
    fn elsewhere(&self, _: &Principal) -> u64 {
        0
    }
}

/// The same for all.
impl OwnerQuota for Option<u64> {
    fn quota(&self, _: &Principal) -> Option<u64> {
        *self
    }
}

/// What one owner may hold, as it was told for one question.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnerShare {
    /// All that they may have.
    pub(super) quota: u64,
    /// What of it is used elsewhere.
    pub(super) elsewhere: u64,
}

impl OwnerShare {
    /// That of an owner; `None`: nothing bounds it.
    pub(super) fn of(quotas: &dyn OwnerQuota, owner: &Principal) -> Option<Self> {
        let quota = quotas.quota(owner)?;
        Some(Self { quota, elsewhere: quotas.elsewhere(owner) })
    }

    /// Bytes that the owner may hold in the pool.
    pub(super) fn bytes(self) -> u64 {
        self.quota.saturating_sub(self.elsewhere)
    }
}

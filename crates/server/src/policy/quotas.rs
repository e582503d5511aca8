//! What owners may have by a policy: what it says of a user counts more than what it says of their groups, that more than
//! what it says of everybody who is known, and of everybody; where it says nothing, the server's limits hold.

use std::sync::Arc;

use fishplate_jobs::store::quota::{OwnerLimits, OwnerQuotas, Quota};

use super::rules::{ANYBODY, AUTHENTICATED, AccessPolicy};

/// The word that lifts a limit.
pub(super) const NONE: &str = "none";

/// `[[quota]]`: what each of some users may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRule {
    /// Users, and groups with their `@`; each member for themselves.
    pub who: Vec<String>,
    /// How much of what; `None`: as much as there is.
    pub limits: Vec<(Quota, Option<u64>)>,
}

/// How nearly a rule concerns an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    Anybody,
    Authenticated,
    Group,
    User,
}

impl AccessPolicy {
    /// What it says of so much of something for an owner; of several rules that concern them as nearly, the most.
    fn quota(&self, owner: &str, quota: Quota) -> Option<Option<u64>> {
        let said = self.quotas.iter().filter_map(|rule| {
            let (_, most) = rule.limits.iter().find(|(of, _)| *of == quota)?;
            Some((self.nearness(owner, rule)?, most.unwrap_or(u64::MAX)))
        });
        let (_, most) = said.max()?;
        Some((most < u64::MAX).then_some(most))
    }

    fn nearness(&self, owner: &str, rule: &QuotaRule) -> Option<Nearness> {
        let known = !owner.is_empty();
        let of = |who: &String| match who.as_str() {
            ANYBODY => Some(Nearness::Anybody),
            AUTHENTICATED => known.then_some(Nearness::Authenticated),
            name if name == owner => Some(Nearness::User),
            group => self.is_member(owner, group).then_some(Nearness::Group),
        };
        rule.who.iter().filter_map(of).max()
    }
}

/// What owners may have: what a policy says, else the server's limits.
#[derive(Debug)]
pub struct PolicyQuotas {
    policy: Arc<AccessPolicy>,
    defaults: OwnerLimits,
}

impl PolicyQuotas {
    /// By this policy, and these limits.
    pub fn new(policy: Arc<AccessPolicy>, defaults: OwnerLimits) -> Self {
        Self { policy, defaults }
    }
}

impl OwnerQuotas for PolicyQuotas {
    fn of(&self, owner: &str) -> OwnerLimits {
        let mut limits = self.defaults;
        for quota in Quota::ALL {
            if let Some(said) = self.policy.quota(owner, quota) {
                *limits.field(quota) = said;
            }
        }
        limits
    }
}

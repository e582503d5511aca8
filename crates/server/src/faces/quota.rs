//! What a caller may have of the server, and has used: of themselves, so it needs no right but to be known.

use fishplate_contract::{Fault, Principal};
use fishplate_formats::units;
use fishplate_jobs::store::quota::{OwnerLimits, OwnerUsage, Quota};
use serde_json::{Value, json};

use crate::host::Host;

/// Those of which it is told how much is used. (`owner_queued` is for each service.)
pub(crate) const TOLD: [Quota; 4] = [Quota::CpuTime, Quota::Traffic, Quota::Disk, Quota::Running];

/// What an owner may have and has used, in JSON.
///
/// # Errors
/// What the store or the pool says.
pub(crate) async fn told(host: &Host, owner: &Principal) -> Result<String, Fault> {
    let (limits, usage) = host.engine.quotas_of(owner).await?;
    Ok(format!("{}\n", json(owner.as_str(), &limits, &usage)))
}

/// The same of what is known: `cpu_time` in seconds, `traffic` and `disk` in bytes, `running` in jobs.
pub fn json(owner: &str, limits: &OwnerLimits, usage: &OwnerUsage) -> Value {
    let amount = |quota, amount: u64| match quota {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds below 2^53")]
        Quota::CpuTime => json!(amount as f64 / 1000.0),
        _ => json!(amount),
    };
    let quotas = TOLD.map(|quota| {
        json!({
            "quota": quota.name(),
            "used": amount(quota, usage.get(quota)),
            "limit": limits.get(quota).map(|most| amount(quota, most)),
            "roomAgain": room_again(quota, limits, usage),
        })
    });
    json!({ "user": owner, "days": limits.period.days(), "quotas": quotas })
}

/// The day on which there is room again, of what is used up.
pub(crate) fn room_again(quota: Quota, limits: &OwnerLimits, usage: &OwnerUsage) -> Option<String> {
    let at = usage.excess(quota, limits, 0)?.room_at?;
    Some(units::day(at.0))
}

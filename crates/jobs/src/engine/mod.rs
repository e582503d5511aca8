//! The engine: claims jobs, starts them, observes them, concludes them, and answers for them.
//!
//! Reading order: `shared` (what an engine consists of), `reactor` (the steps, no effects),
//! `driver` (has the effects happen, and the clock), `fetching` and `conversion` (data by reference
//! before the start), `reuse` (results of an equal job of before, instead), `sending` (and after the end), `transfers` (what is told of what moves),
//! `record` and `plans` (plans of jobs that wait, on the disk and in memory), `disk_usage` (what
//! jobs occupy, and what must stay free), `places` (for ranks, held before they start), `ephemeral` (calls that leave no job behind), `judge`
//! (from a program's end to a job's), `verbs` (what callers ask of jobs), `log` (what programs
//! wrote), `notices` (what is told of jobs without being asked for), `outcome` (outputs as the caller wants them), `usage` (what was used), `quotas` (what
//! owners may have), `housekeeping` (retention, and what kills left behind).

mod conversion;
mod disk_usage;
mod driver;
mod ephemeral;
mod fetching;
mod housekeeping;
mod judge;
mod log;
mod notices;
mod outcome;
mod output;
mod places;
mod plans;
mod quotas;
mod reactor;
pub(crate) mod record;
mod resting;
mod reuse;
mod sending;
mod settings;
mod shared;
mod submit;
mod transfers;
mod usage;
mod verbs;

pub use driver::RunMode;
pub use ephemeral::EphemeralJob;
use fishplate_contract::lock;
pub use places::Reservation;
pub use quotas::OwnerDisk;
pub use reuse::{ReuseRule, content_digest};
pub use settings::Settings;
pub use shared::Engine;
use shared::{EngineInner, storage_fault, write_fault};
pub use submit::{AcceptedJob, JobRequest, fingerprint, new_id};
pub use verbs::{OwnJob, SessionJob, no_such_job};

#[cfg(test)]
mod tests;

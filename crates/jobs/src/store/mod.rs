//! Where records of jobs live. One trait, one conformance suite, one folder or file a backend.
//!
//! A claim on a job is *leased*: it lapses unless it is renewed, and at once when its holder is
//! known to be gone. It is *fenced*: each claim of a job has a larger fence than the one before,
//! and what an older fence writes is refused. So CGI processes and several servers share a store.
//! A job whose data is being fetched is leased and fenced alike, but holds no running place.
//!
//! Reading order: `traits` (what a store does), `records` (with what), `async_store` (how tasks use
//! one) and [`commit`] (many writers, one transaction), [`usage`] (what was used), [`quota`] (what one owner may),
//! [`notices`] (what is to be told of jobs), then the backends.

mod async_store;
pub mod commit;
#[cfg(test)]
pub(crate) mod conformance;
mod error;
pub mod memory;
pub mod notices;
pub mod quota;
mod records;
pub mod sqlite;
mod traits;
mod turns;
pub mod usage;

pub use async_store::AsyncStore;
pub use error::StoreError;
pub use records::{
    Boot, Claim, ClaimRequest, FencedWrite, FetchClaim, FetchRequest, Filter, JobRecord,
    KillRequest, NewJob, PendingJobs, RunTime, RunningJobs, Submission, Totals,
};
pub use traits::{Store, Transaction};
pub use usage::UsageRecord;

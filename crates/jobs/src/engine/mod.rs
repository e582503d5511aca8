//! The engine: claims jobs, starts them, observes them, concludes them, and answers for them.
//!
//! Reading order: `shared` (what an engine consists of), [`reactor`] (the steps, no effects),
//! [`driver`] (has the effects happen, and the clock),
//! `fetching` and `arrival` (data by reference before the start), `sending` (and after the end),
//! `transfers` (what is told of what moves), `record` and `plans` (plans of jobs that wait, on the disk and in
//! memory), `room` (what jobs occupy, and what must stay free),
//! `ephemeral` (calls that leave no job behind), [`judge`] (from a program's end to a job's), [`verbs`] (what callers ask of jobs), `outcome`
//! (outputs as the caller wants them),
//! [`housekeeping`] (retention and what kills left behind).

mod arrival;
mod driver;
mod ephemeral;
mod fetching;
mod housekeeping;
mod judge;
mod outcome;
mod output;
mod plans;
mod reactor;
pub(crate) mod record;
mod room;
mod sending;
mod settings;
mod shared;
mod submit;
mod transfers;
mod verbs;

pub use driver::Until;
pub use ephemeral::EphemeralJob;
pub use settings::Settings;
pub use shared::Engine;
use shared::{Shared, lock, storage_fault, write_fault};
pub use submit::{Accepted, NewWork, fingerprint};
pub use verbs::{InSession, LogPage};

#[cfg(test)]
mod tests;

//! The load: requests sent when they are due, their answers judged, and each second told.
//!
//! An agent's load has a thread of its own, with a runtime of its own: what else the agent does holds no request back,
//! and its processor time is the load's. More load than a thread can make takes more agents.
//!
//! - [`plan`]: all that an agent needs
//! - `prepared`: a plan made ready
//! - `arrivals`: when requests begin in an open loop
//! - `timer`: waits finer than the runtime's
//! - `tls`, `connection`, `response`: HTTP/1.1, as little as a load needs
//! - `client`: one request after another
//! - `run`: the clients of an agent together
//! - `tally`: what was counted in a second
//! - [`log`]: what became of each request
//! - `probe`: a request of the watchdog's own

mod arrivals;
mod client;
mod connection;
pub mod log;
pub mod plan;
mod prepared;
mod probe;
mod response;
mod run;
mod tally;
mod timer;
mod tls;

pub use crate::check::CheckerError;
pub(crate) use plan::PlannedExpect;
pub use plan::{LoadPlan, PROBE, PlanError, WARM_UP};
pub use probe::ProbeRequest;
pub use run::{EndedBy, LoadEnd, LoadError, run};
pub use tls::TlsError;

#[cfg(test)]
mod tests;

//! The native half of the Python package `fishplate`: the client's verbs as [`Task`]s, which Python
//! waits for either way, blocking or awaiting.
//!
//! It is private to the package, whose Python half makes it pleasant: names, conversions, jobs,
//! sessions, documentation. Reading order:
//!
//! - [`task`]: work under way, on the one runtime
//! - [`service`]: a service's verbs; [`describe`]: what it offers; [`report`]: jobs
//! - [`session`]: spaces on a server; [`data`]: data that moves without a service
//! - [`value`]: arguments and outputs; [`payload`]: data by handle, without copies
//! - [`failure`]: errors as exceptions of the Python half

mod data;
mod describe;
mod failure;
mod payload;
mod report;
mod service;
mod session;
mod task;
mod value;

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Blame, FaultCode, JobState};
use pyo3::prelude::*;

/// The client of Fishplate, for the package `fishplate` alone.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::data::{Meter, Offer, get, put, transferred};
    #[pymodule_export]
    use crate::describe::{Difference, Operation, Parameter};
    #[pymodule_export]
    use crate::payload::{Array, Chunks, Payload};
    #[pymodule_export]
    use crate::service::{Service, Watch, find, services};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::task::Task;
    #[pymodule_export]
    use crate::{fault_codes, job_states, new_key};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("JOBS_PAGE", DEFAULTS.jobs_page)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Every code of a fault: its name, whether the caller is to blame, what it means.
#[pyfunction]
fn fault_codes() -> Vec<(&'static str, bool, &'static str)> {
    let told =
        |code: &FaultCode| (code.name(), code.blame() == Blame::Sender, code.meaning().trim());
    FaultCode::ALL.iter().map(told).collect()
}

/// Every state of a job, and whether it is its last.
#[pyfunction]
fn job_states() -> Vec<(&'static str, bool)> {
    JobState::ALL.iter().map(|state| (state.name(), state.is_final())).collect()
}

/// A random idempotency key.
#[pyfunction]
fn new_key() -> String {
    fishplate_client::new_key()
}

//! Programs: every call is a job.

use fishplate_contract::{Argument, Fault, Service};
use fishplate_jobs::program::Program;

use crate::dispatch::provider::{PlannedJob, Provider};
use crate::host::Host;

impl Provider for Program {
    fn service(&self) -> &Service {
        self.service()
    }

    fn about_jobs(&self) -> Option<&str> {
        Some("Every call is a job.")
    }

    fn max_running(&self) -> Option<u32> {
        self.max_running()
    }

    fn plan(
        &self,
        _: &Host,
        operation: &str,
        arguments: Vec<Argument>,
    ) -> Result<PlannedJob, Fault> {
        self.plan(operation, arguments)
    }
}

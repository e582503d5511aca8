//! Programs: every call is a job.

use std::path::Path;

use fishplate_contract::{Argument, Fault, Interface, Service};
use fishplate_programs::plan::Plan;
use fishplate_programs::program::Program;

use crate::dispatch::provider::{PlannedJob, Provider};
use crate::host::Host;

impl Provider for Program {
    fn service(&self) -> &Service {
        self.service()
    }

    fn interface(&self) -> Interface {
        let interface = Interface::of(self.service());
        match self.ranks() {
            Some(_) => interface.with_init(self.service()),
            None => interface,
        }
    }

    fn about_jobs(&self) -> Option<&str> {
        Some("Every call is a job.")
    }

    fn max_running(&self) -> Option<u32> {
        self.max_running()
    }

    fn ranks(&self) -> Option<u32> {
        self.ranks()
    }

    fn lead_to_libraries(&self, plan: &mut Plan, directory: &Path) {
        self.lead_to_libraries(plan, directory);
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

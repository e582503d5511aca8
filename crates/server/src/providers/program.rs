//! Programs: every call is a job.

use fishplate_contract::{Call, Service};
use fishplate_jobs::program::Program;

use crate::dispatch::provider::{Planned, Provider, Work};
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

    fn plan<'a>(&'a self, _: &'a Host, call: &'a mut Call) -> Work<'a, Planned> {
        Box::pin(async move { self.plan(&call.operation, &call.arguments) })
    }
}

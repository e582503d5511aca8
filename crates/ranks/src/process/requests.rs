//! Waiting for what only the caller can judge: the MPI ABI's own requests, each of several of ours.

use crate::header::RequestId;
use crate::process::{Process, WaitFor};

impl Process {
    /// Waits until `ready`, which is asked again whenever something has come; it can ask which requests are complete.
    pub fn wait_for_requests(&self, ready: impl Fn(&dyn Fn(RequestId) -> bool) -> bool) {
        self.wait_until(WaitFor::Pending, |state| {
            ready(&|request| state.engine.is_complete(request)).then_some(())
        });
    }

    /// Whether it is so, after what can be done now.
    pub fn test_requests(&self, ready: impl Fn(&dyn Fn(RequestId) -> bool) -> bool) -> bool {
        self.progress();
        self.with(|state| ready(&|request| state.engine.is_complete(request)))
    }
}

//! Requests by their names, for the MPI ABI, whose own requests live as long as a C program likes.

use crate::header::RequestId;
use crate::process::Process;

impl Process {
    /// Waits until `ready`, which is asked again whenever something has come; it can ask which requests are complete.
    pub fn wait_for_requests(&self, ready: impl Fn(&dyn Fn(RequestId) -> bool) -> bool) {
        self.wait_until(|state| ready(&|request| state.engine.is_complete(request)).then_some(()));
    }

    /// Whether it is so, after what can be done now.
    pub fn test_requests(&self, ready: impl Fn(&dyn Fn(RequestId) -> bool) -> bool) -> bool {
        self.progress();
        self.with(|state| ready(&|request| state.engine.is_complete(request)))
    }

    /// Whether a request is complete.
    pub fn is_complete(&self, request: RequestId) -> bool {
        self.test_requests(|is_complete| is_complete(request))
    }

    /// Cancels a receive that has no message yet; another request goes on (`MPI_Cancel`).
    pub fn cancel(&self, request: RequestId) {
        self.with(|state| state.engine.cancel(request));
    }

    /// A request that the caller completes (`MPI_Grequest_start`).
    pub fn new_request(&self) -> RequestId {
        self.with(|state| state.engine.new_compound())
    }

    /// Completes it (`MPI_Grequest_complete`), from any thread.
    pub fn complete(&self, request: RequestId) {
        self.with(|state| state.engine.complete_compound(request, Ok(())));
    }
}

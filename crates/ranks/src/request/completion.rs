//! Requests by their IDs, without a scope that keeps their buffers: the MPI ABI's way in. Ranks in a [`Status`] are the domain's.

use crate::engine::Status;
use crate::error::Result;
use crate::header::RequestId;
use crate::process::{Process, WaitFor};

impl Process {
    /// Takes a request's outcome, if it is complete (`MPI_Test`).
    pub fn test(&self, request: RequestId) -> Option<Result<Status>> {
        self.progress();
        self.with(|state| state.engine.take_outcome(request))
    }

    /// A request's outcome, if it is complete, which is kept (`MPI_Request_get_status`).
    pub fn peek(&self, request: RequestId) -> Option<Result<Status>> {
        self.progress();
        self.with(|state| state.engine.outcome(request).cloned())
    }

    /// Until one of several is complete: which (`MPI_Waitany`); its outcome is left to be taken. `None` if there are none.
    pub fn wait_any(&self, requests: &[RequestId]) -> Option<usize> {
        if requests.is_empty() {
            return None;
        }
        Some(self.wait_until(WaitFor::Any(requests), |state| {
            requests.iter().position(|&request| state.engine.is_over(request))
        }))
    }

    /// Cancels a receive that has no message yet (`MPI_Cancel`); whether it did, its status says.
    pub fn cancel(&self, request: RequestId) {
        self.with(|state| state.engine.cancel(request));
    }

    /// Lets a request go: nobody asks for its outcome any more. Its memory is not used from now on: a send is copied, a
    /// receive that has no message yet is cancelled.
    pub fn release(&self, request: RequestId) {
        self.with(|state| state.release(request));
    }

    /// A request that is complete when the program says so (`MPI_Grequest_start`).
    pub fn start_generalized(&self) -> RequestId {
        self.with(|state| state.engine.new_compound())
    }

    /// Says so (`MPI_Grequest_complete`), from any thread.
    pub fn complete_generalized(&self, request: RequestId) {
        self.with(|state| state.engine.complete_compound(request, Ok(())));
    }
}

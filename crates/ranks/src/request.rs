//! Non-blocking operations: requests, and the scopes that keep their buffers borrowed.

pub mod completion;
pub mod persistent;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::engine::Status;
use crate::error::Result;
use crate::group::Group;
use crate::header::RequestId;
use crate::process::{Process, WaitFor};

/// Where non-blocking operations are started. At its end every one of them is complete, so what they use is borrowed
/// until then; if it is left by a panic, they are given up.
pub struct Scope<'scope, 'env: 'scope> {
    process: Arc<Process>,
    started: RefCell<Vec<RequestId>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(crate) fn run<T>(
        process: &Arc<Process>,
        body: impl for<'a> FnOnce(&'a Scope<'a, 'env>) -> T,
    ) -> T {
        let scope = Scope {
            process: process.clone(),
            started: RefCell::new(Vec::new()),
            scope: PhantomData,
            env: PhantomData,
        };
        struct End<'a, 'b, 'c>(&'a Scope<'b, 'c>);
        impl Drop for End<'_, '_, '_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        let end = End(&scope);
        let value = body(end.0);
        drop(end);
        value
    }

    pub(crate) fn request(&'scope self, id: RequestId, group: Group) -> Request<'scope> {
        self.started.borrow_mut().push(id);
        Request { process: &self.process, id: Some(id), group }
    }

    fn end(&self) {
        for request in self.started.take() {
            if std::thread::panicking() {
                self.process.with(|state| state.release(request));
            } else {
                self.process.wait_until(WaitFor::Request(request), |state| {
                    state.engine.is_over(request).then_some(())
                });
                self.process.with(|state| state.engine.take_outcome(request));
            }
        }
    }
}

/// A non-blocking operation under way (MPI 4.1, 3.7). One that is dropped goes on until its scope ends.
pub struct Request<'scope> {
    process: &'scope Arc<Process>,
    /// `None` once its outcome was given: the standard's inactive request.
    id: Option<RequestId>,
    group: Group,
}

impl Request<'_> {
    /// Until it is complete (`MPI_Wait`). At once, and empty, if its outcome was given before.
    pub fn wait(&mut self) -> Result<Status> {
        let Some(id) = self.id.take() else { return Ok(Status::EMPTY) };
        self.process.wait(id).map(|status| status.within(&self.group))
    }

    /// Its outcome, if it is complete (`MPI_Test`).
    pub fn test(&mut self) -> Option<Result<Status>> {
        let Some(id) = self.id else { return Some(Ok(Status::EMPTY)) };
        self.process.progress();
        let outcome = self.process.with(|state| state.engine.take_outcome(id))?;
        self.id = None;
        Some(outcome.map(|status| status.within(&self.group)))
    }

    /// Cancels a receive that has no message yet (`MPI_Cancel`); whether it did, its status says.
    pub fn cancel(&mut self) {
        if let Some(id) = self.id {
            self.process.with(|state| state.engine.cancel(id));
        }
    }

    /// Whether its outcome is still to be had.
    pub fn is_active(&self) -> bool {
        self.id.is_some()
    }
}

/// Until all are complete (`MPI_Waitall`).
pub fn wait_all(requests: &mut [Request<'_>]) -> Vec<Result<Status>> {
    requests.iter_mut().map(Request::wait).collect()
}

/// Until one is complete: which, and its outcome (`MPI_Waitany`). `None` if none is active.
pub fn wait_any(requests: &mut [Request<'_>]) -> Option<(usize, Result<Status>)> {
    wait_some(requests, 1).pop()
}

/// Until at least one is complete: all that are (`MPI_Waitsome`), `most` of them at most. None if none is active.
pub fn wait_some(requests: &mut [Request<'_>], most: usize) -> Vec<(usize, Result<Status>)> {
    let Some(process) =
        requests.iter().find(|request| request.is_active()).map(|request| request.process)
    else {
        return Vec::new();
    };
    process.wait_until(WaitFor::Pending, |state| {
        let any = requests
            .iter()
            .any(|request| request.id.is_some_and(|id| state.engine.is_complete(id)));
        any.then_some(())
    });
    test_some(requests, most)
}

/// Those that are complete (`MPI_Testsome`), `most` of them at most.
pub fn test_some(requests: &mut [Request<'_>], most: usize) -> Vec<(usize, Result<Status>)> {
    let active = requests.iter_mut().enumerate().filter(|(_, request)| request.is_active());
    active.filter_map(|(at, request)| Some((at, request.test()?))).take(most).collect()
}

/// All outcomes, if all are complete; else none of them (`MPI_Testall`).
pub fn test_all(requests: &mut [Request<'_>]) -> Option<Vec<Result<Status>>> {
    let process = requests.first()?.process;
    process.progress();
    let complete = |id| process.with(|state| state.engine.is_complete(id));
    requests.iter().all(|request| request.id.is_none_or(complete)).then(|| wait_all(requests))
}

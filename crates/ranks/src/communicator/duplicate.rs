//! Duplicating without waiting (`MPI_Comm_idup`).

#![expect(unsafe_code, reason = "the broadcast uses memory that the duplicate keeps")]

use crate::communicator::Communicator;
use crate::error::Result;
use crate::header::{Context, RequestId};
use crate::process::Turn;

/// A communicator that is being made; it has to live until its request is complete.
#[derive(Debug)]
#[must_use = "a duplicate that is not finished is no communicator"]
pub struct Duplicate {
    counter: Box<[u32; 1]>,
}

impl Communicator {
    /// Begins what [`Communicator::dup`] does. Collective.
    pub fn idup(&self) -> Result<(RequestId, Duplicate)> {
        let mut counter = Box::new([0; 1]);
        if self.rank() == 0 {
            counter[0] = self.process().next_context();
        }
        // SAFETY: `Duplicate` keeps the memory, and does not touch it before it is finished.
        let request = unsafe { self.broadcast(&mut counter[..], 0).start_raw(Turn::NonBlocking) }?;
        Ok((request, Duplicate { counter }))
    }
}

impl Duplicate {
    /// The communicator, once the request is complete.
    pub fn finish(self, parent: &Communicator) -> Communicator {
        let leader = parent.group().ranks()[0];
        Communicator::made(parent, Context::new(leader, self.counter[0]), parent.group().clone())
    }
}

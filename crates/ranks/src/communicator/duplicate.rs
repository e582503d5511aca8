//! Duplicating without waiting (`MPI_Comm_idup`).

#![expect(unsafe_code, reason = "what is under way uses memory that the duplicate keeps")]

use crate::communicator::{Communicator, InterCommunicator};
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

/// An inter-communicator that is being made; it has to live until its requests are complete.
#[derive(Debug)]
#[must_use = "a duplicate that is not finished is no communicator"]
pub struct InterDuplicate {
    /// Counters of the local group's first rank, for both groups' context and for the local one.
    mine: Box<[u32; 2]>,
    /// What this rank says to the other group, and each of its ranks to this one: counters for both groups' context.
    said: Box<[u32; 1]>,
    theirs: Box<[u32]>,
}

impl InterCommunicator {
    /// Begins what [`InterCommunicator::dup`] does, as two requests. Collective.
    pub fn idup(&self) -> Result<([RequestId; 2], InterDuplicate)> {
        let process = self.local().process();
        let mine = Box::new([process.next_context(), process.next_context()]);
        let said = Box::new([mine[0]]);
        let theirs = vec![0; self.remote_size() as usize].into_boxed_slice();
        let mut made = InterDuplicate { mine, said, theirs };
        let own = self.local().broadcast(&mut made.mine[..], 0);
        let other = self.allgather(&made.said[..], &mut made.theirs);
        // SAFETY: `InterDuplicate` keeps the memory, and does not touch it before it is finished. Both have buffers of the
        // right length, so neither is refused with the other under way.
        let requests =
            unsafe { [own.start_raw(Turn::NonBlocking)?, other.start_raw(Turn::NonBlocking)?] };
        Ok((requests, made))
    }
}

impl InterDuplicate {
    /// The inter-communicator, once both requests are complete.
    pub fn finish(self, parent: &InterCommunicator) -> InterCommunicator {
        parent.duplicated(*self.mine, self.theirs[0])
    }
}

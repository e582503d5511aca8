//! The messages of partitioned communication (MPI 5.0, chapter 4), which no other receive or probe sees.

use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::header::{Destination, Mode, RequestId, Source, Tag, TagSelector};

/// Tags of programs are below this, if they use these calls.
pub const TAG_BOUND: Tag = 1 << 30;

/// Tags in the context of collective operations: those are above 0, and what makes groups is above this.
fn hidden(tag: Tag) -> Tag {
    -1 - TAG_BOUND - tag
}

impl Communicator {
    /// Begins to send such a message from memory that the caller answers for ([`Communicator::start_send`]).
    pub fn start_partitioned_send(
        &self,
        buffer: SendBuffer,
        to: Destination,
        tag: Tag,
    ) -> Result<RequestId> {
        let arguments = self.send_arguments(Mode::Standard, to, tag)?;
        Ok(self.process().with(|state| match arguments {
            Some(mut arguments) => {
                arguments.context = arguments.context.collective();
                arguments.tag = hidden(tag);
                state.engine.send(arguments, buffer)
            }
            None => RequestId::DONE,
        }))
    }

    /// Begins to receive one likewise.
    pub fn start_partitioned_receive(
        &self,
        buffer: ReceiveBuffer,
        from: Source,
        tag: Tag,
    ) -> Result<RequestId> {
        let pattern = self.pattern(from, TagSelector::Tag(tag))?;
        Ok(self.process().with(|state| match pattern {
            Some(mut pattern) => {
                pattern.context = pattern.context.collective();
                pattern.tag = Some(hidden(tag));
                state.engine.receive(pattern, buffer)
            }
            None => RequestId::DONE,
        }))
    }
}

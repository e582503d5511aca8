//! What a matched probe takes.

use std::sync::Arc;

use bytemuck::Pod;

use crate::buffer::ReceiveBuffer;
use crate::communicator::point_to_point::target;
use crate::engine::Status;
use crate::error::Result;
use crate::group::Group;
use crate::header::RequestId;
use crate::matching::MessageId;
use crate::process::Process;

/// A message that only its holder can receive (MPI 4.1, 3.8.2).
#[derive(Debug)]
#[must_use = "a message that is not received stays in memory"]
pub struct Message {
    pub(crate) process: Arc<Process>,
    /// `None` from `PROC_NULL`.
    pub(crate) id: Option<MessageId>,
    pub(crate) group: Group,
}

impl Message {
    /// Receives it (`MPI_Mrecv`).
    pub fn recv<T: Pod>(self, data: &mut [T]) -> Result<Status> {
        let (process, group) = (self.process.clone(), self.group.clone());
        let request = self.start_receive(target(data));
        process.wait(request).map(|status| status.within(&group))
    }

    /// Begins to receive it (`MPI_Imrecv`).
    pub fn start_receive(self, buffer: ReceiveBuffer) -> RequestId {
        self.process.with(|state| match self.id {
            Some(id) => state.engine.receive_message(id, buffer),
            None => RequestId::DONE,
        })
    }
}

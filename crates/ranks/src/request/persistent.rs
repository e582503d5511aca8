//! Operations that are started again and again (MPI 4.1, 3.9 and 6.13).

use std::sync::Arc;

use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::collective::schedule::{Running, Schedule};
use crate::communicator::Communicator;
use crate::engine::{SendArguments, Status};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::header::{Context, Destination, Mode, RequestId, Source, Tag, TagSelector};
use crate::matching::Pattern;
use crate::process::Process;

/// A collective operation as it is begun each time. Its tag is its own, because ranks may start several in any order.
#[derive(Debug)]
pub(crate) struct CollectiveTemplate {
    pub(crate) schedule: Schedule,
    pub(crate) context: Context,
    pub(crate) tag: Tag,
    pub(crate) group: Group,
}

/// What is begun; `None` with nobody.
#[derive(Debug)]
enum Template {
    Send(Option<SendArguments>, SendBuffer),
    Receive(Option<Pattern>, ReceiveBuffer),
    Collective(CollectiveTemplate),
}

/// An operation that is inactive, or under way. Dropped, it is given up: its memory is not used from then on.
#[derive(Debug)]
pub struct Persistent {
    process: Arc<Process>,
    template: Template,
    /// Whose ranks its status has.
    group: Group,
    active: Option<RequestId>,
}

impl Communicator {
    /// A send of any mode, to be started again and again (`MPI_Send_init` and its like). The buffer is used while it is active.
    pub fn persistent_send(
        &self,
        mode: Mode,
        buffer: SendBuffer,
        to: impl Into<Destination>,
        tag: Tag,
    ) -> Result<Persistent> {
        let arguments = self.send_arguments(mode, to.into(), tag)?;
        let template = Template::Send(arguments, buffer);
        Ok(Persistent::new(self.process().clone(), template, self.group().clone()))
    }

    /// A receive likewise (`MPI_Recv_init`).
    pub fn persistent_receive(
        &self,
        buffer: ReceiveBuffer,
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<Persistent> {
        let template = Template::Receive(self.pattern(from.into(), tag.into())?, buffer);
        Ok(Persistent::new(self.process().clone(), template, self.group().clone()))
    }
}

impl Persistent {
    fn new(process: Arc<Process>, template: Template, group: Group) -> Self {
        Self { process, template, group, active: None }
    }

    pub(crate) fn of_collective(process: Arc<Process>, template: CollectiveTemplate) -> Self {
        let group = template.group.clone();
        Self::new(process, Template::Collective(template), group)
    }

    /// Begins it (`MPI_Start`).
    pub fn start(&mut self) -> Result<()> {
        if self.active.is_some() {
            let problem = "it is active: wait for it before it is started again".to_owned();
            return Err(Error::Argument { argument: "request", problem });
        }
        self.active = Some(self.process.with(|state| match &self.template {
            Template::Send(Some(arguments), buffer) => state.engine.send(*arguments, *buffer),
            Template::Receive(Some(pattern), buffer) => {
                state.engine.receive(*pattern, buffer.again())
            }
            Template::Send(None, _) | Template::Receive(None, _) => RequestId::DONE,
            Template::Collective(template) => {
                let &CollectiveTemplate { ref schedule, context, tag, ref group } = template;
                let request = state.engine.new_compound();
                let (schedule, group) = (schedule.again(), group.clone());
                state.run(Running::new(request, schedule, context.collective(), tag, group));
                request
            }
        }));
        Ok(())
    }

    /// Its request, while it is active: for [`Process::wait_any`] and its like. Whoever takes the outcome by it says so
    /// with [`Persistent::deactivate`].
    pub fn request(&self) -> Option<RequestId> {
        self.active
    }

    /// Its request, whose outcome the caller takes; it is inactive from now on.
    pub fn deactivate(&mut self) -> Option<RequestId> {
        self.active.take()
    }

    /// Until it is complete (`MPI_Wait`). At once, and empty, if it is inactive.
    pub fn wait(&mut self) -> Result<Status> {
        let Some(request) = self.active.take() else { return Ok(Status::EMPTY) };
        self.process.wait(request).map(|status| status.within(&self.group))
    }

    /// Its outcome, if it is complete (`MPI_Test`).
    pub fn test(&mut self) -> Option<Result<Status>> {
        let Some(request) = self.active else { return Some(Ok(Status::EMPTY)) };
        let outcome = self.process.test(request)?;
        self.active = None;
        Some(outcome.map(|status| status.within(&self.group)))
    }

    /// Cancels a receive that has no message yet (`MPI_Cancel`).
    pub fn cancel(&self) {
        if let Some(request) = self.active {
            self.process.cancel(request);
        }
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        if let Some(request) = self.active {
            self.process.release(request);
        }
    }
}

//! Point-to-point communication (MPI 4.1, chapter 3).

#![expect(unsafe_code, reason = "a request holds the caller's buffer without its lifetime")]

use bytemuck::Pod;

use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::communicator::{Communicator, Message};
use crate::engine::{Envelope, SendArguments, Status};
use crate::error::{Error, Result};
use crate::header::{Destination, Mode, RequestId, Source, Tag, TagSelector};
use crate::matching::Pattern;
use crate::process::WaitFor;
use crate::request::{Request, Scope};

/// Memory of a call that waits, or of a request whose scope does.
fn source<T: Pod>(data: &[T]) -> SendBuffer {
    let bytes: &[u8] = bytemuck::cast_slice(data);
    // SAFETY: every caller in this room waits, or borrows it for its scope.
    unsafe { SendBuffer::from_raw(bytes.as_ptr(), bytes.len()) }
}

/// The same to be written.
pub(super) fn target<T: Pod>(data: &mut [T]) -> ReceiveBuffer {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(data);
    // SAFETY: every caller in this room waits, or borrows it for its scope.
    unsafe { ReceiveBuffer::from_raw(bytes.as_mut_ptr(), bytes.len()) }
}

impl Communicator {
    /// Sends; returns when `data` may be used again (`MPI_Send`).
    pub fn send<T: Pod>(&self, data: &[T], to: impl Into<Destination>, tag: Tag) -> Result<()> {
        self.send_as(Mode::Standard, data, to.into(), tag)
    }

    /// Sends; returns when the receive is matched (`MPI_Ssend`).
    pub fn ssend<T: Pod>(&self, data: &[T], to: impl Into<Destination>, tag: Tag) -> Result<()> {
        self.send_as(Mode::Synchronous, data, to.into(), tag)
    }

    /// Sends a copy; returns at once (`MPI_Bsend`). The memory is `buffer_size` of the settings.
    pub fn bsend<T: Pod>(&self, data: &[T], to: impl Into<Destination>, tag: Tag) -> Result<()> {
        self.send_as(Mode::Buffered, data, to.into(), tag)
    }

    /// Sends to a receive that is posted already (`MPI_Rsend`).
    pub fn rsend<T: Pod>(&self, data: &[T], to: impl Into<Destination>, tag: Tag) -> Result<()> {
        self.send_as(Mode::Ready, data, to.into(), tag)
    }

    fn send_as<T: Pod>(&self, mode: Mode, data: &[T], to: Destination, tag: Tag) -> Result<()> {
        let request = self.start_send(mode, source(data), to, tag)?;
        self.process().wait(request).map(|_| ())
    }

    /// Receives (`MPI_Recv`).
    pub fn recv<T: Pod>(
        &self,
        data: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<Status> {
        let request = self.start_receive(target(data), from.into(), tag.into())?;
        self.process().wait(request).map(|status| status.within(self.group()))
    }

    /// Sends and receives (`MPI_Sendrecv`).
    pub fn sendrecv<T: Pod, U: Pod>(
        &self,
        sent: &[T],
        to: impl Into<Destination>,
        send_tag: Tag,
        received: &mut [U],
        from: impl Into<Source>,
        receive_tag: impl Into<TagSelector>,
    ) -> Result<Status> {
        let (to, from, receive_tag) = (to.into(), from.into(), receive_tag.into());
        self.scope(|scope| {
            let mut receive = self.irecv(scope, received, from, receive_tag)?;
            let mut send = self.isend(scope, sent, to, send_tag)?;
            // A failed receive is no reason to leave the send behind.
            let status = receive.wait();
            send.wait()?;
            status
        })
    }

    /// Begins a send (`MPI_Isend`).
    pub fn isend<'scope, T: Pod>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        data: &'scope [T],
        to: impl Into<Destination>,
        tag: Tag,
    ) -> Result<Request<'scope>> {
        self.isend_as(scope, Mode::Standard, data, to, tag)
    }

    /// Begins a send of any mode (`MPI_Issend`, `MPI_Ibsend`, `MPI_Irsend`).
    pub fn isend_as<'scope, T: Pod>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        mode: Mode,
        data: &'scope [T],
        to: impl Into<Destination>,
        tag: Tag,
    ) -> Result<Request<'scope>> {
        let request = self.start_send(mode, source(data), to.into(), tag)?;
        Ok(scope.request(request, self.group().clone()))
    }

    /// Begins a receive (`MPI_Irecv`).
    pub fn irecv<'scope, T: Pod>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        data: &'scope mut [T],
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<Request<'scope>> {
        let request = self.start_receive(target(data), from.into(), tag.into())?;
        Ok(scope.request(request, self.group().clone()))
    }

    /// Until a message is there: what a receive would get (`MPI_Probe`).
    pub fn probe(&self, from: impl Into<Source>, tag: impl Into<TagSelector>) -> Result<Status> {
        let Some(pattern) = self.pattern(from.into(), tag.into())? else {
            return Ok(Status::EMPTY);
        };
        let found = self.process().wait_until(WaitFor::Message(pattern), |state| {
            state.engine.probe(pattern).transpose()
        })?;
        Ok(found.status().within(self.group()))
    }

    /// What a receive would get now (`MPI_Iprobe`).
    pub fn iprobe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<Option<Status>> {
        let Some(pattern) = self.pattern(from.into(), tag.into())? else {
            return Ok(Some(Status::EMPTY));
        };
        self.process().progress();
        let found = self.process().with(|state| state.engine.probe(pattern))?;
        Ok(found.map(|envelope| envelope.status().within(self.group())))
    }

    /// Until a message is there: takes it, for its holder only to receive (`MPI_Mprobe`).
    pub fn mprobe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<(Message, Status)> {
        let Some(pattern) = self.pattern(from.into(), tag.into())? else {
            return Ok(self.message(None));
        };
        let found = self.process().wait_until(WaitFor::Message(pattern), |state| {
            state.engine.matched_probe(pattern).transpose()
        })?;
        Ok(self.message(Some(found)))
    }

    /// The same, if one is there now (`MPI_Improbe`).
    pub fn improbe(
        &self,
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<Option<(Message, Status)>> {
        let Some(pattern) = self.pattern(from.into(), tag.into())? else {
            return Ok(Some(self.message(None)));
        };
        self.process().progress();
        let found = self.process().with(|state| state.engine.matched_probe(pattern))?;
        Ok(found.map(|found| self.message(Some(found))))
    }

    fn message(&self, found: Option<(crate::matching::MessageId, Envelope)>) -> (Message, Status) {
        let status =
            found.map_or(Status::EMPTY, |(_, envelope)| envelope.status().within(self.group()));
        let (process, group) = (self.process().clone(), self.group().clone());
        (Message { process, id: found.map(|(id, _)| id), group }, status)
    }

    /// Begins a send from memory that the caller answers for; the MPI ABI's way in. It is waited for with [`Communicator::finish`].
    pub fn start_send(
        &self,
        mode: Mode,
        buffer: SendBuffer,
        to: Destination,
        tag: Tag,
    ) -> Result<RequestId> {
        let arguments = self.send_arguments(mode, to, tag)?;
        Ok(match arguments {
            Some(arguments) => self.process().send(arguments, buffer),
            None => RequestId::DONE,
        })
    }

    /// Begins a receive likewise.
    pub fn start_receive(
        &self,
        buffer: ReceiveBuffer,
        from: Source,
        tag: TagSelector,
    ) -> Result<RequestId> {
        let pattern = self.pattern(from, tag)?;
        Ok(match pattern {
            Some(pattern) => self.process().with(|state| state.engine.receive(pattern, buffer)),
            None => RequestId::DONE,
        })
    }

    /// Waits for a request that was begun so.
    pub fn finish(&self, request: RequestId) -> Result<Status> {
        self.process().wait(request).map(|status| status.within(self.group()))
    }

    /// `None` to nobody.
    pub(crate) fn send_arguments(
        &self,
        mode: Mode,
        to: Destination,
        tag: Tag,
    ) -> Result<Option<SendArguments>> {
        if tag < 0 {
            return Err(Error::InvalidTag { tag });
        }
        let Destination::Rank(to) = to else { return Ok(None) };
        let to = self.group().member(to)?;
        Ok(Some(SendArguments { to, context: self.context(), tag, mode }))
    }

    /// `None` from nobody.
    pub(crate) fn pattern(&self, from: Source, tag: TagSelector) -> Result<Option<Pattern>> {
        let tag = match tag {
            TagSelector::Tag(tag) if tag < 0 => return Err(Error::InvalidTag { tag }),
            TagSelector::Tag(tag) => Some(tag),
            TagSelector::Any => None,
        };
        let source = match from {
            Source::Rank(from) => Some(self.group().member(from)?),
            Source::Any => None,
            Source::Null => return Ok(None),
        };
        Ok(Some(Pattern { context: self.context(), source, tag }))
    }
}

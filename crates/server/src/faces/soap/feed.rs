//! The rest of a message whose call is being answered already: a function reads its file while it arrives.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::Fault;
use fishplate_data::stream::Writer;
use fishplate_wire::{UnpackedMessage, Unpacker};
use hyper::body::Body;
use tokio::task::JoinHandle;

use super::backlog::{BacklogWriter, backlog};
use crate::http::body::{Incoming, ReadError};
use crate::spool::{SpoolDirectory, Spooler, spool_fault};

/// What is left of a request's body.
pub enum Rest<B> {
    /// Nobody reads it.
    Body(Incoming<B>),
    /// A function does, on a task of its own: whoever sends it need not read the answer meanwhile.
    Fed(JoinHandle<Incoming<B>>),
    /// It is on its way from one to the other.
    Moved,
}

impl<B> Rest<B> {
    /// Somebody still reads it.
    pub fn is_fed(&self) -> bool {
        matches!(self, Self::Fed(feeding) if !feeding.is_finished())
    }

    /// The body, when nobody reads it any more.
    pub async fn body(self) -> Option<Incoming<B>> {
        match self {
            Self::Body(body) => Some(body),
            Self::Fed(feeding) => feeding.await.ok(),
            Self::Moved => None,
        }
    }
}

/// A message that is read on.
pub(super) struct ReadAheadBody<B> {
    pub(super) body: Incoming<B>,
    pub(super) unpacker: Unpacker,
    pub(super) sink: Spooler,
    pub(super) writer: Writer,
}

impl<B> ReadAheadBody<B>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Display,
{
    /// Gives the file to its reader as it comes. It has ended when the message has, and `check` finds nothing
    /// wrong with that; gives the body back when it has, or nobody reads any more.
    pub(super) fn feed(
        self,
        spool: &Arc<SpoolDirectory>,
        check: impl FnOnce(UnpackedMessage) -> Result<(), Fault> + Send + 'static,
    ) -> Rest<B> {
        let Self { mut body, mut unpacker, mut sink, writer } = self;
        // Its memory is the arguments' by now.
        unpacker.spool_from_here();
        let (mut backlog, passing) = backlog(spool);
        Rest::Fed(tokio::spawn(async move {
            let reading = async {
                let read = read(&mut body, &mut unpacker, &mut sink, &mut backlog).await;
                backlog.finish(read.and_then(check));
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                _ = passing.run(writer) => {}
                () = reading => {}
            }
            body
        }))
    }
}

async fn read<B>(
    body: &mut Incoming<B>,
    unpacker: &mut Unpacker,
    sink: &mut Spooler,
    backlog: &mut BacklogWriter,
) -> Result<UnpackedMessage, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    backlog.push(unpacker.take_streamed()).await?;
    while let Some(chunk) = body.next().await.map_err(ReadError::into_fault)? {
        unpacker.feed(chunk, sink)?;
        backlog.push(unpacker.take_streamed()).await?;
        sink.pace().await.map_err(|error| spool_fault(&error))?;
    }
    let unpacked = unpacker.finish(sink)?;
    backlog.push(unpacker.take_streamed()).await?;
    sink.finish().await.map_err(|error| spool_fault(&error))?;
    Ok(unpacked)
}

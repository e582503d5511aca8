//! The rest of a message whose call is being answered already: a function reads its file while it arrives.

use std::fmt::Display;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use fishplate_contract::Fault;
use fishplate_data::stream::{Closed, Writer};
use fishplate_wire::{Parcel, Unpacker};
use hyper::body::Body;

use crate::http::body::{Incoming, ReadError};
use crate::spool::{Spooler, spool_fault};

/// What is left of a request's body.
pub enum Rest<B> {
    /// Nobody reads it.
    Body(Incoming<B>),
    /// A function does.
    Fed(Feeding<B>),
    /// It is on its way from one to the other.
    Moved,
}

type Feeding<B> = Pin<Box<dyn Future<Output = Incoming<B>> + Send>>;

impl<B> Rest<B> {
    /// Does some work while the body is read on.
    pub(super) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            self.poll(context);
            work.as_mut().poll(context)
        })
        .await
    }

    /// Reads on, if somebody reads it.
    pub fn poll(&mut self, context: &mut Context<'_>) {
        if let Self::Fed(feeding) = self
            && let Poll::Ready(body) = feeding.as_mut().poll(context)
        {
            *self = Self::Body(body);
        }
    }

    /// Somebody still reads it.
    pub fn is_fed(&self) -> bool {
        matches!(self, Self::Fed(_))
    }

    /// The body, when nobody reads it any more.
    pub async fn body(self) -> Option<Incoming<B>> {
        match self {
            Self::Body(body) => Some(body),
            Self::Fed(feeding) => Some(feeding.await),
            Self::Moved => None,
        }
    }
}

/// A message that is read on.
pub(super) struct Ahead<B> {
    pub(super) body: Incoming<B>,
    pub(super) unpacker: Unpacker,
    pub(super) sink: Spooler,
    pub(super) writer: Writer,
}

impl<B> Ahead<B>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Display,
{
    /// Gives the file to its reader as it comes. It has ended when the message has, and `check` finds nothing
    /// wrong with that; gives the body back when it has, or nobody reads any more.
    pub(super) fn feed(
        mut self,
        check: impl FnOnce(Parcel) -> Result<(), Fault> + Send + 'static,
    ) -> Rest<B> {
        Rest::Fed(Box::pin(async move {
            let fed = match self.read().await {
                Ok(parcel) => check(parcel),
                Err(Stopped::Closed) => return self.body,
                Err(Stopped::Fault(fault)) => Err(*fault),
            };
            self.writer.finished(fed).await;
            self.body
        }))
    }

    async fn read(&mut self) -> Result<Parcel, Stopped> {
        loop {
            self.pass_on().await?;
            let chunk = tokio::select! {
                biased;
                () = self.writer.closed() => return Err(Stopped::Closed),
                chunk = self.body.next() => chunk.map_err(ReadError::into_fault)?,
            };
            let Some(chunk) = chunk else { break };
            self.unpacker.feed(chunk, &mut self.sink)?;
            self.sink.pace().await.map_err(|error| spool_fault(&error))?;
        }
        let parcel = self.unpacker.finish(&mut self.sink)?;
        self.pass_on().await?;
        self.sink.finish().await.map_err(|error| spool_fault(&error))?;
        Ok(parcel)
    }

    async fn pass_on(&mut self) -> Result<(), Stopped> {
        for chunk in self.unpacker.take_streamed() {
            self.writer.send(chunk).await?;
        }
        Ok(())
    }
}

/// Why a message was not read to its end.
enum Stopped {
    Closed,
    Fault(Box<Fault>),
}

impl From<Closed> for Stopped {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

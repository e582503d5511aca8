//! The data's way: bytes, parcel, envelope, call, job, outcome, envelope, parcel, bytes.

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode, Principal, Results};
use fishplate_data::stream::pipe;
use fishplate_jobs::engine::EphemeralJob;
use fishplate_wire::{
    Head, Packed, Parcel, ReplyForm, Unpacker, bind, pack_reply, read, write_fault, write_reply,
};
use hyper::body::Body;

use super::feed::{Ahead, Rest};
use crate::dispatch::perform::perform;
use crate::dispatch::request::Request;
use crate::host::{Host, Hosted};
use crate::http::body::{Incoming, ReadError};
use crate::memory::{self, Reading, Reserved, RoomError};
use crate::spool::spool_fault;
use crate::status::status;

/// An answer to be sent.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The message.
    pub packed: Packed,
    /// The fault in it, if it is one.
    pub fault: Option<Fault>,
    /// The verb that was asked for, once it was known: its place in the interface.
    pub verb: Option<usize>,
    /// The memory that the answer has.
    pub memory: Reserved,
    /// The job that nobody else can ask for, until the answer was sent.
    pub ephemeral: Option<EphemeralJob>,
}

/// Answers one SOAP request.
pub async fn handle<B>(
    host: &Arc<Host>,
    hosted: &Arc<Hosted>,
    head: &Head<'_>,
    body: Incoming<B>,
    principal: Principal,
) -> (Answer, Rest<B>)
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: std::fmt::Display,
{
    let mut form = None;
    let mut rest = Rest::Body(body);
    let (mut verb, mut memory) = (None, Reserved::default());
    let namespace = hosted.service().namespace.as_str();
    let outcome = async {
        let parcel = unpack(host, hosted, head, &mut rest, &mut form, &mut memory).await?;
        let request = read(parcel)?;
        let exposed = request.verb(namespace, &hosted.interface)?;
        verb = hosted.interface.position(&exposed.name);
        let arguments = bind(&exposed.name, &exposed.signature.inputs, request.children)?;
        // The XML is gone by now, and what was spooled is not in memory.
        memory.shrink(memory::held_by(&arguments));
        let options = request.options;
        let request = Request { service: hosted, exposed, arguments, options, principal };
        let reply = perform(host, request, &mut memory).await?;
        Ok((exposed, reply))
    };
    let outcome: Result<_, Fault> = outcome.await;
    // A body that was never begun to be read told nothing.
    let form = form.unwrap_or_else(|| ReplyForm::of_head(head));
    let (mut status, envelope, fault, ephemeral) = match outcome {
        Ok((exposed, reply)) => {
            let (Results { outputs, job }, ephemeral) = reply.into_fields();
            (200, write_reply(&form, namespace, exposed, &outputs, job), None, ephemeral)
        }
        Err(fault) => {
            memory = Reserved::default();
            let status = status(form.version, fault.code);
            (status, write_fault(&form, Some(namespace), &fault), Some(fault), None)
        }
    };
    let packed = if form.is_unwanted(fault.as_ref()) {
        (status, memory) = (202, Reserved::default());
        Packed::nothing()
    } else {
        pack_reply(&envelope, &form)
    };
    (Answer { status, packed, fault, verb, memory, ephemeral }, rest)
}

/// Bytes to a parcel: chunks are pushed as they come, and spooled at the disk's pace. A parcel with a file
/// that still arrives leaves the rest of the body to be read on.
async fn unpack<B>(
    host: &Host,
    hosted: &Arc<Hosted>,
    head: &Head<'_>,
    rest: &mut Rest<B>,
    form: &mut Option<ReplyForm>,
    memory: &mut Reserved,
) -> Result<Parcel, Fault>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: std::fmt::Display,
{
    let Rest::Body(body) = rest else {
        return Err(Fault::new(FaultCode::Internal, "the message was read before"));
    };
    let expected = Box::new(Arc::clone(&hosted.expected));
    let told = body.told();
    let limits = hosted.limits(&host.settings, told);
    let mut unpacker = Unpacker::new(head, expected, limits)?.streaming();
    let mut sink = host.spool.sink();
    let mut reading = Reading {
        unpacker: &mut unpacker,
        sink: &mut sink,
        most: memory::most(limits, told),
        patience: host.settings.body_stall,
        spools: false,
    };
    let mut to = None;
    let parcel = async {
        while let Some(chunk) = body.next().await.map_err(ReadError::into_fault)? {
            let room = host.memory.make_room(memory, &mut reading, chunk.len()).await;
            room.map_err(|error| match error {
                RoomError::Memory(fault) => fault,
                RoomError::Spool(error) => spool_fault(&error),
            })?;
            reading.unpacker.feed(chunk, reading.sink)?;
            reading.sink.pace().await.map_err(|error| spool_fault(&error))?;
            let stream = || {
                let (writer, stream) = pipe();
                to = Some(writer);
                stream
            };
            if let Some(parcel) = reading.unpacker.ahead(stream) {
                return Ok(parcel);
            }
        }
        let parcel = reading.unpacker.finish(reading.sink)?;
        reading.sink.finish().await.map_err(|error| spool_fault(&error))?;
        Ok(parcel)
    };
    let parcel = parcel.await;
    *form = Some(match &parcel {
        Ok(parcel) => parcel.reply_form.clone(),
        Err(_) => unpacker.reply_form(),
    });
    if let Some(writer) = to
        && let Rest::Body(body) = std::mem::replace(rest, Rest::Moved)
    {
        let hosted = Arc::clone(hosted);
        let check = move |parcel: Parcel| {
            let request = read(parcel)?;
            let exposed = request.verb(&hosted.service().namespace, &hosted.interface)?;
            bind(&exposed.name, &exposed.signature.inputs, request.children).map(drop)
        };
        *rest = Ahead { body, unpacker, sink, writer }.feed(&host.spool, check);
    }
    parcel
}

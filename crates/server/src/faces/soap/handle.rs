//! The data's way: bytes, message, envelope, call, job, outcome, envelope, message, bytes.

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode, Principal, Results};
use fishplate_data::stream::pipe;
use fishplate_jobs::engine::EphemeralJob;
use fishplate_wire::{
    MessageHead, PackedMessage, ReplyForm, UnpackedMessage, Unpacker, bind, pack_reply, read,
    write_fault, write_reply,
};
use hyper::body::Body;

use super::feed::{ReadAheadBody, Rest};
use super::reading::{MessageReading, RoomError, most};
use crate::dispatch::perform::perform;
use crate::dispatch::request::Request;
use crate::host::{Host, ServiceEntry};
use crate::http::body::{Incoming, ReadError};
use crate::http::sender::Sender;
use crate::memory::{self, MemoryReservation};
use crate::spool::spool_fault;
use crate::status::status;

/// An answer to be sent.
#[derive(Debug)]
pub struct SoapResponse {
    /// HTTP status.
    pub status: u16,
    /// The message.
    pub packed: PackedMessage,
    /// The fault in it, if it is one.
    pub fault: Option<Fault>,
    /// The verb that was asked for, once it was known: its place in the interface.
    pub verb: Option<usize>,
    /// The memory that the answer has.
    pub memory: MemoryReservation,
    /// The job that nobody else can ask for, until the answer was sent.
    pub ephemeral: Option<EphemeralJob>,
}

/// Answers one SOAP request.
pub async fn handle<B>(
    host: &Arc<Host>,
    entry: &Arc<ServiceEntry>,
    head: &MessageHead<'_>,
    body: Incoming<B>,
    mut sender: Sender,
) -> (SoapResponse, Rest<B>)
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: std::fmt::Display,
{
    let mut form = None;
    let mut rest = Rest::Body(body);
    let (mut verb, mut memory) = (None, MemoryReservation::default());
    let namespace = entry.service().namespace.as_str();
    let outcome: Result<_, Fault> = async {
        let incoming = (&mut rest, &mut memory);
        let (unpacked, principal) =
            unpack(host, entry, head, &mut sender, incoming, &mut form).await?;
        let request = read(unpacked)?;
        let definition = request.verb(namespace, &entry.interface)?;
        verb = entry.interface.position(&definition.name);
        let arguments = bind(&definition.name, &definition.signature.inputs, request.children)?;
        // The XML is gone by now, and what was spooled is not in memory.
        memory.shrink(memory::held_by(&arguments));
        let options = request.options;
        let request = Request { service: entry, definition, arguments, options, principal };
        let reply = perform(host, request, &mut memory).await?;
        Ok((definition, reply))
    }
    .await;
    // A body that was never begun to be read told nothing.
    let form = form.unwrap_or_else(|| ReplyForm::of_head(head));
    let (mut status, envelope, fault, ephemeral) = match outcome {
        Ok((definition, reply)) => {
            let (Results { outputs, job }, ephemeral) = reply.into_fields();
            (200, write_reply(&form, namespace, definition, &outputs, job), None, ephemeral)
        }
        Err(fault) => {
            memory = MemoryReservation::default();
            let status = status(form.version, fault.code);
            let namespace = sender.principal().map(|_| namespace);
            (status, write_fault(&form, namespace, &fault), Some(fault), None)
        }
    };
    let packed = if form.is_unwanted(fault.as_ref()) {
        (status, memory) = (202, MemoryReservation::default());
        PackedMessage::nothing()
    } else {
        pack_reply(&envelope, &form)
    };
    (SoapResponse { status, packed, fault, verb, memory, ephemeral }, rest)
}

/// Bytes to a message, and who sent it: chunks are pushed as they come, and spooled at the disk's pace. A message with a file
/// that still arrives leaves the rest of the body to be read on.
async fn unpack<B>(
    host: &Host,
    entry: &Arc<ServiceEntry>,
    head: &MessageHead<'_>,
    sender: &mut Sender,
    (rest, memory): (&mut Rest<B>, &mut MemoryReservation),
    form: &mut Option<ReplyForm>,
) -> Result<(UnpackedMessage, Principal), Fault>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: std::fmt::Display,
{
    let Rest::Body(body) = rest else {
        return Err(Fault::new(FaultCode::Internal, "the message was read before"));
    };
    let expected = Box::new(Arc::clone(&entry.expected));
    let told = body.told();
    let limits = entry.limits(&host.settings, told);
    let service = entry.service().name.as_str();
    let mut unpacker = match Unpacker::new(head, expected, limits) {
        Ok(unpacker) => unpacker.streaming(),
        Err(fault) => return Err(sender.unreadable(host, service, None, fault).await),
    };
    let mut sink = host.spool.sink();
    let mut reading = MessageReading {
        unpacker: &mut unpacker,
        sink: &mut sink,
        most: most(limits, told),
        retry_budget: host.settings.body_stall,
        spools: false,
    };
    let mut to = None;
    let unpacked = async {
        while let Some(chunk) = body.next().await.map_err(ReadError::into_fault)? {
            let room = reading.make_room(&host.memory, memory, chunk.len()).await;
            room.map_err(|error| match error {
                RoomError::Memory(fault) => fault,
                RoomError::Spool(error) => spool_fault(&error),
            })?;
            reading.unpacker.feed(chunk, reading.sink)?;
            sender.read_header(host, service, reading.unpacker).await?;
            reading.sink.pace().await.map_err(|error| spool_fault(&error))?;
            let stream = || {
                let (writer, stream) = pipe();
                to = Some(writer);
                stream
            };
            if let Some(unpacked) = reading.unpacker.ahead(stream) {
                return Ok(unpacked);
            }
        }
        let unpacked = reading.unpacker.finish(reading.sink)?;
        reading.sink.finish().await.map_err(|error| spool_fault(&error))?;
        Ok(unpacked)
    }
    .await;
    let unpacked = match unpacked {
        Err(fault) => Err(sender.unreadable(host, service, Some(&mut unpacker), fault).await),
        unpacked => unpacked,
    };
    *form = Some(match &unpacked {
        Ok(unpacked) => unpacked.reply_form.clone(),
        Err(_) => unpacker.reply_form(),
    });
    if let Some(writer) = to
        && let Rest::Body(body) = std::mem::replace(rest, Rest::Moved)
    {
        let entry = Arc::clone(entry);
        let check = move |unpacked: UnpackedMessage| {
            let request = read(unpacked)?;
            let definition = request.verb(&entry.service().namespace, &entry.interface)?;
            bind(&definition.name, &definition.signature.inputs, request.children).map(drop)
        };
        *rest = ReadAheadBody { body, unpacker, sink, writer }.feed(&host.spool, check);
    }
    Ok((unpacked?, sender.known()?))
}

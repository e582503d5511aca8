//! The data's way: bytes, parcel, envelope, call, job, outcome, envelope, parcel, bytes.

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Argument, Fault, FaultCode, JobId, Principal};
use fishplate_wire::{
    Head, Packed, Parcel, ReplyForm, Unpacker, bind, http_status, pack_reply, read, write_fault,
    write_reply,
};
use hyper::body::Body;

use super::verbs;
use crate::host::{Host, Hosted};
use crate::http::body::{Incoming, ReadError};
use crate::memory::{MessageMemory, Reserved, SMALL};

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
    /// The memory that the message has; what it holds may be in the answer too.
    pub memory: Option<Reserved>,
    /// The job that nobody can ask for again: it is released once the answer was sent.
    pub release: Option<JobId>,
}

/// What a verb gave.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) outputs: Vec<Argument>,
    /// The job behind it, for our header.
    pub(super) job: Option<JobId>,
    pub(super) release: Option<JobId>,
}

/// Answers one SOAP request.
pub async fn handle<B>(
    host: &Arc<Host>,
    hosted: &Arc<Hosted>,
    head: &Head<'_>,
    body: &mut Incoming<B>,
    principal: Principal,
) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut form = None;
    let (mut verb, mut memory) = (None, None);
    let namespace = hosted.service().namespace.as_str();
    let outcome = async {
        let parcel = unpack(host, hosted, head, body, &mut form, &mut memory).await?;
        let request = read(parcel)?;
        let exposed = request.verb(namespace, &hosted.interface)?;
        verb = hosted.interface.exposed.iter().position(|other| std::ptr::eq(other, exposed));
        let arguments = bind(&exposed.name, &exposed.signature.inputs, request.children)?;
        if !hosted.answers_in_memory() {
            // What a program is given was written to files.
            memory = None;
        }
        let call = verbs::Asked { exposed, arguments, options: request.options, principal };
        Ok((exposed, verbs::perform(host, hosted, call).await?))
    };
    let outcome = outcome.await;
    // A body that was never begun to be read told nothing.
    let form = form.unwrap_or_else(|| ReplyForm::of_head(head));
    let (status, envelope, fault, release) = match outcome {
        Ok((exposed, given)) => {
            let reply = write_reply(&form, namespace, exposed, &given.outputs, given.job);
            (200, reply, None, given.release)
        }
        Err(fault) => {
            let status = http_status(form.version, &fault);
            (status, write_fault(&form, Some(namespace), &fault), Some(fault), None)
        }
    };
    let packed = pack_reply(&envelope, &form);
    Answer { status, packed, fault, verb, memory, release }
}

/// Bytes to a parcel: chunks are pushed as they come, and spooled at the disk's pace.
async fn unpack<B>(
    host: &Host,
    hosted: &Hosted,
    head: &Head<'_>,
    body: &mut Incoming<B>,
    form: &mut Option<ReplyForm>,
    memory: &mut Option<Reserved>,
) -> Result<Parcel, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let expected = Box::new(Arc::clone(&hosted.expected));
    let told = body.told();
    let limits = hosted.limits(&host.settings, told);
    let mut unpacker = Unpacker::new(head, expected, limits)?;
    let mut sink = host.spool.sink();
    let read = async {
        let mut fed = 0;
        while let Some(chunk) = body.next().await.map_err(ReadError::into_fault)? {
            fed += chunk.len() as u64;
            // What was spooled is not in memory; as base64 it came as half as much again at most.
            let held = fed.saturating_sub(sink.taken() / 2 * 3);
            if memory.is_none() && held > SMALL {
                let need = MessageMemory::need(limits, told);
                *memory = Some(host.memory.reserve(need, host.settings.body_stall).await?);
            }
            unpacker.feed(chunk, &mut sink)?;
            sink.pace().await.map_err(|error| spool_fault(&error))?;
        }
        let parcel = unpacker.finish(&mut sink)?;
        sink.finish().await.map_err(|error| spool_fault(&error))?;
        Ok(parcel)
    };
    let parcel = read.await;
    *form = Some(match &parcel {
        Ok(parcel) => parcel.reply_form.clone(),
        Err(_) => unpacker.reply_form(),
    });
    parcel
}

fn spool_fault(error: &std::io::Error) -> Fault {
    if matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) {
        return Fault::new(
            FaultCode::StorageFull,
            "the server's disk is full; the message was not accepted",
        );
    }
    tracing::error!(%error, "a payload could not be spooled");
    Fault::new(FaultCode::Internal, "the message's data could not be stored")
}

//! The data's way: bytes, parcel, envelope, call, job, outcome, envelope, parcel, bytes.

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Argument, Fault, FaultCode, JobId, Principal};
use fishplate_wire::{
    Head, Packed, Parcel, ReplyForm, Unpacker, bind, http_status, pack, read, write_fault,
    write_reply,
};
use hyper::body::Body;
use tokio::sync::OwnedSemaphorePermit;

use super::verbs;
use crate::host::{Host, Hosted};
use crate::http::body::{Incoming, ReadError};

/// An answer to be sent.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The message.
    pub packed: Packed,
    /// The fault in it, if it is one.
    pub fault: Option<Fault>,
    /// The verb that was asked for, once it was known.
    pub verb: String,
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
    let mut form = ReplyForm::of_head(head);
    let mut verb = String::new();
    let namespace = hosted.service().namespace.as_str();
    let outcome = async {
        let parcel = unpack(host, hosted, head, body, &mut form).await?;
        let request = read(parcel)?;
        let exposed = request.verb(namespace, &hosted.interface)?;
        verb.clone_from(&exposed.name);
        let arguments = bind(&exposed.name, &exposed.signature.inputs, request.children)?;
        let call = verbs::Asked { exposed, arguments, options: request.options, principal };
        Ok((exposed, verbs::perform(host, hosted, call).await?))
    };
    let (status, envelope, fault, release) = match outcome.await {
        Ok((exposed, given)) => {
            let reply = write_reply(&form, namespace, exposed, &given.outputs, given.job);
            (200, reply, None, given.release)
        }
        Err(fault) => {
            let status = http_status(form.version, &fault);
            (status, write_fault(&form, Some(namespace), &fault), Some(fault), None)
        }
    };
    let packed = pack(&envelope, form.packaging, None);
    Answer { status, packed, fault, verb, release }
}

/// Bytes to a parcel: chunks are pushed as they come, and spooled at the disk's pace.
async fn unpack<B>(
    host: &Host,
    hosted: &Hosted,
    head: &Head<'_>,
    body: &mut Incoming<B>,
    form: &mut ReplyForm,
) -> Result<Parcel, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let expected = Box::new(Arc::clone(&hosted.expected));
    let mut unpacker = Unpacker::new(head, expected, &host.settings.wire)?;
    let mut sink = host.spool.sink();
    let read = async {
        let (mut fed, mut place) = (0, None);
        while let Some(chunk) = body.next().await.map_err(ReadError::into_fault)? {
            fed += chunk.len() as u64;
            // What was spooled is not in memory; as base64 it came as half as much again at most.
            let held = fed.saturating_sub(sink.taken() / 2 * 3);
            if place.is_none() && held > SMALL {
                place = Some(place_in_memory(host).await?);
            }
            unpacker.feed(chunk, &mut sink)?;
            sink.pace().await.map_err(|error| spool_fault(&error))?;
        }
        let parcel = unpacker.finish(&mut sink)?;
        sink.finish().await.map_err(|error| spool_fault(&error))?;
        Ok(parcel)
    };
    let parcel = read.await;
    *form = match &parcel {
        Ok(parcel) => parcel.reply_form.clone(),
        Err(_) => unpacker.reply_form(),
    };
    parcel
}

/// What a message may hold in memory without asking.
const SMALL: u64 = 256 << 10;

/// Waits for a place among the messages that take more than a little memory.
async fn place_in_memory(host: &Host) -> Result<OwnedSemaphorePermit, Fault> {
    let limit = host.settings.body_stall;
    let place = tokio::time::timeout(limit, Arc::clone(&host.places).acquire_owned()).await;
    place.ok().and_then(Result::ok).ok_or_else(|| {
        Fault::new(
            FaultCode::TimedOut,
            format!(
                "the server reads too many large messages; none ended within {} s",
                limit.as_secs()
            ),
        )
        .limit("message_memory", format!("{} bytes", host.settings.message_memory))
        .retry_after(limit)
    })
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

//! A call that is not ours byte for byte, as `fishplate-wire` reads and answers it.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fishplate_contract::{
    Argument, Blame, Fault, FaultCode, FileHandle, Payload, Value, VerbDefinition,
};
use fishplate_wire::{
    BodyStep, MessageHead, OutgoingBody, ReplyForm, SoapVersion, SpoolSink, UnpackedMessage,
    Unpacker, WireLimits, bind, pack_reply, read, write_fault, write_reply,
};

use crate::buffer::Memory;
use crate::engine::{Engine, Envelope};
use crate::header::RequestId;
use crate::transport::soap::http::{RequestHead, answer};
use crate::transport::soap::operations::{Arguments, NAMESPACE, Operations, ReceiveRequest};
use crate::transport::soap::reception::{Reception, unavailable};

/// A call whose body arrives.
pub(super) struct ClientCall {
    unpacker: Unpacker,
    /// What it holds of [`Reception::held`].
    held: usize,
}

/// What a call asks for.
pub(super) enum Request {
    Store { arguments: Arguments, operation: String },
    Receive(Arguments),
}

impl ClientCall {
    pub(super) fn new(head: &RequestHead, operations: &Operations) -> Result<Self, Fault> {
        // Payloads stay in memory, which `feed` bounds.
        let limits = WireLimits {
            message_size: None,
            inline_size: usize::MAX,
            inline_total: usize::MAX,
            ..WireLimits::default()
        };
        let expected = Box::new(Arc::clone(&operations.expected));
        Ok(Self { unpacker: Unpacker::new(&message_head(head), expected, &limits)?, held: 0 })
    }

    /// Takes a piece of the body.
    pub(super) fn feed(&mut self, piece: &[u8], reception: &mut Reception) -> Result<(), Fault> {
        if reception.held + piece.len() > reception.most_held {
            let most = reception.most_held;
            let mut fault = unavailable(format!(
                "messages of clients that arrive have more than unexpected_memory, {most} bytes"
            ));
            if self.held + piece.len() > most {
                let message =
                    format!("the message exceeds the limit unexpected_memory of {most} bytes");
                fault = Fault::new(FaultCode::MessageTooLarge, message);
            }
            return Err(fault.limit("unexpected_memory", format!("{most} bytes")));
        }
        self.held += piece.len();
        reception.held += piece.len();
        self.unpacker.feed(Bytes::copy_from_slice(piece), &mut Unspooled)
    }

    /// Its memory is somebody else's now.
    pub(super) fn release(&mut self, reception: &mut Reception) {
        reception.held -= std::mem::take(&mut self.held);
    }

    /// How to answer, as far as it is known.
    pub(super) fn reply_form(&self) -> ReplyForm {
        self.unpacker.reply_form()
    }

    /// All of the body has come.
    pub(super) fn finish(&mut self, operations: &Operations) -> Result<Request, Fault> {
        let unpacked: UnpackedMessage = self.unpacker.finish(&mut Unspooled)?;
        let request = read(unpacked)?;
        let definition = request.verb(NAMESPACE, &operations.interface)?;
        let operation = definition.name.clone();
        let inputs = &definition.signature.inputs;
        let arguments = Arguments(bind(&operation, inputs, request.children)?);
        Ok(match operation.as_str() {
            "receive" => Request::Receive(arguments),
            _ => Request::Store { arguments, operation },
        })
    }
}

/// Nothing is spooled: payloads of any size stay in memory.
pub(super) struct Unspooled;

impl SpoolSink for Unspooled {
    fn create(&mut self) -> Arc<dyn FileHandle> {
        unreachable!("limits are above every payload")
    }

    fn write(&mut self, _to: &Arc<dyn FileHandle>, _data: Bytes) {}
}

fn message_head(head: &RequestHead) -> MessageHead<'_> {
    MessageHead {
        content_type: &head.content_type,
        soap_action: head.soap_action.as_deref(),
        accept: head.accept.as_deref(),
        query: head.query.as_deref(),
    }
}

/// How to answer a request whose body was not read.
pub(super) fn form_of(head: &RequestHead) -> ReplyForm {
    ReplyForm::of_head(&message_head(head))
}

/// The answer with results.
pub(super) fn results(
    form: &ReplyForm,
    definition: &VerbDefinition,
    outputs: &[Argument],
) -> Vec<u8> {
    let packed = pack_reply(&write_reply(form, NAMESPACE, definition, outputs, None), form);
    let content_type = packed.content_type.clone();
    answer(200, &[("Content-Type", &content_type)], &bytes(packed.segments), false)
}

/// The answer with a fault.
pub(super) fn fault(form: &ReplyForm, fault: &Fault, close: bool) -> Vec<u8> {
    let packed = pack_reply(&write_fault(form, Some(NAMESPACE), fault), form);
    let status = match fault.code {
        FaultCode::Unauthenticated => 401,
        FaultCode::Unavailable => 503,
        FaultCode::UnsupportedMediaType => 415,
        code if form.version == SoapVersion::V12 && code.blame() == Blame::Sender => 400,
        _ => 500,
    };
    let content_type = packed.content_type.clone();
    let mut fields = vec![("Content-Type", &*content_type)];
    let retry = fault.retry_after.map(|wait| wait.as_secs().max(1).to_string());
    fields.extend(retry.as_deref().map(|seconds| ("Retry-After", seconds)));
    if status == 401 {
        fields.push(("WWW-Authenticate", "Bearer realm=\"domain\""));
    }
    answer(status, &fields, &bytes(packed.segments), close)
}

fn bytes(segments: Vec<fishplate_wire::Segment>) -> Vec<u8> {
    let mut body = OutgoingBody::new(segments, 64 << 10);
    let mut bytes = Vec::new();
    // All of it is in memory.
    while let Some(BodyStep::Send(piece)) = body.step() {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

/// A `receive` that waits for its message.
pub(super) struct Receiving {
    pub(super) form: ReplyForm,
    wanted: ReceiveRequest,
    until: Instant,
    /// The message that it found, while its payload comes.
    message: Option<(RequestId, Memory, Envelope)>,
}

impl Receiving {
    pub(super) fn new(form: ReplyForm, wanted: ReceiveRequest) -> Self {
        Self { form, wanted, until: Instant::now() + wanted.wait, message: None }
    }

    /// When it has to be answered.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.message.is_none().then_some(self.until)
    }

    /// Its request, once it has a message. Until it is over, or [detached](crate::transport::Transport::detach) and released, the payload
    /// may come into the memory here.
    pub(super) fn request(&self) -> Option<RequestId> {
        self.message.as_ref().map(|(request, ..)| *request)
    }

    /// Its request is not wanted any more.
    pub(super) fn release(self, engine: &mut Engine) {
        if let Some((request, _memory, _)) = self.message {
            engine.release(request);
        }
    }

    /// What it gives, once it is known. A message may have `most` bytes.
    pub(super) fn advance(
        &mut self,
        engine: &mut Engine,
        most: usize,
    ) -> Option<Result<Vec<Argument>, Fault>> {
        let failed = |error: crate::Error| Some(Err(unavailable(error.to_string())));
        if self.message.is_none() {
            match engine.probe(self.wanted.pattern) {
                Ok(None) if Instant::now() < self.until => return None,
                Ok(None) => return Some(Ok(vec![Argument::text("received", "false")])),
                Ok(Some(Envelope { length, .. })) if length > most => {
                    let message = format!(
                        "the message has {length} bytes, more than unexpected_memory, {most}"
                    );
                    let fault = Fault::new(FaultCode::MessageTooLarge, message);
                    return Some(Err(fault.limit("unexpected_memory", format!("{most} bytes"))));
                }
                Ok(Some(_)) => {}
                Err(error) => return failed(error),
            }
            match engine.matched_probe(self.wanted.pattern) {
                Ok(Some((id, envelope))) => {
                    let mut memory = Memory::Scratch(vec![0; envelope.length].into());
                    let buffer = memory.receive(0..envelope.length);
                    let request = engine.receive_message(id, buffer);
                    self.message = Some((request, memory, envelope));
                }
                Ok(None) => return None,
                Err(error) => return failed(error),
            }
        }
        let (request, memory, envelope) = self.message.as_mut()?;
        if let Err(error) = engine.take_outcome(*request)? {
            self.message = None;
            return failed(error);
        }
        let data = Bytes::copy_from_slice(memory.send(0..envelope.length).bytes());
        let outputs = vec![
            Argument::text("received", "true"),
            Argument::text("fromRank", envelope.source.to_string()),
            Argument::text("tag", envelope.tag.to_string()),
            Argument::new("data", Value::Data(Payload::Inline(data))),
        ];
        self.message = None;
        Some(Ok(outputs))
    }
}

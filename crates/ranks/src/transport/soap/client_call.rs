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
use crate::matching::Pattern;
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
    /// When it is answered without a message; `None` once it has one.
    until: Option<Instant>,
    /// The message that it found, while its payload comes; that of a client that counts is [the client's](super::clients).
    message: Option<FoundMessage>,
}

impl Receiving {
    pub(super) fn new(form: ReplyForm, wanted: ReceiveRequest) -> Self {
        let until = Some(Instant::now() + wanted.wait);
        Self { form, wanted, until, message: None }
    }

    /// When it has to be answered.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Its request, once it has a message. Until it is over, or [detached](crate::transport::Transport::detach) and released, the payload
    /// may come into the memory here.
    pub(super) fn request(&self) -> Option<RequestId> {
        self.message.as_ref().map(|message| message.request)
    }

    /// Its request is not wanted any more.
    pub(super) fn release(self, engine: &mut Engine) {
        if let Some(message) = self.message {
            engine.release(message.request);
        }
    }

    /// What it gives, once it is known.
    pub(super) fn advance(
        &mut self,
        reception: &mut Reception,
        engine: &mut Engine,
    ) -> Option<Result<Vec<Argument>, Fault>> {
        let most = reception.most_held;
        if let Some((client, number)) = &self.wanted.client {
            let (call, pattern) = ((client.as_str(), *number), self.wanted.pattern);
            return reception.clients.receive(call, pattern, &mut self.until, engine);
        }
        if self.message.is_none() {
            match FoundMessage::claim(self.wanted.pattern, engine, most, most) {
                Ok(None) if self.until.is_some_and(|until| Instant::now() < until) => return None,
                Ok(None) => return Some(Ok(nothing_received())),
                Ok(message) => self.message = message,
                Err(fault) => return Some(Err(fault)),
            }
            self.until = None;
        }
        let outcome = self.message.as_mut()?.outputs(engine)?;
        self.message = None;
        Some(outcome)
    }
}

/// A message that a `receive` has found, and the memory that its payload comes into.
#[derive(Debug)]
pub(super) struct FoundMessage {
    request: RequestId,
    memory: Memory,
    envelope: Envelope,
}

impl FoundMessage {
    /// Takes a message, if there is one, of which `free` bytes may be now and `most` ever.
    pub(super) fn claim(
        pattern: Pattern,
        engine: &mut Engine,
        free: usize,
        most: usize,
    ) -> Result<Option<Self>, Fault> {
        let failed = |error: crate::Error| unavailable(error.to_string());
        match engine.probe(pattern).map_err(failed)? {
            None => return Ok(None),
            Some(Envelope { length, .. }) if length > most => {
                let message =
                    format!("the message has {length} bytes, more than unexpected_memory, {most}");
                let fault = Fault::new(FaultCode::MessageTooLarge, message);
                return Err(fault.limit("unexpected_memory", format!("{most} bytes")));
            }
            Some(Envelope { length, .. }) if length > free => {
                let problem = format!("no room is left for the message, of {length} bytes");
                let fault = unavailable(problem);
                return Err(fault.limit("unexpected_memory", format!("{most} bytes")));
            }
            Some(_) => {}
        }
        let found = engine.matched_probe(pattern).map_err(failed)?;
        Ok(found.map(|(id, envelope)| {
            let mut memory = Memory::Scratch(vec![0; envelope.length].into());
            let request = engine.receive_message(id, memory.receive(0..envelope.length));
            Self { request, memory, envelope }
        }))
    }

    /// Its bytes.
    pub(super) fn length(&self) -> usize {
        self.envelope.length
    }

    /// What `receive` gives, once the payload is here.
    pub(super) fn outputs(&mut self, engine: &mut Engine) -> Option<Result<Vec<Argument>, Fault>> {
        if let Err(error) = engine.take_outcome(self.request)? {
            return Some(Err(unavailable(error.to_string())));
        }
        let data = self.memory.send(0..self.envelope.length);
        Some(Ok(vec![
            Argument::text("received", "true"),
            Argument::text("fromRank", self.envelope.source.to_string()),
            Argument::text("tag", self.envelope.tag.to_string()),
            Argument::new(
                "data",
                Value::Data(Payload::Inline(Bytes::copy_from_slice(data.bytes()))),
            ),
        ]))
    }
}

/// What a `receive` gives that waited in vain.
pub(super) fn nothing_received() -> Vec<Argument> {
    vec![Argument::text("received", "false")]
}

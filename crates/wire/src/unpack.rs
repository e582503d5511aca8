//! Chunks to a parcel: the packaging, the envelope and its payloads, read while they come.

mod array;
mod builder;
mod collect;
mod fragment;
mod reference;
mod value;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::lexical::shortened;
use fishplate_contract::{ByteStream, Fault, FaultCode, Interface, Parameter, Payload, Verb};

use crate::envelope::{Body, Child, Envelope, ValueContent};
use crate::headers::security::SecurityHeader;
use crate::limits::{WireLimits, exceeded};
use crate::media::{CID, MediaType, percent_decoded};
use crate::name::QName;
use crate::packaging::{DetectedPackaging, Packaging, PackagingReader, ReadEvent, reader};
use crate::spool::SpoolSink;
use crate::write::ReplyForm;
use crate::xml::Tokenizer;
use builder::{BuilderInput, EnvelopeBuilder};
use collect::{MemoryBudget, PayloadCollector};

/// What HTTP's header says of a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageHead<'a> {
    /// `Content-Type`, as sent.
    pub content_type: &'a str,
    /// `SOAPAction`, as sent, quoted or not.
    pub soap_action: Option<&'a str>,
    /// `Accept`, as sent (several fields joined by commas).
    pub accept: Option<&'a str>,
    /// The query of the address, which may ask for a form of the answer (`arrays=binary`,
    /// `binding=swa`).
    pub query: Option<&'a str>,
}

/// Tells what a wrapper element should hold, so that payloads are decoded while they are read.
pub trait ExpectedTypes {
    /// The values in the wrapper of that name; `None` if there is no such wrapper.
    fn parameters(&self, wrapper: &QName) -> Option<Arc<[Parameter]>>;
}

/// A table of wrappers: made once for a service, shared by its messages.
#[derive(Clone, Debug, Default)]
pub struct ExpectedTable {
    wrappers: HashMap<QName, Arc<[Parameter]>>,
}

impl ExpectedTable {
    /// What a server expects: each verb's name with its inputs. Only a call is answered by who may read a
    /// file while it arrives.
    pub fn requests(namespace: &str, interface: &Interface) -> Self {
        let wrappers = interface.verbs.iter().map(|definition| {
            let mut inputs = definition.signature.inputs.clone();
            inputs.iter_mut().for_each(|input| input.streamed &= definition.verb == Verb::Call);
            (QName::new(namespace, &*definition.name), inputs.into())
        });
        Self { wrappers: wrappers.collect() }
    }

    /// What a client expects of one operation: its response wrapper with its outputs.
    pub fn response(wrapper: QName, outputs: &[Parameter]) -> Self {
        Self { wrappers: HashMap::from([(wrapper, outputs.into())]) }
    }
}

impl ExpectedTypes for ExpectedTable {
    fn parameters(&self, wrapper: &QName) -> Option<Arc<[Parameter]>> {
        self.wrappers.get(wrapper).cloned()
    }
}

impl ExpectedTypes for Arc<ExpectedTable> {
    fn parameters(&self, wrapper: &QName) -> Option<Arc<[Parameter]>> {
        (**self).parameters(wrapper)
    }
}

/// A whole message: its envelope with the payloads in their places.
#[derive(Clone, Debug)]
pub struct UnpackedMessage {
    /// The envelope.
    pub envelope: Envelope,
    /// SOAPAction or the action parameter, unquoted; `None` if missing or empty.
    pub action: Option<String>,
    /// How it was packaged.
    pub packaging: Packaging,
    /// How an answer should be.
    pub reply_form: ReplyForm,
}

/// Reads one message. After an error it must not be fed again.
pub struct Unpacker {
    reader: Box<dyn PackagingReader>,
    message: Message,
    message_size: Option<u64>,
    received: u64,
    action: Option<String>,
    packaging: Packaging,
    /// As far as the head told.
    form: ReplyForm,
}

/// What the packaging's pieces make up.
struct Message {
    limits: WireLimits,
    tokenizer: Option<Tokenizer>,
    builder: EnvelopeBuilder,
    budget: MemoryBudget,
    /// Bytes of the XML outside payloads.
    outside: u64,
    /// By the URLs that name them.
    attachments: HashMap<String, Payload>,
    /// The attachment at hand, unless it has no name.
    part: Option<(Vec<String>, PayloadCollector)>,
}

impl Unpacker {
    /// Ready for the first chunk.
    ///
    /// # Errors
    /// `UnsupportedMediaType` if the content type is none of ours; [`ReplyForm::of_head`] tells how
    /// to answer that.
    pub fn new(
        head: &MessageHead<'_>,
        expect: Box<dyn ExpectedTypes + Send>,
        limits: &WireLimits,
    ) -> Result<Self, Fault> {
        let media = MediaType::parse(head.content_type);
        let DetectedPackaging { reader, packaging, action } = reader(&media, limits)?;
        let action = head.soap_action.or(action.as_deref()).unwrap_or_default();
        let action = action.trim().trim_matches('"');
        Ok(Self {
            reader,
            message: Message {
                limits: limits.clone(),
                tokenizer: None,
                builder: EnvelopeBuilder::new(expect, limits),
                budget: MemoryBudget::new(limits),
                outside: 0,
                attachments: HashMap::new(),
                part: None,
            },
            message_size: limits.message_size,
            received: 0,
            action: (!action.is_empty()).then(|| action.to_owned()),
            packaging,
            form: ReplyForm::of_media(&media, head),
        })
    }

    /// Takes the next chunk of the body, cut anywhere. Large payloads go to the sink.
    ///
    /// # Errors
    /// What is wrong with the message so far.
    pub fn feed(&mut self, chunk: Bytes, sink: &mut dyn SpoolSink) -> Result<(), Fault> {
        self.received += chunk.len() as u64;
        if let Some(most) = self.message_size.filter(|most| self.received > *most) {
            return Err(exceeded("message_size", most, "bytes"));
        }
        let message = &mut self.message;
        message.budget.begin_chunk(chunk.len());
        self.reader.feed(chunk, &mut |piece| message.take(piece, sink))
    }

    /// The body has ended.
    ///
    /// # Errors
    /// What is wrong with the message, a truncated one included.
    pub fn finish(&mut self, sink: &mut dyn SpoolSink) -> Result<UnpackedMessage, Fault> {
        let message = &mut self.message;
        self.reader.finish(&mut |piece| message.take(piece, sink))?;
        let reply_form = self.reply_form();
        let mut envelope = self.message.builder.envelope()?;
        if let Body::Wrapper { children, .. } = &mut envelope.body {
            resolve(children, &self.message.attachments)?;
        }
        let action = self.action.take();
        Ok(UnpackedMessage { envelope, action, packaging: self.packaging, reply_form })
    }

    /// Files whose parameters are [`Parameter::streamed`] may be given while they arrive: after each feed
    /// [`Unpacker::ahead`] and [`Unpacker::take_streamed`] have to be asked. (Never those of a call with an
    /// idempotency key: it may become a job, whose inputs are whole.)
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.message.builder.stream();
        self
    }

    /// Payloads that stay in memory become one block each ([`Payload::Inline`]) while they come, so that an array can
    /// be used where it is: for whoever would join the pieces at the end. Whoever passes them on needs less memory with
    /// pieces, each of which is freed when it was sent. No alignment is promised: what came at once is a slice of its
    /// chunk.
    #[must_use]
    pub fn contiguous(mut self) -> Self {
        self.message.budget.make_contiguous();
        self
    }

    /// The message, once, as soon as all of it is here but a file that may be given while it arrives, for
    /// which `stream` then stands. That is an attachment behind the root and all others, or base64 where
    /// no value may follow; other files come with the whole message. What is wrong behind it, `feed` and
    /// `finish` will tell, and so will the parcel of `finish` (in which the file is empty) if it is bound again.
    pub fn ahead(&mut self, stream: impl FnOnce() -> ByteStream) -> Option<UnpackedMessage> {
        let message = &mut self.message;
        let part = message.part.as_ref().filter(|(_, collector)| collector.is_streamed());
        if message.budget.is_given() || part.is_none() && !message.builder.streams_text() {
            return None;
        }
        let payload = Payload::Stream(stream());
        let mut envelope = message.builder.envelope_ahead(&payload)?;
        if let (Body::Wrapper { children, .. }, Some((names, _))) = (&mut envelope.body, part) {
            let mut attachments = message.attachments.clone();
            attachments.extend(names.iter().map(|name| (name.clone(), payload.clone())));
            resolve(children, &attachments).ok()?;
        }
        message.budget.give();
        let reply_form = self.reply_form();
        Some(UnpackedMessage {
            envelope,
            action: self.action.clone(),
            packaging: self.packaging,
            reply_form,
        })
    }

    /// What came of the file that was given [ahead](Unpacker::ahead) since this was asked last.
    pub fn take_streamed(&mut self) -> Vec<Bytes> {
        self.message.budget.take_streamed()
    }

    /// Bytes of the body that it was fed.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether all header blocks are here: the Body has begun.
    pub fn has_headers(&self) -> bool {
        self.message.builder.has_headers()
    }

    /// Takes what WS-Security says out of the header blocks, so that nothing else sees it. What is not taken is not
    /// understood.
    ///
    /// # Errors
    /// `Unauthenticated` if it is wrong, `MustUnderstand` if it holds what is not understood.
    pub fn take_security(&mut self) -> Result<Option<SecurityHeader>, Fault> {
        self.message.builder.take_security()
    }

    /// Bytes that it holds in memory: payloads that were not given to the sink, and the XML around
    /// payloads.
    pub fn held(&self) -> u64 {
        (self.message.budget.used() as u64).saturating_add(self.message.outside)
    }

    /// Holds no more payloads in memory than it does already: one to which more comes goes to the
    /// sink.
    pub fn spool_from_here(&mut self) {
        self.message.budget.close();
    }

    /// How to answer, as far as it is known by now: for faults of `feed` and `finish`.
    pub fn reply_form(&self) -> ReplyForm {
        let mut form = self.form.clone();
        self.message.builder.inform(&mut form);
        form
    }

    /// The wrapper element, once it was read.
    pub fn wrapper(&self) -> Option<&QName> {
        self.message.builder.wrapper()
    }
}

impl Message {
    fn take(&mut self, piece: ReadEvent, sink: &mut dyn SpoolSink) -> Result<(), Fault> {
        match piece {
            ReadEvent::RootStart { charset } => {
                self.tokenizer = Some(Tokenizer::new(charset, &self.limits));
                Ok(())
            }
            ReadEvent::Root(chunk) => self.root(Some(&chunk), sink),
            ReadEvent::RootEnd => self.root(None, sink),
            ReadEvent::PartStart { names } => {
                let awaited =
                    self.builder.streamed_part(|url| find(url, &self.attachments).is_some());
                let here = |url| names.iter().any(|name| name == url || *name == decoded(url));
                let collector = match awaited.is_some_and(here) && !self.budget.is_given() {
                    true => PayloadCollector::streamed(),
                    false => PayloadCollector::default(),
                };
                self.part = (!names.is_empty()).then_some((names, collector));
                Ok(())
            }
            ReadEvent::Part(chunk) => {
                if let Some((_, collector)) = &mut self.part {
                    collector.push(chunk, &mut self.budget, sink);
                }
                Ok(())
            }
            ReadEvent::PartEnd => self.end_part(sink),
        }
    }

    /// Reads a chunk of the root part, or its end.
    fn root(&mut self, chunk: Option<&Bytes>, sink: &mut dyn SpoolSink) -> Result<(), Fault> {
        let Some(tokenizer) = &mut self.tokenizer else { return Ok(()) };
        let mut feeding =
            BuilderInput { builder: &mut self.builder, budget: &mut self.budget, sink };
        match chunk {
            Some(chunk) => tokenizer.feed(chunk, &mut feeding)?,
            None => tokenizer.finish(&mut feeding)?,
        }
        if self.builder.spools() {
            self.budget.narrow();
        }
        let outside = tokenizer.position().saturating_sub(self.builder.payload_bytes());
        self.outside = outside;
        let most = self.limits.envelope_size;
        if outside > most { Err(exceeded("envelope_size", most, "bytes")) } else { Ok(()) }
    }

    fn end_part(&mut self, sink: &mut dyn SpoolSink) -> Result<(), Fault> {
        let Some((names, collector)) = self.part.take() else { return Ok(()) };
        let payload = collector.finish(&mut self.budget, sink);
        for name in names {
            match self.attachments.entry(name) {
                Entry::Vacant(entry) => entry.insert(payload.clone()),
                Entry::Occupied(entry) => {
                    let message = format!("two parts have the name {}", shortened(entry.key()));
                    return Err(Fault::new(FaultCode::MalformedMessage, message));
                }
            };
        }
        Ok(())
    }
}

/// Puts attachments where references stand for them; one may stand in several places.
fn resolve(children: &mut [Child], attachments: &HashMap<String, Payload>) -> Result<(), Fault> {
    for child in children {
        let content = match &mut child.content {
            ValueContent::Fields(fields) => {
                resolve(fields, attachments)?;
                continue;
            }
            ValueContent::Array(numbers) => &mut *numbers.data,
            content => content,
        };
        if let ValueContent::Part(url) = content {
            let found = find(url, attachments);
            let found = found.ok_or_else(|| unresolved(&child.name.local, url))?;
            *content = ValueContent::Data(found.clone());
        }
    }
    Ok(())
}

/// The part of that name. A `cid:` URL may be percent-encoded (RFC 2392).
fn find<'a>(url: &str, attachments: &'a HashMap<String, Payload>) -> Option<&'a Payload> {
    attachments.get(url).or_else(|| attachments.get(&decoded(url)))
}

fn decoded(url: &str) -> String {
    match url.strip_prefix(CID) {
        Some(id) => format!("{CID}{}", percent_decoded(id)),
        None => url.to_owned(),
    }
}

/// Only parts of the message stand for values: to fetch what a stranger names would make us call
/// addresses for them (CVE-2022-46364, CVE-2024-28752).
fn unresolved(parameter: &str, url: &str) -> Fault {
    let told = shortened(url);
    let (code, message) = if url.starts_with(CID) {
        let message =
            format!("parameter {parameter} refers to {told:?}, but no part has that name");
        (FaultCode::MalformedMessage, message)
    } else {
        let message = format!(
            "parameter {parameter} refers to {told:?}, which is no part of this message; nothing else \
             may be referred to"
        );
        (FaultCode::ForbiddenContent, message)
    };
    Fault::new(code, message).parameter(parameter)
}

#[cfg(test)]
pub(crate) mod tests;

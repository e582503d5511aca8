//! Whole messages: what stacks send, what they should not, and anything cut anywhere.

mod arrays;
mod hostile;
mod random;
mod recorded;
mod references;
mod stacks;

use std::path::Path;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use fishplate_contract::{
    Argument, DataType, FileHandle, Interface, Operation, Service, Signature, Value,
};

use super::*;
use crate::bind::bind;
use crate::envelope::SoapVersion;
use crate::outgoing::{BodyStep, OutgoingBody};
use crate::pack::PackedMessage;
use crate::read::{SoapRequest, read};

pub(crate) const NS: &str = "urn:test";

/// A file that is in memory after all.
#[derive(Debug, Default)]
struct Spooled(Mutex<Vec<u8>>);

impl FileHandle for Spooled {
    fn path(&self) -> &Path {
        Path::new("")
    }

    fn len(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn keep(&self) {}
}

/// A sink that writes at once, and what it was given.
#[derive(Default)]
pub(crate) struct Sink {
    files: Vec<(Arc<dyn FileHandle>, Arc<Spooled>)>,
    pub(crate) writes: Vec<usize>,
}

impl SpoolSink for Sink {
    fn create(&mut self) -> Arc<dyn FileHandle> {
        let file = Arc::new(Spooled::default());
        let held: Arc<dyn FileHandle> = file.clone();
        self.files.push((held.clone(), file));
        held
    }

    fn write(&mut self, to: &Arc<dyn FileHandle>, data: Bytes) {
        assert!(!data.is_empty());
        self.writes.push(data.len());
        self.file(to).0.lock().unwrap().extend_from_slice(&data);
    }
}

impl Sink {
    fn file(&self, held: &Arc<dyn FileHandle>) -> &Spooled {
        let found = self.files.iter().find(|(has, _)| Arc::ptr_eq(has, held));
        &found.expect("a file of this sink").1
    }

    pub(crate) fn bytes(&self, payload: &Payload) -> Vec<u8> {
        match payload {
            Payload::Inline(bytes) => bytes.to_vec(),
            Payload::Pieces(pieces) => pieces.concat(),
            Payload::Spooled(held) => self.file(held).0.lock().unwrap().clone(),
            Payload::Reference(reference) => panic!("a reference to {}", reference.url),
            Payload::Stream(_) => panic!("a parcel that is whole has no stream"),
        }
    }

    pub(crate) fn body(&self, packed: &PackedMessage) -> Vec<u8> {
        self.try_body(packed).unwrap()
    }

    pub(crate) fn try_body(&self, packed: &PackedMessage) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        let mut outgoing = OutgoingBody::new(packed.segments.iter().cloned(), 7_000);
        while let Some(step) = outgoing.step() {
            match step {
                BodyStep::Send(bytes) => body.extend_from_slice(&bytes),
                BodyStep::Wait => {
                    match outgoing.poll_stream(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(chunk) => body.extend_from_slice(&chunk?),
                        Poll::Pending => {}
                    }
                }
                BodyStep::Read { held, at, len } => {
                    let at = usize::try_from(at).unwrap();
                    let bytes = self.file(&held).0.lock().unwrap()[at..at + len].to_vec();
                    body.extend_from_slice(&outgoing.took(bytes));
                }
            }
        }
        assert!(packed.len.is_none_or(|len| len == body.len() as u64), "it is as long as it says");
        Ok(body)
    }
}

pub(crate) fn interface() -> Interface {
    let inputs = vec![
        Parameter::new("data", DataType::Raw),
        Parameter::new("model", DataType::Xml).optional(),
        Parameter::new("x", DataType::Int).default("1"),
        Parameter::new("title", DataType::String).optional(),
        Parameter::new("more", DataType::Raw).repeated(),
    ];
    Interface::of(&Service {
        name: "t".to_owned(),
        namespace: NS.to_owned(),
        title: "T".to_owned(),
        documentation: String::new(),
        operations: vec![Operation {
            name: "call".to_owned(),
            documentation: String::new(),
            signature: Signature { inputs, outputs: Vec::new() },
        }],
    })
}

/// A message as it arrives.
pub(super) struct Message<'a> {
    pub(super) content_type: &'a str,
    pub(super) soap_action: Option<&'a str>,
    pub(super) body: Vec<u8>,
}

impl<'a> Message<'a> {
    pub(super) fn plain(body: impl Into<Vec<u8>>) -> Message<'static> {
        Message { content_type: "text/xml; charset=utf-8", soap_action: None, body: body.into() }
    }

    /// What a message becomes, cut into chunks of these sizes again and again.
    pub(super) fn unpack(
        &self,
        sizes: &[usize],
        limits: &WireLimits,
    ) -> (Result<UnpackedMessage, Fault>, Sink) {
        let head = MessageHead {
            content_type: self.content_type,
            soap_action: self.soap_action,
            ..MessageHead::default()
        };
        let expected = ExpectedTable::requests(NS, &interface());
        let mut sink = Sink::default();
        let go = || {
            let mut unpacker = Unpacker::new(&head, Box::new(expected), limits)?;
            let mut rest = Bytes::copy_from_slice(&self.body);
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                unpacker.feed(rest.split_to((*size).min(rest.len())), &mut sink)?;
            }
            unpacker.finish(&mut sink)
        };
        (go(), sink)
    }

    pub(super) fn request(&self, sizes: &[usize]) -> (Result<SoapRequest, Fault>, Sink) {
        let (unpacked, sink) = self.unpack(sizes, &WireLimits::default());
        (unpacked.and_then(read), sink)
    }

    /// The arguments, as text with the sink's bytes in their places.
    pub(super) fn arguments(&self, sizes: &[usize]) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let (request, sink) = self.request(sizes);
        let request = request?;
        let interface = interface();
        let definition = request.verb(NS, &interface)?;
        let bound = bind(&definition.name, &definition.signature.inputs, request.children)?;
        let shown = |argument: Argument| {
            let label = argument.label.map(|label| format!("[{label}]")).unwrap_or_default();
            let value = match argument.value {
                Value::Text(text) => text.into_bytes(),
                Value::Data(Payload::Reference(reference)) => {
                    format!("-> {}", reference.url).into_bytes()
                }
                Value::Data(payload) => sink.bytes(&payload),
                other => panic!("no {other:?} here"),
            };
            (argument.name + &label, value)
        };
        Ok(bound.into_iter().map(shown).collect())
    }

    /// The same, whole and in chunks of one byte, which must agree.
    pub(super) fn both(&self) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let whole = self.arguments(&[usize::MAX]);
        assert_eq!(self.arguments(&[1]).ok(), whole.as_ref().ok().cloned());
        whole
    }
}

/// An envelope around the children of `call`.
pub(crate) fn envelope(version: SoapVersion, header: &str, children: &str) -> String {
    let soap = version.namespace();
    format!(
        "<e:Envelope xmlns:e=\"{soap}\" xmlns:s=\"{NS}\"><e:Header>{header}</e:Header><e:Body>\
         <s:call>{children}</s:call></e:Body></e:Envelope>"
    )
}

/// A call whose envelope has these headers.
pub(crate) fn call_with(version: SoapVersion, header: &str) -> UnpackedMessage {
    let body = envelope(version, header, "<data/>").into();
    let message = Message { content_type: version.media_type(), soap_action: None, body };
    message.unpack(&[7], &WireLimits::default()).0.unwrap()
}

pub(super) fn call(children: &str) -> Message<'static> {
    Message::plain(envelope(SoapVersion::V11, "", children))
}

pub(super) fn pair(name: &str, value: &[u8]) -> (String, Vec<u8>) {
    (name.to_owned(), value.to_vec())
}

#[test]
fn large_payloads_are_spooled_and_small_ones_are_not() {
    let limits = WireLimits { inline_size: 10, inline_total: 15, ..WireLimits::default() };
    // Base64 of 10, 11 and 9 zero bytes; the last finds only five bytes of room left.
    let children = "<data>AAAAAAAAAAAAAA==</data><model>AAAAAAAAAAAAAAA=</model>\
                    <more name='a'>AAAAAAAAAAAA</more>";
    for sizes in [[1], [1000]] {
        let (unpacked, sink) = call(children).unpack(&sizes, &limits);
        let Body::Wrapper { children, .. } = unpacked.unwrap().envelope.body else { panic!() };
        let spooled: Vec<bool> = children
            .iter()
            .map(|child| matches!(child.content, ValueContent::Data(Payload::Spooled(_))))
            .collect();
        assert_eq!(spooled, [false, true, true]);
        let lengths: Vec<usize> = children
            .iter()
            .map(|child| {
                let ValueContent::Data(payload) = &child.content else { panic!() };
                sink.bytes(payload).len()
            })
            .collect();
        assert_eq!(lengths, [10, 11, 9]);
    }
}

#[test]
fn small_chunks_are_joined_before_they_are_written() {
    let content = "A".repeat(400_000);
    let message = call(&format!("<data>{content}</data>"));
    let (unpacked, sink) = message.unpack(&[10], &WireLimits::default());
    assert!(unpacked.is_ok());
    assert!(sink.writes.len() < 12, "{:?}", sink.writes);
    assert_eq!(sink.writes.iter().sum::<usize>(), 300_000);
}

#[test]
fn payloads_do_not_count_against_the_envelope() {
    let limits = WireLimits { envelope_size: 1000, ..WireLimits::default() };
    let large = "A".repeat(4000);
    let inline = format!(
        "<data>{large}</data><model><x:XMLData xmlns:x='{}'><m>{large}</m></x:XMLData></model>",
        crate::name::XDESCR
    );
    assert!(call(&inline).unpack(&[100], &limits).0.is_ok());
    let wordy = format!("<data/><title>{large}</title>");
    let fault = call(&wordy).unpack(&[100], &limits).0.unwrap_err();
    assert_eq!(fault.limit.unwrap().name, "envelope_size");
    let limits = WireLimits { message_size: Some(4000), ..WireLimits::default() };
    let fault = call(&inline).unpack(&[100], &limits).0.unwrap_err();
    assert_eq!(fault.limit.unwrap().name, "message_size");
    let limits = WireLimits { text_size: 3999, ..WireLimits::default() };
    let fault = call(&wordy).unpack(&[100], &limits).0.unwrap_err();
    assert_eq!(fault.limit.unwrap().name, "text_size");
}

#[test]
fn a_reply_form_is_known_as_soon_as_it_can_be() {
    let header = "<a:MessageID xmlns:a='http://www.w3.org/2005/08/addressing'>id</a:MessageID>";
    let text = envelope(SoapVersion::V12, header, "<data>?</data>");
    let head = MessageHead { content_type: "text/xml", ..MessageHead::default() };
    let expected = ExpectedTable::requests(NS, &interface());
    let mut unpacker = Unpacker::new(&head, Box::new(expected), &WireLimits::default()).unwrap();
    assert_eq!(unpacker.reply_form().version, SoapVersion::V11);
    let fault = unpacker.feed(text.into(), &mut Sink::default()).unwrap_err();
    assert_eq!(fault.code, FaultCode::InvalidValue);
    let form = unpacker.reply_form();
    assert_eq!(form.version, SoapVersion::V12);
    let addressing = crate::headers::addressing::read(&form.headers);
    assert_eq!(addressing.message_id.as_deref(), Some("id"));
    assert_eq!(unpacker.wrapper(), Some(&QName::new(NS, "call")));
}

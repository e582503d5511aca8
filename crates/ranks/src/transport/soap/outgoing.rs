//! How a sender speaks over a connection: it posts messages one behind the other, and hears an answer for each.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode};
use fishplate_wire::wsdl::action;
use fishplate_wire::{ExpectedTable, MessageHead, Unpacker, WireLimits, bind_reply};

use crate::credential::{Credential, random};
use crate::engine::Frame;
use crate::error::Result;
use crate::header::{DomainId, Header, Rank};
use crate::transport::outgoing::{Acknowledged, Protocol, ReceiverStatus};
use crate::transport::soap::client_call::Unspooled;
use crate::transport::soap::http::{ACCEPTED, PIPELINED, read_answer};
use crate::transport::soap::layout::{Layout, attachment, content_type, root, write_number};
use crate::transport::soap::operations::NAMESPACE;
use crate::transport::stream::Stream;
use crate::transport::url::Url;

/// Digits of a `Content-Length`: as many in every head.
const DIGITS: usize = 20;
/// Heads whose memory is kept for the next.
const SPARE: usize = 64;

#[derive(Debug)]
pub(super) struct Sender {
    layout: Layout,
    boundary: String,
    /// The head of a `store`, with zeros for its length.
    store: Vec<u8>,
    /// That of a `bstore`.
    bstore: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl Sender {
    pub(super) fn new(
        domain: DomainId,
        to: Rank,
        url: &Url,
        credential: &Credential,
    ) -> Result<Self> {
        // No program knows it, so no payload has it.
        let boundary = format!("fishplate-{}", DomainId::from_bytes(random()?));
        let head = |operation: &str| {
            format!(
                "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\n\
                 SOAPAction: \"{}\"\r\nConnection: {PIPELINED}\r\n{PIPELINED}: 1\r\n\
                 Content-Length: {:0DIGITS$}\r\n\r\n",
                url.path,
                url.authority,
                credential.token(domain, to),
                content_type(&boundary),
                action(NAMESPACE, operation),
                0
            )
            .into_bytes()
        };
        Ok(Self {
            layout: Layout::new(domain, to, &boundary),
            store: head("store"),
            bstore: head("bstore"),
            boundary,
            spare: Vec::new(),
        })
    }

    /// What stands before the payload of a `bstore`.
    pub(super) fn broadcast_head(&mut self, header: &Header, sequences: &[u64]) -> Vec<u8> {
        let mut text = root(&self.boundary, "bstore");
        text.push_str(&format!(
            "<domain>{}</domain><fromRank>{}</fromRank><toRank>{}</toRank><context>{}</context><tag>{}</tag><sequences>",
            header.domain, header.from, header.to, header.context.0, header.tag
        ));
        for sequence in sequences {
            text.push_str(&format!("<item>{sequence}</item>"));
        }
        text.push_str("</sequences>");
        text.push_str(&attachment(&self.boundary, "bstore"));
        let length = text.len() + self.layout.tail().len();
        let mut head = self.spare.pop().unwrap_or_default();
        begin(&mut head, &self.bstore, header.payload_length() + length as u64);
        head.extend_from_slice(text.as_bytes());
        head
    }
}

/// The head of a request with a body of `length` bytes.
fn begin(head: &mut Vec<u8>, text: &[u8], length: u64) {
    head.clear();
    head.extend_from_slice(text);
    let digits = head.len() - "\r\n\r\n".len() - DIGITS;
    write_number(&mut head[digits..digits + DIGITS], length);
}

impl Protocol for Sender {
    type Head = Vec<u8>;

    const SPEAKS_FIRST: bool = true;

    fn head(&mut self, frame: &Frame) -> Vec<u8> {
        let mut head = self.spare.pop().unwrap_or_default();
        let length = self.layout.message_length(frame.header.payload_length());
        begin(&mut head, &self.store, length);
        self.layout.write(&frame.header, &mut head);
        head
    }

    fn recycle(&mut self, head: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(head);
        }
    }

    fn tail(&self) -> &[u8] {
        self.layout.tail()
    }

    fn hear(&mut self, _stream: &mut Stream, bytes: &mut Vec<u8>) -> io::Result<ReceiverStatus> {
        let (mut count, mut at) = (0, 0);
        loop {
            let rest = &bytes[at..];
            if rest.starts_with(ACCEPTED) {
                at += ACCEPTED.len();
            } else if rest.is_empty() {
                break;
            } else {
                let Some(answer) = read_answer(rest)? else { break };
                at += answer.length;
                match answer.status {
                    100..200 => continue,
                    200 | 202 => {}
                    status if came_before(answer.body) => {
                        tracing::debug!(status, "a message came twice");
                    }
                    status => {
                        let fault = fault(answer.body).map(|fault| fault.to_string());
                        let what = fault.unwrap_or_else(|| "no fault".to_owned());
                        return Err(io::Error::other(format!("it answered {status}: {what}")));
                    }
                }
            }
            count += 1;
        }
        bytes.drain(..at);
        Ok(ReceiverStatus { confirmed: count > 0, acknowledged: Acknowledged::Count(count) })
    }
}

/// The fault of a message that came before: its parameter, and how its text begins.
pub(super) fn stored_before(header: &Header) -> Fault {
    let Header { sequence, from, .. } = header;
    let message = format!("sequence: message {sequence} from rank {from} {STORED_BEFORE}");
    Fault::new(FaultCode::InvalidValue, message).parameter(SEQUENCE)
}

const SEQUENCE: &str = "sequence";
const STORED_BEFORE: &str = "was stored before: a message is stored once";

/// Whether an answer says that the message was stored before, which acknowledges it as well.
fn came_before(body: &[u8]) -> bool {
    fault(body).is_some_and(|fault| {
        fault.parameter.as_deref() == Some(SEQUENCE) && fault.message.ends_with(STORED_BEFORE)
    })
}

/// The fault that an answer tells.
fn fault(body: &[u8]) -> Option<Fault> {
    let head = MessageHead { content_type: "text/xml", ..MessageHead::default() };
    let expected = Box::new(Arc::new(ExpectedTable::default()));
    let mut unpacker = Unpacker::new(&head, expected, &WireLimits::default()).ok()?;
    unpacker.feed(Bytes::copy_from_slice(body), &mut Unspooled).ok()?;
    bind_reply(unpacker.finish(&mut Unspooled).ok()?, &[]).err()
}

//! What MTOM and SOAP with Attachments share: a root part and attachments in `multipart/related`
//! (RFC 2387). Parts may stand in any order.

use bytes::Bytes;
use fishplate_contract::{Fault, Payload};

use super::multipart::{MultipartEvent as InParts, MultipartReader, PartHeader};
use super::{Packaging, PackagingReader, ReadEvent, ReadHandler, malformed, told_charset};
use crate::encode::Encoding;
use crate::limits::WireLimits;
use crate::media::{MediaType, unbracketed};
use crate::pack::{PackedMessage, SegmentBuilder, random_id};

/// Which packaging a `multipart/related` is, told by its parameter `type`: that of the root part. One
/// that does not tell is taken for MTOM.
pub(super) fn packaging(media: &MediaType) -> Option<Packaging> {
    let Some(told) = media.parameter("type") else { return Some(Packaging::Mtom) };
    match MediaType::parse(told).essence.as_str() {
        "" | "application/xop+xml" => Some(Packaging::Mtom),
        "text/xml" | "application/soap+xml" | "application/xml" => Some(Packaging::Swa),
        _ => None,
    }
}

pub(super) struct RelatedReader {
    multipart: MultipartReader,
    parts: RootSelector,
}

/// Tells the root from attachments: it is the part that `start` names, else the first one.
struct RootSelector {
    start: Option<String>,
    rooted: bool,
    in_root: bool,
}

impl RelatedReader {
    pub(super) fn new(media: &MediaType, limits: &WireLimits) -> Result<Self, Fault> {
        let boundary = media.parameter("boundary").unwrap_or_default();
        Ok(Self {
            multipart: MultipartReader::new(boundary, limits)?,
            parts: RootSelector {
                start: media.parameter("start").map(|id| unbracketed(id).to_owned()),
                rooted: false,
                in_root: false,
            },
        })
    }
}

impl PackagingReader for RelatedReader {
    fn feed(&mut self, chunk: Bytes, found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        let parts = &mut self.parts;
        self.multipart.feed(chunk, &mut |piece| match piece {
            InParts::Head(head) => found(parts.begin(head)?),
            InParts::Data(data) if parts.in_root => found(ReadEvent::Root(data)),
            InParts::Data(data) => found(ReadEvent::Part(data)),
            InParts::End if std::mem::take(&mut parts.in_root) => found(ReadEvent::RootEnd),
            InParts::End => found(ReadEvent::PartEnd),
        })
    }

    fn finish(&mut self, _found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        self.multipart.finish()?;
        match (&self.parts.start, self.parts.rooted) {
            (Some(start), false) => {
                Err(malformed(format!("no part has the Content-ID {start} that start names")))
            }
            _ => Ok(()),
        }
    }
}

impl RootSelector {
    fn begin(&mut self, head: PartHeader) -> Result<ReadEvent, Fault> {
        let is_root = match &self.start {
            Some(start) => head.content_id.as_ref() == Some(start),
            None => !self.rooted,
        };
        if !is_root {
            let id = head.content_id.map(|id| format!("cid:{id}"));
            return Ok(ReadEvent::PartStart {
                names: id.into_iter().chain(head.location).collect(),
            });
        }
        if self.rooted {
            return Err(malformed("two parts have the Content-ID that start names"));
        }
        self.rooted = true;
        self.in_root = true;
        let charset = head.media.as_ref().map(told_charset).transpose()?.flatten();
        Ok(ReadEvent::RootStart { charset })
    }
}

/// What is attached to a message that is being written.
#[derive(Default)]
pub(super) struct Attachments {
    payloads: Vec<Payload>,
    /// What tells this message's parts from all others'.
    id: String,
}

impl Attachments {
    /// Attaches a payload; gives the URL that refers to it.
    pub(super) fn add(&mut self, payload: &Payload) -> String {
        if self.id.is_empty() {
            self.id = random_id();
        }
        self.payloads.push(payload.clone());
        self.last()
    }

    /// The URL of the payload attached last.
    pub(super) fn last(&self) -> String {
        format!("cid:{}.{}@fishplate", self.payloads.len(), self.id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }

    /// The whole message: the root, then attachments in document order. `root_type` is the media
    /// type of the root part, `told` the parameters of the whole beside `start` and `boundary`.
    pub(super) fn message(
        self,
        root: SegmentBuilder,
        root_type: &str,
        told: &str,
    ) -> PackedMessage {
        let id = &self.id;
        let mut message = SegmentBuilder::default();
        message.push(&format!(
            "--{id}\r\nContent-Type: {root_type}\r\n\
             Content-Transfer-Encoding: binary\r\nContent-ID: <root.{id}@fishplate>\r\n\r\n"
        ));
        message.append(root);
        for (at, payload) in self.payloads.iter().enumerate() {
            let number = at + 1;
            message.push(&format!(
                "\r\n--{id}\r\nContent-Type: application/octet-stream\r\n\
                 Content-Transfer-Encoding: binary\r\n\
                 Content-ID: <{number}.{id}@fishplate>\r\n\r\n"
            ));
            message.payload(payload, Encoding::Raw);
        }
        message.push(&format!("\r\n--{id}--\r\n"));
        message.packed(format!(
            "multipart/related; {told}; start=\"<root.{id}@fishplate>\"; boundary=\"{id}\""
        ))
    }
}

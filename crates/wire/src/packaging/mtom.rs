//! MTOM (W3C Recommendation 2005-01-25): XOP in `multipart/related`.

use bytes::Bytes;
use fishplate_contract::{Fault, Payload};

use super::multipart::{Found as InParts, Multipart, PartHead};
use super::{
    Found, Packaging, Piece, Reader, Writer, malformed, told_charset, unsupported, writer,
};
use crate::encode::Encoding;
use crate::envelope::SoapVersion;
use crate::limits::WireLimits;
use crate::media::{MediaType, unbracketed};
use crate::name::XOP;
use crate::pack::{Composer, Packed};

/// The action that a content type tells: in a parameter of its own or in that of `start-info`.
pub(super) fn action(media: &MediaType) -> Option<String> {
    let own = media.parameter("action").map(str::to_owned);
    own.or_else(|| {
        let info = MediaType::parse(media.parameter("start-info")?);
        info.parameter("action").map(str::to_owned)
    })
}

/// A reader for `multipart/related`.
pub(super) fn reader(media: &MediaType, limits: &WireLimits) -> Result<MtomReader, Fault> {
    if let Some(kind) = media.parameter("type").map(str::to_ascii_lowercase)
        && !kind.starts_with("application/xop+xml")
    {
        return Err(unsupported(format!(
            "cannot read multipart/related of type {kind}: use MTOM, type=\"application/xop+xml\""
        )));
    }
    let boundary = media.parameter("boundary").unwrap_or_default();
    Ok(MtomReader {
        multipart: Multipart::new(boundary, limits)?,
        parts: Parts {
            start: media.parameter("start").map(|id| unbracketed(id).to_owned()),
            rooted: false,
            in_root: false,
        },
    })
}

pub(super) struct MtomReader {
    multipart: Multipart,
    parts: Parts,
}

/// Tells the root from attachments: it is the part that `start` names, else the first one.
struct Parts {
    start: Option<String>,
    rooted: bool,
    in_root: bool,
}

impl Reader for MtomReader {
    fn feed(&mut self, chunk: Bytes, found: &mut Found<'_>) -> Result<(), Fault> {
        let parts = &mut self.parts;
        self.multipart.feed(chunk, &mut |piece| match piece {
            InParts::Head(head) => found(parts.begin(head)?),
            InParts::Data(data) if parts.in_root => found(Piece::Root(data)),
            InParts::Data(data) => found(Piece::Part(data)),
            InParts::End if std::mem::take(&mut parts.in_root) => found(Piece::RootEnd),
            InParts::End => found(Piece::PartEnd),
        })
    }

    fn finish(&mut self, _found: &mut Found<'_>) -> Result<(), Fault> {
        self.multipart.finish()?;
        match (&self.parts.start, self.parts.rooted) {
            (Some(start), false) => {
                Err(malformed(format!("no part has the Content-ID {start} that start names")))
            }
            _ => Ok(()),
        }
    }
}

impl Parts {
    fn begin(&mut self, head: PartHead) -> Result<Piece, Fault> {
        let is_root = match &self.start {
            Some(start) => head.content_id.as_ref() == Some(start),
            None => !self.rooted,
        };
        if !is_root {
            return Ok(Piece::PartStart { content_id: head.content_id });
        }
        if self.rooted {
            return Err(malformed("two parts have the Content-ID that start names"));
        }
        self.rooted = true;
        self.in_root = true;
        let charset = head.media.as_ref().map(told_charset).transpose()?.flatten();
        Ok(Piece::RootStart { charset })
    }
}

/// Writes the root first, then attachments in document order (section 3.2). A message without
/// attachments is written plain: everybody reads that.
#[derive(Default)]
pub(super) struct MtomWriter {
    attachments: Vec<Payload>,
    id: Option<String>,
}

impl MtomWriter {
    /// What tells this message's parts from all others'.
    fn id(&mut self) -> &str {
        self.id.get_or_insert_with(crate::pack::random_id)
    }
}

impl Writer for MtomWriter {
    fn value(&mut self, payload: &Payload, root: &mut Composer) {
        self.attachments.push(payload.clone());
        let number = self.attachments.len();
        let id = self.id();
        let include =
            format!("<xop:Include xmlns:xop=\"{XOP}\" href=\"cid:{number}.{id}@fishplate\"/>");
        root.text().extend_from_slice(include.as_bytes());
    }

    fn finish(
        mut self: Box<Self>,
        root: Composer,
        version: SoapVersion,
        action: Option<&str>,
    ) -> Packed {
        if self.attachments.is_empty() {
            return writer(Packaging::Plain).finish(root, version, action);
        }
        let id = self.id().to_owned();
        let info = version.media_type();
        let mut message = Composer::default();
        message.push(&format!(
            "--{id}\r\nContent-Type: application/xop+xml; charset=utf-8; type=\"{info}\"\r\n\
             Content-Transfer-Encoding: binary\r\nContent-ID: <root.{id}@fishplate>\r\n\r\n"
        ));
        message.append(root);
        for (at, payload) in self.attachments.iter().enumerate() {
            let number = at + 1;
            message.push(&format!(
                "\r\n--{id}\r\nContent-Type: application/octet-stream\r\n\
                 Content-Transfer-Encoding: binary\r\n\
                 Content-ID: <{number}.{id}@fishplate>\r\n\r\n"
            ));
            message.payload(payload, Encoding::Raw);
        }
        message.push(&format!("\r\n--{id}--\r\n"));
        let action = match (version, action) {
            (SoapVersion::V12, Some(action)) => format!("; action=\"{action}\""),
            _ => String::new(),
        };
        message.packed(format!(
            "multipart/related; type=\"application/xop+xml\"; start=\"<root.{id}@fishplate>\"; \
             start-info=\"{info}\"; boundary=\"{id}\"{action}"
        ))
    }
}

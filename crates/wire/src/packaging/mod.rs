//! How a root part and its attachments travel together: one trait a direction, one module a
//! packaging. A new packaging is a module here and a line in [`reader`] and [`writer`].

mod mtom;
mod multipart;
mod plain;

use bytes::Bytes;
use encoding_rs::Encoding;
use fishplate_contract::{Fault, FaultCode, Payload};

use crate::envelope::SoapVersion;
use crate::limits::WireLimits;
use crate::media::MediaType;
use crate::pack::{Composer, Packed};

/// A packaging that we speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Packaging {
    /// The envelope alone; binary values are base64.
    #[default]
    Plain,
    /// MTOM: XOP in `multipart/related` (W3C Recommendation 2005-01-25).
    Mtom,
}

/// What a reader finds, in the order of the bytes.
#[derive(Debug)]
pub(crate) enum Piece {
    /// The root part begins.
    RootStart { charset: Option<&'static Encoding> },
    /// Bytes of the root part.
    Root(Bytes),
    /// The root part has ended.
    RootEnd,
    /// An attachment begins.
    PartStart { content_id: Option<String> },
    /// Bytes of the attachment.
    Part(Bytes),
    /// The attachment has ended.
    PartEnd,
}

/// Takes what a reader finds.
pub(crate) type Found<'a> = dyn FnMut(Piece) -> Result<(), Fault> + 'a;

/// Takes a message apart.
pub(crate) trait Reader: Send {
    /// Takes the next chunk, cut anywhere.
    fn feed(&mut self, chunk: Bytes, found: &mut Found<'_>) -> Result<(), Fault>;

    /// The message has ended.
    fn finish(&mut self, found: &mut Found<'_>) -> Result<(), Fault>;
}

/// Puts a message together. The root is written first: it tells of each binary value as it comes.
pub(crate) trait Writer {
    /// Writes what stands for a binary value in the root.
    fn value(&mut self, payload: &Payload, root: &mut Composer);

    /// The message, now that the root is written.
    fn finish(
        self: Box<Self>,
        root: Composer,
        version: SoapVersion,
        action: Option<&str>,
    ) -> Packed;
}

/// What a content type tells.
pub(crate) struct Opened {
    pub(crate) reader: Box<dyn Reader>,
    pub(crate) packaging: Packaging,
    /// SOAP 1.2 tells the action here.
    pub(crate) action: Option<String>,
}

/// A reader for a content type.
pub(crate) fn reader(content_type: &str, limits: &WireLimits) -> Result<Opened, Fault> {
    let media = MediaType::parse(content_type);
    match media.essence.as_str() {
        "text/xml" | "application/soap+xml" | "application/xml" => {
            let action = media.parameter("action").map(str::to_owned);
            let reader = Box::new(plain::PlainReader::new(&media)?);
            Ok(Opened { reader, packaging: Packaging::Plain, action })
        }
        "multipart/related" => {
            let action = mtom::action(&media);
            let reader = Box::new(mtom::reader(&media, limits)?);
            Ok(Opened { reader, packaging: Packaging::Mtom, action })
        }
        other => {
            let what = if other.is_empty() { "no content type".to_owned() } else { other.into() };
            Err(unsupported(format!(
                "cannot read {what}: send text/xml (SOAP 1.1), application/soap+xml (SOAP 1.2) or \
                 multipart/related with type=\"application/xop+xml\" (MTOM)"
            )))
        }
    }
}

/// A writer for a packaging.
pub(crate) fn writer(packaging: Packaging) -> Box<dyn Writer> {
    match packaging {
        Packaging::Plain => Box::new(plain::PlainWriter),
        Packaging::Mtom => Box::new(mtom::MtomWriter::default()),
    }
}

fn unsupported(message: impl Into<String>) -> Fault {
    Fault::new(FaultCode::UnsupportedMediaType, message)
}

fn malformed(message: impl Into<String>) -> Fault {
    Fault::new(FaultCode::MalformedMessage, message)
}

/// The encoding that a media type's `charset` tells.
fn told_charset(media: &MediaType) -> Result<Option<&'static Encoding>, Fault> {
    media
        .parameter("charset")
        .filter(|label| !label.is_empty())
        .map(crate::xml::charset)
        .transpose()
}

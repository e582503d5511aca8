//! How a root part and its attachments travel together: one trait a direction, one module a
//! packaging. A new packaging is a module here, a variant, and a line in each `match` of this file.

mod accept;
mod dime;
mod mtom;
pub(crate) mod multipart;
mod plain;
mod related;
mod swa;

use bytes::Bytes;
use encoding_rs::Encoding;
use fishplate_contract::{Fault, FaultCode, Payload};

pub(crate) use accept::of_answer;
pub use dime::{FirstRecord, RecordEncoder};

use crate::envelope::{ArrayForm, SoapVersion};
use crate::limits::WireLimits;
use crate::media::MediaType;
use crate::pack::{PackedMessage, SegmentBuilder};
use crate::write::ReplyForm;

/// A packaging that we speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Packaging {
    /// The envelope alone; binary values are base64.
    #[default]
    Plain,
    /// MTOM: XOP in `multipart/related` (W3C Recommendation 2005-01-25).
    Mtom,
    /// SOAP with Attachments: `multipart/related` (W3C Note 2000-12-11, WS-I Attachments Profile
    /// 1.0).
    Swa,
    /// DIME: records of a binary header each (draft-nielsen-dime-02, draft-nielsen-dime-soap-01).
    Dime,
}

impl Packaging {
    /// All there are.
    pub const ALL: &[Self] = &[Self::Plain, Self::Mtom, Self::Swa, Self::Dime];

    /// The name by which users know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Mtom => "mtom",
            Self::Swa => "swa",
            Self::Dime => "dime",
        }
    }

    /// The packaging of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|packaging| packaging.name() == name)
    }

    /// The value of `Accept` with which a client asks for it, in either SOAP version. Plain answers
    /// are always welcome: faults, and results without files.
    pub fn accept(self) -> &'static str {
        match self {
            Self::Plain => "text/xml, application/soap+xml",
            Self::Mtom => "multipart/related, application/xop+xml, text/xml, application/soap+xml",
            Self::Swa => {
                "multipart/related; type=\"text/xml\", \
                 multipart/related; type=\"application/soap+xml\", \
                 text/xml, application/soap+xml"
            }
            Self::Dime => "application/dime, text/xml, application/soap+xml",
        }
    }

    /// The packaging of messages of that content type, if they can be SOAP at all.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        Self::of_media(&MediaType::parse(content_type))
    }

    pub(crate) fn of_media(media: &MediaType) -> Option<Self> {
        match media.essence.as_str() {
            "text/xml" | "application/soap+xml" | "application/xml" => Some(Self::Plain),
            "multipart/related" => related::packaging(media),
            "application/xop+xml" => Some(Self::Mtom),
            "application/dime" => Some(Self::Dime),
            _ => None,
        }
    }
}

/// What a reader finds, in the order of the bytes.
#[derive(Debug)]
pub(crate) enum ReadEvent {
    /// The root part begins.
    RootStart { charset: Option<&'static Encoding> },
    /// Bytes of the root part.
    Root(Bytes),
    /// The root part has ended.
    RootEnd,
    /// An attachment begins.
    ///
    /// Its names are URLs: `cid:` and its Content-ID, its Content-Location, its DIME ID. What has no
    /// name can't be referred to.
    PartStart { names: Vec<String> },
    /// Bytes of the attachment.
    Part(Bytes),
    /// The attachment has ended.
    PartEnd,
}

/// Takes what a reader finds.
pub(crate) type ReadHandler<'a> = dyn FnMut(ReadEvent) -> Result<(), Fault> + 'a;

/// Takes a message apart.
pub(crate) trait PackagingReader: Send {
    /// Takes the next chunk, cut anywhere.
    fn feed(&mut self, chunk: Bytes, found: &mut ReadHandler<'_>) -> Result<(), Fault>;

    /// The message has ended.
    fn finish(&mut self, found: &mut ReadHandler<'_>) -> Result<(), Fault>;
}

/// Puts a message together. The root is written first: it tells of each binary value as it comes.
pub(crate) trait PackagingWriter {
    /// Writes attributes of a binary value's element, if its packaging refers to parts by them.
    fn attributes(&mut self, _payload: &Payload, _root: &mut SegmentBuilder) {}

    /// How arrays are written where they were asked for in this form.
    fn arrays(&self, asked: ArrayForm) -> ArrayForm {
        asked
    }

    /// Writes what stands for a binary value in its element.
    fn value(&mut self, payload: &Payload, root: &mut SegmentBuilder);

    /// The message, now that the root is written.
    fn finish(
        self: Box<Self>,
        root: SegmentBuilder,
        version: SoapVersion,
        action: Option<&str>,
    ) -> PackedMessage;
}

/// What a content type tells.
pub(crate) struct DetectedPackaging {
    pub(crate) reader: Box<dyn PackagingReader>,
    pub(crate) packaging: Packaging,
    /// SOAP 1.2 tells the action here.
    pub(crate) action: Option<String>,
}

/// A reader for a content type.
pub(crate) fn reader(media: &MediaType, limits: &WireLimits) -> Result<DetectedPackaging, Fault> {
    let packaging = Packaging::of_media(media).filter(|_| media.essence != "application/xop+xml");
    let Some(packaging) = packaging else { return Err(unreadable(media)) };
    let reader: Box<dyn PackagingReader> = match packaging {
        Packaging::Plain => Box::new(plain::PlainReader::new(media)?),
        Packaging::Mtom | Packaging::Swa => Box::new(related::RelatedReader::new(media, limits)?),
        Packaging::Dime => Box::new(dime::DimeReader::new(limits)),
    };
    Ok(DetectedPackaging { reader, packaging, action: action(media) })
}

/// The action that a content type tells: in a parameter of its own or in that of `start-info`.
fn action(media: &MediaType) -> Option<String> {
    let own = media.parameter("action").map(str::to_owned);
    own.or_else(|| {
        let info = MediaType::parse(media.parameter("start-info")?);
        info.parameter("action").map(str::to_owned)
    })
}

/// The parameter in which a SOAP 1.2 request tells its action.
fn action_parameter(version: SoapVersion, action: Option<&str>) -> String {
    match (version, action) {
        (SoapVersion::V12, Some(action)) => format!("; action=\"{action}\""),
        _ => String::new(),
    }
}

fn unreadable(media: &MediaType) -> Fault {
    let what = match (media.essence.as_str(), media.parameter("type")) {
        ("", _) => "a message without a content type".to_owned(),
        ("multipart/related", Some(root)) => format!("multipart/related of type {root:?}"),
        (other, _) => other.to_owned(),
    };
    unsupported(format!(
        "cannot read {what}: send text/xml (SOAP 1.1) or application/soap+xml (SOAP 1.2), \
         multipart/related with type=\"application/xop+xml\" (MTOM) or one of these two (SOAP with \
         Attachments), or application/dime"
    ))
}

/// A writer for answers of a form.
pub(crate) fn reply_writer(form: &ReplyForm) -> Box<dyn PackagingWriter> {
    match form.packaging {
        Packaging::Swa if form.swa_ref => Box::new(swa::SwaWriter::of_swa_ref()),
        other => writer(other),
    }
}

/// A writer for a packaging.
pub(crate) fn writer(packaging: Packaging) -> Box<dyn PackagingWriter> {
    match packaging {
        Packaging::Plain => Box::new(plain::PlainWriter),
        Packaging::Mtom => Box::new(mtom::MtomWriter::default()),
        Packaging::Swa => Box::new(swa::SwaWriter::default()),
        Packaging::Dime => Box::new(dime::DimeWriter::default()),
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

/// What a reader finds in a message of that content type, as text.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_reader(content_type: &str, message: &[u8], size: usize) -> Option<String> {
    let mut reader = reader(&MediaType::parse(content_type), &WireLimits::default()).ok()?.reader;
    let mut told = Vec::new();
    let mut found = |piece: ReadEvent| {
        match piece {
            ReadEvent::Root(data) | ReadEvent::Part(data) => told.extend_from_slice(&data),
            other => told.extend_from_slice(format!("{other:?}").as_bytes()),
        }
        Ok(())
    };
    for chunk in message.chunks(size) {
        reader.feed(Bytes::copy_from_slice(chunk), &mut found).ok()?;
    }
    reader.finish(&mut found).ok()?;
    Some(String::from_utf8_lossy(&told).into_owned())
}

/// The parts of a message with the boundary `b`, as text.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz_multipart(message: &[u8], size: usize) -> Option<String> {
    let mut multipart = multipart::MultipartReader::new("b", &WireLimits::default()).ok()?;
    let mut parts = Vec::new();
    for chunk in message.chunks(size) {
        let fed = multipart.feed(Bytes::copy_from_slice(chunk), &mut |found| {
            match found {
                multipart::MultipartEvent::Data(data) => parts.extend_from_slice(&data),
                other => parts.extend_from_slice(format!("{other:?}").as_bytes()),
            }
            Ok(())
        });
        fed.ok()?;
    }
    multipart.finish().ok()?;
    Some(String::from_utf8_lossy(&parts).into_owned())
}

#[cfg(test)]
mod conformance;

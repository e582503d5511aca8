//! The envelope alone.

use bytes::Bytes;
use encoding_rs::Encoding;
use fishplate_contract::{Fault, Payload};

use super::{
    PackagingReader, PackagingWriter, ReadEvent, ReadHandler, action_parameter, told_charset,
};
use crate::encode::Encoding as SentAs;
use crate::envelope::SoapVersion;
use crate::media::MediaType;
use crate::pack::{PackedMessage, SegmentBuilder};

pub(super) struct PlainReader {
    charset: Option<&'static Encoding>,
    begun: bool,
}

impl PlainReader {
    pub(super) fn new(media: &MediaType) -> Result<Self, Fault> {
        Ok(Self { charset: told_charset(media)?, begun: false })
    }

    fn begin(&mut self, found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        found(ReadEvent::RootStart { charset: self.charset })
    }
}

impl PackagingReader for PlainReader {
    fn feed(&mut self, chunk: Bytes, found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        self.begin(found)?;
        found(ReadEvent::Root(chunk))
    }

    fn finish(&mut self, found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        self.begin(found)?;
        found(ReadEvent::RootEnd)
    }
}

pub(super) struct PlainWriter;

impl PackagingWriter for PlainWriter {
    fn value(&mut self, payload: &Payload, root: &mut SegmentBuilder) {
        root.payload(payload, SentAs::Base64);
    }

    fn finish(
        self: Box<Self>,
        root: SegmentBuilder,
        version: SoapVersion,
        action: Option<&str>,
    ) -> PackedMessage {
        match (version, action) {
            (SoapVersion::V11, _) => root.packed("text/xml; charset=utf-8"),
            (SoapVersion::V12, None) => root.packed("application/soap+xml; charset=utf-8"),
            (SoapVersion::V12, Some(_)) => {
                let action = action_parameter(version, action);
                root.packed(format!("application/soap+xml; charset=utf-8{action}"))
            }
        }
    }
}

//! The envelope alone.

use bytes::Bytes;
use encoding_rs::Encoding;
use fishplate_contract::{Fault, Payload};

use super::{Found, Piece, Reader, Writer, action_parameter, told_charset};
use crate::encode::Encoding as SentAs;
use crate::envelope::SoapVersion;
use crate::media::MediaType;
use crate::pack::{Composer, Packed};

pub(super) struct PlainReader {
    charset: Option<&'static Encoding>,
    begun: bool,
}

impl PlainReader {
    pub(super) fn new(media: &MediaType) -> Result<Self, Fault> {
        Ok(Self { charset: told_charset(media)?, begun: false })
    }

    fn begin(&mut self, found: &mut Found<'_>) -> Result<(), Fault> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        found(Piece::RootStart { charset: self.charset })
    }
}

impl Reader for PlainReader {
    fn feed(&mut self, chunk: Bytes, found: &mut Found<'_>) -> Result<(), Fault> {
        self.begin(found)?;
        found(Piece::Root(chunk))
    }

    fn finish(&mut self, found: &mut Found<'_>) -> Result<(), Fault> {
        self.begin(found)?;
        found(Piece::RootEnd)
    }
}

pub(super) struct PlainWriter;

impl Writer for PlainWriter {
    fn value(&mut self, payload: &Payload, root: &mut Composer) {
        root.payload(payload, SentAs::Base64);
    }

    fn finish(
        self: Box<Self>,
        root: Composer,
        version: SoapVersion,
        action: Option<&str>,
    ) -> Packed {
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

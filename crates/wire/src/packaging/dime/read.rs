//! Records to parts, in a stream. Data are passed on as slices of the chunks they came in.

use bytes::Bytes;
use fishplate_contract::Fault;
use fishplate_contract::lexical::shortened;

use super::{ABSOLUTE_URI, HEADER, MEDIA_TYPE, NONE, RecordHeader, UNCHANGED, VERSION, padding};
use crate::limits::{WireLimits, exceeded};
use crate::media::{CID, MediaType};
use crate::name::{SOAP_11, SOAP_12};
use crate::packaging::{
    PackagingReader, ReadEvent, ReadHandler, malformed, told_charset, unsupported,
};

pub(in crate::packaging) struct DimeReader {
    state: State,
    /// The payload at hand, from its first record to its last.
    open: Option<PayloadKind>,
    /// Payloads begun so far.
    payloads: usize,
    /// Most payloads of a message.
    parts: usize,
    /// Most bytes of a record's options, of its ID and of its type.
    header_length: usize,
}

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PayloadKind {
    Root,
    Part,
}

enum State {
    /// Within the fixed part of a record's header.
    Header { bytes: [u8; HEADER], filled: usize },
    /// Within its options, ID and type, padding included.
    Fields { header: RecordHeader, bytes: Vec<u8>, wanted: usize },
    /// Within its data; so many bytes are to come.
    Data { header: RecordHeader, left: u32 },
    /// After its data; so many bytes of padding are to come.
    Padding { header: RecordHeader, left: usize },
    /// After the last record.
    Ended,
}

const START: State = State::Header { bytes: [0; HEADER], filled: 0 };

impl DimeReader {
    pub(in crate::packaging) fn new(limits: &WireLimits) -> Self {
        Self {
            state: START,
            open: None,
            payloads: 0,
            parts: limits.parts,
            header_length: limits.header_length,
        }
    }

    /// What a record's header may be at this place (sections 3.2.1 to 3.2.9).
    fn check(&self, header: &RecordHeader) -> Result<(), Fault> {
        let RecordHeader { version, type_format, .. } = *header;
        if version != VERSION {
            return Err(malformed(format!(
                "a record is of DIME version {version}: send version {VERSION}"
            )));
        }
        let first = self.payloads == 0;
        if header.begins != first {
            let what = if first { "first record lacks" } else { "second message begins with" };
            return Err(malformed(format!("the {what} the flag MB")));
        }
        if header.ends && header.chunked {
            return Err(malformed("the last record has the flag CF: a payload lacks its end"));
        }
        match (self.open.is_some(), type_format == UNCHANGED) {
            (false, true) => {
                return Err(malformed("a record of TYPE_T 0 goes on with a payload never begun"));
            }
            (true, false) => {
                return Err(malformed(
                    "a record begins a payload within another one, whose last chunk is missing",
                ));
            }
            (true, true) if header.kind > 0 || header.id > 0 => {
                return Err(malformed("a chunk after the first has a type or an ID"));
            }
            _ => {}
        }
        if type_format == NONE && (header.kind > 0 || header.data > 0) {
            return Err(malformed("a record of TYPE_T 4 has a type or data"));
        }
        let longest = header.options.max(header.id).max(header.kind);
        if usize::from(longest) > self.header_length {
            return Err(exceeded("header_length", self.header_length as u64, "bytes"));
        }
        if self.open.is_none() && self.payloads >= self.parts {
            return Err(exceeded("parts", self.parts as u64, "in a message"));
        }
        Ok(())
    }

    /// Begins a record's data: its payload too, unless it goes on.
    fn begin(
        &mut self,
        header: &RecordHeader,
        fields: &[u8],
        found: &mut ReadHandler<'_>,
    ) -> Result<(), Fault> {
        if self.open.is_some() {
            return Ok(());
        }
        let id = padded(header.options);
        let kind = id + padded(header.id);
        let id = &fields[id..id + usize::from(header.id)];
        let kind = &fields[kind..kind + usize::from(header.kind)];
        self.payloads += 1;
        if self.payloads == 1 {
            self.open = Some(PayloadKind::Root);
            return found(ReadEvent::RootStart {
                charset: root_charset(header.type_format, kind)?,
            });
        }
        self.open = Some(PayloadKind::Part);
        found(ReadEvent::PartStart { names: names(&String::from_utf8_lossy(id)) })
    }

    fn data(&self, data: Bytes, found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        match self.open {
            _ if data.is_empty() => Ok(()),
            Some(PayloadKind::Root) => found(ReadEvent::Root(data)),
            _ => found(ReadEvent::Part(data)),
        }
    }

    /// Ends a record's data: its payload too, unless it goes on.
    fn end(&mut self, header: &RecordHeader, found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        if header.chunked {
            return Ok(());
        }
        match self.open.take() {
            Some(PayloadKind::Root) => found(ReadEvent::RootEnd),
            _ => found(ReadEvent::PartEnd),
        }
    }

    /// Does what needs no further bytes.
    fn advance(&mut self, found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        loop {
            match &mut self.state {
                State::Header { bytes, filled: HEADER } => {
                    let header = RecordHeader::read(bytes);
                    self.check(&header)?;
                    let lengths = [header.options, header.id, header.kind];
                    let wanted = lengths.into_iter().map(padded).sum();
                    self.state = State::Fields { header, bytes: Vec::new(), wanted };
                }
                State::Fields { header, bytes, wanted } if bytes.len() == *wanted => {
                    let (header, bytes) = (*header, std::mem::take(bytes));
                    self.begin(&header, &bytes, found)?;
                    self.state = State::Data { header, left: header.data };
                }
                State::Data { header, left: 0 } => {
                    let header = *header;
                    self.end(&header, found)?;
                    self.state = State::Padding { header, left: padding(header.data) };
                }
                State::Padding { header, left: 0 } => {
                    self.state = if header.ends { State::Ended } else { START };
                }
                _ => return Ok(()),
            }
        }
    }
}

impl PackagingReader for DimeReader {
    fn feed(&mut self, mut chunk: Bytes, found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        while !chunk.is_empty() {
            match &mut self.state {
                State::Header { bytes, filled } => {
                    let taken = chunk.split_to(chunk.len().min(HEADER - *filled));
                    bytes[*filled..*filled + taken.len()].copy_from_slice(&taken);
                    *filled += taken.len();
                }
                State::Fields { bytes, wanted, .. } => {
                    bytes
                        .extend_from_slice(&chunk.split_to(chunk.len().min(*wanted - bytes.len())));
                }
                State::Data { left, .. } => {
                    let len = chunk.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= u32::try_from(len).unwrap_or(*left);
                    let data = chunk.split_to(len);
                    self.data(data, found)?;
                }
                State::Padding { left, .. } => {
                    let len = chunk.len().min(*left);
                    *left -= len;
                    drop(chunk.split_to(len));
                }
                State::Ended => return Err(malformed("bytes follow the last DIME record")),
            }
            self.advance(found)?;
        }
        Ok(())
    }

    fn finish(&mut self, _found: &mut ReadHandler<'_>) -> Result<(), Fault> {
        match &self.state {
            State::Ended => Ok(()),
            // Axis does not pad the last record.
            State::Padding { header, .. } if header.ends => Ok(()),
            State::Header { filled: 0, .. } if self.payloads == 0 => {
                Err(malformed("the message holds no DIME record"))
            }
            State::Header { filled: 0, .. } => {
                Err(malformed("the message ends after a record without the flag ME"))
            }
            _ => Err(malformed("the message ends within a DIME record")),
        }
    }
}

/// So many bytes with their padding.
fn padded(len: u16) -> usize {
    usize::from(len) + padding(len.into())
}

/// The encoding that the type of the envelope's record tells: only a media type may.
fn root_charset(
    type_format: u8,
    kind: &[u8],
) -> Result<Option<&'static encoding_rs::Encoding>, Fault> {
    let kind = String::from_utf8_lossy(kind);
    match type_format {
        MEDIA_TYPE => told_charset(&MediaType::parse(&kind)),
        ABSOLUTE_URI if kind == SOAP_11 || kind == SOAP_12 => Ok(None),
        ABSOLUTE_URI => Err(unsupported(format!(
            "the first DIME record is of the type {:?}: it should be the envelope, of the type \
             {SOAP_11} or {SOAP_12}",
            shortened(&kind)
        ))),
        _ => Ok(None),
    }
}

/// The URLs by which a payload is referred to: its ID, and `cid:` and its ID. gSOAP's IDs begin with
/// `cid:` themselves.
fn names(id: &str) -> Vec<String> {
    let bare = match id.get(..CID.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(CID) => &id[CID.len()..],
        _ => id,
    };
    if bare.is_empty() { Vec::new() } else { vec![bare.to_owned(), format!("{CID}{bare}")] }
}

//! `multipart/related` (RFC 2046 section 5.1, RFC 2387) and `multipart/form-data` (RFC 7578) in a stream. Bytes
//! of parts are passed on as slices of the chunks they came in; the boundary is found by `memmem`.
//!
//! The boundary holds no line ends, so the delimiter `CRLF -- boundary` can begin only at its CR:
//! what a chunk ends with is the beginning of a delimiter or it is not, and `matched` says how much
//! of one. A message whose first boundary is followed by a bare LF has such line ends throughout.

use bytes::Bytes;
use fishplate_contract::Fault;
use memchr::{memchr, memmem, memrchr};

use super::{malformed, unsupported};
use crate::base64::Base64Decoder;
use crate::limits::{WireLimits, exceeded};
use crate::media::{MediaType, unbracketed};
use crate::quoted::QuotedDecoder;

/// What is found, in the order of the bytes.
#[derive(Debug, PartialEq)]
pub(crate) enum MultipartEvent {
    Head(PartHeader),
    Data(Bytes),
    End,
}

/// The header of a part, as far as it matters.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PartHeader {
    /// Without its angle brackets.
    pub(crate) content_id: Option<String>,
    /// Content-Location, as it stands.
    pub(crate) location: Option<String>,
    pub(crate) media: Option<MediaType>,
    /// Content-Disposition: its type and parameters are written as a media type's are (RFC 6266).
    pub(crate) disposition: Option<MediaType>,
}

pub(crate) struct MultipartReader {
    /// A line end, `--` and the boundary.
    delimiter: Vec<u8>,
    /// What lines end with: LF until the first boundary's has come.
    line_end: &'static [u8],
    finder: memmem::Finder<'static>,
    state: State,
    limits: WireLimits,
    parts: usize,
    /// So many bytes of the delimiter at hand were never sent: the first one may stand at the very
    /// start of the message, and that of an empty part right after its header.
    unsent: usize,
    /// Decodes the part at hand, if its transfer encoding is not what it is.
    decoder: Option<TransferDecoder>,
}

/// What undoes a transfer encoding.
enum TransferDecoder {
    Base64(Base64Decoder),
    Quoted(QuotedDecoder),
}

enum State {
    /// In a part, or before the first one; so many bytes of a delimiter were matched at the end.
    Content {
        matched: usize,
        in_part: bool,
    },
    /// After a delimiter: what tells whether it was one.
    Delimited {
        seen: Vec<u8>,
        in_part: bool,
    },
    Header {
        fields: Vec<String>,
        line: Vec<u8>,
    },
    /// After the last part.
    Ended,
}

const LF: &[u8] = b"\n";
const CRLF: &[u8] = b"\r\n";

impl MultipartReader {
    pub(crate) fn new(boundary: &str, limits: &WireLimits) -> Result<Self, Fault> {
        if boundary.is_empty() || boundary.len() > 200 || boundary.contains(['\r', '\n']) {
            return Err(malformed("the content type tells no usable boundary"));
        }
        let delimiter = format!("\n--{boundary}").into_bytes();
        Ok(Self {
            finder: memmem::Finder::new(&delimiter).into_owned(),
            delimiter,
            line_end: LF,
            // As if a line had ended before the message.
            state: State::Content { matched: LF.len(), in_part: false },
            limits: limits.clone(),
            parts: 0,
            unsent: LF.len(),
            decoder: None,
        })
    }

    /// The first boundary's line has ended, so all others do.
    fn end_lines_with_crlf(&mut self) {
        self.line_end = CRLF;
        self.delimiter.insert(0, b'\r');
        self.finder = memmem::Finder::new(&self.delimiter).into_owned();
    }

    pub(crate) fn feed(
        &mut self,
        mut chunk: Bytes,
        found: &mut dyn FnMut(MultipartEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        while !chunk.is_empty() {
            match &mut self.state {
                State::Content { matched, in_part } => {
                    let (matched, in_part) = (*matched, *in_part);
                    self.content(&mut chunk, matched, in_part, found)?;
                }
                State::Delimited { .. } => self.delimited(&mut chunk, found)?,
                State::Header { .. } => self.header(&mut chunk, found)?,
                State::Ended => return Ok(()),
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&self) -> Result<(), Fault> {
        match self.state {
            State::Ended => Ok(()),
            _ if self.parts == 0 => Err(malformed(
                "the message ends before its first part: the boundary of the content type was not \
                 found",
            )),
            _ => Err(malformed(
                "the message ends within a part: the last boundary is missing, or is not on a line of \
                 its own; lines end with CR LF",
            )),
        }
    }

    fn content(
        &mut self,
        chunk: &mut Bytes,
        matched: usize,
        in_part: bool,
        found: &mut dyn FnMut(MultipartEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if matched > 0 {
            let wanted = &self.delimiter[matched..];
            let same = wanted.iter().zip(chunk.iter()).take_while(|(a, b)| a == b).count();
            if same == wanted.len() {
                drop(chunk.split_to(same));
                self.state = State::Delimited { seen: Vec::new(), in_part };
            } else if same == chunk.len() {
                chunk.clear();
                self.state = State::Content { matched: matched + same, in_part };
            } else {
                self.state = State::Content { matched: 0, in_part };
                let sent = std::mem::take(&mut self.unsent)..matched;
                let begun = Bytes::copy_from_slice(&self.delimiter[sent]);
                self.data(begun, in_part, found)?;
            }
            return Ok(());
        }
        if let Some(at) = self.finder.find(chunk) {
            let data = chunk.split_to(at);
            drop(chunk.split_to(self.delimiter.len()));
            self.state = State::Delimited { seen: Vec::new(), in_part };
            return self.data(data, in_part, found);
        }
        let tail = chunk.len().saturating_sub(self.delimiter.len() - 1);
        let begun = memrchr(self.line_end[0], &chunk[tail..]).map(|at| tail + at);
        let begun = begun.filter(|at| self.delimiter.starts_with(&chunk[*at..]));
        let data = chunk.split_to(begun.unwrap_or(chunk.len()));
        self.state = State::Content { matched: chunk.len(), in_part };
        chunk.clear();
        self.data(data, in_part, found)
    }

    /// `--` ends the message, white space and a line end begin a part; anything else shows that the
    /// delimiter was the start of a longer line of content.
    fn delimited(
        &mut self,
        chunk: &mut Bytes,
        found: &mut dyn FnMut(MultipartEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let State::Delimited { seen, in_part } = &mut self.state else { return Ok(()) };
        let in_part = *in_part;
        let byte = chunk[0];
        let bare = self.line_end == LF;
        match (seen.last(), byte) {
            (Some(b'-'), b'-') => {
                chunk.clear();
                self.state = State::Ended;
                if in_part { self.end_part(found) } else { Ok(()) }
            }
            (last, b'\n') if last == Some(&b'\r') || bare && last != Some(&b'-') => {
                if self.parts == 0 && seen.last() == Some(&b'\r') {
                    self.end_lines_with_crlf();
                }
                drop(chunk.split_to(1));
                self.state = State::Header { fields: Vec::new(), line: Vec::new() };
                if in_part {
                    self.end_part(found)?;
                }
                self.count_part()
            }
            (None, b'-') | (None | Some(b' ' | b'\t'), b' ' | b'\t' | b'\r')
                if seen.len() < self.limits.header_length =>
            {
                seen.push(byte);
                drop(chunk.split_to(1));
                Ok(())
            }
            _ => {
                let sent = std::mem::take(&mut self.unsent)..;
                let content = [&self.delimiter[sent], seen].concat();
                self.state = State::Content { matched: 0, in_part };
                self.data(content.into(), in_part, found)
            }
        }
    }

    fn count_part(&mut self) -> Result<(), Fault> {
        self.parts += 1;
        if self.parts > self.limits.parts {
            return Err(exceeded("parts", self.limits.parts as u64, "in a message"));
        }
        Ok(())
    }

    fn header(
        &mut self,
        chunk: &mut Bytes,
        found: &mut dyn FnMut(MultipartEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let State::Header { fields, line } = &mut self.state else { return Ok(()) };
        let end = memchr(b'\n', chunk);
        let piece = chunk.split_to(end.map_or(chunk.len(), |at| at + 1));
        line.extend_from_slice(&piece);
        if line.len() > self.limits.header_length {
            return Err(exceeded("header_length", self.limits.header_length as u64, "bytes"));
        }
        if end.is_none() {
            return Ok(());
        }
        let whole = std::mem::take(line);
        let text = String::from_utf8_lossy(&whole);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            let head = part_head(fields);
            self.state = State::Content { matched: self.line_end.len(), in_part: true };
            self.unsent = self.line_end.len();
            let (head, decoder) = head?;
            self.decoder = decoder;
            return found(MultipartEvent::Head(head));
        }
        match fields.last_mut() {
            Some(field) if text.starts_with([' ', '\t']) => {
                if field.len() + text.len() > self.limits.header_length {
                    return Err(exceeded(
                        "header_length",
                        self.limits.header_length as u64,
                        "bytes",
                    ));
                }
                field.push_str(text);
            }
            _ => fields.push(text.to_owned()),
        }
        if fields.len() > self.limits.part_headers {
            return Err(exceeded("part_headers", self.limits.part_headers as u64, "in a part"));
        }
        Ok(())
    }
}

impl MultipartReader {
    /// Passes content on, if it is a part's.
    fn data(
        &mut self,
        data: Bytes,
        in_part: bool,
        found: &mut dyn FnMut(MultipartEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if data.is_empty() || !in_part {
            return Ok(());
        }
        let Some(decoder) = &mut self.decoder else { return found(MultipartEvent::Data(data)) };
        let mut decoded = Vec::new();
        decoder.decode(&data, &mut decoded)?;
        if decoded.is_empty() { Ok(()) } else { found(MultipartEvent::Data(decoded.into())) }
    }

    fn end_part(
        &mut self,
        found: &mut dyn FnMut(MultipartEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if let Some(decoder) = self.decoder.take() {
            let mut decoded = Vec::new();
            decoder.finish(&mut decoded)?;
            if !decoded.is_empty() {
                found(MultipartEvent::Data(decoded.into()))?;
            }
        }
        found(MultipartEvent::End)
    }
}

impl TransferDecoder {
    fn decode(&mut self, data: &[u8], to: &mut Vec<u8>) -> Result<(), Fault> {
        match self {
            Self::Base64(decoder) => decoder.decode(data, to).map_err(|error| undecoded(&error)),
            Self::Quoted(decoder) => decoder.decode(data, to).map_err(|error| undecoded(&error)),
        }
    }

    fn finish(self, to: &mut Vec<u8>) -> Result<(), Fault> {
        match self {
            Self::Base64(mut decoder) => decoder.finish(to).map_err(|error| undecoded(&error)),
            Self::Quoted(decoder) => decoder.finish().map_err(|error| undecoded(&error)),
        }
    }
}

fn undecoded(error: &dyn std::error::Error) -> Fault {
    malformed(error.to_string())
}

/// What the header fields tell, and what decodes the content.
fn part_head(fields: &[String]) -> Result<(PartHeader, Option<TransferDecoder>), Fault> {
    let mut head = PartHeader::default();
    let mut decoder = None;
    for field in fields {
        let Some((name, value)) = field.split_once(':') else {
            return Err(malformed(format!(
                "a part's header holds {:?}, which is not NAME: VALUE",
                fishplate_contract::lexical::shortened(field)
            )));
        };
        let value = value.trim();
        match name.trim().to_ascii_lowercase().as_str() {
            "content-id" => head.content_id = Some(unbracketed(value).to_owned()),
            "content-location" if !value.is_empty() => head.location = Some(value.to_owned()),
            "content-type" => head.media = Some(MediaType::parse(value)),
            "content-disposition" => head.disposition = Some(MediaType::parse(value)),
            "content-transfer-encoding" => match value.to_ascii_lowercase().as_str() {
                "" | "binary" | "8bit" | "7bit" => {}
                "base64" => decoder = Some(TransferDecoder::Base64(Base64Decoder::default())),
                "quoted-printable" => {
                    decoder = Some(TransferDecoder::Quoted(QuotedDecoder::default()));
                }
                _ => {
                    return Err(unsupported(format!(
                        "cannot read a part with Content-Transfer-Encoding {value}: use binary, base64 \
                         or quoted-printable"
                    )));
                }
            },
            _ => {}
        }
    }
    Ok((head, decoder))
}

#[cfg(test)]
mod tests;

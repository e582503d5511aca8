//! Bytes to text: UTF-8 is checked and passed on in place, UTF-16 and Latin-1 are converted.

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use fishplate_contract::{Fault, FaultCode};
use memchr::memmem;

/// The encoding of that label, if it is one that we read: UTF-8, UTF-16 or Latin-1 (ASCII is part
/// of it).
///
/// # Errors
/// `UnsupportedMediaType`.
pub fn charset(label: &str) -> Result<&'static Encoding, Fault> {
    if label.eq_ignore_ascii_case("utf-8") {
        return Ok(UTF_8);
    }
    Encoding::for_label(label.trim().as_bytes())
        .filter(|encoding| [UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252].contains(encoding))
        .ok_or_else(|| {
            let message = format!("cannot read the character encoding {label:?}: use UTF-8");
            Fault::new(FaultCode::UnsupportedMediaType, message)
        })
}

/// An XML declaration longer than this is none.
const DECLARATION: usize = 1024;

/// Pieces of decoding, of this many bytes at most: what is converted is held at once.
const PIECE: usize = 16 << 10;

pub(super) struct Decoder {
    state: State,
    /// Told by the media type; a byte order mark is stronger, the XML declaration weaker.
    told: Option<&'static Encoding>,
}

enum State {
    /// Bytes held until the encoding is known.
    Sniffing(Vec<u8>),
    /// The start of a character that the chunk before cut.
    Utf8(Vec<u8>),
    Other(Box<encoding_rs::Decoder>),
}

impl Decoder {
    pub(super) fn new(told: Option<&'static Encoding>) -> Self {
        Self { state: State::Sniffing(Vec::new()), told }
    }

    /// Passes the text of the chunk on, in pieces.
    pub(super) fn feed(
        &mut self,
        chunk: &[u8],
        last: bool,
        out: &mut dyn FnMut(&str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let State::Sniffing(held) = &mut self.state else { return self.decode(chunk, last, out) };
        if held.is_empty() {
            // As a rule the first chunk tells.
            return match sniff(chunk, self.told, last)? {
                Some((encoding, mark)) => self.begin(encoding, &chunk[mark..], last, out),
                None => {
                    held.extend_from_slice(chunk);
                    Ok(())
                }
            };
        }
        held.extend_from_slice(chunk);
        let Some((encoding, mark)) = sniff(held, self.told, last)? else { return Ok(()) };
        let held = std::mem::take(held);
        self.begin(encoding, &held[mark..], last, out)
    }

    /// The encoding is known.
    fn begin(
        &mut self,
        encoding: &'static Encoding,
        text: &[u8],
        last: bool,
        out: &mut dyn FnMut(&str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.state = if encoding == UTF_8 {
            State::Utf8(Vec::new())
        } else {
            State::Other(Box::new(encoding.new_decoder_without_bom_handling()))
        };
        self.decode(text, last, out)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        last: bool,
        out: &mut dyn FnMut(&str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match &mut self.state {
            State::Sniffing(_) => Ok(()),
            State::Utf8(cut) => {
                utf8(cut, chunk, out)?;
                if last && !cut.is_empty() { Err(not_text(UTF_8)) } else { Ok(()) }
            }
            State::Other(decoder) => convert(decoder, chunk, last, out),
        }
    }
}

/// The encoding and the length of its byte order mark, once it is known.
fn sniff(
    held: &[u8],
    told: Option<&'static Encoding>,
    last: bool,
) -> Result<Option<(&'static Encoding, usize)>, Fault> {
    if held.len() < 4 && !last {
        return Ok(None);
    }
    if let Some((encoding, mark)) = Encoding::for_bom(held) {
        return Ok(Some((encoding, mark)));
    }
    let unmarked = match held {
        [b'<', 0, ..] => Some(UTF_16LE),
        [0, b'<', ..] => Some(UTF_16BE),
        _ => None,
    };
    if let Some(encoding) = unmarked.or(told) {
        return Ok(Some((encoding, 0)));
    }
    if !b"<?xml".starts_with(&held[..held.len().min(5)]) {
        return Ok(Some((UTF_8, 0)));
    }
    match memmem::find(held, b"?>") {
        Some(end) => Ok(Some((declared(&held[..end])?, 0))),
        None if last || held.len() > DECLARATION => Ok(Some((UTF_8, 0))),
        None => Ok(None),
    }
}

/// The encoding that an XML declaration names. One of two bytes a character cannot be right: the
/// declaration was read as ASCII.
fn declared(declaration: &[u8]) -> Result<&'static Encoding, Fault> {
    let Some(at) = memmem::find(declaration, b"encoding") else { return Ok(UTF_8) };
    let value = &declaration[at + "encoding".len()..];
    let Some(open) = memchr::memchr2(b'"', b'\'', value) else { return Ok(UTF_8) };
    let rest = &value[open + 1..];
    let Some(close) = memchr::memchr(value[open], rest) else { return Ok(UTF_8) };
    let encoding = charset(&String::from_utf8_lossy(&rest[..close]))?;
    Ok(if encoding == WINDOWS_1252 { WINDOWS_1252 } else { UTF_8 })
}

fn utf8(
    cut: &mut Vec<u8>,
    mut chunk: &[u8],
    out: &mut dyn FnMut(&str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    while !cut.is_empty() {
        let Some((byte, rest)) = chunk.split_first() else { return Ok(()) };
        cut.push(*byte);
        chunk = rest;
        match std::str::from_utf8(cut) {
            Ok(text) => {
                out(text)?;
                cut.clear();
            }
            Err(error) if error.error_len().is_none() => {}
            Err(_) => return Err(not_text(UTF_8)),
        }
    }
    match std::str::from_utf8(chunk) {
        Ok(text) => out(text),
        Err(error) => {
            let (good, rest) = chunk.split_at(error.valid_up_to());
            out(std::str::from_utf8(good).unwrap_or_default())?;
            if error.error_len().is_some() {
                return Err(not_text(UTF_8));
            }
            cut.extend_from_slice(rest);
            Ok(())
        }
    }
}

fn convert(
    decoder: &mut encoding_rs::Decoder,
    chunk: &[u8],
    last: bool,
    out: &mut dyn FnMut(&str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let encoding = decoder.encoding();
    let mut pieces = chunk.chunks(PIECE).peekable();
    loop {
        let piece = pieces.next().unwrap_or_default();
        let end = last && pieces.peek().is_none();
        let room = decoder
            .max_utf8_buffer_length_without_replacement(piece.len())
            .ok_or_else(|| not_text(encoding))?;
        let mut text = String::with_capacity(room);
        let (result, _) = decoder.decode_to_string_without_replacement(piece, &mut text, end);
        if result != DecoderResult::InputEmpty {
            return Err(not_text(encoding));
        }
        out(&text)?;
        if pieces.peek().is_none() {
            return Ok(());
        }
    }
}

fn not_text(encoding: &'static Encoding) -> Fault {
    let message = format!("the message is not {} text", encoding.name());
    Fault::new(FaultCode::MalformedMessage, message)
}

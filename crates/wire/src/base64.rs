//! Base64 (RFC 4648 section 4) in a stream, both ways.

use base64_simd::{Out, STANDARD};
use fishplate_contract::{Fault, FaultCode};

/// Encodes a stream, without line breaks.
#[derive(Debug, Default)]
pub struct Base64Encoder {
    /// Bytes that wait for their group of three.
    carry: [u8; 3],
    carried: usize,
}

impl Base64Encoder {
    /// Appends the text of these bytes, up to two of which wait for the next.
    pub fn encode(&mut self, mut bytes: &[u8], text: &mut Vec<u8>) {
        if self.carried > 0 {
            let take = (3 - self.carried).min(bytes.len());
            self.carry[self.carried..self.carried + take].copy_from_slice(&bytes[..take]);
            self.carried += take;
            bytes = &bytes[take..];
            if self.carried < 3 {
                return;
            }
            STANDARD.encode_append(self.carry, text);
        }
        let whole = bytes.len() - bytes.len() % 3;
        STANDARD.encode_append(&bytes[..whole], text);
        self.carried = bytes.len() - whole;
        self.carry[..self.carried].copy_from_slice(&bytes[whole..]);
    }

    /// Appends the text of what waits, with its padding.
    pub fn finish(self, text: &mut Vec<u8>) {
        STANDARD.encode_append(&self.carry[..self.carried], text);
    }

    /// Length of the text of so many bytes.
    pub fn encoded_len(bytes: u64) -> u64 {
        bytes.div_ceil(3) * 4
    }
}

/// Why a text is no base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not base64: {what}, near character {at}")]
pub struct NotBase64 {
    what: &'static str,
    at: u64,
}

impl From<NotBase64> for Fault {
    fn from(error: NotBase64) -> Self {
        Self::new(FaultCode::InvalidValue, error.to_string())
    }
}

/// Decodes a stream, white space passed over.
#[derive(Debug, Default)]
pub struct Base64Decoder {
    /// Characters that wait for their group of four.
    carry: [u8; 4],
    carried: usize,
    /// The padding was read: nothing may follow.
    ended: bool,
    /// Characters read so far, white space left out.
    read: u64,
    /// Room to put text without its white space.
    packed: Vec<u8>,
}

impl Base64Decoder {
    /// Appends the bytes of this text, up to three characters of which wait for the next.
    ///
    /// # Errors
    /// If it is no base64.
    pub fn decode(&mut self, text: &[u8], bytes: &mut Vec<u8>) -> Result<(), NotBase64> {
        if !has_space(text) {
            return self.decode_run(text, bytes);
        }
        let mut packed = std::mem::take(&mut self.packed);
        let len = pack(text, &mut packed);
        let result = self.decode_run(&packed[..len], bytes);
        self.packed = packed;
        result
    }

    /// Decodes text without white space.
    fn decode_run(&mut self, mut run: &[u8], bytes: &mut Vec<u8>) -> Result<(), NotBase64> {
        if run.is_empty() {
            return Ok(());
        }
        if self.ended {
            return Err(self.wrong("text after the padding"));
        }
        if self.carried > 0 {
            let take = (4 - self.carried).min(run.len());
            self.carry[self.carried..self.carried + take].copy_from_slice(&run[..take]);
            self.carried += take;
            run = &run[take..];
            if self.carried < 4 {
                return Ok(());
            }
            self.carried = 0;
            let group = self.carry;
            self.decode_groups(&group, bytes)?;
            if run.is_empty() {
                return Ok(());
            }
            if self.ended {
                return Err(self.wrong("text after the padding"));
            }
        }
        let whole = run.len() - run.len() % 4;
        self.decode_groups(&run[..whole], bytes)?;
        let rest = &run[whole..];
        if self.ended && !rest.is_empty() {
            return Err(self.wrong("text after the padding"));
        }
        self.carry[..rest.len()].copy_from_slice(rest);
        self.carried = rest.len();
        Ok(())
    }

    /// Decodes whole groups of four, the last of which may be padded.
    fn decode_groups(&mut self, groups: &[u8], bytes: &mut Vec<u8>) -> Result<(), NotBase64> {
        let Some(last) = groups.last() else { return Ok(()) };
        self.ended = *last == b'=';
        let from = bytes.len();
        bytes.resize(from + groups.len() / 4 * 3, 0);
        let result = STANDARD.decode(groups, Out::from_slice(&mut bytes[from..]));
        let Ok(len) = result.map(|decoded| decoded.len()) else {
            bytes.truncate(from);
            return Err(self.wrong("a character that is not of its alphabet, or padding too early"));
        };
        bytes.truncate(from + len);
        self.read += groups.len() as u64;
        Ok(())
    }

    /// The text has ended. Padding may have been left out, as some stacks do.
    ///
    /// # Errors
    /// If it ended within a byte.
    pub fn finish(&mut self, bytes: &mut Vec<u8>) -> Result<(), NotBase64> {
        match self.carried {
            0 => Ok(()),
            1 => Err(self.wrong("it ends within a byte")),
            some => {
                let mut group = self.carry;
                group[some..].fill(b'=');
                self.carried = 0;
                self.decode_groups(&group, bytes)
            }
        }
    }

    /// No character was read yet.
    pub fn is_empty(&self) -> bool {
        self.read == 0 && self.carried == 0
    }

    fn wrong(&self, what: &'static str) -> NotBase64 {
        NotBase64 { what, at: self.read }
    }
}

fn is_space(byte: u8) -> bool {
    (byte == b' ') | (byte == b'\n') | (byte == b'\r') | (byte == b'\t')
}

fn has_space(text: &[u8]) -> bool {
    memchr::memchr3(b'\n', b'\r', b' ', text).is_some() || memchr::memchr(b'\t', text).is_some()
}

/// Blocks of this length are copied whole if they hold no white space; lines are a few times longer.
const BLOCK: usize = 16;

/// The same for a block with white space in it, without branches; how much of it stays.
fn pack_block(block: &[u8; BLOCK], to: &mut [u8; BLOCK]) -> usize {
    let mut len = 0;
    for byte in block {
        to[len % BLOCK] = *byte;
        len += usize::from(!is_space(*byte));
    }
    len
}

/// Puts the text without its white space at the start of `packed`; how much it is. Most blocks of line-broken base64 hold none, and the test
/// without branches is one that compilers make vectors of.
fn pack(text: &[u8], packed: &mut Vec<u8>) -> usize {
    if packed.len() < text.len() {
        packed.resize(text.len(), 0);
    }
    let mut len = 0;
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    for block in blocks {
        let Some(to) = packed[len..].first_chunk_mut::<BLOCK>() else { break };
        if block.iter().fold(0, |any, byte| any | u8::from(is_space(*byte))) == 0 {
            *to = *block;
            len += BLOCK;
        } else {
            len += pack_block(block, to);
        }
    }
    for byte in rest {
        packed[len] = *byte;
        len += usize::from(!is_space(*byte));
    }
    len
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<Vec<u8>, NotBase64> {
        let mut decoder = Base64Decoder::default();
        let mut bytes = Vec::new();
        for piece in pieces {
            decoder.decode(piece, &mut bytes)?;
        }
        decoder.finish(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn white_space_is_passed_over_and_missing_padding_made_good() {
        assert_eq!(decode(&[b" aGVs\r\nbG8=\n"]).unwrap(), b"hello");
        assert_eq!(decode(&[b"aGVsbG8"]).unwrap(), b"hello");
        assert_eq!(decode(&[b"aGVsbA=", b"="]).unwrap(), b"hell");
        assert_eq!(decode(&[b"", b" "]).unwrap(), b"");
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["a", "aGVs!G8=", "aGVsbG8=aGVs", "aG=sbG8=", "====", "aGVsbG8==", "-_-_"] {
            assert!(decode(&[text.as_bytes()]).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_come_back(
            bytes in proptest::collection::vec(any::<u8>(), 0..3000),
            cuts in proptest::collection::vec(1usize..700, 1..8),
            line in prop_oneof![Just(0usize), Just(64), Just(76)],
        ) {
            let mut encoder = Base64Encoder::default();
            let mut text = Vec::new();
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                encoder.encode(piece, &mut text);
                rest = after;
            }
            encoder.finish(&mut text);
            prop_assert_eq!(text.len() as u64, Base64Encoder::encoded_len(bytes.len() as u64));
            if line > 0 {
                text = text.chunks(line).flat_map(|line| [line, b"\r\n"].concat()).collect();
            }
            let mut pieces = Vec::new();
            let mut rest = &text[..];
            for cut in cuts.iter().rev().cycle() {
                if rest.is_empty() { break }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(decode(&pieces).unwrap(), bytes);
        }
    }
}

//! Base64 (RFC 4648 section 4) in a stream, both ways.

/// Encodes a stream.
#[derive(Debug, Default)]
pub struct Base64Encoder {
    carry: Vec<u8>,
}

impl Base64Encoder {
    /// Appends the text of these bytes, up to two of which wait for the next.
    pub fn encode(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        self.carry.extend_from_slice(bytes);
        text.clear();
        todo!()
    }

    /// Appends the text of what waits, with its padding.
    pub fn finish(self, text: &mut Vec<u8>) {
        text.clear();
        todo!()
    }

    /// Length of the text of so many bytes.
    pub fn encoded_len(bytes: u64) -> u64 {
        bytes.div_ceil(3) * 4
    }
}

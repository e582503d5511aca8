//! A payload's bytes as a stream, wherever they are.

use std::fs::File;
use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use fishplate_contract::{Fault, FaultCode, Payload};
use fishplate_data::stream;

use super::context::storage_fault;

/// Reads a payload from its beginning. What is in memory is read there; what was spooled, from its
/// file; what is a stream, while it comes. As a parameter of a function it is a file that the function may
/// be given before all of it has arrived.
///
/// An error never passes for the end: if the caller's message breaks off, reading fails. A function that
/// does not read to the end does not learn of it.
#[derive(Debug)]
pub struct PayloadReader(Source);

#[derive(Debug)]
enum Source {
    /// Pieces that are left, the next one last.
    Memory(Vec<Bytes>),
    File(File),
    Stream(stream::Reader),
}

impl PayloadReader {
    /// A reader of these bytes.
    ///
    /// # Errors
    /// `NotSupported` for a reference; `Internal` if the file cannot be opened.
    pub fn new(payload: &Payload) -> Result<Self, Fault> {
        match payload {
            Payload::Inline(bytes) => Ok(Self(Source::Memory(vec![bytes.clone()]))),
            Payload::Pieces(pieces) => {
                Ok(Self(Source::Memory(pieces.iter().rev().cloned().collect())))
            }
            Payload::Spooled(held) => {
                let file = File::open(held.path()).map_err(|error| storage_fault(&error))?;
                Ok(Self(Source::File(file)))
            }
            Payload::Stream(stream) => Ok(Self(Source::Stream(stream::Reader::of(stream)?))),
            Payload::Reference(_) => {
                let what = "the data is a reference, which a function cannot read";
                Err(Fault::new(FaultCode::NotSupported, what))
            }
        }
    }
}

/// What is read of a file at once.
const CHUNK: usize = 256 << 10;

impl PayloadReader {
    /// The next bytes, as many as are at hand; `None` at the end.
    ///
    /// # Errors
    /// If they cannot be read, or the stream breaks off.
    pub fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        match &mut self.0 {
            Source::Memory(pieces) => Ok(pieces.pop()),
            Source::Stream(reader) => reader.chunk(),
            Source::File(file) => {
                let mut chunk = vec![0; CHUNK];
                let read = file.read(&mut chunk).map_err(|error| storage_fault(&error))?;
                chunk.truncate(read);
                Ok((read > 0).then(|| chunk.into()))
            }
        }
    }
}

impl Read for PayloadReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Source::File(file) => file.read(to),
            Source::Stream(reader) => reader.read(to),
            Source::Memory(pieces) => loop {
                let Some(piece) = pieces.last_mut() else { return Ok(0) };
                if piece.is_empty() {
                    pieces.pop();
                    continue;
                }
                let size = piece.len().min(to.len());
                piece.copy_to_slice(&mut to[..size]);
                return Ok(size);
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn bytes_are_read_in_their_order_wherever_they_are() {
        let pieces = [&b"a"[..], b"", b"bcd"].map(Bytes::from_static);
        let whole = Payload::Inline(Bytes::from_static(b"abcd"));
        for payload in [whole, Payload::Pieces(Arc::new(pieces))] {
            let mut read = Vec::new();
            PayloadReader::new(&payload).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, b"abcd");
        }
        let nowhere = Payload::Reference(fishplate_contract::DataRef::new("x"));
        assert_eq!(PayloadReader::new(&nowhere).unwrap_err().code, FaultCode::NotSupported);
    }
}

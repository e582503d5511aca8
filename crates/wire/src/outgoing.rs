//! The body of a packed message as it is sent: a list of segments, pulled piece by piece. What is
//! in a file is asked for, so that whoever drives it reads it where and when it likes; what is a
//! stream is waited for when the driver can.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fishplate_contract::{Chunks, Fault, FaultCode, FileHandle, Payload};

use crate::encode::{Encoder, Encoding};

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum Segment {
    /// These bytes.
    Bytes(Bytes),
    /// Bytes of a payload, which is not a reference.
    Data {
        /// The payload.
        payload: Payload,
        /// Which of its bytes; of a stream, all there will be.
        range: Range<u64>,
        /// How they are sent.
        encoding: Encoding,
    },
}

impl Segment {
    /// All bytes of a payload.
    pub fn of(payload: &Payload, encoding: Encoding) -> Self {
        let all = if matches!(payload, Payload::Stream(_)) { u64::MAX } else { 0 };
        let range = 0..payload.len().unwrap_or(all);
        Self::Data { payload: payload.clone(), range, encoding }
    }

    /// Length in bytes as it is sent; `None` if only sending it tells.
    pub fn len(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Data { payload: Payload::Stream(_), .. } => None,
            Self::Data { range, encoding, .. } => {
                encoding.len(range.end.saturating_sub(range.start))
            }
        }
    }

    /// It holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Its bytes, or those it is made of, are in a file.
    pub fn is_in_file(&self) -> bool {
        matches!(self, Self::Data { payload: Payload::Spooled(_), .. })
    }
}

/// What is next.
#[derive(Debug)]
pub enum BodyStep {
    /// Send these bytes.
    Send(Bytes),
    /// Read these bytes of a file and give them to [`OutgoingBody::took`].
    Read {
        /// The file.
        held: Arc<dyn FileHandle>,
        /// First byte.
        at: u64,
        /// How many: no fewer, because the length of the message may have been told.
        len: usize,
    },
    /// Wait for more of a stream: [`OutgoingBody::poll_stream`].
    Wait,
}

/// A body as it is sent.
pub struct OutgoingBody {
    segments: VecDeque<Segment>,
    /// The payload at hand.
    data: Option<Data>,
    chunk: usize,
}

struct Data {
    payload: Payload,
    left: Range<u64>,
    /// The piece at hand of a payload in memory, and how much of it was sent.
    piece: usize,
    sent: usize,
    /// The chunks of a stream, once they were asked for.
    chunks: Option<Chunks>,
    /// All of a stream has come.
    ended: bool,
    encoding: Encoding,
    encoder: Encoder,
}

impl OutgoingBody {
    /// The body that these segments make up, in chunks of about that length.
    pub fn new(segments: impl IntoIterator<Item = Segment>, chunk: usize) -> Self {
        Self { segments: segments.into_iter().collect(), data: None, chunk: chunk.max(1) }
    }

    /// Some of it is in a file: it will ask to read.
    pub fn reads_files(&self) -> bool {
        self.segments.iter().any(Segment::is_in_file)
    }

    /// What is next; `None` at the end.
    pub fn step(&mut self) -> Option<BodyStep> {
        loop {
            if let Some(data) = &mut self.data {
                match data.step(self.chunk) {
                    Some(step) => return Some(step),
                    None => self.data = None,
                }
            }
            match self.segments.pop_front()? {
                Segment::Bytes(bytes) if bytes.is_empty() => {}
                Segment::Bytes(bytes) => return Some(BodyStep::Send(bytes)),
                Segment::Data { payload, range, encoding } => {
                    self.data = Some(Data::new(payload, range, encoding));
                }
            }
        }
    }

    /// The bytes that the last step asked for, as they are to be sent; may be none yet.
    pub fn took(&mut self, bytes: Vec<u8>) -> Bytes {
        match &mut self.data {
            None => bytes.into(),
            Some(data) => data.encoded(bytes.into()),
        }
    }

    /// More of the stream that the last step waits for, as it is to be sent; may be none yet.
    ///
    /// # Errors
    /// The fault with which the stream ended. The message can't be whole any more: it is to be broken off
    /// so that nobody takes it for one that is.
    pub fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Fault>> {
        match &mut self.data {
            None => Poll::Ready(Ok(Bytes::new())),
            Some(data) => data.poll_chunk(context),
        }
    }
}

impl fmt::Debug for OutgoingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("segments", &self.segments).finish_non_exhaustive()
    }
}

impl Data {
    fn new(payload: Payload, left: Range<u64>, encoding: Encoding) -> Self {
        let encoder = encoding.encoder();
        let mut data = Self {
            payload,
            left,
            piece: 0,
            sent: 0,
            chunks: None,
            ended: false,
            encoding,
            encoder,
        };
        let mut skip = data.left.start;
        for piece in data.payload.pieces().unwrap_or_default() {
            let len = piece.len() as u64;
            if skip < len {
                break;
            }
            skip -= len;
            data.piece += 1;
        }
        data.sent = usize::try_from(skip).unwrap_or_default();
        data
    }

    fn step(&mut self, chunk: usize) -> Option<BodyStep> {
        let raw = matches!(self.encoder, Encoder::Raw);
        loop {
            let left = self.left.end.saturating_sub(self.left.start);
            if left == 0 {
                return self.finish(chunk);
            }
            if let Payload::Stream(_) = &self.payload {
                return if self.ended { self.finish(chunk) } else { Some(BodyStep::Wait) };
            }
            if let Payload::Spooled(held) = &self.payload {
                let len = usize::try_from(left).unwrap_or(chunk).min(chunk);
                let at = self.left.start;
                self.left.start += len as u64;
                return Some(BodyStep::Read { held: held.clone(), at, len });
            }
            let most = if raw { usize::MAX } else { self.encoding.bytes_for(chunk) };
            let piece = self.next_piece(most)?;
            if raw {
                return Some(BodyStep::Send(piece));
            }
            let encoded = self.encoded(piece);
            // A piece may be too short to become anything yet.
            if !encoded.is_empty() {
                return Some(BodyStep::Send(encoded));
            }
        }
    }

    /// The next chunk of a stream, encoded.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Fault>> {
        let chunks = match &mut self.chunks {
            Some(chunks) => chunks,
            none => match &self.payload {
                Payload::Stream(stream) => none.insert(stream.take()?),
                _ => return Poll::Ready(Ok(Bytes::new())),
            },
        };
        let Some(chunk) = ready!(chunks.as_mut().poll_next(context)).transpose()? else {
            self.ended = true;
            if self.encoder.is_cut() {
                let what = "the numbers of an array ended before a number or a row was whole";
                return Poll::Ready(Err(Fault::new(FaultCode::OutputInvalid, what)));
            }
            return Poll::Ready(Ok(Bytes::new()));
        };
        Poll::Ready(Ok(self.encoded(chunk)))
    }

    fn encoded(&mut self, bytes: Bytes) -> Bytes {
        if matches!(self.encoder, Encoder::Raw) {
            return bytes;
        }
        let mut to = Vec::new();
        self.encoder.encode(&bytes, &mut to);
        to.into()
    }

    fn finish(&mut self, chunk: usize) -> Option<BodyStep> {
        let mut to = Vec::new();
        while !self.encoder.finish(chunk, &mut to) && to.is_empty() {}
        (!to.is_empty()).then(|| BodyStep::Send(to.into()))
    }

    /// The next bytes of a payload in memory, as many as stand in one piece.
    fn next_piece(&mut self, most: usize) -> Option<Bytes> {
        let pieces = self.payload.pieces()?;
        while pieces.get(self.piece)?.len() == self.sent {
            self.piece += 1;
            self.sent = 0;
        }
        let piece = &pieces[self.piece];
        let left = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX);
        let take = (piece.len() - self.sent).min(left).min(most);
        let taken = piece.slice(self.sent..self.sent + take);
        self.sent += take;
        self.left.start += take as u64;
        Some(taken)
    }
}

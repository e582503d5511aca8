//! What comes from one other process over one connection.

use std::io::{self, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::credential::{Credential, Nonce};
use crate::engine::{Engine, ReceiveTarget};
use crate::error::Error;
use crate::header::{Header, Kind, Rank};
use crate::transport::socket::{is_transient, some};
use crate::transport::tcp::greeting::{Greeting, answer, challenge};
use crate::transport::tcp::head_length;

/// What is read ahead of a header, so that small frames come several at a time. With 4 KiB, messages of 4 KiB take 1.1 times as long.
const BUFFER: usize = 16 << 10;
/// Frames and bytes after which the sender is told, though nobody waits for it.
const UNACKNOWLEDGED_FRAMES: u64 = 32;
const UNACKNOWLEDGED_BYTES: u64 = 256 << 10;
/// Bytes after which others have their turn.
const TURN: usize = 4 << 20;

/// What is known of the frames of one of a process's streams, whichever connection they come over.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The last sequence number received entirely.
    pub(super) received: u64,
    /// A payload that was arriving when its connection broke: the frame comes again.
    pub(super) interrupted: Option<ReceiveTarget>,
}

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum CloseReason {
    /// It broke; its sender dials again.
    Broken(io::Error),
    /// Its sender broke the protocol.
    Protocol(Error),
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

#[derive(Debug)]
struct Arriving {
    target: ReceiveTarget,
    offset: usize,
    length: usize,
}

#[derive(Debug)]
pub(super) struct Incoming {
    stream: TcpStream,
    challenge: Nonce,
    /// Who sends, and over which of its streams; unknown until it has greeted.
    pub(super) peer: Option<(Rank, u32)>,
    /// Since when there is this connection.
    pub(super) begun: Instant,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    arriving: Option<Arriving>,
    unacknowledged_frames: u64,
    unacknowledged_bytes: u64,
    /// The last read got less than it could have: there is no more now.
    drained: bool,
    /// Acknowledgements that found no room.
    unwritten: Vec<u8>,
}

impl Incoming {
    /// Challenges who dialled.
    pub(super) fn new(mut stream: TcpStream, nonce: Nonce) -> io::Result<Self> {
        stream.write_all(&challenge(nonce))?;
        Ok(Self {
            stream,
            challenge: nonce,
            peer: None,
            begun: Instant::now(),
            buffer: vec![0; BUFFER].into(),
            start: 0,
            end: 0,
            arriving: None,
            unacknowledged_frames: 0,
            unacknowledged_bytes: 0,
            drained: false,
            unwritten: Vec::new(),
        })
    }

    /// The greeting, if it is here and not yet taken.
    pub(super) fn greeting(
        &mut self,
        credential: &Credential,
    ) -> Result<Option<Greeting>, CloseReason> {
        while self.end - self.start < Greeting::SIZE {
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
        let bytes = &self.buffer[self.start..self.start + Greeting::SIZE];
        let greeting = Greeting::from_bytes(bytes, self.challenge, credential);
        self.start += Greeting::SIZE;
        greeting
            .map(Some)
            .ok_or_else(|| CloseReason::Broken(io::Error::other("it has no credential")))
    }

    /// Goes on where another connection broke.
    pub(super) fn welcome(
        &mut self,
        greeting: &Greeting,
        received: u64,
        credential: &Credential,
    ) -> io::Result<()> {
        self.peer = Some((greeting.from, greeting.stream));
        self.stream.write_all(&answer(received, greeting.nonce, credential))
    }

    /// Reads what is there, and gives it to the engine.
    pub(super) fn read(
        &mut self,
        progress: &mut Progress,
        engine: &mut Engine,
    ) -> Result<(), CloseReason> {
        let mut urgent = false;
        let mut turn = 0;
        self.drained = false;
        loop {
            if let Some(arriving) = &mut self.arriving {
                engine.retarget(&mut arriving.target, arriving.offset);
                let buffered = (self.end - self.start).min(arriving.length - arriving.offset);
                if let Some(rest) = arriving.target.rest(arriving.offset) {
                    rest[..buffered]
                        .copy_from_slice(&self.buffer[self.start..self.start + buffered]);
                }
                self.start += buffered;
                arriving.offset += buffered;
                if arriving.offset < arriving.length {
                    let count = if turn > TURN || self.drained { 0 } else { self.read_payload()? };
                    if count == 0 {
                        break;
                    }
                    turn += count;
                    continue;
                }
                urgent |= self.finish(progress, engine)?;
            } else if let Some(header) = self.header()? {
                self.begin(header, progress, engine)?;
                if self.is_long_and_unexpected() {
                    // Who waits for its head may have a place for the rest.
                    break;
                }
            } else {
                let count = if turn > TURN || self.drained { 0 } else { self.fill()? };
                if count == 0 {
                    break;
                }
                turn += count;
            }
        }
        let many = self.unacknowledged_frames >= UNACKNOWLEDGED_FRAMES
            || self.unacknowledged_bytes >= UNACKNOWLEDGED_BYTES;
        if urgent || many {
            self.acknowledge(progress.received)?;
        }
        Ok(())
    }

    /// The payload that is arriving is longer than what is read ahead, and no receive was posted for it.
    fn is_long_and_unexpected(&self) -> bool {
        self.arriving.as_ref().is_some_and(|it| it.length > BUFFER && it.target.is_unexpected())
    }

    /// Whether acknowledgements wait for room.
    pub(super) fn waits_for_room(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// The socket, to be watched.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// What was arriving when the connection ended.
    pub(super) fn into_interrupted(self) -> Option<ReceiveTarget> {
        self.arriving.map(|arriving| arriving.target)
    }

    /// The payload that is arriving.
    pub(super) fn target(&mut self) -> Option<&mut ReceiveTarget> {
        self.arriving.as_mut().map(|arriving| &mut arriving.target)
    }

    fn wrong(&self, problem: &'static str) -> CloseReason {
        let (from, _) = self.peer.unwrap_or_default();
        CloseReason::Protocol(Error::Protocol { from, problem })
    }

    /// The next frame's header, if it is here with its padding.
    fn header(&mut self) -> Result<Option<Header>, CloseReason> {
        let Some(bytes) = self.buffer[self.start..self.end].first_chunk() else { return Ok(None) };
        let header = Header::from_bytes(bytes).ok_or_else(|| self.wrong("it sent no header"))?;
        if self.peer.is_none_or(|(from, _)| header.from != from) {
            return Err(self.wrong("it sent another's message"));
        }
        let length = head_length(&header);
        if self.end - self.start < length {
            return Ok(None);
        }
        self.start += length;
        Ok(Some(header))
    }

    fn begin(
        &mut self,
        header: Header,
        progress: &mut Progress,
        engine: &mut Engine,
    ) -> Result<(), CloseReason> {
        let target = match progress.interrupted.take() {
            Some(target) if *target.header() == header => target,
            _ => engine.begin(header).map_err(CloseReason::Protocol)?,
        };
        let length = usize::try_from(header.payload_length())
            .map_err(|_| self.wrong("it sent too much at once"))?;
        self.arriving = Some(Arriving { target, offset: 0, length });
        Ok(())
    }

    /// The payload that was arriving is here; whether its sender waits for the acknowledgement.
    fn finish(
        &mut self,
        progress: &mut Progress,
        engine: &mut Engine,
    ) -> Result<bool, CloseReason> {
        let Some(Arriving { target, length, .. }) = self.arriving.take() else { return Ok(false) };
        let header = *target.header();
        engine.finish(target).map_err(CloseReason::Protocol)?;
        progress.received = progress.received.max(header.sequence);
        self.unacknowledged_frames += 1;
        self.unacknowledged_bytes += length as u64;
        Ok(matches!(header.kind, Kind::Data | Kind::Leave))
    }

    /// Straight to where it belongs, and what is behind it into the buffer.
    fn read_payload(&mut self) -> io::Result<usize> {
        let Some(arriving) = &mut self.arriving else { return Ok(0) };
        (self.start, self.end) = (0, 0);
        let wanted = arriving.length - arriving.offset;
        let read = match arriving.target.rest(arriving.offset) {
            Some(rest) => self
                .stream
                .read_vectored(&mut [IoSliceMut::new(rest), IoSliceMut::new(&mut self.buffer)]),
            None => {
                let most = wanted.min(self.buffer.len());
                self.stream.read(&mut self.buffer[..most])
            }
        };
        let count = some(read)?;
        self.drained =
            arriving.target.rest(arriving.offset).is_some() && count < wanted + self.buffer.len();
        arriving.offset += count.min(wanted);
        self.end = count.saturating_sub(wanted);
        Ok(count)
    }

    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = some(self.stream.read(&mut self.buffer[self.end..]))?;
        self.end += count;
        self.drained = self.end < self.buffer.len();
        Ok(count)
    }

    fn acknowledge(&mut self, received: u64) -> io::Result<()> {
        (self.unacknowledged_frames, self.unacknowledged_bytes) = (0, 0);
        // One that is cut off has to be completed; all others make room for the last.
        let cut = self.unwritten.len() % 8;
        self.unwritten.truncate(cut);
        self.unwritten.extend_from_slice(&received.to_le_bytes());
        self.write_acknowledgements()
    }

    pub(super) fn write_acknowledgements(&mut self) -> io::Result<()> {
        while !self.unwritten.is_empty() {
            match self.stream.write(&self.unwritten) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

//! What a connection answers, in the order of its requests.

use std::io::{self, Write};
use std::net::TcpStream;

use crate::transport::soap::http::ACCEPTED;
use crate::transport::socket::is_transient;

/// Messages and bytes after which a rank gets its 202s, though nobody waits for them.
const MOST_HELD: usize = 32;
const MOST_HELD_BYTES: u64 = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct Answers {
    /// 202s that are held back, and bytes of their messages.
    held: usize,
    held_bytes: u64,
    /// Somebody waits for one of them.
    urgent: bool,
    /// What found no room yet.
    unwritten: Vec<u8>,
}

impl Answers {
    /// A message of so many bytes is accepted.
    pub(super) fn accept(&mut self, length: usize, urgent: bool) {
        self.held += 1;
        self.held_bytes += length as u64;
        self.urgent |= urgent;
    }

    /// Another answer, behind those.
    pub(super) fn push(&mut self, answer: &[u8]) {
        self.release();
        self.unwritten.extend_from_slice(answer);
    }

    /// Nothing is held back any more.
    pub(super) fn release(&mut self) {
        for _ in 0..std::mem::take(&mut self.held) {
            self.unwritten.extend_from_slice(ACCEPTED);
        }
        (self.held_bytes, self.urgent) = (0, false);
    }

    /// Nothing is held back if somebody waits, or if there is much of it.
    pub(super) fn release_if_due(&mut self) {
        if self.urgent || self.held >= MOST_HELD || self.held_bytes >= MOST_HELD_BYTES {
            self.release();
        }
    }

    /// Bytes that are not written yet.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Whether some wait for room.
    pub(super) fn waits_for_room(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Writes what there is room for.
    pub(super) fn write(&mut self, mut stream: &TcpStream) -> io::Result<()> {
        while !self.unwritten.is_empty() {
            match stream.write(&self.unwritten) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

//! How a sender speaks over a connection: it answers the challenge, then sends headers and payloads, and hears sequence numbers.

use std::io::{self, Write};

use crate::credential::{Credential, random};
use crate::engine::Frame;
use crate::header::Header;
use crate::transport::outgoing::{Acknowledged, Protocol, ReceiverStatus};
use crate::transport::stream::Stream;
use crate::transport::tcp::greeting::{
    ANSWER_SIZE, CHALLENGE_SIZE, Greeting, Stranger, VERSION, read_answer, read_challenge,
};
use crate::transport::tcp::{LONG_HEAD, head_length};

const PADDING: [u8; LONG_HEAD - Header::SIZE] = [0; LONG_HEAD - Header::SIZE];

/// No patience mends that.
fn foreign(version: u8) -> io::Error {
    let (theirs, ours) = (char::from(version), char::from(VERSION));
    let what = format!(
        "it speaks version {theirs} of the messages between ranks, and this rank version {ours}: have the MPI library of all ranks of one release"
    );
    io::Error::new(io::ErrorKind::Unsupported, what)
}

#[derive(Debug)]
pub(super) struct Sender {
    greeting: Greeting,
    credential: Credential,
    /// The challenge of this connection was answered with the greeting.
    greeted: bool,
    /// The greeting was answered.
    welcome: bool,
    /// The last sequence number that was acknowledged.
    acknowledged: u64,
}

impl Sender {
    pub(super) fn new(greeting: Greeting, credential: Credential) -> Self {
        Self { greeting, credential, greeted: false, welcome: false, acknowledged: 0 }
    }

    /// Answers the challenge; the last sequence number that the other process has, once it says it.
    fn greet(&mut self, stream: &mut Stream, bytes: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let stranger = || io::Error::other("it is not that process");
        if !self.greeted {
            let Some(&challenge) = bytes.first_chunk::<CHALLENGE_SIZE>() else {
                return Ok(None);
            };
            let challenge = read_challenge(challenge).map_err(|other| match other {
                Stranger::Unknown => stranger(),
                Stranger::Version(version) => foreign(version),
            })?;
            bytes.drain(..CHALLENGE_SIZE);
            self.greeting.nonce = random().map_err(io::Error::other)?;
            stream.write_all(&self.greeting.to_bytes(challenge, &self.credential))?;
            self.greeted = true;
        }
        let Some(&answer) = bytes.first_chunk::<ANSWER_SIZE>() else { return Ok(None) };
        bytes.drain(..ANSWER_SIZE);
        let received = read_answer(answer, self.greeting.nonce, &self.credential);
        received.filter(|received| *received >= self.acknowledged).ok_or_else(stranger).map(Some)
    }
}

impl Protocol for Sender {
    type Head = [u8; Header::SIZE];

    const SPEAKS_FIRST: bool = false;

    fn head(&mut self, frame: &Frame) -> Self::Head {
        frame.header.to_bytes()
    }

    fn padding(&self, header: &Header) -> &'static [u8] {
        &PADDING[..head_length(header) - Header::SIZE]
    }

    fn begin(&mut self) {
        (self.greeted, self.welcome) = (false, false);
    }

    fn hear(&mut self, stream: &mut Stream, bytes: &mut Vec<u8>) -> io::Result<ReceiverStatus> {
        let mut received = None;
        if !self.welcome {
            received = self.greet(stream, bytes)?;
            self.welcome = received.is_some();
            if !self.welcome {
                return Ok(ReceiverStatus::default());
            }
        }
        let whole = bytes.len() / 8 * 8;
        if let Some(last) = bytes[..whole].last_chunk::<8>() {
            received = Some(u64::from_le_bytes(*last));
            bytes.drain(..whole);
        }
        let Some(received) = received else { return Ok(ReceiverStatus::default()) };
        self.acknowledged = self.acknowledged.max(received);
        Ok(ReceiverStatus { confirmed: true, acknowledged: Acknowledged::Through(received) })
    }
}

//! What goes to one other process: frames are kept until it acknowledges them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, TcpKeepalive, Type};

use crate::credential::{Credential, random};
use crate::engine::{Frame, Payload};
use crate::header::{Header, RequestId};
use crate::transport::tcp::greeting::{
    ANSWER_SIZE, CHALLENGE_SIZE, Greeting, read_answer, read_challenge,
};
use crate::transport::tcp::poller::Poller;

/// Buffers in one `writev`.
const VECTORS: usize = 64;
/// Payloads whose memory is kept for the next, and how large each may be, in bytes: what a receiver acknowledges at once.
const SPARE: usize = 16;
const LARGEST_SPARE: usize = 64 << 10;
/// The pause before the second try to connect; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug)]
enum Connection {
    /// None, and none is wanted.
    Idle,
    /// None; one is tried for at this time.
    Broken(Instant),
    /// Since then.
    Connecting(TcpStream, Instant),
    /// Connected, since then; the challenge, or the answer to the greeting, is awaited. Its system has accepted, so the process lives, though it
    /// may be stopped or compute.
    Greeting(TcpStream, Instant),
    Ready(TcpStream),
    /// None any more: the other process has failed, or left.
    Closed,
}

#[derive(Debug)]
struct Kept {
    header: [u8; Header::SIZE],
    frame: Frame,
}

impl Kept {
    fn length(&self) -> usize {
        Header::SIZE + self.frame.payload.bytes().len()
    }
}

#[derive(Debug)]
pub(super) struct Outgoing {
    /// Where the process may be reached, and which of them is tried.
    addresses: Vec<SocketAddr>,
    at: usize,
    greeting: Greeting,
    credential: Credential,
    /// The challenge of this connection was answered with the greeting.
    greeted: bool,
    connection: Connection,
    /// Not acknowledged, in order.
    kept: VecDeque<Kept>,
    /// Memory of payloads that were acknowledged. To free it and have it again costs more than to fill it.
    spare: Vec<Vec<u8>>,
    /// How many of them are written, and how many bytes of the next.
    written: usize,
    offset: usize,
    /// The last sequence number that was acknowledged.
    acknowledged: u64,
    /// Bytes of an answer or an acknowledgement that has not come entirely.
    partial: Vec<u8>,
    /// Since when it is out of reach; later by the time in which it was only silent.
    lost_since: Option<Instant>,
    pause: Duration,
    timeout: Duration,
    waits_for_room: bool,
}

impl Outgoing {
    pub(super) fn new(
        addresses: Vec<SocketAddr>,
        greeting: Greeting,
        credential: Credential,
        timeout: Duration,
    ) -> Self {
        Self {
            addresses,
            at: 0,
            greeting,
            credential,
            greeted: false,
            connection: Connection::Idle,
            kept: VecDeque::new(),
            spare: Vec::new(),
            written: 0,
            offset: 0,
            acknowledged: 0,
            partial: Vec::new(),
            lost_since: None,
            pause: FIRST_PAUSE,
            timeout,
            waits_for_room: false,
        }
    }

    fn token(&self) -> u64 {
        u64::from(self.greeting.to)
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.kept.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.connection, Connection::Closed)
    }

    /// Takes a frame, and writes what can be written.
    pub(super) fn send(&mut self, frame: Frame, poller: &Poller) {
        if self.is_closed() {
            return;
        }
        self.kept.push_back(Kept { header: frame.header.to_bytes(), frame });
        match self.connection {
            Connection::Ready(_) if !self.waits_for_room => self.flush(poller),
            Connection::Idle => self.connect(poller),
            _ => {}
        }
        // It is kept until it is acknowledged; its receiver has it the sooner for being copied after it was written.
        if let Some(kept) = self.kept.back_mut().filter(|kept| kept.frame.request.is_none()) {
            kept.frame.payload.detach_into(|| self.spare.pop().unwrap_or_default());
        }
    }

    /// Has a connection, though there is nothing to send: when it breaks, the other process may have died.
    pub(super) fn watch(&mut self, poller: &Poller) {
        if matches!(self.connection, Connection::Idle) {
            self.connect(poller);
        }
    }

    /// Its socket is ready for something. Requests whose frames are acknowledged go into `sent`.
    pub(super) fn ready(&mut self, poller: &Poller, sent: &mut Vec<RequestId>) {
        if let Connection::Connecting(stream, _) = &mut self.connection {
            let connected = stream.take_error().and_then(|error| error.map_or(Ok(()), Err));
            match (connected, std::mem::replace(&mut self.connection, Connection::Idle)) {
                (Ok(()), Connection::Connecting(stream, _)) => {
                    if let Err(error) = poller.modify(&stream, self.token(), false) {
                        return self.fall(&error);
                    }
                    self.connection = Connection::Greeting(stream, Instant::now());
                }
                (Err(error), _) => self.fall(&error),
                _ => {}
            }
            return;
        }
        if let Err(error) = self.read(sent) {
            return self.fall(&error);
        }
        self.flush(poller);
    }

    /// Does what it is time for; whether the other process has been out of reach for too long.
    pub(super) fn tick(&mut self, now: Instant, poller: &Poller) -> bool {
        if let Connection::Broken(at) = self.connection
            && at <= now
        {
            self.connect(poller);
        }
        if self.unanswered_at().is_some_and(|at| now >= at) {
            self.fall(&ErrorKind::TimedOut.into());
        }
        self.given_up_at().is_some_and(|at| now >= at)
    }

    /// When it is time for something.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let retry = if let Connection::Broken(at) = self.connection { Some(at) } else { None };
        [retry, self.unanswered_at(), self.given_up_at()].into_iter().flatten().min()
    }

    /// When an address that does not answer has had its share of the time: another one may.
    fn unanswered_at(&self) -> Option<Instant> {
        let (Connection::Connecting(_, since) | Connection::Greeting(_, since)) = self.connection
        else {
            return None;
        };
        let addresses = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        (addresses > 1).then(|| since + self.timeout / (addresses + 1))
    }

    fn given_up_at(&self) -> Option<Instant> {
        let silent = matches!(self.connection, Connection::Greeting(..));
        self.lost_since.filter(|_| !silent).map(|since| since + self.timeout)
    }

    /// Sends nothing any more; whether something was not acknowledged.
    pub(super) fn close(&mut self) -> bool {
        self.connection = Connection::Closed;
        self.lost_since = None;
        self.written = 0;
        !std::mem::take(&mut self.kept).is_empty()
    }

    pub(super) fn detach(&mut self, request: RequestId) {
        for kept in self.kept.iter_mut().filter(|kept| kept.frame.request == Some(request)) {
            kept.frame.payload.detach();
        }
    }

    fn connect(&mut self, poller: &Poller) {
        self.lost_since.get_or_insert_with(Instant::now);
        let address = self.addresses.get(self.at).copied();
        let address = address.ok_or_else(|| ErrorKind::AddrNotAvailable.into());
        match address.and_then(|address| dial(address, self.timeout)).and_then(|stream| {
            poller.add(&stream, self.token(), true)?;
            Ok(stream)
        }) {
            Ok(stream) => self.connection = Connection::Connecting(stream, Instant::now()),
            Err(error) => self.fall(&error),
        }
    }

    /// The connection is broken; another is tried for.
    fn fall(&mut self, error: &io::Error) {
        tracing::debug!(%error, rank = self.greeting.to, "a connection broke");
        let now = Instant::now();
        let since = self.lost_since.get_or_insert(now);
        if let Connection::Greeting(_, begun) = self.connection {
            *since += now - begun;
        }
        if matches!(self.connection, Connection::Ready(_)) {
            self.connection = Connection::Broken(now);
        } else {
            self.at = (self.at + 1) % self.addresses.len().max(1);
            self.connection = Connection::Broken(now + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        (self.written, self.offset, self.waits_for_room) = (0, 0, false);
        self.partial.clear();
        self.greeted = false;
    }

    fn read(&mut self, sent: &mut Vec<RequestId>) -> io::Result<()> {
        let mut bytes = [0; 1024];
        let (Connection::Greeting(stream, _) | Connection::Ready(stream)) = &mut self.connection
        else {
            return Ok(());
        };
        let count = match stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.partial.extend_from_slice(&bytes[..count]);
        if matches!(self.connection, Connection::Greeting(..)) {
            let Some(received) = self.greet()? else { return Ok(()) };
            self.acknowledge(received, sent);
            if let Connection::Greeting(stream, _) =
                std::mem::replace(&mut self.connection, Connection::Idle)
            {
                if self.addresses.len() > 1 {
                    let address = self.addresses[self.at];
                    tracing::info!(rank = self.greeting.to, %address, "connected");
                }
                self.connection = Connection::Ready(stream);
            }
            self.lost_since = None;
            self.pause = FIRST_PAUSE;
        }
        let whole = self.partial.len() / 8 * 8;
        if let Some(last) = self.partial[..whole].last_chunk::<8>() {
            let received = u64::from_le_bytes(*last);
            self.partial.drain(..whole);
            self.acknowledge(received, sent);
        }
        Ok(())
    }

    /// Answers the challenge; the last sequence number that the other process has, once it says it.
    fn greet(&mut self) -> io::Result<Option<u64>> {
        let stranger = || io::Error::other("it is not that process");
        let Connection::Greeting(stream, _) = &mut self.connection else { return Ok(None) };
        if !self.greeted {
            let Some(&challenge) = self.partial.first_chunk::<CHALLENGE_SIZE>() else {
                return Ok(None);
            };
            let challenge = read_challenge(challenge).ok_or_else(stranger)?;
            self.partial.drain(..CHALLENGE_SIZE);
            self.greeting.nonce = random().map_err(io::Error::other)?;
            stream.write_all(&self.greeting.to_bytes(challenge, &self.credential))?;
            self.greeted = true;
        }
        let Some(&answer) = self.partial.first_chunk::<ANSWER_SIZE>() else { return Ok(None) };
        self.partial.drain(..ANSWER_SIZE);
        let received = read_answer(answer, self.greeting.nonce, &self.credential);
        received.filter(|received| *received >= self.acknowledged).ok_or_else(stranger).map(Some)
    }

    fn acknowledge(&mut self, received: u64, sent: &mut Vec<RequestId>) {
        while self.kept.front().is_some_and(|kept| kept.frame.header.sequence <= received) {
            let Some(kept) = self.kept.pop_front() else { return };
            sent.extend(kept.frame.request);
            self.written = self.written.saturating_sub(1);
            if let Payload::Owned(memory) = kept.frame.payload
                && self.spare.len() < SPARE
                && memory.capacity() <= LARGEST_SPARE
            {
                self.spare.push(memory);
            }
        }
        self.acknowledged = self.acknowledged.max(received);
    }

    fn flush(&mut self, poller: &Poller) {
        match self.write() {
            Ok(waits) if waits != self.waits_for_room => {
                self.waits_for_room = waits;
                let Connection::Ready(stream) = &self.connection else { return };
                if let Err(error) = poller.modify(stream, self.token(), waits) {
                    self.fall(&error);
                }
            }
            Ok(_) => {}
            Err(error) => self.fall(&error),
        }
    }

    /// Writes until all is written or there is no room; whether that is waited for.
    fn write(&mut self) -> io::Result<bool> {
        let Connection::Ready(stream) = &mut self.connection else { return Ok(false) };
        while self.written < self.kept.len() {
            let mut vectors = Vec::with_capacity(VECTORS);
            let mut skip = self.offset;
            for kept in self.kept.range(self.written..).take(VECTORS / 2) {
                for part in [&kept.header[..], kept.frame.payload.bytes()] {
                    if skip < part.len() {
                        vectors.push(IoSlice::new(&part[skip..]));
                    }
                    skip = skip.saturating_sub(part.len());
                }
            }
            match stream.write_vectored(&vectors) {
                Ok(count) => self.offset += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            while let Some(kept) = self.kept.get(self.written)
                && self.offset >= kept.length()
            {
                self.offset -= kept.length();
                self.written += 1;
            }
        }
        Ok(false)
    }
}

pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Hosts that vanish are noticed by the kernel within `timeout`.
pub(super) fn watch(socket: &Socket, timeout: Duration) -> io::Result<()> {
    let part = (timeout / 4).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new().with_time(part * 2).with_interval(part).with_retries(2);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(timeout))?;
    socket.set_tcp_nodelay(true)
}

fn dial(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    watch(&socket, timeout)?;
    match socket.connect(&address.into()) {
        Err(error)
            if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            Err(error)
        }
        _ => Ok(socket.into()),
    }
}

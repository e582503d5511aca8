//! What goes to one other process: frames are kept until it acknowledges them, and repeated over the next connection when one
//! breaks. What stands around a payload, and what an acknowledgement looks like, is a [`Protocol`].

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::time::{Duration, Instant};

use crate::engine::peer::PeerState;
use crate::engine::{Engine, Frame, Payload};
use crate::header::{Header, Kind, Rank, RequestId};
use crate::status::route::printable;
use crate::status::{PeerRoute, RejectedAddress};
use crate::transport::poller::Poller;
use crate::transport::route::Route;
use crate::transport::socket::is_transient;
use crate::transport::stream::Stream;

/// Buffers in one `writev`, and of a frame.
const VECTORS: usize = 64;
const PARTS: usize = 4;
/// Bytes in one `writev`, and how many more go along if they are the last of a message. In pieces of 128 KiB a message of 1 MiB takes 1.5 times as
/// long (decision 0011 has other processors, too).
const PIECE: usize = 1 << 20;
const LAST_OF_MESSAGE: usize = PIECE / 2;
/// Payloads whose memory is kept for the next, and how large each may be, in bytes: what a receiver acknowledges at once.
const SPARE: usize = 16;
const LARGEST_SPARE: usize = 256 << 10;
/// The pause before the second try to connect; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How long one of several addresses has to come about before the next is tried; twice as long each time all were.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Of the socket of a connection, to the poller: to which rank it goes, and which of the streams to there it is, from 0.
pub(super) fn token(to: Rank, stream: u32) -> u64 {
    u64::from(stream) << 32 | u64::from(to)
}

/// The reverse.
#[expect(clippy::cast_possible_truncation, reason = "its halves")]
pub(super) fn rank_and_stream(token: u64) -> (Rank, u32) {
    (token as u32, (token >> 32) as u32)
}

/// How a sender and its receiver speak over a connection.
pub(super) trait Protocol: Debug {
    /// What stands before a payload.
    type Head: AsRef<[u8]> + Debug;

    /// Frames are written as soon as there is a connection; else once its receiver has [spoken](ReceiverStatus::confirmed).
    const SPEAKS_FIRST: bool;

    /// What stands before the payload of a frame.
    fn head(&mut self, frame: &Frame) -> Self::Head;

    /// A head whose frame was acknowledged.
    fn recycle(&mut self, _head: Self::Head) {}

    /// What stands between the head of a frame and its payload, and is passed over.
    fn padding(&self, _header: &Header) -> &'static [u8] {
        &[]
    }

    /// What stands behind each payload.
    fn tail(&self) -> &[u8] {
        &[]
    }

    /// Another connection is made.
    fn begin(&mut self) {}

    /// Reads what the receiver says, and takes what is whole out of `bytes`.
    fn hear(&mut self, stream: &mut Stream, bytes: &mut Vec<u8>) -> io::Result<ReceiverStatus>;
}

/// What a receiver said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReceiverStatus {
    /// It is the process that is meant.
    pub(super) confirmed: bool,
    /// What it has.
    pub(super) acknowledged: Acknowledged,
}

/// What a receiver has of what was not acknowledged before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Acknowledged {
    /// Nothing new.
    #[default]
    None,
    /// All up to this sequence number.
    Through(u64),
    /// So many frames, the oldest.
    Count(usize),
}

#[derive(Debug)]
enum Connection {
    /// None, and none is wanted.
    Idle,
    /// None; one is tried for at this time.
    Broken(Instant),
    /// Since then.
    Connecting(Stream, Instant),
    /// Connected, since then, and nothing was heard yet. Its system has accepted, so the process lives, though it
    /// may be stopped or compute.
    Unconfirmed(Stream, Instant),
    Ready(Stream),
    /// None any more: the other process has failed, or left.
    Closed,
}

impl Connection {
    /// Where frames are written.
    fn writable<P: Protocol>(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Ready(stream) => Some(stream),
            Self::Unconfirmed(stream, _) if P::SPEAKS_FIRST => Some(stream),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct PendingFrame<H> {
    head: H,
    padding: &'static [u8],
    frame: Frame,
}

impl<H: AsRef<[u8]>> PendingFrame<H> {
    fn parts<'a>(&'a self, tail: &'a [u8]) -> [&'a [u8]; PARTS] {
        [self.head.as_ref(), self.padding, self.frame.payload.bytes(), tail]
    }
}

#[derive(Debug)]
pub(super) struct Outgoing<P: Protocol> {
    /// How the process may be reached, and which way is tried.
    routes: Vec<Route>,
    at: usize,
    /// The way that was confirmed last.
    chosen: Option<usize>,
    /// How long there and back took when it was connected.
    round_trip: Option<Duration>,
    /// Addresses that are no ways from here.
    rejected: Vec<RejectedAddress>,
    /// Of its socket, to the poller.
    token: u64,
    protocol: P,
    connection: Connection,
    /// Not acknowledged, in order.
    kept: VecDeque<PendingFrame<P::Head>>,
    /// Memory of payloads that were acknowledged. To free it and have it again costs more than to fill it.
    spare: Vec<Vec<u8>>,
    /// How many of them are written, and how many bytes of the next.
    written: usize,
    offset: usize,
    /// Frames that were acknowledged since the beginning.
    acknowledged: u64,
    /// Eager sends whose frames wait for room, and how many frames go to there.
    delayed: VecDeque<(RequestId, u64)>,
    /// Those of them that are written, and whose requests were not told.
    carried: Vec<RequestId>,
    /// Bytes of what the receiver says that have not come entirely.
    partial: Vec<u8>,
    /// Since when it is out of reach; later by the time in which it was only silent, or nobody looked.
    lost_since: Option<Instant>,
    /// When somebody looked last, while it is out of reach.
    looked: Instant,
    pause: Duration,
    connect_timeout: Duration,
    timeout: Duration,
    waits_for_room: bool,
}

/// Does for each what it is time for; they stand in the order of the ranks to which they go.
pub(super) fn attend<P: Protocol>(
    outgoing: &mut [Outgoing<P>],
    poller: &Poller,
    engine: &mut Engine,
) {
    if outgoing.iter().all(|outgoing| outgoing.deadline().is_none()) {
        return;
    }
    let now = Instant::now();
    for (rank, outgoing) in (0..).zip(outgoing) {
        outgoing.attend(rank, now, poller, engine);
    }
}

impl<P: Protocol> Outgoing<P> {
    pub(super) fn new(
        (routes, rejected): (Vec<Route>, Vec<RejectedAddress>),
        token: u64,
        protocol: P,
        timeout: Duration,
    ) -> Self {
        Self {
            routes,
            at: 0,
            chosen: None,
            round_trip: None,
            rejected,
            token,
            protocol,
            connection: Connection::Idle,
            kept: VecDeque::new(),
            spare: Vec::new(),
            acknowledged: 0,
            delayed: VecDeque::new(),
            carried: Vec::new(),
            written: 0,
            offset: 0,
            partial: Vec::new(),
            lost_since: None,
            looked: Instant::now(),
            pause: FIRST_PAUSE,
            connect_timeout: FIRST_CONNECT_TIMEOUT,
            timeout,
            waits_for_room: false,
        }
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.kept.is_empty()
    }

    /// All but the word that we leave is acknowledged, and that is written. (What is acknowledged after this process has ended may have
    /// its system drop what it has written but not sent.)
    pub(super) fn is_written(&self) -> bool {
        let is_word = |kept: &PendingFrame<_>| kept.frame.header.kind == Kind::Leave;
        self.written == self.kept.len() && !self.waits_for_room && self.kept.iter().all(is_word)
    }

    /// Bytes that were not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.kept.iter().map(|kept| kept.frame.payload.bytes().len()).sum()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.connection, Connection::Closed)
    }

    /// Whether a frame is written as soon as it is sent, or never.
    pub(super) fn is_connected(&self) -> bool {
        match self.connection {
            Connection::Ready(_) | Connection::Closed => true,
            Connection::Unconfirmed(..) => P::SPEAKS_FIRST,
            _ => false,
        }
    }

    /// How long there and back took when it was connected.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// How `peer`, to which this goes, is reached; `None` if it was not tried.
    pub(super) fn route(&self, peer: Rank) -> Option<PeerRoute> {
        let address = self.chosen.map(|at| printable(&self.routes[at].to_string()));
        let failed = |route: &Route| {
            route.rejected.as_ref().map(|reason| RejectedAddress::new(route, reason))
        };
        let failed = self.routes.iter().filter_map(failed);
        let rejected: Vec<_> = failed.chain(self.rejected.iter().cloned()).collect();
        (address.is_some() || !rejected.is_empty()).then_some(PeerRoute { peer, address, rejected })
    }

    /// Why the process can't be spoken to, whichever way was tried: it is of another version.
    pub(super) fn refusal(&self) -> Option<&str> {
        let is_tried = self.chosen.is_none() && self.routes.iter().all(|of| of.rejected.is_some());
        let foreign = self.routes.iter().find(|route| route.is_foreign).filter(|_| is_tried);
        foreign.and_then(|route| route.rejected.as_deref())
    }

    /// Takes a frame, and writes what can be written.
    pub(super) fn send(&mut self, frame: Frame, poller: &Poller) {
        self.send_as(P::head, frame, poller);
    }

    /// The same, with a head of another kind.
    pub(super) fn send_as(
        &mut self,
        head: impl FnOnce(&mut P, &Frame) -> P::Head,
        frame: Frame,
        poller: &Poller,
    ) {
        if self.is_closed() {
            return;
        }
        let head = head(&mut self.protocol, &frame);
        let padding = self.protocol.padding(&frame.header);
        self.kept.push_back(PendingFrame { head, padding, frame });
        if self.connection.writable::<P>().is_some() {
            if !self.waits_for_room {
                self.flush(poller);
            }
        } else if matches!(self.connection, Connection::Idle) {
            self.connect(poller);
        }
        // It is kept until it is acknowledged; its receiver has it the sooner for being copied after it was written.
        if let Some(kept) = self.kept.back_mut().filter(|kept| kept.frame.request.is_none()) {
            kept.frame.payload.detach_into(|| self.spare.pop().unwrap_or_default());
        }
    }

    /// If the last frame waits for room, its eager send is complete when that is written. (Without a connection, the next one brings it.)
    pub(super) fn delay(&mut self, engine: &mut Engine) {
        if self.waits_for_room
            && let Some(kept) = self.kept.back_mut()
        {
            let request = engine.delay(&mut kept.frame);
            let frames = self.acknowledged + self.kept.len() as u64;
            self.delayed.extend(request.map(|request| (request, frames)));
        }
    }

    /// Eager sends are complete that waited for room and are among so many frames, which have found it.
    fn carry_delayed(&mut self, frames: u64) {
        while let Some((request, _)) = self.delayed.pop_front_if(|(_, last)| *last <= frames) {
            self.carried.push(request);
        }
    }

    /// Has a connection, though there is nothing to send: when it breaks, the other process may have died.
    pub(super) fn watch(&mut self, poller: &Poller) {
        if matches!(self.connection, Connection::Idle) {
            self.connect(poller);
        }
    }

    /// Its socket is ready for something. Requests whose frames are acknowledged, or written if they waited for that, go into `sent`.
    pub(super) fn ready(&mut self, poller: &Poller, sent: &mut Vec<RequestId>) {
        self.carry(poller, sent);
        sent.append(&mut self.carried);
    }

    fn carry(&mut self, poller: &Poller, sent: &mut Vec<RequestId>) {
        if self.lost_since.is_some() {
            self.look(Instant::now());
        }
        if let Connection::Connecting(stream, _) = &mut self.connection {
            let opened = stream.open().and_then(|is_open| {
                poller.modify(&*stream, self.token, stream.wants_write())?;
                Ok(is_open)
            });
            match (opened, std::mem::replace(&mut self.connection, Connection::Idle)) {
                (Ok(true), Connection::Connecting(stream, _)) => {
                    self.round_trip = stream.round_trip();
                    self.connection = Connection::Unconfirmed(stream, Instant::now());
                }
                (Ok(_), connecting) => {
                    self.connection = connecting;
                    return;
                }
                (Err(error), connecting) => {
                    self.connection = connecting;
                    return self.fall(&error);
                }
            }
        }
        if let Err(error) = self.read(sent) {
            return self.fall(&error);
        }
        self.flush(poller);
    }

    /// Does what it is time for, and tells what became of `rank`, to which this goes.
    fn attend(&mut self, rank: Rank, now: Instant, poller: &Poller, engine: &mut Engine) {
        if self.deadline().is_none() {
            return;
        }
        if engine.peer_state(rank) == PeerState::Left {
            if self.close() {
                engine.undelivered(rank);
            }
        } else if self.tick(now, poller) {
            if self.is_spare() {
                tracing::info!(rank, "there is a stream less");
                self.close();
            } else {
                engine.fail(rank);
            }
        }
    }

    /// One of several streams that has nothing to carry.
    fn is_spare(&self) -> bool {
        rank_and_stream(self.token).1 > 0 && self.kept.is_empty()
    }

    /// Does what it is time for; whether the other process has been out of reach for too long.
    fn tick(&mut self, now: Instant, poller: &Poller) -> bool {
        self.look(now);
        if let Connection::Broken(at) = self.connection
            && at <= now
        {
            self.connect(poller);
        }
        if self.unanswered_at().is_some_and(|at| now >= at) {
            let accepted = matches!(self.connection, Connection::Unconfirmed(..));
            self.fall(&io::Error::new(ErrorKind::TimedOut, "it did not answer in time"));
            if accepted {
                self.lost_since = None;
            }
        }
        self.given_up_at().is_some_and(|at| now >= at)
    }

    /// Somebody looks now. Longer than it should take nobody did: the program computed, and the other process is not to blame.
    fn look(&mut self, now: Instant) {
        let unseen = now.saturating_duration_since(self.looked).saturating_sub(self.interval());
        self.looked = now;
        // For one that is silent this is counted when its connection breaks.
        if matches!(self.connection, Connection::Unconfirmed(..)) {
            return;
        }
        if let Connection::Connecting(_, since) = &mut self.connection {
            *since += unseen;
        }
        self.lost_since = self.lost_since.map(|since| since + unseen);
    }

    /// How often who waits looks for a process that is out of reach.
    fn interval(&self) -> Duration {
        LONGEST_PAUSE.min(self.timeout / 4)
    }

    /// When it is time for something.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let retry = if let Connection::Broken(at) = self.connection { Some(at) } else { None };
        let given_up = self.given_up_at().map(|at| at.min(self.looked + self.interval()));
        [retry, self.unanswered_at(), given_up].into_iter().flatten().min()
    }

    /// When an address that does not answer has had its share of the time: another one may.
    fn unanswered_at(&self) -> Option<Instant> {
        let routes = u32::try_from(self.routes.len()).unwrap_or(u32::MAX);
        let share = self.timeout / routes.saturating_add(1);
        let at = match self.connection {
            Connection::Connecting(_, since) => since + self.connect_timeout.min(share),
            // Who was asked nothing need not answer.
            Connection::Unconfirmed(_, since) if !P::SPEAKS_FIRST || !self.kept.is_empty() => {
                since + share
            }
            _ => return None,
        };
        (routes > 1).then_some(at)
    }

    fn given_up_at(&self) -> Option<Instant> {
        let silent = matches!(self.connection, Connection::Unconfirmed(..));
        self.lost_since.filter(|_| !silent).map(|since| since + self.timeout)
    }

    /// Sends nothing any more; whether something was not acknowledged.
    pub(super) fn close(&mut self) -> bool {
        self.connection = Connection::Closed;
        self.delayed.clear();
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
        if self.lost_since.is_none() {
            self.looked = Instant::now();
            self.lost_since = Some(self.looked);
        }
        let route = self.routes.get(self.at).ok_or_else(|| ErrorKind::AddrNotAvailable.into());
        match route.and_then(|route| Stream::dial(route, self.timeout)).and_then(|stream| {
            poller.add(&stream, self.token, true)?;
            Ok(stream)
        }) {
            Ok(stream) => self.connection = Connection::Connecting(stream, Instant::now()),
            Err(error) => self.fall(&error),
        }
    }

    /// The connection is broken; another is tried for.
    fn fall(&mut self, error: &io::Error) {
        tracing::debug!(%error, rank = rank_and_stream(self.token).0, "a connection broke");
        let now = Instant::now();
        self.looked = now;
        let since = self.lost_since.get_or_insert(now);
        let mut lasted = Duration::ZERO;
        if let Connection::Unconfirmed(_, begun) = self.connection {
            lasted = now - begun;
            *since += lasted;
        }
        let is_idle = lasted >= LONGEST_PAUSE && self.kept.is_empty();
        if matches!(self.connection, Connection::Ready(_)) {
            self.connection = Connection::Broken(now);
        } else {
            if let Some(route) = self.routes.get_mut(self.at).filter(|_| !is_idle) {
                route.rejected = Some(error.to_string());
                // Not if the system says so.
                route.is_foreign =
                    error.kind() == ErrorKind::Unsupported && error.get_ref().is_some();
            }
            self.at = (self.at + 1) % self.routes.len().max(1);
            if self.at == 0 {
                self.connect_timeout = (self.connect_timeout * 2).min(self.timeout);
            }
            self.connection = Connection::Broken(now + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        if is_idle {
            // Gateways close what is idle.
            (self.connection, self.lost_since, self.pause) = (Connection::Idle, None, FIRST_PAUSE);
        }
        (self.written, self.offset, self.waits_for_room) = (0, 0, false);
        self.partial.clear();
        self.protocol.begin();
    }

    fn read(&mut self, sent: &mut Vec<RequestId>) -> io::Result<()> {
        let mut bytes = [0; 4096];
        let (Connection::Unconfirmed(stream, _) | Connection::Ready(stream)) = &mut self.connection
        else {
            return Ok(());
        };
        let before = self.partial.len();
        let ended = loop {
            match stream.read(&mut bytes) {
                Ok(0) => break Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.partial.extend_from_slice(&bytes[..count]),
                Err(error) if is_transient(&error) => break Ok(()),
                Err(error) => break Err(error),
            }
            if !stream.reads_ahead() {
                break Ok(());
            }
        };
        // What came before the end counts.
        if self.partial.len() == before {
            return ended;
        }
        let heard = self.protocol.hear(stream, &mut self.partial)?;
        if heard.confirmed {
            self.connection = match std::mem::replace(&mut self.connection, Connection::Idle) {
                Connection::Unconfirmed(stream, _) => {
                    let route = &mut self.routes[self.at];
                    route.rejected = None;
                    self.chosen = Some(self.at);
                    tracing::info!(rank = rank_and_stream(self.token).0, address = %route, "connected");
                    Connection::Ready(stream)
                }
                ready => ready,
            };
            self.lost_since = None;
            (self.pause, self.connect_timeout) = (FIRST_PAUSE, FIRST_CONNECT_TIMEOUT);
        }
        self.acknowledge(heard.acknowledged, sent)?;
        ended
    }

    fn acknowledge(&mut self, what: Acknowledged, sent: &mut Vec<RequestId>) -> io::Result<()> {
        let count = match what {
            Acknowledged::None => 0,
            Acknowledged::Count(count) if count > self.kept.len() => {
                return Err(io::Error::other("it answered what it was not asked"));
            }
            Acknowledged::Count(count) => count,
            Acknowledged::Through(received) => {
                let old = |kept: &&PendingFrame<_>| kept.frame.header.sequence <= received;
                self.kept.iter().take_while(old).count()
            }
        };
        for PendingFrame { head, frame, .. } in self.kept.drain(..count) {
            sent.extend(frame.request);
            self.protocol.recycle(head);
            if let Payload::Owned(memory) = frame.payload
                && self.spare.len() < SPARE
                && memory.capacity() <= LARGEST_SPARE
            {
                self.spare.push(memory);
            }
        }
        let is_cut_short = count > self.written && self.offset > 0;
        self.written = self.written.saturating_sub(count);
        self.acknowledged += count as u64;
        self.carry_delayed(self.acknowledged);
        if is_cut_short {
            // Its receiver reads on to the end of what it has refused; what comes next goes over another connection.
            return Err(io::Error::other("it answered before it was told all"));
        }
        Ok(())
    }

    fn flush(&mut self, poller: &Poller) {
        let written = self.write();
        // What is encrypted and has found no room is still here.
        if !self.connection.writable::<P>().is_some_and(|stream| stream.wants_write()) {
            self.carry_delayed(self.acknowledged + self.written as u64);
        }
        match written {
            Ok(waits) if waits != self.waits_for_room => {
                self.waits_for_room = waits;
                let Some(stream) = self.connection.writable::<P>() else { return };
                if let Err(error) = poller.modify(stream, self.token, waits) {
                    self.fall(&error);
                }
            }
            Ok(_) => {}
            Err(error) => self.fall(&error),
        }
    }

    /// Writes until all is written or there is no room; whether that is waited for.
    fn write(&mut self) -> io::Result<bool> {
        let Some(stream) = self.connection.writable::<P>() else { return Ok(false) };
        let tail = self.protocol.tail();
        while self.written < self.kept.len() {
            let mut vectors = Vec::with_capacity(VECTORS);
            let mut skip = self.offset;
            let mut room = PIECE;
            for kept in self.kept.range(self.written..).take(VECTORS / PARTS) {
                for part in kept.parts(tail) {
                    if skip < part.len() && room > 0 {
                        let rest = &part[skip..];
                        let is_last = rest.len() <= room + LAST_OF_MESSAGE;
                        let now = if is_last { rest } else { &rest[..room] };
                        room = room.saturating_sub(now.len());
                        vectors.push(IoSlice::new(now));
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
            while let Some(kept) = self.kept.get(self.written) {
                let length = kept.parts(tail).iter().map(|part| part.len()).sum();
                if self.offset < length {
                    break;
                }
                self.offset -= length;
                self.written += 1;
            }
        }
        match stream.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            flushed => flushed.map(|()| false),
        }
    }
}

#[cfg(test)]
mod tests;

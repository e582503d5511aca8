//! All rings of a process, and its connections.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use crate::engine::peer::PeerState;
use crate::engine::{Engine, Frame, ReceiveTarget};
use crate::error::{Error, Result};
use crate::header::{Header, Rank, RequestId};
use crate::settings::Settings;
use crate::status::PeerRoute;
use crate::transport::shared_memory::ring::{LINE, Reader, Writer, has_work, longest};
use crate::transport::shared_memory::segment::Segment;
use crate::transport::tcp::Tcp;
use crate::transport::{Transport, Waiter};

/// A part of a long payload that is shown, or made room of, before the next is copied.
const PIECE: usize = 32 << 10;
/// Bytes that are read from rings, at most, before connections are looked at, though rings have more.
const TURN: usize = 1 << 20;
/// A look at all rings is like so many bytes.
const LOOK: usize = 16 << 10;

/// Bytes of a header in a ring.
const HEAD: usize = Header::SIZE - Header::PAIR_SIZE;

/// A process's rings to and from all others of its host, and its connections, which carry what goes to other hosts.
#[derive(Debug)]
pub struct SharedMemory {
    segment: Arc<Segment>,
    /// Who has which place in the memory.
    ranks: Vec<Rank>,
    /// The reverse; `None` is on another host.
    places: Vec<Option<usize>>,
    tcp: Tcp,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    sleeper: Arc<Sleeper>,
    /// Bytes that were read from rings, and looks at them, since connections were looked at.
    read: usize,
}

#[derive(Debug)]
struct Outgoing {
    writer: Writer,
    /// Frames that found no room, and how many bytes of the first one's payload are written, if its header is.
    queue: VecDeque<Frame>,
    written: Option<usize>,
}

#[derive(Debug)]
struct Incoming {
    reader: Reader,
    /// A payload that is arriving, its length, and how much of it is here.
    arriving: Option<(ReceiveTarget, usize, usize)>,
    /// How its headers begin, which is not written.
    pair: [u8; Header::PAIR_SIZE],
}

/// How a thread sleeps.
#[derive(Debug)]
struct Sleeper {
    segment: Arc<Segment>,
    place: usize,
    connections: Arc<dyn Waiter>,
    /// Some ranks are reached over connections only.
    has_remote: bool,
    /// How many bytes were read from whom.
    read: Vec<Arc<AtomicU64>>,
    /// To whom frames wait for room.
    waits: Vec<AtomicBool>,
    /// From whom nothing is read any more.
    closed: Vec<AtomicBool>,
    /// It has slept, or is to look: connections may have something.
    woken: AtomicBool,
}

impl SharedMemory {
    /// The event of a place, for the connections of the rank that has it ([`Tcp::with_event`]).
    pub fn event(segment: &Segment, place: usize) -> Result<OwnedFd> {
        let event = segment.event(place).try_clone();
        event.map_err(|error| Error::Join { problem: error.to_string() })
    }

    /// For the rank with this place in the memory of `ranks`, with connections that have its event.
    ///
    /// # Panics
    /// The memory is of more or fewer ranks.
    pub fn new(segment: Arc<Segment>, ranks: Vec<Rank>, place: usize, tcp: Tcp) -> Self {
        let count = segment.ranks();
        assert_eq!(ranks.len(), count, "a rank for each place");
        let outgoing = (0..count).map(|to| Outgoing {
            writer: Writer::new(place, to),
            queue: VecDeque::new(),
            written: None,
        });
        let incoming: Vec<_> = (0..count)
            .map(|from| {
                let pair = Header::pair(tcp.domain(), ranks[from], ranks[place]);
                Incoming { reader: Reader::new(from, place), arriving: None, pair }
            })
            .collect();
        let sleeper = Sleeper {
            segment: segment.clone(),
            place,
            connections: tcp.waiter(),
            has_remote: count < tcp.size(),
            read: incoming.iter().map(|one| one.reader.position()).collect(),
            waits: (0..count).map(|_| AtomicBool::new(false)).collect(),
            closed: (0..count).map(|peer| AtomicBool::new(peer == place)).collect(),
            woken: AtomicBool::new(false),
        };
        let place_of = |rank| ranks.iter().position(|&of| of == rank);
        Self {
            places: (0..).take(tcp.size()).map(place_of).collect(),
            ranks,
            tcp,
            outgoing: outgoing.collect(),
            incoming,
            sleeper: Arc::new(sleeper),
            segment,
            read: 0,
        }
    }

    fn place(&self, rank: Rank) -> Option<usize> {
        self.places.get(rank as usize).copied().flatten()
    }

    /// Writes what there is room for; whether that was anything.
    fn flush(&mut self, to: usize, engine: &mut Engine) -> bool {
        let segment = &self.segment;
        let Outgoing { writer, queue, written } = &mut self.outgoing[to];
        let mut moved = false;
        while let Some(frame) = queue.front() {
            let bytes = frame.header.to_bytes();
            let payload = frame.payload.bytes();
            loop {
                let head = if written.is_none() { &bytes[Header::PAIR_SIZE..] } else { &[] };
                let rest = &payload[written.unwrap_or(0)..];
                if let Some(count) = writer.write(segment, head, &rest[..rest.len().min(PIECE)]) {
                    moved = true;
                    *written = Some(written.unwrap_or(0) + count);
                    if count == rest.len() {
                        break;
                    }
                    segment.wake(to);
                    continue;
                }
                // Before the reader is told, because a thread that is about to sleep may look in between.
                self.sleeper.waits[to].store(true, Ordering::Relaxed);
                if !writer.starve(segment, head.len().max(1)) {
                    segment.wake(to);
                    return moved;
                }
            }
            *written = None;
            if let Some(request) = queue.pop_front().and_then(|frame| frame.request) {
                engine.sent(request);
            }
        }
        segment.wake(to);
        self.sleeper.waits[to].store(false, Ordering::Relaxed);
        moved
    }

    /// Reads what is there; how many bytes that was.
    fn read(&mut self, from: usize, engine: &mut Engine) -> Result<usize> {
        let segment = &self.segment;
        let Incoming { reader, arriving, pair } = &mut self.incoming[from];
        let wrong = |problem| Error::Protocol { from: self.ranks[from], problem };
        let mut read = 0;
        while read < TURN {
            let length = reader.next(segment);
            let length = length.ok_or_else(|| wrong("it wrote more than there is room for"))?;
            if length == 0 {
                break;
            }
            let mut offset = 0;
            let (mut target, whole, arrived) = match arriving.take() {
                Some(arriving) => arriving,
                None => {
                    offset = HEAD;
                    if length < HEAD {
                        return Err(wrong("it wrote less than a header"));
                    }
                    let mut bytes = [0; Header::SIZE];
                    bytes[..Header::PAIR_SIZE].copy_from_slice(pair);
                    reader.copy(segment, 0, &mut bytes[Header::PAIR_SIZE..]);
                    let header = Header::from_bytes(&bytes);
                    let header = header.ok_or_else(|| wrong("it wrote no header of its own"))?;
                    let whole = usize::try_from(header.payload_length())
                        .map_err(|_| wrong("it sent too much at once"))?;
                    (engine.begin(header)?, whole, 0)
                }
            };
            let count = length - offset;
            if count > whole - arrived {
                return Err(wrong("it wrote more than its header says"));
            }
            if let Some(rest) = target.rest(arrived) {
                reader.copy(segment, offset, &mut rest[..count]);
            }
            reader.advance(length);
            read += length;
            if arrived + count == whole {
                engine.finish(target)?;
            } else {
                *arriving = Some((target, whole, arrived + count));
            }
            if reader.release(segment) {
                segment.wake(from);
            }
        }
        if reader.release(segment) {
            segment.wake(from);
        }
        Ok(read)
    }
}

impl Transport for SharedMemory {
    fn send(&mut self, frame: Frame, engine: &mut Engine) {
        let rank = frame.header.to;
        let Some(to) = self.place(rank) else { return self.tcp.send(frame, engine) };
        if engine.peer_state(rank) == PeerState::Left {
            return engine.undelivered(rank);
        }
        let waited = !self.outgoing[to].queue.is_empty();
        self.outgoing[to].queue.push_back(frame);
        if !waited {
            self.flush(to, engine);
        }
        if let Some(frame) = self.outgoing[to].queue.back_mut().filter(|one| one.request.is_none())
        {
            frame.request = engine.delay(frame);
            if frame.request.is_none() {
                frame.payload.detach();
            }
        }
    }

    fn progress(&mut self, engine: &mut Engine) -> bool {
        let mut moved = false;
        for peer in 0..self.incoming.len() {
            if self.sleeper.closed[peer].load(Ordering::Relaxed) {
                continue;
            }
            let rank = self.ranks[peer];
            match self.read(peer, engine) {
                Ok(read) => {
                    moved |= read > 0;
                    self.read += read;
                }
                Err(error) => {
                    tracing::warn!(%error, rank, "a rank is given up");
                    engine.fail(rank);
                }
            }
            if !self.outgoing[peer].queue.is_empty() {
                if engine.peer_state(rank) == PeerState::Left {
                    self.outgoing[peer].queue.clear();
                    self.sleeper.waits[peer].store(false, Ordering::Relaxed);
                    engine.undelivered(rank);
                } else {
                    moved |= self.flush(peer, engine);
                }
            }
        }
        self.read += LOOK;
        let woken = &self.sleeper.woken;
        let woken = woken.load(Ordering::Relaxed) && woken.swap(false, Ordering::Relaxed);
        let may_have_messages = self.sleeper.has_remote && !moved;
        if woken || may_have_messages || self.read >= TURN {
            self.read = 0;
            moved |= self.tcp.progress(engine);
        }
        moved
    }

    fn eager_limit(&self, to: Rank, settings: &Settings) -> usize {
        match self.place(to) {
            // Of two one has room while the other is read.
            Some(_) => {
                let half = longest(&self.segment) / 2 - HEAD - LINE;
                settings.shared_memory_eager_limit.min(half)
            }
            None => self.tcp.eager_limit(to, settings),
        }
    }

    fn is_connected(&self) -> bool {
        !self.sleeper.has_remote || self.tcp.is_connected()
    }

    fn refusal(&self) -> Option<(Rank, String)> {
        self.tcp.refusal()
    }

    fn routes(&self) -> Vec<PeerRoute> {
        let own = self.ranks[self.sleeper.place];
        let near = self.ranks.iter().filter(|rank| **rank != own);
        let memory = Some("memory".to_owned());
        let near = near.map(|&peer| PeerRoute { peer, address: memory.clone(), rejected: vec![] });
        let far = self.tcp.routes().into_iter().filter(|route| self.place(route.peer).is_none());
        let mut all: Vec<_> = near.chain(far).collect();
        all.sort_by_key(|route| route.peer);
        all
    }

    fn watch(&mut self) {
        self.tcp.watch();
        self.sleeper.woken.store(true, Ordering::Relaxed);
    }

    fn detach(&mut self, request: RequestId) {
        let queued = self.outgoing.iter_mut().flat_map(|outgoing| &mut outgoing.queue);
        for frame in queued.filter(|frame| frame.request == Some(request)) {
            frame.payload.detach();
        }
        for (target, ..) in self.incoming.iter_mut().filter_map(|one| one.arriving.as_mut()) {
            target.detach(request);
        }
        self.tcp.detach(request);
    }

    fn disconnect(&mut self, rank: Rank) {
        if let Some(peer) = self.place(rank) {
            self.outgoing[peer].queue.clear();
            self.sleeper.waits[peer].store(false, Ordering::Relaxed);
            self.incoming[peer].arriving = None;
            self.sleeper.closed[peer].store(true, Ordering::Relaxed);
        }
        self.tcp.disconnect(rank);
    }

    fn is_flushed(&self) -> bool {
        self.outgoing.iter().all(|outgoing| outgoing.queue.is_empty()) && self.tcp.is_flushed()
    }

    fn is_written(&self) -> bool {
        self.outgoing.iter().all(|outgoing| outgoing.queue.is_empty()) && self.tcp.is_written()
    }

    fn deadline(&self) -> Option<Instant> {
        self.tcp.deadline()
    }

    fn waiter(&self) -> Arc<dyn Waiter> {
        self.sleeper.clone()
    }
}

impl Sleeper {
    /// Whether a ring has something to read, or room for what waits.
    fn has_work(&self) -> bool {
        let segment = &self.segment;
        let open = |peer: &usize| !self.closed[*peer].load(Ordering::Relaxed);
        (0..segment.ranks()).filter(open).any(|peer| {
            has_work(segment, peer, self.place, &self.read[peer])
                || self.waits[peer].load(Ordering::Relaxed)
                    && segment.starved(self.place, peer).load(Ordering::Relaxed) == 0
        })
    }
}

impl Waiter for Sleeper {
    fn wait(&self, timeout: Option<Duration>) {
        let sleeping = self.segment.sleeping(self.place);
        sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.has_work() {
            self.connections.wait(timeout);
        }
        sleeping.store(0, Ordering::Relaxed);
        self.woken.store(true, Ordering::Relaxed);
    }

    fn wake(&self) {
        self.connections.wake();
    }

    fn is_idle(&self) -> bool {
        !self.has_remote && !self.woken.load(Ordering::Relaxed) && !self.has_work()
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "requests use memory that the test keeps")]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::buffer::SendBuffer;
    use crate::credential::Credential;
    use crate::engine::SendArguments;
    use crate::header::{Context, DomainId, Mode};

    const DOMAIN: DomainId = DomainId::from_bytes([7; 16]);

    /// Ranks 0 and 1 share memory, and 2 is on another host.
    fn ranks(settings: &Settings) -> Vec<(Engine, Box<dyn Transport>)> {
        let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<_> = listeners.iter().map(|at| at.local_addr().unwrap()).collect();
        let addresses: Vec<_> = addresses
            .iter()
            .map(|at| crate::launch::rendezvous::Address::of_sockets(&[*at]))
            .collect();
        let descriptors = Segment::create(2).unwrap();
        let rank = |(rank, listener): (u32, TcpListener)| {
            let copies = descriptors.iter().map(|of| of.try_clone().unwrap()).collect();
            let segment = Arc::new(Segment::open(copies, 2).unwrap());
            let place = rank as usize;
            let event = (rank < 2).then(|| SharedMemory::event(&segment, place).unwrap());
            let credential = Credential::from_bytes([3; 32]);
            let tcp =
                Tcp::with_event(DOMAIN, credential, rank, listener, &addresses, settings, event);
            let tcp = tcp.unwrap();
            let transport: Box<dyn Transport> = if rank < 2 {
                Box::new(SharedMemory::new(segment, vec![0, 1], place, tcp))
            } else {
                Box::new(tcp)
            };
            (Engine::new(DOMAIN, rank, 3, settings), transport)
        };
        (0..).zip(listeners).map(rank).collect()
    }

    fn send(engine: &mut Engine, transport: &mut dyn Transport, bytes: &[u8]) {
        // SAFETY: what is not carried at once is copied.
        let buffer = unsafe { SendBuffer::from_raw(bytes.as_ptr(), bytes.len()) };
        let arguments =
            SendArguments { to: 0, context: Context::WORLD, tag: 0, mode: Mode::Buffered };
        engine.send(arguments, buffer);
        while let Some(frame) = engine.next_frame() {
            transport.send(frame, engine);
        }
    }

    #[test]
    fn connections_have_their_turn_though_rings_are_busy() {
        const MESSAGE: usize = 60_000;
        let settings = Settings { unexpected_memory: 1 << 30, ..Settings::default() };
        let mut ranks = ranks(&settings);
        while !ranks.iter().all(|(_, transport)| transport.is_connected()) {
            for (engine, transport) in &mut ranks {
                transport.watch();
                transport.progress(engine);
            }
        }
        let [(near, rings), (sender, sending), (far, connections)] = &mut ranks[..] else {
            unreachable!("there are three")
        };
        while rings.progress(near) {}
        send(far, &mut **connections, b"from far");
        let mut read = 0;
        while near.begun(2) == 0 {
            send(sender, &mut **sending, &[1; MESSAGE]);
            rings.progress(near);
            read += MESSAGE;
        }
        assert!(read <= TURN + MESSAGE, "after {read} bytes");
    }
}

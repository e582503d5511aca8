//! All connections of a process.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use socket2::SockRef;

use crate::credential::{Credential, random};
use crate::engine::peer::PeerState;
use crate::engine::record::bytes;
use crate::engine::{Engine, Frame};
use crate::error::{Error, Result};
use crate::header::{DomainId, Header, Kind, Rank, RequestId};
use crate::launch::rendezvous::Address;
use crate::settings::{MOST_STREAMS, Settings};
use crate::status::PeerRoute;
use crate::transport::outgoing::{Outgoing, attend, rank_and_stream, token};
use crate::transport::poller::Poller;
use crate::transport::route::Routes;
use crate::transport::socket::{is_transient, watch};
use crate::transport::tcp::greeting::Greeting;
use crate::transport::tcp::incoming::{CloseReason, Incoming, Progress};
use crate::transport::tcp::outgoing::Sender;
use crate::transport::{Transport, Waiter};

/// Tokens below are of outgoing connections; from here on, incoming ones.
const INCOMING: u64 = 1 << 40;
const LISTENER: u64 = u64::MAX - 1;

/// A process's connections to all others.
#[derive(Debug)]
pub struct Tcp {
    domain: DomainId,
    credential: Credential,
    rank: Rank,
    poller: Arc<Poller>,
    listener: TcpListener,
    /// The first streams to all ranks, by rank; then the second ones, and so on.
    outgoing: Vec<Outgoing<Sender>>,
    ranks: usize,
    incoming: Vec<Option<Incoming>>,
    /// Those of them that have not greeted.
    strangers: usize,
    senders: Vec<Origin>,
    settings: Settings,
    ready: Vec<u64>,
    sent: Vec<RequestId>,
}

/// What is known of a rank as a sender.
#[derive(Debug, Default)]
struct Origin {
    /// Its instance, once it has greeted.
    instance: Option<u64>,
    /// Of its streams.
    streams: Vec<Progress>,
}

impl Tcp {
    /// For `rank`, which others reach at `listener`, of a domain whose ranks listen at `addresses`. Nobody gets a connection
    /// without `credential`, which is the same at all of them.
    pub fn new(
        domain: DomainId,
        credential: Credential,
        rank: Rank,
        listener: TcpListener,
        addresses: &[SocketAddr],
        settings: &Settings,
    ) -> Result<Self> {
        let addresses: Vec<_> =
            addresses.iter().map(|&address| Address::of_sockets(&[address])).collect();
        Self::with_event(domain, credential, rank, listener, &addresses, settings, None)
    }

    /// The same with addresses as the rendezvous tells them; a thread that sleeps is woken by this
    /// event too, an `eventfd` that is non-blocking.
    pub fn with_event(
        domain: DomainId,
        credential: Credential,
        rank: Rank,
        listener: TcpListener,
        addresses: &[Address],
        settings: &Settings,
        event: Option<OwnedFd>,
    ) -> Result<Self> {
        let join = |error: std::io::Error| Error::Join { problem: error.to_string() };
        listener.set_nonblocking(true).map_err(join)?;
        let poller = Poller::new(event).map_err(join)?;
        poller.add(&listener, LISTENER, false).map_err(join)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let instance = u64::from(now.subsec_nanos()) << 32 | u64::from(std::process::id());
        let routes = Routes::new(domain, &credential, settings);
        let routes = (0..).zip(addresses).map(|(to, address)| routes.to(to, address));
        let routes = routes.collect::<Result<Vec<_>>>()?;
        let most = (0..).take(routes.len()).map(|to| settings.streams(rank, to)).max();
        let streams = 0..u32::try_from(most.unwrap_or(1)).unwrap_or(1);
        let outgoing = streams.flat_map(|stream| {
            (0..).zip(&routes).map(move |(to, routes)| {
                let greeting =
                    Greeting { domain, from: rank, to, stream, instance, nonce: [0; 16] };
                (greeting, token(to, stream), routes.clone())
            })
        });
        let outgoing = outgoing.map(|(greeting, token, routes)| {
            let sender = Sender::new(greeting, credential.clone());
            Outgoing::new(routes, token, sender, settings.peer_timeout)
        });
        let outgoing = outgoing.collect();
        Ok(Self {
            domain,
            credential,
            rank,
            poller: Arc::new(poller),
            listener,
            outgoing,
            ranks: addresses.len(),
            incoming: Vec::new(),
            strangers: 0,
            senders: addresses.iter().map(|_| Origin::default()).collect(),
            settings: settings.clone(),
            ready: Vec::new(),
            sent: Vec::new(),
        })
    }

    /// The domain.
    pub(in crate::transport) fn domain(&self) -> DomainId {
        self.domain
    }

    /// How many ranks the domain has.
    pub(in crate::transport) fn size(&self) -> usize {
        self.ranks
    }

    /// Streams to a rank, the first first.
    fn streams(&self, to: Rank) -> impl Iterator<Item = usize> + use<> {
        (to as usize..self.outgoing.len()).step_by(self.ranks)
    }

    /// Those beside the first that can carry something.
    fn connected(&self, to: Rank) -> impl Iterator<Item = usize> {
        let is_open = |at: &usize| {
            let outgoing = &self.outgoing[*at];
            outgoing.is_connected() && !outgoing.is_closed()
        };
        self.streams(to).skip(1).filter(is_open)
    }

    /// Which stream carries a frame. The first carries all but what follows the first part of a message: that goes over the one with the
    /// least to carry. (So whoever leaves says so behind all that is whole.) The others are connected when there is a long message.
    fn stream_for(&mut self, header: &Header) -> usize {
        let first = header.to as usize;
        match header.kind {
            Kind::Data if header.offset() > 0 => {
                let load = |at: &usize| self.outgoing[*at].unacknowledged();
                self.connected(header.to).min_by_key(load).unwrap_or(first)
            }
            Kind::RequestToSend if bytes(header.length) > self.settings.stream_bytes => {
                for at in self.streams(header.to).take(self.settings.streams(self.rank, header.to))
                {
                    self.outgoing[at].watch(&self.poller);
                }
                first
            }
            _ => first,
        }
    }

    fn accept(&mut self, engine: &mut Engine) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if is_transient(&error) => return,
                Err(error) => return tracing::warn!(%error, "a connection can't be accepted"),
            };
            let free = self.incoming.iter().position(Option::is_none);
            let at = free.unwrap_or(self.incoming.len());
            let token = INCOMING + at as u64;
            let watched = stream
                .set_nonblocking(true)
                .and_then(|()| watch(&SockRef::from(&stream), self.settings.peer_timeout))
                .and_then(|()| self.poller.add(&stream, token, false))
                .and_then(|()| Incoming::new(stream, random().map_err(std::io::Error::other)?));
            match (watched, free) {
                (Err(error), _) => {
                    tracing::debug!(%error, "a connection broke");
                    continue;
                }
                (Ok(incoming), Some(at)) => self.incoming[at] = Some(incoming),
                (Ok(incoming), None) => self.incoming.push(Some(incoming)),
            }
            self.strangers += 1;
            let most = self.senders.len().saturating_add(self.settings.unauthenticated_connections);
            if self.strangers > most
                && let Some((_, oldest)) = self.strangers().min()
            {
                self.end_stranger(oldest, engine);
            }
        }
    }

    /// Connections that have not greeted: since when, and where.
    fn strangers(&self) -> impl Iterator<Item = (Instant, usize)> {
        let all = self.incoming.iter().enumerate();
        all.filter_map(|(at, one)| Some((one.as_ref().filter(|one| one.peer.is_none())?.begun, at)))
    }

    /// When the first of them has had its time.
    fn strangers_end(&self) -> Option<Instant> {
        if self.strangers == 0 {
            return None;
        }
        self.strangers().min().map(|(begun, _)| begun + self.settings.authentication_timeout)
    }

    /// Ends one, unless its greeting is there by now: this process may have been stopped.
    fn end_stranger(&mut self, at: usize, engine: &mut Engine) {
        self.read(at, engine);
        if self.incoming[at].as_ref().is_some_and(|one| one.peer.is_none()) {
            tracing::debug!("a connection has not greeted in time");
            self.incoming[at] = None;
            self.strangers -= 1;
        }
    }

    fn read(&mut self, at: usize, engine: &mut Engine) {
        let Some(mut incoming) = self.incoming.get_mut(at).and_then(Option::take) else { return };
        let waited = incoming.waits_for_room();
        let was_stranger = incoming.peer.is_none();
        let read = self.advance(&mut incoming, engine);
        let waits = incoming.waits_for_room();
        let read = read.and_then(|()| {
            if waits == waited {
                return Ok(());
            }
            Ok(self.poller.modify(incoming.stream(), INCOMING + at as u64, waits)?)
        });
        if was_stranger && (read.is_err() || incoming.peer.is_some()) {
            self.strangers -= 1;
        }
        let Err(end) = read else {
            self.incoming[at] = Some(incoming);
            return;
        };
        let peer = incoming.peer;
        if let Some(peer) = peer {
            self.keep_interrupted(peer, incoming);
        }
        match (end, peer.map(|(rank, _)| rank)) {
            (CloseReason::Protocol(error), Some(peer)) => {
                tracing::warn!(%error, rank = peer, "a rank is given up");
                engine.fail(peer);
            }
            // If its sender died, our own connection to it breaks too.
            (CloseReason::Broken(error), Some(peer)) => {
                tracing::debug!(%error, rank = peer, "a connection broke");
            }
            (end, None) => tracing::debug!(?end, "a connection without a greeting ended"),
        }
    }

    fn advance(
        &mut self,
        incoming: &mut Incoming,
        engine: &mut Engine,
    ) -> std::result::Result<(), CloseReason> {
        if incoming.peer.is_none() {
            let Some(greeting) = incoming.greeting(&self.credential)? else { return Ok(()) };
            let from = greeting.from as usize;
            let stranger = greeting.domain != self.domain
                || greeting.to != self.rank
                || from >= self.senders.len()
                || greeting.stream as usize >= MOST_STREAMS;
            if stranger || engine.peer_state(greeting.from) != PeerState::Alive {
                return Err(CloseReason::Broken(std::io::Error::other(
                    "it is of another domain, or was given up",
                )));
            }
            let sender = &mut self.senders[from];
            let instance = *sender.instance.get_or_insert(greeting.instance);
            if instance != greeting.instance {
                engine.fail(greeting.from);
                return Err(CloseReason::Broken(std::io::Error::other(
                    "another process took its rank's place",
                )));
            }
            let stream = greeting.stream as usize;
            if sender.streams.len() <= stream {
                sender.streams.resize_with(stream + 1, Progress::default);
            }
            self.end_incoming((greeting.from, greeting.stream));
            let received = self.senders[from].streams[stream].received;
            incoming.welcome(&greeting, received, &self.credential)?;
        }
        incoming.write_acknowledgements()?;
        let Some((peer, stream)) = incoming.peer else { return Ok(()) };
        incoming.read(&mut self.senders[peer as usize].streams[stream as usize], engine)
    }

    /// Ends the connection of a rank's stream, if there is one.
    fn end_incoming(&mut self, peer: (Rank, u32)) {
        let old = self
            .incoming
            .iter_mut()
            .find(|slot| slot.as_ref().is_some_and(|old| old.peer == Some(peer)));
        if let Some(old) = old.and_then(Option::take) {
            self.keep_interrupted(peer, old);
        }
    }

    /// What was arriving over a connection that ended comes again over the next.
    fn keep_interrupted(&mut self, (peer, stream): (Rank, u32), incoming: Incoming) {
        if let Some(target) = incoming.into_interrupted() {
            self.senders[peer as usize].streams[stream as usize].interrupted = Some(target);
        }
    }
}

impl Transport for Tcp {
    fn send(&mut self, frame: Frame, engine: &mut Engine) {
        let to = frame.header.to;
        let stream = self.stream_for(&frame.header);
        let outgoing = &mut self.outgoing[stream];
        outgoing.send(frame, &self.poller);
        outgoing.delay(engine);
        if outgoing.is_closed() && engine.peer_state(to) == PeerState::Left {
            engine.undelivered(to);
        }
    }

    fn progress(&mut self, engine: &mut Engine) -> bool {
        let mut ready = std::mem::take(&mut self.ready);
        self.poller.ready(&mut ready);
        let any = !ready.is_empty();
        for token in ready.drain(..) {
            match token {
                LISTENER => self.accept(engine),
                INCOMING.. => {
                    self.read(usize::try_from(token - INCOMING).unwrap_or(usize::MAX), engine);
                }
                token => {
                    let (rank, stream) = rank_and_stream(token);
                    let at = stream as usize * self.ranks + rank as usize;
                    let Some(outgoing) = self.outgoing.get_mut(at) else { continue };
                    outgoing.ready(&self.poller, &mut self.sent);
                    let round_trip = outgoing.round_trip();
                    self.sent.drain(..).for_each(|request| engine.sent(request));
                    if self.settings.are_distant(self.rank, rank, round_trip) {
                        engine.raise_eager_limit(rank, self.settings.distant_eager_limit);
                    }
                    if stream > 0 {
                        engine.set_streams(rank, 1 + self.connected(rank).count());
                    }
                }
            }
        }
        self.ready = ready;
        for streams in self.outgoing.chunks_mut(self.ranks.max(1)) {
            attend(streams, &self.poller, engine);
        }
        while let Some(end) = self.strangers_end()
            && end <= Instant::now()
            && let Some((_, oldest)) = self.strangers().min()
        {
            self.end_stranger(oldest, engine);
        }
        any
    }

    fn watch(&mut self) {
        for (rank, outgoing) in (0..).zip(&mut self.outgoing[..self.ranks]) {
            if rank != self.rank {
                outgoing.watch(&self.poller);
            }
        }
    }

    fn is_connected(&self) -> bool {
        (0..).zip(self.outgoing.iter().zip(&self.senders)).all(|(rank, (outgoing, sender))| {
            let has_greeted = sender.instance.is_some() || outgoing.is_closed();
            rank == self.rank || outgoing.is_connected() && has_greeted
        })
    }

    fn refusal(&self) -> Option<(Rank, String)> {
        let refused = |(rank, of): (Rank, &Outgoing<_>)| Some((rank, of.refusal()?.to_owned()));
        (0..).zip(&self.outgoing[..self.ranks]).find_map(refused)
    }

    fn routes(&self) -> Vec<PeerRoute> {
        let first = (0..).zip(&self.outgoing[..self.ranks]);
        first.filter_map(|(rank, outgoing)| outgoing.route(rank)).collect()
    }

    fn detach(&mut self, request: RequestId) {
        self.outgoing.iter_mut().for_each(|outgoing| outgoing.detach(request));
        let arriving = self.incoming.iter_mut().flatten().filter_map(Incoming::target);
        let streams = self.senders.iter_mut().flat_map(|sender| &mut sender.streams);
        let interrupted = streams.filter_map(|stream| stream.interrupted.as_mut());
        arriving.chain(interrupted).for_each(|target| target.detach(request));
    }

    fn disconnect(&mut self, rank: Rank) {
        for at in self.streams(rank) {
            self.outgoing[at].close();
        }
        let of_rank = |one: &Incoming| one.peer.is_some_and(|(peer, _)| peer == rank);
        for slot in self.incoming.iter_mut().filter(|slot| slot.as_ref().is_some_and(of_rank)) {
            *slot = None;
        }
        for stream in &mut self.senders[rank as usize].streams {
            stream.interrupted = None;
        }
    }

    fn is_flushed(&self) -> bool {
        self.outgoing.iter().all(Outgoing::is_flushed)
    }

    fn is_written(&self) -> bool {
        self.outgoing.iter().all(Outgoing::is_written)
    }

    fn deadline(&self) -> Option<Instant> {
        self.outgoing.iter().filter_map(Outgoing::deadline).chain(self.strangers_end()).min()
    }

    fn waiter(&self) -> Arc<dyn Waiter> {
        self.poller.clone()
    }
}

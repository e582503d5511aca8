//! All connections of a rank.

use std::sync::Arc;
use std::time::Instant;

use crate::collective::broadcast::{parent_bit, real, relative};
use crate::credential::Credential;
use crate::engine::peer::PeerState;
use crate::engine::{Engine, Frame};
use crate::error::{Error, Result};
use crate::header::{DomainId, Rank, RequestId};
use crate::launch::rendezvous::Address;
use crate::settings::Settings;
use crate::status::PeerRoute;
use crate::transport::outgoing::{Outgoing, attend, rank_and_stream};
use crate::transport::poller::Poller;
use crate::transport::route::Routes;
use crate::transport::soap::broadcasts::Broadcasts;
use crate::transport::soap::endpoint::{Endpoint, Inbox};
use crate::transport::soap::incoming::{CloseReason, Incoming};
use crate::transport::soap::outgoing::Sender;
use crate::transport::soap::reception::Reception;
use crate::transport::url::Url;
use crate::transport::{Transport, Waiter};

/// Tokens below are ranks' outgoing connections; from here on, incoming ones.
const INCOMING: u64 = 1 << 32;
const ENDPOINT: u64 = u64::MAX - 1;

/// A rank's connections to all others and from them, and from clients.
pub struct Soap {
    endpoint: Arc<Endpoint>,
    inbox: Arc<Inbox>,
    poller: Arc<Poller>,
    outgoing: Vec<Outgoing<Sender>>,
    incoming: Vec<Option<Incoming>>,
    /// Those of them over which nobody has shown the credential.
    strangers: usize,
    settings: Settings,
    reception: Reception,
    broadcasts: Broadcasts,
    ready: Vec<u64>,
    sent: Vec<RequestId>,
}

impl Soap {
    /// For `rank`, which others reach at `endpoint`, of a domain whose ranks are at `addresses`. Nobody stores anything without
    /// `credential`, which is the same at all of them.
    pub fn new(
        domain: DomainId,
        credential: Credential,
        rank: Rank,
        endpoint: Arc<Endpoint>,
        addresses: &[Address],
        settings: &Settings,
    ) -> Result<Self> {
        let join = |error: std::io::Error| Error::Join { problem: error.to_string() };
        let routes = Routes::new(domain, &credential, settings);
        let outgoing = (0..).zip(addresses).map(|(to, address)| {
            let routes = routes.to(to, address)?;
            let sender = Sender::new(domain, to, &Url::of(address)?, &credential)?;
            Ok(Outgoing::new(routes, u64::from(to), sender, settings.peer_timeout))
        });
        let outgoing = outgoing.collect::<Result<_>>()?;
        let poller = Arc::new(Poller::new(None).map_err(join)?);
        poller.add(endpoint.poller(), ENDPOINT, false).map_err(join)?;
        let inbox = endpoint.join(domain, rank, addresses.len(), poller.clone())?;
        Ok(Self {
            endpoint,
            inbox,
            poller,
            outgoing,
            incoming: Vec::new(),
            strangers: 0,
            settings: settings.clone(),
            reception: Reception::new(domain, rank, credential, settings),
            broadcasts: Broadcasts::default(),
            ready: Vec::new(),
            sent: Vec::new(),
        })
    }

    /// Takes connections that the endpoint has for this rank; whether there were any.
    fn admit(&mut self, engine: &mut Engine) -> bool {
        let connections = self.inbox.take();
        let any = !connections.is_empty();
        for (stream, begun) in connections {
            let free = self.incoming.iter().position(Option::is_none);
            let at = free.unwrap_or(self.incoming.len());
            if let Err(error) = self.poller.add(&stream, INCOMING + at as u64, false) {
                tracing::debug!(%error, "a connection broke");
                continue;
            }
            if free.is_none() {
                self.incoming.push(None);
            }
            self.incoming[at] = Some(Incoming::new(stream, &begun));
            self.strangers += 1;
            self.read(at, engine);
        }
        any
    }

    /// Connections of strangers: since when, and where.
    fn strangers(&self) -> impl Iterator<Item = (Instant, usize)> {
        let all = self.incoming.iter().enumerate();
        all.filter_map(|(at, one)| Some((one.as_ref()?.stranger_since()?, at)))
    }

    /// When the first of them has had its time.
    fn strangers_end(&self) -> Option<Instant> {
        if self.strangers == 0 {
            return None;
        }
        self.strangers().min().map(|(begun, _)| begun + self.settings.authentication_timeout)
    }

    /// Ends strangers who are too many or have had their time, unless they show the credential now.
    fn end_strangers(&mut self, engine: &mut Engine) {
        let most = self.outgoing.len().saturating_add(self.settings.unauthenticated_connections);
        while self.strangers > most || self.strangers_end().is_some_and(|end| end <= Instant::now())
        {
            let Some((_, at)) = self.strangers().min() else { return };
            self.read(at, engine);
            if self.incoming[at].take_if(|one| one.stranger_since().is_some()).is_some() {
                tracing::debug!("nobody has shown the credential in time");
                self.strangers -= 1;
            }
        }
    }

    fn read(&mut self, at: usize, engine: &mut Engine) {
        let Some(mut incoming) = self.incoming.get_mut(at).and_then(Option::take) else { return };
        let waited = incoming.waits_for_room();
        let was_stranger = incoming.stranger_since().is_some();
        let read = incoming.read(&mut self.reception, &mut self.incoming, &self.endpoint, engine);
        let waits = incoming.waits_for_room();
        let read = read.and_then(|()| {
            if waits == waited {
                return Ok(());
            }
            Ok(self.poller.modify(incoming.stream(), INCOMING + at as u64, waits)?)
        });
        if was_stranger && (read.is_err() || incoming.stranger_since().is_none()) {
            self.strangers -= 1;
        }
        let Err(end) = read else {
            self.incoming[at] = Some(incoming);
            return;
        };
        match end {
            CloseReason::Elsewhere(domain, rank) => {
                let (stream, bytes) = incoming.into_parts();
                if self.poller.remove(&stream).is_ok() {
                    self.endpoint.hand_over((domain, rank), stream, bytes);
                }
                return;
            }
            CloseReason::Protocol(error) => {
                tracing::warn!(%error, "a rank is given up");
                if let Error::Protocol { from, .. } = error {
                    engine.fail(from);
                }
            }
            // If its sender died, our own connection to it breaks too.
            CloseReason::Broken(error) => tracing::debug!(%error, "a connection broke"),
        }
        if let Some(request) = incoming.receiving() {
            self.detach(request);
        }
        // What was arriving comes again over the next one.
        if let Some(target) = incoming.end(&mut self.reception, engine) {
            self.reception.interrupt(target);
        }
    }

    /// Answers what waits for a message that is here; whether there was any.
    fn receive(&mut self, engine: &mut Engine) -> bool {
        let mut any = false;
        for at in 0..self.incoming.len() {
            let Some(incoming) = self.incoming[at].as_mut() else { continue };
            if incoming.receives() && incoming.receive(&mut self.reception, engine) {
                any = true;
                self.read(at, engine);
            }
        }
        any
    }

    /// Sends messages on to the ranks below this one in the binomial tree.
    fn forward(&mut self, engine: &Engine) {
        let rank = self.reception.rank;
        let size = engine.size();
        for forward in std::mem::take(&mut self.reception.forwards) {
            let (header, sequences) = (&forward.header, &forward.sequences);
            let place = relative(rank, header.from, size);
            let mut bit = parent_bit(place, size) / 2;
            while bit > 0 {
                if place + bit < size {
                    let to = real(place + bit, header.from, size);
                    let head = |sender: &mut Sender, frame: &Frame| {
                        sender.broadcast_head(&frame.header, sequences)
                    };
                    self.outgoing[to as usize].send_as(head, forward.to(to), &self.poller);
                }
                bit /= 2;
            }
            if header.from == rank {
                self.broadcasts.keep(forward, engine);
            }
        }
        // Last, so that a rank that is gone since a broadcast was numbered is gone for that one too.
        for frame in self.broadcasts.missed(engine) {
            self.outgoing[frame.header.to as usize].send(frame, &self.poller);
        }
    }
}

impl Drop for Soap {
    fn drop(&mut self) {
        self.endpoint.leave(self.reception.domain, self.reception.rank, self.outgoing.len());
    }
}

impl Transport for Soap {
    fn has_clients(&self) -> bool {
        true
    }

    fn send(&mut self, frame: Frame, engine: &mut Engine) {
        let to = frame.header.to;
        let outgoing = &mut self.outgoing[to as usize];
        outgoing.send(frame, &self.poller);
        outgoing.delay(engine);
        if outgoing.is_closed() && engine.peer_state(to) == PeerState::Left {
            engine.undelivered(to);
        }
    }

    fn progress(&mut self, engine: &mut Engine) -> bool {
        let mut ready = std::mem::take(&mut self.ready);
        self.poller.ready(&mut ready);
        let mut any = !ready.is_empty();
        for token in ready.drain(..) {
            match token {
                ENDPOINT => self.endpoint.advance(),
                INCOMING.. => {
                    self.read(usize::try_from(token - INCOMING).unwrap_or(usize::MAX), engine);
                }
                rank => {
                    let Some(outgoing) =
                        usize::try_from(rank).ok().and_then(|rank| self.outgoing.get_mut(rank))
                    else {
                        continue;
                    };
                    outgoing.ready(&self.poller, &mut self.sent);
                    let round_trip = outgoing.round_trip();
                    self.sent.drain(..).for_each(|request| engine.sent(request));
                    let (rank, _) = rank_and_stream(rank);
                    if self.settings.are_distant(self.reception.rank, rank, round_trip) {
                        engine.raise_eager_limit(rank, self.settings.distant_eager_limit);
                    }
                }
            }
        }
        self.ready = ready;
        if self.endpoint.deadline().is_some_and(|at| at <= Instant::now()) {
            self.endpoint.advance();
        }
        any |= self.admit(engine);
        self.end_strangers(engine);
        any |= self.receive(engine);
        self.forward(engine);
        attend(&mut self.outgoing, &self.poller, engine);
        any
    }

    fn senders(&self, ranks: u32) -> u32 {
        // Clients together are one more.
        ranks.saturating_add(1)
    }

    fn watch(&mut self) {
        for (rank, outgoing) in (0..).zip(&mut self.outgoing) {
            if rank != self.reception.rank {
                outgoing.watch(&self.poller);
            }
        }
    }

    fn is_connected(&self) -> bool {
        let rank = self.reception.rank;
        (0..).zip(&self.outgoing).all(|(to, outgoing)| to == rank || outgoing.is_connected())
    }

    fn routes(&self) -> Vec<PeerRoute> {
        (0..).zip(&self.outgoing).filter_map(|(rank, outgoing)| outgoing.route(rank)).collect()
    }

    fn detach(&mut self, request: RequestId) {
        self.outgoing.iter_mut().for_each(|outgoing| outgoing.detach(request));
        let arriving = self.incoming.iter_mut().flatten().filter_map(Incoming::target);
        arriving.chain(self.reception.interrupted()).for_each(|target| target.detach(request));
    }

    fn disconnect(&mut self, rank: Rank) {
        self.outgoing[rank as usize].close();
        for slot in &mut self.incoming {
            // Where a `receive` waits, a client does.
            let old = slot.take_if(|incoming| incoming.peer == Some(rank) && !incoming.receives());
            if let Some(target) = old.and_then(|old| old.end_of_rank(&mut self.reception)) {
                self.reception.interrupt(target);
            }
        }
        self.reception.forget(rank);
    }

    fn is_flushed(&self) -> bool {
        self.outgoing.iter().all(Outgoing::is_flushed)
    }

    fn is_written(&self) -> bool {
        self.outgoing.iter().all(Outgoing::is_written)
    }

    fn deadline(&self) -> Option<Instant> {
        let outgoing = self.outgoing.iter().filter_map(Outgoing::deadline);
        let incoming = self.incoming.iter().flatten().filter_map(Incoming::deadline);
        outgoing.chain(incoming).chain(self.strangers_end()).chain(self.endpoint.deadline()).min()
    }

    fn waiter(&self) -> Arc<dyn Waiter> {
        self.poller.clone()
    }
}

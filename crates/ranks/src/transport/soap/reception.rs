//! What all connections to a rank share: who it is, what arrives, and what it knows of clients.

use std::time::Duration;

use fishplate_contract::{Fault, FaultCode};

use crate::credential::Credential;
use crate::engine::frame::PayloadBuffer;
use crate::engine::peer::PeerState;
use crate::engine::record::Purpose;
use crate::engine::{Engine, Frame, Payload, ReceiveTarget};
use crate::error::Error;
use crate::header::{DomainId, Header, Kind, Mode, Rank};
use crate::settings::Settings;
use crate::transport::soap::clients::Clients;
use crate::transport::soap::incoming::Incoming;
use crate::transport::soap::operations::{Operations, Stored, invalid};
use crate::transport::soap::outgoing::stored_before;

/// How far ahead of its turn a message may come: more than any sender has under way.
const MOST_AHEAD: u64 = 1 << 16;

/// A message to be sent on with `bstore`.
#[derive(Debug)]
pub(super) struct Forward {
    pub(super) header: Header,
    pub(super) sequences: Vec<u64>,
    pub(super) data: Vec<u8>,
}

impl Forward {
    /// It, as it goes to a rank.
    pub(super) fn to(&self, to: Rank) -> Frame {
        Frame {
            header: Header { to, sequence: self.sequences[to as usize], ..self.header },
            payload: Payload::Owned(self.data.clone()),
            request: None,
            eager: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Reception {
    pub(super) domain: DomainId,
    pub(super) rank: Rank,
    pub(super) credential: Credential,
    pub(super) operations: Operations,
    /// Bytes of messages that are not ours and not yet whole, and how many there may be.
    pub(super) held: usize,
    pub(super) most_held: usize,
    /// The longest that a `receive` may wait.
    pub(super) receive_wait: Duration,
    /// Payloads whose connection broke: they come again.
    interrupted: Vec<ReceiveTarget>,
    pub(super) clients: Clients,
    /// What connections want to be sent.
    pub(super) forwards: Vec<Forward>,
}

impl Reception {
    pub(super) fn new(
        domain: DomainId,
        rank: Rank,
        credential: Credential,
        settings: &Settings,
    ) -> Self {
        Self {
            domain,
            rank,
            credential,
            operations: Operations::new(),
            held: 0,
            most_held: settings.unexpected_memory,
            receive_wait: settings.receive_wait,
            interrupted: Vec::new(),
            clients: Clients::new(settings.soap_clients, settings.unexpected_memory),
            forwards: Vec::new(),
        }
    }

    /// A message begins. If it began before, and its payload is not all here, it comes again from its beginning; over two connections
    /// at once if the older one has not ended.
    pub(super) fn begin(
        &mut self,
        header: Header,
        others: &mut [Option<Incoming>],
        engine: &mut Engine,
    ) -> Result<Result<ReceiveTarget, Fault>, Error> {
        if !engine.has_begun(&header) {
            if header.sequence > engine.begun(header.from) + MOST_AHEAD {
                let problem = "it left numbers out";
                return Err(Error::Protocol { from: header.from, problem });
            }
            return engine.begin(header).map(Ok);
        }
        if let Some(at) = self.interrupted.iter().position(|target| *target.header() == header) {
            return Ok(Ok(self.interrupted.swap_remove(at)));
        }
        let Some(at) = arriving(&header, others) else { return Ok(Err(stored_before(&header))) };
        let length = usize::try_from(header.payload_length()).unwrap_or(usize::MAX);
        if self.held.saturating_add(length) > self.most_held {
            // No room for both: the older connection may be dead and not know it.
            let target = others[at].take().and_then(|older| older.end(self, engine));
            return Ok(target.ok_or_else(|| stored_before(&header)));
        }
        self.held += length;
        let place = PayloadBuffer::Fresh(vec![0; length]);
        Ok(Ok(ReceiveTarget { header, place, purpose: Purpose::Copy }))
    }

    /// A message is here; of two that are the same it was the first, or the second.
    pub(super) fn finish(
        &mut self,
        mut target: ReceiveTarget,
        others: &mut [Option<Incoming>],
        engine: &mut Engine,
    ) -> Result<(), Error> {
        if target.purpose != Purpose::Copy {
            return engine.finish(target);
        }
        self.release(&target);
        let header = *target.header();
        let broken = self.interrupted.iter().position(|one| *one.header() == header);
        let first = match broken {
            Some(at) => Some(self.interrupted.swap_remove(at)),
            None => arriving(&header, others)
                .and_then(|at| others[at].take())
                .and_then(|older| older.end(self, engine)),
        };
        let Some(mut first) = first else { return Ok(()) };
        if let (Some(to), Some(from)) = (first.rest(0), target.rest(0)) {
            to.copy_from_slice(from);
        }
        engine.finish(first)
    }

    /// A copy is not needed any more.
    fn release(&mut self, target: &ReceiveTarget) {
        if let PayloadBuffer::Fresh(bytes) = &target.place {
            self.held -= bytes.len();
        }
    }

    /// A connection ended while a payload was arriving.
    pub(super) fn interrupt(&mut self, target: ReceiveTarget) {
        if target.purpose == Purpose::Copy {
            self.release(&target);
        } else {
            self.interrupted.push(target);
        }
    }

    /// Payloads that wait to come again.
    pub(super) fn interrupted(&mut self) -> impl Iterator<Item = &mut ReceiveTarget> {
        self.interrupted.iter_mut()
    }

    /// Nothing of a rank comes any more.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.interrupted.retain(|target| target.header().from != rank);
    }

    /// A message that came as a call, whole.
    pub(super) fn store(
        &mut self,
        stored: Stored,
        is_broadcast: bool,
        others: &mut [Option<Incoming>],
        engine: &mut Engine,
    ) -> Result<(), Fault> {
        let Stored { mut header, data, client, sequences } = stored;
        if engine.peer_state(header.from) != PeerState::Alive {
            return Err(unavailable(format!("rank {} has failed or left", header.from)));
        }
        if let Some((client, number)) = &client {
            self.clients.check_stored(client, *number)?;
        }
        match (is_broadcast, sequences) {
            (true, None) => self.begin_broadcast(header, data, engine)?,
            (true, Some(sequences)) => {
                if header.from == self.rank {
                    let problem = "the root numbers its messages itself: leave them out".to_owned();
                    return Err(invalid("sequences", problem));
                }
                header.sequence = sequences[self.rank as usize];
                self.store_numbered(header, &data, others, engine)?;
                self.forwards.push(Forward { header, sequences, data });
            }
            (false, _) if client.is_some() => {
                if !engine.deliver_from_client(header, data) {
                    return Err(unavailable("no room is left for messages of clients".to_owned()));
                }
            }
            (false, _) => self.store_numbered(header, &data, others, engine)?,
        }
        if let Some((client, number)) = client {
            self.clients.stored(client, number);
        }
        Ok(())
    }

    fn store_numbered(
        &mut self,
        header: Header,
        data: &[u8],
        others: &mut [Option<Incoming>],
        engine: &mut Engine,
    ) -> Result<(), Fault> {
        let refused = |error: Error| invalid("sequence", error.to_string());
        if header.from == self.rank {
            let problem = "the rank itself stores nothing here: give client, and count for it";
            return Err(invalid("fromRank", problem.to_owned()));
        }
        let mut target = self.begin(header, others, engine).map_err(refused)??;
        if let Some(rest) = target.rest(0) {
            rest.copy_from_slice(data);
        }
        self.finish(target, others, engine).map_err(refused)
    }

    /// This rank is the root.
    fn begin_broadcast(
        &mut self,
        header: Header,
        data: Vec<u8>,
        engine: &mut Engine,
    ) -> Result<(), Fault> {
        if header.from != self.rank {
            let message =
                "bstore: sequences may be left out at the root only, which numbers the message";
            return Err(Fault::new(FaultCode::MissingParameter, message).parameter("sequences"));
        }
        let sequences = engine.number_broadcast(data.len()).ok_or_else(|| {
            unavailable("a rank has failed or left, or has no room for the message".to_owned())
        })?;
        self.forwards.push(Forward {
            header: Header { kind: Kind::Eager, mode: Mode::Standard, ..header },
            sequences,
            data,
        });
        Ok(())
    }
}

/// The connection over which a message is arriving for the first time.
fn arriving(header: &Header, connections: &mut [Option<Incoming>]) -> Option<usize> {
    connections.iter_mut().position(|slot| {
        let target = slot.as_mut().and_then(Incoming::target);
        target.is_some_and(|it| it.header() == header && it.purpose != Purpose::Copy)
    })
}

/// It may be possible later.
pub(super) fn unavailable(problem: String) -> Fault {
    Fault::new(FaultCode::Unavailable, problem).retry_after(Duration::from_secs(1))
}

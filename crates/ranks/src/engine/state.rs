//! The engine's state, and what several of its halves need.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use crate::engine::frame::{Frame, Payload};
use crate::engine::id_hasher::IdMap;
use crate::engine::peer::{Peer, PeerState};
use crate::engine::record::{Message, Record, Status};
use crate::error::{Error, Result};
use crate::header::{Context, DomainId, Header, Kind, Mode, Rank, RequestId};
use crate::matching::{Matching, MessageId};
use crate::settings::Settings;

/// What an eager message costs besides its payload, in bytes of credit: about what its record takes.
pub(crate) const MESSAGE_COST: usize = 128;

/// How a request ended that is not remembered.
const DONE: Result<Status> = Ok(Status::EMPTY);

/// See [the module](super).
#[derive(Debug)]
pub struct Engine {
    pub(crate) domain: DomainId,
    pub(crate) rank: Rank,
    pub(crate) peers: Vec<Peer>,
    pub(crate) matching: Matching,
    pub(crate) requests: IdMap<RequestId, Record>,
    pub(crate) messages: IdMap<MessageId, Message>,
    /// Ranks of each communicator's context, in the domain.
    pub(crate) members: IdMap<Context, std::sync::Arc<[Rank]>>,
    pub(crate) outbox: VecDeque<Frame>,
    pub(crate) disconnects: Vec<Rank>,
    /// Credit that each sender has, in bytes.
    pub(crate) window: u64,
    /// What messages of clients occupy of what they may together, which is as much as a sender.
    pub(crate) client_memory: u64,
    /// Bytes of a message that each of several connections carries at least.
    pub(crate) stream_bytes: usize,
    pub(crate) buffer_size: usize,
    pub(crate) buffered: usize,
    events: u64,
    next_id: u64,
}

impl Engine {
    /// The engine of `rank` in a domain of `size` ranks.
    pub fn new(domain: DomainId, rank: Rank, size: u32, settings: &Settings) -> Self {
        Self {
            domain,
            rank,
            peers: (0..size).map(|_| Peer::new(settings.eager_limit)).collect(),
            matching: Matching::default(),
            requests: IdMap::default(),
            messages: IdMap::default(),
            members: IdMap::default(),
            outbox: VecDeque::new(),
            disconnects: Vec::new(),
            window: settings.unexpected_memory as u64 / u64::from(size).max(1),
            client_memory: 0,
            stream_bytes: settings.stream_bytes.max(1),
            buffer_size: settings.buffer_size,
            buffered: 0,
            events: 0,
            next_id: 0,
        }
    }

    /// This process's rank in the domain.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks the domain has.
    pub fn size(&self) -> u32 {
        u32::try_from(self.peers.len()).unwrap_or(u32::MAX)
    }

    /// What is known of another process.
    pub fn peer_state(&self, rank: Rank) -> PeerState {
        self.peers[rank as usize].state
    }

    /// The next frame for the transport. What goes to the process itself never leaves the engine.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.outbox.pop_front()
    }

    /// Whether the transport has not got all frames yet: they may use memory of requests that are complete.
    pub(crate) fn has_frames(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Makes them independent of that memory.
    pub(crate) fn detach_frames(&mut self) {
        self.outbox.iter_mut().for_each(|frame| frame.payload.detach());
    }

    /// A rank that has failed since the last call: the transport must let go of it.
    pub fn next_disconnect(&mut self) -> Option<Rank> {
        self.disconnects.pop()
    }

    /// How often something has happened that a thread may wait for: a request has completed, a message has come that no receive was
    /// posted for, a process has failed or left.
    pub fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn happened(&mut self) {
        self.events += 1;
    }

    /// The outcome of a request, which is forgotten with it; `None` while it is under way.
    pub fn take_outcome(&mut self, request: RequestId) -> Option<Result<Status>> {
        match self.requests.entry(request) {
            Entry::Vacant(_) => request.is_at_once().then_some(DONE),
            Entry::Occupied(entry) if matches!(entry.get(), Record::Complete(_)) => {
                match entry.remove() {
                    Record::Complete(outcome) => Some(outcome),
                    _ => None,
                }
            }
            Entry::Occupied(_) => None,
        }
    }

    /// The outcome of a request that is complete, which is kept.
    pub fn outcome(&self, request: RequestId) -> Option<&Result<Status>> {
        match self.requests.get(&request) {
            Some(Record::Complete(outcome)) => Some(outcome),
            None if request.is_at_once() => Some(&DONE),
            _ => None,
        }
    }

    /// Whether a request is complete.
    pub fn is_complete(&self, request: RequestId) -> bool {
        self.outcome(request).is_some()
    }

    /// Whether a request is complete, or its outcome was taken.
    pub fn is_over(&self, request: RequestId) -> bool {
        matches!(self.requests.get(&request), None | Some(Record::Complete(_)))
    }

    /// Whether every send is done that has to arrive though nobody waits for it: buffered ones, and those that were released.
    pub fn is_drained(&self) -> bool {
        !self.requests.values().any(Record::is_owed)
    }

    /// Bytes of messages that wait for their receives.
    pub fn unexpected_bytes(&self) -> usize {
        self.messages.values().map(|message| message.body.as_ref().map_or(0, Vec::len)).sum()
    }

    /// Begins a communicator of these ranks of the domain.
    pub fn add_context(&mut self, context: Context, members: std::sync::Arc<[Rank]>) {
        self.members.insert(context.collective(), members.clone());
        self.members.insert(context, members);
    }

    /// Ends it; messages that nobody received are dropped.
    pub fn remove_context(&mut self, context: Context) {
        for context in [context, context.collective()] {
            self.members.remove(&context);
            for message in self.matching.remove_context(context) {
                let message = self.messages.remove(&message);
                if let Some(Message { header, .. }) = message.filter(|one| one.header.sequence == 0)
                {
                    self.return_credit(&header);
                }
            }
        }
    }

    /// A request that is complete unless [`Engine::delay`] says otherwise.
    pub(crate) fn at_once(&mut self) -> RequestId {
        self.next_id += 1;
        RequestId::at_once(self.next_id)
    }

    pub(crate) fn new_request(&mut self, record: Record) -> RequestId {
        self.next_id += 1;
        let request = RequestId(self.next_id);
        if matches!(record, Record::Complete(_)) {
            self.happened();
        }
        self.requests.insert(request, record);
        request
    }

    /// A request that is complete from its beginning.
    pub fn completed(&mut self, outcome: Result<Status>) -> RequestId {
        self.new_request(Record::Complete(outcome))
    }

    /// A request that the caller completes, with [`Engine::complete_compound`].
    pub fn new_compound(&mut self) -> RequestId {
        self.new_request(Record::Compound)
    }

    /// Completes it.
    pub fn complete_compound(&mut self, request: RequestId, outcome: Result<()>) {
        self.complete(request, outcome.map(|()| Status::EMPTY));
    }

    pub(crate) fn new_message(&mut self, message: Message) -> MessageId {
        self.next_id += 1;
        self.happened();
        let id = MessageId(self.next_id);
        self.messages.insert(id, message);
        id
    }

    pub(crate) fn complete(&mut self, request: RequestId, outcome: Result<Status>) {
        let Some(record) = self.requests.get_mut(&request) else { return };
        let (mut released, mut freed) = (false, 0);
        match record {
            Record::Send(send) => {
                released = send.released;
                if send.mode == Mode::Buffered {
                    freed = send.payload.as_ref().map_or(0, |payload| payload.bytes().len());
                }
            }
            Record::Receive(receive) => released = receive.released,
            Record::Compound | Record::Complete(_) => {}
        }
        self.buffered -= freed;
        if released {
            self.requests.remove(&request);
        } else {
            *record = Record::Complete(outcome);
        }
        self.happened();
    }

    /// A header to `to`; whoever sends it numbers it with [`Engine::emit`].
    pub(crate) fn header(&self, to: Rank, kind: Kind) -> Header {
        Header {
            domain: self.domain,
            from: self.rank,
            to,
            context: Context::WORLD,
            tag: 0,
            sequence: 0,
            mode: Mode::Standard,
            kind,
            length: 0,
            sender: RequestId(0),
            receiver: RequestId(0),
        }
    }

    /// Hands a frame to the transport, or to this engine itself.
    pub(crate) fn emit(&mut self, header: Header, payload: Payload, request: Option<RequestId>) {
        self.emit_frame(Frame { header, payload, request, eager: None });
    }

    /// The same of a whole frame.
    pub(crate) fn emit_frame(&mut self, mut frame: Frame) {
        let header = &mut frame.header;
        let peer = &mut self.peers[header.to as usize];
        if peer.state != PeerState::Alive {
            return;
        }
        peer.sent += 1;
        header.sequence = peer.sent;
        if header.to == self.rank {
            // Ours are in order and well-formed.
            let _ = self.deliver(*header, frame.payload.bytes());
            if let Some(request) = frame.request {
                self.sent(request);
            }
        } else {
            self.outbox.push_back(frame);
        }
    }

    /// Why nothing can be sent to a rank, if so.
    pub(crate) fn check_peer(&self, rank: Rank) -> Result<()> {
        match self.peers[rank as usize].state {
            PeerState::Alive => Ok(()),
            PeerState::Left => Err(Error::Left { rank }),
            PeerState::Failed => Err(Error::Failed { rank }),
        }
    }
}

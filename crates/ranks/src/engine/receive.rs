//! Receives, probes, and cancelling.

use crate::buffer::ReceiveBuffer;
use crate::engine::frame::Payload;
use crate::engine::peer::PeerState;
use crate::engine::record::{Envelope, Message, ReceiveRecord, Record, Status};
use crate::engine::state::{Engine, MESSAGE_COST};
use crate::error::{Error, Result};
use crate::header::{Context, Header, Kind, Mode, Rank, RequestId};
use crate::matching::{MessageId, Pattern};

impl Engine {
    /// Posts a receive.
    pub fn receive(&mut self, pattern: Pattern, buffer: ReceiveBuffer) -> RequestId {
        if let Some(message) = self.matching.take_unexpected(pattern) {
            return self.receive_message(message, buffer);
        }
        if let Err(error) = self.check_sources(pattern) {
            return self.completed(Err(error));
        }
        let request = self.new_receive(pattern, buffer);
        self.matching.post(pattern, request);
        request
    }

    /// Receives a message that [`Engine::matched_probe`] gave (`MPI_Imrecv`).
    pub fn receive_message(&mut self, message: MessageId, buffer: ReceiveBuffer) -> RequestId {
        let Some(Message { header, .. }) = self.messages.get(&message) else {
            return RequestId::DONE;
        };
        let header = *header;
        let pattern =
            Pattern { context: header.context, source: Some(header.from), tag: Some(header.tag) };
        let request = self.new_receive(pattern, buffer);
        self.assign(request, &header);
        if header.kind == Kind::RequestToSend {
            self.messages.remove(&message);
        } else {
            self.claim(message, request);
        }
        request
    }

    /// What a receive would get now.
    pub fn probe(&self, pattern: Pattern) -> Result<Option<Envelope>> {
        match self.matching.find_unexpected(pattern) {
            Some(message) => Ok(Some(Envelope::of(&self.messages[&message].header))),
            None => self.check_sources(pattern).map(|()| None),
        }
    }

    /// Takes what a receive would get now, for [`Engine::receive_message`]. Nobody else gets it.
    pub fn matched_probe(&mut self, pattern: Pattern) -> Result<Option<(MessageId, Envelope)>> {
        match self.matching.take_unexpected(pattern) {
            Some(message) => Ok(Some((message, Envelope::of(&self.messages[&message].header)))),
            None => self.check_sources(pattern).map(|()| None),
        }
    }

    /// Cancels a receive that has no message yet; another request goes on (MPI 4.1, 3.8.4).
    pub fn cancel(&mut self, request: RequestId) {
        if let Some(Record::Receive(receive)) = self.requests.get(&request)
            && receive.matched.is_none()
            && self.matching.cancel(receive.pattern, request)
        {
            self.complete(request, Ok(Status { cancelled: true, ..Status::EMPTY }));
        }
    }

    /// Nobody asks for this request's outcome any more, and its memory goes: a receive is cancelled or its message
    /// dropped, a send is copied. The transport must be told too ([`crate::transport::Transport::detach`]).
    pub fn release(&mut self, request: RequestId) {
        self.cancel(request);
        match self.requests.get_mut(&request) {
            None | Some(Record::Compound | Record::Complete(_)) => {
                self.requests.remove(&request);
            }
            Some(Record::Send(send)) => {
                send.released = true;
                if let Some(payload) = &mut send.payload {
                    payload.detach();
                }
            }
            Some(Record::Receive(receive)) => {
                receive.released = true;
                receive.buffer = None;
            }
        }
        for frame in &mut self.outbox {
            if frame.request == Some(request) {
                frame.payload.detach();
            } else if frame.eager == Some(request) {
                frame.eager = None;
            }
        }
    }

    /// The same, of an operation that failed: a send need not arrive any more.
    pub fn abandon(&mut self, request: RequestId) {
        self.release(request);
        if let Some(Record::Send(send)) = self.requests.get_mut(&request) {
            send.abandoned = true;
        }
    }

    fn new_receive(&mut self, pattern: Pattern, buffer: ReceiveBuffer) -> RequestId {
        let capacity = buffer.length();
        let record = ReceiveRecord {
            pattern,
            buffer: Some(buffer),
            capacity,
            begun: 0,
            arrived: 0,
            matched: None,
            released: false,
        };
        self.new_request(Record::Receive(record))
    }

    /// A receive and a message have found each other.
    pub(crate) fn assign(&mut self, request: RequestId, header: &Header) {
        let Some(Record::Receive(receive)) = self.requests.get_mut(&request) else { return };
        receive.matched = Some(Envelope::of(header));
        let wanted = header.length.min(receive.capacity as u64);
        if header.kind == Kind::RequestToSend {
            let mut clear = self.header(header.from, Kind::ClearToSend);
            clear.sender = header.sender;
            clear.receiver = request;
            clear.length = wanted;
            if let Err(error) = self.check_peer(header.from) {
                self.complete(request, Err(error));
            } else {
                self.emit(clear, Payload::Empty, None);
            }
        } else if header.mode == Mode::Synchronous {
            let mut matched = self.header(header.from, Kind::Matched);
            matched.sender = header.sender;
            self.emit(matched, Payload::Empty, None);
        }
    }

    /// Gives an eager message to its receive, now or when it is here.
    pub(crate) fn claim(&mut self, id: MessageId, request: RequestId) {
        let Some(message) = self.messages.get_mut(&id) else { return };
        let Some(body) = message.body.take() else {
            message.claimed = Some(request);
            return;
        };
        let header = message.header;
        self.messages.remove(&id);
        self.store(request, &body);
        self.return_credit(&header);
    }

    /// Copies a payload into a receive's buffer and completes it.
    pub(crate) fn store(&mut self, request: RequestId, body: &[u8]) {
        if let Some(Record::Receive(receive)) = self.requests.get_mut(&request) {
            if let Some(buffer) = &mut receive.buffer {
                let length = body.len().min(buffer.length());
                buffer.bytes()[..length].copy_from_slice(&body[..length]);
            }
            self.received(request);
        }
    }

    /// A receive's payload is in its buffer.
    pub(crate) fn received(&mut self, request: RequestId) {
        let Some(Record::Receive(ReceiveRecord { matched: Some(envelope), capacity, .. })) =
            self.requests.get(&request)
        else {
            return;
        };
        let outcome = if envelope.length > *capacity {
            Err(Error::Truncated {
                length: envelope.length as u64,
                capacity: *capacity as u64,
                from: envelope.source,
                tag: envelope.tag,
            })
        } else {
            Ok(envelope.status())
        };
        self.complete(request, outcome);
    }

    /// An eager message is out of our memory; its sender is told of that now and then.
    pub(crate) fn return_credit(&mut self, header: &Header) {
        if header.sequence == 0 {
            self.client_memory -= header.length + MESSAGE_COST as u64;
            return;
        }
        let quantum = self.window / 4;
        let peer = &mut self.peers[header.from as usize];
        peer.received += header.length + MESSAGE_COST as u64;
        if peer.received - peer.announced >= quantum && peer.state == PeerState::Alive {
            peer.announced = peer.received;
            let length = peer.received;
            let mut credit = self.header(header.from, Kind::Credit);
            credit.length = length;
            self.emit(credit, Payload::Empty, None);
        }
    }

    /// Why no message can come that a pattern takes, if so.
    pub(crate) fn check_sources(&self, pattern: Pattern) -> Result<()> {
        if pattern.context.is_collective() {
            self.check_members(pattern.context)?;
        }
        if let Some(source) = pattern.source {
            return self.check_peer(source);
        }
        self.check_members(pattern.context)?;
        let members = self.members.get(&pattern.context);
        let left = |&&rank: &&Rank| rank != self.rank && self.peer_state(rank) == PeerState::Left;
        match members {
            Some(members)
                if members.len() > 1
                    && members.iter().filter(left).count() == members.len() - 1 =>
            {
                Err(Error::Left {
                    rank: members.iter().copied().find(|rank| left(&rank)).unwrap_or(self.rank),
                })
            }
            _ => Ok(()),
        }
    }

    /// The member of a communicator that has failed, if one has.
    pub(crate) fn check_members(&self, context: Context) -> Result<()> {
        let failed = self.members.get(&context).and_then(|members| {
            members.iter().copied().find(|&rank| self.peer_state(rank) == PeerState::Failed)
        });
        failed.map_or(Ok(()), |rank| Err(Error::Failed { rank }))
    }
}

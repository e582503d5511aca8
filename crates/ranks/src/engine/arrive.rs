//! Frames from a transport: each pair's in order, once.

use crate::engine::frame::{Payload, PayloadBuffer, ReceiveTarget};
use crate::engine::peer::{Early, PeerState};
use crate::engine::record::{Message, Purpose, Record, bytes};
use crate::engine::state::{Engine, MESSAGE_COST};
use crate::error::{Error, Result};
use crate::header::{Header, Kind, Rank};

impl Engine {
    /// A header has arrived: says where its payload goes, if it has one, and does what it asks for. The
    /// target is given back with [`Engine::finish`] when it is filled. A frame that came before is read and dropped; one that comes
    /// too early is kept for its turn.
    pub fn begin(&mut self, header: Header) -> Result<ReceiveTarget> {
        self.check(&header)?;
        if self.peer_state(header.from) != PeerState::Alive || self.has_begun(&header) {
            return Ok(ReceiveTarget {
                header,
                place: PayloadBuffer::Nowhere,
                purpose: Purpose::Nothing,
            });
        }
        if header.kind == Kind::Data && self.is_part(&header)? {
            return Ok(self.part(header));
        }
        let peer = &mut self.peers[header.from as usize];
        if header.kind == Kind::Eager {
            let (before, received) = (peer.accepted + MESSAGE_COST as u64, peer.received);
            let accepted = before.checked_add(header.length);
            peer.accepted = accepted.filter(|it| it - received <= self.window).ok_or({
                let problem = "it sent more than it has credit for";
                Error::Protocol { from: header.from, problem }
            })?;
        }
        if header.sequence > peer.begun + 1 {
            peer.early.insert(header.sequence, Early::Arriving);
            let place = PayloadBuffer::Fresh(Vec::new());
            return Ok(ReceiveTarget { header, place, purpose: Purpose::Early });
        }
        let target = self.turn(header)?;
        self.take_early(header.from)?;
        Ok(target)
    }

    /// Whether a frame has come before: its payload is here or arriving.
    pub fn has_begun(&self, header: &Header) -> bool {
        self.peers.get(header.from as usize).is_some_and(|peer| {
            header.sequence <= peer.begun || peer.early.contains_key(&header.sequence)
        })
    }

    /// A message of a client, in the name of a rank and without a number of the pair (0). Whether there was room for it.
    pub fn deliver_from_client(&mut self, header: Header, body: Vec<u8>) -> bool {
        if let Some(request) = self.matching.take_posted(header.context, header.from, header.tag) {
            self.assign(request, &header);
            self.store(request, &body);
            return true;
        }
        let cost = (body.len() + MESSAGE_COST) as u64;
        if self.client_memory + cost > self.window {
            return false;
        }
        self.client_memory += cost;
        let id = self.new_message(Message { header, body: Some(body), claimed: None });
        self.matching.add_unexpected(header.context, header.from, header.tag, id);
        true
    }

    /// A message that was not expected may have found its receive while it arrives: the rest of it goes straight there. So much of it is here.
    pub fn retarget(&mut self, target: &mut ReceiveTarget, arrived: usize) {
        let Purpose::Message(id) = target.purpose else { return };
        let Some(request) = self.messages.get(&id).and_then(|message| message.claimed) else {
            return;
        };
        let length = bytes(target.header.length);
        let Some(Record::Receive(receive)) = self.requests.get_mut(&request) else { return };
        if length > receive.capacity {
            return;
        }
        let Some(buffer) = receive.buffer.take() else { return };
        let mut buffer = buffer.first(length);
        if let PayloadBuffer::Fresh(body) = &target.place {
            buffer.bytes()[..arrived].copy_from_slice(&body[..arrived]);
        }
        target.place = PayloadBuffer::Posted(buffer);
        target.purpose = Purpose::Receive(request);
        self.messages.remove(&id);
    }

    /// A target's payload is all here.
    pub fn finish(&mut self, target: ReceiveTarget) -> Result<()> {
        let ReceiveTarget { header, place, purpose } = target;
        match (purpose, place) {
            (Purpose::Receive(request), PayloadBuffer::Fresh(body)) => self.store(request, &body),
            (Purpose::Receive(request), _) => self.received(request),
            (Purpose::Message(id), PayloadBuffer::Fresh(body)) => {
                if let Some(message) = self.messages.get_mut(&id) {
                    message.body = Some(body);
                    if let Some(request) = message.claimed.take() {
                        self.claim(id, request);
                    }
                } else {
                    self.return_credit(&header);
                }
                return Ok(());
            }
            (Purpose::Early, place) => {
                let target = ReceiveTarget { header, place, purpose };
                if let Some(slot) = self.peers[header.from as usize].early.get_mut(&header.sequence)
                {
                    *slot = Early::Whole(target);
                }
                return self.take_early(header.from);
            }
            (Purpose::Part(request), _) => {
                if let Some(slot) = self.peers[header.from as usize].early.get_mut(&header.sequence)
                {
                    *slot = Early::Received;
                }
                if let Some(Record::Receive(receive)) = self.requests.get_mut(&request) {
                    receive.arrived += bytes(header.length);
                    if receive.arrived == receive.wanted() {
                        self.received(request);
                    }
                }
                return self.take_early(header.from);
            }
            _ => return Ok(()),
        }
        if header.kind == Kind::Eager {
            self.return_credit(&header);
        }
        Ok(())
    }

    /// A frame that is here with all of its payload.
    pub fn deliver(&mut self, header: Header, body: &[u8]) -> Result<()> {
        let mut target = self.begin(header)?;
        if let Some(rest) = target.rest(0) {
            if rest.len() != body.len() {
                return Err(Error::Protocol {
                    from: header.from,
                    problem: "a payload has not the length its header says",
                });
            }
            rest.copy_from_slice(body);
        }
        self.finish(target)
    }

    /// The first sequence number that has not come yet, less one: what can be acknowledged when all payloads begun are finished.
    pub fn begun(&self, from: Rank) -> u64 {
        self.peers[from as usize].begun
    }

    fn check(&self, header: &Header) -> Result<()> {
        let problem = if header.domain != self.domain {
            "its message is of another domain"
        } else if header.to != self.rank || header.from as usize >= self.peers.len() {
            "its message is for another rank, or from one that the domain does not have"
        } else {
            return Ok(());
        };
        Err(Error::Protocol { from: header.from, problem })
    }

    fn take_early(&mut self, from: Rank) -> Result<()> {
        loop {
            let peer = &mut self.peers[from as usize];
            let Some(first) = peer.early.first_entry() else { return Ok(()) };
            if *first.key() != peer.begun + 1 || matches!(first.get(), Early::Arriving) {
                return Ok(());
            }
            let Early::Whole(mut early) = first.remove() else {
                peer.begun += 1;
                continue;
            };
            let mut target = self.turn(early.header)?;
            if let (Some(to), Some(body)) = (target.rest(0), early.rest(0)) {
                to.copy_from_slice(body);
            }
            self.finish(target)?;
        }
    }

    /// The turn of a frame has come.
    fn turn(&mut self, header: Header) -> Result<ReceiveTarget> {
        let from = header.from;
        self.peers[from as usize].begun += 1;
        let nothing =
            ReceiveTarget { header, place: PayloadBuffer::Nowhere, purpose: Purpose::Nothing };
        let sound = match header.kind {
            Kind::Eager => return Ok(self.eager(header)),
            Kind::Data => return Ok(self.data(header)),
            Kind::RequestToSend => {
                match self.matching.take_posted(header.context, from, header.tag) {
                    Some(request) => self.assign(request, &header),
                    None => {
                        let id = self.new_message(Message { header, body: None, claimed: None });
                        self.matching.add_unexpected(header.context, from, header.tag, id);
                    }
                }
                true
            }
            Kind::ClearToSend => {
                self.cleared(from, header.sender, header.receiver, bytes(header.length))
            }
            Kind::Matched => {
                self.matched(from, header.sender) || !self.requests.contains_key(&header.sender)
            }
            Kind::Credit => {
                let peer = &mut self.peers[from as usize];
                let sound = (peer.credit_returned..=peer.credit_used).contains(&header.length);
                if sound {
                    peer.credit_returned = header.length;
                }
                sound
            }
            Kind::Failed => match u32::try_from(header.tag) {
                Ok(rank) if (rank as usize) < self.peers.len() && rank != self.rank => {
                    self.fail(rank);
                    true
                }
                Ok(rank) => rank == self.rank,
                Err(_) => false,
            },
            Kind::Leave => {
                self.leave(from);
                true
            }
        };
        if sound {
            Ok(nothing)
        } else {
            Err(Error::Protocol { from, problem: "it answered a request that was not made to it" })
        }
    }

    fn eager(&mut self, header: Header) -> ReceiveTarget {
        let length = bytes(header.length);
        if let Some(request) = self.matching.take_posted(header.context, header.from, header.tag) {
            self.assign(request, &header);
            let place = match self.requests.get_mut(&request) {
                Some(Record::Receive(receive)) if length <= receive.capacity => {
                    match receive.buffer.take() {
                        Some(buffer) => PayloadBuffer::Posted(buffer.first(length)),
                        None => PayloadBuffer::Nowhere,
                    }
                }
                _ => PayloadBuffer::Fresh(Vec::new()),
            };
            return ReceiveTarget { header, place, purpose: Purpose::Receive(request) };
        }
        let id = self.new_message(Message { header, body: None, claimed: None });
        self.matching.add_unexpected(header.context, header.from, header.tag, id);
        ReceiveTarget {
            header,
            place: PayloadBuffer::Fresh(Vec::new()),
            purpose: Purpose::Message(id),
        }
    }

    /// Whether data is a part of what a receive waits for, or all of it. The receive counts it as begun.
    fn is_part(&mut self, header: &Header) -> Result<bool> {
        let length = bytes(header.length);
        if let Some(Record::Receive(receive)) = self.requests.get_mut(&header.receiver)
            && receive.matched.is_some_and(|envelope| envelope.source == header.from)
            && bytes(header.offset()).saturating_add(length) <= receive.wanted()
            && receive.begun.saturating_add(length) <= receive.wanted()
        {
            receive.begun += length;
            return Ok(length < receive.wanted());
        }
        Err(Error::Protocol { from: header.from, problem: "it sent data that nobody asked for" })
    }

    /// Its turn has come when it is here, and its place is known before: several may arrive at once.
    fn part(&mut self, header: Header) -> ReceiveTarget {
        self.peers[header.from as usize].early.insert(header.sequence, Early::Arriving);
        let buffer = match self.requests.get(&header.receiver) {
            Some(Record::Receive(receive)) => receive.buffer.as_ref(),
            _ => None,
        };
        let offset = bytes(header.offset());
        let place = match buffer {
            Some(buffer) => {
                PayloadBuffer::Posted(buffer.part(offset..offset + bytes(header.length)))
            }
            None => PayloadBuffer::Nowhere,
        };
        ReceiveTarget { header, place, purpose: Purpose::Part(header.receiver) }
    }

    fn data(&mut self, header: Header) -> ReceiveTarget {
        let buffer = match self.requests.get_mut(&header.receiver) {
            Some(Record::Receive(receive)) => receive.buffer.take(),
            _ => None,
        };
        let place = match buffer {
            Some(buffer) => PayloadBuffer::Posted(buffer.first(bytes(header.length))),
            None => PayloadBuffer::Nowhere,
        };
        ReceiveTarget { header, place, purpose: Purpose::Receive(header.receiver) }
    }

    /// Tells every other process that this one leaves the domain.
    pub fn announce_leave(&mut self) {
        for to in (0..self.peers.len()).filter_map(|to| u32::try_from(to).ok()) {
            if to != self.rank && self.peer_state(to) == PeerState::Alive {
                self.emit(self.header(to, Kind::Leave), Payload::Empty, None);
            }
        }
    }
}

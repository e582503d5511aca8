//! Sends: eager while there is credit, else a rendezvous.

use crate::buffer::SendBuffer;
use crate::engine::frame::{Frame, Payload};
use crate::engine::peer::{Peer, PeerState};
use crate::engine::record::{Record, SendRecord, Status};
use crate::engine::state::{Engine, MESSAGE_COST};
use crate::error::Error;
use crate::header::{Context, Kind, Mode, Rank, RequestId, Tag};

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct SendArguments {
    /// To which rank of the domain.
    pub to: Rank,
    /// The communicator's context.
    pub context: Context,
    /// Its tag.
    pub tag: Tag,
    /// What has to be true before the send is complete.
    pub mode: Mode,
}

impl Engine {
    /// Starts a send. The request completes as its mode says.
    pub fn send(&mut self, arguments: SendArguments, buffer: SendBuffer) -> RequestId {
        let SendArguments { to, context, tag, mode } = arguments;
        if let Err(error) = self.check_peer(to) {
            return self.completed(Err(error));
        }
        let length = buffer.bytes().len();
        let mut header = self.header(to, Kind::Eager);
        header.context = context;
        header.tag = tag;
        header.mode = mode;
        header.length = length as u64;
        let cost = (length + MESSAGE_COST) as u64;
        let peer = &mut self.peers[to as usize];
        peer.messages += 1;
        peer.bytes += length as u64;
        if length <= peer.eager_limit
            && peer.credit_used - peer.credit_returned + cost <= self.window
        {
            peer.credit_used += cost;
            // The transport copies what it does not carry at once.
            let payload = if length == 0 { Payload::Empty } else { Payload::Borrowed(buffer) };
            if mode != Mode::Synchronous {
                let request = self.at_once();
                let eager = (mode != Mode::Buffered).then_some(request);
                self.emit_frame(Frame { header, payload, request: None, eager });
                return request;
            }
            let request = self.new_request(Record::Send(SendRecord {
                to,
                tag,
                mode,
                payload: None,
                in_flight: false,
                frames: 1,
                abandoned: false,
                released: false,
            }));
            header.sender = request;
            self.emit(header, payload, None);
            return request;
        }
        let payload = if mode == Mode::Buffered {
            if self.buffered + length > self.buffer_size {
                let free = self.buffer_size - self.buffered;
                return self.completed(Err(Error::BufferFull { needed: length, free }));
            }
            self.buffered += length;
            Payload::Owned(buffer.bytes().into())
        } else {
            Payload::Borrowed(buffer)
        };
        let released = mode == Mode::Buffered;
        let record = SendRecord {
            to,
            tag,
            mode,
            payload: Some(payload),
            in_flight: false,
            frames: 1,
            abandoned: false,
            released,
        };
        header.kind = Kind::RequestToSend;
        header.sender = self.new_request(Record::Send(record));
        self.emit(header, Payload::Empty, None);
        if released { RequestId::DONE } else { header.sender }
    }

    /// Numbers an eager message for every other rank, by rank; `None` if one of them can't take it now.
    pub fn number_broadcast(&mut self, length: usize) -> Option<Vec<u64>> {
        let cost = (length + MESSAGE_COST) as u64;
        let (rank, window) = (self.rank as usize, self.window);
        let takes = |peer: &Peer| {
            peer.state == PeerState::Alive
                && peer.credit_used - peer.credit_returned + cost <= window
        };
        let mut others = self.peers.iter().enumerate().filter(|&(at, _)| at != rank);
        if !others.all(|(_, peer)| takes(peer)) {
            return None;
        }
        let number = |(at, peer): (usize, &mut Peer)| {
            if at == rank {
                return 0;
            }
            peer.credit_used += cost;
            peer.messages += 1;
            peer.bytes += length as u64;
            peer.sent += 1;
            peer.sent
        };
        Some(self.peers.iter_mut().enumerate().map(number).collect())
    }

    /// Credit that was used of what a rank grants us, in bytes since the beginning.
    pub fn credit_used(&self, rank: Rank) -> u64 {
        self.peers[rank as usize].credit_used
    }

    /// What of it the rank has given back, because its program has received what was sent.
    pub fn credit_returned(&self, rank: Rank) -> u64 {
        self.peers[rank as usize].credit_returned
    }

    /// A transport has no room for a frame: an eager send is not complete yet, for its program might pass no messages from then on, and
    /// nobody would carry what is still here. Who is to be told ([`Engine::sent`]) when it is carried.
    pub fn delay(&mut self, frame: &mut Frame) -> Option<RequestId> {
        let request = frame.eager.take()?;
        let record = SendRecord {
            to: frame.header.to,
            tag: frame.header.tag,
            mode: frame.header.mode,
            payload: None,
            in_flight: true,
            frames: 1,
            abandoned: false,
            released: false,
        };
        self.requests.insert(request, Record::Send(record));
        self.happened();
        Some(request)
    }

    /// The receiver has all of a frame that carries this request's payload, or a part of it.
    pub fn sent(&mut self, request: RequestId) {
        if let Some(Record::Send(send)) = self.requests.get_mut(&request) {
            send.frames = send.frames.saturating_sub(1);
            if send.frames == 0 {
                self.complete(request, Ok(Status::EMPTY));
            }
        }
    }

    /// Payloads up to this go to a rank at once from now on, if that is more than before.
    pub fn raise_eager_limit(&mut self, to: Rank, limit: usize) {
        let peer = &mut self.peers[to as usize];
        peer.eager_limit = peer.eager_limit.max(limit);
    }

    /// So many connections carry the parts of a long message to a rank side by side from now on.
    pub fn set_streams(&mut self, to: Rank, streams: usize) {
        self.peers[to as usize].streams = streams.max(1);
    }

    /// The receiver takes `wanted` bytes of what `request` offered it.
    pub(crate) fn cleared(
        &mut self,
        from: Rank,
        request: RequestId,
        receiver: RequestId,
        wanted: usize,
    ) -> bool {
        let Some(Record::Send(send)) = self.requests.get_mut(&request) else { return false };
        if send.to != from {
            return false;
        }
        let Some(payload) = send.payload.take() else { return false };
        send.in_flight = true;
        let buffered = send.mode == Mode::Buffered;
        let length = payload.bytes().len();
        let wanted = wanted.min(length);
        let size = wanted.div_ceil(self.peers[from as usize].streams).max(self.stream_bytes);
        let parts = wanted.div_ceil(size).max(1);
        send.frames = parts;
        if buffered {
            self.buffered -= length;
        }
        let mut header = self.header(from, Kind::Data);
        header.sender = request;
        header.receiver = receiver;
        let mut payload = payload;
        for range in (0..parts).map(|part| part * size..wanted.min((part + 1) * size)) {
            header.context = Context(range.start as u64);
            header.length = range.len() as u64;
            let part = if range.len() == length {
                std::mem::replace(&mut payload, Payload::Empty)
            } else {
                payload.part(range)
            };
            self.emit(header, part, Some(request));
        }
        true
    }

    /// An eager message of a synchronous send has found its receive.
    pub(crate) fn matched(&mut self, from: Rank, request: RequestId) -> bool {
        let ours = matches!(self.requests.get(&request),
            Some(Record::Send(send)) if send.to == from && send.payload.is_none() && !send.in_flight);
        if ours {
            self.complete(request, Ok(Status::EMPTY));
        }
        ours
    }
}

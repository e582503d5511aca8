//! Processes that fail or leave, and what they take with them.

use crate::engine::frame::Payload;
use crate::engine::peer::PeerState;
use crate::engine::record::Record;
use crate::engine::state::Engine;
use crate::error::{Error, Result};
use crate::header::{Kind, Rank, RequestId, Tag};

impl Engine {
    /// A process has failed: whatever waits for it ends, and all others are told.
    pub fn fail(&mut self, rank: Rank) {
        if rank == self.rank || self.peer_state(rank) != PeerState::Alive {
            return;
        }
        self.peers[rank as usize].state = PeerState::Failed;
        self.happened();
        self.peers[rank as usize].early.clear();
        self.disconnects.push(rank);
        self.outbox.retain(|frame| frame.header.to != rank);
        for to in (0..self.peers.len()).filter_map(|to| u32::try_from(to).ok()) {
            if to != self.rank && self.peer_state(to) == PeerState::Alive {
                let mut header = self.header(to, Kind::Failed);
                header.tag = Tag::try_from(rank).unwrap_or(Tag::MAX);
                self.emit(header, Payload::Empty, None);
            }
        }
        self.end_hopeless(&Error::Failed { rank }, rank);
    }

    /// A process has left; all that it sent has arrived.
    pub(crate) fn leave(&mut self, rank: Rank) {
        self.peers[rank as usize].state = PeerState::Left;
        self.happened();
        self.end_hopeless(&Error::Left { rank }, rank);
    }

    /// A transport can't bring to a rank that left what is under way to it.
    pub fn undelivered(&mut self, rank: Rank) {
        let sends = self.requests.iter().filter_map(|(&request, record)| {
            matches!(record, Record::Send(send) if send.to == rank).then_some(request)
        });
        for request in sends.collect::<Vec<_>>() {
            self.complete(request, Err(Error::Left { rank }));
        }
    }

    /// Completes with `error` what can't complete without `rank`.
    fn end_hopeless(&mut self, error: &Error, rank: Rank) {
        let left = self.peer_state(rank) == PeerState::Left;
        let hopeless: Vec<(RequestId, Result<()>)> = self
            .requests
            .iter()
            .filter_map(|(&request, record)| {
                let outcome = match record {
                    // What is under way to a rank that left may be there already: its transport knows.
                    Record::Send(send) if send.to == rank && !(left && send.in_flight) => {
                        Err(error.clone())
                    }
                    Record::Receive(receive) => match receive.matched {
                        Some(envelope)
                            if envelope.source == rank && !(left && receive.buffer.is_none()) =>
                        {
                            Err(error.clone())
                        }
                        Some(_) => Ok(()),
                        None => self.check_sources(receive.pattern),
                    },
                    _ => Ok(()),
                };
                outcome.is_err().then_some((request, outcome))
            })
            .collect();
        for (request, outcome) in hopeless {
            if let Some(Record::Receive(receive)) = self.requests.get(&request) {
                self.matching.cancel(receive.pattern, request);
            }
            if let Err(error) = outcome {
                self.complete(request, Err(error));
            }
        }
    }
}

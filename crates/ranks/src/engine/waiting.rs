//! What requests wait for, for whoever looks on.

use crate::engine::Engine;
use crate::engine::record::Record;
use crate::header::{Mode, Rank, RequestId};
use crate::matching::Pattern;
use crate::status::{Traffic, Wait};

impl Wait {
    /// A wait that one of these ranks can end.
    pub(crate) fn any_of(call: String, ranks: Vec<Rank>) -> Self {
        Self { call, ranks, all: false, moving: false, milliseconds: 0 }
    }

    /// A wait that one of several ends.
    pub(crate) fn union(waits: &[Self]) -> Self {
        const SHOWN: usize = 4;
        if let [wait] = waits {
            return wait.clone();
        }
        let mut calls: Vec<&str> =
            waits.iter().take(SHOWN).map(|wait| wait.call.as_str()).collect();
        if waits.len() > SHOWN {
            calls.push("...");
        }
        let call = format!("{} requests: {}", waits.len(), calls.join(", "));
        let mut ranks: Vec<Rank> = waits.iter().flat_map(|wait| wait.ranks.clone()).collect();
        ranks.sort_unstable();
        ranks.dedup();
        // What is complete needs nobody.
        let moving = waits.is_empty() || waits.iter().any(|wait| wait.moving);
        Self { moving, ..Self::any_of(call, ranks) }
    }
}

impl Engine {
    /// What was exchanged with whom.
    pub(crate) fn traffic(&self) -> Vec<Traffic> {
        let all = (0..).zip(&self.peers).map(|(peer, of)| Traffic {
            peer,
            messages: of.messages,
            bytes: of.bytes,
            sent: of.sent,
            received: of.begun,
        });
        all.filter(|of| of.sent > 0 || of.received > 0).collect()
    }

    /// Counts messages and their bytes from now on: what was exchanged to join is not the program's.
    pub(crate) fn forget_traffic(&mut self) {
        for peer in &mut self.peers {
            (peer.messages, peer.bytes) = (0, 0);
        }
    }

    /// What a request waits for; `None` if it is complete.
    pub(crate) fn wait_of(&self, request: RequestId) -> Option<Wait> {
        match self.requests.get(&request)? {
            Record::Complete(_) => None,
            Record::Receive(receive) => {
                let wait = self.wait_for_message("recv", receive.pattern);
                Some(Wait { moving: receive.matched.is_some(), ..wait })
            }
            Record::Send(send) => {
                let name = if send.mode == Mode::Synchronous { "ssend" } else { "send" };
                let call = format!("{name} to {} tag {}", send.to, send.tag);
                Some(Wait { moving: send.in_flight, ..Wait::any_of(call, vec![send.to]) })
            }
            // Whoever made it completes it.
            Record::Compound => Some(Wait {
                moving: true,
                ..Wait::any_of("generalized request".to_owned(), Vec::new())
            }),
        }
    }

    /// What a call waits for that takes such messages.
    pub(crate) fn wait_for_message(&self, name: &str, pattern: Pattern) -> Wait {
        let mut call = match pattern.source {
            Some(source) => format!("{name} from {source}"),
            None => format!("{name} from any"),
        };
        if !pattern.context.is_collective() {
            match pattern.tag {
                Some(tag) => call.push_str(&format!(" tag {tag}")),
                None => call.push_str(" any tag"),
            }
        }
        let ranks = match (pattern.source, self.members.get(&pattern.context)) {
            (Some(source), _) => vec![source],
            (None, Some(members)) => {
                let others = members.iter().copied().filter(|&rank| rank != self.rank);
                let others: Vec<Rank> = others.collect();
                if others.is_empty() { vec![self.rank] } else { others }
            }
            (None, None) => Vec::new(),
        };
        Wait::any_of(call, ranks)
    }

    /// All requests under way, in the order in which they were begun.
    pub(crate) fn pending(&self) -> Vec<RequestId> {
        let pending = self.requests.iter().filter_map(|(&request, record)| {
            let is_pending = match record {
                Record::Complete(_) => false,
                Record::Send(send) => !send.abandoned,
                Record::Receive(receive) => !receive.released,
                Record::Compound => true,
            };
            is_pending.then_some(request)
        });
        let mut pending: Vec<RequestId> = pending.collect();
        pending.sort_unstable();
        pending
    }

    /// Sends that have to arrive before this process may leave.
    pub(crate) fn undrained(&self) -> Vec<RequestId> {
        let owed = self.requests.iter().filter(|(_, record)| record.is_owed());
        owed.map(|(&request, _)| request).collect()
    }
}

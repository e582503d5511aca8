//! Broadcasts of which this rank is the root, kept until all others have received them: a rank inside the tree may die before it
//! has sent one on, and then the ranks below it get it from the root itself. Those that have it already know its number.

use std::collections::VecDeque;

use crate::collective::broadcast::{parent_bit, real, relative};
use crate::engine::Engine;
use crate::engine::peer::PeerState;
use crate::header::Rank;
use crate::transport::soap::reception::Forward;

/// In the order of their numbers. What is kept is what a rank has credit for, at most.
#[derive(Debug, Default)]
pub(super) struct Broadcasts(VecDeque<Broadcast>);

#[derive(Debug)]
struct Broadcast {
    forward: Forward,
    /// The credit that each rank has given back once it has received this.
    credit: Vec<u64>,
}

impl Broadcasts {
    /// One that is sent now.
    pub(super) fn keep(&mut self, forward: Forward, engine: &Engine) {
        let credit = (0..engine.size()).map(|rank| engine.credit_used(rank)).collect();
        self.0.push_back(Broadcast { forward, credit });
    }

    /// Lets go of those that all ranks have received that are still there.
    pub(super) fn release(&mut self, engine: &Engine) {
        let has = |rank: Rank, credit: u64| {
            rank == engine.rank()
                || engine.peer_state(rank) != PeerState::Alive
                || engine.credit_returned(rank) >= credit
        };
        while let Some(first) = self.0.front()
            && (0..).zip(&first.credit).all(|(rank, &credit)| has(rank, credit))
        {
            self.0.pop_front();
        }
    }

    /// What the ranks below `failed` may have missed.
    pub(super) fn below(&self, failed: Rank, size: u32) -> impl Iterator<Item = (Rank, &Forward)> {
        self.0.iter().flat_map(move |Broadcast { forward, .. }| {
            let root = forward.header.from;
            let place = relative(failed, root, size);
            let end = size.min(place + parent_bit(place, size));
            (place + 1..end).map(move |place| (real(place, root, size), forward))
        })
    }
}

//! Broadcasts of which this rank is the root, kept until all others have received them: a rank inside the tree may die or leave before
//! it has sent one on, and then the ranks below it get it from the root itself. Those that have it already know its number.

use std::collections::{BTreeSet, VecDeque};

use crate::collective::broadcast::{parent_bit, real, relative};
use crate::engine::peer::PeerState;
use crate::engine::{Engine, Frame};
use crate::header::Rank;
use crate::transport::soap::reception::Forward;

/// In the order of their numbers. What is kept is what a rank has credit for, at most.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    kept: VecDeque<Broadcast>,
    /// Ranks that have died or left, and whose part was taken over.
    gone: BTreeSet<Rank>,
}

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
        self.kept.push_back(Broadcast { forward, credit });
    }

    /// Lets go of what all have received, and gives what ranks may have missed below those that died or left since the last call.
    pub(super) fn missed(&mut self, engine: &Engine) -> Vec<Frame> {
        while self.kept.front().is_some_and(|first| first.missing(engine).next().is_none()) {
            self.kept.pop_front();
        }
        if self.kept.is_empty() {
            return Vec::new();
        }
        let all = 0..engine.size();
        let gone = all.filter(|&rank| engine.peer_state(rank) != PeerState::Alive);
        let new: Vec<Rank> = gone.filter(|&rank| self.gone.insert(rank)).collect();
        let below = |rank, root| {
            let place = relative(rank, root, engine.size());
            let end = engine.size().min(place + parent_bit(place, engine.size()));
            (place + 1..end).map(move |place| real(place, root, engine.size()))
        };
        let mut frames = Vec::new();
        for broadcast in &self.kept {
            let root = broadcast.forward.header.from;
            let orphans: BTreeSet<Rank> = new.iter().flat_map(|&rank| below(rank, root)).collect();
            let missing = broadcast.missing(engine).filter(|rank| orphans.contains(rank));
            frames.extend(missing.map(|rank| broadcast.forward.to(rank)));
        }
        frames
    }
}

impl Broadcast {
    /// Ranks that are there, and of which it is not known that they have received it.
    fn missing(&self, engine: &Engine) -> impl Iterator<Item = Rank> {
        (0..).zip(&self.credit).filter_map(|(rank, &credit)| {
            let misses = rank != engine.rank()
                && engine.peer_state(rank) == PeerState::Alive
                && engine.credit_returned(rank) < credit;
            misses.then_some(rank)
        })
    }
}

//! Broadcast and barrier.

use crate::buffer::Span;
use crate::collective::algorithm::{Barrier, Broadcast};
use crate::collective::gather::serial_gather;
use crate::collective::schedule::Schedule;
use crate::header::Rank;

/// A rank of a tree or ring that begins at `root`.
pub(crate) fn real(relative: u32, root: Rank, size: u32) -> Rank {
    (relative + root) % size
}

/// The place of a rank in it.
pub(crate) fn relative(rank: Rank, root: Rank, size: u32) -> u32 {
    (rank + size - root) % size
}

/// The bit by which a place hangs on its parent in a binomial tree; for the root, the first power of two not below `size`.
pub(crate) fn parent_bit(place: u32, size: u32) -> u32 {
    if place == 0 { size.next_power_of_two() } else { 1 << place.trailing_zeros() }
}

/// The `at`-th of `count` parts of `bytes`, cut between elements.
pub(super) fn cut(bytes: usize, element: usize, count: u32, at: u32) -> std::ops::Range<usize> {
    let elements = bytes / element;
    let (count, at) = (count as usize, at as usize);
    let start = |at: usize| at * (elements / count) + at.min(elements % count);
    start(at) * element..start(at + 1) * element
}

pub(super) fn broadcast(
    s: &mut Schedule,
    algorithm: Broadcast,
    me: Rank,
    size: u32,
    root: Rank,
    data: &Span,
) {
    match algorithm {
        Broadcast::Serial if me == root => {
            (0..size).filter(|&to| to != root).for_each(|to| s.send(to, data));
            s.wait();
        }
        Broadcast::Serial => {
            s.receive(root, data);
            s.wait();
        }
        Broadcast::Binomial => tree(s, me, size, root, |_, _| data.clone()),
        Broadcast::ScatterAllgather => {
            let part = |first: u32, end: u32| {
                let at = |place| cut(data.length(), 1, size, place);
                data.part(at(first).start..at(end - 1).end)
            };
            tree(s, me, size, root, part);
            let place = relative(me, root, size);
            let (next, previous) =
                (real(place + 1, root, size), real(place + size - 1, root, size));
            for step in 0..size - 1 {
                let sent = (place + size - step) % size;
                let received = (sent + size - 1) % size;
                s.exchange(next, &part(sent, sent + 1), previous, &part(received, received + 1));
            }
        }
    }
}

/// Down a binomial tree: each child gets `part` of the places from its own to the end of its subtree.
pub(super) fn tree(
    s: &mut Schedule,
    me: Rank,
    size: u32,
    root: Rank,
    part: impl Fn(u32, u32) -> Span,
) {
    let place = relative(me, root, size);
    let mut bit = parent_bit(place, size);
    if place != 0 {
        s.receive(real(place - bit, root, size), &part(place, size.min(place + bit)));
        s.wait();
    }
    while bit > 1 {
        bit /= 2;
        let child = place + bit;
        if child < size {
            s.send(real(child, root, size), &part(child, size.min(child + bit)));
        }
    }
    s.wait();
}

pub(super) fn barrier(s: &mut Schedule, algorithm: Barrier, me: Rank, size: u32) {
    s.send_empty();
    let nothing = s.scratch(0);
    match algorithm {
        Barrier::Serial => {
            let blocks = vec![nothing.clone(); size as usize];
            serial_gather(s, me, 0, &nothing, &blocks);
            broadcast(s, Broadcast::Serial, me, size, 0, &nothing);
        }
        Barrier::GatherBroadcast => {
            gather_nothing(s, me, size, &nothing);
            tree(s, me, size, 0, |_, _| nothing.clone());
        }
        Barrier::Dissemination => {
            let mut distance = 1;
            while distance < size {
                s.exchange(
                    (me + distance) % size,
                    &nothing,
                    (me + size - distance) % size,
                    &nothing,
                );
                distance *= 2;
            }
        }
    }
}

/// Up a binomial tree: rank 0 knows that all have come.
pub(super) fn gather_nothing(s: &mut Schedule, me: Rank, size: u32, nothing: &Span) {
    let bit = parent_bit(me, size);
    let children =
        std::iter::successors(Some(1), |bit| Some(bit * 2)).take_while(|&other| other < bit);
    children.filter(|child| me + child < size).for_each(|child| s.receive(me + child, nothing));
    s.wait();
    if me != 0 {
        s.send(me - bit, nothing);
    }
}

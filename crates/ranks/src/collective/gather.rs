//! Gather, scatter, all-gather.

use crate::buffer::Span;
use crate::collective::algorithm::{Allgather, Broadcast, Gather};
use crate::collective::broadcast::{broadcast, parent_bit, real, relative, tree};
use crate::collective::schedule::Schedule;
use crate::header::Rank;

/// `mine` of each rank to `blocks` at the root. Serially, blocks may differ; the root's own is in its place already.
pub(super) fn serial_gather(s: &mut Schedule, me: Rank, root: Rank, mine: &Span, blocks: &[Span]) {
    if me == root {
        (0..)
            .zip(blocks)
            .filter(|(from, _)| *from != root)
            .for_each(|(from, block)| s.receive(from, block));
    } else {
        s.send(root, mine);
    }
    s.wait();
}

/// The reverse.
pub(super) fn serial_scatter(s: &mut Schedule, me: Rank, root: Rank, mine: &Span, blocks: &[Span]) {
    if me == root {
        (0..).zip(blocks).filter(|(to, _)| *to != root).for_each(|(to, block)| s.send(to, block));
    } else {
        s.receive(root, mine);
    }
    s.wait();
}

pub(super) fn gather(
    s: &mut Schedule,
    algorithm: Gather,
    me: Rank,
    root: Rank,
    mine: &Span,
    blocks: &[Span],
    size: u32,
) {
    if algorithm == Gather::Serial {
        return serial_gather(s, me, root, mine, blocks);
    }
    // The blocks of this place's subtree, in the order of places.
    let (place, block) = (relative(me, root, size), mine.length());
    let bit = parent_bit(place, size);
    let end = size.min(place + bit);
    let subtree = s.scratch((end - place) as usize * block);
    let at = |first: u32, end: u32| {
        subtree.part((first - place) as usize * block..(end - place) as usize * block)
    };
    s.copy(mine, &at(place, place + 1));
    let mut child = 1;
    while child < bit && place + child < size {
        s.receive(real(place + child, root, size), &at(place + child, size.min(place + 2 * child)));
        child *= 2;
    }
    s.wait();
    if place == 0 {
        for place in 1..size {
            s.copy(&at(place, place + 1), &blocks[real(place, root, size) as usize]);
        }
    } else {
        s.send(real(place - bit, root, size), &subtree);
        s.wait();
    }
}

pub(super) fn scatter(
    s: &mut Schedule,
    algorithm: Gather,
    me: Rank,
    root: Rank,
    mine: &Span,
    blocks: &[Span],
    size: u32,
) {
    if algorithm == Gather::Serial {
        return serial_scatter(s, me, root, mine, blocks);
    }
    let (place, block) = (relative(me, root, size), mine.length());
    let end = size.min(place + parent_bit(place, size));
    let subtree = s.scratch((end - place) as usize * block);
    let at = |first: u32, end: u32| {
        subtree.part((first - place) as usize * block..(end - place) as usize * block)
    };
    if place == 0 {
        for place in 1..size {
            s.copy(&blocks[real(place, root, size) as usize], &at(place, place + 1));
        }
    }
    tree(s, me, size, root, at);
    if place != 0 {
        s.copy(&at(place, place + 1), mine);
    }
}

/// Every rank's block to every rank; its own is in its place already. In a ring, blocks may differ.
pub(super) fn allgather(
    s: &mut Schedule,
    algorithm: Allgather,
    me: Rank,
    all: &Span,
    blocks: &[Span],
    size: u32,
) {
    let block = |place: u32| &blocks[(place % size) as usize];
    match algorithm {
        Allgather::GatherBroadcast => {
            serial_gather(s, me, 0, block(me), blocks);
            broadcast(s, Broadcast::Binomial, me, size, 0, all);
        }
        Allgather::Ring => {
            for step in 0..size - 1 {
                let sent = me + size - step;
                s.exchange(
                    (me + 1) % size,
                    block(sent),
                    (me + size - 1) % size,
                    block(sent + size - 1),
                );
            }
        }
        Allgather::Bruck => {
            let bytes = block(me).length();
            let turned = s.scratch(size as usize * bytes);
            let at =
                |first: u32, end: u32| turned.part(first as usize * bytes..end as usize * bytes);
            s.copy(block(me), &at(0, 1));
            let mut have = 1;
            while have < size {
                let more = have.min(size - have);
                let (to, from) = ((me + size - have) % size, (me + have) % size);
                s.exchange(to, &at(0, more), from, &at(have, have + more));
                have += more;
            }
            for place in 1..size {
                s.copy(&at(place, place + 1), block(me + place));
            }
        }
    }
}

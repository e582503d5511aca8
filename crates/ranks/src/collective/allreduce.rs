//! Reduction to all ranks.

use crate::buffer::Span;
use crate::collective::algorithm::{Allreduce, Broadcast, Reduce};
use crate::collective::broadcast::{broadcast, cut};
use crate::collective::reduce::reduce;
use crate::collective::schedule::Schedule;
use crate::header::Rank;
use crate::operation::Operation;

pub(super) fn allreduce(
    s: &mut Schedule,
    algorithm: Allreduce,
    (by, back): (Reduce, Broadcast),
    operation: &Operation,
    me: Rank,
    value: &Span,
    size: u32,
) {
    let block = |count: u32, at: u32| {
        value.part(cut(value.length(), operation.element(), count, at % count))
    };
    match algorithm {
        Allreduce::ReduceBroadcast => {
            reduce(s, by, me, 0, value, size, operation.is_commutative());
            broadcast(s, back, me, size, 0, value);
        }
        Allreduce::Ring => ring(s, me, size, |at| block(size, at)),
        Allreduce::RecursiveDoubling => {
            among_power_of_two(s, me, value, size, |s, place, count, rank_of| {
                let other = s.scratch(value.length());
                let mut distance = 1;
                while distance < count {
                    let partner = place ^ distance;
                    s.exchange(rank_of(partner), value, rank_of(partner), &other);
                    s.fold(value, &other, partner > place);
                    distance *= 2;
                }
            });
        }
        Allreduce::Rabenseifner => {
            among_power_of_two(s, me, value, size, |s, place, count, rank_of| {
                let blocks = |first: u32, end: u32| {
                    let offset = value.range.start;
                    let (first, last) = (block(count, first), block(count, end - 1));
                    value.part(first.range.start - offset..last.range.end - offset)
                };
                let other = s.scratch(value.length());
                let mut half = count / 2;
                while half > 0 {
                    let partner = place ^ half;
                    let (kept, given) = (place & !(half - 1), partner & !(half - 1));
                    let kept = blocks(kept, kept + half);
                    let received = other.part(0..kept.length());
                    s.exchange(
                        rank_of(partner),
                        &blocks(given, given + half),
                        rank_of(partner),
                        &received,
                    );
                    s.fold(&kept, &received, partner > place);
                    half /= 2;
                }
                let mut have = 1;
                while have < count {
                    let partner = place ^ have;
                    let (mine, theirs) = (place & !(have - 1), partner & !(have - 1));
                    s.exchange(
                        rank_of(partner),
                        &blocks(mine, mine + have),
                        rank_of(partner),
                        &blocks(theirs, theirs + have),
                    );
                    have *= 2;
                }
            });
        }
    }
}

fn ring(s: &mut Schedule, me: Rank, size: u32, block: impl Fn(u32) -> Span) {
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let other = s.scratch(block(0).length());
    for step in 0..size - 1 {
        let sent = me + size - step;
        let kept = block(sent + size - 1);
        let received = other.part(0..kept.length());
        s.exchange(next, &block(sent), previous, &received);
        s.fold(&kept, &received, false);
    }
    for step in 0..size - 1 {
        let sent = me + 1 + size - step;
        s.exchange(next, &block(sent), previous, &block(sent + size - 1));
    }
}

/// Does `act` among as many ranks as the largest power of two has; the first of the others give their value to their
/// neighbours before, and get the result after (Rabenseifner 2004, 2.3).
fn among_power_of_two(
    s: &mut Schedule,
    me: Rank,
    value: &Span,
    size: u32,
    act: impl FnOnce(&mut Schedule, u32, u32, &dyn Fn(u32) -> Rank),
) {
    let count = 1 << size.ilog2();
    let extra = size - count;
    if me < 2 * extra && me.is_multiple_of(2) {
        s.send(me + 1, value);
        s.wait();
        s.receive(me + 1, value);
        s.wait();
        return;
    }
    let paired = me < 2 * extra;
    if paired {
        let other = s.scratch(value.length());
        s.receive(me - 1, &other);
        s.wait();
        s.fold(value, &other, false);
    }
    let place = if paired { me / 2 } else { me - extra };
    act(s, place, count, &|place| if place < extra { 2 * place + 1 } else { place + extra });
    if paired {
        s.send(me - 1, value);
        s.wait();
    }
}

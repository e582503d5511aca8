//! Reduction to all ranks.

use crate::collective::accumulator::Accumulator;
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
    mut value: Accumulator,
    size: u32,
) {
    let length = value.result().length();
    let cut = |count: u32, at: u32| cut(length, operation.element(), count, at % count);
    match algorithm {
        Allreduce::ReduceBroadcast => {
            reduce(s, by, me, 0, &mut value, size);
            broadcast(s, back, me, size, 0, value.result());
        }
        Allreduce::Ring => ring(s, me, size, &value, |at| cut(size, at)),
        Allreduce::RecursiveDoubling => {
            among_power_of_two(s, me, &mut value, size, |s, value, place, count, rank_of| {
                let mut scratch = None;
                let mut distance = 1;
                while distance < count {
                    let partner = place ^ distance;
                    let (rank, higher) = (rank_of(partner), partner > place);
                    let other = value.landing(s, higher, &mut scratch);
                    s.exchange(rank, value.value(), rank, &other);
                    value.fold(s, &other, higher);
                    distance *= 2;
                }
                value.settle(s);
            });
        }
        Allreduce::Rabenseifner => {
            among_power_of_two(s, me, &mut value, size, |s, value, place, count, rank_of| {
                let blocks =
                    |first: u32, end: u32| cut(count, first).start..cut(count, end - 1).end;
                let (mut mine, mut scratch) = (value.clone(), None);
                let mut half = count / 2;
                while half > 0 {
                    let partner = place ^ half;
                    // The first of the blocks of `mine`, of the half of it that is kept, and of the other half.
                    let first = place & !(2 * half - 1);
                    let (kept, given) = (place & !(half - 1), partner & !(half - 1));
                    let offset = cut(count, first).start;
                    let part = |at: u32| {
                        let range = blocks(at, at + half);
                        mine.part(range.start - offset..range.end - offset)
                    };
                    let sent = part(given);
                    mine = part(kept);
                    let rank = rank_of(partner);
                    let other = mine.landing(s, partner > place, &mut scratch);
                    s.exchange(rank, sent.value(), rank, &other);
                    mine.fold(s, &other, partner > place);
                    half /= 2;
                }
                mine.settle(s);
                let mut have = 1;
                while have < count {
                    let partner = place ^ have;
                    let (mine, theirs) = (place & !(have - 1), partner & !(have - 1));
                    let block = |at: u32| value.result().part(blocks(at, at + have));
                    s.exchange(rank_of(partner), &block(mine), rank_of(partner), &block(theirs));
                    have *= 2;
                }
            });
        }
    }
}

fn ring(
    s: &mut Schedule,
    me: Rank,
    size: u32,
    value: &Accumulator,
    block: impl Fn(u32) -> std::ops::Range<usize>,
) {
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let mut scratch = value.is_filled().then(|| s.scratch(block(0).len()));
    let mut sent = value.part(block(me));
    for step in 1..size {
        let mut kept = value.part(block(me + size - step));
        let other = kept.landing(s, false, &mut scratch);
        s.exchange(next, sent.value(), previous, &other);
        kept.fold(s, &other, false);
        sent = kept;
    }
    sent.settle(s);
    for step in 0..size - 1 {
        let sent = me + 1 + size - step;
        let block = |at: u32| value.result().part(block(at));
        s.exchange(next, &block(sent), previous, &block(sent + size - 1));
    }
}

/// Does `act` among as many ranks as the largest power of two has, with the value's result in its place afterwards; the first of the others give
/// their value to their neighbours before, and get the result after (Rabenseifner 2004, 2.3).
fn among_power_of_two(
    s: &mut Schedule,
    me: Rank,
    value: &mut Accumulator,
    size: u32,
    act: impl FnOnce(&mut Schedule, &mut Accumulator, u32, u32, &dyn Fn(u32) -> Rank),
) {
    let count = 1 << size.ilog2();
    let extra = size - count;
    if me < 2 * extra && me.is_multiple_of(2) {
        s.send(me + 1, value.value());
        s.wait();
        s.receive(me + 1, value.result());
        s.wait();
        return;
    }
    let paired = me < 2 * extra;
    if paired {
        let other = value.landing(s, false, &mut None);
        s.receive(me - 1, &other);
        s.wait();
        value.fold(s, &other, false);
    }
    let place = if paired { me / 2 } else { me - extra };
    let rank_of = |place| if place < extra { 2 * place + 1 } else { place + extra };
    act(s, value, place, count, &rank_of);
    if paired {
        s.send(me - 1, value.result());
        s.wait();
    }
}

//! Reduction to one rank, and reduce-scatter.

use crate::buffer::Span;
use crate::collective::accumulator::Accumulator;
use crate::collective::algorithm::Reduce;
use crate::collective::broadcast::{real, relative};
use crate::collective::schedule::Schedule;
use crate::header::Rank;

/// `value` of all ranks to the result of the root; other ranks' results are lost.
pub(super) fn reduce(
    s: &mut Schedule,
    algorithm: Reduce,
    me: Rank,
    root: Rank,
    value: &mut Accumulator,
    size: u32,
) {
    match algorithm {
        Reduce::Serial if me == root => serial(s, me, value, size),
        Reduce::Serial => {
            s.send(root, value.value());
            s.wait();
        }
        Reduce::Binomial => {
            // Where the order matters the tree begins at rank 0, whatever the root.
            let top = if s.is_commutative() { root } else { 0 };
            binomial(s, me, top, value, size);
            if top != root && me == top {
                s.send(root, value.value());
                s.wait();
            } else if top != root && me == root {
                s.receive(top, value.result());
                s.wait();
                value.fill();
            }
        }
    }
}

/// ((v0 op v1) op v2) ...
fn serial(s: &mut Schedule, me: Rank, value: &mut Accumulator, size: u32) {
    let last = size - 1;
    // The first one is only read, and the last one is written.
    let is_free = me == 0 && !value.is_filled() && !s.changes_left();
    if !is_free {
        value.settle(s);
    }
    let all: Vec<Span> = (0..size)
        .map(|from| match from {
            _ if from == me => value.value().clone(),
            _ if from == last && is_free => value.result().clone(),
            _ => s.scratch(value.result().length()),
        })
        .collect();
    (0..size).filter(|&from| from != me).for_each(|from| s.receive(from, &all[from as usize]));
    s.wait();
    in_order(s, &all, value.result());
    value.fill();
}

/// The values of all ranks into one, one after the other; they are lost.
pub(super) fn in_order(s: &mut Schedule, values: &[Span], into: &Span) {
    for pair in values.windows(2) {
        s.reduce(&pair[0], &pair[1]);
    }
    s.copy(&values[values.len() - 1], into);
}

fn binomial(s: &mut Schedule, me: Rank, top: Rank, value: &mut Accumulator, size: u32) {
    let place = relative(me, top, size);
    let mut scratch = None;
    let mut bit = 1;
    while bit < size {
        if place & bit != 0 {
            s.send(real(place - bit, top, size), value.value());
            s.wait();
            return;
        }
        if place + bit < size {
            let other = value.landing(s, true, &mut scratch);
            s.receive(real(place + bit, top, size), &other);
            s.wait();
            value.fold(s, &other, true);
        }
        bit *= 2;
    }
    value.settle(s);
}

/// Of each rank's `values` the block of this rank, reduced into `result`. For commutative operations.
pub(super) fn pairwise_reduce_scatter(
    s: &mut Schedule,
    me: Rank,
    values: &[Span],
    result: &Span,
    size: u32,
) {
    let mut value = Accumulator::new(values[me as usize].clone(), result.clone());
    let mut scratch = None;
    for step in 1..size {
        let (to, from) = ((me + step) % size, (me + size - step) % size);
        let other = value.landing(s, from > me, &mut scratch);
        s.exchange(to, &values[to as usize], from, &other);
        value.fold(s, &other, from > me);
    }
    value.settle(s);
}

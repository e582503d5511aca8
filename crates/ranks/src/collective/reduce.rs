//! Reduction to one rank, and reduce-scatter.

use crate::buffer::Span;
use crate::collective::algorithm::Reduce;
use crate::collective::broadcast::{real, relative};
use crate::collective::schedule::Schedule;
use crate::header::Rank;

/// `value` of all ranks to that of the root; other ranks' values are lost.
pub(super) fn reduce(
    s: &mut Schedule,
    algorithm: Reduce,
    me: Rank,
    root: Rank,
    value: &Span,
    size: u32,
    commutative: bool,
) {
    match algorithm {
        Reduce::Serial if me == root => serial(s, me, value, size),
        Reduce::Serial => {
            s.send(root, value);
            s.wait();
        }
        Reduce::Binomial => {
            // Where the order matters the tree begins at rank 0, whatever the root.
            let top = if commutative { root } else { 0 };
            binomial(s, me, top, value, size);
            if top != root && me == top {
                s.send(root, value);
                s.wait();
            } else if top != root && me == root {
                s.receive(top, value);
                s.wait();
            }
        }
    }
}

/// ((v0 op v1) op v2) ...
fn serial(s: &mut Schedule, me: Rank, value: &Span, size: u32) {
    let others: Vec<Span> = (0..size)
        .map(|from| if from == me { value.clone() } else { s.scratch(value.length()) })
        .collect();
    (0..size).filter(|&from| from != me).for_each(|from| s.receive(from, &others[from as usize]));
    s.wait();
    in_order(s, &others, value);
}

/// The values of all ranks into one, one after the other; they are lost.
pub(super) fn in_order(s: &mut Schedule, values: &[Span], into: &Span) {
    for pair in values.windows(2) {
        s.reduce(&pair[0], &pair[1]);
    }
    s.copy(&values[values.len() - 1], into);
}

fn binomial(s: &mut Schedule, me: Rank, top: Rank, value: &Span, size: u32) {
    let place = relative(me, top, size);
    let other = s.scratch(value.length());
    let mut bit = 1;
    while bit < size {
        if place & bit != 0 {
            s.send(real(place - bit, top, size), value);
            s.wait();
            return;
        }
        if place + bit < size {
            s.receive(real(place + bit, top, size), &other);
            s.wait();
            s.fold(value, &other, true);
        }
        bit *= 2;
    }
}

/// Of each rank's `values` the block of this rank, reduced into `result`, where this rank's own is already. For
/// commutative operations.
pub(super) fn pairwise_reduce_scatter(
    s: &mut Schedule,
    me: Rank,
    values: &[Span],
    result: &Span,
    size: u32,
) {
    let other = s.scratch(result.length());
    for step in 1..size {
        let (to, from) = ((me + step) % size, (me + size - step) % size);
        s.exchange(to, &values[to as usize], from, &other);
        s.fold(result, &other, from > me);
    }
}

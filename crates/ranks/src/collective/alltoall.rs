//! All-to-all.

use crate::buffer::Span;
use crate::collective::algorithm::Alltoall;
use crate::collective::schedule::Schedule;
use crate::header::Rank;

/// `from[i]` to rank i, and from it `to[i]`. But for Bruck's, blocks may differ.
pub(super) fn alltoall(
    s: &mut Schedule,
    algorithm: Alltoall,
    me: Rank,
    from: &[Span],
    to: &[Span],
    size: u32,
) {
    s.copy(&from[me as usize], &to[me as usize]);
    let at = |place: u32| (place % size) as usize;
    match algorithm {
        Alltoall::Scattered => {
            for step in 1..size {
                let source = (me + size - step) % size;
                s.receive(source, &to[at(source)]);
            }
            for step in 1..size {
                s.send((me + step) % size, &from[at(me + step)]);
            }
            s.wait();
        }
        Alltoall::Pairwise => {
            for step in 1..size {
                let (target, source) = ((me + step) % size, (me + size - step) % size);
                s.exchange(target, &from[at(target)], source, &to[at(source)]);
            }
        }
        Alltoall::Bruck => bruck(s, me, from, to, size),
    }
}

fn bruck(s: &mut Schedule, me: Rank, from: &[Span], to: &[Span], size: u32) {
    let block = from[0].length();
    let turned = s.scratch(size as usize * block);
    let (packed, unpacked) = (s.scratch(size as usize * block), s.scratch(size as usize * block));
    let part = |span: &Span, at: usize| span.part(at * block..(at + 1) * block);
    for place in 0..size as usize {
        s.copy(&from[(me as usize + place) % size as usize], &part(&turned, place));
    }
    let mut distance = 1;
    while distance < size {
        let moving: Vec<usize> =
            (0..size).filter(|place| place & distance != 0).map(|place| place as usize).collect();
        for (at, &place) in moving.iter().enumerate() {
            s.copy(&part(&turned, place), &part(&packed, at));
        }
        let bytes = 0..moving.len() * block;
        let (target, source) = ((me + distance) % size, (me + size - distance) % size);
        s.exchange(target, &packed.part(bytes.clone()), source, &unpacked.part(bytes));
        for (at, &place) in moving.iter().enumerate() {
            s.copy(&part(&unpacked, at), &part(&turned, place));
        }
        distance *= 2;
    }
    for place in 1..size {
        s.copy(&part(&turned, place as usize), &to[((me + size - place) % size) as usize]);
    }
}

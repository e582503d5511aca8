//! Both ways against the plain one: element by element.

use std::cell::RefCell;

use proptest::prelude::*;

use super::*;

/// The elements of an array, each its own number.
fn elements(shape: &[u64], size: usize) -> Vec<u8> {
    let count: u64 = if shape.contains(&0) { 0 } else { shape.iter().product() };
    (0..count).flat_map(|element| element.to_le_bytes()[..size].to_vec()).collect()
}

/// What `reversed` gives, and how often each of the other way's functions was called.
fn reverse(from: &[u8], shape: &[u64], size: usize) -> (Vec<u8>, usize, usize) {
    let to = RefCell::new(vec![0; from.len()]);
    let (reads, writes) = (RefCell::new(0), RefCell::new(0));
    let read_at = |part: &mut [u8], at: u64| {
        *reads.borrow_mut() += 1;
        part.copy_from_slice(&from[index(at)..][..part.len()]);
        Ok(())
    };
    let write_at = |part: &[u8], at: u64| {
        *writes.borrow_mut() += 1;
        to.borrow_mut()[index(at)..][..part.len()].copy_from_slice(part);
        Ok(())
    };
    reverse_at(shape, size, &read_at, &write_at).unwrap();
    (to.into_inner(), reads.into_inner(), writes.into_inner())
}

/// Element by element.
fn plainly(from: &[u8], shape: &[u64], size: usize) -> Vec<u8> {
    let mut to = vec![0; from.len()];
    for (element, bytes) in from.chunks_exact(size).enumerate() {
        let (mut rest, mut at) = (element as u64, 0);
        for length in shape.iter().rev() {
            at = at * length + rest % length;
            rest /= length;
        }
        to[index(at) * size..][..size].copy_from_slice(bytes);
    }
    to
}

fn check(shape: &[u64], size: usize) {
    let from = elements(shape, size);
    let expected = plainly(&from, shape, size);
    assert!(reversed(&from, shape, size) == expected, "in memory: {shape:?} {size}");
    assert!(reverse(&from, shape, size).0 == expected, "at places: {shape:?} {size}");
}

proptest! {
    #[test]
    fn the_axes_are_turned_around(
        shape in prop::collection::vec(1..7_u64, 1..6),
        size in prop::sample::select(vec![4, 8]),
    ) {
        check(&shape, size);
    }

    #[test]
    fn an_empty_array_stays_empty_however_long_its_axes(
        mut shape in prop::collection::vec(prop_oneof![0..3_u64, Just(u64::MAX), any::<u64>()], 1..8),
        empty in any::<prop::sample::Index>(),
    ) {
        let empty = empty.index(shape.len());
        shape[empty] = 0;
        check(&shape, 8);
    }
}

#[test]
fn an_empty_array_with_axes_beyond_counting_is_turned() {
    check(&[0, u64::MAX, u64::MAX], 8);
    check(&[u64::MAX, u64::MAX, 0], 4);
}

#[test]
fn what_is_larger_than_a_block_is_turned_whatever_its_shape() {
    for shape in [
        &[20_000][..],
        &[300, 301],
        &[2, 20_001],
        &[20_001, 2],
        &[2, 10_001, 2],
        &[1, 143, 1, 1, 141, 1],
        &[10, 11, 12, 13],
        &[3, 50, 2, 50, 3],
        &[2, 2, 2, 2, 701, 2, 2, 2],
        &[50, 3, 3, 3, 50],
    ] {
        check(shape, 8);
        check(shape, 4);
    }
}

#[test]
fn long_inner_axes_are_not_read_element_by_element() {
    for shape in [&[2, 30_000, 2][..], &[1, 300, 1, 200, 1], &[2, 300, 100, 2], &[200, 3, 200]] {
        let from = elements(shape, 8);
        let (_, reads, writes) = reverse(&from, shape, 8);
        // A run is about a line of a square block.
        let runs = from.len() / index(BLOCK).isqrt();
        assert!(reads <= 2 * runs && writes <= 2 * runs, "{shape:?}: {reads} {writes} {runs}");
    }
}

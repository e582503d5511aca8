//! From one order of the elements to the other: Fortran's, in which the first index runs fastest,
//! is C's of the same array with its axes turned around.
//!
//! What is small is turned in memory, what is large in blocks from file to file.

use std::io;

/// Up to so many bytes are turned in memory. In tests few, so that the ways of large arrays are gone
/// quickly.
pub(super) const IN_MEMORY: u64 = if cfg!(test) { 64 << 10 } else { 16 << 20 };

/// Bytes of a block.
const BLOCK: u64 = if cfg!(test) { 16 << 10 } else { 4 << 20 };

/// Turns the axes of an array in C order around: `shape` is that of `from`; the other has the same
/// lengths from the last to the first.
pub(super) fn reversed(from: &[u8], shape: &[u64], size: usize) -> Vec<u8> {
    let mut to = Vec::with_capacity(from.len());
    // Beside an axis of no length the others may be said to be of any.
    if from.is_empty() {
        return to;
    }
    // Strides of the result's axes in the source: the source's own, from the last to the first.
    let lengths: Vec<usize> = shape.iter().rev().map(|length| index(*length)).collect();
    let mut strides = Vec::with_capacity(lengths.len());
    let mut stride = size;
    for length in &lengths {
        strides.push(stride);
        stride *= length;
    }
    gather(from, &lengths, &strides, size, 0, &mut to);
    to
}

fn gather(
    from: &[u8],
    lengths: &[usize],
    strides: &[usize],
    size: usize,
    start: usize,
    to: &mut Vec<u8>,
) {
    let ([length, inner_lengths @ ..], [stride, inner_strides @ ..]) = (lengths, strides) else {
        return;
    };
    if inner_lengths.is_empty() {
        match size {
            4 => gather_line::<4>(from, *length, *stride, start, to),
            _ => gather_line::<8>(from, *length, *stride, start, to),
        }
        return;
    }
    for at in 0..*length {
        gather(from, inner_lengths, inner_strides, size, start + at * stride, to);
    }
}

fn gather_line<const N: usize>(
    from: &[u8],
    length: usize,
    stride: usize,
    start: usize,
    to: &mut Vec<u8>,
) {
    for at in 0..length {
        if let Some(element) = from[start + at * stride..].first_chunk::<N>() {
            to.extend_from_slice(element);
        }
    }
}

/// The same for what is too large for memory, by reading and writing anywhere: block after block,
/// of which about as much lies together in the one order as in the other.
pub(super) fn reverse_at(
    shape: &[u64],
    size: usize,
    read_at: &dyn Fn(&mut [u8], u64) -> io::Result<()>,
    write_at: &dyn Fn(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    let bytes = size as u64;
    let block = block(shape, BLOCK / bytes);
    let mut start = vec![0; shape.len()];
    loop {
        let left = start.iter().zip(shape).map(|(start, length)| length - start);
        let mut region = ArrayRegion {
            shape: shape.to_vec(),
            lengths: left.zip(&block).map(|(left, length)| left.min(*length)).collect(),
            start: start.clone(),
        };
        let mut tile = vec![0; index(region.lengths.iter().product()) * size];
        let mut parts = tile.chunks_exact_mut(index(region.together()) * size);
        region.each_run(|at| parts.next().map_or(Ok(()), |part| read_at(part, at * bytes)))?;
        let turned = reversed(&tile, &region.lengths, size);
        region.reverse();
        let mut parts = turned.chunks_exact(index(region.together()) * size);
        region.each_run(|at| parts.next().map_or(Ok(()), |part| write_at(part, at * bytes)))?;
        if !advance(&mut start, shape, &block) {
            return Ok(());
        }
    }
}

/// The lengths of a block of at most so many elements.
fn block(shape: &[u64], most: u64) -> Vec<u64> {
    let side = most.isqrt();
    let mut block = vec![1; shape.len()];
    let mut grow = |axes: &mut dyn Iterator<Item = usize>| {
        let mut together = 1;
        for axis in axes {
            let length = shape[axis].min(side / together).max(1);
            block[axis] = length.max(block[axis]);
            together *= length;
        }
    };
    grow(&mut (0..shape.len()).rev());
    grow(&mut (0..shape.len()));
    // Where axes are short, there is room left.
    for axis in (0..shape.len()).rev() {
        let room = most / block.iter().product::<u64>();
        block[axis] = shape[axis].min(block[axis] * room.max(1));
    }
    block
}

/// A part of an array.
struct ArrayRegion {
    shape: Vec<u64>,
    start: Vec<u64>,
    lengths: Vec<u64>,
}

impl ArrayRegion {
    /// The same in the array with its axes turned around.
    fn reverse(&mut self) {
        self.shape.reverse();
        self.start.reverse();
        self.lengths.reverse();
    }

    /// How many of the outer axes lead from one run of elements that lie together to the next.
    fn outer(&self) -> usize {
        let cut = self.lengths.iter().zip(&self.shape).rposition(|(length, all)| length < all);
        cut.unwrap_or(0)
    }

    /// Elements that lie together.
    fn together(&self) -> u64 {
        self.lengths[self.outer()..].iter().product()
    }

    /// Calls with the place of each run of elements that lie together.
    fn each_run(&self, mut call: impl FnMut(u64) -> io::Result<()>) -> io::Result<()> {
        let outer = self.outer();
        let (mut place, steps) = (vec![0; outer], vec![1; outer]);
        loop {
            let inner = std::iter::repeat(&0);
            let axes = self.shape.iter().zip(&self.start).zip(place.iter().chain(inner));
            call(axes.fold(0, |at, ((length, start), place)| at * length + start + place))?;
            if !advance(&mut place, &self.lengths, &steps) {
                return Ok(());
            }
        }
    }
}

/// Goes on to the next place, the last index first; `false` behind the last one.
fn advance(place: &mut [u64], lengths: &[u64], steps: &[u64]) -> bool {
    for ((place, length), step) in place.iter_mut().zip(lengths).zip(steps).rev() {
        *place += step;
        if *place < *length {
            return true;
        }
        *place = 0;
    }
    false
}

/// A length of what is in memory.
fn index(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

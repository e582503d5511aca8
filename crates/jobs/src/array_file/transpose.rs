//! From one order of the elements to the other: Fortran's, in which the first index runs fastest,
//! is C's of the same array with its axes turned around.
//!
//! What is small is turned in memory, what is large in tiles from file to file.

use std::io;

/// Up to so many bytes are turned in memory. In tests few, so that the ways of large arrays are gone
/// quickly.
pub(super) const IN_MEMORY: u64 = if cfg!(test) { 64 << 10 } else { 16 << 20 };

/// Bytes of a tile.
const TILE: u64 = if cfg!(test) { 16 << 10 } else { 4 << 20 };

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

/// The same for what is too large for memory, by reading and writing anywhere.
pub(super) fn reverse_at(
    shape: &[u64],
    size: usize,
    read_at: &dyn Fn(&mut [u8], u64) -> io::Result<()>,
    write_at: &dyn Fn(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    let [first, middle @ .., last] = shape else {
        // One axis: nothing turns.
        return copy_at(shape.iter().product::<u64>() * size as u64, read_at, write_at);
    };
    // The first and the last axis change places in tiles, for each index of those between them.
    let inner: u64 = middle.iter().product();
    for index in 0..inner {
        let mirrored = mirror(index, middle);
        let plane = Plane {
            rows: *first,
            columns: *last,
            from: (index * last, inner * last),
            to: (mirrored * first, inner * first),
        };
        plane.turn(size, read_at, write_at)?;
    }
    Ok(())
}

/// A matrix within an array: offset of its first element and distance of its rows, in elements.
struct Plane {
    rows: u64,
    columns: u64,
    from: (u64, u64),
    to: (u64, u64),
}

impl Plane {
    fn turn(
        &self,
        size: usize,
        read_at: &dyn Fn(&mut [u8], u64) -> io::Result<()>,
        write_at: &dyn Fn(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let bytes = size as u64;
        let side = (TILE / bytes).isqrt();
        // A narrow matrix has long tiles.
        let width = side.max(TILE / bytes / self.rows.max(1)).min(self.columns).max(1);
        let height = side.max(TILE / bytes / width).min(self.rows).max(1);
        for row in (0..self.rows).step_by(index(height)) {
            let height = height.min(self.rows - row);
            for column in (0..self.columns).step_by(index(width)) {
                let width = width.min(self.columns - column);
                let line = index(width) * size;
                let mut tile = vec![0; index(height) * line];
                // What lies together is read and written at once.
                let together = if self.from.1 == width { tile.len() } else { line };
                for (at, part) in (row..).zip(tile.chunks_exact_mut(together)) {
                    read_at(part, (self.from.0 + at * self.from.1 + column) * bytes)?;
                }
                let turned = reversed(&tile, &[height, width], size);
                let together =
                    if self.to.1 == height { turned.len() } else { index(height) * size };
                for (at, part) in (column..).zip(turned.chunks_exact(together)) {
                    write_at(part, (self.to.0 + at * self.to.1 + row) * bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// The place in C order of the same element when the axes are turned around.
fn mirror(mut index: u64, lengths: &[u64]) -> u64 {
    let mut mirrored = 0;
    for length in lengths.iter().rev() {
        mirrored = mirrored * length + index % length;
        index /= length;
    }
    mirrored
}

fn copy_at(
    len: u64,
    read_at: &dyn Fn(&mut [u8], u64) -> io::Result<()>,
    write_at: &dyn Fn(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut chunk = vec![0; index(len.min(TILE))];
    let mut offset = 0;
    while offset < len {
        let part = &mut chunk[..index(TILE.min(len - offset))];
        read_at(part, offset)?;
        write_at(part, offset)?;
        offset += part.len() as u64;
    }
    Ok(())
}

/// A length of what is in memory.
fn index(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

//! Memory: held at once, or growing evenly (paper: a ramp-up distribution).

use std::io;
use std::time::{Duration, Instant};

use super::size;

/// Memory is taken in pieces of this size.
const PIECE: usize = 1 << 20;

/// Holds memory in a thread, every page of it written, so that the kernel has to have it; growing over `ramp`.
/// What could not be had is told at the beginning, or when it grows no more.
pub(super) fn hold(
    text: &str,
    ramp: Duration,
    tell: impl Fn(Option<String>) + Send + 'static,
) -> io::Result<()> {
    let bytes = size(text)?;
    let pieces = usize::try_from(bytes.div_ceil(PIECE as u64)).unwrap_or(usize::MAX);
    let begun = Instant::now();
    let mut held: Vec<Vec<u8>> = Vec::new();
    let take = move || {
        let part =
            if ramp.is_zero() { 1.0 } else { begun.elapsed().as_secs_f64() / ramp.as_secs_f64() };
        #[expect(clippy::cast_possible_truncation, reason = "a part of it")]
        let due = (pieces as f64 * part.min(1.0)) as usize;
        while held.len() < due {
            match piece(held.len()) {
                Ok(piece) => held.push(piece),
                Err(error) => {
                    let had = fishplate_formats::units::rounded((held.len() * PIECE) as u64);
                    return Some(format!("{had} of memory could be had: {error}"));
                }
            }
        }
        None
    };
    super::take_again(take, tell)
}

/// No two pages are alike, so that they can't be merged.
fn piece(number: usize) -> Result<Vec<u8>, std::collections::TryReserveError> {
    let mut piece = Vec::new();
    piece.try_reserve_exact(PIECE)?;
    let mut state = number as u64 + 1;
    while piece.len() < PIECE {
        // Xorshift (Marsaglia 2003): not worth compressing.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        piece.extend_from_slice(&state.to_ne_bytes());
    }
    Ok(piece)
}

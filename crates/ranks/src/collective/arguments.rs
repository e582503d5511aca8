//! What calls are given besides buffers.

use crate::buffer::Span;
use crate::error::{Error, Result};

/// What a rank contributes is in its receive buffer already (`MPI_IN_PLACE`).
pub const IN_PLACE: InPlace = InPlace;

/// See [`IN_PLACE`].
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

/// What a rank contributes.
#[derive(Clone, Copy, Debug)]
pub enum Contribution<'a, T> {
    /// These elements.
    Data(&'a [T]),
    /// What is in the receive buffer.
    InPlace,
}

impl<T> From<InPlace> for Contribution<'_, T> {
    fn from(_: InPlace) -> Self {
        Self::InPlace
    }
}

impl<'a, T> From<&'a [T]> for Contribution<'a, T> {
    fn from(data: &'a [T]) -> Self {
        Self::Data(data)
    }
}

impl<'a, T> From<&'a Vec<T>> for Contribution<'a, T> {
    fn from(data: &'a Vec<T>) -> Self {
        Self::Data(data)
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Contribution<'a, T> {
    fn from(data: &'a [T; N]) -> Self {
        Self::Data(data)
    }
}

/// Where in a buffer each rank's elements are: how many, and from which on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// How many, for each rank.
    pub counts: Vec<usize>,
    /// From which on, for each rank.
    pub displacements: Vec<usize>,
}

impl Blocks {
    /// One after the other.
    pub fn packed(counts: &[usize]) -> Self {
        let displacements =
            counts.iter().scan(0, |next, count| Some(std::mem::replace(next, *next + count)));
        Self { displacements: displacements.collect(), counts: counts.to_vec() }
    }

    pub(super) fn spans<T>(
        &self,
        argument: &'static str,
        size: u32,
        whole: &Span,
    ) -> Result<Vec<Span>> {
        let wrong = |problem: String| Error::Argument { argument, problem };
        let ranks = size as usize;
        if self.counts.len() != ranks || self.displacements.len() != ranks {
            return Err(wrong(format!("counts and displacements are needed for {size} ranks")));
        }
        let element = size_of::<T>();
        let pairs = self.counts.iter().zip(&self.displacements).enumerate();
        let span = |(rank, (&count, &displacement)): (usize, (&usize, &usize))| {
            let end = displacement.checked_add(count).and_then(|end| end.checked_mul(element));
            match end {
                Some(end) if end <= whole.length() => Ok(whole.part(displacement * element..end)),
                _ => Err(wrong(format!(
                    "the block of rank {rank} is {count} elements from {displacement} on, and the buffer has {}",
                    whole.length() / element
                ))),
            }
        };
        pairs.map(span).collect()
    }
}

//! A hash for numbers that the ranks of a domain count up: no stranger chooses them, so they need no protection from collisions, which
//! costs more than the rest of a short message.

use std::hash::{BuildHasherDefault, Hasher};

/// A map by IDs.
pub(crate) type IdMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Multiplies (Knuth, The Art of Computer Programming 3, 6.4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    /// A table goes by the lowest bits, and by the highest; the middle of the product depends on most bits of the number.
    fn finish(&self) -> u64 {
        self.0.rotate_left(16)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(8) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher as _;

    use super::*;
    use crate::header::Context;

    #[test]
    fn contexts_of_many_leaders_are_spread_over_a_table() {
        let slot = |leader: u32| {
            BuildHasherDefault::<IdHasher>::default().hash_one(Context::new(leader, 2)) % 256
        };
        let slots: HashSet<u64> = (0..128).map(slot).collect();
        assert!(slots.len() > 64, "{} slots of 128 contexts", slots.len());
    }
}

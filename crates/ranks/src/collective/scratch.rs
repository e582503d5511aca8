//! Memory of collective operations' own, which is kept for the next ones: what is freed and had again comes as new pages, each with a
//! fault, and filled with zeros.

use std::sync::{Mutex, PoisonError};

/// Bytes that are kept at most.
const KEPT: usize = 8 << 20;

static FREE: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

/// Some bytes, whatever they are.
#[derive(Debug)]
pub(crate) struct Scratch {
    memory: Box<[u8]>,
    length: usize,
}

impl Scratch {
    pub(crate) fn new(length: usize) -> Self {
        let memory = if length == 0 { Box::default() } else { take(length) };
        Self { memory, length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = free.iter().map(|one| one.len()).sum();
        if !memory.is_empty() && kept + memory.len() <= KEPT {
            free.push(memory);
        }
    }
}

/// The smallest that is long enough.
fn take(length: usize) -> Box<[u8]> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |&at: &usize| free[at].len() >= length;
    let best = (0..free.len()).filter(fits).min_by_key(|&at| free[at].len());
    if let Some(at) = best {
        return free.swap_remove(at);
    }
    // What is too short is in the way of what is needed now.
    let kept: usize = free.iter().map(|one| one.len()).sum();
    if kept + length > KEPT {
        free.clear();
    }
    drop(free);
    vec![0; length].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_had_again() {
        // A length that no other test of this process has.
        const LENGTH: usize = 77_777;
        let mut scratch = Scratch::new(LENGTH);
        scratch.bytes_mut().fill(7);
        let before = scratch.bytes().as_ptr();
        drop(scratch);
        let again = Scratch::new(LENGTH);
        assert_eq!((again.bytes().len(), again.bytes().as_ptr()), (LENGTH, before));
        assert!(Scratch::new(LENGTH).bytes().iter().all(|byte| *byte == 0));
        assert!(Scratch::new(0).bytes().is_empty());
    }

    #[test]
    fn no_more_is_kept_than_may_be() {
        let many: Vec<_> = (0..5).map(|_| Scratch::new(KEPT / 4)).collect();
        drop((many, Scratch::new(KEPT + 1)));
        let kept: usize = FREE.lock().unwrap().iter().map(|one| one.len()).sum();
        assert!(kept <= KEPT, "{kept}");
    }
}

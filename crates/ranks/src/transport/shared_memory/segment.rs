//! Memory that all processes of a domain map, and an event for each of them.

#![expect(unsafe_code, reason = "memory that is mapped and shared")]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// More descriptors can't be passed at once (unix(7)): the memory's, and one for each rank.
pub const MOST_RANKS: u32 = 250;
/// What all rings together may be, in bytes: up to 64 ranks have the largest. Memory is taken for what is used of it only.
const ALL_RINGS: usize = 1 << 30;
/// The largest and the smallest ring. In the largest a message of 64 KiB has room while the one before is read.
const RING: std::ops::RangeInclusive<usize> = (4 << 10)..=(256 << 10);
/// What two processors write is this far apart.
const LINE: usize = 128;
/// Beside the bytes of a ring: how many were read, and whether its writer waits for room.
const CONTROL: usize = 2 * LINE;

/// The memory of a domain of one host.
#[derive(Debug)]
pub struct Segment {
    start: NonNull<u8>,
    length: usize,
    ranks: usize,
    capacity: usize,
    events: Vec<OwnedFd>,
}

// SAFETY: what several threads and processes write of it are atomics, and bytes whose owner those atomics tell.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Bytes of a ring: a power of two, so that positions may run over.
fn capacity(ranks: usize) -> usize {
    let most = ALL_RINGS / (ranks * ranks).max(1);
    let most = most.clamp(*RING.start(), *RING.end());
    1 << most.ilog2()
}

fn length(ranks: usize) -> usize {
    ranks * LINE + ranks * ranks * (CONTROL + capacity(ranks))
}

impl Segment {
    /// Descriptors of new memory and of the events, for [`Segment::open`] in every process of a domain of `ranks`.
    pub fn create(ranks: u32) -> io::Result<Vec<OwnedFd>> {
        if ranks > MOST_RANKS {
            return Err(io::Error::other(format!("{ranks} ranks are more than {MOST_RANKS}")));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create("fishplate-ranks", flags)?;
        ftruncate(&memory, length(ranks as usize) as u64)?;
        // Nobody can take away what others have mapped.
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mut all = vec![memory];
        for _ in 0..ranks {
            all.push(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        }
        Ok(all)
    }

    /// The memory and the events of these descriptors.
    pub fn open(descriptors: Vec<OwnedFd>, ranks: u32) -> io::Result<Self> {
        let ranks = ranks as usize;
        let wrong = || io::Error::other(format!("it is no memory for {ranks} ranks"));
        let mut events = descriptors.into_iter();
        let memory = events.next().ok_or_else(wrong)?;
        let events: Vec<OwnedFd> = events.collect();
        let length = length(ranks);
        if events.len() != ranks || u64::try_from(fstat(&memory)?.st_size) != Ok(length as u64) {
            return Err(wrong());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, of a file that is as long and can't be shrunk.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &memory, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or_else(wrong)?;
        Ok(Self { start, length, ranks, capacity: capacity(ranks), events })
    }

    /// How many ranks share it.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Bytes of each ring.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn event(&self, rank: usize) -> &OwnedFd {
        &self.events[rank]
    }

    fn at(&self, offset: usize, length: usize) -> NonNull<u8> {
        assert!(offset + length <= self.length, "a place within the memory");
        // SAFETY: it is within the mapping.
        unsafe { self.start.add(offset) }
    }

    fn ring(&self, from: usize, to: usize) -> usize {
        assert!(from < self.ranks && to < self.ranks, "ranks of the domain");
        self.ranks * LINE + (from * self.ranks + to) * (CONTROL + self.capacity)
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "a place for a word");
        // SAFETY: the place is aligned, and lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast().as_ptr()) }
    }

    fn flag(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the place is aligned, because all such offsets are multiples of 128, and lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast().as_ptr()) }
    }

    /// Bytes that were ever read from a ring, as far as its writer was told.
    pub(super) fn read(&self, from: usize, to: usize) -> &AtomicU64 {
        self.counter(self.ring(from, to))
    }

    /// Its writer waits for room.
    pub(super) fn starved(&self, from: usize, to: usize) -> &AtomicU32 {
        self.flag(self.ring(from, to) + LINE)
    }

    /// The word of a ring at a position, which is a multiple of 8.
    pub(super) fn word(&self, from: usize, to: usize, position: u64) -> &AtomicU64 {
        self.counter(self.ring(from, to) + CONTROL + self.offset(position))
    }

    /// A rank sleeps, or is about to.
    pub(super) fn sleeping(&self, rank: usize) -> &AtomicU32 {
        assert!(rank < self.ranks, "a rank of the domain");
        self.flag(rank * LINE)
    }

    /// Wakes a rank if it sleeps. What it is to find was written before.
    pub(super) fn wake(&self, rank: usize) {
        fence(Ordering::SeqCst);
        let sleeping = self.sleeping(rank);
        if sleeping.load(Ordering::Relaxed) != 0 && sleeping.swap(0, Ordering::Relaxed) != 0 {
            let _ = rustix::io::write(&self.events[rank], &1u64.to_ne_bytes());
        }
    }

    /// Where in a ring a position is.
    fn offset(&self, position: u64) -> usize {
        usize::try_from(position & (self.capacity as u64 - 1)).unwrap_or_default()
    }

    /// The bytes of a ring from a position on, up to its end.
    pub(super) fn bytes(&self, from: usize, to: usize, position: u64) -> (*mut u8, usize) {
        let offset = self.offset(position);
        let start = self.at(self.ring(from, to) + CONTROL, self.capacity);
        // SAFETY: it is within the ring.
        (unsafe { start.add(offset) }.as_ptr(), self.capacity - offset)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: nothing of it is borrowed any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_apart_whatever_the_number_of_ranks() {
        for ranks in [1u32, 2, 3, 16, MOST_RANKS] {
            let segment = Segment::open(Segment::create(ranks).unwrap(), ranks).unwrap();
            assert!(segment.capacity().is_power_of_two());
            let count = ranks as usize;
            assert!(
                segment.ring(count - 1, count - 1) + CONTROL + segment.capacity() <= segment.length
            );
            assert!(
                count < 2
                    || segment.ring(0, 1) - segment.ring(0, 0) == CONTROL + segment.capacity()
            );
        }
        assert!(Segment::create(MOST_RANKS + 1).is_err());
        assert!(Segment::open(Segment::create(2).unwrap(), 3).is_err(), "of other ranks");
        assert!(Segment::open(vec![], 0).is_err());
    }
}

//! Memory that the supervisor shares with its runners, so that it knows, without a word said, which
//! job a runner had when it was killed.

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};

use super::process_tree::ExitStatus;

/// Bytes of a job's order that a slot holds.
pub(super) const SLOT_SIZE: usize = 32 << 10;

#[repr(C)]
struct JobSlot {
    /// Length of the order; zero: no job.
    length: AtomicU32,
    /// The program; zero: not started yet.
    program: AtomicI32,
    /// How it ended; zero: not yet.
    status: AtomicI32,
    order: [u8; SLOT_SIZE],
}

const EXITED: i32 = 1 << 16;
const SIGNALLED: i32 = 1 << 17;

/// The job that a dead runner left.
#[derive(Debug, PartialEq)]
pub(super) struct AbandonedJob {
    pub(super) order: Vec<u8>,
    /// The program, if it was started.
    pub(super) program: Option<i32>,
    /// How that ended, if the runner saw it.
    pub(super) status: Option<ExitStatus>,
}

/// The slots of all runners.
#[derive(Debug)]
pub(super) struct Slots {
    memory: NonNull<JobSlot>,
    count: usize,
}

impl Slots {
    /// So many empty slots. Memory that no runner touches costs nothing.
    #[expect(unsafe_code, reason = "memory shared between processes")]
    pub(super) fn new(count: usize) -> std::io::Result<Self> {
        let size = NonZeroUsize::new(count * size_of::<JobSlot>())
            .ok_or_else(|| std::io::Error::other("no slots"))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping that overlaps nothing; it is never unmapped.
        let memory = unsafe { mmap_anonymous(None, size, protection, flags) }?;
        Ok(Self { memory: memory.cast(), count })
    }

    /// Notes the order of a job that a runner is about to start.
    pub(super) fn occupy(&self, index: usize, order: &[u8]) {
        assert!(order.len() <= SLOT_SIZE, "an order of {} bytes fits no slot", order.len());
        let slot = self.slot(index);
        slot.program.store(0, Ordering::Relaxed);
        slot.status.store(0, Ordering::Relaxed);
        self.copy_in(index, order);
        // Orders fit, so the length does.
        let length = u32::try_from(order.len()).unwrap_or(0);
        slot.length.store(length, Ordering::Release);
    }

    /// Notes the job's program.
    pub(super) fn started(&self, index: usize, program: i32) {
        self.slot(index).program.store(program, Ordering::Release);
    }

    /// Notes how the program ended: once it is reaped, nobody else can see it.
    pub(super) fn ended(&self, index: usize, status: ExitStatus) {
        let status = match status {
            ExitStatus::Exit(code) => EXITED | code,
            ExitStatus::Signal(signal) => SIGNALLED | signal,
        };
        self.slot(index).status.store(status, Ordering::Release);
    }

    /// Notes that the job's end is in its journal.
    pub(super) fn clear(&self, index: usize) {
        self.slot(index).length.store(0, Ordering::Release);
    }

    /// What a runner that is dead had, if it had a job.
    pub(super) fn take(&self, index: usize) -> Option<AbandonedJob> {
        let slot = self.slot(index);
        let length = slot.length.swap(0, Ordering::AcqRel) as usize;
        let program = slot.program.load(Ordering::Acquire);
        let status = match slot.status.load(Ordering::Acquire) {
            0 => None,
            exited if exited & EXITED != 0 => Some(ExitStatus::Exit(exited & !EXITED)),
            signalled => Some(ExitStatus::Signal(signalled & !SIGNALLED)),
        };
        (length > 0).then(|| AbandonedJob {
            order: self.copy_out(index, length),
            program: (program > 0).then_some(program),
            status,
        })
    }

    #[expect(unsafe_code, reason = "memory shared between processes")]
    fn slot(&self, index: usize) -> &JobSlot {
        assert!(index < self.count, "no slot {index}");
        // SAFETY: within the mapping, which is zeroed memory, aligned to a page and never
        // unmapped; the fields read through this reference are atomic.
        unsafe { self.memory.add(index).as_ref() }
    }

    #[expect(unsafe_code, reason = "memory shared between processes")]
    fn copy_in(&self, index: usize, order: &[u8]) {
        assert!(index < self.count && order.len() <= SLOT_SIZE);
        // SAFETY: within the mapping; only the runner of this slot writes, and the supervisor reads
        // only when that runner is dead.
        unsafe {
            let to = &raw mut (*self.memory.add(index).as_ptr()).order;
            std::ptr::copy_nonoverlapping(order.as_ptr(), to.cast::<u8>(), order.len());
        }
    }

    #[expect(unsafe_code, reason = "memory shared between processes")]
    fn copy_out(&self, index: usize, length: usize) -> Vec<u8> {
        assert!(index < self.count && length <= SLOT_SIZE);
        let mut order = vec![0; length];
        // SAFETY: as in `copy_in`: nobody writes any more.
        unsafe {
            let from = &raw const (*self.memory.add(index).as_ptr()).order;
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), order.as_mut_ptr(), length);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_gives_back_what_was_noted_and_once_only() {
        let slots = Slots::new(2).unwrap();
        assert_eq!(slots.take(1), None);
        let left = |order: &[u8], program, status| {
            Some(AbandonedJob { order: order.to_vec(), program, status })
        };
        slots.occupy(1, b"order");
        assert_eq!(slots.take(1), left(b"order", None, None));
        slots.occupy(1, b"other");
        slots.started(1, 42);
        assert_eq!(slots.take(0), None);
        assert_eq!(slots.take(1), left(b"other", Some(42), None));
        assert_eq!(slots.take(1), None);
        for status in [ExitStatus::Exit(0), ExitStatus::Exit(255), ExitStatus::Signal(9)] {
            slots.occupy(1, b"ended");
            slots.started(1, 42);
            slots.ended(1, status);
            assert_eq!(slots.take(1), left(b"ended", Some(42), Some(status)));
        }
        slots.occupy(1, b"third");
        slots.clear(1);
        assert_eq!(slots.take(1), None);
    }
}

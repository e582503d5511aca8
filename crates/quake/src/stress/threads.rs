//! Threads that do nothing.

use std::thread;

/// Bytes of a thread's stack: as few as may be.
const STACK: usize = 16 << 10;

/// Starts so many threads. They end with the process.
pub(super) fn hold(count: u32) -> Option<String> {
    for had in 0..count as usize {
        let started = thread::Builder::new().stack_size(STACK).spawn(|| {
            loop {
                thread::park();
            }
        });
        if let Err(error) = started {
            return Some(super::short_of(had, count, "threads", &error));
        }
    }
    None
}

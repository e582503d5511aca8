//! Processor time.

use std::hint::spin_loop;
use std::thread;

/// Starts so many threads that do nothing, busily. They end with the process.
pub(super) fn hold(count: u32) -> Option<String> {
    for had in 0..count as usize {
        let busy = thread::Builder::new().spawn(|| {
            loop {
                spin_loop();
            }
        });
        if let Err(error) = busy {
            return Some(super::short_of(had, count, "busy threads", &error));
        }
    }
    None
}

//! Threads that do nothing.

use std::io;
use std::thread;

/// Bytes of a thread's stack: as few as may be.
const STACK: usize = 16 << 10;

/// Holds so many threads, which end with the process. Where there are fewer, those that others end are taken too.
pub(super) fn hold(count: u32, tell: impl Fn(Option<String>) + Send + 'static) -> io::Result<()> {
    let mut had = 0;
    let take = move || {
        while had < count as usize {
            let started = thread::Builder::new().stack_size(STACK).spawn(|| {
                loop {
                    thread::park();
                }
            });
            match started {
                Ok(_) => had += 1,
                Err(error) => return Some(super::short_of(had, count, "threads", &error)),
            }
        }
        None
    };
    super::take_again(take, tell)
}

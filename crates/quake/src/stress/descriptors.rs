//! Open files.

use std::fs::File;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that the process needs for itself.
const OWN: u64 = 32;

/// Raises the limit of open files as far as so many need and as may be.
pub(super) fn allow(count: u32) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let needed = u64::from(count) + OWN;
    // Above the hard limit it is allowed to some only (CAP_SYS_RESOURCE).
    if soft < needed && setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_err() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Opens so many files.
pub(super) fn hold(count: u32) -> (Vec<File>, Option<String>) {
    allow(count);
    let mut held = Vec::new();
    for had in 0..count as usize {
        match File::open("/dev/null") {
            Ok(file) => held.push(file),
            Err(error) => {
                return (held, Some(super::short_of(had, count, "descriptors", &error)));
            }
        }
    }
    (held, None)
}

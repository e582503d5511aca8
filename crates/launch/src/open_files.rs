//! How many files a process may have open (`RLIMIT_NOFILE`).

use std::io;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

use crate::launch::LaunchError;

/// What a rank takes here: two pipes, two connections, an event; and what there is besides.
const PER_RANK: rlim_t = 5;
const BESIDES: rlim_t = 32;

/// The limit of before it was raised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLimit {
    soft: rlim_t,
    hard: rlim_t,
}

impl FileLimit {
    /// Raises it to the most that this process may give itself, if that is enough for so many ranks.
    pub(crate) fn raise(ranks: u32) -> Result<Self, LaunchError> {
        let system = |error: nix::Error| {
            LaunchError::system("the number of open files can't be raised")(error.into())
        };
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(system)?;
        let needed = rlim_t::from(ranks) * PER_RANK + BESIDES;
        if needed > hard {
            return Err(LaunchError::OpenFiles { ranks, needed, allowed: hard });
        }
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(system)?;
        Ok(Self { soft, hard })
    }

    /// Gives a rank's process what there was before. One system call.
    pub(crate) fn restore(self) -> io::Result<()> {
        Ok(setrlimit(Resource::RLIMIT_NOFILE, self.soft, self.hard)?)
    }
}

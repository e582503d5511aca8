//! Numbers that are used once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fishplate_contract::Timestamp;

use super::throttle::{Attempt, Limit};

/// Those that were used, until what they stand in would be too old.
#[derive(Debug)]
pub(super) struct NonceCache {
    most: usize,
    used: Mutex<BTreeSet<(i64, Attempt)>>,
}

/// Why a number is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonceError {
    /// It was used before.
    Used,
    /// There is no room to remember it.
    Full(Limit),
}

impl NonceCache {
    /// One that remembers at most so many.
    pub(super) fn new(most: usize) -> Self {
        Self { most, used: Mutex::default() }
    }

    /// Uses a number, given as a digest of it and of what it stands in, which is good until `end` at the latest.
    ///
    /// # Errors
    /// [`NonceError`]: then it was not used.
    pub(super) fn use_once(
        &self,
        nonce: Attempt,
        now: Timestamp,
        end: Timestamp,
    ) -> Result<(), NonceError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.split_off(&(now.0, Attempt::default()));
        if used.contains(&(end.0, nonce)) {
            return Err(NonceError::Used);
        }
        if used.len() >= self.most {
            let first = used.first().map_or(0, |(end, _)| end - now.0);
            let wait = Duration::from_millis(first.unsigned_abs());
            return Err(NonceError::Full(Limit { name: "login_nonces", most: self.most, wait }));
        }
        used.insert((end.0, nonce));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_good_once_and_remembered_as_long_as_it_could_be_used() {
        let cache = NonceCache::new(2);
        let use_once =
            |nonce: u8, now, end| cache.use_once([nonce; 32], Timestamp(now), Timestamp(end));
        assert_eq!(use_once(1, 0, 1000), Ok(()));
        assert_eq!(use_once(1, 1000, 1000), Err(NonceError::Used));
        assert_eq!(use_once(1, 1000, 2000), Ok(()), "what it stands in is another one");
        let Err(NonceError::Full(limit)) = use_once(2, 500, 3000) else { panic!("it has room") };
        assert_eq!((limit.name, limit.most, limit.wait.as_millis()), ("login_nonces", 2, 500));
        assert_eq!(use_once(2, 1001, 3000), Ok(()));
        assert_eq!(use_once(2, 1001, 3000), Err(NonceError::Used));
    }
}

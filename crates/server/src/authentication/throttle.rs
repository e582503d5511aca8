//! How often something may be tried that fails: slower and slower.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fishplate_contract::Fault;
use tokio::time::Instant;

/// Who fails is remembered for so long after the last time.
const REMEMBERED: Duration = Duration::from_secs(15 * 60);

/// At most so many are remembered; then the one whose last failure is longest ago is forgotten.
const MOST: usize = 10_000;

/// The delay is doubled so often: with a second, to a bit more than a minute.
const DOUBLINGS: u32 = 6;

/// Who tries what, as a digest: nothing that was typed is remembered.
pub(super) type Attempt = [u8; 32];

/// Why a try is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) most: usize,
    /// After so long another one will be.
    pub(super) wait: Duration,
}

impl Limit {
    /// The fault that tells it.
    pub(super) fn of(self, fault: Fault) -> Fault {
        fault.limit(self.name, self.most).retry_after(self.wait)
    }
}

/// Counts failures in a row.
#[derive(Debug)]
pub(super) struct Throttle {
    /// The name of the limit.
    name: &'static str,
    /// Failures in a row that are not slowed down.
    failures: u32,
    /// The wait after these; it doubles with each further one.
    delay: Duration,
    attempts: Mutex<HashMap<Attempt, Failures>>,
}

#[derive(Debug)]
struct Failures {
    count: u32,
    last: Instant,
    /// When the next try will be looked at.
    next: Instant,
}

impl Throttle {
    pub(super) fn new(name: &'static str, failures: u32, delay: Duration) -> Self {
        Self { name, failures, delay, attempts: Mutex::default() }
    }

    /// A try begins. It counts as one that failed until [`Self::succeeded`], so that those that come at
    /// once are counted as well.
    ///
    /// # Errors
    /// The limit, and how long to wait.
    pub(super) fn begin(&self, attempt: Attempt) -> Result<(), Limit> {
        let now = Instant::now();
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() >= MOST && !attempts.contains_key(&attempt) {
            let longest = attempts.iter().min_by_key(|(_, failures)| failures.last);
            if let Some(longest) = longest.map(|(attempt, _)| *attempt) {
                attempts.remove(&longest);
            }
        }
        let failed = attempts.entry(attempt).or_insert(Failures { count: 0, last: now, next: now });
        if now.duration_since(failed.last) >= REMEMBERED {
            failed.count = 0;
        }
        if now < failed.next {
            let (name, most) = (self.name, self.failures as usize);
            return Err(Limit { name, most, wait: failed.next - now });
        }
        failed.count += 1;
        failed.last = now;
        if failed.count >= self.failures {
            let doublings = (failed.count - self.failures).min(DOUBLINGS);
            failed.next = now + self.delay.saturating_mul(1 << doublings);
        }
        Ok(())
    }

    /// What began was not looked at: it does not count.
    pub(super) fn withdraw(&self, attempt: Attempt) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failed) = attempts.get_mut(&attempt) {
            failed.count = failed.count.saturating_sub(1);
            failed.next = failed.last;
        }
    }

    /// It did not fail: whoever knows how may go on at once.
    pub(super) fn succeeded(&self, attempt: Attempt) {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).remove(&attempt);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_are_slowed_down_more_and_more() {
        let throttle = Throttle::new("test", 3, SECOND);
        let ada = [1; 32];
        for _ in 0..3 {
            throttle.begin(ada).unwrap();
        }
        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = throttle.begin(ada).unwrap_err().wait;
            assert!(throttle.begin([2; 32]).is_ok(), "others are not concerned");
            throttle.succeeded([2; 32]);
            waits.push(wait.as_secs());
            advance(wait).await;
            throttle.begin(ada).unwrap();
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        throttle.succeeded(ada);
        throttle.begin(ada).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_fails_now_and_then_is_not_slowed_down() {
        let throttle = Throttle::new("test", 3, SECOND);
        for _ in 0..10 {
            throttle.begin([1; 32]).unwrap();
            advance(REMEMBERED).await;
        }
    }

    #[test]
    fn what_was_not_looked_at_does_not_count() {
        let throttle = Throttle::new("test", 2, SECOND);
        for _ in 0..10 {
            throttle.begin([1; 32]).unwrap();
            throttle.withdraw([1; 32]);
        }
        for _ in 0..2 {
            throttle.begin([1; 32]).unwrap();
        }
        throttle.begin([1; 32]).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let throttle = Throttle::new("test", 1, SECOND);
        let name = |number: usize| {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&number.to_le_bytes());
            name
        };
        for number in 0..=MOST {
            throttle.begin(name(number)).unwrap();
            advance(Duration::from_nanos(1)).await;
        }
        assert_eq!(throttle.attempts.lock().unwrap().len(), MOST);
        throttle.begin(name(0)).expect("the oldest was forgotten");
        throttle.begin(name(MOST)).unwrap_err();
    }
}

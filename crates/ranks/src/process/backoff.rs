//! How a thread waits: first it looks again and again, then it yields its processor between looks, then it sleeps.
//!
//! With a processor for each rank, what is waited for comes while it looks. With more ranks than processors it comes from who could run if
//! this thread did not, so looking is in vain: it yields, and has the processor back when the others have done what they can. To sleep
//! and to be woken takes longer than that (decision 0011 has figures), but who yields to others than ranks comes back after their time slice,
//! not when a message comes. So what was in vain, or slow, is done less the next times.

use std::time::{Duration, Instant};

/// What a thread does before it looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Spin,
    Yield,
    Sleep,
}

/// A time in which a thread waits and nothing comes.
#[derive(Debug, Default)]
pub(super) struct Idle {
    since: Option<Instant>,
    yields: u32,
    last: Option<Pause>,
}

/// What a process has learnt of its waits.
#[derive(Debug)]
pub(super) struct Backoff {
    /// How often the time for looking is halved.
    halvings: u32,
    failures: u32,
    /// How many waits go to sleep without yielding, from now on and after the next slow yield.
    declined: u32,
    next_declined: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { halvings: 0, failures: 0, declined: 0, next_declined: Self::LEAST_DECLINED }
    }
}

impl Backoff {
    const MOST_HALVINGS: u32 = 4;
    /// Every so often the time for looking is tried in full.
    const RETRY: u32 = 64;
    /// Looks with a yield before them, some 30 µs of processor time, whoever ran in between.
    const YIELDS: u32 = 64;
    /// A yield that takes longer was to somebody.
    const HANDED_OVER: Duration = Duration::from_nanos(1500);
    /// One that takes longer was to others than ranks that pass messages.
    const SLOW: Duration = Duration::from_millis(1);
    const LEAST_DECLINED: u32 = 16;
    const MOST_DECLINED: u32 = 1 << 12;

    /// What to do next; `most` is the longest time for looking.
    pub(super) fn pause(&mut self, idle: &mut Idle, now: Instant, most: Duration) -> Pause {
        let since = *idle.since.get_or_insert(now);
        if idle.last.is_none_or(|last| last == Pause::Spin) {
            if now - since < self.spin(most) {
                return *idle.last.insert(Pause::Spin);
            }
            self.spun_in_vain();
            if self.declined > 0 || most.is_zero() {
                self.declined = self.declined.saturating_sub(1);
                idle.yields = Self::YIELDS;
            }
        }
        let yields = idle.last != Some(Pause::Sleep) && idle.yields < Self::YIELDS;
        idle.yields += u32::from(yields);
        *idle.last.insert(if yields { Pause::Yield } else { Pause::Sleep })
    }

    /// A yield took so long.
    pub(super) fn yielded(&mut self, idle: &mut Idle, time: Duration) {
        if time > Self::HANDED_OVER {
            self.halvings = Self::MOST_HALVINGS;
        }
        if time > Self::SLOW {
            idle.yields = Self::YIELDS;
            self.declined = self.next_declined;
            self.next_declined = (self.next_declined * 2).min(Self::MOST_DECLINED);
        }
    }

    /// Something came.
    pub(super) fn ended(&mut self, idle: &mut Idle) {
        match std::mem::take(idle).last {
            Some(Pause::Spin) => self.halvings = self.halvings.saturating_sub(1),
            Some(Pause::Yield) if self.declined == 0 => {
                let less = self.next_declined - self.next_declined / 8;
                self.next_declined = less.max(Self::LEAST_DECLINED);
            }
            _ => {}
        }
    }

    fn spin(&self, most: Duration) -> Duration {
        if self.halvings < Self::MOST_HALVINGS {
            most / (1 << self.halvings)
        } else {
            Duration::ZERO
        }
    }

    fn spun_in_vain(&mut self) {
        self.failures += 1;
        self.halvings =
            if self.failures.is_multiple_of(Self::RETRY) { 0 } else { self.halvings + 1 };
        self.halvings = self.halvings.min(Self::MOST_HALVINGS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(20);

    /// A wait that ends after so many pauses of a microsecond, each yield of which takes so long; what was done.
    fn wait(backoff: &mut Backoff, pauses: u32, yielded: Duration) -> Vec<Pause> {
        let (mut idle, mut now) = (Idle::default(), Instant::now());
        let mut done = Vec::new();
        for _ in 0..pauses {
            let pause = backoff.pause(&mut idle, now, SPIN);
            now += Duration::from_micros(1);
            if pause == Pause::Yield {
                backoff.yielded(&mut idle, yielded);
            }
            done.push(pause);
        }
        backoff.ended(&mut idle);
        done
    }

    fn count(done: &[Pause], what: Pause) -> usize {
        done.iter().filter(|pause| **pause == what).count()
    }

    #[test]
    fn who_waits_spins_then_yields_then_sleeps() {
        let mut backoff = Backoff::default();
        let done = wait(&mut backoff, 100, Duration::ZERO);
        let yields = Backoff::YIELDS as usize;
        assert_eq!(count(&done, Pause::Spin), 20);
        assert_eq!(done[20..20 + yields], vec![Pause::Yield; yields]);
        assert_eq!(done[20 + yields..], vec![Pause::Sleep; 80 - yields]);
    }

    #[test]
    fn spinning_in_vain_ends_and_is_tried_again() {
        let mut backoff = Backoff::default();
        let spins: Vec<usize> = (0..Backoff::RETRY)
            .map(|_| count(&wait(&mut backoff, 30, Duration::ZERO), Pause::Spin))
            .collect();
        assert_eq!(spins[..6], [20, 10, 5, 3, 0, 0]);
        assert_eq!(count(&wait(&mut backoff, 30, Duration::ZERO), Pause::Spin), 20);
    }

    #[test]
    fn who_shares_its_processor_with_others_seldom_yields() {
        let mut backoff = Backoff::default();
        let slow = Backoff::SLOW * 3;
        let waits = 3 * Backoff::MOST_DECLINED;
        let yields: usize =
            (0..waits).map(|_| count(&wait(&mut backoff, 40, slow), Pause::Yield)).sum();
        // A first one, one each time the number of waits without doubles, and a few at its most.
        assert!((2..=14).contains(&yields), "{yields} slow yields in {waits} waits");
        // It learns that it has its processor to itself again.
        let prompt = Duration::from_micros(2);
        let mut waits = 0;
        while backoff.next_declined > Backoff::LEAST_DECLINED {
            wait(&mut backoff, 40, prompt);
            waits += 1;
            assert!(waits < 2 * Backoff::MOST_DECLINED, "it never yields again");
        }
        assert!(count(&wait(&mut backoff, 40, prompt), Pause::Yield) > 0);
    }

    #[test]
    fn who_never_spins_never_yields() {
        let mut backoff = Backoff::default();
        let pause = backoff.pause(&mut Idle::default(), Instant::now(), Duration::ZERO);
        assert_eq!(pause, Pause::Sleep);
    }
}

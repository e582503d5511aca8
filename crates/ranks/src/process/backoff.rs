//! How a thread waits: first it looks again and again, then it yields its processor between looks, then it sleeps.
//!
//! With a processor for each rank, what is waited for comes while it looks. With more ranks than processors it comes from who could run if
//! this thread did not, so looking is in vain: it yields, and has the processor back when the others have done what they can. To sleep
//! and to be woken takes longer than that (decision 0011 has figures), but who yields to others than ranks comes back after their time slice,
//! not when a message comes. So what was in vain is done less the next times, and what was slow not for a while.

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
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// How often the time for looking is halved.
    halvings: u32,
    failures: u32,
    /// Waits go to sleep without yielding until then.
    declines_until: Option<Instant>,
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
    /// So many times as long nobody yields then: that is what is lost at most.
    const DECLINED: u32 = 32;
    /// As much as one yield counts: a process that was stopped was not slow.
    const SLOWEST: Duration = Duration::from_millis(100);

    /// What to do next; `most` is the longest time for looking.
    pub(super) fn pause(&mut self, idle: &mut Idle, now: Instant, most: Duration) -> Pause {
        let since = *idle.since.get_or_insert(now);
        if idle.last.is_none_or(|last| last == Pause::Spin) {
            if now - since < self.spin(most) {
                return *idle.last.insert(Pause::Spin);
            }
            self.spun_in_vain();
            if most.is_zero() || self.declines_until.is_some_and(|until| now < until) {
                idle.yields = Self::YIELDS;
            }
        }
        let yields = idle.last != Some(Pause::Sleep) && idle.yields < Self::YIELDS;
        idle.yields += u32::from(yields);
        *idle.last.insert(if yields { Pause::Yield } else { Pause::Sleep })
    }

    /// A yield took so long, until `now`.
    pub(super) fn yielded(&mut self, idle: &mut Idle, now: Instant, time: Duration) {
        if time > Self::HANDED_OVER {
            self.halvings = Self::MOST_HALVINGS;
        }
        if time > Self::SLOW {
            idle.yields = Self::YIELDS;
            self.declines_until = Some(now + time.min(Self::SLOWEST) * Self::DECLINED);
        }
    }

    /// Something came.
    pub(super) fn ended(&mut self, idle: &mut Idle) {
        if std::mem::take(idle).last == Some(Pause::Spin) {
            self.halvings = self.halvings.saturating_sub(1);
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
    const MICROSECOND: Duration = Duration::from_micros(1);

    /// A wait that ends after so many pauses of a microsecond each, but yields that take so long; what was done.
    fn wait(
        backoff: &mut Backoff,
        now: &mut Instant,
        pauses: u32,
        yielded: Duration,
    ) -> Vec<Pause> {
        let mut idle = Idle::default();
        let mut done = Vec::new();
        for _ in 0..pauses {
            let pause = backoff.pause(&mut idle, *now, SPIN);
            *now += if pause == Pause::Yield { yielded } else { MICROSECOND };
            if pause == Pause::Yield {
                backoff.yielded(&mut idle, *now, yielded);
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
        let done = wait(&mut Backoff::default(), &mut Instant::now(), 100, MICROSECOND);
        let yields = Backoff::YIELDS as usize;
        assert_eq!(count(&done, Pause::Spin), 20);
        assert_eq!(done[20..20 + yields], vec![Pause::Yield; yields]);
        assert_eq!(done[20 + yields..], vec![Pause::Sleep; 80 - yields]);
    }

    #[test]
    fn spinning_in_vain_ends_and_is_tried_again() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        let mut spins = |yielded| count(&wait(&mut backoff, &mut now, 30, yielded), Pause::Spin);
        assert_eq!([(); 6].map(|()| spins(MICROSECOND)), [20, 10, 5, 3, 0, 0]);
        let rest: usize = (7..=Backoff::RETRY).map(|_| spins(MICROSECOND)).sum();
        assert_eq!((rest, spins(MICROSECOND)), (0, 20));
    }

    #[test]
    fn who_shares_its_processor_does_not_spin() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        wait(&mut backoff, &mut now, 30, 3 * MICROSECOND);
        assert_eq!(count(&wait(&mut backoff, &mut now, 30, MICROSECOND), Pause::Spin), 0);
    }

    #[test]
    fn who_shares_it_with_others_than_ranks_loses_little_by_yields() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        let (begun, slow) = (now, 5 * Backoff::SLOW);
        let yields: usize =
            (0..40_000).map(|_| count(&wait(&mut backoff, &mut now, 40, slow), Pause::Yield)).sum();
        let lost = slow * u32::try_from(yields).unwrap();
        assert!(yields > 5 && lost < (now - begun) / (Backoff::DECLINED - 2), "{yields} yields");
        // It learns that it has it to itself again.
        now += Backoff::DECLINED * slow;
        assert!(count(&wait(&mut backoff, &mut now, 40, MICROSECOND), Pause::Yield) > 0);
    }

    #[test]
    fn who_was_stopped_yields_again_soon() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        wait(&mut backoff, &mut now, 40, Duration::from_secs(60));
        now += Backoff::SLOWEST * Backoff::DECLINED;
        assert!(count(&wait(&mut backoff, &mut now, 40, MICROSECOND), Pause::Yield) > 0);
    }

    #[test]
    fn who_never_spins_never_yields() {
        let mut backoff = Backoff::default();
        let pause = backoff.pause(&mut Idle::default(), Instant::now(), Duration::ZERO);
        assert_eq!(pause, Pause::Sleep);
    }
}

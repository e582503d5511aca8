//! How an agent's clocks stand to the manager's, by the round trips of questions (as NTP does, RFC 5905 section 8).

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

/// The two clocks of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    /// Zero of the one that only goes forward.
    zero: Instant,
}

/// What they show, in microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct ClockReading {
    /// Since the process began: never set, another zero in each process.
    pub(crate) steady: i64,
    /// Since 1970, as the host's clock is set.
    pub(crate) wall: i64,
}

/// How another process's clocks stand to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    /// What its clocks show more than ours, in microseconds.
    offset: ClockReading,
    /// No offset was further from the truth than this, in microseconds: half of the round trip.
    bound: i64,
    /// When that was, by our steady clock.
    at: i64,
}

/// Clocks of two hosts part by no more than this, in microseconds a second.
const DRIFT: i64 = 200;

impl Clocks {
    /// They begin now.
    pub(crate) fn new() -> Self {
        Self { zero: Instant::now() }
    }

    /// What they show now.
    pub(crate) fn now(self) -> ClockReading {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        ClockReading { steady: micros(self.zero.elapsed()), wall: micros(wall) }
    }

    /// When the steady one shows this; at once, if it has.
    pub(crate) fn instant(self, steady: i64) -> Instant {
        self.zero + Duration::from_micros(u64::try_from(steady).unwrap_or(0))
    }

    /// What the steady one shows then.
    pub(crate) fn steady(self, at: Instant) -> i64 {
        micros(at.saturating_duration_since(self.zero))
    }
}

impl ClockOffset {
    /// By one question: our clocks when it was sent and when it was answered, theirs in between.
    pub(crate) fn measured(
        sent: ClockReading,
        theirs: ClockReading,
        received: ClockReading,
    ) -> Self {
        let trip = received.steady.saturating_sub(sent.steady);
        let middle = |sent: i64| sent.saturating_add(trip / 2);
        let offset = ClockReading {
            steady: theirs.steady.saturating_sub(middle(sent.steady)),
            wall: theirs.wall.saturating_sub(middle(sent.wall)),
        };
        Self { offset, bound: trip.saturating_add(1) / 2, at: received.steady }
    }

    /// The surer of this one and an earlier one.
    pub(crate) fn surer(self, earlier: Option<Self>) -> Self {
        earlier
            .map(|earlier| earlier.aged(self.at))
            .filter(|earlier| earlier.bound < self.bound)
            .unwrap_or(self)
    }

    /// How sure it is later.
    fn aged(self, at: i64) -> Self {
        let seconds = at.saturating_sub(self.at).max(0) / 1_000_000;
        Self { bound: self.bound.saturating_add(seconds.saturating_mul(DRIFT)), at, ..self }
    }

    /// What their steady clock shows when ours shows this.
    pub(crate) fn theirs(self, ours: i64) -> i64 {
        ours.saturating_add(self.offset.steady)
    }

    /// What our steady clock shows when theirs shows this.
    pub(crate) fn ours(self, theirs: i64) -> i64 {
        theirs.saturating_sub(self.offset.steady)
    }

    /// What their host's clock shows more than ours, and how sure that is, both in seconds.
    pub(crate) fn seconds(self) -> (f64, f64) {
        let seconds = |micros: i64| micros as f64 / 1e6;
        (seconds(self.offset.wall), seconds(self.bound))
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the way there and the way back share the round trip, the offset is within its bound.
        #[test]
        fn the_bound_holds(steady in -1_000_000_000_i64..1_000_000_000, wall in -1_000_000_000_i64..1_000_000_000,
                           there in 0_i64..1_000_000, back in 0_i64..1_000_000, at in 0_i64..1_000_000_000) {
            let ours = |at: i64| ClockReading { steady: at, wall: at + 7_000_000_000 };
            let (sent, middle, received) = (ours(at), ours(at + there), ours(at + there + back));
            let theirs = ClockReading { steady: middle.steady + steady, wall: middle.wall + wall };
            let measured = ClockOffset::measured(sent, theirs, received);
            let (offset, bound) = measured.seconds();
            prop_assert!((offset - wall as f64 / 1e6).abs() <= bound + 1e-6, "{measured:?}");
            prop_assert!((measured.theirs(at) - (at + steady)).abs() <= measured.bound, "{measured:?}");
        }

        /// What an agent says of its clocks is any number.
        #[test]
        fn any_clock_is_read(sent in 0_i64.., steady: i64, wall: i64, received in 0_i64.., ours: i64) {
            let reading = |steady| ClockReading { steady, wall: steady };
            let measured = ClockOffset::measured(reading(sent), ClockReading { steady, wall }, reading(received));
            let _ = (measured.theirs(ours), measured.seconds());
        }
    }

    #[test]
    fn the_shorter_round_trip_is_believed_until_it_is_old() {
        let of = |at: i64, trip: i64| {
            let reading = |steady| ClockReading { steady, wall: steady };
            ClockOffset::measured(reading(at), reading(500), reading(at + trip))
        };
        let (short, long) = (of(0, 20), of(10, 100));
        assert_eq!(long.surer(Some(short)).offset, short.offset);
        assert_eq!(of(10, 20).surer(Some(of(0, 100))), of(10, 20));
        assert_eq!(short.surer(None), short);
        let much_later = of(60_000_000, 100);
        assert_eq!(much_later.surer(Some(short)), much_later);
    }
}

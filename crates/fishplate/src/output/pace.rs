//! How fast data moves: over the last seconds, and only what moved.

use std::collections::VecDeque;
use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration};
use tokio::time::Instant;

/// What is older says little of now.
const WINDOW: Duration = Duration::from_secs(5);
/// In less, buffers that fill tell more than the connection.
const LEAST: Duration = Duration::from_millis(500);

/// Counts of moved bytes, the oldest first. The first is where it began: it counts as nothing.
#[derive(Debug, Default)]
pub(crate) struct Pace(VecDeque<(Instant, u64)>);

impl Pace {
    /// So many were moved until now.
    pub(crate) fn note(&mut self, moved: u64) {
        self.note_at(Instant::now(), moved);
    }

    fn note_at(&mut self, now: Instant, moved: u64) {
        if self.0.back().is_some_and(|(_, before)| moved < *before) {
            self.0.clear(); // It began again.
        }
        // However rare the counts are, one at least as old as the window stays.
        while self.0.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.0.pop_front();
        }
        self.0.push_back((now, moved));
    }

    /// Bytes a second, once there is something to tell.
    fn rate(&self) -> Option<f64> {
        let ((since, first), (until, last)) = (self.0.front()?, self.0.back()?);
        let lasted = until.duration_since(*since);
        #[expect(clippy::cast_precision_loss, reason = "it is shown with three digits")]
        let moved = (last - first) as f64;
        (lasted >= LEAST).then(|| moved / lasted.as_secs_f64())
    }

    /// What follows a count of bytes: `, 20.5 MiB/s, 12s left`.
    pub(crate) fn told(&self, left: u64) -> String {
        let Some(rate) = self.rate() else { return String::new() };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "it is shown with three digits"
        )]
        let (a_second, time) = (HumanBytes(rate as u64), left as f64 / rate);
        match Duration::try_from_secs_f64(time) {
            Ok(time) if left > 0 => format!(", {a_second}/s, {:#} left", HumanDuration(time)),
            _ => format!(", {a_second}/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn only_what_moved_in_the_last_seconds_counts() {
        let begun = Instant::now();
        let mut pace = Pace::default();
        let mut note = |second, mebibytes, left: u64| {
            pace.note_at(begun + Duration::from_secs(second), mebibytes * MIB);
            pace.told(left * MIB)
        };
        assert_eq!(note(0, 400, 1), "", "those were there before");
        for second in 1..10 {
            note(second, 400 + 20 * second, 1);
        }
        assert_eq!(note(10, 600, 200), ", 20.00 MiB/s, 10s left");
        for second in 11..20 {
            note(second, 590 + second, 1);
        }
        assert_eq!(note(20, 610, 0), ", 1.00 MiB/s", "it has slowed down");
        note(26, 610, 1);
        assert_eq!(note(32, 610, 1), ", 0 B/s", "it stands still");
        assert_eq!(note(33, 0, 1), "", "it begins again");
    }
}

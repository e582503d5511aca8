//! Jobs that could not be started because something was used up, and are left in the queue for a while.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use fishplate_contract::JobId;

/// How long a job rests; twice as long after each further time,
const FIRST_REST: Duration = Duration::from_secs(1);

/// but no longer than this for room on the disk, which somebody has to make,
const LONGEST_REST_FOR_DISK: Duration = Duration::from_secs(30);

/// and than this for what the host gets back as soon as others end.
const LONGEST_REST_FOR_HOST: Duration = Duration::from_secs(4);

/// What was used up when a job was about to be started, and what was said of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shortage {
    /// Room on the disk: though as much as must be is free, what the job brings along needs more.
    Disk(String),
    /// Processes or descriptors. None is begun until it is over: whatever is tried meanwhile would find as little.
    Host(String),
}

impl Shortage {
    fn longest_rest(&self) -> Duration {
        match self {
            Self::Disk(_) => LONGEST_REST_FOR_DISK,
            Self::Host(_) => LONGEST_REST_FOR_HOST,
        }
    }
}

/// Why the job waits.
impl fmt::Display for Shortage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(why) => write!(to, "waits for room on the server's disk: {why}"),
            Self::Host(why) => write!(to, "waits until others have ended on the server: {why}"),
        }
    }
}

/// Queued jobs that rest.
#[derive(Debug, Default)]
pub(super) struct RestingJobs(HashMap<JobId, Rest>);

#[derive(Debug)]
struct Rest {
    shortage: Shortage,
    times: u32,
    until: Instant,
}

impl RestingJobs {
    /// Has a job rest; tells for how long.
    pub(super) fn rest(&mut self, job: JobId, shortage: Shortage) -> Duration {
        let times = self.0.get(&job).map_or(0, |rest| rest.times);
        let pause = FIRST_REST.saturating_mul(1 << times.min(16)).min(shortage.longest_rest());
        let until = Instant::now() + pause;
        self.0.insert(job, Rest { shortage, times: times + 1, until });
        pause
    }

    /// A job does not wait any more.
    pub(super) fn forget(&mut self, job: JobId) {
        self.0.remove(&job);
    }

    /// Those that are to be left where they are now.
    pub(super) fn jobs(&self, now: Instant) -> Vec<JobId> {
        self.0.iter().filter(|(_, rest)| rest.until > now).map(|(job, _)| *job).collect()
    }

    /// Whether the host had nothing left a moment ago.
    pub(super) fn is_host_exhausted(&self, now: Instant) -> bool {
        self.0.values().any(|rest| rest.until > now && matches!(rest.shortage, Shortage::Host(_)))
    }

    /// What a job waits for.
    pub(super) fn shortage(&self, job: JobId) -> Option<&Shortage> {
        self.0.get(&job).map(|rest| &rest.shortage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_rests_longer_each_time_but_not_for_ever() {
        for (shortage, pauses) in [
            (Shortage::Disk("full".to_owned()), [1, 2, 4, 8, 16, 30, 30]),
            (Shortage::Host("no process".to_owned()), [1, 2, 4, 4, 4, 4, 4]),
        ] {
            let (mut resting, job) = (RestingJobs::default(), JobId::from_bytes([1; 16]));
            let mut rest = || {
                let pause = resting.rest(job, shortage.clone());
                assert_eq!(resting.jobs(Instant::now()), [job]);
                let of_host = matches!(shortage, Shortage::Host(_));
                assert_eq!(resting.is_host_exhausted(Instant::now()), of_host);
                pause.as_secs()
            };
            assert_eq!([(); 7].map(|()| rest()), pauses);
            (0..40).for_each(|_| assert_eq!(rest(), pauses[6]));
            assert_eq!(resting.jobs(Instant::now() + LONGEST_REST_FOR_DISK), []);
            assert_eq!(resting.shortage(job), Some(&shortage), "it is told until it has started");
            resting.forget(job);
            assert_eq!(resting.shortage(job), None);
            assert_eq!(resting.rest(job, shortage), FIRST_REST);
        }
    }
}

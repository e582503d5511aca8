//! What is done to processes of the system, and when: the same for the same experiment and seed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::agent::in_words;
use crate::experiment::{Fault, FaultAction};
use crate::random::{Random, Stream};
use crate::record::Happening;
use crate::system::{Happened, Happenings, SystemError, SystemUnderTest};

/// A fault at its time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DueFault {
    /// After the common start.
    pub at: Duration,
    /// What is done to the process.
    pub action: FaultAction,
    /// To which process.
    pub process: String,
    /// How long a stopped one stays so.
    pub length: Duration,
}

/// The faults of an experiment in the order of their times, without an end if one comes again and again.
#[derive(Debug)]
pub struct FaultSchedule {
    /// The next of each, by its time and its place in the experiment.
    next: BTreeMap<(Duration, u32), Recurrence>,
}

#[derive(Debug)]
struct Recurrence {
    fault: Fault,
    /// When it comes next but for jitter.
    due: Duration,
    random: Random,
}

impl FaultSchedule {
    /// Those of an experiment with this seed. Each fault has random numbers of its own, so that one that is added
    /// changes nothing of the others.
    pub fn new(faults: &[Fault], seed: u64) -> Self {
        let mut schedule = Self { next: BTreeMap::new() };
        for (place, fault) in (0..).zip(faults) {
            let random = Random::new(seed, Stream::Fault(place));
            let mut recurrence = Recurrence { fault: fault.clone(), due: fault.at, random };
            let at = recurrence.jittered(Duration::ZERO);
            schedule.next.insert((at, place), recurrence);
        }
        schedule
    }
}

impl Recurrence {
    /// When it comes, if it comes no earlier than that.
    fn jittered(&mut self, least: Duration) -> Duration {
        let jitter = self.fault.jitter.as_secs_f64();
        let at = self.due.as_secs_f64() + jitter * (2.0 * self.random.part() - 1.0);
        Duration::try_from_secs_f64(at).unwrap_or(Duration::ZERO).max(least)
    }
}

impl Iterator for FaultSchedule {
    type Item = DueFault;

    fn next(&mut self) -> Option<DueFault> {
        let ((at, place), mut recurrence) = self.next.pop_first()?;
        let Fault { action, ref process, length, every, .. } = recurrence.fault;
        let due = DueFault { at, action, process: process.clone(), length };
        if let Some(every) = every.filter(|every| !every.is_zero()) {
            recurrence.due += every;
            let next = recurrence.jittered(at);
            self.next.insert((next, place), recurrence);
        }
        Some(due)
    }
}

/// Does it to the system, and tells so: before it is done, for what follows from it is no failure of the system's own; and
/// if it could not be done, why.
pub async fn inject(fault: &DueFault, system: &SystemUnderTest, happenings: &Happenings) {
    let (action, process) = (fault.action, fault.process.clone());
    // If nobody listens any more, the cell is over.
    let tell = |what| drop(happenings.send(Happened { at: Instant::now(), what }));
    tell(Happening::Fault { action, process: process.clone() });
    use SystemError::{NoSuchProcess, NotRunning, ReaperGone};
    if let Err(error @ (NoSuchProcess { .. } | NotRunning { .. } | ReaperGone { .. })) =
        inflict(fault, system).await
    {
        tell(Happening::FaultFailed { action, process, why: in_words(&error) });
    }
    // Any other is of a server that was ended and does not come back, which the watchdog sees.
}

async fn inflict(fault: &DueFault, system: &SystemUnderTest) -> Result<(), SystemError> {
    let process = &fault.process;
    if !system.runs(process)? {
        return Err(SystemError::NotRunning { process: process.clone() });
    }
    match fault.action {
        FaultAction::Kill => system.signal(process, Signal::SIGKILL as i32).await,
        FaultAction::Stop => {
            system.signal(process, Signal::SIGSTOP as i32).await?;
            tokio::time::sleep(fault.length).await;
            // It was stopped, whatever has become of it.
            let _ = system.signal(process, Signal::SIGCONT as i32).await;
            Ok(())
        }
        FaultAction::Restart => system.restart(Some(process)).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(action: &str, rest: &str) -> Fault {
        toml::from_str(&format!("action = {action:?}\n{rest}")).expect("a fault")
    }

    #[test]
    fn faults_come_in_order_and_the_same_for_the_same_seed() {
        let faults = [
            fault("kill", "every = '10s'\njitter = '3s'"),
            fault("stop", "at = '25s'\nlength = '2s'"),
            fault("restart", "at = '1s'\nevery = '1s'\njitter = '20s'"),
        ];
        let schedule = |seed| FaultSchedule::new(&faults, seed).take(200).collect::<Vec<_>>();
        let due = schedule(7);
        assert_eq!(due, schedule(7));
        assert_ne!(due, schedule(8));
        assert!(due.is_sorted_by_key(|due| due.at));
        assert_eq!(due.iter().filter(|due| due.action == FaultAction::Stop).count(), 1);
        let kills: Vec<_> = due.iter().filter(|due| due.action == FaultAction::Kill).collect();
        assert!(kills.len() > 5);
        for (at, kill) in kills.iter().enumerate().skip(1) {
            let off = kill.at.as_secs_f64() - 10.0 * at as f64;
            assert!(off.abs() <= 3.0, "{at}: {off}");
        }
        assert!(kills.windows(2).any(|two| two[1].at - two[0].at != Duration::from_secs(10)));
    }

    #[test]
    fn one_that_is_added_changes_nothing_of_the_others() {
        let first = fault("kill", "every = '10s'\njitter = '3s'");
        let alone = FaultSchedule::new(std::slice::from_ref(&first), 7);
        let both = FaultSchedule::new(&[first, fault("stop", "every = '7s'")], 7);
        let kills = both.filter(|due| due.action == FaultAction::Kill).take(20);
        assert!(alone.take(20).eq(kills));
    }
}

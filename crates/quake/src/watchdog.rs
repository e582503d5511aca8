//! The watchdog (paper 004, section 4: it detects when the system under test crashes or hangs, and has it restarted):
//! seconds and events go in, judgements come out. It does no IO and has no clock.
//!
//! It judges by the goodput of the loaded clients and by a probe on a connection of its own. A probe alone lies: once
//! load has ended a server may answer at once that had all but ended under it. Clients alone do not tell a server that
//! hangs from one that is only slow for them.
//!
//! | class | is said when | at the latest |
//! |---|---|---|
//! | CRASH | the process has ended; or nothing is answered and its port refuses connections | at once; after 2 s |
//! | HANG | nothing is answered, to clients or probe, for `hang_after`, and no processor time is used | `hang_after` and 2 s |
//! | ZOMBIE | the same, and processor time is used (thrashing); or goodput is below `zombie_below` (thrashing or idle) | `hang_after` and 2 s; `window` and 1 s |
//! | DEGRADED | goodput is below `degraded_below` | `window` and 1 s |
//! | WRONG | one answer is wrong | the second's end |
//! | ERROR, REFUSED | more of what ended than `error_above`, `refused_above`; or the most of what keeps goodput below `degraded_below` | `window` and 1 s |
//!
//! A probe that is waited for is known to have no answer after a second, hence the 2 s. `window` is longer for a slow server: it holds
//! `least_answers` at the baseline. A pause that is shorter than `hang_after` and than `1 - degraded_below` of the
//! window is no failure: a collector of garbage may do that.
//!
//! Goodput is compared with the baseline, the median of the first seconds: with a closed loop with that part of it which the
//! clients make that still load the server (an agent may be lost, or away), with an open loop only if that much was asked
//! for: what is due is what ended and what has been under way for longer than the deadline.
//!
//! Reading order:
//!
//! - `history`: the last seconds, and what is expected of them
//! - `diagnosis`: which class that is, and what speaks for it
//! - here: what follows from it (restart, rejuvenation, recovery)

mod diagnosis;
mod history;
#[cfg(test)]
mod tests;

use fishplate_formats::units;

use self::diagnosis::{Diagnosis, diagnose};
use self::history::{History, Second};
use crate::experiment::{Experiment, Rejuvenation};
use crate::record::{Event, Failure, FailureClass, Happening, MergedSecond, SystemSecond};
use crate::system::SERVER;

/// Goodput that is back at this part of the baseline has recovered.
pub const RECOVERED: f64 = 0.9;

/// What the watchdog says.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// Something happened that is to be recorded: a failure, the first right answer after it, recovery.
    Happened(Event),
    /// The server is to be restarted, as it failed.
    Restart,
    /// It is to be restarted before it fails, for this reason; to be recorded by who does it.
    Rejuvenate(String),
    /// The cell is decided, for this reason: the server failed, and is not restarted any more.
    Decided(String),
}

/// A watchdog over one cell.
#[derive(Debug)]
pub struct Watchdog {
    settings: crate::experiment::Watchdog,
    rejuvenation: Option<Rejuvenation>,
    memory_above: Option<u64>,
    /// How long after a start nothing is judged but whether it becomes ready, in seconds.
    ready_within: f64,
    history: History,
    /// Right answers until now.
    right: u64,
    /// Restarts that are left.
    restarts: u32,
    life: Life,
    condition: Condition,
}

/// Whether the server runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    /// Ready since then.
    Runs { since: f64 },
    /// It is being started, since then; whether its process has been, so that another end is a failure of its own.
    Starts { since: f64, begun: bool },
    /// It is not judged any more.
    Decided,
}

/// How well it does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Condition {
    Well,
    /// It failed in this class, or was restarted before it did (none).
    Failed {
        class: Option<FailureClass>,
        answers: RightAnswers,
    },
}

/// What right answers do since a failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RightAnswers {
    /// They come, if fewer: there were some in each second.
    GoOn,
    Stopped,
    /// There were some again.
    Back,
}

impl Watchdog {
    /// The watchdog of an experiment; its system is ready at the common start.
    ///
    /// # Errors
    /// If `watchdog.rejuvenate.memory_above` is no size.
    pub fn new(experiment: &Experiment) -> Result<Self, units::NotASize> {
        let settings = experiment.watchdog.clone();
        // One that is not ours is not started again.
        let ours = experiment.system.process.contains_key(SERVER);
        let rejuvenation = settings.rejuvenate.clone().filter(|_| ours);
        let memory =
            rejuvenation.as_ref().and_then(|rejuvenation| rejuvenation.memory_above.as_deref());
        Ok(Self {
            memory_above: memory.map(units::size).transpose()?,
            rejuvenation,
            ready_within: experiment.system.ready_within.as_secs_f64(),
            history: History::new(&settings, &experiment.workload),
            right: 0,
            restarts: if ours { settings.restarts } else { 0 },
            settings,
            life: Life::Runs { since: 0.0 },
            condition: Condition::Well,
        })
    }

    /// The baseline: right answers a second, the median of the first seconds; none before there were some.
    pub fn baseline(&self) -> Option<f64> {
        self.history.baseline()
    }

    /// Takes notice of what happened, when it is heard of it (`now`); what it says itself is known to it.
    pub fn notice(&mut self, event: &Event, now: f64) -> Vec<Judgement> {
        let of_server = |process: &str| process == SERVER;
        match (&event.what, self.life) {
            (Happening::Ended { process, code, signal, out_of_memory }, life)
                if of_server(process) =>
            {
                if matches!(life, Life::Decided | Life::Starts { begun: false, .. }) {
                    return Vec::new();
                }
                let cause = ending(*code, *signal, *out_of_memory);
                let crash = Diagnosis { class: FailureClass::Crash, since: event.at, cause };
                self.fail(now, crash)
            }
            (Happening::Started { process, .. }, Life::Starts { .. }) if of_server(process) => {
                self.life = Life::Starts { since: event.at, begun: true };
                Vec::new()
            }
            (Happening::Ready, Life::Starts { .. } | Life::Runs { .. }) => {
                self.life = Life::Runs { since: event.at };
                self.history.forget();
                Vec::new()
            }
            // It is restarted by somebody else: that it ends is no failure.
            (
                Happening::Fault { action: crate::experiment::FaultAction::Restart, process },
                Life::Runs { .. },
            ) if of_server(process) => {
                self.restarts_now(event.at, None);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Clients of a closed loop begin no more: what is still to come is what they wait for.
    pub fn load_ends(&mut self) {
        self.history.load_ends();
    }

    /// Judges a second when it is over, by what all clients and the agent on the system's host saw of it.
    pub fn observe(&mut self, clients: &MergedSecond, system: &SystemSecond) -> Vec<Judgement> {
        let now = f64::from(clients.second) + 1.0;
        self.right += clients.outcomes.right;
        self.history.add(Second::new(clients, system));
        match self.life {
            Life::Decided => Vec::new(),
            Life::Starts { since, .. } if now - since > self.ready_within => {
                let within = self.ready_within;
                let cause = format!("it was not ready {within} s after its start");
                let hang = Diagnosis { class: FailureClass::Hang, since, cause };
                self.fail(now, hang)
            }
            Life::Starts { .. } => Vec::new(),
            Life::Runs { since } => {
                if let Some(because) = self.due_for_rejuvenation(now - since, system) {
                    self.restarts_now(now, None);
                    return vec![Judgement::Rejuvenate(because)];
                }
                self.judge(now)
            }
        }
    }

    fn judge(&mut self, now: f64) -> Vec<Judgement> {
        let found = diagnose(&self.history, &self.settings);
        match (self.condition, found) {
            (Condition::Well, Some(found)) => self.fail(now, found),
            (Condition::Failed { class: Some(class), .. }, Some(found)) if found.class < class => {
                self.fail(now, found)
            }
            (Condition::Failed { class: None, .. }, Some(found)) if found.class.ends_it() => {
                self.fail(now, found)
            }
            (Condition::Failed { class, answers }, _) => self.recover(now, class, answers),
            (Condition::Well, None) => Vec::new(),
        }
    }

    fn recover(
        &mut self,
        now: f64,
        class: Option<FailureClass>,
        answers: RightAnswers,
    ) -> Vec<Judgement> {
        let happened = |what| Judgement::Happened(Event { at: now, what });
        let mut said = Vec::new();
        if self.history.last().is_none_or(|second| second.outcomes.right == 0) {
            if answers == RightAnswers::GoOn {
                self.condition = Condition::Failed { class, answers: RightAnswers::Stopped };
            }
            return said;
        }
        if answers == RightAnswers::Stopped {
            self.condition = Condition::Failed { class, answers: RightAnswers::Back };
            said.push(happened(Happening::Answered));
        }
        if self.history.has_recovered(&self.settings) {
            self.condition = Condition::Well;
            // What was bad in the window is past.
            self.history.forget();
            said.push(happened(Happening::Recovered));
        }
        said
    }

    /// Says a failure, and what follows from it.
    fn fail(&mut self, now: f64, found: Diagnosis) -> Vec<Judgement> {
        let Diagnosis { class, since, cause } = found;
        let after_requests = self.right.saturating_sub(self.history.right_since(since));
        let still_answers = !class.ends_it() && self.history.was_right_each_second_since(since);
        let failure = Failure { class, since, after_requests, cause, still_answers };
        let mut said = Vec::new();
        let because = format!("{}: {}", class.name(), failure.cause);
        said.push(Judgement::Happened(Event { at: now, what: Happening::Failure(failure) }));
        let answers = if still_answers { RightAnswers::GoOn } else { RightAnswers::Stopped };
        self.condition = Condition::Failed { class: Some(class), answers };
        if class.ends_it() || self.settings.restart_on.contains(&class) {
            if self.restarts == 0 {
                self.life = Life::Decided;
                said.push(Judgement::Decided(because));
            } else {
                self.restarts -= 1;
                self.restarts_now(now, Some(class));
                said.push(Judgement::Restart);
            }
        }
        said
    }

    fn restarts_now(&mut self, now: f64, class: Option<FailureClass>) {
        self.life = Life::Starts { since: now, begun: false };
        self.condition = Condition::Failed { class, answers: RightAnswers::Stopped };
    }

    /// Why it is to be restarted before it fails, if it is; `age` is how long it has run, in seconds.
    fn due_for_rejuvenation(&self, age: f64, system: &SystemSecond) -> Option<String> {
        let rejuvenation = self.rejuvenation.as_ref()?;
        if let Some(every) = rejuvenation.every.filter(|every| age >= every.as_secs_f64()) {
            return Some(format!("it has run for {} s", every.as_secs_f64()));
        }
        // A server that is only just ready may be restarted for ever.
        let window = self.history.window()?;
        let below = rejuvenation.throughput_below.unwrap_or(0.0);
        let part = window.goodput_part();
        if part.is_some_and(|part| part < below) {
            let percent = 100.0 * part.unwrap_or(0.0);
            return Some(format!("goodput fell to {percent:.1} % of the baseline"));
        }
        let memory = system.processes.get(SERVER)?.all.memory;
        let above = self.memory_above.filter(|above| memory > *above)?;
        let (memory, above) = (units::rounded(memory), units::rounded(above));
        Some(format!("its memory is {memory}, more than {above}"))
    }
}

impl FailureClass {
    /// By the word of reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "CRASH",
            Self::Hang => "HANG",
            Self::Zombie => "ZOMBIE",
            Self::Degraded => "DEGRADED",
            Self::Wrong => "WRONG",
            Self::Error => "ERROR",
            Self::Refused => "REFUSED",
        }
    }

    /// Whether a server that fails so does no work any more: it is restarted, or the cell is decided.
    pub fn ends_it(self) -> bool {
        matches!(self, Self::Crash | Self::Hang | Self::Zombie)
    }
}

/// How a process ended, in words.
fn ending(code: Option<i32>, signal: Option<i32>, out_of_memory: bool) -> String {
    match (code, signal) {
        _ if out_of_memory => "the kernel killed it for want of memory".to_owned(),
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => {
            let name =
                nix::sys::signal::Signal::try_from(signal).map_or("?", |signal| signal.as_str());
            format!("it was ended by signal {signal} ({name})")
        }
        (None, None) => "it ended".to_owned(),
    }
}

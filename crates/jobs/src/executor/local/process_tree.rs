//! One running job in somebody's care: its limits watched, its processes ended, its end told. The
//! runner that started it cares for it, or the supervisor when that runner was killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fishplate_contract::DataType;
use fishplate_formats::units;
use nix::sys::signal::Signal;

use super::cgroup::JobGroup;
use super::disk_shortage::DiskConsumer;
use super::procfs::{Stat, now_millis, signal_all, stat};
use super::sampler::Samplers;
use super::spawn::file_size;
use crate::executor::ProgramExit;
use crate::workspace;
use fishplate_programs::plan::{OutputSource, Plan};

/// A limit and its value: what stopped a job.
pub(super) type ReachedLimit = (String, String);

/// A job in our care.
#[derive(Debug)]
pub(super) struct ProcessTree {
    pub(super) directory: PathBuf,
    pub(super) plan: Rc<Plan>,
    /// The program, if it is known which process that is.
    pub(super) program: Option<i32>,
    /// When it was started, in milliseconds since 1970.
    pub(super) started: i64,
    group: Option<JobGroup>,
    samplers: Samplers,
    wall_end: Option<Instant>,
    status: Option<ExitStatus>,
    stop: Option<Stopping>,
    /// What stopped the program, if we did, while it ran.
    cancelled: bool,
    limit: Option<ReachedLimit>,
    swept: BTreeSet<i32>,
    cpu_seconds: f64,
    max_memory: u64,
}

/// How the program itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStatus {
    Exit(i32),
    Signal(i32),
}

impl ExitStatus {
    /// The status that `wait4` gave.
    pub(super) fn of(raw: i32) -> Self {
        if libc::WIFSIGNALED(raw) {
            Self::Signal(libc::WTERMSIG(raw))
        } else {
            Self::Exit(libc::WEXITSTATUS(raw))
        }
    }
}

/// Why a job is being ended.
#[derive(Debug)]
pub(super) enum StopCause {
    /// Somebody asked for it.
    Cancelled,
    /// It ran into a limit.
    Limit(ReachedLimit),
    /// The program ended and left processes behind.
    Leftover,
}

#[derive(Debug)]
struct Stopping {
    /// When SIGTERM gives way to SIGKILL.
    force_at: Instant,
    rounds: u32,
}

impl ProcessTree {
    /// A job whose program was started just now, or at a moment known from its journal.
    pub(super) fn new(
        directory: &Path,
        plan: &Rc<Plan>,
        program: Option<i32>,
        started: i64,
    ) -> Self {
        let gone = u64::try_from(now_millis() - started).unwrap_or(0);
        let wall_end = plan.limits.wall_time.map(|seconds| {
            let whole = Duration::try_from_secs_f64(seconds).unwrap_or(FOREVER).min(FOREVER);
            Instant::now() + whole.saturating_sub(Duration::from_millis(gone))
        });
        Self {
            directory: directory.to_path_buf(),
            plan: plan.clone(),
            program,
            started,
            group: None,
            samplers: Samplers::new(),
            wall_end,
            status: None,
            stop: None,
            cancelled: false,
            limit: None,
            swept: BTreeSet::new(),
            cpu_seconds: 0.0,
            max_memory: 0,
        }
    }

    /// The same in a control group.
    pub(super) fn in_group(mut self, group: Option<JobGroup>) -> Self {
        self.group = group;
        self
    }

    /// Whether the program itself has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.status.is_some()
    }

    /// The program, until it ends: its number may be another's then.
    pub(super) fn living(&self) -> Option<i32> {
        self.program.filter(|_| !self.has_ended())
    }

    /// Takes note of a process of this job that was reaped.
    pub(super) fn reaped(&mut self, pid: i32, status: ExitStatus, usage: &WaitUsage) {
        self.cpu_seconds += usage.cpu_seconds;
        self.max_memory = self.max_memory.max(usage.max_memory);
        if self.program == Some(pid) {
            self.status = Some(status);
        }
    }

    /// Begins to end the job, if nobody has before.
    pub(super) fn end(&mut self, cause: StopCause, members: &dyn Fn() -> Vec<Stat>) {
        if self.status.is_none() && !self.cancelled && self.limit.is_none() {
            match cause {
                StopCause::Cancelled => self.cancelled = true,
                StopCause::Limit(hit) => self.limit = Some(hit),
                StopCause::Leftover => {}
            }
        }
        if self.stop.is_some() {
            return;
        }
        let grace = Duration::try_from_secs_f64(self.plan.limits.kill_grace).unwrap_or_default();
        let force_at = Instant::now() + grace.min(FOREVER);
        self.stop = Some(Stopping { force_at, rounds: 0 });
        let members = self.members(members);
        self.signal(&members, Signal::SIGTERM);
        self.signal(&members, Signal::SIGCONT);
    }

    /// Does what is due now: looks at the limits, or goes on ending the job. Tells how long
    /// nothing will be due, if no process of the job ends before.
    pub(super) fn drive(&mut self, members: &dyn Fn() -> Vec<Stat>) -> Duration {
        if self.status.is_some() && self.stop.is_none() {
            self.end(StopCause::Leftover, members);
        }
        let now = Instant::now();
        if self.stop.as_ref().is_some_and(|stop| now >= stop.force_at) {
            return self.force(members);
        }
        let mut wait = self.watch(now, members);
        if let Some(stop) = &self.stop {
            wait = wait.min(stop.force_at.saturating_duration_since(now));
        } else if let Some(end) = self.wall_end {
            if now >= end {
                let seconds = self.plan.limits.wall_time.unwrap_or_default();
                self.end(StopCause::Limit(("wall_time".into(), format!("{seconds} s"))), members);
                return Duration::ZERO;
            }
            wait = wait.min(end - now);
        }
        wait
    }

    /// Looks at what the job occupies. A limit on that is a matter of moments, so there is no
    /// grace.
    fn watch(&mut self, now: Instant, members: &dyn Fn() -> Vec<Stat>) -> Duration {
        let group = &self.group;
        let all = || members_of(group.as_ref(), members);
        let (hit, wait) =
            self.samplers.look(now, &self.directory, (&self.plan, self.started), &all);
        self.max_memory = self.max_memory.max(self.samplers.max_memory());
        if let Some(hit) = hit {
            self.end(StopCause::Limit(hit), members);
            if let Some(stop) = &mut self.stop {
                stop.force_at = now;
            }
            return Duration::ZERO;
        }
        wait
    }

    /// Kills what there is; told again and again until nothing is.
    fn force(&mut self, members: &dyn Fn() -> Vec<Stat>) -> Duration {
        let rounds = self.stop.as_mut().map_or(0, |stop| {
            stop.rounds += 1;
            stop.rounds
        });
        let all = self.members(members);
        let killed = self.group.as_ref().is_some_and(JobGroup::kill);
        if killed {
            self.swept.extend(all.iter().map(|stat| stat.pid));
        } else {
            if rounds > PATIENT_ROUNDS {
                // It forks faster than we kill: hold all of them still first.
                self.signal(&all, Signal::SIGSTOP);
                let all = self.members(members);
                self.signal(&all, Signal::SIGSTOP);
            }
            let all = self.members(members);
            self.signal(&all, Signal::SIGKILL);
        }
        // The end of each wakes us; this is for what we could not reach yet.
        Duration::from_millis(u64::from(rounds.min(20)) * 5)
    }

    fn members(&self, members: &dyn Fn() -> Vec<Stat>) -> Vec<Stat> {
        members_of(self.group.as_ref(), members)
    }

    fn signal(&mut self, members: &[Stat], signal: Signal) {
        self.swept.extend(signal_all(members, signal));
    }

    /// How it ended. To be called when none of its processes is left.
    pub(super) fn finish(mut self) -> ProgramExit {
        let free = self.limit.is_none() && !self.cancelled;
        if free {
            self.limit = self.reached_at_the_end();
        }
        if self.limit.is_some() {
            workspace::cut_logs(&self.directory, self.plan.limits.log_size);
        }
        let mut ended_by = "";
        if let Some(program) = self.program {
            if self.stop.is_some() && (!self.swept.is_empty()) {
                ended_by = if self.group.is_some() { "cgroup" } else { "sweep" };
            }
            self.swept.remove(&program);
        }
        if let Some(group) = self.group.take() {
            self.cpu_seconds = group.cpu_seconds().unwrap_or(self.cpu_seconds);
            self.max_memory = group.max_memory().unwrap_or(self.max_memory);
            group.remove();
        }
        let (exit_code, signal) = match self.status {
            Some(ExitStatus::Exit(code)) => (Some(code), None),
            Some(ExitStatus::Signal(signal)) => (None, Some(name_of(signal))),
            None => (None, None),
        };
        ProgramExit {
            started: self.started,
            ended: now_millis(),
            exit_code,
            signal,
            cancelled: self.cancelled,
            limit: self.limit,
            ended_by: ended_by.to_owned(),
            swept: u32::try_from(self.swept.len()).unwrap_or(u32::MAX),
            cpu_seconds: self.cpu_seconds,
            max_memory: self.max_memory,
            collected: None,
        }
    }

    /// A limit that the job ran into too fast to be seen while it ran, so that it does not depend
    /// on the moment.
    fn reached_at_the_end(&self) -> Option<ReachedLimit> {
        if self.status == Some(ExitStatus::Signal(libc::SIGXFSZ))
            && let Some(most) = file_size(&self.plan)
        {
            return Some(("output_size".into(), units::exact(most)));
        }
        if let Some(most) = self.plan.limits.memory
            && self.group.as_ref().is_some_and(JobGroup::ran_out_of_memory)
        {
            return Some(("memory".into(), units::exact(most)));
        }
        let job = DiskConsumer {
            directory: &self.directory,
            plan: &self.plan,
            started: self.started,
            members: &Vec::new,
        };
        let success = |code: &i32| self.plan.success.exit_codes.contains(code);
        let failed = !matches!(&self.status, Some(ExitStatus::Exit(code)) if success(code));
        super::sampler::sizes(&self.directory, &self.plan, true)
            .1
            .or_else(|| job.limit_at_the_end(failed))
    }
}

/// What a wait tells of the resources used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitUsage {
    pub(super) cpu_seconds: f64,
    pub(super) max_memory: u64,
}

fn members_of(group: Option<&JobGroup>, members: &dyn Fn() -> Vec<Stat>) -> Vec<Stat> {
    match group {
        Some(group) => group.members().into_iter().filter_map(stat).collect(),
        None => members(),
    }
}

/// The files of the workspace that hold outputs which are values, where it is known.
pub(super) fn value_files(plan: &Plan, directory: &Path) -> Vec<PathBuf> {
    let work = workspace::work(directory);
    let is_value = |name: &str| {
        DataType::from_name(name).is_some_and(|it| !it.is_binary() && it.as_array().is_none())
    };
    let path = |rule: &fishplate_programs::plan::OutputRule| match &rule.source {
        OutputSource::Path(path) if is_value(&rule.data_type) => Some(work.join(path)),
        _ => None,
    };
    plan.outputs.iter().filter_map(path).collect()
}

fn name_of(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

/// Longest time that a limit can be: beyond it clocks overflow.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// How many rounds of killing are tried before the tree is held still.
const PATIENT_ROUNDS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_an_exit_or_a_signal() {
        assert_eq!(ExitStatus::of(3 << 8), ExitStatus::Exit(3));
        assert_eq!(ExitStatus::of(libc::SIGSEGV), ExitStatus::Signal(libc::SIGSEGV));
        assert_eq!(name_of(libc::SIGSEGV), "SIGSEGV");
        assert_eq!(name_of(40), "signal 40");
    }
}

//! A batch system that is not there: it lags, it does not always know, and it runs nothing. It
//! drives the engine in tests as a real one would, only faster and the same way each time.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fishplate_contract::{Clock as _, JobId, SystemClock, Timestamp};

use super::{
    BoxFuture, Collected, Executor, Handle, Observation, ProgramExit, RecoveredRun, StartError,
    StartOrder, StartTrace,
};

/// The fake. Each look at a job moves it on by one step of its script.
#[derive(Debug)]
pub struct FakeExecutor {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    random: u64,
    /// Scripts and refusals for jobs that have not been started.
    scripts: HashMap<JobId, Vec<Observation>>,
    refusals: HashMap<JobId, VecDeque<StartError>>,
    jobs: HashMap<Handle, Job>,
    starts: Vec<(JobId, u64)>,
    cancels: Vec<Handle>,
}

#[derive(Debug)]
struct Job {
    id: JobId,
    rest: VecDeque<Observation>,
    last: Observation,
}

impl FakeExecutor {
    /// A fake whose jobs wait, are unclear and run for a number of looks that this seed decides,
    /// and then end well.
    pub fn new(seed: u64) -> Self {
        // Zero is the one state that xorshift never leaves.
        let state = State { random: seed | 1 << 63, ..State::default() };
        Self { state: Mutex::new(state) }
    }

    /// What looks at this job shall show, one after the other; the last for ever.
    pub fn script(&self, job: JobId, observations: Vec<Observation>) {
        self.state().scripts.insert(job, observations);
    }

    /// The next start of this job fails; told several times, several do.
    pub fn refuse(&self, job: JobId, error: StartError) {
        self.state().refusals.entry(job).or_default().push_back(error);
    }

    /// All starts that were made, by job and fence. Those that were refused are not among them.
    pub fn starts(&self) -> Vec<(JobId, u64)> {
        self.state().starts.clone()
    }

    /// All requests to end a job.
    pub fn cancels(&self) -> Vec<Handle> {
        self.state().cancels.clone()
    }

    /// An end as the plan calls success, with nothing to collect.
    pub fn ended(exit_code: i32) -> Observation {
        let now = SystemClock.now().0;
        Observation::Ended(Box::new(ProgramExit {
            started: now,
            ended: now,
            exit_code: Some(exit_code),
            collected: Some(Collected::default()),
            ..ProgramExit::default()
        }))
    }

    /// A running job.
    pub fn running() -> Observation {
        Observation::Running { started: SystemClock.now() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn improvise(&mut self) -> Vec<Observation> {
        let mut script = Vec::new();
        for _ in 0..self.random(3) {
            script.push(Observation::Waiting("Resources".to_owned()));
        }
        for _ in 0..self.random(3) {
            script.push(Observation::Unclear("the batch system did not answer".to_owned()));
        }
        for _ in 0..self.random(3) {
            script.push(FakeExecutor::running());
        }
        script.push(FakeExecutor::ended(0));
        script
    }

    fn find(&self, job: JobId) -> Option<Handle> {
        self.jobs.iter().find(|(_, it)| it.id == job).map(|(handle, _)| handle.clone())
    }

    fn start(&mut self, order: &StartOrder) -> Result<Handle, StartError> {
        if let Some(handle) = self.find(order.job) {
            return Ok(handle);
        }
        if let Some(error) = self.refusals.get_mut(&order.job).and_then(VecDeque::pop_front) {
            return Err(error);
        }
        let script = match self.scripts.remove(&order.job) {
            Some(script) => script,
            None => self.improvise(),
        };
        self.starts.push((order.job, order.fence));
        let handle = Handle(format!("fake:{}", self.starts.len()));
        let last = Observation::Unclear("just submitted".to_owned());
        let job = Job { id: order.job, rest: script.into(), last };
        self.jobs.insert(handle.clone(), job);
        Ok(handle)
    }

    fn observe(&mut self, handle: &Handle) -> Observation {
        let Some(job) = self.jobs.get_mut(handle) else {
            return Observation::Lost(format!("there is no job {:?}", handle.0));
        };
        if let Some(next) = job.rest.pop_front() {
            job.last = next;
        }
        job.last.clone()
    }

    fn cancel(&mut self, handle: &Handle) {
        self.cancels.push(handle.clone());
        let Some(job) = self.jobs.get_mut(handle) else { return };
        if matches!(job.last, Observation::Ended(_) | Observation::Lost(_)) {
            return;
        }
        let Timestamp(now) = SystemClock.now();
        let ending = ProgramExit {
            started: now,
            ended: now,
            signal: Some("SIGTERM".to_owned()),
            cancelled: true,
            ended_by: "sweep".to_owned(),
            collected: Some(Collected::default()),
            ..ProgramExit::default()
        };
        // It lags in this too.
        job.rest = [job.last.clone(), Observation::Ended(Box::new(ending))].into();
    }
}

impl Executor for FakeExecutor {
    fn start<'a>(&'a self, order: &'a StartOrder) -> BoxFuture<'a, Result<Handle, StartError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.state().start(order)
        })
    }

    fn observe<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Vec<Observation>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let mut state = self.state();
            handles.iter().map(|handle| state.observe(handle)).collect()
        })
    }

    fn locate<'a>(&'a self, order: &'a StartOrder) -> BoxFuture<'a, StartTrace> {
        Box::pin(async move {
            let found = self.state().find(order.job);
            found.map_or(StartTrace::Never, StartTrace::Started)
        })
    }

    fn cancel<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.state().cancel(handle) })
    }

    fn guards_inputs(&self) -> bool {
        true
    }

    fn recovered(&self, directory: &Path) -> io::Result<(RecoveredRun, u64)> {
        let named = directory.file_name().and_then(|name| name.to_str()?.parse().ok());
        let state = self.state();
        let started = state.starts.iter().rev().find(|(job, _)| Some(*job) == named);
        let Some((job, fence)) = started else { return Ok((RecoveredRun::NotStarted, 0)) };
        let last = state.find(*job).and_then(|handle| Some(&state.jobs.get(&handle)?.last));
        let run = match last {
            Some(Observation::Ended(ending)) => RecoveredRun::Ended(ending.clone()),
            Some(Observation::Died(_) | Observation::Lost(_)) => RecoveredRun::Unknown,
            _ => RecoveredRun::Running,
        };
        Ok((run, *fence))
    }

    /// Never: a batch system does not call back.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::conformance;

    #[tokio::test]
    async fn the_fake_does_what_every_executor_must() {
        let directory = tempfile::tempdir().unwrap();
        for seed in 0..20 {
            conformance::run(&FakeExecutor::new(seed), directory.path()).await;
        }
    }

    #[tokio::test]
    async fn a_script_is_shown_step_by_step() {
        let fake = FakeExecutor::new(1);
        let order = conformance::order(Path::new("/nowhere"), "");
        fake.refuse(order.job, StartError::NotStarted("busy".to_owned()));
        let waiting = Observation::Waiting("Priority".to_owned());
        let lost = Observation::Lost("forgotten".to_owned());
        fake.script(order.job, vec![waiting.clone(), lost.clone()]);
        assert!(fake.start(&order).await.is_err());
        assert_eq!(fake.locate(&order).await, StartTrace::Never);
        let handle = fake.start(&order).await.unwrap();
        let handles = [handle];
        for expected in [&waiting, &lost, &lost] {
            assert_eq!(fake.observe(&handles).await, std::slice::from_ref(expected));
        }
        assert_eq!(fake.starts(), [(order.job, 1)]);
    }
}

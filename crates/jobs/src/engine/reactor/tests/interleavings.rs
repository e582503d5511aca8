//! Jobs from their submission to their end, by engines that live, die and pause, over a real store:
//! whatever comes to its end in whatever order, fails, is killed, or is lost to another engine, each
//! job ends, once, and leaves nothing behind.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::Clock as _;

use super::*;
use crate::engine::judge;
use crate::executor::{Collected, Output, OutputContent};
use crate::process;
use crate::store::conformance::SetClock;
use crate::store::memory::MemoryStore;
use crate::store::quota::OwnerLimits;
use crate::store::{
    ClaimRequest, FencedWrite, FetchRequest, KillRequest, NewJob, PendingJobs, Store, StoreError,
    Transaction,
};
use fishplate_programs::output_choices::{OutputChoices, StoredChoice};
use fishplate_programs::plan::{FetchedForm, InputContent, InputFile, ReferencedInput};

const LEASE: Duration = Duration::from_millis(10);
const JOBS: u8 = 3;
const ENGINES: u32 = 2;

/// What happens next.
#[derive(Clone, Debug)]
enum Turn {
    /// The pending effect at this place of an engine comes to its end; well, or not.
    Complete(usize, usize, bool),
    /// An engine hears of what has happened, the oldest first.
    Step(usize),
    /// An engine looks around: renews, takes over, learns of kills and losses.
    Look(usize),
    /// What runs is observed.
    Observe(usize),
    /// Somebody kills a job.
    Kill(u8),
    /// The program of a job ends.
    End(u8),
    /// Leases lapse before anybody renews them.
    Pause,
    /// An engine dies with all that it was about, and another takes its place.
    Restart(usize),
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let engine = 0..ENGINES as usize;
    prop_oneof![
        12 => (engine.clone(), any::<usize>(), prop::bool::weighted(0.9))
            .prop_map(|(engine, at, well)| Turn::Complete(engine, at, well)),
        16 => engine.clone().prop_map(Turn::Step),
        4 => engine.clone().prop_map(Turn::Look),
        2 => engine.clone().prop_map(Turn::Observe),
        1 => (0..JOBS).prop_map(Turn::Kill),
        2 => (0..JOBS).prop_map(Turn::End),
        1 => Just(Turn::Pause),
        1 => engine.prop_map(Turn::Restart),
    ]
}

/// One process.
struct Process {
    name: String,
    reactor: Reactor,
    inbox: VecDeque<Event>,
    pending: Vec<Effect>,
}

impl Process {
    fn new(number: u32) -> Self {
        // Of every other one it can be seen that it is dead (or so it seems), and who looks takes all
        // it has; the leases of the others lapse.
        let name = match number % 2 {
            0 => format!("{}/{number}/{}/0", process::boot(), u64::MAX),
            _ => process::this_process(),
        };
        let reactor = Reactor::new(1);
        Self { name, reactor, inbox: VecDeque::new(), pending: Vec::new() }
    }
}

/// The world around the engines.
struct World {
    store: MemoryStore,
    clock: Arc<SetClock>,
    processes: Vec<Process>,
    born: u32,
    /// Programs that were started, and whether they have ended.
    programs: HashMap<JobId, bool>,
    cancelled: HashSet<JobId>,
    /// Directories of fetched inputs.
    places: BTreeSet<(JobId, u64)>,
    /// Outputs that are where they were to go.
    delivered: HashSet<(JobId, usize)>,
    ends: HashMap<JobId, u32>,
}

fn id(n: u8) -> JobId {
    JobId::from_bytes([n; 16])
}

/// A plan with two inputs to fetch and two outputs to deliver.
pub(super) fn moving() -> Arc<Plan> {
    let input = |name: &str| InputFile {
        path: name.to_owned(),
        content: InputContent::Fetch(ReferencedInput {
            parameter: name.to_owned(),
            url: format!("http://a.example/{name}"),
            len: None,
            digest: None,
            private: false,
            media_type: String::new(),
            arrival: FetchedForm::File,
        }),
    };
    let choice = |name: &str| StoredChoice {
        name: name.to_owned(),
        form: "value".to_owned(),
        to: Some("mailto:ann@example.org".to_owned()),
    };
    let answer =
        OutputChoices { choices: vec![choice("a"), choice("b")], ..OutputChoices::default() };
    Arc::new(Plan { inputs: vec![input("x"), input("y")], answer, ..Plan::clone(&plan()) })
}

fn ending(cancelled: bool) -> Observation {
    let output = |name: &str| Output {
        name: name.to_owned(),
        label: None,
        media_type: String::new(),
        content: OutputContent::File { path: name.to_owned(), len: 4 },
    };
    let outputs = vec![output("a"), output("b")];
    let collected = Some(Collected { outputs, ..Collected::default() });
    let exit_code = Some(0);
    Observation::Ended(Box::new(ProgramExit {
        exit_code,
        cancelled,
        collected,
        ..ProgramExit::default()
    }))
}

impl World {
    fn new() -> Self {
        let clock = Arc::<SetClock>::default();
        let world = Self {
            store: MemoryStore::with_clock(Arc::<SetClock>::clone(&clock)),
            clock,
            processes: (0..ENGINES).map(Process::new).collect(),
            born: ENGINES,
            programs: HashMap::new(),
            cancelled: HashSet::new(),
            places: BTreeSet::new(),
            delivered: HashSet::new(),
            ends: HashMap::new(),
        };
        for n in 0..JOBS {
            let (plan, submitted) = ("to be fetched".to_owned(), world.clock.now());
            let job = NewJob { plan, submitted, fetching: true, ..job(n, "s") };
            world.write(|t| t.submit(&job));
        }
        world
    }

    fn write<T>(&self, work: impl FnOnce(&mut dyn Transaction) -> Result<T, StoreError>) -> T {
        let (mut work, mut done) = (Some(work), None);
        let run = &mut |t: &mut dyn Transaction| {
            work.take().map_or(Ok(()), |work| work(t).map(|value| done = Some(value)))
        };
        self.store.transact(false, run).unwrap();
        done.unwrap()
    }

    fn turn(&mut self, turn: &Turn) {
        match *turn {
            Turn::Complete(engine, at, well) => {
                let pending = &mut self.processes[engine].pending;
                if !pending.is_empty() {
                    let effect = pending.swap_remove(at % pending.len());
                    self.complete(engine, effect, well);
                }
            }
            Turn::Step(engine) => self.step(engine),
            Turn::Look(engine) => self.look(engine),
            Turn::Observe(engine) => self.observe(engine),
            Turn::Kill(n) => {
                let at = self.clock.now();
                if self.write(|t| t.request_kill(id(n), at)) == KillRequest::Dequeued {
                    self.ended(id(n));
                }
                // One process hears of it at once, the other when it looks.
                self.tell(0, Event::KillRequested(id(n)));
            }
            Turn::End(n) => {
                if let Some(ended) = self.programs.get_mut(&id(n)) {
                    *ended = true;
                }
            }
            Turn::Pause => self.pause(),
            Turn::Restart(engine) => {
                self.processes[engine] = Process::new(self.born);
                self.born += 1;
            }
        }
    }

    /// An event is on its way to an engine.
    fn tell(&mut self, engine: usize, event: Event) {
        self.processes[engine].inbox.push_back(event);
    }

    /// An engine takes its next step.
    fn step(&mut self, engine: usize) {
        let process = &mut self.processes[engine];
        let Some(event) = process.inbox.pop_front() else { return };
        for effect in process.reactor.handle(event, self.clock.now()) {
            let stopped = match &effect {
                Effect::Stop(job, fence) => Some((*job, *fence)),
                Effect::Discard(claim, ..) => Some((claim.id, claim.fence)),
                _ => None,
            };
            if stopped.is_some() {
                process.pending.retain(|it| moves_under(it) != stopped);
            }
            process.pending.push(effect);
        }
    }

    /// So long that leases lapse.
    fn pause(&self) {
        self.clock.set(self.clock.now().after(LEASE * 2).0);
    }

    /// A job has an end, and only one.
    fn ended(&mut self, job: JobId) {
        let ends = self.ends.entry(job).or_default();
        *ends += 1;
        assert_eq!(*ends, 1, "{job} ended twice");
    }

    fn complete(&mut self, engine: usize, effect: Effect, well: bool) {
        let failed = || Fault::new(FaultCode::TransferFailed, "nobody is there");
        match effect {
            Effect::Prepare(claim) => {
                self.places.retain(|(job, fence)| *job != claim.id || *fence > claim.fence);
                self.places.insert((claim.id, claim.fence));
                self.tell(engine, Event::Prepared(claim.id, claim.fence, Ok(())));
            }
            Effect::Fetch(claim, _, at, progress) => {
                progress.set(4);
                let placed = if well { Ok(PlacementMethod::Copy) } else { Err(failed()) };
                self.tell(engine, Event::Fetched(claim.id, claim.fence, at, placed));
            }
            Effect::Arrange(claim, plan, moved) => {
                assert!(moved.iter().all(|it| it.bytes == 4 && it.placed.is_some()), "{moved:?}");
                let record = format!("fetched under {}", claim.fence);
                let arrived =
                    FetchedJob { plan: Plan::clone(&plan), size: 1, record, disk: 1, bytes: 0 };
                let arrived = if well { Ok(Box::new(arrived)) } else { Err(failed()) };
                self.tell(engine, Event::Arrived(claim.id, claim.fence, arrived));
            }
            Effect::Queue(claim, arrived) => {
                let queued =
                    self.write(|t| t.fetched(claim.id, claim.fence, &arrived.record, 1, 0, None));
                if queued == FencedWrite::Stale {
                    self.places.remove(&(claim.id, claim.fence));
                }
                self.tell(engine, Event::Closed(claim.id, claim.fence));
            }
            Effect::Discard(claim, _, end) => {
                self.places.remove(&(claim.id, claim.fence));
                if let Some(end) = end {
                    self.write_end(engine, claim.id, claim.fence, &end);
                }
            }
            Effect::Start(order) => {
                let answer = if well {
                    // An executor starts a job once: who comes late, under an older fence, is
                    // told of the same start.
                    self.programs.entry(order.job).or_insert(false);
                    Ok(Handle(order.job.to_string()))
                } else {
                    Err(StartError::NotStarted("busy".to_owned()))
                };
                self.tell(engine, Event::Started(order.job, order.fence, answer));
            }
            Effect::Locate(order) => {
                let started = self.programs.contains_key(&order.job);
                let handle = Handle(order.job.to_string());
                let located = if started { StartTrace::Started(handle) } else { StartTrace::Never };
                self.tell(engine, Event::Located(order.job, order.fence, located));
            }
            Effect::RecordStart(job, fence, handle) => {
                let at = self.clock.now();
                let _ = self.write(|t| t.started(job, fence, &handle, at));
            }
            Effect::Observe => self.observe(engine),
            Effect::Cancel(Handle(job)) => {
                let job = job.parse().unwrap();
                self.programs.insert(job, true);
                self.cancelled.insert(job);
            }
            Effect::Unclaim(job, fence, _) => self.unclaim(engine, job, fence),
            Effect::Judge(order, end) => {
                let completion = match end {
                    JobEnd::Ended(ending) => judge::judge(&order.plan, *ending, self.clock.now()),
                    JobEnd::Without(state, code, why) => {
                        Completion::without_ending(state, code, &why, self.clock.now())
                    }
                    JobEnd::Refused(fault) => Completion::of_fault(*fault, self.clock.now()),
                };
                self.tell(engine, Event::Judged(order.job, order.fence, Box::new(completion)));
            }
            Effect::Send(shipment, number, _) => {
                let (job, fence) = (shipment.job, shipment.fence);
                let sent = if well {
                    self.delivered.insert((job, number));
                    let (url, name) = (String::new(), number.to_string());
                    Ok(DeliveredOutput {
                        name,
                        label: None,
                        url,
                        len: None,
                        digest: None,
                        expires: None,
                    })
                } else {
                    Err(failed())
                };
                self.tell(engine, Event::Sent(job, fence, number, sent));
            }
            Effect::WriteEnd(job, fence, end) => {
                if end.state() == JobState::Done {
                    let all = (0..2).all(|number| self.delivered.contains(&(job, number)));
                    assert!(all && end.sent.len() == 2, "done before all was sent: {end:?}");
                }
                self.write_end(engine, job, fence, &end);
            }
            // At once, when it was said.
            Effect::Stop(..) => {}
        }
    }

    fn unclaim(&mut self, engine: usize, job: JobId, fence: u64) {
        let at = self.clock.now();
        let killed = self.write(|t| {
            let _ = t.unclaim(job, fence)?;
            let queued = t.find(job)?.filter(|it| it.state == JobState::Queued);
            let killed = queued.is_some_and(|it| it.kill_requested);
            if killed {
                t.request_kill(job, at)?;
            }
            Ok(killed)
        });
        if killed {
            self.ended(job);
        }
        self.tell(engine, Event::Closed(job, fence));
    }

    fn write_end(&mut self, engine: usize, job: JobId, fence: u64, end: &Completion) {
        if self.write(|t| t.conclude(job, fence, end)) == FencedWrite::Accepted {
            self.ended(job);
        }
        self.tell(engine, Event::Closed(job, fence));
    }

    fn observe(&mut self, engine: usize) {
        for (job, fence, _) in self.processes[engine].reactor.observable() {
            let seen = match self.programs[&job] {
                true => ending(self.cancelled.contains(&job)),
                false => Observation::Running { started: self.clock.now() },
            };
            self.tell(engine, Event::Observed(job, fence, seen));
        }
    }

    /// What the driver does from time to time.
    fn look(&mut self, engine: usize) {
        let holder = self.processes[engine].name.clone();
        let claims = self.processes[engine].reactor.fetch_claims();
        let (held, kills, ended) = self.write(|t| {
            t.renew(&holder, LEASE)?;
            let mut ended = Vec::new();
            for (job, _) in &claims {
                ended.push(t.find(*job)?.is_none_or(|it| it.state.is_final()));
            }
            Ok((t.fetching(&holder)?, t.kill_requests(&holder)?, ended))
        });
        for ((job, fence), ended) in claims.into_iter().zip(ended) {
            if !held.contains(&job) {
                self.tell(engine, Event::FetchLost(job, fence, ended));
            }
        }
        for job in kills {
            self.tell(engine, Event::KillRequested(job));
        }
        let (lease, most, most_of_owner) = (LEASE, 2, 2);
        let fetch = FetchRequest { holder: holder.clone(), lease, most, most_of_owner };
        for claim in self.write(|t| t.claim_fetches(&fetch)) {
            self.tell(engine, Event::FetchClaimed(claim, moving()));
        }
        let (max_running, take_over) = (2, true);
        let resting = Vec::new();
        let run = ClaimRequest {
            holder,
            lease,
            max_running,
            quotas: Arc::new(OwnerLimits::default()),
            take_over,
            resting,
            reserved: Vec::new(),
            first: Vec::new(),
        };
        for claim in self.write(|t| t.claim(&run)) {
            self.tell(engine, Event::Claimed(claim, moving()));
        }
    }

    /// Lets all come to its end, and looks at what is left.
    fn finish(&mut self) {
        for _ in 0..100 {
            for engine in 0..self.processes.len() {
                self.look(engine);
                self.programs.values_mut().for_each(|ended| *ended = true);
                self.observe(engine);
                loop {
                    let process = &mut self.processes[engine];
                    if !process.inbox.is_empty() {
                        self.step(engine);
                    } else if let Some(effect) = process.pending.pop() {
                        self.complete(engine, effect, true);
                    } else {
                        break;
                    }
                }
            }
            self.pause();
        }
        for job in (0..JOBS).map(id) {
            let record = self.write(|t| t.find(job)).expect("its record");
            assert!(record.state.is_final(), "{job} is {:?}", record.state);
            assert_eq!(self.ends.get(&job), Some(&1));
            // What an engine leaves that dies goes with the job's directory.
            let plan = self.write(|t| t.plan(job)).unwrap();
            for (_, fence) in self.places.iter().filter(|place| place.0 == job) {
                let its = plan == format!("fetched under {fence}");
                assert!(its || self.born > ENGINES, "{job} left what it had under {fence}");
            }
        }
        for process in &self.processes {
            assert!(process.reactor.is_empty(), "{:?}", process.reactor);
        }
        assert_eq!(self.write(|t| t.backlog()), PendingJobs::default());
    }
}

/// The claim under which an effect moves data.
fn moves_under(effect: &Effect) -> Option<(JobId, u64)> {
    match effect {
        Effect::Prepare(claim) | Effect::Fetch(claim, ..) | Effect::Arrange(claim, ..) => {
            Some((claim.id, claim.fence))
        }
        Effect::Send(shipment, ..) => Some((shipment.job, shipment.fence)),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn whatever_happens_in_whatever_order_each_job_ends_once_and_leaves_nothing(
        turns in prop::collection::vec(any_turn(), 0..300)
    ) {
        let mut world = World::new();
        turns.iter().for_each(|turn| world.turn(turn));
        world.finish();
    }
}

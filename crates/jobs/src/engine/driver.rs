//! The engine's effects and its clock: one task that feeds the reactor and does what it says.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode, JobId, JobState, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::ephemeral::Release;
use super::reactor::{Effect, Event, JobEnd, LiveJob, Reactor};
use super::submit::CompletedJob;
use super::{Engine, EngineInner, judge, lock, record};
use crate::completion::Completion;
use crate::executor::{self, Handle, StartError};
use crate::store::{
    Claim, ClaimRequest, FencedWrite, FetchClaim, PendingJobs, StoreError, Transaction,
};
use crate::workspace;
use fishplate_programs::plan::Plan;

/// How often kill requests of other processes are looked for and dead holders are replaced.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a job that could not be started rests before anybody claims it again.
const RETRY_START: Duration = Duration::from_millis(500);

/// The shortest and the longest time between two tries to write what must be written.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// Most commands that are taken out of the inbox before the clocks have their turn.
const COMMANDS_AT_ONCE: usize = 64;

/// What the driver is told to do by this process.
#[derive(Debug)]
pub(super) enum DriverCommand {
    /// A job was claimed, by a transaction that was durable or not.
    Claimed { claim: Claim, durable: bool },
    /// A job's data is to be fetched.
    Fetch(FetchClaim),
    /// An event for the reactor.
    Event(Event),
    /// Look whether there is something to claim.
    Claim,
    /// The look at running jobs is over.
    Observed,
    /// The store was looked at: whether jobs of whomever have not ended.
    Looked { waiting: bool },
    /// How does this job stand?
    Tell(JobId, oneshot::Sender<LiveJob>),
}

/// How long [`Engine::run`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// Until it is dropped.
    Dropped,
    /// Until nothing was queued or running in the store for this long.
    Idle(Duration),
}

impl Engine {
    /// Works on the jobs of the store: its own, and those whose holder is gone. Runs once a
    /// process.
    ///
    /// # Panics
    /// If it was called before.
    pub async fn run(&self, until: RunMode) {
        let inbox = lock(&self.shared.inbox).take().expect("an engine runs once");
        let _working = ActivityGuard::begin(&self.shared);
        let reference_size = self.shared.settings.reference_size;
        let driver = Driver {
            shared: Arc::clone(&self.shared),
            reactor: Reactor::new(reference_size),
            inbox,
            transfers: HashMap::new(),
            unrecorded: HashMap::new(),
            observing: false,
            observe_again: false,
            busy: Instant::now(),
        };
        driver.run(until).await;
    }
}

/// While it lives, this process works on jobs: until a run ends, or is dropped.
struct ActivityGuard(Arc<EngineInner>);

impl ActivityGuard {
    fn begin(shared: &Arc<EngineInner>) -> Self {
        shared.working.store(true, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.working.store(false, Ordering::Relaxed);
    }
}

struct Driver {
    shared: Arc<EngineInner>,
    reactor: Reactor,
    inbox: mpsc::UnboundedReceiver<DriverCommand>,
    /// What moves under each claim; dropped, it stops.
    transfers: HashMap<(JobId, u64), JoinSet<()>>,
    /// Starts that are not recorded yet.
    unrecorded: HashMap<JobId, PendingStart>,
    observing: bool,
    observe_again: bool,
    /// When it last was seen that there is work.
    busy: Instant,
}

impl Driver {
    async fn run(mut self, until: RunMode) {
        let every = |period| {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let mut observe = every(self.shared.settings.observe_every);
        let mut look = every(LOOK_EVERY);
        let executor = Arc::clone(&self.shared.executor);
        let mut orders = Vec::with_capacity(COMMANDS_AT_ONCE);
        loop {
            tokio::select! {
                taken = self.inbox.recv_many(&mut orders, COMMANDS_AT_ONCE) => {
                    if taken == 0 {
                        return;
                    }
                    orders.drain(..).for_each(|order| self.obey(order));
                }
                () = executor.changed() => self.observe(),
                _ = observe.tick() => {
                    self.observe();
                    self.record_starts();
                }
                _ = look.tick() => {
                    self.shared.look_around(self.reactor.fetch_claims());
                    if let RunMode::Idle(idle) = until
                        && self.reactor.is_empty()
                        && self.busy.elapsed() >= idle
                    {
                        return;
                    }
                }
            }
        }
    }

    fn obey(&mut self, order: DriverCommand) {
        match order {
            DriverCommand::Claimed { claim, durable } => {
                self.with_plan(claim.id, claim.fence, move |shared, plan| {
                    shared.confirm(claim, plan, durable)
                });
            }
            DriverCommand::Fetch(claim) => {
                self.with_plan(claim.id, claim.fence, |_, plan| {
                    Some(Event::FetchClaimed(claim, plan))
                });
            }
            DriverCommand::Event(event) => self.step(event),
            DriverCommand::Claim => self.shared.claim(),
            DriverCommand::Looked { waiting } => {
                if waiting || !self.reactor.is_empty() {
                    self.busy = Instant::now();
                }
            }
            DriverCommand::Tell(job, tell) => {
                let _ = tell.send(self.reactor.live(job));
            }
            DriverCommand::Observed => {
                self.observing = false;
                if std::mem::take(&mut self.observe_again) {
                    self.observe();
                }
            }
        }
    }

    /// Goes on with the plan of a claimed job, at once if it is at hand.
    fn with_plan(
        &mut self,
        job: JobId,
        fence: u64,
        then: impl FnOnce(&Arc<EngineInner>, Arc<Plan>) -> Option<Event> + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        let at_hand = lock(&shared.plans).take(job);
        if let Some(plan) = at_hand {
            then(&shared, plan).into_iter().for_each(|event| self.step(event));
            return;
        }
        beside(async move {
            match shared.read_plan(job).await {
                Ok(plan) => {
                    let event = then(&shared, Arc::new(plan));
                    event.into_iter().for_each(|event| shared.tell(event));
                }
                Err(error) => {
                    tracing::error!(%job, error, "a job's plan cannot be read");
                    shared.give_up(job, fence).await;
                }
            }
        });
    }

    fn step(&mut self, event: Event) {
        if let Event::Closed(job, fence) = &event {
            self.transfers.remove(&(*job, *fence));
        }
        for effect in self.reactor.handle(event, self.shared.clock.now()) {
            self.perform(effect);
        }
    }

    /// Has an effect happen, beside the driver if it takes time.
    fn perform(&mut self, effect: Effect) {
        let shared = Arc::clone(&self.shared);
        match effect {
            Effect::Start(order) => beside(async move {
                let answer = shared.executor.start(&order).await;
                let (job, fence) = (order.job, order.fence);
                shared.tell(match answer {
                    // Who waits can try again, and knows better for how long.
                    Err(StartError::Exhausted(why)) if shared.is_ephemeral(job) => {
                        let fault = Fault::new(FaultCode::Unavailable, why);
                        Event::Refused(job, fence, Box::new(fault))
                    }
                    answer => Event::Started(job, fence, answer),
                });
            }),
            Effect::Locate(order) => beside(async move {
                let located = shared.executor.locate(&order).await;
                shared.tell(Event::Located(order.job, order.fence, located));
            }),
            Effect::RecordStart(job, fence, handle) => {
                let at = shared.clock.now();
                self.unrecorded.insert(job, PendingStart { fence, handle, at });
                lock(&shared.resting).forget(job);
            }
            Effect::Observe => self.observe(),
            Effect::Cancel(handle) => beside(async move {
                shared.executor.cancel(&handle).await;
            }),
            Effect::Unclaim(job, fence, shortage) => {
                // Before it can be claimed again.
                let rest = shortage.map(|of| lock(&shared.resting).rest(job, of));
                beside(async move { shared.unclaim(job, fence, rest).await });
            }
            Effect::Judge(order, end) => {
                self.unrecorded.remove(&order.job);
                lock(&shared.resting).forget(order.job);
                beside(async move {
                    let (job, fence) = (order.job, order.fence);
                    let completion = shared.judge(order, end).await;
                    shared.tell(Event::Judged(job, fence, Box::new(completion)));
                });
            }
            Effect::WriteEnd(job, fence, end) => {
                beside(async move { shared.write_end(job, fence, *end).await });
            }
            Effect::Send(shipment, number, progress) => {
                let (job, fence) = (shipment.job, shipment.fence);
                let over = move |sent| Event::Sent(job, fence, number, sent);
                self.moves(job, fence, over, async move {
                    shared.send(&shipment, number, &progress).await
                });
            }
            Effect::Stop(job, fence) => drop(self.transfers.remove(&(job, fence))),
            Effect::Prepare(claim) => {
                let (job, fence) = (claim.id, claim.fence);
                let over = move |made| Event::Prepared(job, fence, made);
                self.moves(job, fence, over, async move { shared.prepare_fetch(&claim).await });
            }
            Effect::Fetch(claim, plan, at, progress) => {
                let (job, fence) = (claim.id, claim.fence);
                let over = move |placed| Event::Fetched(job, fence, at, placed);
                self.moves(job, fence, over, async move {
                    shared.fetch(&claim, &plan, at, &progress).await
                });
            }
            Effect::Arrange(claim, plan, moved) => {
                let (job, fence) = (claim.id, claim.fence);
                let over = move |arrived| Event::Arrived(job, fence, arrived);
                self.moves(
                    job,
                    fence,
                    over,
                    async move { shared.arrange(claim, &plan, moved).await },
                );
            }
            Effect::Queue(claim, arrived) => {
                beside(async move { shared.queue(&claim, *arrived).await });
            }
            Effect::Discard(claim, for_good, end) => {
                let moving = self.transfers.remove(&(claim.id, claim.fence));
                beside(async move {
                    if let Some(mut moving) = moving {
                        moving.shutdown().await;
                    }
                    shared.discard_fetch(claim, for_good, end).await;
                });
            }
        }
    }

    /// Has something move under a claim until it is over, which is an event, or stopped.
    fn moves<T: Send + 'static>(
        &mut self,
        job: JobId,
        fence: u64,
        over: impl Fn(Result<T, Fault>) -> Event + Send + 'static,
        work: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        self.transfers.entry((job, fence)).or_default().spawn(async move {
            let what = "the data was not moved; try again";
            let failed = over(Err(Fault::new(FaultCode::Internal, what)));
            let mut end = TransferEnd { shared, event: Some(failed), over: false };
            let done = work.await;
            end.event = Some(over(done));
            end.over = true;
        });
    }

    /// Records the starts of jobs that still run. Short jobs end before and cost no write; a start
    /// that is not recorded is located by the executor.
    fn record_starts(&mut self) {
        let starts = std::mem::take(&mut self.unrecorded);
        if starts.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        beside(async move {
            let recorded = shared.store.write(false, move |t| {
                for (job, PendingStart { fence, handle, at }) in starts {
                    // Stale if it has ended meanwhile.
                    let _ = t.started(job, fence, &handle, at)?;
                }
                Ok(())
            });
            match recorded.await {
                Ok(()) => shared.notices.notify_one(),
                Err(error) => tracing::warn!(%error, "starts were not recorded"),
            }
        });
    }

    /// One look at a time: of two, the second would find what the first has taken, and search for
    /// it on the disk.
    fn observe(&mut self) {
        if self.observing {
            self.observe_again = true;
            return;
        }
        let observable = self.reactor.observable();
        if !observable.is_empty() {
            self.observing = true;
            self.shared.observe(observable);
        }
    }
}

/// A start that is not recorded yet.
#[derive(Debug)]
pub(super) struct PendingStart {
    fence: u64,
    handle: Handle,
    at: Timestamp,
}

/// Tells how a transfer ended, if it panics, too; but not if it was stopped.
struct TransferEnd {
    shared: Arc<EngineInner>,
    event: Option<Event>,
    over: bool,
}

impl Drop for TransferEnd {
    fn drop(&mut self) {
        if self.over || std::thread::panicking() {
            self.event.take().into_iter().for_each(|event| self.shared.tell(event));
        }
    }
}

/// Removes what a job took when there was no room for others, so that they go on.
async fn give_back(order: &executor::StartOrder, ending: &mut executor::ProgramExit) {
    let (plan, directory) = (Arc::clone(&order.plan), order.directory.clone());
    let strip = move || {
        if let Err(error) = workspace::strip(&plan, &directory) {
            let directory = directory.display();
            tracing::warn!(%directory, %error, "not all that filled the disk was removed");
        }
        workspace::disk_use(&directory)
    };
    let left = tokio::task::spawn_blocking(strip).await;
    if let (Some(collected), Ok(left)) = (&mut ending.collected, left) {
        collected.outputs.clear();
        collected.disk = left;
    }
}

/// Runs something beside the driver. What need not wait is done at once: that is most of what a short
/// call needs, and to have another thread do it takes longer.
fn beside(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    let begin = AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(Waker::noop())));
    // As of a task: what panics takes nobody with it.
    if catch_unwind(begin).is_ok_and(|done| done.is_pending()) {
        tokio::spawn(work);
    }
}

impl EngineInner {
    pub(super) fn tell(&self, event: Event) {
        let _ = self.orders.send(DriverCommand::Event(event));
    }

    /// How a job stands in this process, as far as its record does not tell.
    pub(super) async fn live(&self, job: JobId) -> LiveJob {
        if !self.working.load(Ordering::Relaxed) {
            return LiveJob::default();
        }
        let (tell, told) = oneshot::channel();
        let _ = self.orders.send(DriverCommand::Tell(job, tell));
        told.await.unwrap_or_default()
    }

    /// Puts a job back into the queue: for a while if there was no room for it, meanwhile others may
    /// begin.
    pub(super) async fn unclaim(self: &Arc<Self>, job: JobId, fence: u64, rest: Option<Duration>) {
        if rest.is_none() {
            // Whatever was in the way may need a moment to go.
            tokio::time::sleep(RETRY_START).await;
        }
        let work = || {
            let at = self.clock.now();
            move |t: &mut dyn Transaction| {
                let _ = t.unclaim(job, fence)?;
                // Its end may have been asked for while it was about to be started.
                let record = t.find(job)?;
                let killed =
                    record.is_some_and(|it| it.kill_requested && it.state == JobState::Queued);
                if killed {
                    t.request_kill(job, at)?;
                }
                Ok(killed)
            }
        };
        let killed = self.write_for(job, "a job was not put back", false, work).await;
        self.tell(Event::Closed(job, fence));
        if killed {
            self.tell_dequeued(job).await;
        }
        let _ = self.orders.send(DriverCommand::Claim);
        if let Some(rest) = rest {
            tokio::time::sleep(rest).await;
            let _ = self.orders.send(DriverCommand::Claim);
        }
    }

    /// Tells those who wait for it that a job was killed before it began.
    pub(super) async fn tell_dequeued(&self, job: JobId) {
        lock(&self.plans).take(job);
        lock(&self.resting).forget(job);
        self.tell(Event::KillRequested(job));
        if let Ok(Some(completion)) = self.find(job).await.map(|record| record?.completion) {
            self.announce(job, &CompletedJob { completion: Arc::new(completion), kept: true });
        }
    }

    fn observe(self: &Arc<Self>, observable: Vec<(JobId, u64, Handle)>) {
        let shared = Arc::clone(self);
        beside(async move {
            let handles: Vec<Handle> =
                observable.iter().map(|(.., handle)| handle.clone()).collect();
            let seen = shared.executor.observe(&handles).await;
            for ((job, fence, _), seen) in observable.into_iter().zip(seen) {
                shared.tell(Event::Observed(job, fence, seen));
            }
            let _ = shared.orders.send(DriverCommand::Observed);
        });
    }

    /// A claim of a job that must survive the machine is made durable before it is acted upon, or
    /// a power failure could undo the claim after the start.
    fn confirm(self: &Arc<Self>, claim: Claim, plan: Arc<Plan>, durable: bool) -> Option<Event> {
        if durable || claim.boot.is_some() {
            return Some(Event::Claimed(claim, plan));
        }
        let shared = Arc::clone(self);
        beside(async move {
            let renew = || {
                let (holder, lease) = (shared.holder.clone(), shared.settings.lease);
                move |t: &mut dyn Transaction| t.renew(&holder, lease)
            };
            shared.write_for(claim.id, "a claim was not written", true, renew).await;
            shared.tell(Event::Claimed(claim, plan));
        });
        None
    }

    pub(super) async fn read_plan(&self, job: JobId) -> Result<Plan, String> {
        let directory = self.directory(job);
        let read = self.store.read(move |t| {
            let record = t.plan(job)?;
            Ok(record.map(|record| record::read(&record, &directory)))
        });
        let found = read.await.map_err(|error| error.to_string())?;
        found.ok_or("its record has no plan")?.map_err(|error| error.to_string())
    }

    /// Writes the end of a job, however long it takes, and tells those who wait for it.
    pub(super) async fn write_end(
        self: &Arc<Self>,
        job: JobId,
        fence: u64,
        mut completion: Completion,
    ) {
        completion.note(self.clock.now());
        // A rank whose data could not be fetched was never claimed.
        lock(&self.places).forget(job);
        let completion = Arc::new(completion);
        let deliver = self.delivers_whole(job, &completion);
        let release = deliver.then(|| Release::begin(self));
        let work = || {
            let (written, request) = (Arc::clone(&completion), self.claim_request());
            let directory = self.directory(job);
            move |t: &mut dyn Transaction| {
                let fenced = if deliver {
                    workspace::mark(&directory);
                    let fenced = t.discard(job, fence, &written)?;
                    if fenced == FencedWrite::Stale && t.exists(job)? {
                        // It is another's now.
                        workspace::unmark(&directory);
                    }
                    fenced
                } else {
                    t.conclude(job, fence, &written)?
                };
                Ok((fenced, t.claim(&request())?))
            }
        };
        let what = "the end of a job was not written";
        let ended = CompletedJob { completion: Arc::clone(&completion), kept: !deliver };
        // A caller who has all of it waits for no disk: the removal is on its way, and what they call next
        // comes after it.
        let tell_caller = async {
            if deliver {
                self.announce(job, &ended);
            }
        };
        let ((fenced, claims), ()) =
            tokio::join!(self.write_for(job, what, false, work), tell_caller);
        self.tell(Event::Closed(job, fence));
        if fenced == FencedWrite::Accepted {
            if deliver {
                lock(&self.occupied).forget(job);
                self.free_later(job);
            } else {
                self.announce(job, &ended);
                if let Some(disk) = completion.disk() {
                    lock(&self.occupied).add(job, disk);
                }
            }
        }
        drop(release);
        self.work_on(claims, false);
    }

    /// Writes for a job until it succeeds: a full disk may get room, and nothing is forgotten
    /// meanwhile. `what`: what is told of a failure.
    pub(super) async fn write_for<T, W>(
        &self,
        job: JobId,
        what: &str,
        durable: bool,
        work: impl Fn() -> W,
    ) -> T
    where
        T: Send + 'static,
        W: FnOnce(&mut dyn Transaction) -> Result<T, StoreError> + Send + 'static,
    {
        let mut pause = FIRST_RETRY;
        loop {
            match self.store.write(durable, work()).await {
                Ok(done) => return done,
                Err(error) => tracing::error!(%job, %error, "{what}; trying again"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
    }

    /// Has the driver work on jobs that were claimed, by a transaction that was durable or not.
    pub(super) fn work_on(&self, claims: Vec<Claim>, durable: bool) {
        for claim in claims {
            lock(&self.places).forget(claim.id);
            let _ = self.orders.send(DriverCommand::Claimed { claim, durable });
        }
    }

    /// Has the driver fetch the data of jobs that were claimed for that.
    pub(super) fn fetch_for(&self, claims: Vec<FetchClaim>) {
        for claim in claims {
            let _ = self.orders.send(DriverCommand::Fetch(claim));
        }
    }

    /// Concludes a job that was accepted by a version of ours whose plans this one cannot read.
    pub(super) async fn give_up(self: &Arc<Self>, job: JobId, fence: u64) {
        let why = "the job's plan cannot be read: it was accepted by another version of the server";
        let end = Completion::without_ending(
            JobState::Unknown,
            FaultCode::OutcomeUnknown,
            why,
            self.clock.now(),
        );
        let written = end.clone();
        let conclude = self.store.write(true, move |t| t.conclude(job, fence, &written));
        match conclude.await {
            Ok(_) => self.announce(job, &CompletedJob { completion: Arc::new(end), kept: true }),
            Err(error) => tracing::error!(%job, %error, "the end of a job was not written"),
        }
        let _ = self.orders.send(DriverCommand::Claim);
    }

    async fn judge(&self, order: executor::StartOrder, end: JobEnd) -> Completion {
        let now = self.clock.now();
        match end {
            JobEnd::Without(state, code, why) => Completion::without_ending(state, code, &why, now),
            JobEnd::Refused(fault) => Completion::of_fault(*fault, now),
            JobEnd::Ended(mut ending) => {
                if ending.collected.is_none() {
                    let plan = Arc::clone(&order.plan);
                    let (seen, directory) = ((*ending).clone(), order.directory.clone());
                    let collect = move || workspace::collect(&plan, &directory, &seen);
                    ending.collected = tokio::task::spawn_blocking(collect).await.ok();
                }
                if judge::took_too_much(&ending) {
                    give_back(&order, &mut ending).await;
                }
                judge::judge(&order.plan, *ending, now)
            }
        }
    }

    /// Claims what there is room for.
    fn claim(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let request = self.claim_request();
        beside(async move { shared.claim_with(request).await });
    }

    pub(super) async fn claim_with(&self, request: impl FnOnce() -> ClaimRequest + Send + 'static) {
        match self.store.write(true, move |t| t.claim(&request())).await {
            Ok(claims) => self.work_on(claims, true),
            Err(error) => tracing::error!(%error, "no job could be claimed"),
        }
    }

    /// Once in a while: renews leases, takes over from the dead, sees kill requests of others.
    /// `fetching`: the claims under which data is fetched that may be lost.
    fn look_around(self: &Arc<Self>, fetching: Vec<(JobId, u64)>) {
        let shared = Arc::clone(self);
        beside(async move {
            let me = shared.holder.clone();
            let looked = shared.store.read(move |t| StoreSnapshot::around(t, &me, &fetching)).await;
            let look = match looked {
                Ok(look) => look,
                Err(error) => {
                    tracing::error!(%error, "the job store cannot be read");
                    let _ = shared.orders.send(DriverCommand::Looked { waiting: true });
                    return;
                }
            };
            let PendingJobs { fetching, queued, running } = look.backlog;
            let waiting = fetching + queued + running > 0;
            let _ = shared.orders.send(DriverCommand::Looked { waiting });
            look.events.into_iter().for_each(|event| shared.tell(event));
            let (me, lease) = (shared.holder.clone(), shared.settings.lease);
            if let Err(error) = shared.store.write(false, move |t| t.renew(&me, lease)).await {
                tracing::error!(%error, "leases were not renewed");
            }
            shared.forget_ended_ranks().await;
            if look.to_fetch {
                shared.claim_fetches(shared.fetch_request()).await;
            }
            if queued > 0 || look.others {
                let request = shared.claim_request();
                shared.claim_with(move || ClaimRequest { take_over: true, ..request() }).await;
            }
            shared.write_usage().await;
            shared.housekeeping().await;
        });
    }
}

/// What is seen in the store from time to time.
struct StoreSnapshot {
    backlog: PendingJobs,
    /// There are jobs whose data nobody here fetches.
    to_fetch: bool,
    /// Others hold jobs.
    others: bool,
    /// Kills that other processes asked for, and fetch claims that are lost.
    events: Vec<Event>,
}

impl StoreSnapshot {
    /// `fetching`: the claims under which data is fetched that may be lost.
    fn around(
        t: &mut dyn Transaction,
        me: &str,
        fetching: &[(JobId, u64)],
    ) -> Result<Self, StoreError> {
        let others = t.holders()?.iter().any(|name| name != me);
        let (backlog, held) = (t.backlog()?, t.fetching(me)?);
        let mut events = Vec::new();
        for (job, fence) in fetching {
            if !held.contains(job) {
                let ended = t.find(*job)?.is_none_or(|record| record.state.is_final());
                events.push(Event::FetchLost(*job, *fence, ended));
            }
        }
        events.extend(t.kill_requests(me)?.into_iter().map(Event::KillRequested));
        let to_fetch = backlog.fetching > held.len() as u64;
        Ok(Self { backlog, to_fetch, others, events })
    }
}

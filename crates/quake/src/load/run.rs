//! The clients of an agent together.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinSet, LocalSet, spawn_local, yield_now};
use tokio::time::{sleep, sleep_until, timeout};

use super::arrivals::Schedule;
use super::client::{Client, Ended, Shortage};
use super::log::RequestLog;
use super::plan::LoadPlan;
use super::prepared::Prepared;
use super::tally::{Counts, Tally, UnderWay};
use super::timer::Timer;
use super::tls::TlsError;
use crate::check::CheckerError;
use crate::experiment::{Arrivals, ThinkTime};
use crate::random::{Random, Stream};
use crate::record::{LoadSecond, Outcome, Outcomes};

/// How often the agent looks how late it is.
const HEARTBEAT: Duration = Duration::from_millis(10);
/// A client's pause when it got no connection, or the agent lacked something: who is refused at once would ask as
/// fast as it can, and slow the start of a server.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// After so many requests that are due, those that were begun get their turn.
const BATCH: u32 = 64;

/// How a load ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LoadEnd {
    /// What ended the load.
    pub by: EndedBy,
    /// After the common start, in seconds.
    pub seconds: f64,
    /// Requests begun.
    pub begun: u64,
    /// Requests due and not begun.
    pub held_back: u64,
    /// What became of those that were begun.
    pub outcomes: Outcomes,
}

/// Why a load ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// All requests were made.
    Requests,
    /// Its time was over.
    Duration,
    /// It was told to.
    Stop,
}

/// Why a load could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// An address.
    #[error("{url:?} can't be used: write http://HOST:PORT/PATH or https")]
    Url {
        /// As it was given.
        url: String,
    },
    /// The name of a host.
    #[error("the host {host} is not known")]
    Host {
        /// Its name.
        host: String,
        /// The system's error.
        source: io::Error,
    },
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no such operation.
    #[error("there is no operation {0:?}")]
    Operation(String),
    /// A checker.
    #[error(transparent)]
    Checker(#[from] CheckerError),
    /// The log of requests.
    #[error("cannot write the log of requests")]
    Log(#[source] io::Error),
    /// Threads, timers.
    #[error("this machine lacks what a load needs")]
    System(#[from] io::Error),
}

/// Makes an agent's part of a load, from `start` on, and tells every second of it. `agent` counts from 0 to `agents`.
///
/// It ends when its requests are made, its time is over, `stop` is true or its sender gone, or nobody receives
/// `seconds` any more. Then requests under way have one deadline more. If the future is dropped, it ends at once.
///
/// # Errors
/// What it lacks. What the server does is no error.
pub async fn run(
    plan: LoadPlan,
    agent: u32,
    agents: u32,
    start: Instant,
    mut stop: watch::Receiver<bool>,
    seconds: mpsc::Sender<LoadSecond>,
    log: Option<PathBuf>,
) -> Result<LoadEnd, LoadError> {
    let prepared = Prepared::new(&plan).await?;
    let names: Vec<String> = prepared.operations.iter().map(|it| it.name.clone()).collect();
    let log = log.map(|path| RequestLog::create(&path)).transpose().map_err(LoadError::Log)?;
    let (counted, mut counts) = mpsc::unbounded_channel();
    let (ending, ended) = watch::channel(false);
    let (tell, end) = oneshot::channel();
    let work = move || {
        let load = move || -> Result<LoadEnd, LoadError> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let load = Load::new(plan, prepared, (agent, agents), start, counted, log);
            LocalSet::new().block_on(&runtime, load.run(ended))
        };
        // Who waited may have gone.
        let _ = tell.send(load());
    };
    thread::Builder::new().name("load".to_owned()).spawn(work)?;
    let mut told_to_stop = false;
    loop {
        tokio::select! {
            next = counts.recv() => match next {
                None => break,
                Some(second) => {
                    if seconds.send(second.told(agent, &names)).await.is_err() {
                        ending.send_replace(true);
                    }
                }
            },
            () = stopped(&mut stop), if !told_to_stop => {
                told_to_stop = true;
                ending.send_replace(true);
            }
        }
    }
    end.await.map_err(|_| io::Error::other("the load's thread has ended"))?
}

/// Waits until it is told to stop, or nobody can tell any more.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Both ways it is over.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A load while it runs.
struct Load {
    plan: LoadPlan,
    prepared: Prepared,
    agent: u32,
    agents: u32,
    start: Instant,
    tally: RefCell<Tally>,
    /// No request begins any more.
    closing: Cell<bool>,
    /// How many requests of a closed loop were begun.
    taken: Cell<u64>,
    /// How many clients have something to do.
    busy: Cell<u32>,
    /// Clients of an open loop that have nothing to do, and since when.
    idle: RefCell<VecDeque<(Client, Instant)>>,
    /// A request has ended.
    freed: Notify,
    failure: RefCell<Option<LoadError>>,
    failed: Notify,
}

impl Load {
    fn new(
        plan: LoadPlan,
        prepared: Prepared,
        (agent, agents): (u32, u32),
        start: Instant,
        to: mpsc::UnboundedSender<Counts>,
        log: Option<RequestLog>,
    ) -> Rc<Self> {
        let operations = prepared.operations.len();
        let tally = Tally::new(
            start,
            plan.workload.deadline,
            operations,
            to,
            log,
            plan.limits.named_requests,
        );
        Rc::new(Self {
            plan,
            prepared,
            agent,
            agents: agents.max(1),
            start,
            tally: RefCell::new(tally),
            closing: Cell::new(false),
            taken: Cell::new(0),
            busy: Cell::new(0),
            idle: RefCell::default(),
            freed: Notify::new(),
            failure: RefCell::default(),
            failed: Notify::new(),
        })
    }

    async fn run(self: Rc<Self>, mut stop: watch::Receiver<bool>) -> Result<LoadEnd, LoadError> {
        let timer = Timer::new()?;
        timer.until(self.start).await?;
        spawn_local(Rc::clone(&self).heartbeat(Timer::new()?));
        let mut clients = JoinSet::new();
        let by = {
            let work = async {
                match self.plan.workload.arrivals {
                    Arrivals::Closed => Ok(self.closed(&mut clients).await),
                    _ => self.open(&timer).await,
                }
            };
            let over = async {
                match (&self.plan.workload.arrivals, self.plan.workload.duration) {
                    (Arrivals::Closed, Some(duration)) => {
                        sleep_until((self.start + duration).into()).await;
                    }
                    // An open loop's schedule ends by itself, and all that was due in it is told.
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopped(&mut stop) => EndedBy::Stop,
                () = self.failed.notified() => EndedBy::Stop,
                () = over => EndedBy::Duration,
                done = work => done?,
            }
        };
        self.closing.set(true);
        self.tally.borrow_mut().begins_no_more();
        // Those that are late count as such below.
        let _ = timeout(self.plan.workload.deadline, self.all_ended()).await;
        self.give_up();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let now = Instant::now();
        let mut tally = self.tally.borrow_mut();
        tally.finish(now)?;
        Ok(LoadEnd {
            by,
            seconds: now.saturating_duration_since(self.start).as_secs_f64(),
            begun: tally.begun,
            held_back: tally.held_back,
            outcomes: tally.total,
        })
    }

    /// This agent's clients.
    fn clients(&self) -> Vec<Client> {
        let all = self.agent..self.plan.workload.clients;
        let mine = all.step_by(usize::try_from(self.agents).unwrap_or(usize::MAX));
        let clients: Vec<Client> = mine.map(|number| Client::new(number, &self.prepared)).collect();
        self.tally.borrow_mut().have_clients(clients.len());
        clients
    }

    /// The place of a client among this agent's.
    fn place(&self, client: &Client) -> usize {
        usize::try_from((client.number - self.agent) / self.agents).unwrap_or(usize::MAX)
    }

    /// Every client makes one request after another.
    async fn closed(self: &Rc<Self>, clients: &mut JoinSet<()>) -> EndedBy {
        for client in self.clients() {
            clients.spawn_local(Rc::clone(self).requests_of(client));
        }
        while let Some(ended) = clients.join_next().await {
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
        EndedBy::Requests
    }

    async fn requests_of(self: Rc<Self>, mut client: Client) {
        let mut random = Random::new(self.plan.seed, Stream::Think(client.number));
        let mut due = Instant::now();
        while let Some(number) = self.take() {
            self.take_on();
            let outcome = self.request(&mut client, number, due, due).await;
            self.free();
            if matches!(outcome, None | Some(Outcome::Unreachable)) {
                sleep(PAUSE).await;
            }
            due = Instant::now();
            let pause = pause(&self.plan.workload.think, &mut random);
            if !pause.is_zero() {
                due += pause;
                sleep_until(due.into()).await;
            }
        }
    }

    /// The number of the next request of a closed loop.
    fn take(&self) -> Option<u64> {
        let taken = self.taken.get();
        let number = |taken: u64| taken * u64::from(self.agents) + u64::from(self.agent);
        let is_one = |number| self.plan.workload.requests.is_none_or(|requests| number < requests);
        if self.closing.get() || !is_one(number(taken)) {
            return None;
        }
        self.taken.set(taken + 1);
        if !is_one(number(taken + 1)) {
            self.tally.borrow_mut().begins_no_more();
        }
        Some(number(taken))
    }

    /// Requests begin when they are due, whatever became of others: a client that is idle makes the next one. If none
    /// is, it begins late; if none is for a deadline, it is held back, because no answer to it could be in time.
    async fn open(self: &Rc<Self>, timer: &Timer) -> Result<EndedBy, LoadError> {
        let now = Instant::now();
        self.idle.borrow_mut().extend(self.clients().into_iter().map(|client| (client, now)));
        let workload = &self.plan.workload;
        let mut batch = 0;
        let mut schedule = Schedule::new(workload, self.plan.seed, self.agent, self.agents);
        for arrival in schedule.by_ref() {
            let due = self.start + arrival.at;
            timer.until(due).await?;
            batch = if batch == BATCH {
                yield_now().await;
                0
            } else {
                batch + 1
            };
            match self.idle_client(due + workload.deadline).await {
                None => self.tally.borrow_mut().hold_back(Instant::now(), due),
                Some((mut client, since)) => {
                    let load = Rc::clone(self);
                    load.take_on();
                    spawn_local(async move {
                        load.request(&mut client, arrival.number, due, since.max(due)).await;
                        load.idle.borrow_mut().push_back((client, Instant::now()));
                        load.free();
                    });
                }
            }
        }
        Ok(if schedule.has_made_all() { EndedBy::Requests } else { EndedBy::Duration })
    }

    /// A client that has nothing to do, if there is one before `until`.
    async fn idle_client(&self, until: Instant) -> Option<(Client, Instant)> {
        while Instant::now() < until {
            let idle = self.idle.borrow_mut().pop_front();
            if idle.is_some() {
                return idle;
            }
            // It was freed, or it is too late.
            let _ = timeout(until - Instant::now(), self.freed.notified()).await;
        }
        None
    }

    /// Makes a request that is due at `due`, and could begin at `free`. `None`: it could not be begun.
    async fn request(
        &self,
        client: &mut Client,
        number: u64,
        due: Instant,
        free: Instant,
    ) -> Option<Outcome> {
        let request = self.plan.first + number;
        let mut random = Random::new(self.plan.seed, Stream::Request(request));
        let operation = self.prepared.draw(&mut random);
        let began = Instant::now();
        let place = self.place(client);
        let under_way = UnderWay { request, operation, due, began };
        self.tally.borrow_mut().begin(place, under_way, began.saturating_duration_since(free));
        let performed = client.perform(&self.prepared, operation, request, &mut random).await;
        self.tally.borrow_mut().free(place);
        match performed {
            Ok(ended) => {
                let outcome = ended.outcome;
                let told = self.tally.borrow_mut().end(request, operation, due, &ended);
                if let Err(error) = told {
                    self.fail(error);
                }
                Some(outcome)
            }
            Err(Shortage::Checker(error)) => {
                self.fail(error.into());
                None
            }
            Err(error @ Shortage::Own(_)) => {
                self.tally.borrow_mut().take_back(Instant::now(), &error.to_string());
                None
            }
        }
    }

    fn fail(&self, error: LoadError) {
        self.failure.borrow_mut().get_or_insert(error);
        self.failed.notify_one();
    }

    /// A client has something to do.
    fn take_on(&self) {
        self.busy.set(self.busy.get() + 1);
    }

    /// It has done it.
    fn free(&self) {
        self.busy.set(self.busy.get() - 1);
        self.freed.notify_one();
    }

    /// Waits until no client has anything to do.
    async fn all_ended(&self) {
        while self.busy.get() > 0 {
            self.freed.notified().await;
        }
    }

    /// What is still under way has no answer.
    fn give_up(&self) {
        let now = Instant::now();
        let given_up = self.tally.borrow_mut().give_up();
        for under_way in given_up {
            let ended = Ended {
                outcome: Outcome::Unanswered,
                status: 0,
                began: under_way.began,
                ended: now,
                waited: Duration::ZERO,
                sent: 0,
                received: 0,
                drops_session: false,
                said: None,
            };
            let UnderWay { request, operation, due, .. } = under_way;
            let told = self.tally.borrow_mut().end(request, operation, due, &ended);
            if let Err(error) = told {
                self.fail(error);
            }
        }
    }

    /// Looks again and again how late this thread is, and tells seconds in which nothing happens.
    async fn heartbeat(self: Rc<Self>, timer: Timer) {
        let mut due = Instant::now();
        loop {
            due += HEARTBEAT;
            if timer.until(due).await.is_err() {
                return;
            }
            let now = Instant::now();
            self.tally.borrow_mut().late(now, now.saturating_duration_since(due));
            due = now;
        }
    }
}

fn pause(think: &ThinkTime, random: &mut Random) -> Duration {
    if think.exponential && !think.mean.is_zero() {
        let seconds = random.exponential(think.mean.as_secs_f64());
        Duration::try_from_secs_f64(seconds).unwrap_or(think.mean)
    } else {
        think.mean
    }
}

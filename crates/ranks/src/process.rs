//! An MPI process: a rank of a domain, with its engine and its transport behind one lock.
//!
//! Who waits, drives: a thread that waits for a request carries frames both ways until it is complete. It looks again for
//! a while (`backoff`), then sleeps. With several threads one drives at a time; the others wait for what it completes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::buffer::SendBuffer;
use crate::collective::schedule::Running;
use crate::communicator::Communicator;
use crate::engine::id_hasher::IdMap;
use crate::engine::peer::PeerState;
use crate::engine::{Engine, SendArguments, Status};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::header::{Context, DomainId, Rank, RequestId, Tag};
use crate::matching::Pattern;
use crate::operation::Operation;
use crate::process::backoff::{Backoff, Idle, Pause};
use crate::settings::{Settings, Sites};
use crate::transport::{Transport, Waiter};

mod backoff;
mod requests;
pub(crate) mod status;

pub use status::StatusSink;
pub(crate) use status::WaitFor;

/// See [the module](self).
pub struct Process {
    state: Mutex<State>,
    completed: Condvar,
    waiter: Arc<dyn Waiter>,
    rank: Rank,
    size: u32,
    settings: Settings,
    /// For the contexts of communicators that this process leads.
    contexts: AtomicU32,
    /// Ranks do not agree on `settings.sites`, so nobody goes by them.
    has_no_sites: AtomicBool,
}

/// Which sequence of a communicator's collective operations one belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// That of operations that are waited for at once.
    Blocking,
    /// That of all others.
    NonBlocking,
    /// None: it has its tag already ([`Communicator::reserve_turn`]).
    Reserved(Tag),
}

pub(crate) struct State {
    pub(crate) engine: Engine,
    transport: Box<dyn Transport>,
    running: Vec<Running>,
    /// How many collective operations each communicator has begun here.
    /// The blocking and the others apart: programs that mix their order are wrong, but work with other implementations.
    collectives: IdMap<(Context, Turn), Tag>,
    /// A thread is carrying frames, or is asleep until there are some.
    driven: bool,
    /// Threads that wait for it.
    followers: usize,
    /// Those of them that wait until some time at the latest, for what a transport does.
    timed_followers: usize,
    /// Those of them that were told that something is complete, and have not looked yet.
    woken: usize,
    /// What threads wait for that is no request.
    probes: Vec<Pattern>,
    backoff: Backoff,
    /// When a thread that polls last had others watched.
    watched: Option<Instant>,
    /// Who is told of waits; `None` in a process that nobody launched.
    reports: Option<status::Reports>,
    /// Something happened since it was told.
    changed: bool,
}

/// Looks without the lock, before a thread that spins reads the clock.
const LOOKS: u32 = 32;
/// The processor's own pause takes as long as several looks.
const LOOKS_A_PAUSE: u32 = 8;
/// How often a thread that polls and never sleeps has others watched.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

impl State {
    /// Brings to the transport what the engine has for it, and collective operations forward.
    fn pump(&mut self) {
        loop {
            while let Some(rank) = self.engine.next_disconnect() {
                self.transport.disconnect(rank);
            }
            while let Some(frame) = self.engine.next_frame() {
                self.transport.send(frame, &mut self.engine);
            }
            if !self.advance() {
                return;
            }
        }
    }

    /// Whether a collective operation came forward.
    fn advance(&mut self) -> bool {
        let (engine, transport) = (&mut self.engine, &mut self.transport);
        let mut moved = false;
        self.running.retain_mut(|running| {
            moved |= running.advance(engine, &mut |request| transport.detach(request));
            !running.is_over()
        });
        moved
    }

    fn progress(&mut self) -> bool {
        let moved = self.transport.progress(&mut self.engine);
        self.changed |= moved;
        self.pump();
        moved
    }

    /// The same by a thread that does not sleep, which has to notice deaths too if it goes on so.
    fn poll(&mut self) {
        let now = Instant::now();
        if now - *self.watched.get_or_insert(now) >= WATCH_INTERVAL {
            self.watched = Some(now);
            self.transport.watch();
            self.report_traffic(now);
        }
        self.progress();
    }

    /// Lets a request go: its memory is not used any more.
    pub(crate) fn release(&mut self, request: RequestId) {
        if let Some(at) = self.running.iter().position(|running| running.request == request) {
            let transport = &mut self.transport;
            let running = self.running.swap_remove(at);
            running.abandon(&mut self.engine, &mut |request| transport.detach(request));
        }
        self.engine.release(request);
        self.transport.detach(request);
    }

    /// The next collective operation's tag: the same at all ranks, because they begin them in the same order.
    pub(crate) fn next_collective(&mut self, context: Context, turn: Turn) -> Tag {
        let (first, most) = match turn {
            Turn::Reserved(tag) => return tag,
            Turn::Blocking => (1, Tag::MAX / 2),
            Turn::NonBlocking => (Tag::MAX / 2 + 1, Tag::MAX),
        };
        let next = self.collectives.entry((context, turn)).or_insert(first);
        let tag = *next;
        *next = if tag == most { first } else { tag + 1 };
        tag
    }

    /// Ends a communicator.
    pub(crate) fn remove_context(&mut self, context: Context) {
        self.engine.remove_context(context);
        self.collectives.retain(|(other, _), _| *other != context);
    }

    pub(crate) fn run(&mut self, running: Running) {
        self.running.push(running);
    }
}

impl Process {
    /// Joins a domain as one of its ranks. Every rank has to.
    pub fn join(
        domain: DomainId,
        rank: Rank,
        size: u32,
        transport: Box<dyn Transport>,
        settings: Settings,
    ) -> Result<Arc<Self>> {
        if rank >= size {
            return Err(Error::InvalidRank { rank, size });
        }
        let mut engine = Engine::new(domain, rank, size, &settings);
        for (to, peer) in (0..).zip(&mut engine.peers) {
            peer.eager_limit = transport.eager_limit(to, &settings);
        }
        engine.window =
            settings.unexpected_memory as u64 / u64::from(transport.senders(size)).max(1);
        engine.add_context(Context::WORLD, (0..size).collect());
        engine.add_context(Context::new(rank, 1), [rank].into());
        let waiter = transport.waiter();
        let state = State {
            engine,
            transport,
            running: Vec::new(),
            collectives: IdMap::default(),
            driven: false,
            followers: 0,
            timed_followers: 0,
            woken: 0,
            probes: Vec::new(),
            backoff: Backoff::default(),
            watched: None,
            reports: None,
            changed: false,
        };
        let contexts = AtomicU32::new(2);
        let (state, completed) = (Mutex::new(state), Condvar::new());
        let has_no_sites = AtomicBool::new(false);
        Ok(Arc::new(Self {
            state,
            completed,
            waiter,
            rank,
            size,
            settings,
            contexts,
            has_no_sites,
        }))
    }

    /// The communicator of all ranks (`MPI_COMM_WORLD`).
    pub fn world(self: &Arc<Self>) -> Communicator {
        Communicator::new(self.clone(), Context::WORLD, Group::of((0..self.size).collect()))
    }

    /// The communicator of this rank alone (`MPI_COMM_SELF`).
    pub fn alone(self: &Arc<Self>) -> Communicator {
        Communicator::new(self.clone(), Context::new(self.rank, 1), Group::of([self.rank].into()))
    }

    /// The domain.
    pub fn domain(&self) -> DomainId {
        self.lock().engine.domain
    }

    /// Connects to all others, who do the same. From then on what is sent is on its way when the call that sends it returns,
    /// though its caller passes no messages for long: no connection has to be greeted first. Who is out of reach
    /// is waited for no longer than `peer_timeout`.
    ///
    /// # Errors
    /// Another one speaks another version.
    pub fn connect(&self) -> Result<()> {
        let until = Instant::now() + self.settings.peer_timeout;
        let (mut watched, mut refusal) = (false, None);
        self.wait_for(WaitFor::Pending, Some(until), |state| {
            refusal = state.transport.refusal();
            let over =
                refusal.is_some() || state.transport.is_connected() || Instant::now() >= until;
            if !over && !watched {
                watched = true;
                state.transport.watch();
            }
            over.then_some(())
        });
        match refusal {
            Some((rank, why)) => Err(Error::Join { problem: format!("rank {rank}: {why}") }),
            None => Ok(()),
        }
    }

    /// This process's rank in the domain.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// What it was told when it joined.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Has communicators that are made from now on go by the ranks' sites only if all ranks know the same partition: each may have been told
    /// other addresses, and collective operations of ranks that differ would wait for ever. All ranks call it.
    pub fn agree_on_sites(self: &Arc<Self>) {
        self.has_no_sites.store(true, Ordering::Relaxed);
        let Sites { of_ranks, are_near } = &self.settings.sites;
        let of = |rank| of_ranks.get(rank).copied().unwrap_or_default();
        let known = (0..self.size as usize).map(of).chain([u32::from(*are_near)]);
        // The greatest of each number, and of its complement: the least.
        let mine: Vec<u32> = known.clone().chain(known.map(|known| !known)).collect();
        let mut most = vec![0; mine.len()];
        let agreed = self.world().allreduce(&mine, &mut most, &Operation::max::<u32>()).run();
        let (greatest, least) = most.split_at(most.len() / 2);
        let is_same = greatest.iter().zip(least).all(|(greatest, least)| *greatest == !least);
        self.has_no_sites.store(agreed.is_err() || !is_same, Ordering::Relaxed);
        self.lock().engine.forget_traffic();
    }

    /// Where the ranks of the domain are, if all know the same.
    pub(crate) fn sites(&self) -> Option<&Sites> {
        (!self.has_no_sites.load(Ordering::Relaxed)).then_some(&self.settings.sites)
    }

    /// Ranks that are known to have failed.
    pub fn failed(&self) -> Vec<Rank> {
        let state = self.lock();
        (0..self.size).filter(|&rank| state.engine.peer_state(rank) == PeerState::Failed).collect()
    }

    /// Carries what can be carried now. Whoever computes for long between calls lets others wait less by it.
    pub fn progress(&self) {
        self.with(State::poll);
    }

    /// Leaves the domain in order (`MPI_Finalize`). What was sent has arrived before, or its receivers are gone: who is out of reach for
    /// longer than `peer_timeout`. Who is silent for so long need not say that it knows of our leave.
    pub fn leave(&self) {
        self.wait_until(WaitFor::Leave, |state| state.engine.is_drained().then_some(()));
        self.with(|state| state.engine.announce_leave());
        let until = Instant::now() + self.settings.peer_timeout;
        self.wait_for(WaitFor::Leave, Some(until), |state| {
            (state.transport.is_flushed() || Instant::now() >= until).then_some(())
        });
        self.wait_until(WaitFor::Leave, |state| state.transport.is_written().then_some(()));
        self.with(State::end_reports);
    }

    pub(crate) fn next_context(&self) -> u32 {
        self.contexts.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something, and brings it on its way.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        self.with_then(act, |_, value| value)
    }

    /// Begins a send.
    pub(crate) fn send(&self, arguments: SendArguments, buffer: SendBuffer) -> RequestId {
        self.with_then(
            |state| state.engine.send(arguments, buffer),
            |state, request| {
                // Who waits for it needs no lock then.
                let done = request.is_at_once() && state.engine.is_complete(request);
                if done { RequestId::DONE } else { request }
            },
        )
    }

    /// Does something, brings it on its way, and then asks what became of it.
    fn with_then<T, U>(
        &self,
        act: impl FnOnce(&mut State) -> T,
        then: impl FnOnce(&State, T) -> U,
    ) -> U {
        let mut state = self.lock();
        let before = state.engine.events();
        let deadline = state.driven.then(|| state.transport.deadline());
        let value = act(&mut state);
        state.changed = true;
        state.pump();
        let happened = state.engine.events() != before;
        if happened {
            self.tell(&mut state);
        }
        // Who sleeps may have to be up sooner now: a connection broke that only we noticed.
        if state.driven && (happened || deadline != Some(state.transport.deadline())) {
            self.waiter.wake();
        }
        then(&state, value)
    }

    /// Tells threads that wait for the driving one that something happened.
    fn tell(&self, state: &mut State) {
        if state.followers > 0 {
            state.woken = state.followers;
            self.completed.notify_all();
        }
    }

    /// Waits until a request is complete, and takes its outcome (`MPI_Wait`). Ranks are the domain's
    /// ([`Status::within`]).
    pub fn wait(&self, request: RequestId) -> Result<Status> {
        if request == RequestId::DONE {
            return Ok(Status::EMPTY);
        }
        self.wait_until(WaitFor::Request(request), |state| state.engine.take_outcome(request))
    }

    /// Carries frames until `ready` gives something.
    pub(crate) fn wait_until<T>(
        &self,
        wait: WaitFor<'_>,
        ready: impl FnMut(&mut State) -> Option<T>,
    ) -> T {
        self.wait_for(wait, None, ready)
    }

    fn wait_for<T>(
        &self,
        wait: WaitFor<'_>,
        until: Option<Instant>,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> T {
        let mut state = self.lock();
        state.begin_wait(wait);
        let mut follows = false;
        let mut idle = Idle::default();
        let mut since = None;
        let value = loop {
            if let Some(value) = ready(&mut state) {
                break value;
            }
            if state.driven {
                // Who sleeps tells what this thread waits for, too.
                if !std::mem::replace(&mut follows, true) && state.is_outdated() {
                    self.waiter.wake();
                }
                state.followers += 1;
                state = match until {
                    None => self.completed.wait(state).unwrap_or_else(PoisonError::into_inner),
                    Some(until) => {
                        let left = until.saturating_duration_since(Instant::now());
                        state.timed_followers += 1;
                        let woken = self.completed.wait_timeout(state, left);
                        let (mut state, _) = woken.unwrap_or_else(PoisonError::into_inner);
                        state.timed_followers -= 1;
                        state
                    }
                };
                state.followers -= 1;
                state.woken = state.woken.saturating_sub(1);
                continue;
            }
            let before = state.engine.events();
            let moved = state.progress();
            // By the clock too a rank may be found to have failed.
            if moved || state.engine.events() != before {
                self.tell(&mut state);
            }
            if moved {
                state.backoff.ended(&mut idle);
            }
            if let Some(value) = ready(&mut state) {
                break value;
            }
            if moved {
                // Others may have something to send.
                drop(state);
                state = self.lock();
                continue;
            }
            let now = Instant::now();
            let report = state.report(wait, *since.get_or_insert(now), now);
            state.driven = true;
            let pause = state.backoff.pause(&mut idle, now, self.settings.spin);
            if pause == Pause::Sleep {
                state.transport.watch();
                let deadline =
                    [state.transport.deadline(), until, report].into_iter().flatten().min();
                drop(state);
                self.waiter.wait(deadline.map(|deadline| deadline.saturating_duration_since(now)));
            } else {
                drop(state);
                match pause {
                    Pause::Yield => std::thread::yield_now(),
                    _ => self.spin(),
                }
            }
            // Before the lock, which somebody may have for long.
            let back = (pause == Pause::Yield).then(Instant::now);
            state = self.lock();
            if let Some(back) = back {
                state.backoff.yielded(&mut idle, back, back - now);
            }
            state.driven = false;
            if pause == Pause::Sleep && state.timed_followers > 0 {
                // What a transport has written or connected is no event.
                self.completed.notify_all();
            }
        };
        state.end_wait(wait);
        if !state.driven && state.followers > 0 {
            // One of those who wait for this thread goes on in its place.
            self.completed.notify_one();
        }
        value
    }

    /// Until there may be something to do, or the clock is to be read.
    fn spin(&self) {
        for look in 0..LOOKS {
            if look % LOOKS_A_PAUSE == 0 {
                std::hint::spin_loop();
            }
            if !self.waiter.is_idle() {
                return;
            }
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// How long a rank that fails may stay unnoticed by ranks that wait: `peer_timeout` until its connection is known to be
/// broken, and as long until it is given up.
pub fn failure_bound(settings: &Settings) -> Duration {
    settings.peer_timeout * 2
}

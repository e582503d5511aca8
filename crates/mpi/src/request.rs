//! Requests (MPI 5.0, 3.7, 3.9 and 13.2): what is under way, and waiting for it.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fishplate_ranks as ranks;
use ranks::Process;
use ranks::header::RequestId;
use ranks::process::Turn;

use crate::arguments::{Integer, List, Out};
use crate::buffer::{Bytes, Landing};
use crate::communicator::CommObject;
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Error, Result, error, returned};
use crate::handle::{COMM_SELF, Comm, Request};
use crate::status::Status;

/// What begins an operation, as often as it is called.
pub(crate) trait Plan: Fn(Turn) -> Result<Pending> + Send + Sync + 'static {}

impl<F: Fn(Turn) -> Result<Pending> + Send + Sync + 'static> Plan for F {}

/// What is done when an operation is over, and gives its status.
pub(crate) type Finish = Box<dyn FnOnce(ranks::Result<ranks::Status>) -> Result<Status> + Send>;

/// What becomes of an operation's outcome.
enum Outcome {
    /// Nothing but its status is wanted.
    Status,
    /// A message was received in this communicator.
    Received(Option<Landing>),
    /// Something else.
    Other(Finish),
}

/// An operation under way: it is over when all of its requests are complete. The first one has its status.
pub(crate) struct Pending {
    owner: Owner,
    first: Option<RequestId>,
    /// Nearly always none, and no memory is taken for them.
    others: Vec<RequestId>,
    /// Memory that a request uses.
    kept: Option<Bytes>,
    outcome: Outcome,
}

/// Whose an operation is.
#[derive(Clone)]
enum Owner {
    /// A communicator's: one that the program frees lives on until it is over (MPI 5.0, 7.4.3).
    Communicator(Arc<CommObject>),
    Process(Arc<Process>),
}

impl Owner {
    fn process(&self) -> &Process {
        match self {
            Self::Communicator(comm) => comm.process(),
            Self::Process(process) => process,
        }
    }
}

impl Pending {
    /// One whose status says nothing.
    pub(crate) fn new(process: &Arc<Process>, request: RequestId) -> Self {
        Self { first: Some(request), ..Self::done(process) }
    }

    /// The same in a communicator.
    pub(crate) fn on(comm: &Arc<CommObject>, request: RequestId) -> Self {
        Self::of(Owner::Communicator(comm.clone()), Some(request))
    }

    /// One that is over already.
    pub(crate) fn done(process: &Arc<Process>) -> Self {
        Self::of(Owner::Process(process.clone()), None)
    }

    fn of(owner: Owner, first: Option<RequestId>) -> Self {
        Self { owner, first, others: Vec::new(), kept: None, outcome: Outcome::Status }
    }

    /// A receive.
    pub(crate) fn receive(mut self, landing: Option<Landing>) -> Self {
        self.outcome = Outcome::Received(landing);
        self
    }

    /// With something to be done at the end.
    pub(crate) fn then(
        mut self,
        finish: impl FnOnce(ranks::Result<ranks::Status>) -> Result<Status> + Send + 'static,
    ) -> Self {
        self.outcome = Outcome::Other(Box::new(finish));
        self
    }

    /// With memory of ours that has to live until it is over.
    pub(crate) fn keeping(mut self, bytes: Bytes) -> Self {
        self.kept = Some(bytes);
        self
    }

    /// With another request, which has to be complete too.
    pub(crate) fn and(mut self, request: RequestId) -> Self {
        self.others.push(request);
        self
    }

    fn requests(&self) -> impl Iterator<Item = RequestId> {
        self.first.iter().chain(&self.others).copied()
    }

    fn is_over(&self, is_complete: &dyn Fn(RequestId) -> bool) -> bool {
        self.requests().all(is_complete)
    }

    /// Waits until it is over.
    pub(crate) fn wait(self) -> Result<Status> {
        if let Some(request) = self.first.filter(|_| self.others.is_empty()) {
            let result = self.owner.process().wait(request);
            return self.outcome.finish(&self.owner, result);
        }
        self.owner.process().wait_for_requests(|is_complete| self.is_over(is_complete));
        self.take()
    }

    /// The end of one that is over.
    fn take(self) -> Result<Status> {
        let mut first = Ok(ranks::Status::EMPTY);
        for (at, request) in self.requests().enumerate() {
            let result = self.owner.process().wait(request);
            if at == 0 || (result.is_err() && first.is_ok()) {
                first = result;
            }
        }
        self.outcome.finish(&self.owner, first)
    }
}

impl Outcome {
    fn finish(self, owner: &Owner, result: ranks::Result<ranks::Status>) -> Result<Status> {
        match (self, owner) {
            (Self::Other(finish), _) => finish(result),
            (Self::Received(landing), Owner::Communicator(comm)) => {
                let group = comm.group();
                let status = result.map_err(|error| Error::of_receive(error, group))?.within(group);
                if let Some(landing) = landing {
                    landing.finish(status.length);
                }
                Ok(Status::of(status))
            }
            (Self::Status | Self::Received(_), _) => Ok(Status::of(result?)),
        }
    }
}

/// What a request's handle stands for.
pub(crate) struct RequestObject {
    /// With what its errors are raised.
    comm: Comm,
    state: Mutex<State>,
    kind: Kind,
}

#[derive(Default)]
struct State {
    pending: Option<Pending>,
    /// What was found by asking for the status.
    outcome: Option<Result<Status>>,
    /// What a generalized request still waits for.
    lives_for: LivesFor,
}

/// A generalized request that is freed lives on until it is complete (MPI 5.0, 13.2).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LivesFor {
    #[default]
    Both,
    /// The program has freed it.
    Completion,
    /// It is complete.
    Release,
}

enum Kind {
    Once,
    Persistent(Box<dyn Plan>),
    Generalized(Generalized),
    Partitioned(crate::point_to_point::Partitioned),
}

/// An operation of a program's own (MPI 5.0, 13.2).
#[derive(Clone, Copy)]
struct Generalized {
    request: RequestId,
    query: Option<unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int>,
    free: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    cancel: Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>,
    extra: crate::arguments::Opaque,
}

impl RequestObject {
    fn with(comm: Comm, kind: Kind, pending: Option<Pending>) -> Request {
        Request::new(Self { comm, kind, state: Mutex::new(State { pending, ..State::default() }) })
    }

    /// A request for an operation that was begun.
    pub(crate) fn start(comm: Comm, pending: Pending) -> Request {
        Self::with(comm, Kind::Once, Some(pending))
    }

    /// One for an operation that is begun part by part.
    pub(crate) fn partitioned(
        comm: Comm,
        partitioned: crate::point_to_point::Partitioned,
    ) -> Request {
        Self::with(comm, Kind::Partitioned(partitioned), None)
    }

    /// The parts.
    pub(crate) fn parts(&self) -> Result<&crate::point_to_point::Partitioned> {
        match &self.kind {
            Kind::Partitioned(partitioned) => Ok(partitioned),
            _ => Err(error(MPI_ERR_REQUEST, "this request has no partitions")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request to what is under way, and what it uses.
    pub(crate) fn add(&self, request: RequestId, bytes: Bytes) {
        if let Some(pending) = &mut self.lock().pending {
            pending.others.push(request);
            pending.kept = Some(bytes);
        }
    }

    fn is_persistent(&self) -> bool {
        matches!(self.kind, Kind::Persistent(_) | Kind::Partitioned(_))
    }

    fn is_active(&self) -> bool {
        let state = self.lock();
        state.pending.is_some() || state.outcome.is_some()
    }

    pub(crate) fn is_over(&self, is_complete: &dyn Fn(RequestId) -> bool) -> bool {
        let state = self.lock();
        state.outcome.is_some()
            || state.pending.as_ref().is_none_or(|pending| pending.is_over(is_complete))
    }

    /// The outcome of one that is over, which is forgotten; empty if it was not active.
    fn take(&self) -> Result<Status> {
        let (outcome, pending) = {
            let mut state = self.lock();
            (state.outcome.take(), state.pending.take())
        };
        match (outcome, pending) {
            (Some(outcome), _) => outcome,
            (None, Some(pending)) => pending.take(),
            (None, None) => Ok(Status::EMPTY),
        }
    }

    /// The same, and it is kept.
    fn peek(&self) -> Result<Status> {
        if !self.is_active() {
            return Ok(Status::EMPTY);
        }
        let outcome = self.take();
        self.lock().outcome = Some(outcome.clone());
        outcome
    }

    /// Ends the handle of one that is over, unless it can be started again.
    fn end(&self, place: Out<Request>) -> Result<()> {
        if self.is_persistent() {
            return Ok(());
        }
        let handle = place.get()?;
        place.set(Request::NULL)?;
        handle.remove()?;
        self.free()
    }

    /// The program has freed it, or it is complete: whether both are so now. Others than generalized ones need not be complete.
    fn has_ended(&self, now_for: LivesFor) -> bool {
        let is_generalized = matches!(self.kind, Kind::Generalized(_));
        let before = std::mem::replace(&mut self.lock().lives_for, now_for);
        !is_generalized || ![LivesFor::Both, now_for].contains(&before)
    }

    /// The program has let it go: what is under way goes on, but nobody asks how a generalized one went.
    fn release(&self) -> Result<()> {
        let pending = self.lock().pending.take();
        match (pending, &self.kind) {
            (Some(pending), Kind::Generalized(generalized)) => {
                pending.owner.process().release(generalized.request);
            }
            (Some(pending), _) => adopt(pending),
            (None, _) => {}
        }
        self.free()
    }

    fn free(&self) -> Result<()> {
        if let Kind::Generalized(Generalized { free: Some(free), extra, .. }) = &self.kind {
            // SAFETY: the program gave us the function and its argument.
            returned(unsafe { free(extra.0) })?;
        }
        Ok(())
    }

    fn begin(&self) -> Result<()> {
        if self.is_active() {
            return Err(self.blamed(error(
                MPI_ERR_REQUEST,
                "the request is active: wait for it before it is started again",
            )));
        }
        let pending = match &self.kind {
            Kind::Persistent(plan) => plan(Turn::NonBlocking),
            Kind::Partitioned(partitioned) => partitioned.begin(),
            _ => return Err(self.blamed(error(MPI_ERR_REQUEST, "the request is not persistent"))),
        };
        self.lock().pending = Some(pending.map_err(|error| self.blamed(error))?);
        Ok(())
    }

    fn blamed(&self, error: Error) -> Error {
        error.on(self.comm)
    }
}

/// Runs an operation to its end.
pub(crate) fn run(plan: impl Plan) -> Result<()> {
    plan(Turn::Blocking)?.wait().map(|_| ())
}

/// Begins one.
pub(crate) fn start(comm: Comm, plan: impl Plan, request: Out<Request>) -> Result<()> {
    request.set(RequestObject::start(comm, plan(Turn::NonBlocking)?))
}

/// Keeps one, to be begun as often as the program likes.
pub(crate) fn prepare(comm: Comm, plan: impl Plan, request: Out<Request>) -> Result<()> {
    request.set(RequestObject::with(comm, Kind::Persistent(Box::new(plan)), None))
}

/// The same for a collective operation: which of all ranks' starts belong together follows from the order of these calls.
pub(crate) fn prepare_collective(comm: Comm, plan: impl Plan, request: Out<Request>) -> Result<()> {
    let turn = comm.get()?.reserve_turn();
    prepare(comm, move |_| plan(turn), request)
}

/// Operations whose requests were freed: they go on.
struct Orphans {
    pending: Vec<Pending>,
    /// When there are so many, those that are over are let go.
    most: usize,
}

impl Orphans {
    /// Below so many nobody looks.
    const FEW: usize = 16;
}

fn orphans() -> MutexGuard<'static, Orphans> {
    static ORPHANS: Mutex<Orphans> =
        Mutex::new(Orphans { pending: Vec::new(), most: Orphans::FEW });
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what goes on; nobody is told how it went.
fn adopt(pending: Pending) {
    let owner = pending.owner.clone();
    let mut orphans = orphans();
    orphans.pending.push(pending);
    if orphans.pending.len() < orphans.most {
        return;
    }
    let is_over = |pending: &Pending| {
        owner.process().test_requests(|is_complete| pending.is_over(is_complete))
    };
    let (over, rest): (Vec<_>, Vec<_>) =
        std::mem::take(&mut orphans.pending).into_iter().partition(is_over);
    orphans.most = Orphans::FEW.max(2 * rest.len());
    orphans.pending = rest;
    drop(orphans);
    for pending in over {
        let _ = pending.take();
    }
}

/// Waits for operations whose requests were freed.
pub(crate) fn finish_orphans() {
    for pending in std::mem::take(&mut orphans().pending) {
        let _ = pending.wait();
    }
}

/// The requests of a list; null ones have none.
struct Requests {
    places: Out<Request>,
    objects: Vec<Option<Arc<RequestObject>>>,
}

impl Requests {
    fn new(count: usize, places: Out<Request>) -> Result<Self> {
        let objects = (0..count).map(|at| {
            let handle = places.at(at).get()?;
            if handle == Request::NULL { Ok(None) } else { handle.get().map(Some) }
        });
        Ok(Self { places, objects: objects.collect::<Result<_>>()? })
    }

    fn read(count: c_int, list: List<Request>) -> Result<Self> {
        Self::new(count.count()?, Out::of_list(list))
    }

    fn active(&self) -> impl Iterator<Item = (usize, &Arc<RequestObject>)> {
        let objects = self.objects.iter().enumerate();
        objects
            .filter_map(|(at, object)| Some((at, object.as_ref()?)))
            .filter(|(_, object)| object.is_active())
    }

    fn any_over(&self, is_complete: &dyn Fn(RequestId) -> bool) -> bool {
        self.active().any(|(_, object)| object.is_over(is_complete))
    }

    fn all_over(&self, is_complete: &dyn Fn(RequestId) -> bool) -> bool {
        self.active().all(|(_, object)| object.is_over(is_complete))
    }

    fn wait(&self, over: impl Fn(&Self, &dyn Fn(RequestId) -> bool) -> bool) -> Result<()> {
        if self.active().next().is_some() {
            crate::environment::process()?.wait_for_requests(|is_complete| over(self, is_complete));
        }
        Ok(())
    }

    /// Looks once, after what can be done now.
    fn test(&self, over: impl Fn(&Self, &dyn Fn(RequestId) -> bool) -> bool) -> Result<bool> {
        if self.active().next().is_none() {
            return Ok(over(self, &|_| true));
        }
        Ok(crate::environment::process()?.test_requests(|is_complete| over(self, is_complete)))
    }

    /// Those that are over.
    fn over(&self) -> Result<Vec<usize>> {
        let found = Mutex::new(Vec::new());
        self.test(|requests, is_complete| {
            let over = requests.active().filter(|(_, object)| object.is_over(is_complete));
            *found.lock().unwrap_or_else(PoisonError::into_inner) =
                over.map(|(at, _)| at).collect();
            true
        })?;
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// The outcome of one that is over, whose handle ends.
    fn take(&self, at: usize) -> Result<Status> {
        let Some(object) = &self.objects[at] else { return Ok(Status::EMPTY) };
        let outcome = object.take();
        let ended = object.end(self.places.at(at));
        outcome.and_then(|status| ended.map(|()| status)).map_err(|error| object.blamed(error))
    }

    /// The outcomes of several that are over. If one failed, all tell how they went (MPI 5.0, 3.7.5).
    fn take_all(
        &self,
        which: &[usize],
        statuses: Out<Status>,
        get: impl Fn(&Self, usize) -> Result<Status>,
    ) -> Result<()> {
        let mut failed = None;
        let mut outcomes = Vec::new();
        for &at in which {
            outcomes.push(get(self, at));
        }
        for outcome in &outcomes {
            if let Err(error) = outcome {
                failed.get_or_insert_with(|| error.clone());
            }
        }
        for (at, outcome) in outcomes.iter().enumerate() {
            let of_error = |error: &Error| error.status.unwrap_or(Status::EMPTY);
            let mut status = outcome.as_ref().map_or_else(of_error, |status| *status);
            if failed.is_some() {
                status.error =
                    outcome.as_ref().map_or_else(|error| error.code("a request"), |_| MPI_SUCCESS);
                statuses.at(at).set_if(status);
            } else {
                statuses.at(at).put(&status);
            }
        }
        match failed {
            None => Ok(()),
            Some(cause) => {
                Err(Error { comm: cause.comm, ..error(MPI_ERR_IN_STATUS, cause.message) })
            }
        }
    }

    fn everyone(&self) -> Vec<usize> {
        (0..self.objects.len()).collect()
    }

    fn peek(&self, at: usize) -> Result<Status> {
        let Some(object) = &self.objects[at] else { return Ok(Status::EMPTY) };
        object.peek().map_err(|error| object.blamed(error))
    }
}

fn index(at: Option<usize>) -> c_int {
    at.and_then(|at| c_int::try_from(at).ok()).unwrap_or(MPI_UNDEFINED)
}

fn set_some(
    requests: &Requests,
    found: &[usize],
    count: Out<c_int>,
    indices: Out<c_int>,
    statuses: Out<Status>,
    get: impl Fn(&Requests, usize) -> Result<Status>,
) -> Result<()> {
    count.set(if requests.active().next().is_none() {
        MPI_UNDEFINED
    } else {
        index(Some(found.len()))
    })?;
    indices.set_all(found.iter().map(|at| index(Some(*at))))?;
    requests.take_all(found, statuses, get)
}

entries! {
    fn Wait(place: Out<Request>, status: Out<Status>) on () => {
        let requests = Requests::new(1, place)?;
        requests.wait(Requests::any_over)?;
        status.put(&requests.take(0)?);
        Ok(())
    }
    fn Test(place: Out<Request>, flag: Out<c_int>, status: Out<Status>) on () => {
        let requests = Requests::new(1, place)?;
        let over = requests.test(Requests::all_over)?;
        flag.set_flag(over)?;
        if over {
            status.put(&requests.take(0)?);
        }
        Ok(())
    }
    fn Waitall(count: c_int, places: Out<Request>, statuses: Out<Status>) on () => {
        let requests = Requests::new(count.count()?, places)?;
        requests.wait(Requests::all_over)?;
        requests.take_all(&requests.everyone(), statuses, Requests::take)
    }
    fn Testall(count: c_int, places: Out<Request>, flag: Out<c_int>, statuses: Out<Status>) on () => {
        let requests = Requests::new(count.count()?, places)?;
        let over = requests.test(Requests::all_over)?;
        flag.set_flag(over)?;
        if over { requests.take_all(&requests.everyone(), statuses, Requests::take) } else { Ok(()) }
    }
    fn Waitany(count: c_int, places: Out<Request>, which: Out<c_int>, status: Out<Status>) on () => {
        let requests = Requests::new(count.count()?, places)?;
        requests.wait(Requests::any_over)?;
        let found = requests.over()?.first().copied();
        which.set(index(found))?;
        status.put(&found.map_or(Ok(Status::EMPTY), |at| requests.take(at))?);
        Ok(())
    }
    fn Testany(count: c_int, places: Out<Request>, which: Out<c_int>, flag: Out<c_int>, status: Out<Status>) on () => {
        let requests = Requests::new(count.count()?, places)?;
        let none = requests.active().next().is_none();
        let found = requests.over()?.first().copied();
        which.set(index(found))?;
        flag.set_flag(none || found.is_some())?;
        if none || found.is_some() {
            status.put(&found.map_or(Ok(Status::EMPTY), |at| requests.take(at))?);
        }
        Ok(())
    }
    fn Waitsome(
        count: c_int, places: Out<Request>, found: Out<c_int>, indices: Out<c_int>, statuses: Out<Status>,
    ) on () => {
        let requests = Requests::new(count.count()?, places)?;
        requests.wait(Requests::any_over)?;
        set_some(&requests, &requests.over()?, found, indices, statuses, Requests::take)
    }
    fn Testsome(
        count: c_int, places: Out<Request>, found: Out<c_int>, indices: Out<c_int>, statuses: Out<Status>,
    ) on () => {
        let requests = Requests::new(count.count()?, places)?;
        set_some(&requests, &requests.over()?, found, indices, statuses, Requests::take)
    }
    fn Request_get_status(request: Request, flag: Out<c_int>, status: Out<Status>) on () => {
        let mut request = request;
        let requests = Requests::new(1, Out::to(&mut request))?;
        let over = requests.test(Requests::all_over)?;
        flag.set_flag(over)?;
        if over {
            status.put(&requests.peek(0)?);
        }
        Ok(())
    }
    fn Request_get_status_all(count: c_int, list: List<Request>, flag: Out<c_int>, statuses: Out<Status>) on () => {
        let requests = Requests::read(count, list)?;
        let over = requests.test(Requests::all_over)?;
        flag.set_flag(over)?;
        if over { requests.take_all(&requests.everyone(), statuses, Requests::peek) } else { Ok(()) }
    }
    fn Request_get_status_any(
        count: c_int, list: List<Request>, which: Out<c_int>, flag: Out<c_int>, status: Out<Status>,
    ) on () => {
        let requests = Requests::read(count, list)?;
        let none = requests.active().next().is_none();
        let found = requests.over()?.first().copied();
        which.set(index(found))?;
        flag.set_flag(none || found.is_some())?;
        if none || found.is_some() {
            status.put(&found.map_or(Ok(Status::EMPTY), |at| requests.peek(at))?);
        }
        Ok(())
    }
    fn Request_get_status_some(
        count: c_int, list: List<Request>, found: Out<c_int>, indices: Out<c_int>, statuses: Out<Status>,
    ) on () => {
        let requests = Requests::read(count, list)?;
        set_some(&requests, &requests.over()?, found, indices, statuses, Requests::peek)
    }
    fn Request_free(place: Out<Request>) on () => {
        let handle = place.get()?;
        let object = handle.get()?;
        place.set(Request::NULL)?;
        if object.has_ended(LivesFor::Completion) {
            handle.remove()?;
            object.release()?;
        }
        Ok(())
    }
    fn Cancel(place: Out<Request>) on () => {
        let object = place.get()?.get()?;
        if let Kind::Generalized(generalized) = &object.kind {
            if let Some(cancel) = generalized.cancel {
                let complete = crate::environment::process()?.peek(generalized.request).is_some()
                    || object.lock().outcome.is_some();
                // SAFETY: the program gave us the function and its argument.
                returned(unsafe { cancel(generalized.extra.0, c_int::from(complete)) })?;
            }
            return Ok(());
        }
        // Not with the lock: who waits has the process's when it asks for this one.
        let active = object.lock().pending.as_ref().map(|pending| (pending.owner.clone(), pending.requests().collect::<Vec<_>>()));
        if let Some((owner, requests)) = active {
            requests.into_iter().for_each(|request| owner.process().cancel(request));
        }
        Ok(())
    }
    fn Start(place: Out<Request>) on () => {
        place.get()?.get()?.begin()
    }
    fn Startall(count: c_int, places: Out<Request>) on () => {
        (0..count.count()?).try_for_each(|at| places.at(at).get()?.get()?.begin())
    }
    fn Grequest_start(
        query: Option<unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int>,
        free: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        cancel: Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>,
        extra: crate::arguments::Opaque, place: Out<Request>,
    ) on () => {
        let process = crate::environment::process()?;
        let request = process.start_generalized();
        let generalized = Generalized { request, query, free, cancel, extra };
        let pending = Pending::new(&process, request).then(move |result| {
            result?;
            let mut status = Status::EMPTY;
            let Generalized { query, extra, .. } = generalized;
            if let Some(query) = query {
                // SAFETY: the program gave us the function and its argument; the status lives here.
                returned(unsafe { query(extra.0, &raw mut status) })?;
            }
            Ok(status)
        });
        place.set(RequestObject::with(COMM_SELF, Kind::Generalized(generalized), Some(pending)))
    }
    fn Grequest_complete(request: Request) on () => {
        let object = request.get()?;
        let Kind::Generalized(generalized) = &object.kind else {
            return Err(error(MPI_ERR_REQUEST, "the request is not generalized"));
        };
        crate::environment::process()?.complete_generalized(generalized.request);
        if object.has_ended(LivesFor::Release) {
            request.remove()?;
            object.release()?;
        }
        Ok(())
    }
}

//! The state `fetching`: what a job's inputs refer to is brought here before it is queued.
//!
//! What is fetched waits in a directory of the claim's fence, and the plan that is written under
//! that fence names it. So what an engine left behind that had lost its claim is never seen.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode, Placing, TransferState};
use tokio::task::JoinSet;

use super::driver::Order;
use super::outcome::no_references;
use super::record::PlanText;
use super::transfers::Move;
use super::{Shared, arrival, lock};
use crate::conclusion::Conclusion;
use crate::fetcher::FetchOrder;
use crate::plan::{Arrival, Fetch, Fetched, InputContent, Plan};
use crate::store::{Fenced, FetchClaim, FetchRequest};
use crate::workspace;

/// Directories of fetched inputs in a job's directory, one a fence.
const PLACE: &str = "fetched";

impl Shared {
    pub(super) fn fetch_request(&self) -> FetchRequest {
        FetchRequest {
            holder: self.holder.clone(),
            now: self.clock.now(),
            lease: self.settings.lease,
            most: self.settings.max_fetching,
            most_of_owner: self.settings.owner_fetching,
            dead: Vec::new(),
        }
    }

    /// What a directory that a caller sends may hold.
    pub(super) fn directory_limits(&self) -> fishplate_formats::archive::Limits {
        fishplate_formats::archive::Limits {
            reserve: self.settings.disk_reserve.saturating_mul(2),
            ..self.settings.directories
        }
    }

    /// Claims jobs whose data is to be fetched, as many as there is room for.
    pub(super) async fn claim_fetches(&self, request: FetchRequest) {
        match self.commit.write(false, move |t| t.claim_fetches(&request)).await {
            Ok(claims) => {
                for claim in claims {
                    let _ = self.orders.send(Order::Fetch(claim));
                }
            }
            Err(error) => tracing::error!(%error, "no data could be fetched"),
        }
    }

    /// Fetches the data of a claimed job, beside the driver.
    pub(super) fn begin_fetch(self: &Arc<Self>, claim: FetchClaim) {
        let at_hand = lock(&self.plans).take(claim.id);
        let plan = match at_hand {
            Some(plan) => plan,
            None => match self.read_plan(claim.id) {
                Ok(plan) => Arc::new(plan),
                Err(error) => {
                    tracing::error!(job = %claim.id, error, "a job's plan cannot be read");
                    let shared = Arc::clone(self);
                    tokio::spawn(async move { shared.give_up(claim.id, claim.fence).await });
                    return;
                }
            },
        };
        let moves: Vec<Arc<Move>> =
            plan.fetches().map(|fetch| Arc::new(Move::of_input(fetch))).collect();
        let (job, fence) = (claim.id, claim.fence);
        let shared = Arc::clone(self);
        let known = moves.clone();
        // It waits until it is known, so that it is not over before.
        let (begin, begun) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            if begun.await.is_ok() {
                shared.fetch(claim, plan, moves).await;
            }
        });
        self.fetches(job, fence, known, task.abort_handle());
        let _ = begin.send(());
    }

    async fn fetch(self: Arc<Self>, claim: FetchClaim, plan: Arc<Plan>, moves: Vec<Arc<Move>>) {
        let fetched = self.fetch_all(&claim, &plan, &moves).await;
        // Only fetching may be stopped in the middle. Once its end is written, a look at the store
        // takes the job for lost while this process still has to hear that it may start it.
        let ending = tokio::spawn(async move {
            match fetched {
                Ok(arrived) => self.queue(&claim, arrived).await,
                Err(fault) => self.fail(&claim, fault, &moves).await,
            }
            self.moved(claim.id, claim.fence);
        });
        let _ = ending.await;
    }

    /// Fetches all inputs at once; the plan that it gives tells where they are.
    async fn fetch_all(
        &self,
        claim: &FetchClaim,
        plan: &Plan,
        moves: &[Arc<Move>],
    ) -> Result<Arrived, Fault> {
        let place = make_place(&claim.directory, claim.fence).await?;
        let mut kept = Kept::new(place.clone());
        let mut tasks = JoinSet::new();
        let fetcher = self.fetcher.get().ok_or_else(no_references)?;
        for ((at, fetch), known) in plan.fetches().enumerate().zip(moves) {
            let order = self.fetch_order(claim, plan, fetch, place.join(at.to_string()));
            let (fetcher, known) = (Arc::clone(fetcher), Arc::clone(known));
            tasks.spawn(async move {
                known.progress.enter(TransferState::Running);
                let placed = fetcher.fetch(&order, &known.progress).await;
                match &placed {
                    Ok(placing) => {
                        *lock(&known.placed) = Some(*placing);
                        known.progress.enter(TransferState::Done);
                    }
                    Err(_) => known.progress.enter(TransferState::Failed),
                }
                placed.map_err(|fault| fault.parameter(&known.parameter))
            });
        }
        while let Some(fetched) = tasks.join_next().await {
            // The first that fails ends the others: they are dropped.
            fetched.unwrap_or_else(|error| {
                tracing::error!(%error, "fetching failed");
                Err(Fault::new(FaultCode::Internal, "the data was not fetched; try again"))
            })?;
        }
        let durable = !lock(&self.passing).contains(&claim.id);
        let (plan, limits) = (plan.clone(), self.directory_limits());
        let stop = Arc::clone(&kept.stop);
        let arrive =
            Arriving { claim: claim.clone(), moves: moves.to_vec(), durable, limits, stop };
        match tokio::task::spawn_blocking(move || arrive.unless_stopped(plan, &place)).await {
            Ok(arrived) => {
                kept.wanted = true;
                arrived
            }
            Err(_) => Err(Fault::new(FaultCode::Internal, "the server is ending")),
        }
    }

    fn fetch_order(
        &self,
        claim: &FetchClaim,
        plan: &Plan,
        fetch: &Fetch,
        target: PathBuf,
    ) -> FetchOrder {
        // What is only read to make the input of it may be anybody's.
        let unpacked = matches!(fetch.arrival, Arrival::Directory);
        FetchOrder {
            job: claim.id,
            owner: claim.owner.clone(),
            session: plan.answer.session(),
            parameter: fetch.parameter.clone(),
            from: fetch.reference(),
            target,
            private: !unpacked && (fetch.private || !self.executor.guards_inputs()),
            link_size: if unpacked { 0 } else { self.settings.link_size },
        }
    }

    /// All is here: the job waits for its turn.
    async fn queue(self: &Arc<Self>, claim: &FetchClaim, arrived: Arrived) {
        let (job, fence) = (claim.id, claim.fence);
        let Arrived { plan, size, record, disk } = arrived;
        lock(&self.plans).keep(job, &Arc::new(plan), size);
        lock(&self.occupied).add(job, disk);
        let record: Arc<str> = record.into();
        let mut pause = Duration::from_millis(50);
        loop {
            let (record, request, more) =
                (Arc::clone(&record), self.claim_request(), self.fetch_request());
            let write = self.commit.write(false, move |t| {
                let fenced = t.fetched(job, fence, &record, disk)?;
                Ok((fenced, t.claim(&request)?, t.claim_fetches(&more)?))
            });
            match write.await {
                Ok((fenced, claims, fetches)) => {
                    if fenced == Fenced::Stale {
                        lock(&self.plans).take(job);
                        self.discard_fetched(claim).await;
                    }
                    for claim in claims {
                        let _ = self.orders.send(Order::Claimed { claim, durable: false });
                    }
                    for claim in fetches {
                        let _ = self.orders.send(Order::Fetch(claim));
                    }
                    return;
                }
                Err(error) => {
                    tracing::error!(%job, %error, "a fetched job was not queued; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(10));
                }
            }
        }
    }

    async fn fail(self: &Arc<Self>, claim: &FetchClaim, fault: Fault, moves: &[Arc<Move>]) {
        for known in moves {
            // The others were given up with the first that failed.
            if known.progress.state() != TransferState::Done {
                known.progress.enter(TransferState::Failed);
            }
        }
        let mut end = Conclusion::of_fault(fault, self.clock.now());
        end.transfers = moves.iter().map(|known| known.moved()).collect();
        self.discard_fetched(claim).await;
        self.write_end(claim.id, claim.fence, end).await;
        self.claim_fetches(self.fetch_request()).await;
    }

    /// Removes what was fetched under a fence.
    pub(super) async fn discard_fetched(&self, claim: &FetchClaim) {
        let place = claim.directory.join(PLACE).join(claim.fence.to_string());
        let _ = tokio::task::spawn_blocking(move || fs::remove_dir_all(place)).await;
    }

    /// Stops fetching for jobs that this process has lost: killed through another process, or taken
    /// over. `before` was known before the store was asked.
    pub(super) fn stop_lost_fetches(
        &self,
        before: &[(fishplate_contract::JobId, u64)],
        held: &[fishplate_contract::JobId],
    ) {
        for (job, fence) in before {
            if !held.contains(job) && self.fetches_under(*job, *fence) {
                self.stop_transfers(*job);
            }
        }
    }
}

async fn make_place(directory: &Path, fence: u64) -> Result<PathBuf, Fault> {
    let directory = directory.to_owned();
    let make = move || {
        workspace::make_directories(&directory)?;
        let all = directory.join(PLACE);
        // Of earlier fences: nobody looks there any more.
        let _ = fs::remove_dir_all(&all);
        let place = all.join(fence.to_string());
        fs::create_dir_all(&place)?;
        Ok(place)
    };
    let made = tokio::task::spawn_blocking(make).await;
    made.unwrap_or_else(|_| Err(io::Error::other("the server is ending")))
        .map_err(|error| not_stored(&error))
}

/// A fault of the disk here.
pub(super) fn not_stored(error: &io::Error) -> Fault {
    if fishplate_formats::disk::is_full(error) {
        return Fault::new(
            FaultCode::StorageFull,
            "the server's disk is full; nothing was started",
        );
    }
    tracing::error!(%error, "inputs could not be put into a workspace");
    Fault::new(FaultCode::Internal, "the inputs could not be stored")
}

/// A directory of fetched inputs: if whoever fetches them is stopped, what still is done there
/// stops too, and it is removed.
struct Kept {
    place: PathBuf,
    stop: Arc<AtomicBool>,
    /// All has come: now it is its job's.
    wanted: bool,
}

impl Kept {
    fn new(place: PathBuf) -> Self {
        Self { place, stop: Arc::default(), wanted: false }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stop.store(!self.wanted, Ordering::Relaxed);
        // Where no runtime is, the server is ending, and the next one looks for it.
        if !self.wanted
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let place = std::mem::take(&mut self.place);
            runtime.spawn_blocking(move || fs::remove_dir_all(place));
        }
    }
}

/// A job whose inputs are all here.
struct Arrived {
    plan: Plan,
    /// Bytes of the plan.
    size: u64,
    /// What stands for it in the job's record.
    record: String,
    /// Bytes in the job's directory.
    disk: u64,
}

/// From fetched files to inputs.
struct Arriving {
    claim: FetchClaim,
    moves: Vec<Arc<Move>>,
    durable: bool,
    limits: fishplate_formats::archive::Limits,
    stop: Arc<AtomicBool>,
}

impl Arriving {
    /// The plan with its inputs. Stopped, it leaves nothing behind.
    fn unless_stopped(self, plan: Plan, place: &Path) -> Result<Arrived, Fault> {
        let stop = Arc::clone(&self.stop);
        let arrived = self.all(plan);
        if stop.load(Ordering::Relaxed) {
            let _ = fs::remove_dir_all(place);
            return Err(not_wanted());
        }
        arrived
    }

    fn all(self, mut plan: Plan) -> Result<Arrived, Fault> {
        let place = format!("{PLACE}/{}", self.claim.fence);
        let mut dimensions = std::mem::take(&mut plan.dimensions);
        let to_fetch = plan.inputs.iter_mut().filter_map(|input| match &mut input.content {
            content @ InputContent::Fetch(_) => Some(content),
            _ => None,
        });
        for ((at, content), known) in to_fetch.enumerate().zip(&self.moves) {
            let InputContent::Fetch(fetch) = &*content else { continue };
            if self.stop.load(Ordering::Relaxed) {
                return Err(not_wanted());
            }
            let at = format!("{place}/{at}");
            let file = self.claim.directory.join(&at);
            let named = |fault: Fault| fault.parameter(&fetch.parameter);
            let as_fetched = match &fetch.arrival {
                Arrival::File => true,
                Arrival::Directory => {
                    arrival::directory(&file, &fetch.parameter, &self.limits, &self.stop)
                        .map_err(named)?;
                    false
                }
                Arrival::Array { data_type, format, shape } => {
                    let about = arrival::About { parameter: &fetch.parameter, data_type, format };
                    arrival::array(&file, &about, shape.as_deref(), &mut dimensions)
                        .map_err(named)?
                }
            };
            let mut placed = *lock(&known.placed);
            if !as_fetched {
                placed = Some(Placing::Copy);
            }
            let placed = placed.unwrap_or(Placing::Copy);
            *content = InputContent::Fetched(Fetched {
                parameter: fetch.parameter.clone(),
                peer: known.peer.clone(),
                bytes: known.progress.bytes(),
                placed: placed.name().to_owned(),
                at,
            });
        }
        plan.dimensions = dimensions;
        let stored = |error: io::Error| not_stored(&error);
        let directory = &self.claim.directory;
        let text = PlanText::new(&plan).map_err(stored)?;
        let size = text.len();
        let record = text.record(directory, &place, false).map_err(stored)?;
        if self.durable {
            settle(&directory.join(place)).map_err(stored)?;
        }
        Ok(Arrived { plan, size, record, disk: workspace::disk_use(directory) })
    }
}

/// Nobody is told that: whoever could be has stopped it.
fn not_wanted() -> Fault {
    Fault::new(FaultCode::JobKilled, "the job was killed while its data was unpacked")
}

/// Brings all that is in a directory to the disk: few files one by one, a tree with all else that
/// waits there, which costs less than each of its files would.
fn settle(place: &Path) -> io::Result<()> {
    let mut tree = false;
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            tree = true;
        } else {
            File::open(entry.path())?.sync_data()?;
        }
    }
    let place = File::open(place)?;
    if tree {
        nix::unistd::syncfs(&place)?;
    }
    place.sync_all()
}

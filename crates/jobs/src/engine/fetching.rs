//! What is done in the state `fetching`: what a job's inputs refer to is brought here before it is
//! queued. When which of it is done is the reactor's to say.
//!
//! What is fetched waits in a directory of the claim's fence, and the plan that is written under
//! that fence names it. So what an engine left behind that had lost its claim is never seen.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fishplate_contract::{Fault, FaultCode, PlacementMethod, Principal};
use fishplate_data::Progress;

use super::outcome::no_references;
use super::reactor::Event;
use super::record::PlanText;
use super::reuse::Equal;
use super::{EngineInner, conversion, lock};
use crate::completion::{Completion, TransferResult};
use crate::stager::FetchOrder;
use crate::store::{FencedWrite, FetchClaim, FetchRequest, Transaction};
use crate::workspace;
use fishplate_programs::plan::{Fetched, FetchedForm, InputContent, Plan, ReferencedInput};

/// Directories of fetched inputs in a job's directory, one a fence.
const PLACE: &str = "fetched";

impl EngineInner {
    pub(super) fn fetch_request(&self) -> FetchRequest {
        FetchRequest {
            holder: self.holder.clone(),
            lease: self.settings.lease,
            most: self.settings.max_fetching,
            most_of_owner: self.settings.owner_fetching,
        }
    }

    /// What a directory that a caller sends may hold.
    pub(super) fn directory_limits(&self) -> fishplate_formats::archive::ArchiveLimits {
        fishplate_formats::archive::ArchiveLimits {
            reserve: self.settings.disk_reserve.saturating_mul(2),
            ..self.settings.directories
        }
    }

    /// Claims jobs whose data is to be fetched, as many as there is room for.
    pub(super) async fn claim_fetches(&self, request: FetchRequest) {
        match self.store.write(false, move |t| t.claim_fetches(&request)).await {
            Ok(claims) => self.fetch_for(claims),
            Err(error) => tracing::error!(%error, "no data could be fetched"),
        }
    }

    /// Makes a directory for what is fetched under a claim. What claims before left is removed.
    pub(super) async fn prepare_fetch(&self, claim: &FetchClaim) -> Result<(), Fault> {
        let (directory, place, fence) = (claim.directory.clone(), place(claim), claim.fence);
        let make = move || {
            workspace::make_directories(&directory)?;
            remove_older(&directory.join(PLACE), fence);
            fs::create_dir_all(place)
        };
        let made = tokio::task::spawn_blocking(make).await;
        made.unwrap_or_else(|_| Err(io::Error::other("the server is ending")))
            .map_err(|error| not_stored(&error))
    }

    /// Fetches an input, by its place among those that are fetched.
    pub(super) async fn fetch(
        &self,
        claim: &FetchClaim,
        plan: &Plan,
        at: usize,
        progress: &Progress,
    ) -> Result<PlacementMethod, Fault> {
        let stager = self.stager.get().ok_or_else(no_references)?;
        let input = plan.fetches().nth(at).ok_or_else(not_wanted)?;
        let order = self.fetch_order(claim, plan, input, place(claim).join(at.to_string()));
        stager.fetch(&order, progress).await
    }

    /// Makes of what was fetched what the program gets. Dropped, it stops and leaves nothing behind.
    pub(super) async fn arrange(
        &self,
        claim: FetchClaim,
        plan: &Plan,
        moved: Vec<TransferResult>,
    ) -> Result<Box<FetchedJob>, Fault> {
        let durable = !self.is_ephemeral(claim.id);
        let (plan, limits) = (plan.clone(), self.directory_limits());
        let stop = StopWhenDropped::default();
        let arriving = InputConversion { claim, moved, durable, limits, stop: Arc::clone(&stop.0) };
        let arrived = tokio::task::spawn_blocking(move || arriving.unless_stopped(plan)).await;
        arrived.unwrap_or_else(|_| Err(Fault::new(FaultCode::Internal, "the server is ending")))
    }

    fn fetch_order(
        &self,
        claim: &FetchClaim,
        plan: &Plan,
        fetch: &ReferencedInput,
        target: PathBuf,
    ) -> FetchOrder {
        // What is only read to make the input of it may be anybody's.
        let unpacked = matches!(fetch.arrival, FetchedForm::Directory);
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

    /// All is here: the job waits for its turn, or ends with the results of an equal one.
    pub(super) async fn queue(self: &Arc<Self>, claim: &FetchClaim, arrived: FetchedJob) {
        let (job, fence) = (claim.id, claim.fence);
        let content = match self.equal(claim, &arrived).await {
            Equal::Ended(end) => {
                remove_fetched(claim).await;
                self.write_end(job, fence, *end).await;
                return self.claim_fetches(self.fetch_request()).await;
            }
            Equal::Absent(content) => content,
        };
        let FetchedJob { plan, size, record, disk, bytes } = arrived;
        lock(&self.plans).keep(job, &Arc::new(plan), size);
        lock(&self.occupied).add(job, disk);
        let (record, content): (Arc<str>, Option<Arc<str>>) =
            (record.into(), content.map(Arc::from));
        let work = || {
            let (record, content) = (Arc::clone(&record), content.clone());
            let (request, more) = (self.claim_request(), self.fetch_request());
            move |t: &mut dyn Transaction| {
                let fenced = t.fetched(job, fence, &record, disk, bytes, content.as_deref())?;
                Ok((fenced, t.claim(&request())?, t.claim_fetches(&more)?))
            }
        };
        let what = "a fetched job was not queued";
        let (fenced, claims, fetches) = self.write_for(job, what, false, work).await;
        if fenced == FencedWrite::Stale {
            lock(&self.plans).take(job);
            remove_fetched(claim).await;
        }
        self.tell(Event::Closed(job, fence));
        self.work_on(claims, false);
        self.fetch_for(fetches);
    }

    /// Removes what was fetched under a claim, and has the job end, if that is its end.
    pub(super) async fn discard_fetch(
        self: &Arc<Self>,
        claim: FetchClaim,
        for_good: Option<Arc<Plan>>,
        end: Option<Box<Completion>>,
    ) {
        remove_fetched(&claim).await;
        if let Some(plan) = for_good {
            self.forget_fetches(&plan, &claim.owner).await;
        }
        if let Some(end) = end {
            self.write_end(claim.id, claim.fence, *end).await;
        }
        self.claim_fetches(self.fetch_request()).await;
    }

    /// Nothing is to stay of what a plan's inputs refer to, as far as it has come.
    pub(super) async fn forget_fetches(&self, plan: &Plan, owner: &Principal) {
        let Some(stager) = self.stager.get() else { return };
        for fetch in plan.fetches() {
            stager.discard(&fetch.reference(), owner).await;
        }
    }
}

/// Where what is fetched under a claim waits.
fn place(claim: &FetchClaim) -> PathBuf {
    claim.directory.join(PLACE).join(claim.fence.to_string())
}

/// Removes what was fetched under earlier fences: nobody looks there any more.
fn remove_older(places: &Path, fence: u64) {
    for entry in fs::read_dir(places).into_iter().flatten().flatten() {
        let of = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
        if of.is_some_and(|of| of < fence) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

async fn remove_fetched(claim: &FetchClaim) {
    let place = place(claim);
    let _ = tokio::task::spawn_blocking(move || fs::remove_dir_all(place)).await;
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

/// What is done in another thread stops when this is dropped.
#[derive(Default)]
struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A job whose inputs are all here.
#[derive(Debug)]
pub(super) struct FetchedJob {
    pub(super) plan: Plan,
    /// Bytes of the plan.
    pub(super) size: u64,
    /// What stands for it in the job's record.
    pub(super) record: String,
    /// Bytes in the job's directory.
    pub(super) disk: u64,
    /// Bytes that were fetched.
    pub(super) bytes: u64,
}

/// From fetched files to inputs.
struct InputConversion {
    claim: FetchClaim,
    /// What was fetched, and how.
    moved: Vec<TransferResult>,
    durable: bool,
    limits: fishplate_formats::archive::ArchiveLimits,
    stop: Arc<AtomicBool>,
}

impl InputConversion {
    /// The plan with its inputs. Stopped, it leaves nothing behind.
    fn unless_stopped(self, plan: Plan) -> Result<Box<FetchedJob>, Fault> {
        let (stop, place) = (Arc::clone(&self.stop), place(&self.claim));
        let arrived = self.all(plan).map(Box::new);
        if stop.load(Ordering::Relaxed) {
            let _ = fs::remove_dir_all(place);
            return Err(not_wanted());
        }
        arrived
    }

    fn all(self, mut plan: Plan) -> Result<FetchedJob, Fault> {
        let place = format!("{PLACE}/{}", self.claim.fence);
        let mut dimensions = std::mem::take(&mut plan.dimensions);
        let to_fetch = plan.inputs.iter_mut().filter_map(|input| match &mut input.content {
            content @ InputContent::Fetch(_) => Some(content),
            _ => None,
        });
        for ((at, content), moved) in to_fetch.enumerate().zip(&self.moved) {
            let InputContent::Fetch(fetch) = &*content else { continue };
            if self.stop.load(Ordering::Relaxed) {
                return Err(not_wanted());
            }
            let at = format!("{place}/{at}");
            let file = self.claim.directory.join(&at);
            let named = |fault: Fault| fault.parameter(&fetch.parameter);
            let as_fetched = match &fetch.arrival {
                FetchedForm::File => {
                    conversion::file(&file, &fetch.parameter, &fetch.media_type).map_err(named)?
                }
                FetchedForm::Directory => {
                    conversion::directory(&file, &fetch.parameter, &self.limits, &self.stop)
                        .map_err(named)?;
                    false
                }
                FetchedForm::Array { data_type, format, shape } => {
                    let about = conversion::ArrayConversion {
                        parameter: &fetch.parameter,
                        data_type,
                        format,
                    };
                    conversion::array(&file, &about, shape.as_deref(), &mut dimensions)
                        .map_err(named)?
                }
            };
            let placed = moved.placed.clone().filter(|_| as_fetched);
            *content = InputContent::Fetched(Fetched {
                parameter: fetch.parameter.clone(),
                peer: moved.peer.clone(),
                bytes: moved.bytes,
                cached: moved.cached,
                placed: placed.unwrap_or_else(|| PlacementMethod::Copy.name().to_owned()),
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
            sync(&directory.join(place)).map_err(stored)?;
        }
        let bytes = self.moved.iter().filter(|it| !it.cached).map(|it| it.bytes).sum();
        Ok(FetchedJob { plan, size, record, disk: workspace::disk_use(directory), bytes })
    }
}

/// Nobody is told that: whoever could be has stopped it.
fn not_wanted() -> Fault {
    Fault::new(FaultCode::JobKilled, "the job was killed while its data was unpacked")
}

/// Brings all that is in a directory to the disk: few files one by one, a tree with all else that
/// waits there, which costs less than each of its files would.
fn sync(place: &Path) -> io::Result<()> {
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

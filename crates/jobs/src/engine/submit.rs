//! Accepting work: from a plan to a durable job.

use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fishplate_contract::{
    Argument, Fault, FaultCode, FileHandle, JobId, Payload, Principal, SubmittedJob, Timestamp,
    Value,
};
use fishplate_formats::archive::{self, ArchiveLimits};
use fishplate_formats::array_file;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use xxhash_rust::xxh3::Xxh3;

use super::fetching::not_stored;
use super::outcome::no_references;
use super::record::PlanText;
use super::{Engine, EngineInner, Settings, lock, write_fault};
use crate::completion::Completion;
use crate::function::payload::PayloadReader;
use crate::store::quota::{OwnerLimits, Quota};
use crate::store::{ClaimRequest, NewJob, Submission};
use crate::workspace::{self, DirectoryLock, Manifest};
use fishplate_programs::plan::Plan;
use fishplate_programs::program::{InputPlacement, PlacedInput};

/// How long the end of a job may take from the store to those who wait for it.
const DELIVERY_TIME: Duration = Duration::from_secs(5);

/// How long a process that ends waits for the records of delivered jobs to go.
const RELEASE_TIME: Duration = Duration::from_secs(30);

/// When it is worth trying again after a full queue.
const RETRY_FULL_QUEUE: Duration = Duration::from_secs(5);

/// Work to be accepted.
#[derive(Debug)]
pub struct JobRequest {
    /// Its service.
    pub service: String,
    /// Its operation.
    pub operation: String,
    /// Its owner.
    pub owner: Principal,
    /// Its idempotency key.
    pub key: Option<String>,
    /// A digest of operation and arguments; only looked at with a key.
    pub fingerprint: u64,
    /// How to run it.
    pub plan: Plan,
    /// Bytes that came with it.
    pub bytes_in: u64,
    /// Its inputs that are put into the workspace when it is accepted.
    pub placements: Vec<InputPlacement>,
    /// How many jobs of its service may run at once.
    pub max_running: u32,
    /// The domain for which its place is reserved ([`Engine::reserve`]); `None`: it waits for its turn.
    pub domain: Option<String>,
}

/// Accepted work.
#[derive(Debug)]
pub struct AcceptedJob {
    /// Its job.
    pub job: JobId,
    /// It was there before, under the same key.
    pub existing: bool,
    pub(super) waiter: Option<oneshot::Receiver<CompletedJob>>,
}

impl AcceptedJob {
    /// What its caller is told.
    pub fn submitted(&self) -> SubmittedJob {
        SubmittedJob { id: self.job, existing: self.existing }
    }
}

/// A job that has ended.
#[derive(Clone, Debug)]
pub(super) struct CompletedJob {
    /// How it ended, and its outcome.
    pub(super) completion: Arc<Completion>,
    /// Its record and its files are still there.
    pub(super) kept: bool,
}

impl Engine {
    /// Accepts work. Once this returns, the job is kept whatever happens.
    ///
    /// # Errors
    /// `QueueFull`, `QuotaExceeded`, `StorageFull`, `KeyConflict`; nothing is left behind.
    pub async fn submit(&self, work: JobRequest) -> Result<AcceptedJob, Fault> {
        self.submit_as(new_id()?, work, || ()).await
    }

    /// The same, as the job of this ID ([`new_id`]). `accepted` is called if it is, though the caller hangs up, and
    /// dropped if not.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub async fn submit_as(
        &self,
        job: JobId,
        work: JobRequest,
        accepted: impl FnOnce() + Send + 'static,
    ) -> Result<AcceptedJob, Fault> {
        let engine = self.clone();
        accepting(async move {
            let shared = &engine.shared;
            let (owner, service) = (work.owner.clone(), work.service.clone());
            if let Some(domain) = &work.domain {
                lock(&shared.places).take(domain, &work.service, &work.owner, job)?;
            }
            let submitted = shared.accept(job, work, true).await;
            let is_refused = submitted.as_ref().map_or(true, |submitted| submitted.existing);
            let is_ended = lock(&shared.places).accepted(job, is_refused);
            if is_ended && !is_refused {
                let killed = engine.kill(&owner, &service, job).await;
                let _ = killed.inspect_err(
                    |fault| tracing::error!(%job, %fault, "a rank of an ended domain runs on"),
                );
            }
            if !is_refused {
                accepted();
            }
            submitted
        })
        .await
    }

    /// Waits for the end of accepted work. Costs no thread.
    ///
    /// # Errors
    /// `NoSuchJob` if it is removed meanwhile, or what the store says.
    pub async fn wait(&self, accepted: AcceptedJob) -> Result<Arc<Completion>, Fault> {
        Ok(self.shared.wait(accepted.job, accepted.waiter).await?.completion)
    }

    /// Comes about when a job ends that this process works on, and whenever it can't be waited for.
    pub fn end_of(&self, job: JobId) -> impl Future<Output = ()> + use<> {
        let waiter = self.shared.wait_for(job);
        async move { drop(waiter.await) }
    }

    /// Waits until no record of a delivered job is left, but not for a disk that stays full: for a process that ends
    /// when it has answered.
    pub async fn released(&self) {
        let mut releasing = self.shared.releasing.subscribe();
        let _ = tokio::time::timeout(RELEASE_TIME, releasing.wait_for(|count| *count == 0)).await;
    }
}

/// Accepts to the end: a caller who hangs up while the job is being written must not leave a claim
/// behind that nobody works on.
pub(super) async fn accepting<F>(accept: F) -> F::Output
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    Accepting { accept: Some(Box::pin(accept)), runtime: Handle::current() }.await
}

/// A future that goes on in a task of its own if whoever awaits it goes away.
struct Accepting<F: Future<Output: Send + 'static> + Send + 'static> {
    /// `None` once it is done, or while it is polled.
    accept: Option<Pin<Box<F>>>,
    runtime: Handle,
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for Accepting<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(mut accept) = self.accept.take() else { return Poll::Pending };
        let polled = accept.as_mut().poll(context);
        if polled.is_pending() {
            self.accept = Some(accept);
        }
        polled
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for Accepting<F> {
    fn drop(&mut self) {
        if let Some(accept) = self.accept.take() {
            self.runtime.spawn(accept);
        }
    }
}

impl EngineInner {
    /// Waits for the end of a job, with what was given when it was accepted here.
    pub(super) async fn wait(
        &self,
        job: JobId,
        waiter: Option<oneshot::Receiver<CompletedJob>>,
    ) -> Result<CompletedJob, Fault> {
        let working = self.is_working();
        // Another process may conclude it, so the store is asked too: seldom if this one works on
        // jobs itself, quickly at first and then less often if it only waits.
        let (mut pause, longest) = if working && waiter.is_some() {
            (Duration::from_secs(1), Duration::from_secs(2))
        } else {
            (Duration::from_millis(1), Duration::from_millis(200))
        };
        let mut waiter = waiter.unwrap_or_else(|| self.wait_for(job));
        loop {
            match tokio::time::timeout(pause, &mut waiter).await {
                Ok(Ok(ended)) => return Ok(ended),
                Ok(Err(_)) => {
                    waiter = self.wait_for(job);
                    tokio::time::sleep(pause).await;
                }
                Err(_) => {}
            }
            let Some(record) = self.find(job).await? else {
                // It was delivered to us and forgotten, and the word is on its way; or somebody
                // else removed it.
                return match tokio::time::timeout(DELIVERY_TIME, &mut waiter).await {
                    Ok(Ok(ended)) => Ok(ended),
                    _ => {
                        let what = "the job was removed while you waited";
                        Err(Fault::new(FaultCode::NoSuchJob, what).job(job))
                    }
                };
            };
            if let Some(completion) = record.completion {
                return Ok(CompletedJob { completion: Arc::new(completion), kept: true });
            }
            pause = (pause * 3 / 2).min(longest);
        }
    }

    /// Accepts work as the job of this new ID.
    pub(super) async fn accept(
        &self,
        job: JobId,
        work: JobRequest,
        durable: bool,
    ) -> Result<AcceptedJob, Fault> {
        let shared = self;
        self.check_room().await?;
        if work.plan.fetches().next().is_some() && shared.stager.get().is_none() {
            let parameter = work.plan.fetches().next().map(|fetch| fetch.parameter.clone());
            return Err(no_references().parameter(parameter.unwrap_or_default()));
        }
        self.check_destinations(&work.plan)?;
        let directory = shared.directory(job);
        let text = PlanText::new(&work.plan).map_err(|error| not_stored(&error))?;
        let size = text.len();
        let limits = shared.directory_limits();
        let (held, record, disk) =
            place(&directory, work.placements, text, durable, limits).await?;
        let limits = self.quotas().of(work.owner.as_str());
        let data_bytes = match self.occupy(job, disk) {
            Ok(()) => self.data_bytes(&work.owner, &limits, disk).await,
            Err(fault) => Err(fault),
        };
        let data_bytes = match data_bytes {
            Ok(bytes) => bytes,
            Err(fault) => {
                lock(&shared.occupied).forget(job);
                let _ = fs::remove_dir_all(&directory);
                return Err(fault);
            }
        };
        let plan = Arc::new(work.plan);
        // Who has a place does not queue for it.
        let queues = work.domain.is_none();
        let new = NewJob {
            id: job,
            service: work.service,
            operation: work.operation,
            owner: work.owner,
            key: work.key,
            fingerprint: work.fingerprint,
            plan: record,
            disk,
            bytes_in: work.bytes_in,
            directory: directory.clone(),
            max_running: work.max_running,
            max_queued: if queues { shared.settings.max_queued } else { u32::MAX },
            limits: OwnerLimits { queued: limits.queued.filter(|_| queues), ..limits },
            data_bytes,
            submitted: shared.clock.now(),
            // What an equal job is, is known once all is here.
            fetching: plan.fetches().next().is_some() || plan.reuse.is_some(),
            boot: (!durable).then(|| shared.boot.clone()),
            notices: plan.answer.notices,
        };
        let waiter = shared.wait_for(job);
        let manifest = durable.then(|| Manifest::of(&new));
        let written = shared.write_new(new, durable, &plan, size).await;
        drop(held);
        match written {
            Ok(Submission::Accepted) => {
                if let Some(manifest) = manifest {
                    keep_manifest(directory, manifest).await;
                }
                if let Some(worker) = shared.worker.get() {
                    worker();
                }
                Ok(AcceptedJob { job, existing: false, waiter: Some(waiter) })
            }
            answer => {
                lock(&shared.waiters).remove(&job);
                lock(&shared.occupied).forget(job);
                let _ = fs::remove_dir_all(&directory);
                let accepted = |job| AcceptedJob { job, existing: true, waiter: None };
                refusal(&answer?, &shared.settings, &limits, shared.clock.now()).map(accepted)
            }
        }
    }

    /// Writes the job, and claims what there is room for in the same transaction: with room, that
    /// is this job, and it costs one commit to accept it and to start it.
    async fn write_new(
        &self,
        new: NewJob,
        durable: bool,
        plan: &Arc<Plan>,
        size: u64,
    ) -> Result<Submission, Fault> {
        let job = new.id;
        let request = self.is_working().then(|| (self.claim_request(), self.fetch_request()));
        // At hand before anybody can claim it.
        if request.is_some() {
            lock(&self.plans).keep(job, plan, size);
        }
        let written = self.store.write(durable, move |t| {
            let submission = t.submit(&new)?;
            let (claims, fetches) = match (&submission, request) {
                (Submission::Accepted, Some((_, request))) if new.fetching => {
                    (Vec::new(), t.claim_fetches(&request)?)
                }
                (Submission::Accepted, Some((request, _))) => (t.claim(&request())?, Vec::new()),
                _ => (Vec::new(), Vec::new()),
            };
            Ok((submission, claims, fetches))
        });
        let (submission, claims, fetches) = written.await.map_err(|error| {
            lock(&self.plans).take(job);
            write_fault(&error)
        })?;
        self.fetch_for(fetches);
        self.work_on(claims, durable);
        if submission != Submission::Accepted {
            lock(&self.plans).take(job);
        }
        Ok(submission)
    }

    /// What may be claimed, told within the transaction that claims: a reservation made while that waited for its turn
    /// counts too. Nothing is begun as long as the disk has no room.
    pub(super) fn claim_request(&self) -> impl FnOnce() -> ClaimRequest + Send + use<> {
        let has_room = self.missing().is_none();
        let (resting, exhausted) = {
            let (resting, now) = (lock(&self.resting), Instant::now());
            (resting.jobs(now), resting.is_host_exhausted(now))
        };
        let request = ClaimRequest {
            holder: self.holder.clone(),
            lease: self.settings.lease,
            max_running: if has_room && !exhausted { self.settings.max_running } else { 0 },
            quotas: self.quotas(),
            take_over: false,
            resting,
            reserved: Vec::new(),
            first: Vec::new(),
        };
        // Not the engine itself: it must not end on the store's thread.
        let places = Arc::clone(&self.places);
        move || {
            let mut places = lock(&places);
            let first = if has_room { places.taken() } else { Vec::new() };
            ClaimRequest { reserved: places.held(Instant::now()), first, ..request }
        }
    }

    pub(super) fn wait_for(&self, job: JobId) -> oneshot::Receiver<CompletedJob> {
        let (tell, told) = oneshot::channel();
        let mut waiters = lock(&self.waiters);
        let waiting = waiters.entry(job).or_default();
        // Those who gave up (a caller that hung up) make room.
        waiting.retain(|waiter| !waiter.is_closed());
        waiting.push(tell);
        told
    }

    /// Whether outputs may be delivered where they are wanted: what can never be is said before
    /// anything runs.
    fn check_destinations(&self, plan: &Plan) -> Result<(), Fault> {
        for (name, to) in plan.answer.destinations() {
            let named = |fault: Fault| fault.parameter(name);
            let stager = self.stager.get().ok_or_else(|| named(no_references()))?;
            let accepted = if to.ends_with('/') {
                // Each output gets its name after it.
                stager.accepts(&format!("{to}output"))
            } else {
                stager.accepts(to)
            };
            accepted.map_err(named)?;
        }
        Ok(())
    }
}

fn refusal(
    submission: &Submission,
    settings: &Settings,
    limits: &OwnerLimits,
    now: Timestamp,
) -> Result<JobId, Fault> {
    match submission {
        Submission::Accepted => Err(Fault::new(FaultCode::Internal, "accepted, then refused")),
        Submission::Existing(job) => Ok(*job),
        Submission::KeyConflict(job) => Err(Fault::new(
            FaultCode::KeyConflict,
            "the idempotency key was used before with other arguments; use a new key for new work",
        )
        .job(*job)),
        Submission::QueueFull => {
            let most = u64::from(settings.max_queued);
            Err(queue_full("jobs of this service", "max_queued", most))
        }
        Submission::OwnerQueueFull => {
            let most = limits.queued.unwrap_or(u64::MAX);
            Err(queue_full("of your jobs of this service", Quota::Queued.limit(), most))
        }
        Submission::QuotaExceeded(excess) => Err(excess.fault(now)),
    }
}

fn queue_full(what: &str, limit: &str, most: u64) -> Fault {
    let seconds = RETRY_FULL_QUEUE.as_secs();
    let message = format!("{most} {what} are waiting already; try again in {seconds} s");
    Fault::new(FaultCode::QueueFull, message).limit(limit, most).retry_after(RETRY_FULL_QUEUE)
}

/// The ID of a job to come.
///
/// # Errors
/// The machine gives no random numbers.
pub fn new_id() -> Result<JobId, Fault> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| {
        Fault::new(FaultCode::Internal, format!("the machine gives no random numbers: {error}"))
    })?;
    Ok(JobId::from_bytes(bits))
}

/// A digest of what a call asks for, by which the same key with other arguments is told apart.
/// Reads spooled payloads: not for a task of the runtime.
///
/// # Errors
/// If a payload cannot be read.
pub fn fingerprint(operation: &str, arguments: &[Argument]) -> io::Result<u64> {
    let mut digest = Xxh3::new();
    operation.hash(&mut digest);
    for argument in arguments {
        argument.name.hash(&mut digest);
        argument.label.hash(&mut digest);
        match &argument.value {
            Value::Text(text) => text.hash(&mut digest),
            Value::Data(payload) => digest_payload(payload, &mut digest)?,
            Value::Array(array) => {
                array.shape.hash(&mut digest);
                digest_payload(&array.data, &mut digest)?;
            }
            Value::Record(_) => {}
        }
    }
    Ok(digest.finish())
}

fn digest_payload(payload: &Payload, digest: &mut Xxh3) -> io::Result<()> {
    payload.len().hash(digest);
    // However it was cut into pieces, in memory or in a file, the same bytes are the same value.
    let contents = match payload {
        Payload::Reference(reference) => {
            reference.url.hash(digest);
            return Ok(());
        }
        Payload::Spooled(held) => {
            held.fingerprint().map_or_else(|| file_digest(held.path()), Ok)?
        }
        in_memory => {
            let mut contents = Xxh3::new();
            in_memory.pieces().unwrap_or_default().iter().for_each(|piece| contents.update(piece));
            contents.digest()
        }
    };
    contents.hash(digest);
    Ok(())
}

fn file_digest(path: &Path) -> io::Result<u64> {
    let (mut file, mut contents) = (File::open(path)?, Xxh3::new());
    let mut chunk = vec![0; DIGESTED_AT_ONCE];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(contents.digest()),
            read => contents.update(&chunk[..read]),
        }
    }
}

/// What is read of a payload at once.
const DIGESTED_AT_ONCE: usize = 256 << 10;

/// Notes beside a job's files what it is. After its record is written: a directory with a manifest
/// is one of a job that was accepted.
async fn keep_manifest(directory: PathBuf, manifest: Manifest) {
    let write = move || {
        if let Err(error) = manifest.write(&directory) {
            let directory = directory.display();
            tracing::warn!(%directory, %error, "a job's manifest was not written");
        }
    };
    let _ = tokio::task::spawn_blocking(write).await;
}

/// Puts inputs into the workspace: spooled ones are moved there at their last use, arrays written
/// in their format, archives unpacked; and a long plan beside it. The directory is held until the job
/// has a record. Gives that too, for the plan, and what the directory holds now.
async fn place(
    directory: &Path,
    placements: Vec<InputPlacement>,
    plan: PlanText,
    durable: bool,
    limits: ArchiveLimits,
) -> Result<(Option<DirectoryLock>, String, u64), Fault> {
    if placements.is_empty() && !plan.is_long() && !durable {
        // A short call costs no file.
        let record = plan.record(directory, "", durable).map_err(|error| not_stored(&error))?;
        return Ok((None, record, 0));
    }
    let directory = directory.to_owned();
    let work = move || {
        let held = workspace::hold(&directory)?;
        let few = placements.is_empty() && !plan.is_long();
        let placed =
            plan.record(&directory, "", durable).map_err(PlacementError::from).and_then(|record| {
                if few {
                    return Ok((record, 0));
                }
                place_all(&directory, &placements, durable, &limits)?;
                Ok((record, workspace::disk_use(&directory)))
            });
        if placed.is_err() {
            let _ = fs::remove_dir_all(&directory);
        }
        placed.map(|(record, disk)| (held, record, disk))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok((held, record, disk))) => Ok((Some(held), record, disk)),
        Ok(Err(PlacementError::Refused(fault))) => Err(*fault),
        Ok(Err(PlacementError::Io(error))) => Err(not_stored(&error)),
        Err(_) => Err(Fault::new(FaultCode::Internal, "the inputs could not be stored")),
    }
}

/// An input that could not be put into the workspace.
#[derive(Debug)]
enum PlacementError {
    /// It is not what it should be.
    Refused(Box<Fault>),
    /// The disk.
    Io(io::Error),
}

impl From<io::Error> for PlacementError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn place_all(
    directory: &Path,
    placements: &[InputPlacement],
    durable: bool,
    limits: &ArchiveLimits,
) -> Result<(), PlacementError> {
    // Directories first: other inputs may be in them. Then arrays: what they are made of may be moved
    // as another input.
    let mut ordered: Vec<&InputPlacement> = placements.iter().collect();
    ordered.sort_by_key(|placement| match placement.content {
        PlacedInput::Directory(..) => 0,
        PlacedInput::Array(..) => 1,
        PlacedInput::Bytes(_) => 2,
    });
    let mut left = ordered.into_iter();
    let mut trees = false;
    while let Some(InputPlacement { path, content }) = left.next() {
        let target: PathBuf = directory.join("work").join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        if let PlacedInput::Bytes(Payload::Spooled(held)) = content
            && !held.is_shared()
            && !left.clone().any(|later| is_in(&later.content, held))
        {
            if durable {
                File::open(held.path())?.sync_data()?;
            }
            fs::rename(held.path(), &target)?;
            held.keep();
            continue;
        }
        if let PlacedInput::Directory(archive, parameter) = content {
            trees = true;
            unpack(archive, &target, parameter, limits)?;
            continue;
        }
        // What a directory that was sent has under this name makes room.
        let _ = fs::remove_file(&target);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&target)?;
        match content {
            PlacedInput::Directory(..) => {}
            PlacedInput::Array(array, format) => array_file::write(array, format, &file)?,
            PlacedInput::Bytes(Payload::Spooled(held)) => {
                io::copy(&mut File::open(held.path())?, &mut file)?;
            }
            PlacedInput::Bytes(data) => {
                let pieces =
                    data.pieces().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
                pieces.iter().try_for_each(|piece| file.write_all(piece))?;
            }
        }
        if durable {
            file.sync_data()?;
        }
    }
    if durable {
        let work = File::open(directory.join("work"))?;
        if trees {
            // All that waits, which costs less than each file of a tree would.
            nix::unistd::syncfs(&work).map_err(io::Error::from)?;
        }
        work.sync_all()?;
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// A directory that was sent, from wherever its archive is.
fn unpack(
    archive: &Payload,
    target: &Path,
    parameter: &str,
    limits: &ArchiveLimits,
) -> Result<(), PlacementError> {
    let refused = |fault| PlacementError::Refused(Box::new(fault));
    if let Payload::Spooled(held) = archive {
        return archive::unpack_file(held.path(), target, parameter, limits).map_err(refused);
    }
    let reader = PayloadReader::new(archive).map_err(refused)?;
    archive::unpack_any(reader, target, parameter, limits).map_err(refused)
}

/// Whether an input is that very file: one attachment may be several inputs.
fn is_in(input: &PlacedInput, file: &Arc<dyn FileHandle>) -> bool {
    let (PlacedInput::Bytes(payload) | PlacedInput::Directory(payload, _)) = input else {
        return false;
    };
    matches!(payload, Payload::Spooled(held) if Arc::ptr_eq(held, file))
}

#[cfg(test)]
mod tests;

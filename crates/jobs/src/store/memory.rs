//! Records in memory: for tests, and for what need not outlive the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fishplate_contract::{Clock, FaultCode, JobId, JobState, SystemClock, Timestamp};

use super::notices::{self, DueNotice, Notice, NoticeClaim};
use super::quota::{DayUsage, OwnerUsage};
use super::turns::Turns;
use super::usage::DAY;
use super::{
    Boot, Claim, ClaimRequest, FencedWrite, FetchClaim, FetchRequest, Filter, JobRecord,
    KillRequest, NewJob, PendingJobs, RunningJobs, Store, StoreError, Submission, Totals,
    Transaction, UsageRecord,
};
use crate::completion::Completion;
use crate::executor::Handle;
use crate::process;

/// A store in memory.
#[derive(Default)]
pub struct MemoryStore {
    jobs: Mutex<Jobs>,
    /// By which leases lapse, if it is not the system's.
    clock: Option<Arc<dyn Clock>>,
}

#[derive(Clone, Default)]
struct Jobs {
    by_number: BTreeMap<u64, StoredJob>,
    usage: Vec<UsageRecord>,
    sums: Vec<UsageRecord>,
    /// When each owner was given a place last.
    served: BTreeMap<String, Timestamp>,
    last: u64,
    now: Timestamp,
}

#[derive(Clone)]
struct StoredJob {
    new: NewJob,
    state: JobState,
    fence: u64,
    holder: String,
    /// In which it was claimed from the queue.
    claimed_boot: String,
    lease_until: Timestamp,
    handle: Option<Handle>,
    kill_requested: bool,
    started: Option<Timestamp>,
    completion: Option<Completion>,
    /// A digest of all that its results depend on.
    content: Option<String>,
    /// Who tells what is to be told of it.
    notice_claim: NoticeClaim,
}

impl Store for MemoryStore {
    fn transact(
        &self,
        _durable: bool,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut copy = jobs.clone();
        copy.now = self.now();
        work(&mut copy)?;
        *jobs = copy;
        Ok(())
    }

    fn read(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut copy = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        copy.now = self.now();
        work(&mut copy)
    }
}

impl MemoryStore {
    /// One whose leases lapse by this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..Self::default() }
    }

    fn now(&self) -> Timestamp {
        self.clock.as_ref().map_or_else(|| SystemClock.now(), |clock| clock.now())
    }
}

impl Jobs {
    fn job(&mut self, id: JobId) -> Option<&mut StoredJob> {
        self.by_number.values_mut().find(|job| job.new.id == id)
    }

    fn under(&mut self, id: JobId, fence: u64) -> Option<&mut StoredJob> {
        self.job(id).filter(|job| job.fence == fence && job.state == JobState::Running)
    }

    /// A job that runs, or whose data is being fetched, under this fence.
    fn held_under(&mut self, id: JobId, fence: u64) -> Option<&mut StoredJob> {
        self.job(id).filter(|job| job.fence == fence && job.is_held())
    }

    /// A job of which this holder tells something.
    fn telling(&mut self, id: JobId, holder: &str) -> Option<&mut StoredJob> {
        let wanted =
            |job: &&mut StoredJob| job.notice_claim.holder == holder && !job.new.notices.is_none();
        self.job(id).filter(wanted)
    }

    fn usage_of(&self, owner: &str, since: Timestamp) -> OwnerUsage {
        let mut days: BTreeMap<Timestamp, DayUsage> = BTreeMap::new();
        let of_owner = |it: &&UsageRecord| it.owner.as_str() == owner && it.day() >= since;
        for used in self.sums.iter().chain(&self.usage).filter(of_owner) {
            let day = used.day();
            let sum = days.entry(day).or_insert(DayUsage { day, cpu_seconds: 0.0, bytes: 0 });
            sum.cpu_seconds += used.cpu_seconds;
            sum.bytes += used.bytes_in + used.bytes_out;
        }
        let mut usage = OwnerUsage { days: days.into_values().collect(), ..OwnerUsage::default() };
        for job in self.by_number.values().filter(|job| job.new.owner.as_str() == owner) {
            usage.job_bytes += job.new.disk;
            if job.completion.is_some() {
                continue;
            }
            usage.unfinished_bytes += job.new.bytes_in;
            match job.started {
                Some(at) => {
                    usage.running += 1;
                    usage.running_time += self.now.0.saturating_sub(at.0).max(0).cast_unsigned();
                }
                None => usage.queued += 1,
            }
        }
        usage
    }
}

impl StoredJob {
    fn is_held(&self) -> bool {
        matches!(self.state, JobState::Running | JobState::Fetching) && !self.holder.is_empty()
    }

    /// Whether others may take it: its lease has lapsed, or its holder is gone.
    fn is_lapsed(&self, now: Timestamp) -> bool {
        self.lease_until < now || process::is_dead(&self.holder)
    }

    fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Claim {
        let running = self.state == JobState::Running;
        let taken_from = running.then(|| Boot::of_id(&self.claimed_boot));
        if !running {
            process::boot_of(&request.holder).clone_into(&mut self.claimed_boot);
        }
        self.state = JobState::Running;
        self.fence += 1;
        self.holder.clone_from(&request.holder);
        self.lease_until = now.after(request.lease);
        Claim {
            id: self.new.id,
            service: self.new.service.clone(),
            owner: self.new.owner.clone(),
            directory: self.new.directory.clone(),
            fence: self.fence,
            handle: self.handle.clone(),
            taken_from,
            kill_requested: self.kill_requested,
            boot: self.new.boot.as_deref().map(Boot::of_id),
        }
    }

    fn due_notice(&self) -> Option<DueNotice> {
        let ended = self.completion.as_ref().map(|end| Timestamp(end.kept_from()));
        Some(DueNotice {
            job: self.new.id,
            service: self.new.service.clone(),
            owner: self.new.owner.clone(),
            notice: notices::due(self.new.notices, self.state, self.started.is_some())?,
            since: ended.or(self.started).unwrap_or_default(),
            claim: self.notice_claim.clone(),
        })
    }

    fn record(&self) -> JobRecord {
        JobRecord {
            id: self.new.id,
            service: self.new.service.clone(),
            operation: self.new.operation.clone(),
            owner: self.new.owner.clone(),
            directory: self.new.directory.clone(),
            state: self.state,
            kill_requested: self.kill_requested,
            submitted: self.new.submitted,
            started: self.started,
            completion: self.completion.clone(),
        }
    }
}

impl Transaction for Jobs {
    fn submit(&mut self, new: &NewJob) -> Result<Submission, StoreError> {
        if let Some(key) = &new.key {
            let same = |job: &&StoredJob| {
                job.new.key.as_ref() == Some(key)
                    && job.new.owner == new.owner
                    && job.new.service == new.service
            };
            if let Some(job) = self.by_number.values().find(same) {
                let same_arguments = job.new.fingerprint == new.fingerprint;
                return Ok(if same_arguments {
                    Submission::Existing(job.new.id)
                } else {
                    Submission::KeyConflict(job.new.id)
                });
            }
        }
        let waits = |job: &&StoredJob| {
            let waits = matches!(job.state, JobState::Queued | JobState::Fetching);
            job.new.service == new.service && waits
        };
        if self.by_number.values().filter(waits).count() >= new.max_queued as usize {
            return Ok(Submission::QueueFull);
        }
        let own = self.by_number.values().filter(waits).filter(|job| job.new.owner == new.owner);
        if new.limits.queued.is_some_and(|most| own.count() as u64 >= most) {
            return Ok(Submission::OwnerQueueFull);
        }
        let usage = self.usage_of(new.owner.as_str(), new.limits.period.start(self.now));
        if let Some(excess) = new.excess(usage) {
            return Ok(Submission::QuotaExceeded(excess));
        }
        self.last += 1;
        self.by_number.insert(
            self.last,
            StoredJob {
                new: new.clone(),
                state: if new.fetching { JobState::Fetching } else { JobState::Queued },
                fence: 0,
                holder: String::new(),
                claimed_boot: String::new(),
                lease_until: Timestamp(0),
                handle: None,
                kill_requested: false,
                started: None,
                completion: None,
                content: None,
                notice_claim: NoticeClaim::default(),
            },
        );
        Ok(Submission::Accepted)
    }

    fn adopt(&mut self, new: &NewJob, fence: u64) -> Result<Submission, StoreError> {
        let submission = self.submit(new)?;
        if submission == Submission::Accepted
            && let Some(job) = self.job(new.id)
        {
            job.fence = fence;
            if job.state == JobState::Queued {
                job.state = JobState::Running;
            }
        }
        Ok(submission)
    }

    fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>, StoreError> {
        let (mut claims, now) = (Vec::new(), self.now);
        for job in self.by_number.values_mut() {
            if request.take_over && job.state == JobState::Running && job.is_lapsed(now) {
                claims.push(job.claim(request, now));
            }
        }
        let mut turns = Turns::new();
        let mut running = 0;
        for held in &request.reserved {
            turns.runs(held.owner.as_str(), held.count);
            turns.service_runs(&held.service, held.count);
            running += held.count;
        }
        let mut first = Vec::new();
        for (number, job) in &self.by_number {
            let owner = job.new.owner.as_str();
            match job.state {
                JobState::Running => {
                    running += 1;
                    turns.runs(owner, 1);
                    turns.service_runs(&job.new.service, 1);
                }
                JobState::Queued if request.first.contains(&job.new.id) => first.push(*number),
                JobState::Queued if !request.resting.contains(&job.new.id) => {
                    let line = (job.new.service.as_str(), owner);
                    turns.wait(line, *number, job.new.max_running, *number);
                }
                _ => {}
            }
        }
        // Each of these has one of the places that are held.
        for number in first {
            claims.extend(self.by_number.get_mut(&number).map(|job| job.claim(request, now)));
        }
        for (owner, at) in &self.served {
            turns.was_served(owner, *at);
        }
        turns.bound_by(request, |owner, period| Ok(self.usage_of(owner, period.start(now))))?;
        let contended = turns.is_contended();
        while running < u64::from(request.max_running)
            && let Some((owner, number)) = turns.next(now)
        {
            let Some(job) = self.by_number.get_mut(&number) else { continue };
            claims.push(job.claim(request, now));
            running += 1;
            if contended {
                self.served.insert(owner, now);
            }
        }
        Ok(claims)
    }

    fn claim_fetches(&mut self, request: &FetchRequest) -> Result<Vec<FetchClaim>, StoreError> {
        let owner = |job: &StoredJob| job.new.owner.as_str().to_owned();
        let fetching = || self.by_number.iter().filter(|(_, job)| job.state == JobState::Fetching);
        let held = fetching().filter(|(_, job)| job.holder == request.holder);
        let held = held.map(|(_, job)| owner(job)).collect();
        let waiting =
            fetching().filter(|(_, job)| job.holder.is_empty() || job.is_lapsed(self.now));
        let waiting = waiting.map(|(number, job)| (owner(job), *number)).collect();
        let mut claims = Vec::new();
        for number in request.choose(waiting, held) {
            let Some(job) = self.by_number.get_mut(&number) else { continue };
            job.fence += 1;
            job.holder.clone_from(&request.holder);
            job.lease_until = self.now.after(request.lease);
            claims.push(FetchClaim {
                id: job.new.id,
                owner: job.new.owner.clone(),
                directory: job.new.directory.clone(),
                fence: job.fence,
            });
        }
        Ok(claims)
    }

    fn fetched(
        &mut self,
        job: JobId,
        fence: u64,
        plan: &str,
        disk: u64,
        bytes: u64,
        content: Option<&str>,
    ) -> Result<FencedWrite, StoreError> {
        let held = self.held_under(job, fence).filter(|job| job.state == JobState::Fetching);
        let Some(job) = held else { return Ok(FencedWrite::Stale) };
        job.state = JobState::Queued;
        job.holder.clear();
        plan.clone_into(&mut job.new.plan);
        job.new.disk = disk;
        job.new.bytes_in += bytes;
        job.content = content.map(str::to_owned);
        Ok(FencedWrite::Accepted)
    }

    fn equal(
        &mut self,
        service: &str,
        content: &str,
        most: usize,
    ) -> Result<Vec<JobRecord>, StoreError> {
        let is_equal = |job: &&StoredJob| {
            job.state == JobState::Done
                && job.new.service == service
                && job.content.as_deref() == Some(content)
        };
        Ok(self
            .by_number
            .values()
            .rev()
            .filter(is_equal)
            .take(most)
            .map(StoredJob::record)
            .collect())
    }

    fn fetching(&mut self, holder: &str) -> Result<Vec<JobId>, StoreError> {
        let wanted = |job: &&StoredJob| job.state == JobState::Fetching && job.holder == holder;
        Ok(self.by_number.values().filter(wanted).map(|job| job.new.id).collect())
    }

    fn unfinished(&mut self) -> Result<Vec<JobId>, StoreError> {
        let unfinished = self.by_number.values().filter(|job| !job.state.is_final());
        Ok(unfinished.map(|job| job.new.id).collect())
    }

    fn renew(&mut self, holder: &str, lease: Duration) -> Result<usize, StoreError> {
        let until = self.now.after(lease);
        let mut held = 0;
        for job in self.by_number.values_mut() {
            if job.is_held() && job.holder == holder {
                job.lease_until = until;
                held += 1;
            }
        }
        Ok(held)
    }

    fn started(
        &mut self,
        job: JobId,
        fence: u64,
        handle: &Handle,
        at: Timestamp,
    ) -> Result<FencedWrite, StoreError> {
        let Some(job) = self.under(job, fence) else { return Ok(FencedWrite::Stale) };
        job.handle = Some(handle.clone());
        job.started = Some(at);
        Ok(FencedWrite::Accepted)
    }

    fn unclaim(&mut self, job: JobId, fence: u64) -> Result<FencedWrite, StoreError> {
        let Some(job) = self.under(job, fence) else { return Ok(FencedWrite::Stale) };
        job.state = JobState::Queued;
        job.holder.clear();
        Ok(FencedWrite::Accepted)
    }

    fn conclude(
        &mut self,
        job: JobId,
        fence: u64,
        completion: &Completion,
    ) -> Result<FencedWrite, StoreError> {
        let Some(job) = self.held_under(job, fence) else { return Ok(FencedWrite::Stale) };
        job.state = completion.state();
        job.completion = Some(completion.clone());
        job.new.disk = completion.disk().unwrap_or(job.new.disk);
        let used = UsageRecord::of_job(&job.new, job.started, completion);
        self.usage.push(used);
        Ok(FencedWrite::Accepted)
    }

    fn discard(
        &mut self,
        job: JobId,
        fence: u64,
        completion: &Completion,
    ) -> Result<FencedWrite, StoreError> {
        let Some(held) = self.held_under(job, fence) else { return Ok(FencedWrite::Stale) };
        let used = UsageRecord::of_job(&held.new, held.started, completion);
        self.usage.push(used);
        self.by_number.retain(|_, kept| kept.new.id != job);
        Ok(FencedWrite::Accepted)
    }

    fn request_kill(&mut self, job: JobId, at: Timestamp) -> Result<KillRequest, StoreError> {
        let Some(job) = self.job(job) else { return Ok(KillRequest::NoSuchJob) };
        Ok(match job.state {
            state @ (JobState::Queued | JobState::Fetching) => {
                job.state = JobState::Killed;
                let end = dequeued(state, at);
                let used = UsageRecord::of_job(&job.new, None, &end);
                job.completion = Some(end);
                self.usage.push(used);
                KillRequest::Dequeued
            }
            JobState::Running => {
                job.kill_requested = true;
                KillRequest::Requested(job.handle.clone())
            }
            state => KillRequest::Ended(state),
        })
    }

    fn kill_requests(&mut self, holder: &str) -> Result<Vec<JobId>, StoreError> {
        let wanted = |job: &&StoredJob| {
            job.state == JobState::Running && job.kill_requested && job.holder == holder
        };
        Ok(self.by_number.values().filter(wanted).map(|job| job.new.id).collect())
    }

    fn find(&mut self, job: JobId) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.job(job).map(|job| job.record()))
    }

    fn exists(&mut self, job: JobId) -> Result<bool, StoreError> {
        Ok(self.job(job).is_some())
    }

    fn plan(&mut self, job: JobId) -> Result<Option<String>, StoreError> {
        Ok(self.job(job).map(|job| job.new.plan.clone()))
    }

    fn list(&mut self, filter: &Filter) -> Result<Vec<JobRecord>, StoreError> {
        let older = filter.after.and_then(|after| {
            self.by_number.iter().find(|(_, job)| job.new.id == after).map(|(number, _)| *number)
        });
        if filter.after.is_some() && older.is_none() {
            return Ok(Vec::new());
        }
        let below = older.unwrap_or(u64::MAX);
        let wanted = |job: &&StoredJob| {
            let NewJob { owner, service, operation, submitted, .. } = &job.new;
            let is_it = |(of, named): &(String, String)| of == service && named == operation;
            *owner == filter.owner
                && filter.services.contains(service)
                && (filter.operations.is_empty() || filter.operations.iter().any(is_it))
                && (filter.states.is_empty() || filter.states.contains(&job.state))
                && filter.since.is_none_or(|since| *submitted >= since)
                && filter.until.is_none_or(|until| *submitted <= until)
        };
        let newest_first = self.by_number.range(..below).rev().map(|(_, job)| job);
        let records = newest_first.filter(wanted).map(StoredJob::record);
        let has_run = |record: &JobRecord| filter.ran.includes(record.ran(self.now));
        Ok(records.filter(has_run).take(filter.limit).collect())
    }

    fn remove(&mut self, id: JobId) -> Result<bool, StoreError> {
        let before = self.by_number.len();
        self.by_number.retain(|_, job| job.new.id != id || !job.state.is_final());
        Ok(self.by_number.len() < before)
    }

    fn expired(&mut self, before: Timestamp, keep: u64) -> Result<Vec<JobId>, StoreError> {
        let ended: Vec<&StoredJob> =
            self.by_number.values().filter(|job| job.completion.is_some()).collect();
        let surplus = ended.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        let old =
            |job: &StoredJob| job.completion.as_ref().is_some_and(|end| end.kept_from() < before.0);
        let wanted = ended.iter().enumerate().filter(|(index, job)| *index < surplus || old(job));
        Ok(wanted.map(|(_, job)| job.new.id).take(1000).collect())
    }

    fn due_notices(
        &mut self,
        services: &[String],
        most: usize,
        most_of_owner: usize,
    ) -> Result<Vec<DueNotice>, StoreError> {
        let due = self.by_number.values().filter_map(StoredJob::due_notice);
        let due = due.filter(|due| services.contains(&due.service));
        Ok(notices::in_turn(due.collect(), self.now, most, most_of_owner))
    }

    fn claim_notice(
        &mut self,
        due: &DueNotice,
        holder: &str,
        lease: Duration,
    ) -> Result<FencedWrite, StoreError> {
        let until = self.now.after(lease);
        let Some(job) = self.job(due.job) else { return Ok(FencedWrite::Stale) };
        if job.due_notice().as_ref() != Some(due) {
            return Ok(FencedWrite::Stale);
        }
        job.notice_claim = NoticeClaim { holder: holder.to_owned(), until };
        Ok(FencedWrite::Accepted)
    }

    fn renew_notice(
        &mut self,
        job: JobId,
        holder: &str,
        lease: Duration,
    ) -> Result<FencedWrite, StoreError> {
        let until = self.now.after(lease);
        let Some(job) = self.telling(job, holder) else { return Ok(FencedWrite::Stale) };
        job.notice_claim.until = until;
        Ok(FencedWrite::Accepted)
    }

    fn release_notice(
        &mut self,
        job: JobId,
        holder: &str,
        rest: Duration,
    ) -> Result<FencedWrite, StoreError> {
        let until = self.now.after(rest);
        let Some(job) = self.telling(job, holder) else { return Ok(FencedWrite::Stale) };
        job.notice_claim = NoticeClaim { holder: String::new(), until };
        Ok(FencedWrite::Accepted)
    }

    fn settle_notice(
        &mut self,
        job: JobId,
        holder: &str,
        told: Notice,
    ) -> Result<FencedWrite, StoreError> {
        let Some(job) = self.telling(job, holder) else { return Ok(FencedWrite::Stale) };
        job.new.notices = notices::without(job.new.notices, told);
        job.notice_claim = NoticeClaim::default();
        Ok(FencedWrite::Accepted)
    }

    fn holders(&mut self) -> Result<Vec<String>, StoreError> {
        let held = self.by_number.values().filter(|job| job.is_held());
        let mut holders: Vec<String> = held.map(|job| job.holder.clone()).collect();
        holders.sort();
        holders.dedup();
        Ok(holders)
    }

    fn running(&mut self) -> Result<Vec<RunningJobs>, StoreError> {
        let mut counts = HashMap::new();
        for job in self.by_number.values().filter(|job| job.state == JobState::Running) {
            let of = (job.new.service.clone(), job.new.owner.clone());
            *counts.entry(of).or_default() += 1;
        }
        let of = |((service, owner), count)| RunningJobs { service, owner, count };
        Ok(counts.into_iter().map(of).collect())
    }

    fn backlog(&mut self) -> Result<PendingJobs, StoreError> {
        let count = |state| self.by_number.values().filter(|job| job.state == state).count() as u64;
        Ok(PendingJobs {
            fetching: count(JobState::Fetching),
            queued: count(JobState::Queued),
            running: count(JobState::Running),
        })
    }

    fn newest(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.by_number.values().next_back().map(|job| job.new.submitted))
    }

    fn account(&mut self, record: &UsageRecord) -> Result<(), StoreError> {
        self.usage.push(record.clone());
        Ok(())
    }

    fn usage(
        &mut self,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<UsageRecord>, StoreError> {
        let all = self.sums.iter().chain(&self.usage);
        Ok(all.filter(|it| (since..until).contains(&it.ended)).cloned().collect())
    }

    fn owner_usage(&mut self, owner: &str, since: Timestamp) -> Result<OwnerUsage, StoreError> {
        Ok(self.usage_of(owner, since))
    }

    fn fold_usage(&mut self, before: Timestamp, keep: u64) -> Result<bool, StoreError> {
        self.usage.retain(|it| it.ended >= before);
        self.sums.retain(|it| it.ended.0 >= before.0 - DAY);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let surplus = self.usage.len().saturating_sub(keep);
        for used in self.usage.drain(..surplus) {
            match self.sums.iter_mut().find(|sum| sum.is_alike(&used)) {
                Some(sum) => sum.add(&used),
                None => self.sums.push(used.summed()),
            }
        }
        Ok(false)
    }

    fn forget_owners(&mut self, before: Timestamp) -> Result<(), StoreError> {
        let unfinished = self.by_number.values().filter(|job| !job.state.is_final());
        let owners: BTreeSet<_> = unfinished.map(|job| job.new.owner.as_str()).collect();
        self.served.retain(|owner, at| *at >= before || owners.contains(owner.as_str()));
        Ok(())
    }

    fn totals(&mut self) -> Result<Totals, StoreError> {
        let jobs = self.by_number.values();
        let ended = jobs.clone().filter(|job| job.completion.is_some()).count() as u64;
        Ok(Totals { ended, disk: jobs.map(|job| job.new.disk + job.new.plan.len() as u64).sum() })
    }
}

/// The completion of a job that was killed before it began, in this state.
pub(super) fn dequeued(state: JobState, at: Timestamp) -> Completion {
    let why = match state {
        JobState::Fetching => {
            "the job was killed on request while its data was being fetched; its program was never \
             started"
        }
        _ => "the job was killed on request while it was queued; its program was never started",
    };
    Completion::without_ending(JobState::Killed, FaultCode::JobKilled, why, at)
}

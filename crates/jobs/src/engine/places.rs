//! Places for ranks: held for a domain before its first rank starts, with a lease, and taken by the jobs that are its ranks.
//! What is held counts as if it ran. In memory: with the process, all of it is given back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fishplate_contract::{Fault, FaultCode, JobId, JobState, Principal};

use super::driver::DriverCommand;
use super::{Engine, EngineInner, lock, storage_fault};
use crate::store::{JobRecord, RunningJobs};

/// When it is worth trying again where places are taken.
const RETRY: Duration = Duration::from_secs(1);

/// Places that somebody wants to have.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The domain whose ranks take them.
    pub domain: String,
    /// The service whose program the ranks run.
    pub service: String,
    /// Who wants them.
    pub owner: Principal,
    /// How many.
    pub places: u32,
    /// How many jobs of the service may run at once, ranks or not.
    pub most_of_service: u32,
}

#[derive(Debug)]
struct HeldPlaces {
    of: Reservation,
    /// Not taken yet.
    free: u64,
    /// Jobs that took one, and were not claimed yet.
    taken: Vec<JobId>,
    until: Instant,
}

/// All that is held.
#[derive(Debug, Default)]
pub(super) struct Places {
    held: Vec<HeldPlaces>,
    /// Ranks that are being written into the store.
    accepting: Vec<AcceptingRank>,
}

/// A job that took a place, and is being written into the store.
#[derive(Debug)]
struct AcceptingRank {
    job: JobId,
    domain: String,
    owner: Principal,
    /// Its domain was ended meanwhile.
    is_ended: bool,
}

impl HeldPlaces {
    fn is(&self, domain: &str, service: &str, owner: &Principal) -> bool {
        self.of.domain == domain && self.of.service == service && self.of.owner == *owner
    }
}

impl Places {
    fn lapse(&mut self, now: Instant) {
        for held in self.held.iter_mut().filter(|held| held.free > 0 && held.until <= now) {
            tracing::info!(domain = held.of.domain, places = held.free, "a reservation lapsed");
            held.free = 0;
        }
        self.held.retain(|held| held.free > 0 || !held.taken.is_empty());
    }

    /// As jobs that run.
    pub(super) fn held(&mut self, now: Instant) -> Vec<RunningJobs> {
        self.lapse(now);
        let count = |held: &HeldPlaces| RunningJobs {
            service: held.of.service.clone(),
            owner: held.of.owner.clone(),
            count: held.free + held.taken.len() as u64,
        };
        self.held.iter().map(count).collect()
    }

    /// Jobs that have their places and were not claimed yet.
    pub(super) fn taken(&self) -> Vec<JobId> {
        self.held.iter().flat_map(|held| held.taken.iter().copied()).collect()
    }

    /// A job takes a place.
    pub(super) fn take(
        &mut self,
        domain: &str,
        service: &str,
        owner: &Principal,
        job: JobId,
    ) -> Result<(), Fault> {
        self.lapse(Instant::now());
        let held =
            self.held.iter_mut().find(|held| held.is(domain, service, owner) && held.free > 0);
        let held = held.ok_or_else(|| {
            let what = format!(
                "no place of service {service} is reserved for this domain any more, or all are taken: \
                 reserve them first, and start the ranks before the reservation lapses (reservation_lease)"
            );
            Fault::new(FaultCode::InvalidValue, what).parameter("domain")
        })?;
        held.free -= 1;
        held.taken.push(job);
        let (domain, owner) = (domain.to_owned(), owner.clone());
        self.accepting.push(AcceptingRank { job, domain, owner, is_ended: false });
        Ok(())
    }

    /// A job that took a place is in the store, or is refused and leaves the place to another; whether its domain was ended
    /// meanwhile.
    pub(super) fn accepted(&mut self, job: JobId, is_refused: bool) -> bool {
        let at = self.accepting.iter().position(|rank| rank.job == job);
        let is_ended = at.is_some_and(|at| self.accepting.swap_remove(at).is_ended);
        if is_refused {
            let held = self.held.iter_mut().find(|held| held.taken.contains(&job));
            if let Some(held) = held.filter(|_| !is_ended) {
                held.free += 1;
            }
            self.forget(job);
        }
        is_ended
    }

    /// A job needs its place no more: it runs, or never will.
    pub(super) fn forget(&mut self, job: JobId) {
        for held in &mut self.held {
            held.taken.retain(|taken| *taken != job);
        }
    }

    fn give_back(&mut self, which: impl Fn(&HeldPlaces) -> bool) -> u64 {
        let its = self.held.iter_mut().filter(|held| which(held));
        its.map(|held| std::mem::take(&mut held.free)).sum()
    }
}

impl Engine {
    /// Holds places for the ranks of a domain; for how long.
    ///
    /// # Errors
    /// `QueueFull` with `retryAfter` if they can't be had now, `InvalidValue` if never; what the disk says.
    pub async fn reserve(&self, wanted: Reservation) -> Result<Duration, Fault> {
        let shared = &self.shared;
        if !shared.is_working() {
            let what = "this process of the server ends with its answer, and can hold no places: ranks need `fishplate serve`";
            return Err(Fault::new(FaultCode::NotSupported, what));
        }
        shared.check_room().await?;
        shared.can_ever_have(&wanted)?;
        // One at a time: what one is refused, another has.
        let _turn = shared.reserving.lock().await;
        let lease = shared.settings.reservation_lease;
        let now = Instant::now();
        let unchecked = {
            let mut places = lock(&shared.places);
            places.lapse(now);
            if places
                .held
                .iter()
                .any(|held| held.is(&wanted.domain, &wanted.service, &wanted.owner))
            {
                let what = "places of this service are reserved for this domain already";
                return Err(Fault::new(FaultCode::InvalidValue, what).parameter("domain"));
            }
            // Held before anything is counted, so that nothing is claimed meanwhile.
            let (of, free) = (wanted.clone(), u64::from(wanted.places));
            places.held.push(HeldPlaces { of, free, taken: Vec::new(), until: now + lease });
            UncheckedPlaces { engine: self, of: Some(&wanted) }
        };
        // In the turn of those who write: a claim before is seen, and one after sees what is held. What is held is read
        // there too, or a rank that begins meanwhile would count nowhere.
        let places = Arc::clone(&shared.places);
        let busy = shared.store.write(false, move |t| {
            let mut busy = t.running()?;
            let taken = lock(&places).taken();
            for job in taken {
                // A rank that was claimed is among those that run; who claimed it may not have come to tell.
                if t.find(job)?.is_some_and(|record| record.state == JobState::Running) {
                    lock(&places).forget(job);
                }
            }
            busy.extend(lock(&places).held(Instant::now()));
            Ok(busy)
        });
        shared.has_places(&wanted, &busy.await.map_err(|error| storage_fault(&error))?)?;
        unchecked.keep();
        Ok(lease)
    }

    /// The services of which places are held for a domain.
    pub fn reserved_services(&self, domain: &str, owner: &Principal) -> Vec<String> {
        let places = lock(&self.shared.places);
        let its =
            places.held.iter().filter(|held| held.of.domain == domain && held.of.owner == *owner);
        its.map(|held| held.of.service.clone()).collect()
    }

    /// Gives back what is held for a domain and not taken; how many places that is. Its ranks that are being accepted
    /// are killed as soon as they are in the store: nobody finds them there before.
    pub fn end_domain(&self, domain: &str, owner: &Principal) -> u64 {
        for rank in &mut lock(&self.shared.places).accepting {
            rank.is_ended |= rank.domain == domain && rank.owner == *owner;
        }
        self.give_back(|held| held.of.domain == domain && held.of.owner == *owner)
    }

    fn give_back(&self, which: impl Fn(&HeldPlaces) -> bool) -> u64 {
        let count = lock(&self.shared.places).give_back(which);
        if count > 0 {
            let _ = self.shared.orders.send(DriverCommand::Claim);
        }
        count
    }
}

/// Places that are held though nobody knows yet whether they can be; given back unless they are kept, also if who wants
/// them hangs up.
struct UncheckedPlaces<'a> {
    engine: &'a Engine,
    of: Option<&'a Reservation>,
}

impl UncheckedPlaces<'_> {
    fn keep(mut self) {
        self.of = None;
    }
}

impl Drop for UncheckedPlaces<'_> {
    fn drop(&mut self) {
        if let Some(of) = self.of {
            self.engine.give_back(|held| held.is(&of.domain, &of.service, &of.owner));
        }
    }
}

/// How many jobs of a kind may run at once.
struct PlaceBound {
    name: &'static str,
    whose: &'static str,
    most: u64,
    counts: fn(&Reservation, &RunningJobs) -> bool,
}

impl EngineInner {
    /// Gives back the places of ranks that ended without having been claimed here: another process may have ended them.
    pub(super) async fn forget_ended_ranks(&self) {
        let waiting: Vec<JobId> = {
            let places = lock(&self.places);
            let is_written = |job: &JobId| places.accepting.iter().all(|rank| rank.job != *job);
            places.taken().into_iter().filter(is_written).collect()
        };
        if waiting.is_empty() {
            return;
        }
        let ended = self.store.read(move |t| {
            let mut ended = Vec::new();
            for job in waiting {
                let waits =
                    |of: JobRecord| matches!(of.state, JobState::Fetching | JobState::Queued);
                if !t.find(job)?.is_some_and(waits) {
                    ended.push(job);
                }
            }
            Ok(ended)
        });
        match ended.await {
            Ok(ended) => ended.into_iter().for_each(|job| lock(&self.places).forget(job)),
            Err(error) => tracing::error!(%error, "it can't be seen which ranks have ended"),
        }
    }

    fn place_bounds(&self, wanted: &Reservation) -> impl Iterator<Item = PlaceBound> + use<> {
        let bounds = [
            PlaceBound {
                name: "max_running",
                whose: "of this server",
                most: self.settings.max_running.into(),
                counts: |_, _| true,
            },
            PlaceBound {
                name: "ranks",
                whose: "of this service",
                most: wanted.most_of_service.into(),
                counts: |wanted, of| of.service == wanted.service,
            },
        ];
        let most = self.quotas().of(wanted.owner.as_str()).running;
        let of_owner = most.map(|most| PlaceBound {
            name: "owner_running",
            whose: "of yours",
            most,
            counts: |wanted, of| of.owner == wanted.owner,
        });
        bounds.into_iter().chain(of_owner)
    }

    /// Whether no bound would be exceeded if nothing ran.
    fn can_ever_have(&self, wanted: &Reservation) -> Result<(), Fault> {
        let places = u64::from(wanted.places);
        let Some(bound) = self.place_bounds(wanted).find(|bound| places > bound.most) else {
            return Ok(());
        };
        let PlaceBound { name, whose, most, .. } = bound;
        let what = format!("{places} places are wanted, and {most} jobs {whose} may run at once");
        Err(Fault::new(FaultCode::InvalidValue, what).parameter("ranks").limit(name, most))
    }

    /// Whether no bound is exceeded, with all that runs and is held.
    fn has_places(&self, wanted: &Reservation, busy: &[RunningJobs]) -> Result<(), Fault> {
        for PlaceBound { name, whose, most, counts } in self.place_bounds(wanted) {
            let counted = busy.iter().filter(|of| counts(wanted, of));
            let busy: u64 = counted.map(|of| of.count).sum();
            if busy > most {
                // What is wanted is among them.
                let places = u64::from(wanted.places);
                let free = (most + places).saturating_sub(busy);
                let what = format!(
                    "{places} places are wanted, and of the {most} for jobs {whose} {free} are free now"
                );
                let fault = Fault::new(FaultCode::QueueFull, what).limit(name, most);
                return Err(fault.retry_after(RETRY));
            }
        }
        Ok(())
    }
}

//! Who works on which job: leases, and whose turn it is.

use fishplate_contract::Timestamp;
use rusqlite::params;

use super::rows::{claim, fetch_claim, id, signed, unsigned};
use super::sql::Sql;
use crate::process;
use crate::store::quota::QuotaPeriod;
use crate::store::turns::Turns;
use crate::store::{Claim, ClaimRequest, FetchClaim, FetchRequest, StoreError};

/// Claims a queued job; what says which one is `?1`.
const START: &str =
    "UPDATE jobs SET state = 'running', holder = ?2, fence = fence + 1, lease_until = ?3,
                   claimed_boot = ?4";
const STARTED: &str =
    "RETURNING id, service, directory, fence, handle, kill_requested, boot, owner,
                   claimed_boot";

/// The values of [`START`].
macro_rules! start_values {
    ($which:expr, $request:expr, $now:expr) => {
        params![
            $which,
            $request.holder,
            $now.after($request.lease).0,
            process::boot_of(&$request.holder)
        ]
    };
}
/// How many jobs of each owner run. The + has it look at those only, and not at all jobs, which stand in an index in the
/// order of their owners.
pub(super) const RUNNING: &str =
    "SELECT owner, count(*) FROM jobs WHERE state = 'running' GROUP BY +owner";

/// Jobs whose data is to be fetched, the oldest first: they too, and not all in the order of their numbers.
pub(super) const FETCHING: &str = "
    SELECT owner, number, holder, lease_until < ?1 FROM jobs WHERE state = 'fetching' ORDER BY +number";

impl Sql<'_> {
    pub(super) fn take_over(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>, StoreError> {
        let lapsed = self.rows(
            "SELECT number, holder FROM jobs WHERE state = 'running'
               AND (lease_until < ?1 OR holder <> ?2) ORDER BY number",
            params![self.now.0, request.holder],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
        )?;
        let mut claims = Vec::new();
        for (number, holder) in lapsed {
            let taken = self.row(
                "UPDATE jobs SET holder = ?2, fence = fence + 1, lease_until = ?3
                 WHERE number = ?1 AND (lease_until < ?4 OR ?5)
                 RETURNING id, service, directory, fence, handle, kill_requested, boot, owner,
                   claimed_boot",
                params![
                    number,
                    request.holder,
                    self.now.after(request.lease).0,
                    self.now.0,
                    process::is_dead(&holder),
                ],
                |row| claim(row, true),
            )?;
            claims.extend(taken);
        }
        Ok(claims)
    }

    pub(super) fn start_queued(
        &mut self,
        request: &ClaimRequest,
    ) -> Result<Vec<Claim>, StoreError> {
        let running = self.rows(
            "SELECT service, count(*) FROM jobs WHERE state = 'running' GROUP BY service",
            [],
            |row| Ok((row.get::<_, String>(0)?, unsigned(row.get(1)?))),
        )?;
        let all: u64 = running.iter().map(|(_, count)| count).sum();
        let held: u64 = request.reserved.iter().map(|held| held.count).sum();
        let mut room = u64::from(request.max_running).saturating_sub(all.saturating_add(held));
        let mut claims = Vec::new();
        // Each of these has one of the places that are held.
        for job in &request.first {
            let taken = self.row(
                &format!("{START} WHERE id = ?1 AND state = 'queued' {STARTED}"),
                start_values!(job.as_bytes(), request, self.now),
                |row| claim(row, false),
            )?;
            claims.extend(taken);
        }
        if room == 0 {
            return Ok(claims);
        }
        let resting = request.resting.len() as u64;
        let mut turns = self.waiting(request, room.saturating_add(resting))?;
        for (service, count) in running {
            turns.service_runs(&service, count);
        }
        for held in &request.reserved {
            turns.service_runs(&held.service, held.count);
            turns.runs(held.owner.as_str(), held.count);
        }
        let contended = turns.is_contended();
        while room > 0
            && let Some((owner, number)) = turns.next(self.now)
        {
            let taken = self.row(
                &format!("{START} WHERE number = ?1 {STARTED}"),
                start_values!(number, request, self.now),
                |row| claim(row, false),
            )?;
            if contended {
                self.execute(
                    "INSERT INTO owners VALUES (?1, ?2)
                     ON CONFLICT DO UPDATE SET served = excluded.served",
                    params![owner, self.now.0],
                )?;
            }
            claims.extend(taken);
            room -= 1;
        }
        Ok(claims)
    }

    /// The oldest queued jobs of each service and owner, so that a service with a long queue and no room does not hide
    /// another's, nor an owner's thousand jobs another's one.
    fn waiting(&self, request: &ClaimRequest, most: u64) -> Result<Turns<i64>, StoreError> {
        let mut turns = Turns::new();
        let mut last = (String::new(), String::new());
        loop {
            let next = self.row(
                "SELECT service, owner FROM jobs WHERE state = 'queued'
                   AND (service, owner) > (?1, ?2) ORDER BY service, owner LIMIT 1",
                params![last.0, last.1],
                |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
            )?;
            let Some((service, owner)) = next else { break };
            let oldest = self.rows(
                "SELECT number, id, max_running FROM jobs WHERE state = 'queued' AND service = ?1 AND owner = ?2
                 ORDER BY number LIMIT ?3",
                params![service, owner, signed(most)],
                |row| Ok((row.get::<_, i64>(0)?, id(row, 1)?, row.get(2)?)),
            )?;
            for (number, job, max_running) in oldest {
                if !request.resting.contains(&job) {
                    turns.wait((&service, &owner), unsigned(number), max_running, number);
                }
            }
            last = (service, owner);
        }
        let usage =
            |owner: &str, period: QuotaPeriod| self.read_owner_usage(owner, period.start(self.now));
        let bound = turns.bound_by(request, usage)?;
        if !bound && !turns.is_contended() {
            return Ok(turns);
        }
        let served = "SELECT owner, served FROM owners";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
        for (owner, count) in self.rows(RUNNING, [], row)? {
            turns.runs(&owner, unsigned(count));
        }
        for (owner, at) in self.rows(served, [], row)? {
            turns.was_served(&owner, Timestamp(at));
        }
        Ok(turns)
    }

    pub(super) fn start_fetching(
        &mut self,
        request: &FetchRequest,
    ) -> Result<Vec<FetchClaim>, StoreError> {
        let held = self.rows(
            "SELECT owner FROM jobs WHERE state = 'fetching' AND holder = ?1",
            [&request.holder],
            |row| row.get::<_, String>(0),
        )?;
        if held.len() >= request.most as usize {
            return Ok(Vec::new());
        }
        let fetching = self.rows(FETCHING, [self.now.0], |row| {
            let lapsed = row.get::<_, Option<bool>>(3)?.unwrap_or(false);
            Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, lapsed))
        })?;
        let free =
            |holder: &String, lapsed| lapsed || holder.is_empty() || process::is_dead(holder);
        let waiting = fetching
            .into_iter()
            .filter(|(_, _, holder, lapsed)| free(holder, *lapsed))
            .map(|(owner, number, ..)| (owner, number))
            .collect();
        let mut claims = Vec::new();
        for number in request.choose(waiting, held) {
            let taken = self.row(
                "UPDATE jobs SET holder = ?2, fence = fence + 1, lease_until = ?3
                 WHERE number = ?1 RETURNING id, owner, directory, fence",
                params![number, request.holder, self.now.after(request.lease).0],
                fetch_claim,
            )?;
            claims.extend(taken);
        }
        Ok(claims)
    }
}

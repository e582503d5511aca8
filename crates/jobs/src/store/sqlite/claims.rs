//! Who works on which job: leases, and whose turn it is.

use fishplate_contract::JobId;
use rusqlite::params;

use super::rows::{claim, fetch_claim, id, signed};
use super::sql::Sql;
use crate::process;
use crate::store::{Claim, ClaimRequest, FetchClaim, FetchRequest, StoreError};

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
        let running = self.count("SELECT count(*) FROM jobs WHERE state = 'running'", [])?;
        let mut room = u64::from(request.max_running).saturating_sub(running);
        let mut claims = Vec::new();
        if room == 0 {
            return Ok(claims);
        }
        let boot = process::boot_of(&request.holder);
        let resting = request.resting.len() as u64;
        for (number, job) in self.next_in_line(room.saturating_add(resting))? {
            if request.resting.contains(&job) {
                continue;
            }
            let taken = self.row(
                "UPDATE jobs SET state = 'running', holder = ?2, fence = fence + 1, lease_until = ?3,
                   claimed_boot = ?4
                 WHERE number = ?1
                   AND (SELECT count(*) FROM jobs AS other
                        WHERE other.state = 'running' AND other.service = jobs.service) < max_running
                 RETURNING id, service, directory, fence, handle, kill_requested, boot, owner,
                   claimed_boot",
                params![number, request.holder, self.now.after(request.lease).0, boot],
                |row| claim(row, false),
            )?;
            let Some(taken) = taken else { continue };
            claims.push(taken);
            room -= 1;
            if room == 0 {
                break;
            }
        }
        Ok(claims)
    }

    /// The oldest queued jobs, service by service, so that a service with a long queue and no room
    /// does not hide another's.
    fn next_in_line(&mut self, most: u64) -> Result<Vec<(i64, JobId)>, StoreError> {
        let mut numbers = Vec::new();
        let mut after = String::new();
        loop {
            let service = self.row(
                "SELECT service FROM jobs WHERE state = 'queued' AND service > ?1
                 ORDER BY service LIMIT 1",
                [&after],
                |row| row.get::<_, String>(0),
            )?;
            let Some(service) = service else { break };
            numbers.extend(self.rows(
                "SELECT number, id FROM jobs WHERE state = 'queued' AND service = ?1
                 ORDER BY number LIMIT ?2",
                params![service, signed(most)],
                |row| Ok((row.get::<_, i64>(0)?, id(row, 1)?)),
            )?);
            after = service;
        }
        numbers.sort_unstable();
        Ok(numbers)
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
        let fetching = self.rows(
            "SELECT owner, number, holder, lease_until < ?1 FROM jobs WHERE state = 'fetching'
             ORDER BY number",
            [self.now.0],
            |row| {
                let lapsed = row.get::<_, Option<bool>>(3)?.unwrap_or(false);
                Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, lapsed))
            },
        )?;
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

//! Data by reference as this server has it: its pool, its uploads, its sessions, and the resolver
//! that fetches from others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use fishplate_contract::interface::DATA;
use fishplate_contract::{
    Clock as _, Fault, FaultCode, JobState, Principal, SessionId, SystemClock, lock,
};
use fishplate_data::session::SessionError;
use fishplate_data::{Grant, GrantRequest, Lease, OwnerQuota, Pool, PoolError, Resolver, Sessions};
use fishplate_jobs::engine::{Engine, OwnerDisk, SessionJob};
use fishplate_jobs::store::UsageRecord;
use fishplate_jobs::store::usage::UsageAccumulator;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use tokio::task::spawn_blocking;

use crate::faces::data::Uploads;
use crate::faces::metrics::DataFigures;
use crate::spool::SpoolDirectory;

/// How often the sessions of jobs that run are used.
const USE_EVERY: Duration = Duration::from_secs(1);

/// How often the pool and the sessions are swept.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// How often the spool is: who was killed leaves large files there.
const SWEEP_SPOOL_EVERY: Duration = Duration::from_secs(10);

/// What of a name is written as it is in an address.
pub(crate) const IN_A_SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A transfer beside jobs. It is noted when it is dropped, however it ended, with the bytes that moved until then; not at
/// all, if none did.
#[derive(Debug)]
pub(crate) struct Transfer {
    data: Arc<Data>,
    owner: Principal,
    operation: &'static str,
    begun: Instant,
    /// Bytes that came.
    pub(crate) came: u64,
    /// Bytes that went.
    pub(crate) went: u64,
    /// How it ended; killed, if the other end left.
    pub(crate) state: JobState,
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.came + self.went == 0 {
            return;
        }
        let (owner, what) = (self.owner.clone(), (DATA, self.operation));
        let (took, now) = (self.begun.elapsed(), SystemClock.now());
        let record = UsageRecord::without_job(owner, what, self.state, took, now);
        lock(&self.data.transfers).add(UsageRecord {
            bytes_in: self.came,
            bytes_out: self.went,
            ..record
        });
    }
}

/// What owners may have on the disk of which the pool is a part: an engine tells, which is made after the pool.
#[derive(Debug, Default)]
pub(crate) struct PoolQuota(OnceLock<OwnerDisk>);

impl PoolQuota {
    /// From now on this engine tells.
    pub(crate) fn told_by(&self, engine: &Engine) {
        let _ = self.0.set(engine.owner_disk());
    }
}

impl OwnerQuota for PoolQuota {
    fn quota(&self, owner: &Principal) -> Option<u64> {
        self.0.get()?.quota(owner)
    }

    fn elsewhere(&self, owner: &Principal) -> u64 {
        self.0.get().map_or(0, |disk| disk.job_bytes(owner))
    }
}

/// Data by reference, as one process has it.
#[derive(Debug)]
pub struct Data {
    /// Where data rests.
    pub pool: Pool,
    /// Uploads that are under way; `None`: nobody may upload.
    pub uploads: Option<Uploads>,
    /// Spaces that jobs share; `None`: there are none.
    pub sessions: Option<Sessions>,
    /// Gets what references stand for.
    pub resolver: Resolver,
    /// Jobs that run in sessions.
    pub(crate) working: Mutex<Vec<SessionJob>>,
    /// Uploads, and what was read of grants, until the engine has noted them.
    pub(crate) transfers: Mutex<UsageAccumulator>,
    /// What owners may have on the disk, once there is an engine.
    pub(crate) owner_disk: Arc<PoolQuota>,
    /// What is counted.
    pub figures: DataFigures,
    /// What every address that we give begins with.
    pub origin: String,
    /// How long somebody waits for a digest that is being computed.
    pub digest_wait: Duration,
    /// Names of the variables that hold secrets of transfers: no program gets them.
    pub(crate) secrets: BTreeSet<String>,
}

impl Data {
    /// Gives data an address. It ends with the name, if there is one.
    ///
    /// # Errors
    /// As [`Pool::grant`].
    pub fn grant(
        &self,
        lease: &Lease,
        owner: &Principal,
        name: &str,
        media_type: &str,
    ) -> Result<Grant, PoolError> {
        let request = GrantRequest {
            origin: self.origin.clone(),
            name: name.to_owned(),
            media_type: media_type.to_owned(),
            life: None,
        };
        self.pool.grant(lease, owner, request)
    }

    /// The address of an upload.
    pub(crate) fn upload_url(&self, id: &str) -> String {
        format!("{}/data/uploads/{id}", self.origin)
    }

    /// The address of a session's file. It does not tell which session that is: who is given one
    /// file can't get at the others, nor close the session.
    ///
    /// # Errors
    /// As [`Sessions::token`].
    pub fn session_file_url(
        &self,
        sessions: &Sessions,
        id: &SessionId,
        name: &str,
    ) -> Result<String, SessionError> {
        let token = sessions.token(id, name)?;
        let name = percent_encoding::utf8_percent_encode(name, IN_A_SEGMENT);
        Ok(format!("{}/session/{token}/{name}", self.origin))
    }

    /// Removes what nobody may have any more, now and then, and keeps the sessions of jobs that run,
    /// until it is dropped.
    pub async fn housekeeping(self: Arc<Self>, engine: Engine) {
        match engine.in_sessions().await {
            // Jobs that were accepted before this process was there.
            Ok(found) => lock(&self.working).extend(found),
            Err(fault) => tracing::error!(%fault, "what runs in sessions can't be told"),
        }
        let (mut swept, mut swept_spool): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            let due = swept.is_none_or(|at| at.elapsed() >= SWEEP_EVERY);
            if due {
                swept = Some(Instant::now());
            }
            if swept_spool.is_none_or(|at| at.elapsed() >= SWEEP_SPOOL_EVERY) {
                swept_spool = Some(Instant::now());
                let directory = engine.settings().data.clone();
                let sweep = move || SpoolDirectory::sweep(&directory);
                if let Ok(Err(error)) = spawn_blocking(sweep).await {
                    tracing::warn!(%error, "the spool can't be swept");
                }
            }
            if due || !lock(&self.working).is_empty() {
                let used = self.used_sessions(&engine).await;
                let data = Arc::clone(&self);
                let work = move || {
                    data.touch(&used);
                    if due {
                        data.sweep();
                    }
                };
                if let Err(error) = spawn_blocking(work).await {
                    tracing::error!(%error, "the pool was not swept");
                }
            }
            self.account(&engine);
            tokio::time::sleep(USE_EVERY).await;
        }
    }

    /// A transfer beside jobs that begins: whose, and what it is.
    pub(crate) fn transfer(
        self: &Arc<Self>,
        owner: &Principal,
        operation: &'static str,
    ) -> Transfer {
        Transfer {
            data: Arc::clone(self),
            owner: owner.clone(),
            operation,
            begun: Instant::now(),
            came: 0,
            went: 0,
            state: JobState::Killed,
        }
    }

    /// Has the engine note the transfers there were.
    pub(crate) fn account(&self, engine: &Engine) {
        engine.account_all(std::mem::take(&mut *lock(&self.transfers)));
    }

    /// Notes a job in a session: as long as it has not ended, the session is in use.
    pub(crate) fn works(&self, job: SessionJob) {
        lock(&self.working).push(job);
    }

    /// Of each session in which jobs run, one that has not ended. (The others are looked at when it has.)
    async fn used_sessions(&self, engine: &Engine) -> Vec<SessionJob> {
        let working = std::mem::take(&mut *lock(&self.working));
        let (mut used, mut others) = (Vec::<SessionJob>::new(), Vec::new());
        for it in working {
            if used.iter().any(|known| known.session == it.session) {
                others.push(it);
            } else if engine.running(&it.owner, &it.service, it.job).await.unwrap_or(false) {
                used.push(it);
            }
        }
        let mut working = lock(&self.working);
        working.extend(others);
        working.extend(used.iter().cloned());
        used
    }

    /// Has the sessions in which jobs run begin to idle anew.
    fn touch(&self, used: &[SessionJob]) {
        let Some(sessions) = &self.sessions else { return };
        for it in used {
            // A session that was closed under its job is no concern of ours.
            let _ = sessions.touch(&it.owner, &it.session);
        }
    }

    fn sweep(&self) {
        if let Err(error) = self.pool.sweep() {
            tracing::warn!(%error, "the pool can't be swept");
        }
        if let Some(sessions) = &self.sessions
            && let Err(error) = sessions.sweep_idle(&|_| false)
        {
            tracing::warn!(%error, "sessions can't be swept");
        }
        if let Some(uploads) = &self.uploads
            && let Err(error) = uploads.sweep(self.pool.settings().incoming_life)
        {
            tracing::warn!(%error, "uploads can't be swept");
        }
    }
}

/// Runs what may wait for the disk beside the runtime.
///
/// # Errors
/// What it says, as a fault.
pub async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Fault>
where
    T: Send + 'static,
    E: Into<Fault> + Send + 'static,
{
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(Into::into),
        Err(error) => {
            tracing::error!(%error, "work beside the runtime was not done");
            Err(Fault::new(FaultCode::Internal, "the server is ending; try again"))
        }
    }
}

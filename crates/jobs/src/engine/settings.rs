//! What an administrator may set of the engine.

use std::path::PathBuf;
use std::time::Duration;

use fishplate_contract::limits::DEFAULTS;

use crate::store::quota::{OwnerLimits, QuotaPeriod};

/// What an administrator may set. Each has its row in [`fishplate_contract::limits`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory that holds all state; see ARCHITECTURE.md.
    pub data: PathBuf,
    /// How many jobs may run at once in the whole data directory.
    pub max_running: u32,
    /// How many jobs of one service may wait.
    pub max_queued: u32,
    /// What one owner may have, unless [`super::Engine::set_quotas`] says otherwise.
    pub owner: OwnerLimits,
    /// In which time processor time and traffic of owners are counted.
    pub quota_period: Duration,
    /// Bytes of plans of waiting jobs that are kept in memory; those of more are read from the store.
    pub plan_memory: u64,
    /// How long an ended job is kept.
    pub retention: Duration,
    /// How many ended jobs are kept.
    pub keep_jobs: u64,
    /// How long it is known what was used.
    pub usage_retention: Duration,
    /// Records of what was used that are kept one by one.
    pub usage_records: u64,
    /// Bytes that jobs may occupy, ended or not, before new ones are refused.
    pub disk_quota: Option<u64>,
    /// Bytes that must stay free on the file system of the data directory.
    pub disk_reserve: u64,
    /// For how long a claim lasts unless it is renewed.
    pub lease: Duration,
    /// How long places for ranks are held until ranks take them.
    pub reservation_lease: Duration,
    /// How often starts are observed even if the executor tells of no change.
    pub observe_every: Duration,
    /// How many jobs this process fetches data for at once.
    pub max_fetching: u32,
    /// How many of those may be one owner's.
    pub owner_fetching: u32,
    /// Bytes from which on an output goes by reference if its form is `auto`.
    pub reference_size: u64,
    /// Bytes from which on an input that nobody writes to is linked into a workspace; a smaller one
    /// is copied.
    pub link_size: u64,
    /// What a directory that a caller sends may hold.
    pub directories: fishplate_formats::archive::ArchiveLimits,
}

impl Settings {
    /// What one owner may have, in which days.
    pub fn owner_limits(&self) -> OwnerLimits {
        OwnerLimits { period: QuotaPeriod::new(self.quota_period), ..self.owner }
    }

    /// The defaults for this data directory and this machine.
    pub fn new(data: PathBuf) -> Self {
        Self {
            data,
            max_running: DEFAULTS.max_running.here(),
            max_queued: DEFAULTS.max_queued,
            owner: OwnerLimits::default(),
            quota_period: DEFAULTS.quota_period,
            plan_memory: DEFAULTS.plan_memory,
            retention: DEFAULTS.retention,
            keep_jobs: DEFAULTS.keep_jobs,
            usage_retention: DEFAULTS.usage_retention,
            usage_records: DEFAULTS.usage_records,
            disk_quota: DEFAULTS.disk_quota,
            disk_reserve: DEFAULTS.disk_reserve,
            lease: DEFAULTS.lease,
            reservation_lease: DEFAULTS.reservation_lease,
            observe_every: Duration::from_millis(500),
            max_fetching: DEFAULTS.max_fetching,
            owner_fetching: DEFAULTS.owner_fetching,
            reference_size: DEFAULTS.reference_size,
            link_size: DEFAULTS.link_size,
            directories: fishplate_formats::archive::ArchiveLimits::default(),
        }
    }
}

//! A request of the watchdog's own, on a connection of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use super::client::Client;
use super::plan::{LoadPlan, PROBE};
use super::prepared::Prepared;
use super::run::LoadError;
use crate::random::{Random, Stream};
use crate::record::Outcome;

/// A request by which a server is asked whether it lives: one of a load's operations, or a GET.
pub struct ProbeRequest {
    load: Prepared,
    asked: AtomicU64,
}

impl ProbeRequest {
    /// The request of this operation of a plan, or of its first.
    ///
    /// # Errors
    /// There is no such operation, or it can't be made ready.
    pub async fn operation(plan: &LoadPlan, name: Option<&str>) -> Result<Self, LoadError> {
        let found = plan.operations.iter().find(|it| name.is_none_or(|name| it.name == name));
        let found = found.ok_or_else(|| LoadError::Operation(name.unwrap_or("").to_owned()))?;
        let mut operation = found.clone();
        operation.read_rate = None;
        operation.send_part = None;
        Self::new(LoadPlan { operations: vec![operation], ..plan.clone() }).await
    }

    /// A GET of a path on the host of `url`, to be answered by 200; `ca` are certificates that are trusted, as PEM,
    /// instead of the system's.
    ///
    /// # Errors
    /// The address can't be made ready.
    pub async fn path(url: &str, path: &str, ca: Option<String>) -> Result<Self, LoadError> {
        Self::new(LoadPlan::get(url, path, ca)).await
    }

    async fn new(mut plan: LoadPlan) -> Result<Self, LoadError> {
        plan.workload.keep_alive = false;
        plan.workload.cookies = false;
        Ok(Self { load: Prepared::new(&plan).await?, asked: AtomicU64::new(0) })
    }

    /// Asks once. It may take ten deadlines: drop it when it takes too long.
    ///
    /// # Errors
    /// What was wrong, in words.
    pub async fn ask(&self) -> Result<(), String> {
        let number = PROBE + self.asked.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::new(self.load.seed, Stream::Request(number));
        let mut client = Client::new(u32::MAX, &self.load);
        let ended = client.perform(&self.load, 0, number, &mut random).await;
        let ended = ended.map_err(|error| error.to_string())?;
        match ended.outcome {
            Outcome::Right => Ok(()),
            _ => Err(ended.said.unwrap_or_default()),
        }
    }
}

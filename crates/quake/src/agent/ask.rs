//! The request by which the agent of the system asks it whether it lives: one of the load's, or a GET.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::audit::UnloggedRequests;
use crate::experiment::Probe;
use crate::load::{LoadError, LoadPlan, ProbeRequest};
use crate::probe::{self, Ask};

/// So many ask at once, at most: who repeats, and who waits until it is ready.
const ASKING: u32 = 8;

/// Asks a system, once it is known with what.
#[derive(Clone, Debug)]
pub(super) struct Asker(Arc<Inside>);

struct Inside {
    /// As the experiment has it.
    probe: Probe,
    /// The system's address.
    url: String,
    request: watch::Sender<Option<Arc<ProbeRequest>>>,
    /// How often it may have been reached,
    asked: AtomicU64,
    /// and how often it was answered rightly.
    answered: AtomicU64,
    /// One for each that asks; closed when there is nothing more to be asked.
    permits: Semaphore,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker").field("probe", &self.probe).finish_non_exhaustive()
    }
}

impl Asker {
    pub(super) fn new(probe: Probe, url: &str) -> Self {
        Self(Arc::new(Inside {
            probe,
            url: url.to_owned(),
            request: watch::Sender::new(None),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            permits: Semaphore::new(ASKING as usize),
        }))
    }

    /// With a request of this load it is asked from now on, or with the path that the experiment names.
    pub(super) async fn set(&self, plan: LoadPlan) -> Result<(), LoadError> {
        let Inside { probe, url, request, .. } = &*self.0;
        let made = match &probe.path {
            Some(path) => ProbeRequest::path(url, path, plan.ca).await?,
            None => ProbeRequest::operation(&plan, probe.operation.as_deref()).await?,
        };
        request.send_replace(Some(Arc::new(made)));
        Ok(())
    }

    /// How often it is to be asked.
    pub(super) fn every(&self) -> Duration {
        self.0.probe.every
    }

    /// Asks no more, once whoever asks has its answer; what became of those that were the load's requests.
    pub(super) async fn finish(&self) -> UnloggedRequests {
        if self.0.permits.acquire_many(ASKING).await.is_ok() {
            self.0.permits.close();
        }
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (asked, done) = (count(&self.0.asked), count(&self.0.answered));
        match self.0.probe.path {
            Some(_) => UnloggedRequests::default(),
            None => UnloggedRequests { done, unknown: asked.saturating_sub(done) },
        }
    }

    /// Asks once: whether it was answered rightly.
    pub(super) fn ask(&self) -> Ask {
        let asker = self.clone();
        Arc::new(move || {
            let asker = asker.clone();
            Box::pin(async move { asker.ask_once().await })
        })
    }

    async fn ask_once(&self) -> Result<(), String> {
        let _permit = self.0.permits.acquire().await.map_err(|_| "it is asked no more")?;
        let request = self.0.request.borrow().clone();
        let request = request.ok_or("it is not known yet with what to ask")?;
        // If this is dropped, because it took too long, it may have been done nevertheless.
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        let asked = request.ask().await;
        match &asked {
            Ok(()) => self.0.answered.fetch_add(1, Ordering::Relaxed),
            Err(said) if probe::is_unreachable(said) => {
                self.0.asked.fetch_sub(1, Ordering::Relaxed)
            }
            Err(_) => 0,
        };
        asked
    }
}

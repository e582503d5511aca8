//! The host in use: a reload puts another one in its place, and a server that stops takes no more calls.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode};
use tokio::sync::watch;

use crate::host::Host;

/// When it is worth trying again where a server has stopped: as a rule another one has started then.
const RETRY_STOPPED: Duration = Duration::from_secs(5);

/// The host that answers the next request.
#[derive(Debug)]
pub struct CurrentHost {
    host: RwLock<Arc<Host>>,
    stopping: watch::Sender<bool>,
}

impl CurrentHost {
    /// This one, which takes calls.
    pub fn new(host: Arc<Host>) -> Arc<Self> {
        Arc::new(Self { host: RwLock::new(host), stopping: watch::Sender::new(false) })
    }

    /// The host.
    pub fn get(&self) -> Arc<Host> {
        Arc::clone(&self.host.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has another one answer from now on. What is being answered goes on with the old one.
    pub fn replace(&self, host: Arc<Host>) {
        *self.host.write().unwrap_or_else(PoisonError::into_inner) = host;
    }

    /// Takes no more calls from now on. Nobody waits for browsers that watch jobs: they come back.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
        self.get().watches.close();
    }

    /// Waits until it takes no more calls.
    pub(crate) async fn stopped(&self) {
        // It can't end before this, which holds the sender.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// # Errors
    /// `Unavailable`, if it takes no more calls.
    pub(crate) fn admit(&self) -> Result<(), Fault> {
        if !*self.stopping.borrow() {
            return Ok(());
        }
        let message = "this server is being stopped or started anew, and nothing was begun; try again in moments";
        Err(Fault::new(FaultCode::Unavailable, message).retry_after(RETRY_STOPPED))
    }
}

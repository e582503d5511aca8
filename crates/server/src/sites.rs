//! Sites that nobody can dial: their servers have dialled this one, their relay, which passes on what others want of them
//! (docs/decisions/0025).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::OnUpgrade;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;

use crate::faces::metrics::Metrics;
use crate::faces::passage::PassedBody;

/// When it is worth trying again where a site is not connected.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The sites of a relay.
#[derive(Debug, Default)]
pub struct Sites(Mutex<BTreeMap<String, Site>>);

#[derive(Debug, Default)]
struct Site {
    /// The process that is there.
    instance: String,
    /// Connections that nobody uses yet, the newest last.
    idle: Vec<SiteConnection>,
    arrived: Arc<Notify>,
}

/// A connection to a site's server, for one request.
#[derive(Debug)]
pub(crate) struct SiteConnection {
    pub(crate) sender: SendRequest<PassedBody>,
    /// What it is given is kept until the connection has ended, or is none of HTTP any more.
    hold: oneshot::Sender<OwnedSemaphorePermit>,
}

impl SiteConnection {
    /// It is the one of several that are in use, as long as it speaks HTTP.
    pub(crate) fn keep(self, turn: OwnedSemaphorePermit) -> SendRequest<PassedBody> {
        // One that has ended needs none.
        let _ = self.hold.send(turn);
        self.sender
    }
}

impl Sites {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Site>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process may have a connection more for a site.
    ///
    /// # Errors
    /// `Unavailable`, if another one is that site; `QueueFull`.
    pub(crate) fn admit(&self, name: &str, instance: &str, most: usize) -> Result<(), Fault> {
        let mut all = self.lock();
        let site = all.entry(name.to_owned()).or_default();
        site.idle.retain(|connection| !connection.sender.is_closed());
        if !site.idle.is_empty() && site.instance != instance {
            let what = format!("site {name} is connected already, by another server");
            return Err(Fault::new(FaultCode::Unavailable, what).retry_after(ASK_AGAIN));
        }
        if site.idle.len() >= most {
            let what = format!("site {name} has {most} connections that nobody uses");
            let fault = Fault::new(FaultCode::QueueFull, what).limit("site_idle", most as u64);
            return Err(fault.retry_after(ASK_AGAIN));
        }
        instance.clone_into(&mut site.instance);
        Ok(())
    }

    /// Takes a connection of a site, once it is one.
    pub(crate) async fn enter(
        self: Arc<Self>,
        name: String,
        upgrade: OnUpgrade,
        metrics: Arc<Metrics>,
    ) {
        let connected = async {
            let stream = upgrade.await?;
            http1::handshake::<_, PassedBody>(stream).await
        };
        let (sender, connection) = match connected.await {
            Ok(connected) => connected,
            Err(error) => {
                tracing::debug!(site = name, %error, "a connection of a site did not come about");
                return;
            }
        };
        let (hold, held) = oneshot::channel();
        let arrived = {
            let mut all = self.lock();
            let site = all.entry(name.clone()).or_default();
            site.idle.push(SiteConnection { sender, hold });
            Arc::clone(&site.arrived)
        };
        arrived.notify_one();
        let count = metrics.site(&name);
        count.inc();
        let ended = connection.with_upgrades().await;
        count.dec();
        drop(held);
        if let Err(error) = ended {
            tracing::debug!(site = name, %error, "a connection of a site broke");
        }
        let mut all = self.lock();
        let idle = all.get_mut(&name).map(|site| &mut site.idle);
        idle.into_iter().for_each(|idle| idle.retain(|one| !one.sender.is_closed()));
    }

    /// A connection to a site that was here, as soon as there is one that nobody uses.
    ///
    /// # Errors
    /// `Unavailable`, at once if it never was here, else after `patience`.
    pub(crate) async fn connection(
        &self,
        name: &str,
        patience: Duration,
    ) -> Result<SiteConnection, Fault> {
        let unavailable = || {
            let what = format!("site {name} is not connected to this server now");
            Fault::new(FaultCode::Unavailable, what).retry_after(ASK_AGAIN)
        };
        let arrived = self.lock().get(name).map(|site| Arc::clone(&site.arrived));
        let arrived = arrived.ok_or_else(unavailable)?;
        let next = async {
            loop {
                if let Some(connection) = self.pop(name) {
                    return connection;
                }
                arrived.notified().await;
            }
        };
        timeout(patience, next).await.map_err(|_| unavailable())
    }

    fn pop(&self, name: &str) -> Option<SiteConnection> {
        let mut all = self.lock();
        let idle = &mut all.get_mut(name)?.idle;
        // The newest is the likeliest to be there still.
        std::iter::from_fn(|| idle.pop()).find(|connection| !connection.sender.is_closed())
    }
}

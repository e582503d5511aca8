//! Sites that nobody can dial: their servers have dialled this one, their relay, which passes on what others want of them
//! (docs/decisions/0025).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::faces::metrics::Metrics;
use crate::faces::passage::{PassError, PassedBody};
use crate::settings::Settings;

/// When it is worth trying again where a site is not connected.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The sites of a relay.
#[derive(Debug, Default)]
pub struct Sites(Mutex<BTreeMap<String, Site>>);

#[derive(Debug)]
struct Site {
    /// The process that is there.
    instance: String,
    /// Its connections: those that come, that wait, and that are in use.
    registered: usize,
    /// Connections that nobody uses yet, the newest last.
    idle: Vec<SiteConnection>,
    arrived: Arc<Notify>,
    /// Those that may be in use at once.
    permits: Arc<Semaphore>,
    most: usize,
}

/// A connection to a site's server, for one request.
#[derive(Debug)]
pub(crate) struct SiteConnection {
    pub(crate) sender: SendRequest<PassedBody>,
    /// Its site has it until this is dropped; what it is given is kept until the connection has ended.
    pub(crate) hold: oneshot::Sender<OwnedSemaphorePermit>,
}

/// A process is a site, with one connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    sites: Arc<Sites>,
    site: String,
    metrics: Arc<Metrics>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(site) = self.sites.lock().get_mut(&self.site) {
            site.registered -= 1;
            self.metrics.site(&self.site, site.registered);
        }
    }
}

impl Sites {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Site>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a process the site, with a connection more, which is to come.
    ///
    /// # Errors
    /// `Unavailable`, if another one is that site; `QueueFull`.
    pub(crate) fn register(
        self: &Arc<Self>,
        name: &str,
        instance: &str,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> Result<Registration, Fault> {
        let (mut all, most) = (self.lock(), settings.site_idle);
        let site = all.entry(name.to_owned()).or_insert_with(|| Site {
            instance: String::new(),
            registered: 0,
            idle: Vec::new(),
            arrived: Arc::default(),
            permits: Arc::new(Semaphore::new(settings.site_connections)),
            most: settings.site_connections,
        });
        site.idle.retain(|connection| !connection.sender.is_closed());
        if site.registered > 0 && site.instance != instance {
            let what = format!("site {name} is connected already, by another server");
            return Err(Fault::new(FaultCode::Unavailable, what).retry_after(ASK_AGAIN));
        }
        if site.idle.len() >= most {
            let what = format!("site {name} has {most} connections that nobody uses");
            let fault = Fault::new(FaultCode::QueueFull, what).limit("site_idle", most as u64);
            return Err(fault.retry_after(ASK_AGAIN));
        }
        instance.clone_into(&mut site.instance);
        site.registered += 1;
        metrics.site(name, site.registered);
        let (sites, metrics) = (Arc::clone(self), Arc::clone(metrics));
        Ok(Registration { sites, site: name.to_owned(), metrics })
    }

    /// A connection to a site that was here, as soon as there is one that nobody uses, and the permit to use it.
    ///
    /// # Errors
    /// `Unavailable`, at once if it is not here, else after `wait`; `QueueFull`, if too many of its connections are in use.
    pub(crate) async fn connection(
        &self,
        name: &str,
        wait: Duration,
    ) -> Result<(SiteConnection, OwnedSemaphorePermit), Fault> {
        let unavailable = || {
            let what = format!("site {name} is not connected to this server now");
            Fault::new(FaultCode::Unavailable, what).retry_after(ASK_AGAIN)
        };
        let arrived = self.lock().get(name).map(|site| Arc::clone(&site.arrived));
        let arrived = arrived.ok_or_else(unavailable)?;
        let next = async {
            loop {
                if let Some(connection) = self.pop(name)? {
                    return Ok(connection);
                }
                arrived.notified().await;
            }
        };
        timeout(wait, next).await.unwrap_or_else(|_| Err(unavailable()))
    }

    /// Has a request answered, over this connection of the site, or over the next if this one had ended before anything of it was sent.
    /// (That two ends of a connection do not know it at the same time is why.)
    ///
    /// # Errors
    /// As [`Sites::connection`], or of the connection.
    pub(crate) async fn send(
        &self,
        name: &str,
        wait: Duration,
        over: &mut (SiteConnection, OwnedSemaphorePermit),
        mut request: Request<PassedBody>,
    ) -> Result<Response<Incoming>, PassError> {
        loop {
            // Whether it is ready or has ended, the next call tells.
            let _ = over.0.sender.ready().await;
            let mut error = match over.0.sender.try_send_request(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            request = error.take_message().ok_or_else(|| error.into_error())?;
            *over = self.connection(name, wait).await?;
        }
    }

    fn pop(&self, name: &str) -> Result<Option<(SiteConnection, OwnedSemaphorePermit)>, Fault> {
        let mut all = self.lock();
        let Some(site) = all.get_mut(name) else { return Ok(None) };
        let permit = Arc::clone(&site.permits).try_acquire_owned().map_err(|_| {
            let most = site.most;
            let what = format!("site {name} has {most} connections in use");
            let fault = Fault::new(FaultCode::QueueFull, what);
            fault.limit("site_connections", most as u64).retry_after(ASK_AGAIN)
        })?;
        // The newest is the likeliest to be there still.
        let mut newest = std::iter::from_fn(|| site.idle.pop());
        let open = newest.find(|connection| !connection.sender.is_closed());
        Ok(open.map(|connection| (connection, permit)))
    }

    /// Forgets a site that has no connection, and for which nobody waits.
    fn forget(&self, name: &str, metrics: &Metrics) {
        let mut all = self.lock();
        let is_gone = |site: &Site| site.registered == 0 && Arc::strong_count(&site.arrived) == 1;
        if all.get(name).is_some_and(is_gone) {
            all.remove(name);
            metrics.forget_site(name);
        }
    }
}

impl Registration {
    /// Takes the connection, once it is one; its site is forgotten some time, `wait`, after its last one.
    pub(crate) async fn enter(self, upgrade: OnUpgrade, wait: Duration) {
        if let Err(error) = self.serve(upgrade).await {
            tracing::debug!(site = self.site, %error, "a connection of a site broke");
        }
        let (sites, name, metrics) =
            (Arc::clone(&self.sites), self.site.clone(), Arc::clone(&self.metrics));
        drop(self);
        sleep(wait).await;
        sites.forget(&name, &metrics);
    }

    /// Until the connection has ended, whatever it has become.
    async fn serve(&self, upgrade: OnUpgrade) -> hyper::Result<()> {
        let (sender, connection) = http1::handshake::<_, PassedBody>(upgrade.await?).await?;
        let (hold, held) = oneshot::channel();
        let arrived = self.sites.lock().get_mut(&self.site).map(|site| {
            site.idle.push(SiteConnection { sender, hold });
            Arc::clone(&site.arrived)
        });
        arrived.inspect(|arrived| arrived.notify_one());
        let ended = connection.with_upgrades().await;
        if let Some(site) = self.sites.lock().get_mut(&self.site) {
            site.idle.retain(|one| !one.sender.is_closed());
        }
        // One to a rank is no more one of HTTP, and in use.
        let _ = held.await;
        ended
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::faces::metrics::DataFigures;
    use crate::faces::passage::nothing;

    #[tokio::test]
    async fn a_request_that_was_not_begun_goes_over_the_next_connection() {
        const WAIT: Duration = Duration::from_secs(60);
        let (sites, metrics) =
            (Arc::new(Sites::default()), Arc::new(Metrics::new(&DataFigures::default())));
        let settings = Settings::new("http://relay.example");
        let _registration = sites.register("berlin", "one", &settings, &metrics).unwrap();
        let mut servers = Vec::new();
        for _ in 0..2 {
            let (near, far) = duplex(4096);
            let (sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
            tokio::spawn(connection);
            let (hold, _) = oneshot::channel();
            let mut all = sites.lock();
            all.get_mut("berlin").unwrap().idle.push(SiteConnection { sender, hold });
            servers.push(far);
        }
        let mut over = sites.connection("berlin", WAIT).await.unwrap();
        over.0.sender.ready().await.unwrap();
        // The newest ends, and that is not known here yet.
        servers.pop();
        let request = Request::builder().uri("/x").body(nothing()).unwrap();
        let mut other = servers.remove(0);
        let answer = async {
            let mut head = [0; 4];
            other.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"GET ");
            other.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        };
        let (answered, ()) = tokio::join!(sites.send("berlin", WAIT, &mut over, request), answer);
        assert_eq!(answered.unwrap().status(), 204);
    }

    #[test]
    fn a_site_is_one_process_from_when_it_is_let_in_until_its_last_connection() {
        let (sites, metrics) =
            (Arc::new(Sites::default()), Arc::new(Metrics::new(&DataFigures::default())));
        let settings = Settings::new("http://relay.example");
        let register = |instance| sites.register("berlin", instance, &settings, &metrics);
        let first = register("one").unwrap();
        let second = register("one").unwrap();
        // Neither is a connection yet.
        assert_eq!(register("two").unwrap_err().code, FaultCode::Unavailable);
        drop(first);
        assert_eq!(register("two").unwrap_err().code, FaultCode::Unavailable);
        drop(second);
        let other = register("two").unwrap();
        sites.forget("berlin", &metrics);
        assert!(register("one").is_err(), "it is not forgotten");
        drop(other);
        sites.forget("berlin", &metrics);
        assert!(sites.lock().is_empty());
    }
}

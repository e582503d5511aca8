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
use tokio::time::{Instant, sleep, timeout_at};

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
        self.next(name, Instant::now() + wait, None).await
    }

    /// The same until then; who has a permit already keeps it.
    async fn next(
        &self,
        name: &str,
        until: Instant,
        mut permit: Option<OwnedSemaphorePermit>,
    ) -> Result<(SiteConnection, OwnedSemaphorePermit), Fault> {
        let unavailable = || {
            let what = format!("site {name} is not connected to this server now");
            Fault::new(FaultCode::Unavailable, what).retry_after(ASK_AGAIN)
        };
        let arrived = self.lock().get(name).map(|site| Arc::clone(&site.arrived));
        let arrived = arrived.ok_or_else(unavailable)?;
        let next = async {
            loop {
                if let Some(connection) = self.pop(name, &mut permit)? {
                    return Ok(connection);
                }
                arrived.notified().await;
            }
        };
        timeout_at(until, next).await.unwrap_or_else(|_| Err(unavailable()))
    }

    /// Has a request answered, over this connection of the site, or over the next if this one had ended before anything of it was sent.
    /// (That two ends of a connection do not know it at the same time is why.) The next one is waited for as long as the first was, all
    /// tries together, and with the permit of the first. The connection that answered, and the permit.
    ///
    /// # Errors
    /// A [`Fault`] as of [`Sites::connection`], if nothing of the request was sent; else of the connection.
    pub(crate) async fn send(
        &self,
        name: &str,
        wait: Duration,
        over: (SiteConnection, OwnedSemaphorePermit),
        mut request: Request<PassedBody>,
    ) -> Result<(Response<Incoming>, SiteConnection, OwnedSemaphorePermit), PassError> {
        let (mut connection, mut permit) = over;
        let mut until = None;
        loop {
            // Whether it is ready or has ended, the next call tells.
            let _ = connection.sender.ready().await;
            let mut error = match connection.sender.try_send_request(request).await {
                Ok(answer) => return Ok((answer, connection, permit)),
                Err(error) => error,
            };
            request = error.take_message().ok_or_else(|| error.into_error())?;
            let until = *until.get_or_insert_with(|| Instant::now() + wait);
            (connection, permit) = self.next(name, until, Some(permit)).await?;
        }
    }

    /// A connection that nobody uses, with this permit, or with one of its own.
    fn pop(
        &self,
        name: &str,
        kept: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Option<(SiteConnection, OwnedSemaphorePermit)>, Fault> {
        let mut all = self.lock();
        let Some(site) = all.get_mut(name) else { return Ok(None) };
        let own = kept.is_none().then(|| Arc::clone(&site.permits).try_acquire_owned());
        let own = own.transpose().map_err(|_| {
            let most = site.most;
            let what = format!("site {name} has {most} connections in use");
            let fault = Fault::new(FaultCode::QueueFull, what);
            fault.limit("site_connections", most as u64).retry_after(ASK_AGAIN)
        })?;
        // The newest is the likeliest to be there still.
        let mut newest = std::iter::from_fn(|| site.idle.pop());
        let open = newest.find(|connection| !connection.sender.is_closed());
        // Who waits holds none of its own.
        Ok(open.and_then(|connection| Some((connection, own.or_else(|| kept.take())?))))
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;
    use crate::faces::metrics::DataFigures;
    use crate::faces::passage::{not_answered, nothing};

    const WAIT: Duration = Duration::from_secs(60);

    /// A site that may have so many connections in use, and one that keeps it.
    fn site(site_connections: usize) -> (Arc<Sites>, Registration) {
        let (sites, metrics) =
            (Arc::new(Sites::default()), Arc::new(Metrics::new(&DataFigures::default())));
        let settings = Settings { site_connections, ..Settings::new("http://relay.example") };
        let registration = sites.register("berlin", "one", &settings, &metrics).unwrap();
        (sites, registration)
    }

    /// Gives the site a connection that nobody uses; its server's end.
    async fn connect(sites: &Sites) -> DuplexStream {
        let (near, far) = duplex(4096);
        let (sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
        tokio::spawn(connection);
        let (hold, _) = oneshot::channel();
        let mut all = sites.lock();
        let site = all.get_mut("berlin").unwrap();
        site.idle.push(SiteConnection { sender, hold });
        site.arrived.notify_one();
        far
    }

    fn request() -> Request<PassedBody> {
        Request::builder().uri("/x").body(nothing()).unwrap()
    }

    #[tokio::test]
    async fn a_request_that_was_not_begun_goes_over_the_next_connection_with_the_same_permit() {
        // One may be in use, and that is this one.
        let (sites, _registration) = site(1);
        let mut servers = vec![connect(&sites).await, connect(&sites).await];
        let mut over = sites.connection("berlin", WAIT).await.unwrap();
        over.0.sender.ready().await.unwrap();
        assert_eq!(sites.connection("berlin", WAIT).await.unwrap_err().code, FaultCode::QueueFull);
        // The newest ends, and that is not known here yet.
        servers.pop();
        let mut other = servers.remove(0);
        let answer = async {
            let mut head = [0; 4];
            other.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"GET ");
            other.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        };
        let (answered, ()) = tokio::join!(sites.send("berlin", WAIT, over, request()), answer);
        let (answer, _connection, permit) = answered.unwrap();
        assert_eq!(answer.status(), 204);
        // It is in use as long as that permit is.
        let _idle = connect(&sites).await;
        assert_eq!(sites.connection("berlin", WAIT).await.unwrap_err().code, FaultCode::QueueFull);
        drop(permit);
        drop(sites.connection("berlin", WAIT).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn all_tries_of_a_request_together_wait_once() {
        let (sites, _registration) = site(1);
        let first = connect(&sites).await;
        let mut over = sites.connection("berlin", WAIT).await.unwrap();
        over.0.sender.ready().await.unwrap();
        drop(first);
        // Connections that end as soon as they are there, each just before the wait for one would be over.
        let ending = async {
            loop {
                sleep(WAIT * 3 / 4).await;
                drop(connect(&sites).await);
            }
        };
        let begun = Instant::now();
        let answered = tokio::select! {
            answered = sites.send("berlin", WAIT, over, request()) => answered,
            () = ending => unreachable!("it goes on for ever"),
        };
        assert!(
            (WAIT..WAIT + Duration::from_secs(1)).contains(&begun.elapsed()),
            "{:?}",
            begun.elapsed()
        );
        // Nothing was sent, so it is worth trying again, and that is said.
        let error = answered.unwrap_err();
        let fault = error.downcast_ref::<Fault>().expect("a fault");
        assert_eq!((fault.code, fault.retry_after), (FaultCode::Unavailable, Some(ASK_AGAIN)));
        let reply = not_answered("berlin", &error);
        assert_eq!(
            (reply.status().as_u16(), &reply.headers()["retry-after"]),
            (503, &"1".parse().unwrap())
        );
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

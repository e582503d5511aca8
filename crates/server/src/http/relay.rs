//! Served through a relay: nobody can dial this server, so it dials another one, and is asked over these connections
//! (docs/decisions/0025).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fishplate_data::http::tls::{Trust, config};
use fishplate_data::http::{SystemAddresses, dial};
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Collected, Limited};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::http::uri::Authority;
use hyper::upgrade::Upgraded;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::connections::Connections;
use super::listen::{Served, connection};
use crate::authentication::authenticator::Peer;
use crate::faces::passage::{nothing, upgrade_to};
use crate::faces::sites::{INSTANCE, SITE_PROTOCOL};
use crate::settings::Relay;

/// The first pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that are read of why a relay refuses.
const REASON: usize = 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A relay, and what is known of it.
struct RelayDialer<'a> {
    relay: &'a Relay,
    served: &'a Arc<Served>,
    connections: &'a Arc<Connections>,
    /// Tells this process from others of the same site.
    instance: &'a str,
    /// Connections that there may be at once.
    permits: Arc<Semaphore>,
    /// Is held by the one that tries again, for which all others wait.
    trial: tokio::sync::Mutex<()>,
    state: Mutex<RelayState>,
}

#[derive(Default)]
struct RelayState {
    /// Connections that wait for requests.
    ready: usize,
    /// What was told last: why it is not reached, or nothing as it is.
    reported: Option<Option<String>>,
}

/// Is reached through a relay, until this is dropped.
pub(super) async fn serve(served: &Arc<Served>, connections: &Arc<Connections>, relay: &Relay) {
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::error!(%error, relay = relay.url, "this server can't be told from others");
        return;
    }
    let instance: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let host = served.current.get();
    let idle = host.settings.relay_idle;
    let permits = Arc::new(Semaphore::new(host.settings.relay_connections));
    drop(host);
    let (trial, state) = Default::default();
    let dialer =
        RelayDialer { relay, served, connections, instance: &instance, permits, trial, state };
    join_all((0..idle).map(|_| dialer.keep_one())).await;
}

impl RelayDialer<'_> {
    /// Keeps one connection ready: when somebody uses it, another takes its place.
    async fn keep_one(&self) {
        // It never is closed.
        while let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await {
            let (stream, peer) = self.dial().await;
            if !self.wait_for_request(stream, peer, permit).await {
                // Where connections end as soon as they have come, nobody hurries.
                sleep(FIRST_PAUSE).await;
            }
        }
    }

    /// Tries until there is a connection: after a failure only one does at once.
    async fn dial(&self) -> (Upgraded, Peer) {
        let (mut trial, mut pause) = (None, FIRST_PAUSE);
        loop {
            if trial.is_none() {
                drop(self.trial.lock().await);
            }
            let host = self.served.current.get();
            let (limit, longest) = (host.settings.relay_timeout, host.settings.relay_pause);
            drop(host);
            let late = |_| format!("it did not answer within {limit:?} (limit relay_timeout)");
            let connected = timeout(limit, self.connect()).await.map_err(late);
            match connected.map_err(Failure::from).flatten() {
                Ok(connected) => return connected,
                Err(error) => self.tell(Some(error.to_string())),
            }
            trial = trial.or_else(|| self.trial.try_lock().ok());
            if trial.is_some() {
                sleep(pause.min(longest)).await;
                pause = (pause * 2).min(longest);
            }
        }
    }

    /// Waits until something is asked over a connection, and has it answered; whether it was.
    async fn wait_for_request(
        &self,
        stream: Upgraded,
        peer: Peer,
        permit: OwnedSemaphorePermit,
    ) -> bool {
        self.tell(None);
        let mut stream = BufReader::new(TokioIo::new(stream));
        let count = self.served.current.get().metrics.relay(&self.relay.url);
        count.inc();
        let first = stream.fill_buf().await.map(|bytes| !bytes.is_empty());
        count.dec();
        self.state().ready -= 1;
        if !matches!(first, Ok(true)) {
            tracing::debug!(relay = self.relay.url, ?first, "the relay closed a connection");
            return false;
        }
        if let Some(slot) = self.connections.admit_relayed().await {
            let served = Arc::clone(self.served);
            tokio::spawn(async move {
                connection(&served, stream, &peer, &Arc::new(slot), None).await;
                drop(permit);
            });
        }
        // Else whoever asked is told by the end of the connection.
        true
    }

    async fn connect(&self) -> Result<(Upgraded, Peer), Failure> {
        let host = self.served.current.get();
        let uri: Uri = self.relay.url.parse()?;
        let encrypted = uri.scheme_str() == Some("https");
        let tls = encrypted.then(|| config(&Trust::with(host.settings.rank_ca.clone())));
        let tls = tls.transpose()?.map(|tls| TlsConnector::from(Arc::new(tls)));
        let limit = host.settings.relay_timeout;
        drop(host);
        let (stream, address) = dial(&uri, &SystemAddresses, tls.as_ref(), limit).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::get(uri.path()).body(nothing())?;
        let fields = request.headers_mut();
        let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
        fields.insert(header::HOST, HeaderValue::from_str(authority)?);
        fields.insert(INSTANCE, HeaderValue::from_str(self.instance)?);
        upgrade_to(fields, SITE_PROTOCOL);
        if let Some(path) = &self.relay.token {
            let token = tokio::fs::read_to_string(path).await;
            let token =
                token.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim()))?;
            bearer.set_sensitive(true);
            fields.insert(header::AUTHORIZATION, bearer);
        }
        let answer = sender.send_request(request).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = answer.status();
            let reason = Limited::new(answer.into_body(), REASON).collect().await;
            let reason = reason.map(Collected::to_bytes).unwrap_or_default();
            let reason = String::from_utf8_lossy(&reason);
            return Err(format!("it refuses, {status}: {}", reason.trim()).into());
        }
        let stream = hyper::upgrade::on(answer).await?;
        Ok((stream, Peer { encrypted, relayed: true, ..Peer::at(address) }))
    }

    fn state(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a connection more, or one can't be had: tells what has changed for those who want to reach this server.
    fn tell(&self, failure: Option<String>) {
        let mut state = self.state();
        state.ready += usize::from(failure.is_none());
        if failure.is_some() && state.ready > 0 || state.reported.as_ref() == Some(&failure) {
            return;
        }
        let url = &self.relay.url;
        match &failure {
            None => tracing::info!(relay = url, "others reach this server through its relay"),
            Some(error) => {
                tracing::warn!(relay = url, error, "the relay is not reached; trying on");
            }
        }
        state.reported = Some(failure);
    }
}

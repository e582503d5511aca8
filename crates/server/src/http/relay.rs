//! Served through a relay: nobody can dial this server, so it dials another one, and is asked over these connections
//! (docs/decisions/0025).

use std::sync::{Arc, Mutex, PoisonError};
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
use tokio::time::{Instant, sleep, timeout};
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
struct RelayLine<'a> {
    relay: &'a Relay,
    served: &'a Arc<Served>,
    connections: &'a Arc<Connections>,
    /// Tells this process from others of the same site.
    instance: &'a str,
    /// What was told last: why it is not reached, or nothing as it is.
    told: Mutex<Option<String>>,
}

/// Is reached through a relay, until this is dropped.
pub(super) async fn serve(served: &Arc<Served>, connections: &Arc<Connections>, relay: &Relay) {
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::error!(%error, relay = relay.url, "this server can't be told from others");
        return;
    }
    let instance: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let told = Mutex::new(Some(String::new()));
    let line = RelayLine { relay, served, connections, instance: &instance, told };
    let idle = served.current.get().settings.relay_idle;
    join_all((0..idle).map(|_| line.keep_one())).await;
}

impl RelayLine<'_> {
    /// Keeps one connection ready: when somebody uses it, another takes its place.
    async fn keep_one(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            match self.wait_for_request().await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    continue;
                }
                Err(error) => self.tell(Some(error.to_string())),
            }
            let longest = self.served.current.get().settings.relay_pause;
            if begun.elapsed() > longest {
                pause = FIRST_PAUSE;
            }
            sleep(pause.min(longest)).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Dials, waits until something is asked over the connection, and has it answered.
    async fn wait_for_request(&self) -> Result<(), Failure> {
        let limit = self.served.current.get().settings.relay_timeout;
        let late = |_| format!("it did not answer within {limit:?} (limit relay_timeout)");
        let (stream, peer) = timeout(limit, self.connect()).await.map_err(late)??;
        self.tell(None);
        let mut stream = BufReader::new(TokioIo::new(stream));
        let count = self.served.current.get().metrics.relay(&self.relay.url);
        count.inc();
        let first = stream.fill_buf().await.map(|bytes| !bytes.is_empty());
        count.dec();
        if !first? {
            return Err("it closed the connection".into());
        }
        let Some(slot) = self.connections.admit(peer.address).await else {
            // Whoever asked is told by the end of the connection.
            return Ok(());
        };
        let served = Arc::clone(self.served);
        tokio::spawn(async move {
            connection(&served, stream, &peer, &Arc::new(slot), None).await;
        });
        Ok(())
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
        Ok((stream, Peer { address, encrypted, certificate: None }))
    }

    /// Tells what has changed.
    fn tell(&self, failure: Option<String>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == failure {
            return;
        }
        let url = &self.relay.url;
        match &failure {
            None => tracing::info!(relay = url, "others reach this server through its relay"),
            Some(error) => {
                tracing::warn!(relay = url, error, "the relay is not reached; trying on");
            }
        }
        *told = failure;
    }
}

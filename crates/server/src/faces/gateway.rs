//! The gateway: by `/domains/DOMAIN/RANK`, through the server's one port, those elsewhere reach a rank that runs here
//! (docs/decisions/0023).
//!
//! Ranks ask for a connection (`Upgrade`), and what either side says then is passed on as it is, whatever the transport. Any other request
//! passes alone: its head without what is of one connection only, its body byte for byte. The permission is the domain's
//! credential.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::interface::DOMAINS;
use fishplate_contract::{Fault, FaultCode};
use fishplate_ranks::launch::rendezvous::Address;
use fishplate_ranks::transport::route::PROTOCOL;
use fishplate_ranks::transport::url;
use fishplate_ranks::{DomainId, Rank};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::passage::{PassError, Passage, asks_for, not_answered, passed, request_to_pass};
use crate::audit::CALLER;
use crate::domains::Presence;
use crate::host::Host;
use crate::http::HttpResponse;
use crate::http::body::Incoming;
use crate::settings::Settings;

/// When somebody who finds no place may ask again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Where a rank is, at its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankAddress {
    domain: DomainId,
    rank: Rank,
}

impl RankAddress {
    /// That of a path below the public URL.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let (domain, rank) = url::member(path).filter(|_| path.starts_with(DOMAINS))?;
        Some(Self { domain, rank })
    }
}

/// Where a rank is, below a server's public URL.
fn url(public_url: &str, domain: DomainId, rank: Rank) -> String {
    format!("{public_url}/{DOMAINS}/{domain}/{rank}")
}

/// Where a rank is reached by those elsewhere: at the server's public URL, and then through its relays.
pub(crate) fn address(settings: &Settings, domain: DomainId, rank: Rank) -> Option<Address> {
    let relays = settings.relays.iter().map(|relay| &relay.url);
    let relays = relays.filter(|url| **url != settings.public_url);
    let urls = [&settings.public_url].into_iter().chain(relays);
    let urls: Vec<String> = urls.map(|public_url| url(public_url, domain, rank)).collect();
    Address::through_gateways(&urls).ok()
}

/// A connection to a rank for somebody who may have it.
pub(crate) struct RankPassage {
    to: TcpStream,
    passage: Passage<OwnedSemaphorePermit>,
}

/// Connects to a rank.
///
/// # Errors
/// `Unauthenticated` without the domain's credential, whether the domain is here or not; `QueueFull`; `Unavailable`, if it can't be
/// reached.
pub(crate) async fn admit(
    host: &Host,
    address: RankAddress,
    headers: &HeaderMap,
) -> Result<RankPassage, Fault> {
    let RankAddress { domain, rank } = address;
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.split_once(' '));
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let bearer = shown.map(|(_, bearer)| bearer.trim()).unwrap_or_default();
    let found = host.domains.locate(domain, rank).filter(|found| {
        found.credential.is(bearer) || found.credential.is_token(bearer, domain, rank)
    });
    let Some(found) = found else {
        let what = "a rank is reached with the credential of its domain (Authorization: Bearer CREDENTIAL), and no domain of this \
                    server that was named has the one that was shown";
        let fault = Fault::new(FaultCode::Unauthenticated, what);
        host.audit.refusal(None, CALLER.try_with(|client| *client).ok(), &fault);
        return Err(fault);
    };
    let at = match found.find(&host.engine).await? {
        Presence::At(at) => at,
        Presence::Expected => {
            let what = format!("rank {rank} was started here, and has not joined its domain yet");
            return Err(Fault::new(FaultCode::Unavailable, what).retry_after(ASK_AGAIN));
        }
        Presence::Absent => {
            let what =
                format!("rank {rank} of the domain is not here: it runs elsewhere, or has ended");
            return Err(Fault::new(FaultCode::Unavailable, what));
        }
    };
    let permit = permit(host)?;
    let connected = timeout(host.settings.header_timeout, TcpStream::connect(at)).await;
    let to = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let to = to.and_then(|to| to.set_nodelay(true).map(|()| to)).map_err(|error| {
        Fault::new(FaultCode::Unavailable, format!("rank {rank} can't be reached: {error}"))
    })?;
    let url = url(&host.settings.public_url, domain, rank);
    Ok(RankPassage { to, passage: Passage { permit, url, stall: host.settings.answer_stall } })
}

/// One of the connections that the server passes on at once.
fn permit(host: &Host) -> Result<OwnedSemaphorePermit, Fault> {
    host.domains.passages().try_acquire_owned().map_err(|_| {
        let most = host.settings.gateway_connections;
        let what = format!("the server passes {most} connections on, and all are in use");
        Fault::new(FaultCode::QueueFull, what)
            .limit("gateway_connections", most as u64)
            .retry_after(ASK_AGAIN)
    })
}

impl RankPassage {
    /// Passes on what comes: a connection, if that is asked for; else one request.
    pub(crate) async fn pass<B>(self, asked: Parts, body: Incoming<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Display,
    {
        if asks_for(&asked.method, &asked.headers, PROTOCOL) {
            let upgrade = hyper::upgrade::on(Request::from_parts(asked, ()));
            return self.passage.switch(upgrade, self.to, PROTOCOL);
        }
        self.pass_alone(asked, body).await.unwrap_or_else(|error| not_answered("the rank", &error))
    }

    async fn pass_alone<B>(
        self,
        mut asked: Parts,
        body: Incoming<B>,
    ) -> Result<HttpResponse, PassError>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Display,
    {
        let Passage { permit, url, .. } = self.passage;
        // The whole URL (RFC 9112, 3.2.2), so that the rank's WSDL has it.
        let query = asked.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        asked.uri = format!("{url}{query}").parse::<Uri>()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(self.to)).await?;
        tokio::spawn(async move {
            // Its end is that of the answer too, which tells why.
            let _ = connection.await;
            drop(permit);
        });
        Ok(passed(sender.send_request(request_to_pass(asked, body)).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_a_rank_or_none() {
        let domain = DomainId::from_bytes([7; 16]);
        let address = RankAddress { domain, rank: 3 };
        assert_eq!(RankAddress::of(&format!("domains/{domain}/3")), Some(address));
        for other in
            [format!("domain/{domain}/3"), format!("x/domains/{domain}/3"), "domains".to_owned()]
        {
            assert_eq!(RankAddress::of(&other), None, "{other}");
        }
    }
}

//! Ways to a process: to a socket of its own, or through its server, the gateway of its site, with TLS or without.
//!
//! An address, as the rendezvous tells it, is one or more of these, separated by commas, in the order in which they are tried:
//!
//! - `IP:PORT`: a socket of the process itself (TCP)
//! - `http://...`, `https://...`: where its messages are posted (SOAP)
//! - `upgrade+http://...`, `upgrade+https://...`: a gateway, which is asked for a connection to the process (RFC 9110, 7.8) and passes on what
//!   either says from then on

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::credential::Credential;
use crate::error::{Error, Result};
use crate::header::{DomainId, Rank};
use crate::launch::rendezvous::{Address, UPGRADE};
use crate::settings::Settings;
use crate::status::RejectedAddress;
use crate::transport::tls::Trust;
use crate::transport::url::Url;

/// What a gateway is asked for: a connection to the rank at its path.
pub const PROTOCOL: &str = "fishplate-rank";

/// One way to a process.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) socket: SocketAddr,
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// What a gateway is asked before anything else is said.
    pub(super) request: Vec<u8>,
    /// The server that it leads to, if it is of a URL.
    pub(super) server: Option<String>,
    /// Why it did not come about when it was tried last.
    pub(super) rejected: Option<String>,
    /// That was because another version is spoken there.
    pub(super) is_foreign: bool,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "{server} at {}", self.socket),
            None => write!(f, "{}", self.socket),
        }
    }
}

impl From<SocketAddr> for Route {
    fn from(socket: SocketAddr) -> Self {
        let (request, is_foreign) = (Vec::new(), false);
        Self { socket, tls: None, request, server: None, rejected: None, is_foreign }
    }
}

/// Finds ways to the ranks of a domain.
pub(super) struct Routes<'a> {
    domain: DomainId,
    credential: &'a Credential,
    trust: Trust,
    timeout: Duration,
}

impl<'a> Routes<'a> {
    pub(super) fn new(domain: DomainId, credential: &'a Credential, settings: &Settings) -> Self {
        let trust = Trust::new(settings.ca_file.clone());
        Self { domain, credential, trust, timeout: settings.peer_timeout }
    }

    /// The ways to a rank at this address. An alternative that is none here is passed over, and told.
    pub(super) fn to(
        &self,
        rank: Rank,
        address: &Address,
    ) -> Result<(Vec<Route>, Vec<RejectedAddress>)> {
        let (mut routes, mut rejected, mut failure) = (Vec::new(), Vec::new(), None);
        for word in address.alternatives() {
            match word.parse::<SocketAddr>() {
                Ok(socket) => routes.push(socket.into()),
                Err(_) => match self.of_url(rank, word) {
                    Ok(found) => routes.extend(found),
                    Err(error) => {
                        tracing::warn!(rank, address = word, %error, "an address is passed over");
                        let word = word.strip_prefix(UPGRADE).unwrap_or(word);
                        rejected.push(RejectedAddress::new(&word, &error));
                        failure = failure.or(Some(error));
                    }
                },
            }
        }
        match failure {
            Some(error) if routes.is_empty() => Err(error),
            _ => Ok((routes, rejected)),
        }
    }

    fn of_url(&self, rank: Rank, word: &str) -> Result<Vec<Route>> {
        let gateway = word.strip_prefix(UPGRADE);
        let url = Url::parse(gateway.unwrap_or(word))?;
        let tls = url.secure.then(|| {
            let name = ServerName::try_from(url.host().to_owned()).map_err(|_| Error::Join {
                problem: format!("{word}: its host's name can't stand in a certificate"),
            })?;
            let config = self.trust.config()?;
            self.trust.check(&config, &name, &url.addresses, self.timeout).map_err(|problem| {
                Error::Join { problem: format!("{word} is not reached: {problem}") }
            })?;
            Ok((config, name))
        });
        let tls = tls.transpose()?;
        let request = gateway.map(|_| {
            format!(
                "GET {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n",
                url.path,
                url.authority,
                self.credential.token(self.domain, rank)
            )
        });
        let request = request.unwrap_or_default().into_bytes();
        let server = format!("http{}://{}", if url.secure { "s" } else { "" }, url.authority);
        let route = |socket| Route {
            socket,
            tls: tls.clone(),
            request: request.clone(),
            server: Some(server.clone()),
            rejected: None,
            is_foreign: false,
        };
        Ok(url.addresses.iter().copied().map(route).collect())
    }
}

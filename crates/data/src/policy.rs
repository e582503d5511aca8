//! Which addresses this server may ask: not those that only it can reach, unless the operator
//! says so. Otherwise a caller could make it fetch from, or deliver to, what stands behind its
//! firewall (server-side request forgery).
//!
//! A host's name is resolved here, once a connection, and the transport connects to what was
//! resolved and allowed: a name that resolves to something else the next time (DNS rebinding)
//! gains nothing, and neither does a redirect, which comes through here like any other address.

mod kinds;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::transfer::{Addresses, TransferError, TransferFuture};
use kinds::AddressKind;

/// The rule that keeps private networks apart, by the name of the setting that lifts it.
pub const ALLOW_PRIVATE: &str = "allow_private";
/// The rule that keeps apart what only a network that the operator names may hold.
pub const ALLOW_NETWORK: &str = "allow_network";

/// What the operator allows beside the public Internet.
#[derive(Clone, Debug, Default)]
pub struct PolicySettings {
    /// Loopback, link-local, private and shared addresses (RFC 6890), but not those at which
    /// clouds tell a machine its secrets.
    pub allow_private: bool,
    /// Networks that may be asked, whatever they are.
    pub networks: Vec<Network>,
}

/// A network that the operator names: `NAME=CIDR,CIDR`, or a CIDR alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its name, for people.
    pub name: String,
    /// Its addresses.
    pub blocks: Vec<IpNet>,
}

/// What is wrong with the text of a [`Network`].
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is no network: write 10.1.0.0/16, fd00:1::/32 or 10.1.2.3, or NAME=10.1.0.0/16,10.2.0.0/16"
)]
pub struct NotANetwork(String);

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (name, blocks) = text.split_once('=').unwrap_or((text, text));
        let block = |text: &str| {
            let text = text.trim();
            text.parse().ok().or_else(|| text.parse().ok().map(|ip: IpAddr| IpNet::from(ip)))
        };
        let blocks: Option<Vec<IpNet>> = blocks.split(',').map(block).collect();
        match blocks {
            Some(blocks) if !name.trim().is_empty() => {
                Ok(Self { name: name.trim().to_owned(), blocks })
            }
            _ => Err(NotANetwork(text.to_owned())),
        }
    }
}

/// A future of a [`Lookup`].
pub type LookupFuture<'l> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'l>>;

/// Where names are looked up.
pub trait Lookup: Send + Sync + std::fmt::Debug {
    /// The addresses of a host.
    fn lookup<'l>(&'l self, host: &'l str, port: u16) -> LookupFuture<'l>;
}

/// The system's resolver (`getaddrinfo`).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'l>(&'l self, host: &'l str, port: u16) -> LookupFuture<'l> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// The policy: looks names up and leaves what is allowed.
#[derive(Clone, Debug)]
pub struct Policy {
    settings: PolicySettings,
    lookup: Arc<dyn Lookup>,
}

impl Policy {
    /// A policy over the system's resolver.
    pub fn new(settings: PolicySettings) -> Self {
        Self::with_lookup(settings, Arc::new(SystemLookup))
    }

    /// A policy over another resolver.
    pub fn with_lookup(settings: PolicySettings, lookup: Arc<dyn Lookup>) -> Self {
        Self { settings, lookup }
    }

    /// Whether an address may be asked.
    ///
    /// # Errors
    /// [`TransferError::Forbidden`], which names the rule and tells what the address is.
    pub fn check(&self, address: IpAddr) -> Result<(), TransferError> {
        let address = address.to_canonical();
        let named = |network: &Network| network.blocks.iter().any(|block| block.contains(&address));
        if self.settings.networks.iter().any(named) {
            return Ok(());
        }
        let forbidden = |what: &str, rule| {
            Err(TransferError::Forbidden { address: format!("{address} is {what}"), rule })
        };
        match kinds::of(address) {
            AddressKind::Public => Ok(()),
            AddressKind::Private(_) if self.settings.allow_private => Ok(()),
            AddressKind::Private(what) => forbidden(what, ALLOW_PRIVATE),
            AddressKind::Special(what) => forbidden(what, ALLOW_NETWORK),
        }
    }

    async fn allowed(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, TransferError> {
        let found = match literal(host) {
            Some(address) => vec![SocketAddr::new(address, port)],
            None => self.lookup.lookup(host, port).await.map_err(|error| no_such(host, &error))?,
        };
        let mut refusal = None;
        let mut allowed = Vec::with_capacity(found.len());
        for address in found {
            match self.check(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        if !allowed.is_empty() {
            return Ok(allowed);
        }
        Err(match refusal {
            Some(TransferError::Forbidden { address, rule }) if literal_differs(host, &address) => {
                TransferError::Forbidden { address: format!("{host}: {address}"), rule }
            }
            Some(refusal) => refusal,
            None => no_such(host, &io::Error::from(io::ErrorKind::AddrNotAvailable)),
        })
    }
}

impl Addresses for Policy {
    fn resolve<'t>(&'t self, host: &'t str, port: u16) -> TransferFuture<'t, Vec<SocketAddr>> {
        Box::pin(self.allowed(host, port))
    }

    fn permits(&self, host: &str) -> Result<(), TransferError> {
        literal(host).map_or(Ok(()), |address| self.check(address))
    }
}

/// The address that a host is by itself.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The host is a name, which the refusal of its address does not tell.
fn literal_differs(host: &str, refusal: &str) -> bool {
    !refusal.starts_with(host.trim_matches(['[', ']']))
}

/// A name that can't be resolved is not worth many attempts, unless the resolver says so.
fn no_such(host: &str, error: &io::Error) -> TransferError {
    let (host, reason) = (host.to_owned(), error.to_string());
    if reason.contains("emporary") {
        let reason = format!("its name can't be resolved: {reason}");
        TransferError::Unreachable { peer: host, reason }
    } else {
        TransferError::Unresolved { host, reason }
    }
}

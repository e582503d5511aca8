//! What tells who calls.

use std::fmt::Debug;
use std::net::IpAddr;
use std::pin::Pin;

use fishplate_contract::{Fault, Principal};
use fishplate_wire::SecurityHeader;
use hyper::header::HeaderMap;
use rustls::pki_types::CertificateDer;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// It speaks TLS.
    pub encrypted: bool,
    /// The certificate that it showed, if TLS has found it good.
    pub certificate: Option<CertificateDer<'static>>,
    /// It is a relay that this server has dialled: it passes on what strangers send, and tells their addresses.
    pub relayed: bool,
}

impl Peer {
    /// One of which nothing else is known.
    pub fn at(address: IpAddr) -> Self {
        Self { address, encrypted: false, certificate: None, relayed: false }
    }
}

/// What is known of a request before its body, or of a message from its header.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'r> {
    /// Its header fields.
    pub headers: &'r HeaderMap,
    /// Who sent it.
    pub peer: &'r Peer,
    /// Where the caller is: the peer's address, or what a proxy of ours has told.
    pub client: IpAddr,
    /// What the header of its message says, when that has been read.
    pub security: Option<&'r SecurityHeader>,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Owns what comes of the call. Its services, or rather the first segments of paths (`data`, `metrics`), are those that
    /// may be asked.
    pub principal: Principal,
    /// By what it is known: `password`, `token`; empty: it is not.
    pub credential: &'static str,
}

impl Identity {
    /// Nobody in particular: nobody is asked.
    pub fn anonymous() -> Self {
        Self { principal: Principal::anonymous(), credential: "" }
    }

    /// Somebody for whom all services are.
    pub fn named(name: &str, credential: &'static str) -> Self {
        Self { principal: Principal::named(name), credential }
    }
}

/// What an authenticator says of a request.
#[derive(Debug)]
pub enum Authentication {
    /// It knows who calls.
    Authenticated(Identity),
    /// The request has nothing for it; another one may know.
    NotRequested,
    /// What the request has for it is wrong.
    Refused(Refusal),
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// What they are told.
    pub fault: Fault,
    /// In whose name they came, if there is such a user. (What else was typed for a name may be a password.)
    pub user: Option<String>,
}

impl Refusal {
    /// That of somebody who came in this user's name.
    pub(super) fn of(user: &str, fault: Fault) -> Self {
        Self { fault, user: Some(user.to_owned()) }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self { fault, user: None }
    }
}

/// The answer of an authenticator, once it has it.
pub type AuthenticationFuture<'r> = Pin<Box<dyn Future<Output = Authentication> + Send + 'r>>;

/// A way to know who calls.
pub trait Authenticator: Debug + Send + Sync {
    /// What it looks for, to be told to who did not bring it: "a user and a password (HTTP Basic)".
    fn expects(&self) -> String;

    /// How a client brings it (`WWW-Authenticate`, RFC 9110, section 11.6.1), if HTTP has a scheme for it.
    fn challenge(&self) -> Option<&'static str>;

    /// Whether it looks for that in the header of a message ([`RequestHead::security`]), and not in HTTP's.
    fn reads_envelopes(&self) -> bool {
        false
    }

    /// Who sent this request.
    fn authenticate<'r>(&'r self, request: RequestHead<'r>) -> AuthenticationFuture<'r>;
}

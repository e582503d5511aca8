//! What tells who calls.

use std::fmt::Debug;
use std::net::IpAddr;
use std::pin::Pin;

use fishplate_contract::{Fault, Principal};
use hyper::header::HeaderMap;
use rustls::pki_types::CertificateDer;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// The certificate that it showed, if TLS has found it good.
    pub certificate: Option<CertificateDer<'static>>,
}

/// What is known of a request before its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'r> {
    /// Its header fields.
    pub headers: &'r HeaderMap,
    /// Who sent it.
    pub peer: &'r Peer,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Owns what comes of the call.
    pub principal: Principal,
    /// The services that may be asked in this name, or rather the first segments of paths (`data`, `metrics`); all,
    /// if there are none.
    pub services: Vec<String>,
}

impl Identity {
    /// Somebody for whom all services are.
    pub fn of(principal: Principal) -> Self {
        Self { principal, services: Vec::new() }
    }

    /// Whether it is good for a service.
    pub fn is_for(&self, service: &str) -> bool {
        self.services.is_empty() || self.services.iter().any(|name| name == service)
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
    Refused(Fault),
}

/// The answer of an authenticator, once it has it.
pub type AuthenticationFuture<'r> = Pin<Box<dyn Future<Output = Authentication> + Send + 'r>>;

/// A way to know who calls.
pub trait Authenticator: Debug + Send + Sync {
    /// What it looks for, to be told to who did not bring it: "a user and a password (HTTP Basic)".
    fn expects(&self) -> String;

    /// How a client brings it (`WWW-Authenticate`, RFC 9110, section 11.6.1), if HTTP has a scheme for it.
    fn challenge(&self) -> Option<&'static str>;

    /// Who sent this request.
    fn authenticate<'r>(&'r self, request: RequestHead<'r>) -> AuthenticationFuture<'r>;
}

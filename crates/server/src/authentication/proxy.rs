//! The name that a trusted proxy in front of us gives the caller, in a header.

use fishplate_contract::{Fault, FaultCode};
use hyper::header::HeaderValue;
use ipnet::IpNet;

use super::authenticator::{
    Authentication, AuthenticationFuture, Authenticator, Identity, RequestHead,
};

/// A header in which a proxy names the caller.
#[derive(Debug)]
pub(super) struct ProxyHeader {
    header: String,
    /// Where proxies are; anywhere, if it is empty.
    proxies: Vec<IpNet>,
}

impl ProxyHeader {
    pub(super) fn new(header: String, proxies: Vec<IpNet>) -> Self {
        Self { header, proxies }
    }

    fn look(&self, request: RequestHead<'_>) -> Authentication {
        let address = request.peer.address.to_canonical();
        // Anybody could name themselves in it.
        if request.peer.relayed {
            return Authentication::NotRequested;
        }
        if !self.proxies.is_empty() && !self.proxies.iter().any(|net| net.contains(&address)) {
            return Authentication::NotRequested;
        }
        let mut told = request.headers.get_all(self.header.as_str()).iter();
        let Some(name) = told.next() else { return Authentication::NotRequested };
        // One that names two has been added to.
        let name = Some(name).filter(|_| told.next().is_none()).map(HeaderValue::as_bytes);
        let name = name.and_then(|value| std::str::from_utf8(value).ok());
        // What HTTP calls blanks (RFC 9110, 5.6.3); others are a part of the name.
        let name = name.map(|name| name.trim_matches([' ', '\t']));
        match name.filter(|name| !name.is_empty()) {
            Some(name) => Authentication::Authenticated(Identity::named(name, "proxy")),
            None => {
                let what =
                    format!("the proxy in front of this server must send {}", self.expects());
                Authentication::Refused(Fault::new(FaultCode::Unauthenticated, what).into())
            }
        }
    }
}

impl Authenticator for ProxyHeader {
    fn expects(&self) -> String {
        format!("the caller's name in {} (once, in UTF-8, not empty)", self.header)
    }

    fn challenge(&self) -> Option<&'static str> {
        None
    }

    fn authenticate<'r>(&'r self, request: RequestHead<'r>) -> AuthenticationFuture<'r> {
        Box::pin(std::future::ready(self.look(request)))
    }
}

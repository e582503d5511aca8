//! Scheme, host and port: to whom a credential goes.

use std::fmt;

use http::Uri;

use crate::error::Error;
use crate::location;

/// Scheme, host and port of an address (RFC 6454, section 4).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// That of the server that a user names.
    ///
    /// # Errors
    /// [`Error::BadUrl`].
    pub fn named(url: &str) -> Result<Self, Error> {
        let none =
            || Error::BadUrl { url: url.to_owned(), reason: "it names no server".to_owned() };
        Self::of(&location::parse(url)?).ok_or_else(none)
    }

    /// That of an absolute address of HTTP.
    pub fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let host = uri.host().filter(|host| !host.is_empty())?;
        // A dot at its end is the same host in DNS, and another one in a certificate.
        let host = host.to_ascii_lowercase();
        let port = uri.port_u16().or_else(|| usual_port(&scheme))?;
        Some(Self { scheme, host, port })
    }

    /// What it says goes over the network encrypted.
    pub fn is_secure(&self) -> bool {
        self.scheme == "https"
    }

    /// The host, as it stands in addresses.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// It is this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }
}

fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        if usual_port(&self.scheme) == Some(self.port) {
            return Ok(());
        }
        write!(f, ":{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port_and_nothing_else() {
        let of = |url: &str| Origin::of(&url.parse().unwrap()).map(|origin| origin.to_string());
        for (url, origin) in [
            ("http://H.example/a?b", "http://h.example"),
            ("http://h.example:80/", "http://h.example"),
            ("https://h.example:443", "https://h.example"),
            ("https://h.example:80", "https://h.example:80"),
            ("http://[::1]:8080/x", "http://[::1]:8080"),
        ] {
            assert_eq!(of(url).as_deref(), Some(origin), "{url}");
        }
        assert_eq!((of("/a"), of("ftp://h/a")), (None, None));
    }
}

//! Where a rank is: `http://HOST:PORT/.../domains/DOMAIN/RANK`, or `https:`.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::{Error, Result};
use crate::header::{DomainId, Rank};
use crate::launch::rendezvous::{Address, UPGRADE};

/// A URL as its senders use it: they connect to its address and ask for its path, whatever that is.
#[derive(Clone, Debug)]
pub(super) struct Url {
    /// Value of `Host`.
    pub(super) authority: String,
    /// All that its host has, in the order of the system.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) path: String,
    /// TLS is spoken there.
    pub(super) secure: bool,
}

impl Url {
    /// The first of an address.
    pub(super) fn of(address: &Address) -> Result<Self> {
        let first = address.alternatives().next().unwrap_or_default();
        Self::parse(first.strip_prefix(UPGRADE).unwrap_or(first))
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = |problem: String| Error::Join { problem: format!("{text}: {problem}") };
        let plain = text.strip_prefix("http://");
        let rest = plain.or_else(|| text.strip_prefix("https://")).ok_or_else(|| {
            wrong("an address that begins with http:// or https:// is needed".to_owned())
        })?;
        let secure = plain.is_none();
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| (&rest[..at], &rest[at..]));
        if path.contains(|c: char| c.is_control() || c == ' ') || authority.contains('@') {
            return Err(wrong("it is no URL of a rank".to_owned()));
        }
        let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let with_port = if port.is_some() {
            authority.to_owned()
        } else {
            format!("{authority}:{}", if secure { 443 } else { 80 })
        };
        let addresses = with_port.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        let addresses = addresses.collect();
        Ok(Self { authority: authority.to_owned(), addresses, path: path.to_owned(), secure })
    }

    /// Its host, as a certificate names it.
    pub(super) fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        host.map_or(self.authority.as_str(), |(host, _)| host).trim_matches(['[', ']'])
    }
}

/// The path of a rank.
pub(super) fn path(domain: DomainId, rank: Rank) -> String {
    format!("/domains/{domain}/{rank}")
}

/// The rank that a path names, whatever stands before it, as gateways may have something there.
pub fn member(path: &str) -> Option<(DomainId, Rank)> {
    let mut segments = path.rsplit('/');
    let rank = segments.next()?;
    let domain = segments.next()?.parse().ok()?;
    if segments.next() != Some("domains") || !rank.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((domain, rank.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url = Url::parse("http://127.0.0.1:99/site/domains/0/1").unwrap();
        assert_eq!(
            (url.authority.as_str(), url.path.as_str()),
            ("127.0.0.1:99", "/site/domains/0/1")
        );
        assert_eq!(url.addresses, [([127, 0, 0, 1], 99).into()]);
        assert_eq!(Url::parse("http://127.0.0.1").unwrap().addresses[0].port(), 80);
        assert_eq!(Url::parse("http://[::1]").unwrap().addresses[0].port(), 80);
        assert_eq!(Url::parse("http://[::1]:7/").unwrap().addresses[0].port(), 7);
        let secure = Url::parse("https://[::1]/").unwrap();
        assert_eq!((secure.addresses[0].port(), secure.secure, secure.host()), (443, true, "::1"));
        for wrong in ["ftp://a/", "127.0.0.1:1", "http://", "http://a b/", "http://127.0.0.1/a b"] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_names_a_rank_of_a_domain() {
        let domain = DomainId::from_bytes([0xab; 16]);
        assert_eq!(member(&path(domain, 12)), Some((domain, 12)));
        assert_eq!(member(&format!("/site{}", path(domain, 0))), Some((domain, 0)));
        let text = domain.to_string();
        for wrong in [
            "/".to_owned(),
            format!("/domain/{text}/1"),
            format!("/domains/{text}/+1"),
            format!("/domains/{text}/1/"),
            format!("/domains/{}/1", &text[1..]),
        ] {
            assert_eq!(member(&wrong), None, "{wrong}");
        }
    }
}

//! Where a caller is who comes through proxies.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{self, HeaderMap, HeaderName};
use ipnet::IpNet;

use super::authenticator::Peer;

/// Where those stand through whom a request has come.
pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of whoever sent a request to the outermost proxy of ours: as `X-Forwarded-For` or `Forwarded` (RFC 7239)
/// tells it. The peer's own, if it is no proxy of ours, or if the two fields don't agree: then who sent the request wrote one
/// of them.
///
/// A relay of ours adds it at the end of `X-Forwarded-For`; what stands before is a stranger's word.
pub(crate) fn client_address(headers: &HeaderMap, peer: &Peer, proxies: &[IpNet]) -> IpAddr {
    let Peer { address: peer, relayed, .. } = *peer;
    if relayed {
        let last = headers.get_all(X_FORWARDED_FOR).iter().next_back();
        let last = last.and_then(|field| field.to_str().ok()?.rsplit(',').next());
        return last.and_then(node).unwrap_or(peer);
    }
    let is_proxy =
        |address: &IpAddr| proxies.iter().any(|net| net.contains(&address.to_canonical()));
    if !is_proxy(&peer) {
        return peer;
    }
    let listed = |name: &HeaderName, read: fn(&str) -> Option<IpAddr>| {
        let fields = headers.get_all(name).iter();
        let items = fields.flat_map(|field| field.to_str().unwrap_or("?").split(','));
        let hops: Vec<_> = items.map(read).collect();
        // Each proxy adds at the end where its request came from; what is before the first stranger is a stranger's word.
        let first = hops.iter().rev().find(|hop| !hop.as_ref().is_some_and(is_proxy));
        first.or_else(|| hops.first()).copied()
    };
    let told = [listed(&X_FORWARDED_FOR, node), listed(&header::FORWARDED, forwarded)];
    match told {
        [Some(told), None] | [None, Some(told)] => told,
        [Some(told), Some(too)] if told == too => told,
        _ => None,
    }
    .unwrap_or(peer)
}

/// An address, perhaps with a port, and in brackets (RFC 7239, section 6).
fn node(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}

/// The node of an element's `for` (RFC 7239, section 4).
fn forwarded(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    node(value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[track_caller]
    fn assert_client(fields: &[(&'static str, &'static str)], client: &str) {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        let proxies = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let from = |address: &str, relayed| Peer { relayed, ..Peer::at(address.parse().unwrap()) };
        let told = client_address(&headers, &from("10.0.0.1", false), &proxies);
        assert_eq!(told.to_string(), client, "{fields:?}");
        let stranger = from("192.0.2.9", false);
        assert_eq!(client_address(&headers, &stranger, &proxies), stranger.address, "{fields:?}");
    }

    #[test]
    fn a_proxy_tells_where_its_caller_is_and_nobody_else_does() {
        const X: &str = "x-forwarded-for";
        const F: &str = "forwarded";
        for (fields, client) in [
            (&[][..], "10.0.0.1"),
            (&[(X, "192.0.2.1")], "192.0.2.1"),
            (&[(X, "198.51.100.7, 192.0.2.1")], "192.0.2.1"),
            (&[(X, "198.51.100.7"), (X, "192.0.2.1, 10.0.0.2")], "192.0.2.1"),
            (&[(X, "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
            (&[(X, "192.0.2.1:4711")], "192.0.2.1"),
            (&[(X, "[2001:db8::1]:4711")], "2001:db8::1"),
            (&[(X, "2001:db8::1")], "2001:db8::1"),
            (&[(X, "192.0.2.1, unknown")], "10.0.0.1"),
            (&[(X, "")], "10.0.0.1"),
            (&[(F, "for=192.0.2.1;proto=https")], "192.0.2.1"),
            (&[(F, "proto=http;For=\"[2001:db8::1]:80\"")], "2001:db8::1"),
            (&[(F, "for=198.51.100.7, for=192.0.2.1, for=10.0.0.2")], "192.0.2.1"),
            (&[(F, "for=_hidden")], "10.0.0.1"),
            (&[(F, "proto=https")], "10.0.0.1"),
            (&[(X, "192.0.2.1"), (F, "for=192.0.2.1")], "192.0.2.1"),
            (&[(X, "192.0.2.1"), (F, "for=198.51.100.7")], "10.0.0.1"),
        ] {
            assert_client(fields, client);
        }
    }

    #[test]
    fn a_relay_tells_where_its_caller_is_in_the_last_place() {
        for (fields, client) in [
            (&[][..], "127.0.0.1"),
            (&["192.0.2.1"], "192.0.2.1"),
            (&["198.51.100.7, 10.0.0.1", "192.0.2.1"], "192.0.2.1"),
            (&["198.51.100.7, 10.0.0.1"], "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_static(field));
            }
            headers.append(header::FORWARDED, HeaderValue::from_static("for=203.0.113.1"));
            let relay = Peer { relayed: true, ..Peer::at("127.0.0.1".parse().unwrap()) };
            let proxies = ["10.0.0.0/8".parse().unwrap(), "127.0.0.0/8".parse().unwrap()];
            assert_eq!(
                client_address(&headers, &relay, &proxies).to_string(),
                client,
                "{fields:?}"
            );
        }
    }
}

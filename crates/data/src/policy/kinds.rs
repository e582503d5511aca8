//! What an address is (RFC 6890 and the registries that it began).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    /// Anybody can reach it.
    Public,
    /// It is reached from here, and not from everywhere.
    Private(&'static str),
    /// Nobody serves data there, or what is there is a secret.
    Special(&'static str),
}

use AddressKind::{Private, Public, Special};

/// The kind of an address. One that embeds another is of that one's kind: a gateway would lead
/// there.
pub(super) fn of(address: IpAddr) -> AddressKind {
    match address.to_canonical() {
        IpAddr::V4(address) => of_v4(address),
        IpAddr::V6(address) => of_v6(address),
    }
}

fn of_v4(address: Ipv4Addr) -> AddressKind {
    match address.octets() {
        [169, 254, 169, 254] | [100, 100, 100, 200] => Special(METADATA),
        [0, ..] => Special("this host"),
        [127, ..] => Private("loopback"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Private("private"),
        [100, 64..=127, ..] => Private("shared (carrier-grade NAT)"),
        [169, 254, ..] => Private("link-local"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Special("for documentation"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => Special("reserved"),
        [224..=239, ..] => Special("multicast"),
        [240..=255, ..] => Special("reserved"),
        _ => Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressKind {
    let segments = address.segments();
    if segments == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] {
        return Special(METADATA);
    }
    let low = v4(segments[6], segments[7]);
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Special("this host"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Private("loopback"),
        // Of old, "IPv4-compatible".
        [0, 0, 0, 0, 0, 0, ..] => embedded(low),
        // IPv4-translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(low),
        // NAT64 of a network of one's own (RFC 8215): where its gateway leads is not seen here.
        [0x64, 0xff9b, 1, ..] => Private("private (NAT64)"),
        [0x100, 0, 0, 0, ..] => Special("reserved"),
        // Teredo (RFC 4380): the server's address, and the client's with its bits turned.
        [0x2001, 0, high, next, ..] => match embedded(v4(high, next)) {
            Public => embedded(v4(!segments[6], !segments[7])),
            kind => kind,
        },
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Special("for documentation"),
        [0x2001, 0..=0x1ff, ..] => Special("reserved"),
        // 6to4 (RFC 3056).
        [0x2002, high, next, ..] => embedded(v4(high, next)),
        // ISATAP (RFC 5214).
        [.., 0x0000 | 0x0200, 0x5efe, _, _] if segments[0] & 0xe000 == 0x2000 => embedded(low),
        [0xfc00..=0xfdff, ..] => Private("private"),
        [0xfe80..=0xfebf, ..] => Private("link-local"),
        [0xfec0..=0xfeff, ..] => Private("site-local"),
        [0xff00..=0xffff, ..] => Special("multicast"),
        [0x2000..=0x3fff, ..] => Public,
        _ => Special("reserved"),
    }
}

/// Where clouds tell a machine its credentials.
const METADATA: &str = "a metadata service";

fn v4(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

/// The kind of an address that embeds this one.
fn embedded(address: Ipv4Addr) -> AddressKind {
    match of_v4(address) {
        Public => Public,
        Private("loopback") => Private("a way to a loopback address"),
        Private("link-local") => Private("a way to a link-local address"),
        Private(_) => Private("a way to a private address"),
        Special(METADATA) => Special(METADATA),
        Special(_) => Special("a way to a reserved address"),
    }
}

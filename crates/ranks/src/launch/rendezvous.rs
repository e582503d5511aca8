//! What ranks and their launcher say to each other: a line each, over a Unix socket.
//!
//! A rank says `join` with its address, and gets `ranks` once every rank has joined, or `refused`. With `ranks` come the descriptors of memory that
//! ranks of one host share, and which these are ([`crate::transport::shared_memory::Segment`]). Later it says `leave`, or `abort`. The
//! connection stays open meanwhile: its end without `leave` is that of a rank that did not leave in order.
//!
//! On a second connection, which begins with `report`, a rank tells now and then what it waits for ([`RankStatus`]).
//!
//! The first line of either connection tells the [`VERSION`] in which the rank speaks. Who speaks another is refused: what he says next might be
//! read as something else than he means.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::credential::Credential;
use crate::header::{DomainId, Rank};
use crate::settings::Sites;
use crate::status::RankStatus;

/// The version of what ranks and their launcher say to each other, and of the memory that ranks share. It changes whenever one of these does.
/// Version 1, of before versions were told, has no number in its lines.
pub const VERSION: u32 = 3;
/// What launchers of version 1 say to a line that is none of theirs.
pub(crate) const NO_MESSAGE: &str = "it is no message of a rank's";

/// The longest line of a rank, in bytes.
pub const LONGEST_LINE: usize = 1024;
/// The longest address, in bytes.
pub const LONGEST_ADDRESS: usize = 512;

/// What stands before the URL of a gateway, which passes connections on.
pub(crate) const UPGRADE: &str = "upgrade+";

/// Where a rank is reached: a word that only ranks read, and their gateway. It is one or more alternatives, separated by commas, in the order in
/// which they are tried ([`crate::transport::route`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// One that is reached at any of these.
    pub fn of_sockets(sockets: &[SocketAddr]) -> Self {
        Self(sockets.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(","))
    }

    /// One that is reached at a URL, over SOAP.
    pub fn of_url(url: &str) -> crate::Result<Self> {
        url.parse().map_err(|_: MessageError| crate::Error::Join {
            problem: format!("{url} is no URL of at most {LONGEST_ADDRESS} bytes"),
        })
    }

    /// One that is reached through any of the gateways that have it at a URL, whatever its transport.
    pub fn through_gateways(urls: &[String]) -> crate::Result<Self> {
        let urls: Vec<String> = urls.iter().map(|url| format!("{UPGRADE}{url}")).collect();
        Self::of_url(&urls.join(","))
    }

    /// Where SOAP clients reach the rank: the URL of its gateway, or its own.
    pub fn endpoint(&self) -> &str {
        let first = self.alternatives().next().unwrap_or_default();
        first.strip_prefix(UPGRADE).unwrap_or(first)
    }

    /// Its alternatives, in their order.
    pub fn alternatives(&self) -> impl Iterator<Item = &str> {
        self.0.split(',')
    }

    /// The first socket at which the rank itself listens, if its address says so without a name.
    pub fn socket(&self) -> Option<SocketAddr> {
        self.alternatives().find_map(socket)
    }

    /// The sockets at which the rank itself listens; `None` if its address says anything else.
    pub fn sockets(&self) -> Option<Vec<SocketAddr>> {
        self.alternatives().map(socket).collect()
    }
}

fn socket(alternative: &str) -> Option<SocketAddr> {
    let of_url = alternative.strip_prefix("http://").and_then(|rest| rest.split('/').next());
    of_url.unwrap_or(alternative).parse().ok()
}

/// Which ranks are at one site, as their addresses tell: those of this server, and those behind the same gateways; of ranks that are
/// reached directly, those at the same addresses.
pub(crate) fn sites(addresses: &[Address]) -> Sites {
    let mut known: Vec<String> = Vec::new();
    let number = |address: &Address| {
        let site: Vec<&str> = address.alternatives().map(place).collect();
        let site = site.join(",");
        let at = known.iter().position(|other| *other == site).unwrap_or_else(|| {
            known.push(site);
            known.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    };
    let of_ranks = addresses.iter().map(number).collect();
    Sites { of_ranks, are_near: are_near(addresses) }
}

/// Whether all ranks are reached directly, and each at an address of one network: that they can be reached without a gateway does not say that they are
/// not an ocean apart, and what is behind a name or a proxy nobody knows.
fn are_near(addresses: &[Address]) -> bool {
    let mut common: Option<Vec<Network>> = None;
    for address in addresses {
        let Some(sockets) = address.sockets() else { return false };
        let networks: Vec<Network> = sockets.iter().map(|at| Network::of(at.ip())).collect();
        match &mut common {
            None => common = Some(networks),
            Some(common) => common.retain(|network| networks.contains(network)),
        }
    }
    common.is_none_or(|common| !common.is_empty())
}

/// What the hosts of one place have in common: in IPv4 the first 16 bits of an address, in IPv6 the first 48, which is what a site is given
/// (RFC 6177).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    V4([u8; 2]),
    V6([u16; 3]),
}

impl Network {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, ..] = address.octets();
                Self::V4([a, b])
            }
            IpAddr::V6(address) => {
                let [a, b, c, ..] = address.segments();
                Self::V6([a, b, c])
            }
        }
    }
}

/// Where an alternative leads, whichever rank it is.
fn place(alternative: &str) -> &str {
    match alternative.strip_prefix(UPGRADE) {
        // PUBLIC/domains/DOMAIN/RANK
        Some(url) => url.rsplitn(4, '/').last().unwrap_or_default(),
        None => {
            let of_url = alternative.split_once("://").and_then(|(_, rest)| rest.split('/').next());
            let socket = of_url.unwrap_or(alternative);
            socket.rsplit_once(':').map_or(socket, |(host, _)| host)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Address {
    type Err = MessageError;

    fn from_str(word: &str) -> Result<Self, MessageError> {
        let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic());
        if is_word && word.len() <= LONGEST_ADDRESS {
            Ok(Self(word.to_owned()))
        } else {
            Err(MessageError::Strange)
        }
    }
}

/// What a rank says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// It is there, and others reach it.
    Join {
        /// The domain that it means.
        domain: DomainId,
        /// Its rank.
        rank: Rank,
        /// What it was given.
        credential: Credential,
        /// Where it is reached.
        address: Address,
    },
    /// The first of a connection on which the rank tells its status.
    Report {
        /// The domain.
        domain: DomainId,
        /// The rank.
        rank: Rank,
        /// What it was given.
        credential: Credential,
    },
    /// The rank's status, on such a connection.
    Status(RankStatus),
    /// It leaves in order (`MPI_Finalize`).
    Leave,
    /// All ranks shall end (`MPI_Abort`), and the launcher with this exit code.
    Abort {
        /// The exit code.
        code: i32,
    },
}

/// What the launcher says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMessage {
    /// All ranks have joined.
    Ranks {
        /// Where they listen, in their order.
        addresses: Vec<Address>,
        /// Those that share the memory whose descriptors come with this, the receiver among them, in the order of their places in it; none:
        /// there is no such memory.
        sharing: Vec<Rank>,
    },
    /// The rank can't join, because.
    Refused(String),
}

impl fmt::Display for ClientMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join { domain, rank, credential, address } => {
                write!(f, "join {VERSION} {domain} {rank} {} {address}", credential.reveal())
            }
            Self::Report { domain, rank, credential } => {
                write!(f, "report {VERSION} {domain} {rank} {}", credential.reveal())
            }
            Self::Status(status) => write!(f, "status {status}"),
            Self::Leave => f.write_str("leave"),
            Self::Abort { code } => write!(f, "abort {code}"),
        }
    }
}

/// A line that is not understood. What is said here is told to the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Nobody could have written it.
    #[error("{}", NO_MESSAGE)]
    Strange,
    /// The first line of a rank of another version.
    #[error(
        "the rank speaks version {spoken} of the rendezvous, and its launcher or server speaks version {ours}: have both, and the MPI library, of one release",
        ours = VERSION
    )]
    Version {
        /// The rank's.
        spoken: u32,
    },
}

/// The version in which the first line of a connection is written, if it is one.
fn version(words: &[&str]) -> Option<u32> {
    match *words {
        // What has no number has a domain there, of 32 digits.
        ["join", _, _, _, _] | ["report", _, _, _] if words[1].parse::<DomainId>().is_ok() => {
            Some(1)
        }
        ["join" | "report", version, ..] => version.parse().ok(),
        _ => None,
    }
}

impl FromStr for ClientMessage {
    type Err = MessageError;

    fn from_str(line: &str) -> Result<Self, MessageError> {
        if let Some(status) = line.strip_prefix("status ") {
            return parse(status).map(Self::Status);
        }
        let words: Vec<&str> = line.split(' ').collect();
        if let Some(spoken) = version(&words).filter(|spoken| *spoken != VERSION) {
            return Err(MessageError::Version { spoken });
        }
        match words[..] {
            ["join", _, domain, rank, credential, address] => Ok(Self::Join {
                domain: parse(domain)?,
                rank: parse(rank)?,
                credential: parse(credential)?,
                address: parse(address)?,
            }),
            ["report", _, domain, rank, credential] => Ok(Self::Report {
                domain: parse(domain)?,
                rank: parse(rank)?,
                credential: parse(credential)?,
            }),
            ["leave"] => Ok(Self::Leave),
            ["abort", code] => Ok(Self::Abort { code: parse(code)? }),
            _ => Err(MessageError::Strange),
        }
    }
}

impl fmt::Display for ServerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ranks { addresses, sharing } => {
                let sharing: Vec<String> = sharing.iter().map(Rank::to_string).collect();
                write!(f, "ranks [{}]", sharing.join(","))?;
                addresses.iter().try_for_each(|address| write!(f, " {address}"))
            }
            Self::Refused(reason) => write!(f, "refused {}", reason.replace('\n', " ")),
        }
    }
}

impl FromStr for ServerMessage {
    type Err = MessageError;

    fn from_str(line: &str) -> Result<Self, MessageError> {
        if let Some(reason) = line.strip_prefix("refused ") {
            return Ok(Self::Refused(reason.to_owned()));
        }
        let (sharing, addresses) = line
            .strip_prefix("ranks [")
            .and_then(|rest| rest.split_once("] "))
            .ok_or(MessageError::Strange)?;
        let sharing = sharing.split(',').filter(|rank| !rank.is_empty());
        Ok(Self::Ranks {
            sharing: sharing.map(parse).collect::<Result<_, _>>()?,
            addresses: addresses.split(' ').map(parse).collect::<Result<_, _>>()?,
        })
    }
}

fn parse<T: FromStr>(word: &str) -> Result<T, MessageError> {
    word.parse().map_err(|_| MessageError::Strange)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written(
            rank: u32, code: i32, bits: [u8; 16], ports in proptest::collection::vec(any::<u16>(), 1..9),
        ) {
            let addresses: Vec<SocketAddr> =
                ports.iter().map(|&port| (std::net::Ipv4Addr::LOCALHOST, port).into()).collect();
            let credential = Credential::from_bytes([bits, bits].concat().try_into().unwrap());
            let join = ClientMessage::Join {
                domain: DomainId::from_bytes(bits), rank, credential, address: Address::of_sockets(&addresses),
            };
            let credential = Credential::from_bytes([bits, bits].concat().try_into().unwrap());
            let report = ClientMessage::Report { domain: DomainId::from_bytes(bits), rank, credential };
            let status = ClientMessage::Status(RankStatus::default());
            for message in [join, report, status, ClientMessage::Leave, ClientMessage::Abort { code }] {
                prop_assert!(message.to_string().len() < LONGEST_LINE);
                prop_assert_eq!(message.to_string().parse(), Ok(message));
            }
            let word = Address::of_sockets(&addresses);
            let told: Vec<_> = word.alternatives().map(|one| one.parse().unwrap()).collect();
            prop_assert_eq!((told, word.socket()), (addresses.clone(), Some(addresses[0])));
            let addresses = vec![Address::of_sockets(&addresses), Address::of_sockets(&addresses[..1])];
            let told = |sharing| ServerMessage::Ranks { addresses: addresses.clone(), sharing };
            for message in [told(vec![]), told(vec![0, rank]), ServerMessage::Refused("no more".to_owned())] {
                prop_assert_eq!(message.to_string().parse(), Ok(message));
            }
        }

        #[test]
        fn any_line_is_a_message_or_none(line: String) {
            if let Ok(message) = line.parse::<ClientMessage>() {
                prop_assert_eq!(message.to_string().parse(), Ok(message));
            }
            let _ = line.parse::<ServerMessage>();
        }
    }

    #[test]
    fn a_rank_of_another_version_is_told_both() {
        let (domain, credential) = (DomainId::from_bytes([7; 16]), Credential::from_bytes([8; 32]));
        let (credential, next) = (credential.reveal(), VERSION + 1);
        for (line, spoken) in [
            // As they were before versions were told.
            (format!("join {domain} 3 {credential} 127.0.0.1:4000"), 1),
            (format!("report {domain} 3 {credential}"), 1),
            (format!("join {next} {domain} 3 {credential} 127.0.0.1:4000"), next),
            (format!("join {next} whatever that will have"), next),
            ("report 77".to_owned(), 77),
        ] {
            let error = line.parse::<ClientMessage>().unwrap_err();
            assert_eq!(error, MessageError::Version { spoken }, "{line}");
            let told = error.to_string();
            let named = [spoken, VERSION].map(|of| format!("version {of}"));
            assert!(named.iter().all(|version| told.contains(version)), "{told}");
        }
        for line in
            ["join", "join x", &format!("join {VERSION} {domain}"), "report -1 x", "leave 2"]
        {
            assert_eq!(line.parse::<ClientMessage>(), Err(MessageError::Strange), "{line}");
        }
    }

    fn sites_of(addresses: &[&str]) -> Sites {
        sites(&addresses.iter().map(|address| address.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn ranks_are_at_one_site_whose_addresses_lead_to_one_place() {
        for (addresses, expected) in [
            (&["127.0.0.1:1", "127.0.0.1:2", "192.0.2.1:1"][..], &[0, 0, 1][..]),
            (&["[::1]:1", "[2001:db8::1]:1", "[::1]:2", "[2001:db8::1]:1"], &[0, 1, 0, 1]),
            (&["192.0.2.1:1,[::1]:1", "192.0.2.1:2,[::1]:2", "192.0.2.1:3"], &[0, 0, 1]),
            (&["http://127.0.0.1:1/0", "http://192.0.2.1:1/1", "http://127.0.0.1:2/2"], &[0, 1, 0]),
            (
                &[
                    "upgrade+https://a.example/domains/d/0",
                    "upgrade+https://a.example/x/domains/d/1",
                    "upgrade+https://a.example/domains/d/2",
                ],
                &[0, 1, 0],
            ),
            (
                &[
                    "upgrade+https://a.example/sites/b/domains/d/0,upgrade+https://c.example/domains/d/0",
                    "upgrade+https://a.example/sites/b/domains/d/1,upgrade+https://c.example/domains/d/1",
                    "upgrade+https://a.example/sites/b/domains/d/2",
                ],
                &[0, 0, 1],
            ),
        ] {
            let found = sites_of(addresses);
            assert_eq!(*found.of_ranks, *expected, "{addresses:?}");
        }
    }

    #[test]
    fn sites_are_near_whose_hosts_are_of_one_network() {
        for (addresses, near) in [
            (&["127.0.0.1:1", "127.0.0.1:2"][..], true),
            (&["10.1.0.1:1", "10.1.7.1:1"], true),
            // Each has several, and one of them is of a network that all have.
            (&["192.0.2.1:1,10.1.0.1:1", "10.1.7.1:1,198.51.100.1:1"], true),
            (&["192.0.2.1:1,10.1.0.1:1", "10.1.7.1:1,198.51.100.1:1", "192.0.2.7:1"], false),
            (&["[2001:db8:1::1]:1", "[2001:db8:1:7::1]:1"], true),
            (&["[2001:db8:1::1]:1", "[2001:db8:2::1]:1"], false),
            (&["[::ffff:10.1.0.1]:1", "10.1.7.1:1"], true),
            // Reached directly, and far.
            (&["192.0.2.1:1", "198.51.100.1:1"], false),
            // A URL is no nearer than its host.
            (&["http://10.1.0.1:1/domains/d/0", "http://10.1.7.1:1/domains/d/1"], true),
            (&["http://192.0.2.1:1/domains/d/0", "http://198.51.100.1:1/domains/d/1"], false),
            (&["http://a.example/domains/d/0", "http://b.example/domains/d/1"], false),
            (&["https://10.1.0.1:1/domains/d/0", "https://10.1.7.1:1/domains/d/1"], false),
            (&["127.0.0.1:1", "upgrade+http://127.0.0.1:1/domains/d/1"], false),
        ] {
            assert_eq!(sites_of(addresses).are_near, near, "{addresses:?}");
        }
    }

    #[test]
    fn all_ranks_see_one_partition() {
        let gateway =
            |site: &str, rank: u32| format!("upgrade+https://{site}.example/domains/d/{rank}");
        let places = ["a", "b", "a", "c", "b"];
        for soap in [false, true] {
            for viewer in ["a", "b", "c"] {
                let address = |(rank, site): (u32, &&str)| match (*site == viewer, soap) {
                    (true, false) => format!("127.0.0.1:{}", 1024 + rank),
                    (true, true) => format!("http://127.0.0.1:{}/domains/d/{rank}", 1024 + rank),
                    (false, _) => gateway(site, rank),
                };
                let seen: Vec<String> = (0..).zip(&places).map(address).collect();
                let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
                let expected = Sites::from(&[0, 1, 0, 2, 1][..]);
                assert_eq!(sites_of(&seen), expected, "{viewer} {seen:?}");
            }
        }
    }
}

//! What a launcher tells a process in its environment.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::credential::Credential;
use crate::error::{Error, Result};
use crate::header::{DomainId, Rank};

/// The domain's ID, 32 hexadecimal digits.
pub const DOMAIN: &str = "FISHPLATE_DOMAIN";
/// The process's rank, from 0.
pub const RANK: &str = "FISHPLATE_RANK";
/// How many ranks the domain has.
pub const RANKS: &str = "FISHPLATE_RANKS";
/// The Unix socket at which the launcher serves the rendezvous.
pub const RENDEZVOUS: &str = "FISHPLATE_RENDEZVOUS";
/// The domain's credential, 64 hexadecimal digits.
pub const CREDENTIAL: &str = "FISHPLATE_CREDENTIAL";
/// Which of the launch's programs the process runs, from 0 (`MPI_APPNUM`); it joins without, too.
pub const APPLICATION: &str = "FISHPLATE_APPLICATION";

/// Addresses of this machine at which others reach the process, separated by commas, in the order in which they are tried. Without it,
/// 127.0.0.1: all ranks are here.
pub const ADDRESSES: &str = "FISHPLATE_ADDRESSES";

/// What carries messages, a [`TransportKind`] by name. Without it, memory that a launcher gives, else TCP.
pub const TRANSPORT: &str = "FISHPLATE_TRANSPORT";

/// All that a process needs to join.
pub const VARIABLES: [&str; 5] = [DOMAIN, RANK, RANKS, RENDEZVOUS, CREDENTIAL];

/// What carries messages between the ranks of a domain: the same for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportKind {
    /// Memory that they share; TCP if it can't be had.
    #[default]
    SharedMemory,
    /// A connection of TCP between each two that talk.
    Tcp,
    /// Calls of the operation `store`.
    Soap,
}

impl TransportKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SharedMemory, Self::Tcp, Self::Soap];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SharedMemory => "shared-memory",
            Self::Tcp => "tcp",
            Self::Soap => "soap",
        }
    }

    /// That of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A rank, and where it finds the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchEnvironment {
    /// The domain.
    pub domain: DomainId,
    /// The process's rank.
    pub rank: Rank,
    /// How many there are.
    pub ranks: u32,
    /// The launcher's socket.
    pub rendezvous: PathBuf,
    /// What proves that the process belongs to the domain.
    pub credential: Credential,
    /// Addresses of this machine at which others reach the process, in the order in which they are tried; none: it is for ranks of
    /// this machine only.
    pub addresses: Vec<IpAddr>,
    /// What carries messages.
    pub transport: TransportKind,
}

impl LaunchEnvironment {
    /// What this process was told; `None` if no launcher started it.
    pub fn of_this_process() -> Result<Option<Self>> {
        Self::read(|name| std::env::var_os(name))
    }

    /// What `variable` has; `None` if it has none of [`VARIABLES`].
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>> {
        if VARIABLES.iter().all(|name| variable(name).is_none()) {
            return Ok(None);
        }
        let get = |name| {
            variable(name).ok_or_else(|| Error::Join {
                problem: format!(
                    "{name} is not set, but others of {} are: a launcher sets all of them, and without any the process is alone",
                    VARIABLES.join(", ")
                ),
            })
        };
        let ranks: u32 = parse(RANKS, &get(RANKS)?, "the number of ranks, 1 or more, is needed")?;
        let rank = parse(RANK, &get(RANK)?, "a rank from 0 is needed")?;
        if rank >= ranks {
            let problem = format!("{RANK} is {rank}: ranks are below {RANKS}, which is {ranks}");
            return Err(Error::Join { problem });
        }
        Ok(Some(Self {
            domain: parse(DOMAIN, &get(DOMAIN)?, "32 hexadecimal digits are needed")?,
            rank,
            ranks,
            rendezvous: get(RENDEZVOUS)?.into(),
            // Not shown, though it is wrong.
            credential: get(CREDENTIAL)?.to_str().and_then(|text| text.parse().ok()).ok_or_else(
                || Error::Join {
                    problem: format!("{CREDENTIAL} is wrong: 64 hexadecimal digits are needed"),
                },
            )?,
            addresses: match variable(ADDRESSES) {
                Some(text) => addresses(&text)?,
                None => Vec::new(),
            },
            transport: match variable(TRANSPORT) {
                Some(name) => transport(&name)?,
                None => TransportKind::default(),
            },
        }))
    }

    /// The variables that say so.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables: Vec<(_, OsString)> = vec![
            (DOMAIN, self.domain.to_string().into()),
            (RANK, self.rank.to_string().into()),
            (RANKS, self.ranks.to_string().into()),
            (RENDEZVOUS, self.rendezvous.clone().into()),
            (CREDENTIAL, self.credential.reveal().into()),
        ];
        if !self.addresses.is_empty() {
            let all: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
            variables.push((ADDRESSES, all.join(",").into()));
        }
        if self.transport != TransportKind::default() {
            variables.push((TRANSPORT, self.transport.name().into()));
        }
        variables
    }
}

fn addresses(text: &OsString) -> Result<Vec<IpAddr>> {
    let wrong = || Error::Join {
        problem: format!(
            "{ADDRESSES} is {}: addresses of this machine are needed, separated by commas",
            text.display()
        ),
    };
    let all = text.to_str().ok_or_else(wrong)?.split(',').map(|one| one.trim().parse());
    all.collect::<std::result::Result<_, _>>().map_err(|_| wrong())
}

fn transport(name: &OsString) -> Result<TransportKind> {
    name.to_str().and_then(TransportKind::from_name).ok_or_else(|| {
        let names = TransportKind::ALL.map(TransportKind::name).join(", ");
        Error::Join {
            problem: format!("{TRANSPORT} is {}: one of {names} is needed", name.display()),
        }
    })
}

fn parse<T: FromStr>(name: &str, value: &OsString, needed: &str) -> Result<T> {
    let parsed = value.to_str().and_then(|text| text.parse().ok());
    parsed
        .ok_or_else(|| Error::Join { problem: format!("{name} is {}: {needed}", value.display()) })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn told() -> LaunchEnvironment {
        LaunchEnvironment {
            domain: DomainId::from_bytes([7; 16]),
            rank: 2,
            ranks: 3,
            rendezvous: "/run/rendezvous".into(),
            credential: Credential::from_bytes([8; 32]),
            addresses: vec!["10.0.0.7".parse().unwrap(), "::1".parse().unwrap()],
            transport: TransportKind::Soap,
        }
    }

    #[test]
    fn what_is_told_is_read() {
        let variables: HashMap<_, _> = told().variables().into_iter().collect();
        assert_eq!(variables.len(), VARIABLES.len() + 2);
        let read = LaunchEnvironment::read(|name| variables.get(name).cloned());
        assert_eq!(read, Ok(Some(told())));
        assert_eq!(LaunchEnvironment::read(|_| None), Ok(None));
        let here = LaunchEnvironment {
            addresses: Vec::new(),
            transport: TransportKind::default(),
            ..told()
        };
        let variables: HashMap<_, _> = here.variables().into_iter().collect();
        let read = LaunchEnvironment::read(|name| variables.get(name).cloned());
        assert_eq!(read, Ok(Some(here)));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let complaint = |name: &str, value: Option<&str>| {
            let mut variables: HashMap<_, _> = told().variables().into_iter().collect();
            match value {
                Some(value) => {
                    let mut known = VARIABLES.iter().chain([&ADDRESSES, &TRANSPORT]);
                    variables.insert(known.find(|known| **known == name).unwrap(), value.into())
                }
                None => variables.remove(name),
            };
            LaunchEnvironment::read(|name| variables.get(name).cloned()).unwrap_err().to_string()
        };
        for name in VARIABLES {
            assert!(complaint(name, None).contains(&format!("{name} is not set")), "{name}");
        }
        for (name, value, said) in [
            (DOMAIN, "07", "FISHPLATE_DOMAIN is 07: 32 hexadecimal digits"),
            (RANK, "-1", "FISHPLATE_RANK is -1: a rank from 0"),
            (RANK, "3", "FISHPLATE_RANK is 3: ranks are below FISHPLATE_RANKS, which is 3"),
            (RANKS, "many", "FISHPLATE_RANKS is many: the number of ranks"),
            (RANKS, "0", "ranks are below FISHPLATE_RANKS, which is 0"),
            (ADDRESSES, "10.0.0.7,here", "FISHPLATE_ADDRESSES is 10.0.0.7,here: addresses of this"),
            (TRANSPORT, "pigeon", "FISHPLATE_TRANSPORT is pigeon: one of shared-memory, tcp, soap"),
            (CREDENTIAL, "secret", "FISHPLATE_CREDENTIAL is wrong: 64 hexadecimal digits"),
        ] {
            let complaint = complaint(name, Some(value));
            assert!(complaint.contains(said), "{complaint}");
            assert!(!complaint.contains("secret"));
        }
    }
}

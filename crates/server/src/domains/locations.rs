//! Where ranks listen, on disk: a server that was killed and started anew goes on being their gateway.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fishplate_ranks::{Credential, DomainId, Rank};

/// How long a rank of before may take to accept; those here need no time.
const ACCEPT: Duration = Duration::from_millis(100);

/// What a gateway knows of a rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Location {
    /// The credential of its domain.
    pub(crate) credential: Credential,
    /// Where it listens; `None` if it is not here (any more).
    pub(crate) at: Option<SocketAddr>,
}

/// A directory for each domain, in it a file for each rank that has joined.
#[derive(Debug)]
pub(super) struct Locations(PathBuf);

impl Locations {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    fn directory(&self, domain: DomainId) -> PathBuf {
        self.0.join(domain.to_string())
    }

    pub(super) fn write(
        &self,
        domain: DomainId,
        rank: Rank,
        at: SocketAddr,
        credential: &Credential,
    ) -> io::Result<()> {
        let directory = self.directory(domain);
        fs::create_dir_all(&directory)?;
        let new = directory.join(format!("{rank}.new"));
        fs::write(&new, format!("{at} {}\n", credential.reveal()))?;
        fs::rename(new, directory.join(rank.to_string()))
    }

    pub(super) fn read(&self, domain: DomainId, rank: Rank) -> Option<Location> {
        location(&self.directory(domain).join(rank.to_string()))
    }

    pub(super) fn remove(&self, domain: DomainId) {
        match fs::remove_dir_all(self.directory(domain)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%error, %domain, "where its ranks were can't be forgotten");
            }
            _ => {}
        }
    }

    /// Forgets domains of whose ranks none listens any more.
    pub(super) fn remove_dead(&self) {
        for domain in entries(&self.0) {
            let is_there = |path: &PathBuf| {
                let at = location(path).and_then(|location| location.at);
                at.is_some_and(|at| TcpStream::connect_timeout(&at, ACCEPT).is_ok())
            };
            if !entries(&domain).iter().any(is_there) {
                let _ = fs::remove_dir_all(domain);
            }
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn location(path: &Path) -> Option<Location> {
    let text = fs::read_to_string(path).ok()?;
    let (at, credential) = text.trim_end().split_once(' ')?;
    Some(Location { credential: credential.parse().ok()?, at: Some(at.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn ranks_are_found_until_none_of_their_domain_listens() {
        let directory = tempfile::tempdir().unwrap();
        let locations = Locations::new(directory.path().join("locations"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (here, gone) = (DomainId::from_bytes([1; 16]), DomainId::from_bytes([2; 16]));
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let credential = Credential::from_bytes([3; 32]);
        let at = listener.local_addr().unwrap();
        for (domain, rank, at) in [(here, 0, at), (here, 1, nobody), (gone, 0, nobody)] {
            locations.write(domain, rank, at, &credential).unwrap();
        }
        locations.remove_dead();
        let found = Location { credential, at: Some(at) };
        assert_eq!(locations.read(here, 0), Some(found));
        assert_eq!((locations.read(gone, 0), locations.read(here, 2)), (None, None));
        locations.remove(here);
        assert_eq!(locations.read(here, 0), None);
    }
}

//! Where ranks listen, on disk: a server that was killed and started anew goes on being their gateway. Each stands there with its job:
//! once that has ended, somebody else may listen there.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fishplate_contract::{Fault, JobId, Principal};
use fishplate_jobs::engine::Engine;
use fishplate_ranks::{Credential, DomainId, Rank};

/// What a gateway knows of a rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Location {
    /// The credential of its domain.
    pub(crate) credential: Credential,
    /// Where it listens; `None` if it is not here (any more).
    pub(super) at: Option<SocketAddr>,
    /// Its job, if only that tells whether it is still there, or will be.
    pub(super) job: Option<JobId>,
}

/// Whether a rank is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It listens there.
    At(SocketAddr),
    /// It was started here and has not joined yet.
    Expected,
    /// It is not here (any more).
    Absent,
}

impl Location {
    /// Where it is by now.
    ///
    /// # Errors
    /// If the record of its job can't be read.
    pub(crate) async fn find(&self, engine: &Engine) -> Result<Presence, Fault> {
        let runs = match self.job {
            Some(job) => engine.owner(job).await?.map(|(_, runs)| runs),
            None => None,
        };
        Ok(self.presence(runs))
    }

    /// The same, knowing whether its job goes on, if that tells.
    fn presence(&self, runs: Option<bool>) -> Presence {
        match (self.at, runs) {
            (Some(at), Some(true)) => Presence::At(at),
            (Some(at), None) if self.job.is_none() => Presence::At(at),
            (None, Some(true)) => Presence::Expected,
            _ => Presence::Absent,
        }
    }
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
        (rank, job): (Rank, JobId),
        at: SocketAddr,
        credential: &Credential,
    ) -> io::Result<()> {
        let directory = self.directory(domain);
        fs::create_dir_all(&directory)?;
        let new = directory.join(format!("{rank}.new"));
        fs::write(&new, format!("{at} {job} {}\n", credential.reveal()))?;
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

    /// Forgets all ranks whose jobs have ended.
    pub(super) async fn remove_dead(&self, engine: &Engine) -> Result<(), Fault> {
        for domain in entries(&self.0) {
            retain(&domain, engine, |_, runs| runs).await?;
        }
        Ok(())
    }

    /// Forgets the ranks of an owner, and those whose jobs have ended.
    pub(super) async fn remove_of(
        &self,
        domain: DomainId,
        owner: &Principal,
        engine: &Engine,
    ) -> Result<(), Fault> {
        retain(&self.directory(domain), engine, |of, runs| runs && of != owner).await?;
        Ok(())
    }

    /// Whether a rank of somebody else is still there; those whose jobs have ended are forgotten.
    pub(super) async fn is_of_another(
        &self,
        domain: DomainId,
        owner: &Principal,
        engine: &Engine,
    ) -> Result<bool, Fault> {
        let owners = retain(&self.directory(domain), engine, |_, runs| runs).await?;
        Ok(owners.iter().any(|of| of != owner))
    }
}

/// Forgets the ranks in a domain's directory but for those that are to be kept, by the owners of their jobs and whether these have not ended;
/// whose are left.
async fn retain(
    directory: &Path,
    engine: &Engine,
    is_kept: impl Fn(&Principal, bool) -> bool,
) -> Result<Vec<Principal>, Fault> {
    let mut owners = Vec::new();
    for path in entries(directory) {
        let owner = match location(&path).and_then(|location| location.job) {
            Some(job) => engine.owner(job).await?,
            None => None,
        };
        match owner.filter(|(owner, runs)| is_kept(owner, *runs)) {
            Some((owner, _)) => owners.push(owner),
            None => drop(fs::remove_file(path)),
        }
    }
    // Only if nothing is left in it.
    let _ = fs::remove_dir(directory);
    Ok(owners)
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn location(path: &Path) -> Option<Location> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let at = Some(words.next()?.parse().ok()?);
    let job = Some(words.next()?.parse().ok()?);
    let credential = words.next()?.parse().ok()?;
    Some(Location { credential, at, job })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_has_not_joined_is_expected_as_long_as_its_job_goes_on() {
        let job = JobId::from_bytes([1; 16]);
        let at: SocketAddr = ([127, 0, 0, 1], 4000).into();
        let credential = Credential::from_bytes([2; 32]);
        for (at, job, runs, presence) in [
            (Some(at), None, None, Presence::At(at)),
            (Some(at), Some(job), Some(true), Presence::At(at)),
            (Some(at), Some(job), Some(false), Presence::Absent),
            (Some(at), Some(job), None, Presence::Absent),
            (None, Some(job), Some(true), Presence::Expected),
            (None, Some(job), Some(false), Presence::Absent),
            (None, Some(job), None, Presence::Absent),
            (None, None, None, Presence::Absent),
        ] {
            let location = Location { credential: credential.clone(), at, job };
            assert_eq!(location.presence(runs), presence, "{location:?} {runs:?}");
        }
    }
}

//! A process as its launcher knows it.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::header::{DomainId, Rank};
use crate::launch::rendezvous::{
    Address, ClientMessage, NO_MESSAGE, ServerMessage, VERSION, sites,
};
use crate::launch::reporter::Reporter;
use crate::launch::{LaunchEnvironment, TransportKind, descriptors};
use crate::process::Process;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::transport::local::Local;
use crate::transport::shared_memory::{Segment, SharedMemory};
use crate::transport::soap::{Endpoint, Soap};
use crate::transport::tcp::Tcp;

/// A rank that has joined its domain. A process that ends without [`Client::leave`] has not left in order, and the launcher ends all.
#[derive(Debug)]
pub struct Client {
    process: Arc<Process>,
    /// `None` for a process that nobody launched.
    launcher: Option<UnixStream>,
}

impl Client {
    /// Joins the domain that the environment names; waits until all of its ranks do (`MPI_Init`). Without such an
    /// environment, begins a domain of this process alone. Limits that the environment sets come before those of `settings`.
    pub fn join(settings: Settings) -> Result<Self> {
        let settings = settings.with_environment()?;
        match LaunchEnvironment::of_this_process()? {
            Some(environment) => Self::join_as(&environment, settings),
            None => {
                let transport = Local::domain(1).remove(0);
                let process =
                    Process::join(DomainId::random()?, 0, 1, Box::new(transport), settings)?;
                Ok(Self { process, launcher: None })
            }
        }
    }

    /// Joins as an environment says.
    pub fn join_as(environment: &LaunchEnvironment, settings: Settings) -> Result<Self> {
        let &LaunchEnvironment { domain, rank, ranks, .. } = environment;
        let system =
            |what: &str, error: &io::Error| Error::Join { problem: format!("{what}: {error}") };
        let at = binding(&environment.addresses);
        let listener = TcpListener::bind((at, 0))
            .map_err(|error| system(&format!("no port of {at} can be had"), &error))?;
        let port = listener.local_addr().map_err(|error| system("its port", &error))?.port();
        let soap = environment.transport == TransportKind::Soap;
        let (endpoint, address) = if soap {
            let endpoint = Endpoint::new(
                listener.try_clone().map_err(|error| system("its socket", &error))?,
                &settings,
            )?;
            let url = endpoint.url(domain, rank, environment.addresses.first().copied())?;
            (Some(endpoint), Address::of_url(&url)?)
        } else {
            let told: Vec<SocketAddr> = match &environment.addresses[..] {
                [] => vec![(at, port).into()],
                all => all.iter().map(|&address| (address, port).into()).collect(),
            };
            (None, Address::of_sockets(&told))
        };
        let at = environment.rendezvous.display();
        let launcher = UnixStream::connect(&environment.rendezvous)
            .map_err(|error| system(&format!("no launcher is at {at}"), &error))?;
        let credential = environment.credential.clone();
        let join = ClientMessage::Join { domain, rank, credential: credential.clone(), address };
        let Others { addresses, sharing, memory } = exchange(&launcher, &join)?;
        if addresses.len() != ranks as usize {
            let problem = format!(
                "the launcher at {at} knows {} ranks, and the environment says {ranks}",
                addresses.len()
            );
            return Err(Error::Join { problem });
        }
        let settings = Settings { sites: sites(&addresses), ..settings };
        if let Some(endpoint) = endpoint {
            let soap = Soap::new(domain, credential, rank, endpoint, &addresses, &settings)?;
            let process = Process::join(domain, rank, ranks, Box::new(soap), settings)?;
            return Self::launched(process, launcher, environment);
        }
        let tcp = |event| {
            Tcp::with_event(domain, credential, rank, listener, &addresses, &settings, event)
        };
        if memory.is_empty() && sharing.contains(&rank) {
            // The others would wait for messages in memory that it does not have.
            let problem = format!(
                "the descriptors of the memory that ranks share did not come from the launcher at {at} (more than RLIMIT_NOFILE?)"
            );
            return Err(Error::Join { problem });
        }
        let transport: Box<dyn Transport> = if memory.is_empty() {
            Box::new(tcp(None)?)
        } else {
            let count = u32::try_from(sharing.len()).unwrap_or(u32::MAX);
            let segment = Segment::open(memory, count)
                .map_err(|error| system("the memory that ranks share can't be had", &error))?;
            let place = sharing.iter().position(|&of| of == rank).ok_or_else(|| {
                let problem = format!("the launcher at {at} gave memory that others share");
                Error::Join { problem }
            })?;
            let tcp = tcp(Some(SharedMemory::event(&segment, place)?))?;
            Box::new(SharedMemory::new(Arc::new(segment), sharing, place, tcp))
        };
        let process = Process::join(domain, rank, ranks, transport, settings)?;
        Self::launched(process, launcher, environment)
    }

    fn launched(
        process: Arc<Process>,
        launcher: UnixStream,
        environment: &LaunchEnvironment,
    ) -> Result<Self> {
        process.connect()?;
        process.agree_on_sites();
        let mut reporter = Reporter::new(environment);
        process.observe(Box::new(move |status| reporter.tell(status)));
        Ok(Self { process, launcher: Some(launcher) })
    }

    /// The process, whose world is the domain.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The connection to the launcher, which ends when that does; `None` for a process that nobody launched.
    pub fn launcher(&self) -> Option<BorrowedFd<'_>> {
        self.launcher.as_ref().map(AsFd::as_fd)
    }

    /// Leaves the domain in order ([`Process::leave`], `MPI_Finalize`).
    pub fn leave(&self) {
        self.process.leave();
        // A launcher that is gone need not know.
        let _ = self.tell(&ClientMessage::Leave);
    }

    /// Has the launcher end all ranks, and then itself with `code` (`MPI_Abort`). The caller ends this process afterwards.
    pub fn abort(&self, code: i32) {
        let _ = self.tell(&ClientMessage::Abort { code });
    }

    fn tell(&self, message: &ClientMessage) -> io::Result<()> {
        let Some(mut launcher) = self.launcher.as_ref() else { return Ok(()) };
        launcher.write_all(format!("{message}\n").as_bytes())
    }
}

/// Where a process listens that is reached at these addresses.
fn binding(addresses: &[IpAddr]) -> IpAddr {
    match addresses {
        [] => Ipv4Addr::LOCALHOST.into(),
        [one] => *one,
        all if all.iter().all(IpAddr::is_ipv4) => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// What a rank is told of all ranks.
struct Others {
    addresses: Vec<Address>,
    /// Ranks that share memory with it, and itself.
    sharing: Vec<Rank>,
    memory: Vec<OwnedFd>,
}

/// Says that a rank is there; where all are, once they are.
fn exchange(mut launcher: &UnixStream, join: &ClientMessage) -> Result<Others> {
    let (mut line, mut memory) = (Vec::new(), Vec::new());
    let mut answer = || -> io::Result<()> {
        launcher.write_all(format!("{join}\n").as_bytes())?;
        let mut bytes = [0; 4096];
        while line.last() != Some(&b'\n') {
            match descriptors::receive(launcher, &mut bytes, &mut memory) {
                Ok(0) => break,
                Ok(count) => line.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    let answered = answer();
    let line = String::from_utf8_lossy(&line);
    let problem = match (answered, line.trim_end().parse()) {
        (_, Ok(ServerMessage::Ranks { addresses, sharing })) => {
            return Ok(Others { addresses, sharing, memory });
        }
        (_, Ok(ServerMessage::Refused(reason))) if reason == NO_MESSAGE => format!(
            "the launcher or server speaks version 1 of the rendezvous, and this rank speaks version {VERSION}: have both, and the MPI library, of one release"
        ),
        (_, Ok(ServerMessage::Refused(reason))) => reason,
        (Err(error), _) => format!("the launcher does not answer: {error}"),
        (Ok(()), _) if line.is_empty() => "the launcher has ended".to_owned(),
        (Ok(()), _) => format!("the launcher gave a strange answer: {}", line.trim_end()),
    };
    Err(Error::Join { problem })
}

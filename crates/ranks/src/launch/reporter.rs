//! How a rank's statuses come to its launcher: over a connection of their own, so that a launcher that does not read keeps nobody from
//! anything. (On the other one the system would also kill programs for MPI when there is room again: fcntl(2), `F_SETSIG`.)

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, send, socket_with};

use crate::launch::LaunchEnvironment;
use crate::launch::rendezvous::ClientMessage;
use crate::status::RankStatus;

/// The rank's end.
#[derive(Debug)]
pub(super) struct Reporter {
    rendezvous: PathBuf,
    greeting: String,
    /// Made when there is something to tell.
    connection: Option<OwnedFd>,
    /// What could not be sent yet.
    rest: Vec<u8>,
}

impl Reporter {
    pub(super) fn new(environment: &LaunchEnvironment) -> Self {
        let &LaunchEnvironment { domain, rank, ref credential, .. } = environment;
        let greeting = ClientMessage::Report { domain, rank, credential: credential.clone() };
        let (rendezvous, greeting) = (environment.rendezvous.clone(), format!("{greeting}\n"));
        Self { rendezvous, greeting, connection: None, rest: Vec::new() }
    }

    /// Sends it without waiting, or not at all; whether it did.
    pub(super) fn tell(&mut self, status: &RankStatus) -> bool {
        if self.connection.is_none() {
            self.connection = self.connect().ok();
            self.rest = self.greeting.clone().into_bytes();
        }
        // What is not sent yet comes first: then this one is told later.
        let waits = self.connection.is_none() || (self.send() && !self.rest.is_empty());
        if waits || self.connection.is_none() {
            return false;
        }
        self.rest = format!("{}\n", ClientMessage::Status(status.clone())).into_bytes();
        self.send()
    }

    fn connect(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(&self.rendezvous)?)?;
        Ok(socket)
    }

    /// Sends what can be sent now; whether the connection lives.
    fn send(&mut self) -> bool {
        let Some(connection) = &self.connection else { return false };
        while !self.rest.is_empty() {
            match send(connection, &self.rest, SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.rest.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.connection = None;
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::launch::TransportKind;
    use crate::status::Wait;
    use crate::{Credential, DomainId};

    #[test]
    fn a_launcher_that_does_not_read_holds_nobody_up() {
        let directory = std::env::temp_dir().join(format!("reporter-{}", std::process::id()));
        let _ = std::fs::remove_file(&directory);
        let listener = UnixListener::bind(&directory).unwrap();
        let environment = LaunchEnvironment {
            domain: DomainId::from_bytes([1; 16]),
            rank: 3,
            ranks: 4,
            rendezvous: directory.clone(),
            credential: Credential::from_bytes([2; 32]),
            addresses: Vec::new(),
            transport: TransportKind::Tcp,
        };
        let mut reporter = Reporter::new(&environment);
        let status = |milliseconds| {
            let call = "c".repeat(3000);
            let wait = Wait { call, ranks: Vec::new(), all: false, moving: false, milliseconds };
            RankStatus { wait: Some(wait), ..RankStatus::default() }
        };
        let told = (0..10_000).take_while(|&at| reporter.tell(&status(at))).count();
        assert!((1..10_000).contains(&told), "{told}");
        assert!(!reporter.tell(&status(0)));
        // Lines stay whole when it reads again.
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
        let mut lines = BufReader::new(stream).lines();
        let greeting: ClientMessage = lines.next().unwrap().unwrap().parse().unwrap();
        assert!(matches!(greeting, ClientMessage::Report { rank: 3, .. }));
        for at in 0..u64::try_from(told).unwrap() - 1 {
            let line: ClientMessage = lines.next().unwrap().unwrap().parse().unwrap();
            assert_eq!(line, ClientMessage::Status(status(at)));
        }
        assert!(reporter.tell(&status(0)));
        // One that is gone is no harm either, and a new one is found.
        drop((lines, listener));
        std::fs::remove_file(&directory).unwrap();
        assert!(!reporter.tell(&status(0)) && !reporter.tell(&status(0)));
        let listener = UnixListener::bind(&directory).unwrap();
        assert!(reporter.tell(&status(0)));
        drop(listener);
        std::fs::remove_file(&directory).unwrap();
    }
}

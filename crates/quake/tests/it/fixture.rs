//! The fixture as a system under test.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use fishplate_quake::experiment::System;
use fishplate_quake::probe::{self, Ask, Probe};
use fishplate_quake::record::Happening;
use fishplate_quake::system::{Happened, Happenings, SystemUnderTest};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::subprocesses;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixture/server.py");

/// A system under test, the cell's directory, and what happens to it.
pub(crate) struct Bed {
    pub(crate) system: Arc<SystemUnderTest>,
    pub(crate) address: SocketAddr,
    /// By which it is told.
    pub(crate) happenings: Happenings,
    pub(crate) happened: mpsc::UnboundedReceiver<Happened>,
    pub(crate) directory: TempDir,
}

/// A port that was free just now.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Bed {
    /// The fixture, that takes so long to start.
    pub(crate) fn fixture(starts_in: &str) -> Self {
        let address = free_address();
        let server = format!("['python3', {SERVER:?}, '{}', '{starts_in}']", address.port());
        Self::new(address, &format!("process.server = {{ start = {server} }}"))
    }

    /// A system of these lines of TOML, probed at this address.
    pub(crate) fn new(address: SocketAddr, lines: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("name = 'fixture'\nurl = 'http://{address}/'\n{lines}");
        let text = text.replace("{directory}", &directory.path().display().to_string());
        let system: System = toml::from_str(&text).unwrap();
        let (happenings, happened) = mpsc::unbounded_channel();
        let probe = Probe::new(alive(address), Duration::from_secs(2));
        let system = SystemUnderTest::new(
            system,
            directory.path(),
            &subprocesses(),
            probe,
            happenings.clone(),
        )
        .unwrap();
        Self { system: Arc::new(system), address, happenings, happened, directory }
    }

    /// How a process ended: its exit code, its signal, whether that was for want of memory.
    pub(crate) async fn ending(&mut self) -> (Option<i32>, Option<i32>, bool) {
        loop {
            let happened = self.happened.recv().await.expect("an end");
            if let Happening::Ended { code, signal, out_of_memory, .. } = happened.what {
                return (code, signal, out_of_memory);
            }
        }
    }

    /// The fixture goes on in this mode.
    pub(crate) fn set_mode(&self, mode: &str) {
        let mut connection = TcpStream::connect(self.address).unwrap();
        let length = mode.len();
        write!(connection, "POST /mode HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{mode}")
            .unwrap();
        // One that crashes does not answer.
        let _ = connection.read(&mut [0; 1]);
    }
}

/// Asks `GET /alive`.
fn alive(address: SocketAddr) -> Ask {
    Arc::new(move || {
        Box::pin(async move {
            let connection = tokio::net::TcpStream::connect(address).await;
            let mut connection = connection.map_err(|error| probe::unreachable(&error))?;
            let request = b"GET /alive HTTP/1.1\r\n\r\n";
            connection.write_all(request).await.map_err(|error| error.to_string())?;
            let mut answer = [0; 15];
            connection.read_exact(&mut answer).await.map_err(|error| error.to_string())?;
            if answer.starts_with(b"HTTP/1.1 200") { Ok(()) } else { Err("no 200".to_owned()) }
        })
    })
}

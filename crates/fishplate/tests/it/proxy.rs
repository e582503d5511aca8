//! A TCP proxy that can break what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What happens to a connection after so many bytes from one side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConnectionFault {
    /// It is closed.
    Cut(u64),
    /// Nothing more passes, and nobody is told.
    Stall(u64),
}

/// Passes connections on to a server; those over which much goes meet their fates, one after the
/// other.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    server: Mutex<Option<SocketAddr>>,
    fates: Mutex<Vec<ConnectionFault>>,
    passed: AtomicU64,
}

impl Proxy {
    /// Listens; where it leads to is told later.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let passing = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = passing.server.lock().unwrap().map(TcpStream::connect);
                let Some(Ok(server)) = server else { continue };
                // Of the requests that only ask, none is large enough to use a fate up.
                let fate = Arc::new(Mutex::new(None));
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (shared, fate) = (Arc::clone(&passing), Arc::clone(&fate));
                    std::thread::spawn(move || pass(from, to, &shared, &fate));
                }
            }
        });
        Self { address, shared }
    }

    /// The URL under which the server is to be known.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// From now on it leads there.
    pub(crate) fn lead_to(&self, server: SocketAddr) {
        *self.shared.server.lock().unwrap() = Some(server);
    }

    /// What the next connections meet; with none, nothing breaks. Counts from 0 again.
    pub(crate) fn meet(&self, fates: &[ConnectionFault]) {
        *self.shared.fates.lock().unwrap() = fates.iter().rev().copied().collect();
        self.shared.passed.store(0, SeqCst);
    }

    /// Bytes that passed so far, both ways.
    pub(crate) fn passed(&self) -> u64 {
        self.shared.passed.load(SeqCst)
    }
}

/// A connection meets its fate only once more than this passed one way: what only asks is let be.
const LARGE: u64 = 64 << 10;

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    shared: &Shared,
    fate: &Mutex<Option<ConnectionFault>>,
) {
    let mut chunk = vec![0; 16 << 10];
    let mut here = 0;
    while let Ok(read) = from.read(&mut chunk) {
        if read == 0 || to.write_all(&chunk[..read]).is_err() {
            break;
        }
        here += read as u64;
        shared.passed.fetch_add(read as u64, SeqCst);
        if here < LARGE {
            continue;
        }
        let mut mine = fate.lock().unwrap();
        if mine.is_none() {
            *mine = shared.fates.lock().unwrap().pop();
        }
        match *mine {
            Some(ConnectionFault::Cut(after)) if here >= after => break,
            Some(ConnectionFault::Stall(after)) if here >= after => {
                drop(mine);
                // The thread ends with the test's process.
                loop {
                    std::thread::park();
                }
            }
            _ => {}
        }
    }
    // They may be closed already.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

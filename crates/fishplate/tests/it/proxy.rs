//! A TCP proxy that can break what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What happens to a connection after so many bytes from one side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// It is closed.
    Cut(u64),
    /// Nothing more passes, and nobody is told.
    Stall(u64),
}

/// Passes connections on to a server; the first ones meet their fates, one after the other.
pub(crate) struct Proxy {
    address: SocketAddr,
    fates: Arc<Mutex<Vec<Fate>>>,
    passed: Arc<AtomicU64>,
}

impl Proxy {
    /// Before the server at this address.
    pub(crate) fn before(server: SocketAddr, fates: &[Fate]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let fates = Arc::new(Mutex::new(fates.iter().rev().copied().collect::<Vec<_>>()));
        let passed = Arc::new(AtomicU64::new(0));
        let (next, counted) = (Arc::clone(&fates), Arc::clone(&passed));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                // Of the requests that only ask, none is large enough to use a fate up.
                let fate = Arc::new(Mutex::new(None));
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (next, fate) = (Arc::clone(&next), Arc::clone(&fate));
                    let counted = Arc::clone(&counted);
                    std::thread::spawn(move || pass(from, to, &next, &fate, &counted));
                }
            }
        });
        Self { address, fates, passed }
    }

    /// A URL of the server, through here.
    pub(crate) fn through(&self, url: &str) -> String {
        let (_, rest) = url.split_once("://").unwrap();
        let (_, path) = rest.split_once('/').unwrap();
        format!("http://{}/{path}", self.address)
    }

    /// Bytes that passed so far, both ways.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(SeqCst)
    }

    /// From now on nothing breaks.
    pub(crate) fn heal(&self) {
        self.fates.lock().unwrap().clear();
    }
}

/// A connection meets its fate only once more than this passed one way: what only asks is let be.
const LARGE: u64 = 64 << 10;

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    next: &Mutex<Vec<Fate>>,
    fate: &Mutex<Option<Fate>>,
    counted: &AtomicU64,
) {
    let mut chunk = vec![0; 16 << 10];
    let mut here = 0;
    while let Ok(read) = from.read(&mut chunk) {
        if read == 0 || to.write_all(&chunk[..read]).is_err() {
            break;
        }
        here += read as u64;
        counted.fetch_add(read as u64, SeqCst);
        if here < LARGE {
            continue;
        }
        let mut mine = fate.lock().unwrap();
        if mine.is_none() {
            *mine = next.lock().unwrap().pop();
        }
        match *mine {
            Some(Fate::Cut(after)) if here >= after => break,
            Some(Fate::Stall(after)) if here >= after => {
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

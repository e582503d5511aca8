//! Connections that break.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const NEVER: u64 = u64::MAX;

/// A listener that passes connections on to another, and cuts the first body that grows too long.
/// For protocols of one connection.
#[derive(Debug)]
pub(crate) struct Cutter {
    address: SocketAddr,
    cut: Arc<AtomicU64>,
}

impl Cutter {
    /// Passes connections on to `target`.
    pub(crate) fn new(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(AtomicU64::new(NEVER));
        let at = Arc::clone(&cut);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(near), Ok(far)) = (stream, TcpStream::connect(target)) else { continue };
                let (near_out, far_out) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || pass(near, far_out, &AtomicU64::new(NEVER)));
                let at = Arc::clone(&at);
                thread::spawn(move || pass(far, near_out, &at));
            }
        });
        Self { address, cut }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts one connection, once it has brought more than so many bytes.
    pub(crate) fn cut_after(&self, bytes: u64) {
        self.cut.store(bytes, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicU64) {
    let (mut buffer, mut passed) = ([0; 16 << 10], 0);
    while let Ok(got @ 1..) = from.read(&mut buffer) {
        let at = cut.load(Ordering::SeqCst);
        if passed > at
            && cut.compare_exchange(at, NEVER, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
        passed += got as u64;
        if to.write_all(&buffer[..got]).is_err() {
            let _ = from.shutdown(Shutdown::Read);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

//! Connections that are cut, slow, or deliver twice: nothing is lost, doubled or reordered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fishplate_ranks::transport::tcp::Tcp;
use fishplate_ranks::{ANY_SOURCE, Communicator, Process, Settings};

use crate::domain::{CREDENTIAL, DOMAIN, run_with, soap_domain_at};

/// Repeatable numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relay {
    /// They are cut.
    Cuts,
    /// They are slow and cut, and what they brought comes again over another one.
    CutsDelaysAndRepeats,
}

/// Passes connections on to `to`, and cuts each after so many bytes that nobody expects it.
fn relay(how: Relay, to: SocketAddr, seed: u64, cuts: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut random = Random(seed);
        for near in listener.incoming() {
            let (Ok(near), Ok(far)) = (near, TcpStream::connect(to)) else { return };
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            let budget = 1 + random.below(400_000) as usize;
            let pause = Duration::from_micros(random.below(500));
            for (mut from, mut into, there) in
                [(near.try_clone().unwrap(), far.try_clone().unwrap(), true), (far, near, false)]
            {
                let cuts = cuts.clone();
                std::thread::spawn(move || {
                    let (mut left, mut bytes, mut brought) = (budget, [0; 8192], Vec::new());
                    while left > 0 {
                        let most = left.min(bytes.len());
                        match from.read(&mut bytes[..most]) {
                            Ok(count) if count > 0 && into.write_all(&bytes[..count]).is_ok() => {
                                left -= count;
                                if how == Relay::CutsDelaysAndRepeats && there {
                                    brought.extend_from_slice(&bytes[..count]);
                                    std::thread::sleep(pause);
                                }
                            }
                            _ => break,
                        }
                    }
                    if left == 0 {
                        cuts.fetch_add(1, Ordering::Relaxed);
                    }
                    // Before the sender knows that it has to repeat it, and while it does.
                    let again = (!brought.is_empty()).then(|| TcpStream::connect(to));
                    if let Some(Ok(mut again)) = again {
                        std::thread::spawn(move || {
                            let _ = again.write_all(&brought);
                            let _ = again.shutdown(Shutdown::Write);
                            let _ = std::io::copy(&mut again, &mut std::io::sink());
                        });
                    }
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Each rank sends to each, and checks order, number and content of what it gets.
fn exchange(world: &Communicator, messages: u64) {
    let (me, size) = (world.rank(), world.size());
    let message = |from: u32, to: u32, number: u64| {
        let mut random = Random(1 + number + 1000 * u64::from(from) + 77 * u64::from(to));
        let length = match random.below(20) {
            0 => 60_000,
            1..5 => 5000,
            _ => random.below(300),
        };
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend((0..length).map(|_| random.next() as u8));
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    };
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for number in 0..messages {
                for step in 1..size {
                    let to = (me + step) % size;
                    world.send(&message(me, to, number), to, 1).unwrap();
                }
            }
        });
        let mut next = vec![0u64; size as usize];
        let mut data = vec![0; 70_000];
        for _ in 0..messages * u64::from(size - 1) {
            let status = world.recv(&mut data, ANY_SOURCE, 1).unwrap();
            let from = status.source.unwrap();
            let number = &mut next[from as usize];
            let (body, sum) = data[..status.length].split_at(status.length - 8);
            assert_eq!(body[..8], number.to_le_bytes(), "none is lost, doubled or out of order");
            assert_eq!(sum, checksum(body).to_le_bytes(), "none is damaged");
            *number += 1;
        }
    });
}

#[test]
fn nothing_is_lost_doubled_or_reordered_when_connections_are_cut() {
    cut(&Settings { eager_limit: 4000, unexpected_memory: 256 << 10, ..Settings::default() });
}

#[test]
fn nothing_is_lost_doubled_or_reordered_when_streams_are_cut() {
    cut(&Settings {
        eager_limit: 4000,
        distant_eager_limit: 4000,
        unexpected_memory: 256 << 10,
        stream_bytes: 2000,
        sites: [0, 1, 2][..].into(),
        ..Settings::default()
    });
}

fn cut(settings: &Settings) {
    let size = 3;
    let cuts = Arc::new(AtomicUsize::new(0));
    let listeners: Vec<_> = (0..size).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> = (0u64..)
        .zip(&listeners)
        .map(|(seed, listener)| {
            relay(Relay::Cuts, listener.local_addr().unwrap(), 4711 + seed, cuts.clone())
        })
        .collect();
    let processes = (0..).zip(listeners).map(|(rank, listener)| {
        let tcp = Tcp::new(DOMAIN, CREDENTIAL, rank, listener, &addresses, settings).unwrap();
        Process::join(DOMAIN, rank, size, Box::new(tcp), settings.clone()).unwrap()
    });
    run_with(processes.collect(), |world| {
        exchange(&world, 1000);
        world.barrier().run().unwrap();
        world.process().leave();
    });
    let cuts = cuts.load(Ordering::Relaxed);
    assert!(cuts > 20, "only {cuts} cuts: nothing was shown");
}

/// Ranks over SOAP that reach each other by way of something else.
fn relayed(
    size: u32,
    settings: &Settings,
    relay: impl Fn(SocketAddr, u64) -> SocketAddr,
) -> Vec<Arc<Process>> {
    let listeners: Vec<_> = (0..size).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let urls: Vec<_> = (0u32..)
        .zip(&listeners)
        .map(|(rank, listener)| {
            let at = relay(listener.local_addr().unwrap(), 4711 + u64::from(rank));
            format!("http://{at}/by/a/relay/domains/{DOMAIN}/{rank}")
        })
        .collect();
    soap_domain_at(listeners, &urls, settings)
}

/// The same over SOAP, where connections are slow too, and all that they brought comes twice.
#[test]
fn nothing_is_lost_doubled_or_reordered_when_calls_are_cut_delayed_and_repeated() {
    let size = 3;
    let settings =
        Settings { eager_limit: 4000, unexpected_memory: 256 << 10, ..Settings::default() };
    let cuts = Arc::new(AtomicUsize::new(0));
    let told = cuts.clone();
    let relay = |to, seed| relay(Relay::CutsDelaysAndRepeats, to, seed, told.clone());
    run_with(relayed(size, &settings, relay), |world| {
        exchange(&world, 1000);
        world.barrier().run().unwrap();
        world.process().leave();
    });
    let cuts = cuts.load(Ordering::Relaxed);
    assert!(cuts > 20, "only {cuts} cuts: nothing was shown");
}

/// Passes requests on one by one, as a gateway does: with heads of its own, and each when the one before was answered. Some
/// it can't pass on.
fn gateway(to: SocketAddr, seed: u64, failures: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (at, near) in (0..).zip(listener.incoming()) {
            let (Ok(near), Ok(far)) = (near, TcpStream::connect(to)) else { return };
            let (failures, mut random) = (failures.clone(), Random(seed + at));
            std::thread::spawn(move || {
                let (mut near, mut far) = (BufReader::new(near), BufReader::new(far));
                loop {
                    let Some(request) = message(&mut near) else { return };
                    if random.below(50) == 0 {
                        failures.fetch_add(1, Ordering::Relaxed);
                        let answer = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
                        let _ = near.get_mut().write_all(answer);
                        return;
                    }
                    let passed = far.get_mut().write_all(&request).is_ok();
                    let Some(answer) = message(&mut far).filter(|_| passed) else { return };
                    if near.get_mut().write_all(&answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A message of HTTP with another head: without what is for its receiver only, in small letters.
fn message(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut first = String::new();
    from.read_line(&mut first).ok().filter(|&count| count > 0)?;
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        let name = name.to_lowercase();
        if name == "content-length" {
            length = value.parse().ok()?;
        } else if name != "connection" && !name.starts_with("fishplate-") {
            head += &format!("{name}: {value}\r\n");
        }
    }
    let mut bytes =
        format!("{first}content-length: {length}\r\nvia: a test\r\n{head}\r\n").into_bytes();
    let begun = bytes.len();
    bytes.resize(begun + length, 0);
    from.read_exact(&mut bytes[begun..]).ok()?;
    Some(bytes)
}

#[test]
fn a_gateway_passes_messages_on_one_by_one() {
    let size = 3;
    let settings =
        Settings { eager_limit: 4000, unexpected_memory: 256 << 10, ..Settings::default() };
    let failures = Arc::new(AtomicUsize::new(0));
    let told = failures.clone();
    run_with(relayed(size, &settings, |to, seed| gateway(to, seed, told.clone())), |world| {
        exchange(&world, 300);
        world.barrier().run().unwrap();
        world.process().leave();
    });
    let failures = failures.load(Ordering::Relaxed);
    assert!(failures > 10, "only {failures} failures: nothing was shown");
}

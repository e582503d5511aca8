//! Long messages between sites go over several connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fishplate_ranks::transport::tcp::Tcp;
use fishplate_ranks::{Process, Settings};

use crate::domain::{CREDENTIAL, DOMAIN, Kind, processes, run_with};

const LENGTH: usize = 200_000;
const MESSAGES: usize = 20;

/// What each connection has brought, by the order in which they were made.
type Brought = Arc<Mutex<Vec<Arc<AtomicUsize>>>>;

/// Passes connections on to `to`, but closes those beyond so many.
fn counting(to: SocketAddr, most: usize) -> (SocketAddr, Brought) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let brought = Brought::default();
    let all = brought.clone();
    std::thread::spawn(move || {
        for near in listener.incoming().map(Result::unwrap) {
            let count = Arc::new(AtomicUsize::new(0));
            let number = {
                let mut all = all.lock().unwrap();
                all.push(count.clone());
                all.len()
            };
            if number > most {
                continue;
            }
            let Ok(far) = TcpStream::connect(to) else { return };
            let unread = Arc::new(AtomicUsize::new(0));
            let directions =
                [(near.try_clone(), far.try_clone(), count), (Ok(far), Ok(near), unread)];
            for (from, into, count) in directions {
                let (mut from, mut into) = (from.unwrap(), into.unwrap());
                from.set_nodelay(true).unwrap();
                std::thread::spawn(move || {
                    let mut bytes = [0; 8192];
                    while let Ok(got @ 1..) = from.read(&mut bytes) {
                        count.fetch_add(got, Ordering::Relaxed);
                        if into.write_all(&bytes[..got]).is_err() {
                            break;
                        }
                    }
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (address, brought)
}

/// What each connection to rank 1 brought when rank 0, at a site of its own or not, sent it long messages; there may be `most` connections.
fn brought(sites: [u32; 2], most: usize) -> Vec<usize> {
    let settings = Settings {
        eager_limit: 1000,
        distant_eager_limit: 1000,
        parallel_streams: 3,
        stream_bytes: 10_000,
        sites: sites[..].into(),
        peer_timeout: Duration::from_millis(400),
        ..Settings::default()
    };
    let listeners: Vec<_> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let (there, brought) = counting(listeners[1].local_addr().unwrap(), most);
    let addresses = [listeners[0].local_addr().unwrap(), there];
    let processes = (0..).zip(listeners).map(|(rank, listener)| {
        let tcp = Tcp::new(DOMAIN, CREDENTIAL, rank, listener, &addresses, &settings).unwrap();
        Process::join(DOMAIN, rank, 2, Box::new(tcp), settings.clone()).unwrap()
    });
    run_with(processes.collect(), |world| {
        let message =
            |number: usize| (0..LENGTH).map(|at| (at * 7 + number) as u8).collect::<Vec<_>>();
        for number in 0..MESSAGES {
            if world.rank() == 0 {
                world.send(&message(number), 1, 0).unwrap();
                // For as long as a stream may need to come about, or to be given up.
                std::thread::sleep(Duration::from_millis(40));
            } else {
                let mut data = vec![0; LENGTH];
                world.recv(&mut data, 0, 0).unwrap();
                assert_eq!(data, message(number));
            }
        }
        world.barrier().run().unwrap();
        world.process().leave();
    });
    let all = brought.lock().unwrap();
    all.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

#[test]
fn a_long_message_goes_to_another_site_over_several_connections() {
    let brought = brought([0, 1], usize::MAX);
    assert_eq!(brought.len(), 3);
    for of in &brought {
        assert!(*of > MESSAGES * LENGTH / 5, "they share it: {brought:?}");
    }
}

#[test]
fn within_a_site_it_goes_over_one() {
    assert_eq!(brought([0, 0], usize::MAX).len(), 1);
}

#[test]
fn one_connection_is_enough_where_no_more_can_be_had() {
    let brought = brought([0, 1], 1);
    assert!(brought.len() > 2, "others were tried: {brought:?}");
    assert!(brought[0] >= MESSAGES * LENGTH, "{brought:?}");
    assert!(brought[1..].iter().all(|of| *of == 0), "{brought:?}");
}

#[test]
fn a_distant_rank_is_not_asked_before_a_message_of_a_megabyte() {
    let settings = Settings { sites: [0, 1][..].into(), ..Settings::default() };
    run_with(processes(Kind::Tcp, 2, &settings), |world| {
        world.process().connect().unwrap();
        let message = vec![7u8; 1 << 20];
        if world.rank() == 0 {
            // It is complete though nobody receives it before the next one.
            world.send(&message, 1, 0).unwrap();
            world.send(&[1u8], 1, 1).unwrap();
        } else {
            let mut byte = [0u8];
            let end = Instant::now() + Duration::from_secs(20);
            while world.iprobe(0, 1).unwrap().is_none() {
                assert!(Instant::now() < end, "the first message waits for its receive");
            }
            world.recv(&mut byte, 0, 1).unwrap();
            let mut got = vec![0u8; message.len()];
            world.recv(&mut got, 0, 0).unwrap();
            assert!(got == message);
        }
        world.process().leave();
    });
}

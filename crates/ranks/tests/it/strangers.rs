//! Who knows the port of a rank and not its credential.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use fishplate_ranks::transport::tcp::Tcp;
use fishplate_ranks::{Credential, Error, Process, Settings};

use crate::domain::{CREDENTIAL, DOMAIN, run_with, soap_domain};
use crate::failures::quick;

/// Whoever knows a port and the domain but not its credential gets nothing and disturbs nobody.
#[test]
fn strangers_are_turned_away() {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let settings = quick();
    let processes = (0..).zip(listeners).map(|(rank, listener)| {
        let tcp = Tcp::new(DOMAIN, CREDENTIAL, rank, listener, &addresses, &settings).unwrap();
        Process::join(DOMAIN, rank, 2, Box::new(tcp), settings.clone()).unwrap()
    });
    let hellos = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".repeat(3),
        greeting(*DOMAIN.as_bytes(), 1),
        vec![0; 100],
    ];
    run_with(processes.collect(), move |world| {
        if world.rank() == 1 {
            for hello in &hellos {
                let mut stranger = TcpStream::connect(addresses[0]).unwrap();
                stranger.read_exact(&mut [0; 24]).unwrap();
                stranger.write_all(hello).unwrap();
                let answered = stranger.read(&mut [0; 16]);
                assert!(matches!(answered, Ok(0) | Err(_)), "no answer: {answered:?}");
            }
            // One with another domain's credential, in our own code.
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let of = [addresses[0], listener.local_addr().unwrap()];
            let other = Credential::from_bytes([36; 32]);
            let settings = quick();
            let tcp = Tcp::new(DOMAIN, other, 1, listener, &of, &settings).unwrap();
            let process = Process::join(DOMAIN, 1, 2, Box::new(tcp), settings).unwrap();
            let refused = process.world().ssend(&[9u8], 0, 0);
            assert_eq!(refused, Err(Error::Failed { rank: 0 }));
            world.send(&[3u8], 0, 0).unwrap();
        } else {
            let mut got = [0u8];
            world.recv(&mut got, 1, 0).unwrap();
            assert_eq!(got, [3]);
        }
        world.process().leave();
    });
}

/// Whether the other side ends a connection that says nothing.
fn is_ended(mut stranger: &TcpStream) -> bool {
    stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match stranger.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Connections that never greet are few, and not for ever; who greets is let in all the same.
#[test]
fn silent_strangers_are_bounded_in_number_and_time() {
    let few = Settings {
        unauthenticated_connections: 3,
        authentication_timeout: Duration::from_secs(3600),
        ..quick()
    };
    let short = Settings { authentication_timeout: Duration::from_millis(100), ..quick() };
    for (settings, ended) in [(few, 20 - 2 - 3), (short, 20)] {
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let processes = (0..).zip(listeners).map(|(rank, listener)| {
            let tcp = Tcp::new(DOMAIN, CREDENTIAL, rank, listener, &addresses, &settings).unwrap();
            Process::join(DOMAIN, rank, 2, Box::new(tcp), settings.clone()).unwrap()
        });
        run_with(processes.collect(), move |world| {
            if world.rank() == 1 {
                let strangers: Vec<_> = (0..20)
                    .map(|_| {
                        let mut stranger = TcpStream::connect(addresses[0]).unwrap();
                        stranger.read_exact(&mut [0; 24]).unwrap();
                        stranger
                    })
                    .collect();
                assert!(strangers[..ended].iter().all(is_ended));
                world.send(&[3u8], 0, 0).unwrap();
            } else {
                world.recv(&mut [0u8], 1, 0).unwrap();
            }
            world.process().leave();
        });
    }
}

/// The same over SOAP, of those who ask for nothing and of those who ask without the credential.
#[test]
fn strangers_over_soap_are_bounded_in_number_and_time() {
    let few = Settings {
        unauthenticated_connections: 3,
        authentication_timeout: Duration::from_secs(3600),
        ..quick()
    };
    let short = Settings { authentication_timeout: Duration::from_millis(100), ..quick() };
    for (settings, asks) in [(&few, false), (&few, true), (&short, false), (&short, true)] {
        let (processes, urls) = soap_domain(2, settings);
        run_with(processes, move |world| {
            if world.rank() == 1 {
                let (host, path) =
                    urls[0].strip_prefix("http://").unwrap().split_once('/').unwrap();
                let request = format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n");
                let strangers: Vec<_> = (0..20)
                    .map(|_| {
                        let mut stranger = TcpStream::connect(host).unwrap();
                        if asks {
                            stranger.write_all(request.as_bytes()).unwrap();
                        }
                        stranger
                    })
                    .collect();
                for mut stranger in &strangers[..20 - 2 - 3] {
                    stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    match stranger.read_to_end(&mut Vec::new()) {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
                    }
                }
                world.send(&[3u8], 0, 0).unwrap();
            } else {
                world.recv(&mut [0u8], 1, 0).unwrap();
            }
            world.process().leave();
        });
    }
}

/// A greeting with a proof of nothing.
fn greeting(domain: [u8; 16], from: u32) -> Vec<u8> {
    let mut bytes = b"fp-rank4".to_vec();
    bytes.extend(domain);
    bytes.extend(from.to_le_bytes());
    bytes.extend([0; 64]);
    bytes
}

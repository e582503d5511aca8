//! Domains of threads, each a rank, on any transport.

use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fishplate_ranks::launch::rendezvous::Address;
use fishplate_ranks::transport::local::Local;
use fishplate_ranks::transport::shared_memory::{Segment, SharedMemory};
use fishplate_ranks::transport::soap::{Endpoint, Soap};
use fishplate_ranks::transport::tcp::Tcp;
use fishplate_ranks::{Communicator, Credential, DomainId, Process, Settings};

use crate::gateway::{ca_file, gateway};

pub(crate) const DOMAIN: DomainId = DomainId::from_bytes([33; 16]);
pub(crate) const CREDENTIAL: Credential = Credential::from_bytes([35; 32]);
/// What is not done by then hangs.
const HANG: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Local,
    Tcp,
    /// TCP between ranks that are each at a site of its own: long messages go over several connections.
    Streams,
    SharedMemory,
    /// Ranks of two hosts: even ones share memory, odd ones do, and between them is TCP.
    TwoHosts,
    Soap,
    /// SOAP by way of a gateway, over TLS.
    Gateway,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Local,
        Self::Tcp,
        Self::Streams,
        Self::SharedMemory,
        Self::TwoHosts,
        Self::Soap,
        Self::Gateway,
    ];
}

pub(crate) fn processes(kind: Kind, size: u32, settings: &Settings) -> Vec<Arc<Process>> {
    let streams = || {
        let sites: Vec<u32> = (0..size).collect();
        Settings { stream_bytes: 1500, sites: sites[..].into(), ..settings.clone() }
    };
    let settings = &if matches!(kind, Kind::Streams) { streams() } else { settings.clone() };
    let join = |rank, transport: Box<dyn fishplate_ranks::transport::Transport>| {
        Process::join(DOMAIN, rank, size, transport, settings.clone()).unwrap()
    };
    match kind {
        Kind::Local => (0..)
            .zip(Local::domain(size))
            .map(|(rank, local)| join(rank, Box::new(local)))
            .collect(),
        Kind::Soap => soap_domain(size, settings).0,
        Kind::Gateway => gateway_domain(size, settings),
        Kind::Tcp | Kind::Streams | Kind::SharedMemory | Kind::TwoHosts => {
            let listeners: Vec<_> =
                (0..size).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
            let hosts = match kind {
                Kind::SharedMemory => 1,
                Kind::TwoHosts => 2,
                _ => 0,
            };
            // Each host's ranks, and their memory.
            let hosts: Vec<_> = (0..hosts.min(size))
                .map(|host| {
                    let ranks: Vec<_> = (host..size).step_by(hosts as usize).collect();
                    let count = u32::try_from(ranks.len()).unwrap();
                    (ranks, Segment::create(count).unwrap())
                })
                .collect();
            let addresses: Vec<_> = listeners
                .iter()
                .map(|listener| Address::of_sockets(&[listener.local_addr().unwrap()]))
                .collect();
            (0..)
                .zip(listeners)
                .map(|(rank, listener)| {
                    // As processes get them: descriptors of their own, mapped by themselves.
                    let mut host = hosts.iter().filter(|(ranks, _)| ranks.contains(&rank));
                    let segment = host.next().map(|(ranks, memory)| {
                        let own = memory.iter().map(|one| one.try_clone().unwrap()).collect();
                        let count = u32::try_from(ranks.len()).unwrap();
                        let place = ranks.iter().position(|&of| of == rank).unwrap();
                        (Arc::new(Segment::open(own, count).unwrap()), ranks.clone(), place)
                    });
                    let event = |(segment, _, place): &(Arc<Segment>, _, _)| {
                        SharedMemory::event(segment, *place).unwrap()
                    };
                    let event = segment.as_ref().map(event);
                    let tcp = Tcp::with_event(
                        DOMAIN, CREDENTIAL, rank, listener, &addresses, settings, event,
                    )
                    .unwrap();
                    match segment {
                        Some((segment, ranks, place)) => {
                            join(rank, Box::new(SharedMemory::new(segment, ranks, place, tcp)))
                        }
                        None => join(rank, Box::new(tcp)),
                    }
                })
                .collect()
        }
    }
}

/// A domain whose ranks have endpoints, and reach each other through a gateway.
fn gateway_domain(size: u32, settings: &Settings) -> Vec<Arc<Process>> {
    let listeners: Vec<_> = (0..size).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let urls = gateway(listeners.iter().map(|at| at.local_addr().unwrap()).collect());
    let settings = Settings { ca_file: Some(ca_file()), ..settings.clone() };
    soap_domain_at(listeners, &urls, &settings)
}

/// A domain whose ranks have endpoints, and their URLs.
pub(crate) fn soap_domain(size: u32, settings: &Settings) -> (Vec<Arc<Process>>, Vec<String>) {
    let listeners: Vec<_> = (0..size).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let own = |(rank, at): (u32, &TcpListener)| {
        format!("http://{}/domains/{DOMAIN}/{rank}", at.local_addr().unwrap())
    };
    let urls: Vec<_> = (0..).zip(&listeners).map(own).collect();
    (soap_domain_at(listeners, &urls, settings), urls)
}

/// The same, whose ranks are found at these URLs.
pub(crate) fn soap_domain_at(
    listeners: Vec<TcpListener>,
    urls: &[String],
    settings: &Settings,
) -> Vec<Arc<Process>> {
    let size = u32::try_from(listeners.len()).unwrap();
    let addresses: Vec<_> = urls.iter().map(|url| url.parse().unwrap()).collect();
    let processes = (0..).zip(listeners).map(|(rank, listener)| {
        let endpoint = Endpoint::new(listener, settings).unwrap();
        let soap = Soap::new(DOMAIN, CREDENTIAL, rank, endpoint, &addresses, settings).unwrap();
        Process::join(DOMAIN, rank, size, Box::new(soap), settings.clone()).unwrap()
    });
    processes.collect()
}

/// Runs `body` as every rank of a domain, each of which leaves in order.
pub(crate) fn run(kind: Kind, size: u32, body: fn(&Communicator)) {
    run_at(kind, size, &[], body);
}

/// The same, of ranks at these sites.
pub(crate) fn run_at(kind: Kind, size: u32, sites: &[u32], body: fn(&Communicator)) {
    // Small enough for every protocol to be needed.
    let settings = Settings {
        eager_limit: 2000,
        distant_eager_limit: 2000,
        shared_memory_eager_limit: 2000,
        unexpected_memory: 64 << 10,
        sites: sites.into(),
        ..Settings::default()
    };
    run_with(processes(kind, size, &settings), move |world| {
        body(&world);
        world.process().leave();
    });
}

/// Runs `body` as every rank, and panics with the first that does.
pub(crate) fn run_with(
    processes: Vec<Arc<Process>>,
    body: impl Fn(Communicator) + Send + Sync + 'static,
) {
    let body = Arc::new(body);
    let (done, outcomes) = mpsc::channel();
    let count = processes.len();
    let threads: Vec<_> = processes
        .into_iter()
        .map(|process| {
            let (body, done) = (body.clone(), done.clone());
            std::thread::spawn(move || {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    body(process.world());
                }));
                drop(process);
                let _ = done.send(outcome);
            })
        })
        .collect();
    for _ in 0..count {
        match outcomes.recv_timeout(HANG) {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => panic!("a rank hangs"),
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

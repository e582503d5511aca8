//! The transport against nginx, a server of our own, and servers that misbehave.

mod nginx;
mod origin;
mod strange;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use super::*;
use crate::transfer::conformance::{self, Cutter, DigestAnnouncement, Features, Peer};

/// Lets everything through: policy has tests of its own.
#[derive(Debug)]
pub(super) struct Anywhere;

impl Addresses for Anywhere {
    fn resolve<'t>(&'t self, host: &'t str, port: u16) -> TransferFuture<'t, Vec<SocketAddr>> {
        let host = host.trim_matches(['[', ']']).to_owned();
        Box::pin(async move {
            let host = if host == "localhost" { "127.0.0.1" } else { &host };
            Ok(vec![SocketAddr::new(host.parse().expect("an address"), port)])
        })
    }
}

pub(super) fn http() -> Http {
    Http::new(&TransferSettings::default(), Arc::new(Anywhere))
}

const HTTP: Features = Features {
    reads: true,
    ranges: true,
    versions: true,
    lengths: true,
    digest: DigestAnnouncement::Never,
    breaks: true,
    delivers: true,
};

/// A server, the transport to it, and breaking connections between them.
struct Behind<S> {
    scheme: &'static str,
    server: S,
    transport: Arc<dyn Transport>,
    cutter: Cutter,
    features: Features,
}

/// What a server under test can be told.
trait Server: Send + Sync {
    fn address(&self) -> SocketAddr;
    fn put(&self, name: &str, bytes: &[u8]);
    fn get(&self, name: &str) -> Option<Vec<u8>>;
}

impl<S: Server> Behind<S> {
    fn new(server: S, features: Features) -> Self {
        let cutter = Cutter::new(server.address());
        Self { scheme: "http", server, transport: Arc::new(http()), cutter, features }
    }

    fn at(&self, address: SocketAddr, name: &str) -> Url {
        Url::parse(&format!("{}://{address}/{name}", self.scheme)).unwrap()
    }
}

fn at(address: SocketAddr, name: &str) -> Url {
    Url::parse(&format!("http://{address}/{name}")).unwrap()
}

impl<S: Server> Peer for Behind<S> {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.transport)
    }

    fn features(&self) -> Features {
        self.features
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Url {
        self.server.put(name, bytes);
        self.at(self.server.address(), name)
    }

    fn missing(&self) -> Url {
        self.at(self.server.address(), "nothing-here")
    }

    fn breaking(&self, name: &str, after: u64) -> Url {
        self.cutter.cut_after(after);
        self.at(self.cutter.address(), name)
    }

    fn destination(&self, name: &str) -> Url {
        self.at(self.server.address(), &format!("put/{name}"))
    }

    fn delivered(&self, name: &str) -> Option<Vec<u8>> {
        self.server.get(&format!("put/{name}"))
    }

    fn closed(&self) -> Option<Url> {
        Some(self.at(self.server.address(), "closed/parcel"))
    }
}

#[tokio::test]
async fn nginx_conforms() {
    let Some(nginx) = nginx::Nginx::start() else {
        crate::skipped::skipped("nginx", "nginx is not installed");
        return;
    };
    conformance::run(&Behind::new(nginx, HTTP)).await;
}

#[tokio::test]
async fn a_server_that_tells_digests_before_conforms() {
    let server = origin::Origin::start(DigestAnnouncement::Before);
    conformance::run(&Behind::new(server, Features { digest: DigestAnnouncement::Before, ..HTTP }))
        .await;
}

#[tokio::test]
async fn a_server_that_tells_digests_after_conforms() {
    let server = origin::Origin::start(DigestAnnouncement::After);
    conformance::run(&Behind::new(server, Features { digest: DigestAnnouncement::After, ..HTTP }))
        .await;
}

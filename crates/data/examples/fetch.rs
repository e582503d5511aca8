//! Figures of fetching by reference: one large payload, or many small ones, into a pool.
//!
//! `fetch URL [CONNECTIONS]` fetches one payload; compare with `curl -o FILE URL`.
//! `fetch --small BASE N` fetches `BASE0` to `BASE(N-1)`, and as many by plain GETs on one connection.

#![expect(clippy::print_stdout, reason = "it is a program of its own")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fishplate_contract::{DataRef, FileHandle as _, Principal, SystemClock};
use fishplate_data::pool::{Pool, PoolSettings};
use fishplate_data::transfer::{Http, TransferSettings, Transports};
use fishplate_data::{Policy, PolicySettings, Progress, Resolver};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use url::Url;

/// Times that small payloads are fetched, each into a new pool.
const ROUNDS: u32 = 5;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    // Spawned, as in a server: what `main` itself waits for is woken from another thread.
    match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(flag), Some(base), Some(count)) if flag == "--small" => {
            let count = count.parse()?;
            tokio::spawn(async move { small(&base, count).await }).await?
        }
        (Some(url), connections, None) => {
            let connections = connections.map_or(Ok(1), |text| text.parse())?;
            tokio::spawn(large(url, connections)).await?
        }
        _ => Err("usage: fetch URL [CONNECTIONS] | fetch --small BASE N".into()),
    }
}

fn resolver(directory: &std::path::Path, connections: u32) -> Result<Resolver, Failure> {
    let pool = Pool::open(PoolSettings::new(directory), Arc::new(SystemClock))?;
    let policy = Policy::new(PolicySettings { allow_private: true, ..PolicySettings::default() });
    let settings = TransferSettings { connections, ..TransferSettings::default() };
    let transports = Transports::new().with(Http::new(&settings, Arc::new(policy)));
    Ok(Resolver::new(pool, transports, settings))
}

async fn large(url: String, connections: u32) -> Result<(), Failure> {
    let directory = tempfile::tempdir_in(".")?;
    let resolver = resolver(directory.path(), connections)?;
    let start = Instant::now();
    let progress = Progress::default();
    let lease = resolver.resolve(&DataRef::new(url), &Principal::anonymous(), &progress).await?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} bytes in {seconds:.3} s, {:?}", lease.len(), lease.digest());
    Ok(())
}

async fn small(base: &str, count: usize) -> Result<(), Failure> {
    let urls: Vec<String> = (0..count).map(|nth| format!("{base}{nth}")).collect();
    // Removed in the end only: ext4 is slow to make files soon after many were removed.
    let directory = tempfile::tempdir_in(".")?;
    let references: Vec<_> = urls.iter().map(DataRef::new).collect();
    for round in 0..ROUNDS {
        let plain = gets(&urls).await?;
        let resolver = resolver(&directory.path().join(round.to_string()), 1)?;
        let start = Instant::now();
        let leases = resolver.resolve_all(&references, &Principal::anonymous(), &[]).await;
        let seconds = start.elapsed().as_secs_f64();
        for lease in leases {
            lease?;
        }
        println!("{count}: GETs {plain:.3} s, pooled {seconds:.3} s, {:.2} times", seconds / plain);
    }
    Ok(())
}

/// Seconds for as many plain GETs, one after the other on one connection.
async fn gets(urls: &[String]) -> Result<f64, Failure> {
    let Some(first) = urls.first() else { return Ok(0.0) };
    let url = Url::parse(first)?;
    let host = url.host_str().ok_or("the address names no host")?;
    let port = url.port_or_known_default().ok_or("the address names no port")?;
    let stream = tokio::net::TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let (mut send, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let start = Instant::now();
    for url in urls {
        let path = Url::parse(url)?.path().to_owned();
        let request = http::Request::get(path).header("host", host).body(Empty::new())?;
        send.ready().await?;
        send.send_request(request).await?.into_body().collect().await?;
    }
    Ok(start.elapsed().as_secs_f64())
}

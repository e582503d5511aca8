//! Data that is offered by one client and got by another, over connections that break.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fishplate_client::data::{Download, DownloadTarget, Offer, Sources};
use fishplate_client::{Error, Meter, Retry, Settings};
use fishplate_contract::{DataRef, Digest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const LARGE: usize = 3_000_000;

/// Passes connections on, and cuts them after so many bytes of what comes back, one after the other;
/// those after the last cut are not cut.
struct Proxy {
    address: SocketAddr,
    cuts: Arc<Mutex<Vec<usize>>>,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    async fn start(to: &str, cuts: &[usize]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = Arc::new(Mutex::new(cuts.iter().rev().copied().collect::<Vec<_>>()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (passing, counted, to) = (Arc::clone(&cuts), Arc::clone(&connections), to.to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, SeqCst);
                let cut = passing.lock().unwrap().pop();
                let server = TcpStream::connect(&to).await.unwrap();
                tokio::spawn(pass(client, server, cut.unwrap_or(usize::MAX)));
            }
        });
        Self { address, cuts, connections }
    }

    /// The same reference through this proxy.
    fn before(&self, reference: &DataRef) -> DataRef {
        let path = reference.url.splitn(4, '/').nth(3).unwrap();
        DataRef { url: format!("http://{}/{path}", self.address), ..reference.clone() }
    }
}

async fn pass(client: TcpStream, server: TcpStream, mut left: usize) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let forth = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    });
    let mut chunk = vec![0; 16 << 10];
    while left > 0 {
        let most = left.min(chunk.len());
        match from_server.read(&mut chunk[..most]).await {
            Ok(read) if read > 0 && to_client.write_all(&chunk[..read]).await.is_ok() => {
                left -= read;
            }
            _ => break,
        }
    }
    forth.abort();
}

fn authority(reference: &DataRef) -> &str {
    reference.url.split('/').nth(2).unwrap()
}

fn sources() -> Sources {
    let first_wait = Duration::from_millis(1);
    let retry = Retry { attempts: 3, first_wait, ..Retry::default() };
    Sources::new(&Settings { retry, ..Settings::default() }).unwrap()
}

async fn get(from: &DataRef, to: &Path) -> Result<Download, Error> {
    let meter = Arc::new(Meter::default());
    sources().get(from, &DownloadTarget::File(to.to_owned()), &meter).await
}

struct Offered {
    dir: tempfile::TempDir,
    _offer: Offer,
    bytes: Vec<u8>,
    reference: DataRef,
}

async fn offered() -> Offered {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..=250).cycle().take(LARGE).collect();
    let path = dir.path().join("from");
    std::fs::write(&path, &bytes).unwrap();
    let offer = Offer::at("127.0.0.1").await.unwrap();
    let reference = offer.add(&path).await.unwrap();
    Offered { dir, _offer: offer, bytes, reference }
}

#[tokio::test]
async fn what_one_offers_another_gets_verified_though_its_digest_is_told_after() {
    let offered = offered().await;
    let to = offered.dir.path().join("to");
    let got = get(&offered.reference, &to).await.unwrap();
    assert_eq!((got.len, got.verified, got.resumed), (LARGE as u64, true, 0));
    assert!(std::fs::read(&to).unwrap() == offered.bytes);
}

#[tokio::test]
async fn a_connection_that_is_cut_is_taken_up_and_so_is_a_half_file_of_another_process() {
    let offered = offered().await;
    let to = offered.dir.path().join("to");
    let proxy = Proxy::start(authority(&offered.reference), &[1_000_000, 700_000, 0, 0, 0]).await;
    let from = proxy.before(&offered.reference);
    let error = get(&from, &to).await.unwrap_err();
    assert!(matches!(error, Error::Transfer(_)), "{error:?}");
    assert!(!to.exists());
    let half = std::fs::metadata(offered.dir.path().join("to.part")).unwrap().len();
    assert!((1_600_000..1_700_000).contains(&half), "{half}");
    proxy.cuts.lock().unwrap().clear();
    let got = get(&from, &to).await.unwrap();
    assert_eq!((got.resumed, got.verified), (half, true));
    assert!(std::fs::read(&to).unwrap() == offered.bytes);
    assert!(proxy.connections.load(SeqCst) >= 5);
}

#[tokio::test]
async fn a_reference_that_tells_another_digest_gives_no_file() {
    let offered = offered().await;
    let to = offered.dir.path().join("to");
    let from = DataRef { digest: Some(Digest::Sha256([1; 32])), ..offered.reference.clone() };
    let error = get(&from, &to).await.unwrap_err();
    assert!(matches!(error, Error::DataMismatch { .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(offered.dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_scheme_that_is_not_served_is_told_with_those_that_are() {
    let error = get(&DataRef::new("gopher://h/x"), Path::new("x")).await.unwrap_err();
    let Error::BadUrl { reason, .. } = error else { panic!("{error:?}") };
    assert!(reason.contains("ftp: or http: or https:"), "{reason}");
}

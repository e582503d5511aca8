//! The resolver, over HTTP, against peers in trouble.

mod peer;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{Payload, SystemClock};

use super::*;
use crate::GrantRequest;
use crate::policy::{Lookup, LookupFuture, Policy, PolicySettings};
use crate::pool::PoolSettings;
use crate::transfer::conformance::{bytes, sha256};
use crate::transfer::{Files, Http};
use peer::{Peer, Trouble};

/// A resolver into a pool of its own.
struct Site {
    resolver: Resolver,
    owner: Principal,
    directory: tempfile::TempDir,
}

fn open_to_all() -> PolicySettings {
    PolicySettings { allow_private: true, ..PolicySettings::default() }
}

fn quick() -> TransferSettings {
    TransferSettings { attempts: 3, ..TransferSettings::default() }
}

/// For peers that stall: long enough for those that are only slow.
fn impatient() -> TransferSettings {
    TransferSettings { stall: Duration::from_secs(1), ..quick() }
}

impl Site {
    fn new() -> Self {
        Self::with(quick(), Policy::new(open_to_all()))
    }

    fn with(settings: TransferSettings, policy: Policy) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pool = PoolSettings::new(directory.path().join("pool"));
        let pool = Pool::open(pool, Arc::new(SystemClock)).unwrap();
        let transports = Transports::new()
            .with(Http::new(&settings, Arc::new(policy)))
            .with(Files::new(vec![directory.path().join("root")]));
        let resolver = Resolver::new(pool, transports, settings);
        Self { resolver, owner: Principal::anonymous(), directory }
    }

    async fn fetch(&self, reference: &DataRef) -> Result<Lease, Fault> {
        self.resolver.resolve(reference, &self.owner, &Progress::default()).await
    }

    async fn get(&self, url: &str) -> Vec<u8> {
        std::fs::read(self.fetch(&DataRef::new(url)).await.unwrap().path()).unwrap()
    }

    async fn fault(&self, reference: &DataRef) -> Fault {
        self.fetch(reference).await.unwrap_err()
    }
}

/// Servers spawn what they wait for.
fn spawnable<F: Future + Send>(future: F) -> F {
    future
}

fn limit(fault: &Fault) -> &str {
    fault.limit.as_ref().map_or("", |limit| &limit.name)
}

fn ranges(peer: &Peer) -> Vec<Option<String>> {
    peer.asked().into_iter().filter(|a| a.method == "GET").map(|asked| asked.range).collect()
}

const MUCH: usize = 6 << 20;

#[tokio::test]
async fn data_comes_whole_and_progress_tells_of_it() {
    let (site, peer) = (Site::new(), Peer::start());
    for (name, len) in [("empty", 0), ("small", 1000), ("much", MUCH)] {
        let data = bytes(1, len);
        let reference = DataRef {
            url: peer.put(name, data.clone()),
            len: Some(len as u64),
            digest: Some(sha256(&data)),
        };
        let progress = Progress::default();
        let lease = site.resolver.resolve(&reference, &site.owner, &progress).await.unwrap();
        assert!(std::fs::read(lease.path()).unwrap() == data, "{name}");
        assert_eq!(lease.digest(), Some(sha256(&data)));
        let told = (progress.state(), progress.bytes(), progress.total());
        assert_eq!(told, (TransferState::Done, len as u64, Some(len as u64)));
    }
    // Now they are here.
    let asked = peer.asked().len();
    let data = bytes(1, MUCH);
    let digest = Some(sha256(&data));
    let reference = DataRef { url: peer.put("much", data), len: None, digest };
    site.fetch(&reference).await.unwrap();
    assert_eq!(peer.asked().len(), asked, "it was asked for what is here");
}

#[tokio::test]
async fn what_the_owner_has_does_not_come_again_if_its_digest_is_told() {
    let (site, peer) = (Site::new(), Peer::start());
    let data = bytes(1, MUCH);
    let cached = async |name: &str, owner: &Principal| {
        peer.trouble(&[Trouble::Digest]);
        let reference = DataRef::new(peer.put(name, data.clone()));
        let progress = Progress::default();
        let lease = site.resolver.resolve(&reference, owner, &progress).await.unwrap();
        assert!(std::fs::read(lease.path()).unwrap() == data, "{name}");
        assert_eq!((progress.state(), progress.bytes()), (TransferState::Done, MUCH as u64));
        (lease, progress.cached())
    };
    let (_lease, was_there) = cached("first", &site.owner).await;
    assert!(!was_there);
    assert!(cached("again", &site.owner).await.1);
    let other = Principal::named("another");
    assert!(!cached("others", &other).await.1, "nobody is given what another one has");
}

#[tokio::test]
async fn what_breaks_or_stalls_goes_on_where_it_stopped() {
    let (site, peer) = (Site::with(impatient(), Policy::new(open_to_all())), Peer::start());
    let data = bytes(2, MUCH);
    let url = peer.put("much", data.clone());
    let second = MUCH / 2;
    peer.trouble(&[Trouble::Cut(1 << 20), Trouble::Stall(second), Trouble::Cut(10)]);
    assert!(site.get(&url).await == data);
    let ranges = ranges(&peer);
    assert_eq!(ranges.len(), 4);
    assert_eq!(ranges[0], None);
    assert_eq!(ranges[1], Some(format!("bytes={}-", 1 << 20)));
    assert_eq!(ranges[2], Some(format!("bytes={}-", (1 << 20) + second)));
    assert_eq!(ranges[3], Some(format!("bytes={}-", (1 << 20) + second + 10)));
}

#[tokio::test]
async fn small_data_that_breaks_is_fetched_again() {
    let (site, peer) = (Site::new(), Peer::start());
    let url = peer.put("small", bytes(3, 1000));
    peer.trouble(&[Trouble::Cut(500), Trouble::Answer("503 Later".to_owned())]);
    assert_eq!(site.get(&url).await, bytes(3, 1000));
    assert_eq!(ranges(&peer), [None, None, None]);
}

#[tokio::test]
async fn data_that_changed_meanwhile_comes_anew() {
    let (site, peer) = (Site::with(impatient(), Policy::new(open_to_all())), Peer::start());
    let url = peer.put("much", bytes(4, MUCH));
    peer.trouble(&[Trouble::Stall(MUCH / 2)]);
    let fetching = site.get(&url);
    let changing = async {
        while peer.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        peer.put("much", bytes(5, MUCH + 1));
    };
    let (came, ()) = tokio::join!(fetching, changing);
    assert!(came == bytes(5, MUCH + 1), "old and new were mixed");
}

#[tokio::test]
async fn a_dropped_fetch_is_taken_up_where_it_was() {
    let (site, peer) = (Site::new(), Peer::start());
    let data = bytes(6, MUCH);
    let url = peer.put("much", data.clone());
    peer.trouble(&[Trouble::Stall(MUCH / 2)]);
    let reference = DataRef::new(&url);
    let progress = Progress::default();
    {
        let fetching = site.resolver.resolve(&reference, &site.owner, &progress);
        tokio::pin!(fetching);
        while progress.bytes() < (MUCH / 2) as u64 {
            let step = tokio::time::timeout(Duration::from_millis(1), &mut fetching).await;
            assert!(step.is_err(), "{step:?}");
        }
    }
    assert!(site.get(&url).await == data);
    let resumed = ranges(&peer).last().cloned().flatten().expect("a range");
    assert_eq!(resumed, format!("bytes={}-", MUCH / 2));
}

#[tokio::test]
async fn what_two_want_is_fetched_once() {
    let (site, peer) = (Site::new(), Peer::start());
    let reference = DataRef::new(peer.put("much", bytes(7, MUCH)));
    let (one, two) = tokio::join!(site.fetch(&reference), site.fetch(&reference));
    assert_eq!(one.unwrap().path(), two.unwrap().path());
    assert_eq!(ranges(&peer), [None]);
}

#[tokio::test]
async fn other_data_than_was_promised_is_refused() {
    let (site, peer) = (Site::new(), Peer::start());
    for len in [1000, MUCH] {
        let data = bytes(8, len);
        let url = peer.put("x", data.clone());
        let right = DataRef { url, len: Some(len as u64), digest: Some(sha256(&data)) };
        let other_digest = DataRef { digest: Some(sha256(b"other")), ..right.clone() };
        let other_len = DataRef { len: Some(9), digest: None, ..right.clone() };
        for wrong in [&other_digest, &other_len] {
            let fault = site.fault(wrong).await;
            assert_eq!(fault.code, FaultCode::DataMismatch, "{fault}");
        }
        peer.trouble(&[Trouble::WrongDigest]);
        let fault = site.fault(&DataRef::new(&right.url)).await;
        assert_eq!(fault.code, FaultCode::DataMismatch, "{fault}");
        peer.trouble(&[Trouble::NoLength]);
        let fault = site.fault(&other_len).await;
        assert_eq!(fault.code, FaultCode::DataMismatch, "{fault}");
        site.fetch(&right).await.unwrap();
        // What is here is no more what was promised than what would come.
        let fault = site.fault(&DataRef { len: Some(9), ..right }).await;
        assert_eq!(fault.code, FaultCode::DataMismatch, "{fault}");
    }
}

#[tokio::test]
async fn data_without_a_length_comes_too() {
    let (site, peer) = (Site::new(), Peer::start());
    for len in [0, 1000, MUCH] {
        let url = peer.put("x", bytes(9, len));
        peer.trouble(&[Trouble::NoLength]);
        assert!(site.get(&url).await == bytes(9, len), "{len}");
    }
}

#[tokio::test]
async fn bounds_are_kept_and_named() {
    let peer = Peer::start();
    let url = DataRef::new(peer.put("much", bytes(10, MUCH)));
    let site = |settings| Site::with(settings, Policy::new(open_to_all()));

    let small = site(TransferSettings { size: Some(1 << 20), ..quick() });
    for troubles in [&[][..], &[Trouble::NoLength]] {
        peer.trouble(troubles);
        let fault = small.fault(&url).await;
        assert_eq!((fault.code, limit(&fault)), (FaultCode::QuotaExceeded, "transfer_size"));
    }
    let busy = Trouble::Answer("503 Later\r\nRetry-After: 3600".to_owned());
    peer.trouble(&[busy]);
    let fault =
        site(TransferSettings { time: Duration::from_secs(5), ..quick() }).fault(&url).await;
    assert_eq!((fault.code, limit(&fault)), (FaultCode::TransferFailed, "transfer_time"));

    peer.trouble(&vec![Trouble::Cut(0); 3]);
    let fault = Site::new().fault(&url).await;
    assert_eq!((fault.code, limit(&fault)), (FaultCode::TransferFailed, "transfer_attempts"));

    peer.trouble(&vec![Trouble::Stall(0); 3]);
    let fault = site(impatient()).fault(&url).await;
    assert!(fault.message.contains("transfer_stall"), "{fault}");
}

#[tokio::test]
async fn slow_peers_keep_neither_other_peers_nor_other_owners_waiting() {
    let settings = TransferSettings { running: 4, per_owner: 3, per_peer: 2, ..quick() };
    let (slow, quick) = (Peer::start(), Peer::start());
    let site = Site::with(settings, Policy::new(open_to_all()));
    let other = Principal::named("other");
    slow.trouble(&vec![Trouble::Stall(10); 8]);
    let many: Vec<_> =
        (0..8).map(|nth| DataRef::new(slow.put(&format!("{nth}"), bytes(nth, MUCH)))).collect();
    let wanted = DataRef::new(quick.put("x", bytes(1, 1000)));
    let progress: Vec<_> = many.iter().map(|_| Progress::default()).collect();
    let stuck = async {
        tokio::join!(
            site.resolver.resolve_all(&many[..4], &site.owner, &progress[..4]),
            site.resolver.resolve_all(&many[4..], &other, &progress[4..]),
        )
    };
    let served = async {
        while slow.asked().len() < 2 {
            tokio::task::yield_now().await;
        }
        for owner in [&site.owner, &other] {
            site.resolver.resolve(&wanted, owner, &Progress::default()).await.unwrap();
        }
        assert_eq!(slow.asked().len(), 2, "one peer has more than its places");
    };
    tokio::select! {
        biased;
        () = served => {}
        _ = stuck => panic!("the slow peer answered"),
    }
}

#[tokio::test]
async fn whoever_waits_to_try_again_holds_no_place() {
    let settings = TransferSettings { running: 1, ..quick() };
    let (busy, quick) = (Peer::start(), Peer::start());
    let site = Site::with(settings, Policy::new(open_to_all()));
    busy.trouble(&[Trouble::Answer("503 Later\r\nRetry-After: 3600".to_owned())]);
    let later = DataRef::new(busy.put("x", bytes(1, 10)));
    let wanted = DataRef::new(quick.put("x", bytes(2, 10)));
    let served = async {
        while busy.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        site.fetch(&wanted).await
    };
    tokio::select! {
        biased;
        served = served => assert!(served.is_ok(), "{served:?}"),
        waited = site.fetch(&later) => panic!("it was not waited: {waited:?}"),
    }
    assert_eq!(busy.asked().len(), 1);
}

#[tokio::test]
async fn what_trickles_again_and_again_is_given_up() {
    let peer = Peer::start();
    let settings = TransferSettings { rate: 1 << 40, stall: Duration::from_millis(300), ..quick() };
    let site = Site::with(settings, Policy::new(open_to_all()));
    let url = DataRef::new(peer.put("x", bytes(3, MUCH)));
    peer.trouble(&vec![Trouble::Stall(1 << 20); 4]);
    let fault = site.fault(&url).await;
    assert_eq!((fault.code, limit(&fault)), (FaultCode::TransferFailed, "transfer_attempts"));
    assert_eq!(ranges(&peer).len(), 3, "bytes that were too few counted as a gain");
}

#[tokio::test]
async fn what_has_no_room_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut pool = PoolSettings::new(directory.path().join("pool"));
    pool.owner_quota = Arc::new(Some(4 << 20));
    let pool = Pool::open(pool, Arc::new(SystemClock)).unwrap();
    let transports =
        Transports::new().with(Http::new(&quick(), Arc::new(Policy::new(open_to_all()))));
    let resolver = Resolver::new(pool.clone(), transports, quick());
    let peer = Peer::start();
    // The peer does not tell how much it is, but a version: it could be taken up again.
    peer.trouble(&[Trouble::NoLength]);
    let endless = DataRef::new(peer.put("much", bytes(7, MUCH)));
    let owner = Principal::anonymous();
    let fault = resolver.resolve(&endless, &owner, &Progress::default()).await.unwrap_err();
    assert_eq!((fault.code, limit(&fault)), (FaultCode::QuotaExceeded, "owner_disk"));
    assert!(pool.partials().unwrap().is_empty());
    assert_eq!(pool.charged(&owner).unwrap(), 0);
}

#[tokio::test]
async fn missing_data_and_bad_addresses_are_told_apart() {
    let (site, peer) = (Site::new(), Peer::start());
    let gone = format!("http://{}/gone", peer.address());
    for (url, code, rule) in [
        (&*gone, FaultCode::NoSuchData, ""),
        ("gopher://example.org/1", FaultCode::AddressForbidden, "schemes"),
        ("http://a:b@example.org/", FaultCode::AddressForbidden, "credentials"),
        ("file:///etc/passwd", FaultCode::AddressForbidden, "file_roots"),
        ("not a url", FaultCode::InvalidValue, ""),
    ] {
        let fault = site.fault(&DataRef::new(url)).await;
        assert_eq!((fault.code, limit(&fault)), (code, rule), "{fault}");
    }
    assert_eq!(peer.asked().len(), 1, "what is not there was asked for again");
}

#[tokio::test]
async fn private_addresses_are_refused_and_the_rule_is_named() {
    let peer = Peer::start();
    let site = Site::with(quick(), Policy::new(PolicySettings::default()));
    let fault = site.fault(&DataRef::new(peer.put("x", bytes(11, 10)))).await;
    assert_eq!((fault.code, limit(&fault)), (FaultCode::AddressForbidden, "allow_private"));
    assert_eq!(fault.limit.unwrap().value, "127.0.0.1 is loopback");
    let payload = Payload::Inline(Bytes::from_static(b"x"));
    let to = format!("http://{}/y", peer.address());
    let fault =
        site.resolver.deliver(&pending(payload), &to, &site.owner, &Progress::default()).await;
    assert_eq!(fault.unwrap_err().code, FaultCode::AddressForbidden);
    assert_eq!(peer.asked(), []);
}

#[tokio::test]
async fn what_can_never_be_delivered_is_told_before() {
    let peer = Peer::start();
    let site = Site::with(quick(), Policy::new(PolicySettings::default()));
    let here = format!("http://{}/y", peer.address());
    for (to, code, rule) in [
        ("gopher://example.org/1", FaultCode::AddressForbidden, "schemes"),
        ("http://a:b@example.org/", FaultCode::AddressForbidden, "credentials"),
        (&*here, FaultCode::AddressForbidden, "allow_private"),
        ("https://[::1]/y", FaultCode::AddressForbidden, "allow_private"),
        ("file:///tmp/y", FaultCode::NotSupported, ""),
        ("not a url", FaultCode::InvalidValue, ""),
    ] {
        let fault = site.resolver.accepts(to).unwrap_err();
        assert_eq!((fault.code, limit(&fault)), (code, rule), "{fault}");
    }
    // A name tells nothing before it is looked up.
    site.resolver.accepts("https://localhost/y").unwrap();
    assert_eq!(peer.asked(), []);
}

/// Names resolve to one address after the other.
#[derive(Debug)]
struct Rebinding(Mutex<VecDeque<&'static str>>);

impl Lookup for Rebinding {
    fn lookup<'l>(&'l self, _: &'l str, port: u16) -> LookupFuture<'l> {
        let host = self.0.lock().unwrap().pop_front().expect("another look-up");
        let address = SocketAddr::new(host.parse().unwrap(), port);
        Box::pin(std::future::ready(Ok(vec![address])))
    }
}

#[tokio::test]
async fn neither_a_redirect_nor_a_name_that_resolves_anew_leads_inside() {
    // 127.0.0.2 stands for the outside, 127.0.0.1 for the inside.
    let (outside, inside) = (Peer::at("127.0.0.2"), Peer::at("127.0.0.1"));
    inside.put("secret", b"secret".to_vec());
    let settings = PolicySettings {
        allow_private: false,
        networks: vec!["outside=127.0.0.2/32".parse().unwrap()],
    };
    let lookup = Rebinding(Mutex::new(["127.0.0.2", "127.0.0.1"].into()));
    let site = Site::with(quick(), Policy::with_lookup(settings, Arc::new(lookup)));
    let port = inside.address().port();
    for to in [format!("127.0.0.1:{port}"), format!("rebinds.example:{port}")] {
        let answer = format!("302 Found\r\nLocation: http://{to}/secret");
        outside.trouble(&[Trouble::Answer(answer)]);
        let host = if to.starts_with("rebinds") { "rebinds.example" } else { "127.0.0.2" };
        let url = format!("http://{host}:{}/x", outside.address().port());
        let fault = site.fault(&DataRef::new(url)).await;
        assert_eq!((fault.code, limit(&fault)), (FaultCode::AddressForbidden, "allow_private"));
    }
    assert_eq!((outside.asked().len(), inside.asked().len()), (2, 0));
}

#[tokio::test]
async fn a_grant_of_this_pool_needs_no_connection() {
    let site = Site::new();
    let lease = site
        .resolver
        .pool()
        .store(&site.owner, &[Bytes::from_static(b"granted")], None, false)
        .unwrap();
    let request = GrantRequest {
        origin: "http://192.0.2.1:1".to_owned(),
        name: "mesh".to_owned(),
        media_type: String::new(),
        life: None,
    };
    let grant = site.resolver.pool().grant(&lease, &site.owner, request).unwrap();
    // Nobody listens there, and it may not be asked; and it is good for whoever has it.
    let other = Principal::named("other");
    let reference = DataRef { url: grant.url, len: Some(7), digest: Some(sha256(b"granted")) };
    let found = site.resolver.resolve(&reference, &other, &Progress::default()).await.unwrap();
    assert_eq!(std::fs::read(found.path()).unwrap(), b"granted");
    let strong = |text: &[u8]| {
        let digest = ring::digest::digest(&ring::digest::SHA512, text);
        Some(Digest::Sha512(digest.as_ref().try_into().unwrap()))
    };
    let right = DataRef { digest: strong(b"granted"), ..reference.clone() };
    site.fetch(&right).await.unwrap();
    for wrong in [
        DataRef { len: Some(8), ..reference.clone() },
        DataRef { digest: Some(sha256(b"other")), ..reference.clone() },
        DataRef { digest: strong(b"other"), ..reference },
    ] {
        let fault = site.fault(&wrong).await;
        assert_eq!(fault.code, FaultCode::DataMismatch);
    }
}

#[tokio::test]
async fn many_are_resolved_each_for_itself() {
    let (site, peer) = (Site::new(), Peer::start());
    let mut references: Vec<_> =
        (0..50).map(|nth| DataRef::new(peer.put(&format!("{nth}"), bytes(nth, 1000)))).collect();
    references[7].url = format!("http://{}/gone", peer.address());
    let progress: Vec<_> = references.iter().map(|_| Progress::default()).collect();
    let leases = spawnable(site.resolver.resolve_all(&references, &site.owner, &progress)).await;
    for (nth, lease) in leases.iter().enumerate() {
        match lease {
            Ok(lease) => {
                let data = bytes(u32::try_from(nth).unwrap(), 1000);
                assert!(std::fs::read(lease.path()).unwrap() == data, "{nth}");
            }
            Err(fault) => assert_eq!((nth, fault.code), (7, FaultCode::NoSuchData)),
        }
        let state = if nth == 7 { TransferState::Failed } else { TransferState::Done };
        assert_eq!(progress[nth].state(), state);
    }
}

#[tokio::test]
async fn several_connections_bring_the_same_data() {
    let peer = Peer::start();
    let settings = TransferSettings { connections: 3, ..quick() };
    let site = Site::with(settings, Policy::new(open_to_all()));
    let data = bytes(12, 80 << 20);
    let url = peer.put("huge", data.clone());
    peer.trouble(&[Trouble::Cut(9 << 20), Trouble::Cut(1 << 20)]);
    assert!(site.get(&url).await == data);
    assert!(ranges(&peer).len() > 5, "it came over one connection");
}

fn pending(payload: Payload) -> Delivery {
    Delivery {
        payload,
        name: "mesh".to_owned(),
        media_type: "application/octet-stream".to_owned(),
        digest: None,
        subject: "output mesh".to_owned(),
        posts: None,
        progress: Progress::default(),
    }
}

#[tokio::test]
async fn deliveries_are_tried_again_until_they_are_taken_or_refused() {
    let (site, peer) = (Site::new(), Peer::start());
    let data = Bytes::from(bytes(13, 1000));
    let to = format!("http://{}/mesh", peer.address());
    peer.trouble(&[Trouble::Answer("503 Later".to_owned())]);
    let progress = Progress::default();
    let pending = pending(Payload::Inline(data.clone()));
    let reference =
        spawnable(site.resolver.deliver(&pending, &to, &site.owner, &progress)).await.unwrap();
    assert_eq!(reference, DataRef { url: to.clone(), len: Some(1000), digest: None });
    assert_eq!(peer.get("mesh").as_deref(), Some(&data[..]));
    assert_eq!((progress.state(), progress.bytes()), (TransferState::Done, 1000));

    peer.trouble(&[Trouble::Answer("403 Forbidden".to_owned())]);
    let fault = site.resolver.deliver(&pending, &to, &site.owner, &progress).await.unwrap_err();
    assert_eq!((fault.code, progress.state()), (FaultCode::TransferFailed, TransferState::Failed));
    let fault =
        site.resolver.deliver(&pending, "file:///tmp/x", &site.owner, &progress).await.unwrap_err();
    assert_eq!(fault.code, FaultCode::NotSupported);
}

#[tokio::test]
async fn files_beneath_roots_are_taken_in() {
    let site = Site::new();
    let root = site.directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    for len in [10, MUCH] {
        let path = root.join("case.dat");
        std::fs::write(&path, bytes(14, len)).unwrap();
        let url = Url::from_file_path(&path).unwrap();
        let lease = site.fetch(&DataRef::new(url.as_str())).await.unwrap();
        let wrong = DataRef { digest: Some(sha256(b"other")), ..DataRef::new(url.as_str()) };
        assert_eq!(site.fault(&wrong).await.code, FaultCode::DataMismatch);
        std::fs::write(&path, "changed later").unwrap();
        assert!(std::fs::read(lease.path()).unwrap() == bytes(14, len), "{len}");
    }
}

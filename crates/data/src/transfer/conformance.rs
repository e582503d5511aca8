//! What every transport must do, run on each of them.
//!
//! A transport's test gives a [`Peer`]: the transport, and the other end that it talks to (a real
//! server where there is one). [`run`] runs every check that the peer's [`Features`] call for, and
//! tells by name which failed.

mod cutter;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Digest, Payload};
use url::Url;

pub(crate) use cutter::Cutter;

use crate::Progress;

use super::{Delivery, OpenedSource, ReadRequest, TransferError, Transport, Validator};

/// The other end of the transport under test. Its methods may block.
pub(crate) trait Peer: Send + Sync {
    /// The transport, which may talk to this peer.
    fn transport(&self) -> Arc<dyn Transport>;

    /// What it can do.
    fn features(&self) -> Features;

    /// Puts data under a name, instead of what was there; the address to read it at.
    fn put(&self, name: &str, bytes: &[u8]) -> Url;

    /// The address of a name under which there is nothing.
    fn missing(&self) -> Url;

    /// An address of the data of that name at which the first body breaks off after some `after`
    /// bytes (at most 1 MiB more), and later ones do not. Only if [`Features::breaks`].
    fn breaking(&self, name: &str, after: u64) -> Url {
        unreachable!("{name} can't break after {after}")
    }

    /// An address to deliver to, under that name. Only if [`Features::delivers`].
    fn destination(&self, name: &str) -> Url {
        unreachable!("{name} is not delivered")
    }

    /// What was delivered under that name, once it is whole. Only if [`Features::delivers`].
    fn delivered(&self, name: &str) -> Option<Vec<u8>> {
        unreachable!("{name} is not delivered")
    }

    /// An address that takes no deliveries. Only if [`Features::delivers`].
    fn closed(&self) -> Option<Url> {
        None
    }
}

/// What a transport and its peer can do; `true` and `Some` mean that the suite demands it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    /// It reads (`mailto` does not).
    pub(crate) reads: bool,
    /// It begins where it is asked to.
    pub(crate) ranges: bool,
    /// It tells versions apart.
    pub(crate) versions: bool,
    /// It tells how long the data is before its first byte.
    pub(crate) lengths: bool,
    /// When the other end tells a digest.
    pub(crate) digest: DigestAnnouncement,
    /// The peer can break a connection off.
    pub(crate) breaks: bool,
    /// It delivers.
    pub(crate) delivers: bool,
}

/// When a digest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigestAnnouncement {
    /// Before the body.
    Before,
    /// After the body.
    After,
    /// Not at all.
    Never,
}

/// A large body: more than any buffer on the way, little enough for a test.
const LARGE: usize = 24 << 20;

type RunningCheck<'p> = Pin<Box<dyn Future<Output = ()> + 'p>>;

/// A check: its name, when it applies, and itself.
struct Check {
    name: &'static str,
    applies: fn(Features) -> bool,
    run: for<'p> fn(&'p dyn Peer) -> RunningCheck<'p>,
}

macro_rules! checks {
    ($($name:literal if $applies:expr => $run:ident,)+) => {
        &[$(Check { name: $name, applies: $applies, run: |peer| Box::pin($run(peer)) },)+]
    };
}

const CHECKS: &[Check] = checks! {
    "data comes whole" if |f| f.reads => whole,
    "nothing is data too" if |f| f.reads => empty,
    "one byte" if |f| f.reads => one_byte,
    "much data" if |f| f.reads => large,
    "data comes from an offset" if |f| f.ranges => from_an_offset,
    "a part of data" if |f| f.ranges => a_part,
    "the same version goes on" if |f| f.ranges && f.versions => same_version,
    "a changed version begins again" if |f| f.ranges && f.versions => changed_version,
    "what is not there is refused" if |f| f.reads => missing,
    "nobody listens: broken" if |f| f.reads => nobody_listens,
    "a digest is told" if |f| f.reads => digest,
    "a broken connection is noticed, and taken up again" if |f| f.breaks => broken,
    "a dropped body leaves nothing behind" if |f| f.reads => dropped,
    "several at once" if |f| f.reads => several,
    "a delivery arrives" if |f| f.delivers => delivery,
    "a delivery from a file" if |f| f.delivers => delivery_of_a_file,
    "an empty delivery" if |f| f.delivers => empty_delivery,
    "a delivery that is not taken is refused" if |f| f.delivers => closed,
};

/// Runs the suite.
pub(crate) async fn run(peer: &dyn Peer) {
    for check in CHECKS {
        if (check.applies)(peer.features()) {
            println!("{}", check.name);
            (check.run)(peer).await;
        }
    }
}

/// Bytes that differ from those of another seed, and at every offset.
pub(crate) fn bytes(seed: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The SHA-256 of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    Digest::Sha256(digest.as_ref().try_into().unwrap())
}

/// Everything that a body still has to give.
pub(crate) async fn rest(opened: &mut OpenedSource) -> Result<Vec<u8>, TransferError> {
    let mut all = Vec::new();
    while let Some(chunk) = opened.body.next().await? {
        assert!(!chunk.is_empty(), "a chunk of nothing");
        all.extend_from_slice(&chunk);
    }
    Ok(all)
}

async fn open(peer: &dyn Peer, url: &Url, want: ReadRequest) -> OpenedSource {
    peer.transport().open(url, want).await.unwrap()
}

async fn reads(peer: &dyn Peer, name: &str, data: &[u8]) {
    let url = peer.put(name, data);
    let mut opened = open(peer, &url, ReadRequest::default()).await;
    assert_eq!(opened.offset, 0);
    if peer.features().lengths {
        assert_eq!(opened.total, Some(data.len() as u64));
    }
    assert!(rest(&mut opened).await.unwrap() == data, "{name}: other bytes came");
    assert!(opened.body.next().await.unwrap().is_none(), "the end does not last");
}

async fn whole(peer: &dyn Peer) {
    reads(peer, "whole", &bytes(1, 70_000)).await;
}

async fn empty(peer: &dyn Peer) {
    reads(peer, "empty", b"").await;
}

async fn one_byte(peer: &dyn Peer) {
    reads(peer, "one", b"1").await;
}

async fn large(peer: &dyn Peer) {
    reads(peer, "large", &bytes(2, LARGE)).await;
}

async fn from_an_offset(peer: &dyn Peer) {
    let data = bytes(3, 300_000);
    let url = peer.put("offset", &data);
    for offset in [1_usize, 1000, 299_999] {
        let want = ReadRequest { offset: offset as u64, ..ReadRequest::default() };
        let mut opened = open(peer, &url, want).await;
        assert_eq!(opened.offset, offset as u64);
        if peer.features().lengths {
            assert_eq!(opened.total, Some(300_000));
        }
        assert!(rest(&mut opened).await.unwrap() == data[offset..], "other bytes from {offset}");
    }
    // All is here already: nothing more comes, and that is no error.
    let want = ReadRequest { offset: 300_000, ..ReadRequest::default() };
    let mut opened = open(peer, &url, want).await;
    let came = rest(&mut opened).await.unwrap();
    let from = usize::try_from(opened.offset).unwrap();
    assert!(came == data[from..], "other bytes from the end");
}

async fn a_part(peer: &dyn Peer) {
    let data = bytes(4, 300_000);
    let url = peer.put("part", &data);
    let want = ReadRequest { offset: 1000, len: Some(5000), version: None };
    let mut opened = open(peer, &url, want).await;
    assert_eq!(opened.offset, 1000);
    assert!(rest(&mut opened).await.unwrap() == data[1000..6000], "another part");
}

async fn version_of(peer: &dyn Peer, url: &Url) -> Validator {
    let opened = open(peer, url, ReadRequest::default()).await;
    opened.version.expect("a version")
}

async fn same_version(peer: &dyn Peer) {
    let data = bytes(5, 300_000);
    let url = peer.put("same", &data);
    let version = Some(version_of(peer, &url).await);
    assert_eq!(Some(version_of(peer, &url).await), version, "the same data, another version");
    let want = ReadRequest { offset: 100_000, len: None, version: version.clone() };
    let mut opened = open(peer, &url, want).await;
    assert_eq!((opened.offset, &opened.version), (100_000, &version));
    assert!(rest(&mut opened).await.unwrap() == data[100_000..], "other bytes");
}

async fn changed_version(peer: &dyn Peer) {
    let url = peer.put("changed", &bytes(6, 300_000));
    let version = Some(version_of(peer, &url).await);
    let data = bytes(7, 290_000);
    let url = peer.put("changed", &data);
    let want = ReadRequest { offset: 100_000, len: None, version: version.clone() };
    let mut opened = open(peer, &url, want).await;
    assert_eq!(opened.offset, 0, "bytes of another version would have been appended");
    assert_ne!(opened.version, version);
    assert!(rest(&mut opened).await.unwrap() == data, "other bytes");
}

async fn missing(peer: &dyn Peer) {
    let refused = peer.transport().open(&peer.missing(), ReadRequest::default()).await;
    assert!(matches!(refused, Err(TransferError::Refused { .. })), "{refused:?}");
}

async fn nobody_listens(peer: &dyn Peer) {
    let mut url = peer.missing();
    if url.port().is_none() {
        return; // no host, no connection
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    url.set_port(Some(port)).unwrap();
    let broken = peer.transport().open(&url, ReadRequest::default()).await;
    let told =
        matches!(broken, Err(TransferError::Broken { .. } | TransferError::Unreachable { .. }));
    assert!(told, "{broken:?}");
}

async fn digest(peer: &dyn Peer) {
    let data = bytes(8, 300_000);
    let url = peer.put("digest", &data);
    let mut opened = open(peer, &url, ReadRequest::default()).await;
    let before = opened.digest;
    rest(&mut opened).await.unwrap();
    let after = opened.body.digest().await.unwrap();
    let right = Some(sha256(&data));
    match peer.features().digest {
        DigestAnnouncement::Before => assert_eq!(before, right),
        DigestAnnouncement::After => assert_eq!((before, after), (None, right)),
        DigestAnnouncement::Never => assert_eq!((before, after), (None, None)),
    }
}

async fn broken(peer: &dyn Peer) {
    let data = bytes(9, LARGE);
    peer.put("broken", &data);
    let url = peer.breaking("broken", (LARGE / 3) as u64);
    let mut opened = open(peer, &url, ReadRequest::default()).await;
    let version = opened.version.clone();
    let mut all = Vec::new();
    let error = loop {
        match opened.body.next().await {
            Ok(Some(chunk)) => all.extend_from_slice(&chunk),
            Ok(None) => panic!("{} of {LARGE} bytes passed as the whole", all.len()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, TransferError::Broken { .. }), "{error:?}");
    assert!(data.starts_with(&all), "other bytes before it broke");
    drop(opened);
    let resumes = peer.features().ranges && version.is_some();
    let offset = if resumes { all.len() } else { 0 };
    let mut again =
        open(peer, &url, ReadRequest { offset: offset as u64, len: None, version }).await;
    assert_eq!(again.offset, offset as u64);
    all.truncate(offset);
    all.extend(rest(&mut again).await.unwrap());
    assert!(all == data, "other bytes after it was taken up again");
}

async fn dropped(peer: &dyn Peer) {
    let data = bytes(10, LARGE);
    let url = peer.put("dropped", &data);
    for _ in 0..4 {
        let mut opened = open(peer, &url, ReadRequest::default()).await;
        assert!(opened.body.next().await.unwrap().is_some());
    }
    reads(peer, "after", &bytes(11, 1000)).await;
}

async fn several(peer: &dyn Peer) {
    let data = bytes(12, 1 << 20);
    let url = peer.put("several", &data);
    let mut bodies = Vec::new();
    for _ in 0..4 {
        bodies.push(open(peer, &url, ReadRequest::default()).await);
    }
    for mut opened in bodies {
        assert!(rest(&mut opened).await.unwrap() == data, "bodies were mixed up");
    }
}

fn sample_delivery(name: &str, payload: Payload) -> Delivery {
    Delivery {
        payload,
        name: name.to_owned(),
        media_type: "application/octet-stream".to_owned(),
        digest: None,
        subject: format!("output {name}"),
        posts: None,
        progress: Progress::default(),
    }
}

async fn arrives(peer: &dyn Peer, name: &str, payload: Payload, data: &[u8]) {
    let (to, delivery) = (peer.destination(name), sample_delivery(name, payload));
    peer.transport().deliver(&delivery, &to).await.unwrap();
    assert_eq!(delivery.progress.bytes(), data.len() as u64, "{name}: progress");
    let came = peer.delivered(name);
    assert!(came.as_deref() == Some(data), "{name}: {:?} bytes arrived", came.map(|c| c.len()));
}

async fn delivery(peer: &dyn Peer) {
    let data = bytes(13, 30_000);
    arrives(peer, "mesh.bin", Payload::Inline(data.clone().into()), &data).await;
    let pieces: Vec<Bytes> = data.chunks(7001).map(Bytes::copy_from_slice).collect();
    arrives(peer, "pieces.bin", Payload::Pieces(pieces.into()), &data).await;
}

async fn delivery_of_a_file(peer: &dyn Peer) {
    let data = bytes(14, 3 << 20);
    let file = HeldFile::new(&data);
    arrives(peer, "file.bin", Payload::Spooled(Arc::new(file)), &data).await;
}

async fn empty_delivery(peer: &dyn Peer) {
    arrives(peer, "empty.bin", Payload::Inline(Bytes::new()), b"").await;
}

async fn closed(peer: &dyn Peer) {
    let Some(to) = peer.closed() else { return };
    let payload = Payload::Inline(Bytes::from_static(b"unwanted"));
    let refused = peer.transport().deliver(&sample_delivery("closed.bin", payload), &to).await;
    assert!(matches!(refused, Err(TransferError::Refused { .. })), "{refused:?}");
}

/// A payload in a file.
#[derive(Debug)]
pub(crate) struct HeldFile {
    file: tempfile::NamedTempFile,
    len: u64,
}

impl HeldFile {
    pub(crate) fn new(data: &[u8]) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), data).unwrap();
        Self { file, len: data.len() as u64 }
    }
}

impl fishplate_contract::FileHandle for HeldFile {
    fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn keep(&self) {}
}

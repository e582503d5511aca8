use std::fs;
use std::path::Path;
use std::sync::Arc;

use fishplate_contract::Payload;

use super::super::conformance::{
    self, Cutter, DigestAnnouncement, Features, HeldFile, Peer, bytes, rest, sha256,
};
use super::super::servers::{ACCESS, SECRET, Versitygw};
use super::*;
use crate::Progress;
use crate::settings::TransportSettings;

/// versitygw, under several names: as it is, through a cutter, and with a bucket that is not there.
struct Server {
    versitygw: Versitygw,
    cutter: Cutter,
    s3: Arc<dyn Transport>,
}

impl Server {
    fn start() -> Option<Self> {
        let versitygw = Versitygw::start()?;
        let cutter = Cutter::new(versitygw.server.address);
        let directory = versitygw.server.directory.path();
        fs::write(directory.join("access"), format!("{ACCESS}\n")).unwrap();
        fs::write(directory.join("secret"), format!("{SECRET}\n")).unwrap();
        fs::write(directory.join("wrong"), "guessed").unwrap();
        let store = |name: &str, endpoint: &str, more: &str| {
            format!(
                "[transfer.s3.{name}]\nendpoint = \"{endpoint}\"\naccess_key.file = \"access\"\n\
                 write = true\npart_size = \"5MiB\"\n{more}\n"
            )
        };
        let (plain, right) = (versitygw.endpoint(), "secret_key.file = \"secret\"\n");
        let text = [
            store("meshes", &plain, right),
            store(
                "cut",
                &format!("http://{}", cutter.address()),
                &format!("{right}bucket = 'meshes'"),
            ),
            store("none", &plain, &format!("{right}bucket = 'no-such-bucket'")),
            store("wrong", &plain, "secret_key.file = \"wrong\"\nbucket = 'meshes'"),
            store(
                "below",
                &plain,
                &format!("{right}bucket = 'meshes'\nprefix = 'sub/'\nread = false"),
            ),
        ];
        let file = directory.join("transfers.toml");
        fs::write(&file, text.concat()).unwrap();
        let s3 = s3_of(&file).unwrap();
        Some(Self { versitygw, cutter, s3: Arc::new(s3) })
    }
}

fn s3_of(file: &Path) -> Result<S3, SettingsError> {
    S3::new(&TransportSettings::read(file)?.s3, &TransferSettings::default())
}

fn url(path: &str) -> Url {
    Url::parse(&format!("s3://{path}")).unwrap()
}

impl Peer for Server {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.s3)
    }

    fn features(&self) -> Features {
        Features {
            reads: true,
            ranges: true,
            versions: true,
            lengths: true,
            digest: DigestAnnouncement::Before,
            breaks: true,
            delivers: true,
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Url {
        self.versitygw.put(name, bytes);
        url(&format!("meshes/{name}"))
    }

    fn missing(&self) -> Url {
        url("meshes/missing")
    }

    fn breaking(&self, name: &str, after: u64) -> Url {
        self.cutter.cut_after(after);
        url(&format!("cut/{name}"))
    }

    fn destination(&self, name: &str) -> Url {
        url(&format!("meshes/results/{name}"))
    }

    fn delivered(&self, name: &str) -> Option<Vec<u8>> {
        self.versitygw.file(&format!("results/{name}"))
    }

    fn closed(&self) -> Option<Url> {
        Some(url("none/closed.bin"))
    }
}

fn parcel(payload: Payload, digest: Option<Digest>) -> Delivery {
    Delivery {
        payload,
        name: "a mesh.bin".to_owned(),
        media_type: "model/mesh".to_owned(),
        digest,
        subject: String::new(),
        posts: None,
        progress: Progress::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms() {
    let Some(server) = Server::start() else { return };
    conformance::run(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_delivery_goes_in_parts_and_keeps_its_digest() {
    let Some(server) = Server::start() else { return };
    let data = bytes(30, (23 << 20) + 17);
    let digest = Some(sha256(&data));
    let parcel = parcel(Payload::Spooled(Arc::new(HeldFile::new(&data))), digest);
    server.s3.deliver(&parcel, &url("meshes/big/")).await.unwrap();
    assert_eq!(parcel.progress.bytes(), data.len() as u64);
    assert!(server.versitygw.file("big/a mesh.bin").unwrap() == data);

    let mut opened =
        server.s3.open(&url("meshes/big/a%20mesh.bin"), ReadRequest::default()).await.unwrap();
    assert_eq!(opened.digest, digest);
    let version = opened.version.clone().unwrap();
    assert!(version.0.contains("-5"), "{version:?}: not in five parts");
    assert!(rest(&mut opened).await.unwrap() == data);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_whose_connection_broke_is_sent_again() {
    let Some(server) = Server::start() else { return };
    let data = bytes(31, 23 << 20);
    let parcel = parcel(Payload::Spooled(Arc::new(HeldFile::new(&data))), None);
    // The first answer is the upload's ID; the connection breaks with the second.
    server.cutter.cut_after(0);
    server.s3.deliver(&parcel, &url("cut/broken.bin")).await.unwrap();
    assert!(server.versitygw.file("broken.bin").unwrap() == data);
    assert_eq!(parcel.progress.bytes(), data.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_given_up_leaves_nothing() {
    let Some(server) = Server::start() else { return };
    let data = HeldFile::new(&bytes(32, 40 << 20));
    let parcel = parcel(Payload::Spooled(Arc::new(data)), None);
    let to = url("meshes/given/up");
    let mut delivering = server.s3.deliver(&parcel, &to);
    while parcel.progress.bytes() == 0 {
        let step = std::time::Duration::from_millis(1);
        let _ = tokio::time::timeout(step, &mut delivering).await;
    }
    drop(delivering);
    tokio::task::spawn_blocking(move || {
        super::super::servers::wait_for("the upload to be given up", || {
            let keys = server.versitygw.keys();
            assert!(!keys.contains("given/up"), "{keys}");
            let uploads = server.versitygw.uploads();
            uploads.is_ok_and(|uploads| !uploads.contains("<Upload>")).then_some(())
        });
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_secret_is_refused() {
    let Some(server) = Server::start() else { return };
    server.versitygw.put("data", b"data");
    let error = server.s3.open(&url("wrong/data"), ReadRequest::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "s3://wrong answers 403 SignatureDoesNotMatch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_has_a_prefix_and_rights() {
    let Some(server) = Server::start() else { return };
    let parcel = parcel(Payload::Inline(Bytes::from_static(b"below")), None);
    server.s3.deliver(&parcel, &url("below/mesh")).await.unwrap();
    assert_eq!(server.versitygw.file("sub/mesh").as_deref(), Some(b"below".as_slice()));
    let error = server.s3.open(&url("below/mesh"), ReadRequest::default()).await.unwrap_err();
    assert!(matches!(error, TransferError::Forbidden { rule: "transfer.s3.read", .. }), "{error}");
}

fn offline(more: &str) -> Result<S3, SettingsError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("transfers.toml");
    fs::write(&file, format!("[transfer.s3.meshes]\n{more}")).unwrap();
    s3_of(&file)
}

#[tokio::test]
async fn addresses_that_are_not_asked() {
    let s3 = offline("endpoint = 'http://127.0.0.1:1/'").unwrap();
    for address in [
        "meshes/",
        "meshes/a/../../other",
        "meshes/a/%2e%2e%2fb",
        "meshes/.",
        "meshes//a",
        "meshes/a%0db",
        "meshes/%ff",
        "key:secret@meshes/a",
        "meshes:9000/a",
        "meshes/a?X-Amz-Credential=key",
    ] {
        // What the URL parser resolves itself is resolved before anybody looks at it.
        let url = url(address);
        if url.path() == "/other" {
            continue;
        }
        match s3.open(&url, ReadRequest::default()).await {
            Err(TransferError::Unsupported(reason)) => assert!(!reason.contains("secret")),
            other => panic!("{address}: {other:?}"),
        }
    }
    let rule = |refused: Result<(), TransferError>| match refused {
        Err(TransferError::Forbidden { rule, .. }) => rule,
        other => panic!("{other:?}"),
    };
    assert_eq!(rule(s3.accepts(&url("meshes/a"))), "transfer.s3.write");
    assert_eq!(rule(s3.accepts(&url("others/a"))), "transfer.s3");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (text, said) in [
        ("endpoint = 'ftp://x/'", "transfer.s3.meshes.endpoint"),
        ("endpoint = 'x'", "transfer.s3.meshes.endpoint"),
        ("endpoint = 'http://x/'\npart_size = '1MiB'", "part_size"),
        ("endpoint = 'http://x/'\naccess_key.env = 'HOME'", "belong together"),
        ("endpoint = 'http://x/'\naccess_key = 'AKIA'", "not usable"),
    ] {
        let error = offline(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn a_checksum_of_parts_is_none_of_the_whole() {
    let mut headers = HeaderMap::new();
    headers.insert(
        "x-amz-checksum-sha256",
        "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=".parse().unwrap(),
    );
    assert!(checksum(&headers).is_some());
    headers.insert("x-amz-checksum-type", "COMPOSITE".parse().unwrap());
    assert_eq!(checksum(&headers), None);
}

//! Files brought to a server that takes uploads in parts and whose connections break.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fishplate_client::data::UploadTarget;
use fishplate_client::{Error, Meter, Retry, Settings};
use fishplate_contract::{DataRef, Digest, FaultCode};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Larger than what goes in one request.
const LARGE: usize = 3_000_000;

/// A server that keeps what it gets, and forgets or breaks as it was told.
#[derive(Default)]
struct Depot {
    uploads: Mutex<HashMap<String, Vec<u8>>>,
    kept: Mutex<HashMap<String, Vec<u8>>>,
    requests: Mutex<Vec<String>>,
    /// Bytes after which the connections break, one after the other.
    cuts: Mutex<Vec<usize>>,
    /// It knows no uploads in parts.
    plain: bool,
    /// It changes what it gets.
    spoils: bool,
    /// It has no room.
    full: bool,
    /// The answer that completes an upload gets lost, that often.
    loses: Mutex<u32>,
}

impl Depot {
    async fn start(self) -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let depot = Arc::new(self);
        let serving = Arc::clone(&depot);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let depot = Arc::clone(&serving);
                let service = service_fn(move |request| answer(Arc::clone(&depot), request));
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        (depot, format!("http://{address}"))
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn count(&self, method: &str) -> usize {
        self.requests().iter().filter(|request| request.starts_with(method)).count()
    }

    fn kept(&self, reference: &DataRef) -> Vec<u8> {
        let path = reference.url.splitn(4, '/').nth(3).unwrap();
        self.kept.lock().unwrap()[&format!("/{path}")].clone()
    }
}

type Reply = Result<Response<Full<Bytes>>, io::Error>;

async fn answer(depot: Arc<Depot>, request: Request<Incoming>) -> Reply {
    let (parts, mut body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    depot.requests.lock().unwrap().push(format!("{} {path}", parts.method));
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap());
    if parts.method == Method::OPTIONS {
        let reply = Response::builder().status(204);
        let takes = !depot.plain && path == "/data/";
        let reply = if takes { reply.header("upload-limit", "max-age=60") } else { reply };
        return Ok(reply.body(Full::default()).unwrap());
    }
    if depot.full && header("content-length").is_some_and(|length| length != "0") {
        let problem = r#"{"code": "QuotaExceeded", "detail": "your share is used up",
                          "limit": {"name": "owner_quota", "value": "10 B"}}"#;
        let reply =
            Response::builder().status(507).header("content-type", "application/problem+json");
        return Ok(reply.body(Full::from(problem)).unwrap());
    }
    match (&parts.method, header("upload-complete")) {
        (&Method::PUT, Some("?0")) => {
            let upload = format!("/upload/{}", depot.uploads.lock().unwrap().len());
            depot.uploads.lock().unwrap().insert(upload.clone(), Vec::new());
            let reply = Response::builder().status(201).header("location", &upload);
            Ok(reply.body(Full::default()).unwrap())
        }
        (&Method::HEAD, _) => Ok(standing(&depot, &path)),
        (&Method::PATCH, Some("?1")) => {
            let offset: usize = header("upload-offset").unwrap().parse().unwrap();
            let Some(mut bytes) = depot.uploads.lock().unwrap().get(&path).cloned() else {
                return Ok(empty(404));
            };
            if offset != bytes.len() {
                return Ok(empty(409));
            }
            let whole = receive(&depot, &mut body, &mut bytes).await;
            depot.uploads.lock().unwrap().insert(path.clone(), bytes.clone());
            whole?;
            keep(&depot, &path.replace("upload", "kept"), bytes)
        }
        _ => {
            let mut bytes = Vec::new();
            receive(&depot, &mut body, &mut bytes).await?;
            if depot.plain {
                depot.kept.lock().unwrap().insert(path, bytes);
                return Ok(empty(204));
            }
            keep(&depot, &path.replace("data", "kept"), bytes)
        }
    }
}

fn standing(depot: &Depot, path: &str) -> Response<Full<Bytes>> {
    let kept = path.replace("upload", "kept");
    let complete = depot.kept.lock().unwrap().contains_key(&kept);
    match depot.uploads.lock().unwrap().get(path) {
        None => empty(404),
        Some(bytes) => {
            let reply = Response::builder().status(204);
            let reply = reply.header("upload-offset", bytes.len());
            let reply = reply.header("upload-complete", if complete { "?1" } else { "?0" });
            let reply = if complete { reply.header("location", kept) } else { reply };
            reply.body(Full::default()).unwrap()
        }
    }
}

/// Reads until the next cut.
async fn receive(depot: &Depot, body: &mut Incoming, to: &mut Vec<u8>) -> io::Result<()> {
    let cut = depot.cuts.lock().unwrap().pop();
    let mut left = cut.unwrap_or(usize::MAX);
    while let Some(frame) = body.frame().await {
        let data = frame.map_err(io::Error::other)?.into_data().unwrap_or_default();
        to.extend_from_slice(&data[..data.len().min(left)]);
        left = left.saturating_sub(data.len());
        if left == 0 {
            return Err(io::Error::other("cut"));
        }
    }
    Ok(())
}

fn keep(depot: &Depot, path: &str, mut bytes: Vec<u8>) -> Reply {
    if depot.spoils {
        bytes[0] ^= 1;
    }
    let digest = digest_of(&bytes).to_string();
    depot.kept.lock().unwrap().insert(path.to_owned(), bytes);
    let mut loses = depot.loses.lock().unwrap();
    if *loses > 0 {
        *loses -= 1;
        return Err(io::Error::other("lost"));
    }
    let reply = Response::builder().status(201).header("location", path);
    Ok(reply.header("repr-digest", digest).body(Full::default()).unwrap())
}

fn empty(status: u16) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::from_u16(status).unwrap();
    reply
}

fn digest_of(bytes: &[u8]) -> Digest {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    Digest::Sha256(digest.as_ref().try_into().unwrap())
}

fn settings() -> Settings {
    let first_wait = Duration::from_millis(1);
    Settings { retry: Retry { attempts: 3, first_wait, ..Retry::default() }, ..Settings::default() }
}

async fn target(url: &str) -> UploadTarget {
    UploadTarget::find(url, settings()).await.unwrap()
}

async fn put(target: &UploadTarget, file: &Path) -> Result<DataRef, Error> {
    let meter = Arc::new(Meter::default());
    let put = target.put(file, &meter).await;
    if let Ok(reference) = &put {
        assert_eq!((Some(meter.sent()), meter.to_send()), (reference.len, meter.sent()));
    }
    put
}

fn file(len: usize) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a mesh.msh");
    let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
    std::fs::write(&path, &bytes).unwrap();
    (dir, path, bytes)
}

#[tokio::test]
async fn a_file_becomes_a_reference_in_one_request_if_it_is_small_and_in_parts_if_not() {
    let (depot, url) = Depot::default().start().await;
    for (len, at) in [(0, "/kept/a%20mesh.msh"), (10, "/kept/a%20mesh.msh"), (LARGE, "/kept/0")] {
        let (_dir, path, bytes) = file(len);
        let reference = put(&target(&format!("{url}/service?wsdl")).await, &path).await.unwrap();
        assert_eq!(reference.url, format!("{url}{at}"));
        assert_eq!((reference.len, reference.digest), (Some(len as u64), Some(digest_of(&bytes))));
        assert!(depot.kept(&reference) == bytes);
    }
    assert_eq!(depot.count("PATCH"), 1);
}

#[tokio::test]
async fn an_upload_goes_on_where_its_connection_broke() {
    let cuts = Mutex::new(vec![700_001, 1_000_000]);
    let (depot, url) = Depot { cuts, ..Depot::default() }.start().await;
    let (_dir, path, bytes) = file(LARGE);
    let reference = put(&target(&url).await, &path).await.unwrap();
    assert!(depot.kept(&reference) == bytes);
    assert_eq!((depot.count("PUT"), depot.count("PATCH"), depot.count("HEAD")), (1, 3, 2));
}

#[tokio::test]
async fn another_process_goes_on_with_an_upload_unless_the_file_has_changed() {
    let cuts = Mutex::new(vec![1, 1, 1, 1_000_000]);
    let (depot, url) = Depot { cuts, ..Depot::default() }.start().await;
    let (dir, path, _) = file(LARGE);
    let notes = dir.path().join("notes");
    let remembering = async || target(&url).await.remembering(notes.clone());
    // Every cut brings something, but the last: then it is given up.
    let given_up = Depot { cuts: Mutex::new(vec![0; 9]), ..Depot::default() }.start().await;
    let lost = put(&target(&given_up.1).await, &path).await.unwrap_err();
    assert!(matches!(lost, Error::ConnectionLost { .. }), "{lost:?}");

    tokio::select! {
        _ = async { put(&remembering().await, &path).await } => panic!("nothing was broken"),
        // The process ends in the middle, as far as the upload is concerned.
        () = async { while depot.count("PATCH") < 2 { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(std::fs::read_dir(&notes).unwrap().count(), 1);
    depot.cuts.lock().unwrap().clear();
    let before = depot.count("PUT");
    let reference = put(&remembering().await, &path).await.unwrap();
    assert_eq!((before, depot.count("PUT")), (1, 1), "{:?}", depot.requests());
    assert!(depot.kept(&reference) == std::fs::read(&path).unwrap());
    assert_eq!(std::fs::read_dir(&notes).unwrap().count(), 0);

    std::fs::write(&path, vec![1; LARGE]).unwrap();
    put(&remembering().await, &path).await.unwrap();
    assert_eq!(depot.count("PUT"), 2);
}

#[tokio::test]
async fn a_last_answer_that_is_lost_is_asked_for_again() {
    let (depot, url) = Depot { loses: Mutex::new(1), ..Depot::default() }.start().await;
    let (_dir, path, bytes) = file(LARGE);
    let reference = put(&target(&url).await, &path).await.unwrap();
    assert!(depot.kept(&reference) == bytes);
    assert_eq!(depot.count("PATCH"), 1);
}

#[tokio::test]
async fn what_arrives_otherwise_than_it_was_sent_is_an_error_and_removed() {
    let (depot, url) = Depot { spoils: true, ..Depot::default() }.start().await;
    for len in [10, LARGE] {
        let (_dir, path, _) = file(len);
        let error = put(&target(&url).await, &path).await.unwrap_err();
        assert!(matches!(error, Error::DataMismatch { .. }), "{error:?}");
    }
    assert_eq!(depot.count("DELETE"), 2);
}

#[tokio::test]
async fn a_quota_is_told_as_the_fault_that_it_is() {
    let (_depot, url) = Depot { full: true, ..Depot::default() }.start().await;
    for len in [10, LARGE] {
        let (_dir, path, _) = file(len);
        let error = put(&target(&url).await, &path).await.unwrap_err();
        let Error::Fault(fault) = error else { panic!("{error:?}") };
        assert_eq!(fault.code, FaultCode::QuotaExceeded);
        assert_eq!(fault.limit.unwrap().name, "owner_quota");
    }
}

#[tokio::test]
async fn any_other_server_takes_a_put_under_its_url_or_at_it() {
    let (depot, url) = Depot { plain: true, ..Depot::default() }.start().await;
    let (_dir, path, bytes) = file(LARGE);
    for (to, expected) in [("/in/", "/in/a%20mesh.msh"), ("/in/x", "/in/x")] {
        let reference = put(&target(&format!("{url}{to}")).await, &path).await.unwrap();
        assert_eq!(reference.url, format!("{url}{expected}"));
        assert!(depot.kept(&reference) == bytes);
    }
}

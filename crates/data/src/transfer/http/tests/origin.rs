//! A server that does what RFC 9110 and RFC 9530 ask for, and tells digests.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::{DigestAnnouncement, Server};
use crate::transfer::conformance::sha256;

type Files = Arc<Mutex<HashMap<String, Bytes>>>;

/// A server on a thread of its own.
pub(super) struct Origin {
    files: Files,
    address: SocketAddr,
}

impl Origin {
    pub(super) fn start(told: DigestAnnouncement) -> Self {
        let files = Files::default();
        let (send, receive) = std::sync::mpsc::channel();
        let served = Arc::clone(&files);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let files = Arc::clone(&served);
                    let service =
                        service_fn(move |request| answer(request, Arc::clone(&files), told));
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    tokio::spawn(connection);
                }
            });
        });
        Self { files, address: receive.recv().unwrap() }
    }
}

impl Server for Origin {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        self.files.lock().unwrap().insert(format!("/{name}"), Bytes::copy_from_slice(bytes));
    }

    fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.files.lock().unwrap().get(&format!("/{name}")).map(|bytes| bytes.to_vec())
    }
}

async fn answer(
    request: Request<Incoming>,
    files: Files,
    told: DigestAnnouncement,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let plain = |status: u16| Response::builder().status(status);
    if request.method() == Method::PUT {
        if path.starts_with("/closed/") {
            return Ok(plain(403).body(Full::from("not for you\n")).unwrap());
        }
        let Ok(body) = request.into_body().collect().await else {
            return Ok(plain(400).body(Full::default()).unwrap());
        };
        files.lock().unwrap().insert(path, body.to_bytes());
        return Ok(plain(201).body(Full::default()).unwrap());
    }
    let Some(data) = files.lock().unwrap().get(&path).cloned() else {
        return Ok(plain(404).body(Full::default()).unwrap());
    };
    let digest = sha256(&data);
    let tag = format!("\"{}\"", digest.hex());
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap());
    let asks = header("want-repr-digest").is_some();
    let mut response = plain(200).header("etag", &tag).header("accept-ranges", "bytes");
    if asks
        && (told == DigestAnnouncement::Before
            || (told == DigestAnnouncement::After && request.method() == Method::HEAD))
    {
        response = response.header("repr-digest", digest.to_string());
    }
    let matches = header("if-range").is_none_or(|wanted| wanted == tag);
    let (mut body, len) = (data.clone(), data.len());
    if let Some(range) = header("range").filter(|_| matches) {
        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let first: usize = first.parse().unwrap();
        let last = last.parse::<usize>().map_or(len, |last| (last + 1).min(len));
        if first >= len {
            response = response.status(416).header("content-range", format!("bytes */{len}"));
            body = Bytes::new();
        } else {
            let range = format!("bytes {first}-{}/{len}", last - 1);
            response = response.status(206).header("content-range", range);
            body = data.slice(first..last);
        }
    }
    Ok(response.body(Full::new(body)).unwrap())
}

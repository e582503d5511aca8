//! What no SOAP server can beat: the same bytes echoed over HTTP or TCP.
//!
//! `limit-server http-whole|http-stream|tcp HOST` prints its port. `POST /` echoes, once the whole
//! body was read or while it comes; `GET /N` answers with N by N numbers. Over TCP a request is its
//! length (8 bytes, little-endian) and the bytes that are echoed as they come; a length with the
//! highest bit set asks for as many bytes, which come without a length.

#![expect(clippy::print_stdout, reason = "the port is told on stdout")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use fishplate_benches::matrix;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use nix::sys::signal::{SigSet, Signal};

/// Marks a request over TCP for bytes that were not sent.
const WANTED: u64 = 1 << 63;

/// Made once for each size: what is measured is the message, not the making of numbers.
#[derive(Default)]
struct Matrices(Mutex<HashMap<usize, Bytes>>);

impl Matrices {
    fn get(&self, n: usize) -> Bytes {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(n).or_insert_with(|| matrix::bytes(&matrix::numbers(n)).into()).clone()
    }
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, host] = arguments.as_slice() else {
        anyhow::bail!("limit-server http-whole|http-stream|tcp HOST");
    };
    end_when_told()?;
    let listener = std::net::TcpListener::bind((host.as_str(), 0))?;
    println!("{}", listener.local_addr()?.port());
    match kind.as_str() {
        "http-whole" => http(listener, true),
        "http-stream" => http(listener, false),
        "tcp" => tcp(&listener),
        other => anyhow::bail!("{other:?} is none of http-whole, http-stream, tcp"),
    }
}

/// Ends on SIGTERM as a program that returns: with counters in it (`packaging/pgo.sh`) it writes them.
fn end_when_told() -> anyhow::Result<()> {
    let mut terms = SigSet::empty();
    terms.add(Signal::SIGTERM);
    // Of all threads to come, too.
    terms.thread_block()?;
    std::thread::spawn(move || std::process::exit(i32::from(terms.wait().is_err())));
    Ok(())
}

#[tokio::main]
async fn http(listener: std::net::TcpListener, whole: bool) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let matrices = Arc::new(Matrices::default());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let matrices = Arc::clone(&matrices);
        let service = service_fn(move |request| {
            let matrices = Arc::clone(&matrices);
            async move { Ok::<_, Infallible>(answer(request, whole, &matrices).await) }
        });
        tokio::spawn(async move {
            // A client that goes away is no failure.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    whole: bool,
    matrices: &Matrices,
) -> Response<Either<Full<Bytes>, Incoming>> {
    if request.method() == hyper::Method::GET {
        let n = request.uri().path().trim_matches('/').parse();
        return match n {
            Ok(n) => Response::new(Either::Left(Full::new(matrices.get(n)))),
            Err(_) => refusal(StatusCode::NOT_FOUND),
        };
    }
    if !whole {
        return Response::new(Either::Right(request.into_body()));
    }
    match request.into_body().collect().await {
        Ok(body) => Response::new(Either::Left(Full::new(body.to_bytes()))),
        Err(_) => refusal(StatusCode::BAD_REQUEST),
    }
}

fn refusal(status: StatusCode) -> Response<Either<Full<Bytes>, Incoming>> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

fn tcp(listener: &std::net::TcpListener) -> anyhow::Result<()> {
    let matrices = Arc::new(Matrices::default());
    for stream in listener.incoming() {
        let (stream, matrices) = (stream?, Arc::clone(&matrices));
        std::thread::spawn(move || echo(stream, &matrices));
    }
    Ok(())
}

/// Until the client goes away.
fn echo(mut stream: std::net::TcpStream, matrices: &Matrices) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let mut length = [0; 8];
        stream.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length & WANTED != 0 {
            let n = ((length & !WANTED) / 4).isqrt();
            stream.write_all(&matrices.get(usize::try_from(n)?))?;
            continue;
        }
        let mut left = usize::try_from(length)?;
        while left > 0 {
            let room = left.min(buffer.len());
            let came = stream.read(&mut buffer[..room])?;
            anyhow::ensure!(came > 0, "closed within a message");
            stream.write_all(&buffer[..came]).context("echo")?;
            left -= came;
        }
    }
}

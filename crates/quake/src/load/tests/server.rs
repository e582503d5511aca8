//! A server that does what the path of a request says.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A server.
pub(super) struct Server {
    pub(super) url: String,
    /// Its certificate, as PEM.
    pub(super) ca: String,
    seen: Arc<Seen>,
    listening: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicU64,
    open: AtomicU64,
    stalled: AtomicBool,
    bytes: AtomicU64,
    whole: AtomicU64,
    /// What stood in the requests.
    numbers: Mutex<Vec<u64>>,
    sessions: AtomicU64,
    cookies: Mutex<BTreeSet<String>>,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::listen(None, String::new()).await
    }

    pub(super) async fn start_with_tls() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate");
        Self::listen(Some(Arc::new(config).into()), made.cert.pem()).await
    }

    async fn listen(tls: Option<TlsAcceptor>, ca: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::new(Seen::default());
        let noting = Arc::clone(&seen);
        let listening = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("it listens");
                let (seen, tls) = (Arc::clone(&noting), tls.clone());
                tokio::spawn(async move {
                    seen.open.fetch_add(1, Ordering::SeqCst);
                    // Clients may leave at any time.
                    let _ = match tls {
                        None => serve(stream, &seen).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &seen).await,
                            Err(error) => Err(error),
                        },
                    };
                    seen.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { url: format!("{scheme}://{address}"), ca, seen, listening }
    }

    /// The same address, where nobody listens any more.
    pub(super) async fn stop(mut self) -> Self {
        self.listening.abort();
        // It has ended when the listener is closed.
        let _ = (&mut self.listening).await;
        self
    }

    /// Connections over which something was asked.
    pub(super) fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(super) fn sessions(&self) -> u64 {
        self.seen.sessions.load(Ordering::SeqCst)
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.seen.numbers.lock().expect("no panic").clone()
    }

    /// Bytes that came, and requests that were whole.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.seen.bytes.load(Ordering::SeqCst), self.seen.whole.load(Ordering::SeqCst))
    }

    pub(super) async fn until_no_connections(&self) {
        while self.seen.open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

struct Asked {
    path: String,
    head: String,
    body: String,
}

/// The next request, if there is one.
async fn next<S: AsyncRead + Unpin>(
    stream: &mut S,
    rest: &mut Vec<u8>,
    seen: &Seen,
) -> io::Result<Option<Asked>> {
    loop {
        if let Some(end) = memchr::memmem::find(rest, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length = length.map_or(0, |length| length.parse().expect("a length"));
            if rest.len() >= end + 4 + length {
                let request: Vec<u8> = rest.drain(..end + 4 + length).collect();
                let path = head.split(' ').nth(1).expect("a path").to_owned();
                let body = String::from_utf8_lossy(&request[end + 4..]).into_owned();
                return Ok(Some(Asked { path, head, body }));
            }
        }
        let length = stream.read_buf(rest).await?;
        seen.bytes.fetch_add(length as u64, Ordering::SeqCst);
        if length == 0 {
            return Ok(None);
        }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, seen: &Seen) -> io::Result<()> {
    let mut rest = Vec::new();
    let mut first = true;
    while let Some(asked) = next(&mut stream, &mut rest, seen).await? {
        seen.whole.fetch_add(1, Ordering::SeqCst);
        if std::mem::take(&mut first) {
            seen.connections.fetch_add(1, Ordering::SeqCst);
        }
        let number = asked.body.split("<n>").nth(1).and_then(|rest| rest.split('<').next());
        if let Some(number) = number {
            let number = number.parse().expect("a number");
            seen.numbers.lock().expect("no panic").push(number);
        }
        let (answer, stays) = answer(&asked, seen).await;
        stream.write_all(&answer).await?;
        stream.flush().await?;
        if !stays {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

fn whole(status: &str, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{more}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn fault(code: &str) -> String {
    format!(
        "<e:Envelope><e:Body><e:Fault><faultcode>{code}</faultcode></e:Fault></e:Body></e:Envelope>"
    )
}

/// What is answered, and whether the connection stays.
async fn answer(asked: &Asked, seen: &Seen) -> (Vec<u8>, bool) {
    let path = asked.path.trim_start_matches('/');
    let (what, how) = path.split_once('/').unwrap_or((path, ""));
    let number = || how.parse::<u64>().expect("a number");
    let right = whole("200 OK", "", &asked.body);
    match what {
        "right" => (right, true),
        "right-and-close" => (whole("200 OK", "Connection: close\r\n", &asked.body), false),
        "chunked" => {
            let (length, body) = (asked.body.len(), &asked.body);
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            (format!("{head}{length:x}\r\n{body}\r\n0\r\n\r\n").into_bytes(), true)
        }
        "until-close" => (format!("HTTP/1.1 200 OK\r\n\r\n{}", asked.body).into_bytes(), false),
        "slow" => {
            tokio::time::sleep(Duration::from_millis(number())).await;
            (right, true)
        }
        "stall-once" => {
            if !seen.stalled.swap(true, Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(number())).await;
            }
            (right, true)
        }
        "fault" => (whole(&format!("{how} x"), "", &fault("e:Server")), true),
        "busy" => (whole("500 x", "", &fault("e:Server.Busy")), true),
        "status" => (whole(&format!("{how} x"), "", ""), true),
        "break-head" => (right[..20].to_vec(), false),
        "break-body" => (right[..right.len() - 1].to_vec(), false),
        "hang-up" => (Vec::new(), false),
        "no-http" => (b"220 mail.example ESMTP\r\n\r\n".to_vec(), false),
        "silence" => std::future::pending().await,
        "large" => {
            let length = usize::try_from(number()).expect("a length");
            (whole("200 OK", "", &"x".repeat(length)), true)
        }
        "login" => {
            let known = asked.head.contains("Authorization: Basic YW5uOnNlY3JldA==");
            (if known { right } else { whole("401 x", "", "") }, true)
        }
        "cookie" => {
            let cookie = asked.head.lines().find_map(|line| line.strip_prefix("Cookie: "));
            let known = seen.cookies.lock().expect("no panic");
            if cookie.is_some_and(|cookie| known.contains(cookie)) {
                return (right, true);
            }
            drop(known);
            let cookie = format!("session={}", seen.sessions.fetch_add(1, Ordering::SeqCst));
            let more = format!("Set-Cookie: {cookie}; Path=/\r\n");
            seen.cookies.lock().expect("no panic").insert(cookie);
            (whole("200 OK", &more, &asked.body), true)
        }
        other => panic!("{other}"),
    }
}

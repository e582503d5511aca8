//! Servers that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::transfer::Validator;
use crate::transfer::conformance::rest;

/// Answers each connection's first request with the next of these, and then closes it. The
/// requests' headers come back.
fn scripted(answers: Vec<String>) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            let _ = send.send(String::from_utf8(head).unwrap().to_ascii_lowercase());
            let answer = answer.replacen('\n', "\nConnection: close\n", 1);
            stream.write_all(answer.replace('\n', "\r\n").as_bytes()).unwrap();
        }
    });
    (address, receive)
}

async fn opens(answers: &[&str], want: ReadRequest) -> Result<OpenedSource, TransferError> {
    let (address, _) = scripted(answers.iter().map(|&answer| answer.to_owned()).collect());
    http().open(&at(address, "x"), want).await
}

fn text<T: std::fmt::Debug>(result: Result<T, TransferError>) -> String {
    result.unwrap_err().to_string()
}

#[tokio::test]
async fn an_end_before_the_length_is_a_broken_connection() {
    let mut opened =
        opens(&["HTTP/1.1 200 OK\nContent-Length: 100\n\nonly this"], ReadRequest::default())
            .await
            .unwrap();
    assert_eq!(opened.total, Some(100));
    let error = rest(&mut opened).await.unwrap_err();
    assert!(matches!(error, TransferError::Broken { .. }), "{error:?}");
    let chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n";
    let mut opened = opens(&[chunked], ReadRequest::default()).await.unwrap();
    assert_eq!(opened.total, None);
    let error = rest(&mut opened).await.unwrap_err();
    assert!(matches!(error, TransferError::Broken { .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_no_http_is_not_asked_for_again() {
    let large = format!("HTTP/1.1 200 OK\nX-Large: {}\n\n", "x".repeat(1 << 20));
    let many = format!("HTTP/1.1 200 OK\n{}\n", "X: y\n".repeat(200));
    for answer in [&*large, &*many, "SSH-2.0-server\nmore\n\n", "HTTP/1.1 200 OK\nno field\n\n"] {
        let error = opens(&[answer], ReadRequest::default()).await.unwrap_err();
        assert!(matches!(error, TransferError::Strange { .. }), "{error:?}");
    }
    let chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nno length\nhello\n";
    let mut opened = opens(&[chunked], ReadRequest::default()).await.unwrap();
    let error = rest(&mut opened).await.unwrap_err();
    assert!(matches!(error, TransferError::Strange { .. }), "{error:?}");
}

#[tokio::test]
async fn interim_answers_are_skipped_but_not_without_end() {
    let few = "HTTP/1.1 102 Processing\n\n".repeat(99);
    let answer = format!("HTTP/1.1 103 Early Hints\nLink: </y>\n\n{few}HTTP/1.1 200 OK\n\nhere");
    let mut opened = opens(&[&answer], ReadRequest::default()).await.unwrap();
    assert_eq!(rest(&mut opened).await.unwrap(), b"here");
    // They come as fast as they are read, and somebody else has their turn meanwhile.
    let (address, ended) = endless();
    let http = http();
    let url = at(address, "x");
    let error = http.open(&url, ReadRequest::default()).await.unwrap_err();
    assert!(matches!(error, TransferError::Strange { .. }), "{error:?}");
    assert!(error.to_string().contains("transfer_interim"), "{error}");
    let sent = ended.recv().unwrap();
    assert!(sent < 8 << 20, "{sent} bytes were sent before it was given up");
}

/// Answers its first request with interim answers until nobody takes more; tells how many bytes went.
fn endless() -> (SocketAddr, mpsc::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let some = "HTTP/1.1 102 Processing\r\n\r\n".repeat(1000);
        let mut sent = 0;
        // Much more than is taken by whoever gives it up.
        while sent < 256 << 20 {
            match stream.write(some.as_bytes()) {
                Ok(written) if written > 0 => sent += written,
                _ => break,
            }
        }
        drop(stream);
        send.send(sent).unwrap();
    });
    (address, receive)
}

#[tokio::test]
async fn ranges_that_were_not_asked_for_are_refused() {
    let from_5 = || ReadRequest { offset: 5, ..ReadRequest::default() };
    for (answer, says) in [
        (
            "HTTP/1.1 206 P\nContent-Range: bytes 4-9/10\nContent-Length: 6\n\n456789",
            "another range",
        ),
        ("HTTP/1.1 206 P\nContent-Length: 5\n\n56789", "another range"),
        ("HTTP/1.1 206 P\nContent-Range: bytes 5-9/10\nContent-Length: 4\n\n5678", "differ"),
        (
            "HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: 1\n\nx",
            "identity was asked for",
        ),
    ] {
        let error = text(opens(&[answer], from_5()).await);
        assert!(error.contains(says), "{error}");
    }
    let whole = opens(&["HTTP/1.1 200 OK\nContent-Length: 3\n\nall"], from_5()).await.unwrap();
    assert_eq!((whole.offset, whole.total), (0, Some(3)));
}

#[tokio::test]
async fn a_server_that_ignores_if_range_is_asked_for_all() {
    let want = ReadRequest { offset: 5, len: None, version: Some(Validator("\"a\"".to_owned())) };
    let (address, requests) = scripted(vec![
        "HTTP/1.1 206 P\nETag: \"b\"\nContent-Range: bytes 5-5/6\nContent-Length: 1\n\n5"
            .to_owned(),
        "HTTP/1.1 200 OK\nETag: \"b\"\nContent-Length: 6\n\n012345".to_owned(),
    ]);
    let mut opened = http().open(&at(address, "x"), want).await.unwrap();
    assert_eq!((opened.offset, rest(&mut opened).await.unwrap()), (0, b"012345".to_vec()));
    let first = requests.recv().unwrap();
    assert!(
        first.contains("range: bytes=5-\r\n") && first.contains("if-range: \"a\"\r\n"),
        "{first}"
    );
    assert!(!requests.recv().unwrap().contains("range:"));
}

#[tokio::test]
async fn answers_are_told_and_sorted() {
    for (answer, kind) in [
        ("404 Not Found", "Refused"),
        ("403 Forbidden", "Refused"),
        ("410 Gone", "Refused"),
        ("503 Service Unavailable", "Busy"),
        ("429 Too Many Requests", "Busy"),
        ("304 Not Modified", "Strange"),
    ] {
        let answer =
            format!("HTTP/1.1 {answer}\nContent-Length: 16\nRetry-After: 7\n\nit has\x1b expired");
        let error = opens(&[&answer], ReadRequest::default()).await.unwrap_err();
        assert!(format!("{error:?}").starts_with(kind), "{error:?}");
        if kind != "Strange" {
            assert!(error.to_string().contains("it has expired"), "{error}");
        }
        if let TransferError::Busy { retry_after, .. } = error {
            assert_eq!(retry_after, Some(std::time::Duration::from_secs(7)));
        }
    }
}

fn leads_to(url: &str) -> String {
    format!("HTTP/1.1 302 Found\nLocation: {url}\nContent-Length: 0\n\n")
}

#[tokio::test]
async fn redirects_are_followed_within_bounds() {
    let server = origin::Origin::start(DigestAnnouncement::Never);
    server.put("there", b"here it is");
    let there = at(server.address(), "there");
    let mut opened = opens(&[&leads_to(there.as_str())], ReadRequest::default()).await.unwrap();
    assert_eq!(rest(&mut opened).await.unwrap(), b"here it is");

    let round = vec![leads_to("/again"); 10];
    let round: Vec<_> = round.iter().map(String::as_str).collect();
    let error = opens(&round, ReadRequest::default()).await.unwrap_err();
    assert!(
        matches!(error, TransferError::Forbidden { rule: "transfer_redirects", .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn redirects_do_not_lead_out_of_http_or_to_users_names() {
    for (to, rule) in [
        ("file:///etc/passwd", "redirect_scheme"),
        ("ftp://127.0.0.1/x", "redirect_scheme"),
        ("http://user:secret@127.0.0.1/x", "credentials"),
    ] {
        match opens(&[&leads_to(to)], ReadRequest::default()).await.unwrap_err() {
            TransferError::Forbidden { address, rule: refused } => {
                assert_eq!(refused, rule);
                assert!(!address.contains("secret"), "{address}");
            }
            error => panic!("{error:?}"),
        }
    }
    let secure = Url::parse("https://example.org/x").unwrap();
    let error = ask::redirected(&secure, "http://example.org/x").unwrap_err();
    assert!(matches!(error, TransferError::Forbidden { rule: "https_downgrade", .. }), "{error:?}");
    assert!(ask::redirected(&secure, "/y").is_ok());
}

#[tokio::test]
async fn no_credentials_are_sent() {
    let (address, requests) = scripted(vec![
        "HTTP/1.1 302 Found\nSet-Cookie: a=b\nLocation: /y\nContent-Length: 0\n\n".to_owned(),
        "HTTP/1.1 401 Unauthorized\nWWW-Authenticate: Basic\nContent-Length: 0\n\n".to_owned(),
    ]);
    let error = http().open(&at(address, "x#part"), ReadRequest::default()).await.unwrap_err();
    assert!(matches!(error, TransferError::Refused { .. }), "{error:?}");
    for path in ["/x", "/y"] {
        let request = requests.recv().unwrap();
        assert!(request.starts_with(&format!("get {path} http/1.1\r\n")), "{request}");
        assert!(!request.contains("cookie") && !request.contains("authorization"), "{request}");
    }
}

#[tokio::test]
async fn a_silent_peer_is_asked_for_its_digest_once() {
    let server = origin::Origin::start(DigestAnnouncement::Never);
    server.put("x", b"x");
    let transport = http();
    for _ in 0..2 {
        let mut opened =
            transport.open(&at(server.address(), "x"), ReadRequest::default()).await.unwrap();
        rest(&mut opened).await.unwrap();
        assert_eq!(opened.body.digest().await.unwrap(), None);
        assert!(transport.0.is_silent(&peer(&at(server.address(), ""))));
    }
}

/// Answers all requests of each connection with the same body; counts connections.
fn patient(body: Vec<u8>, head: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&connections);
    let body = Arc::new(body);
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let (mut stream, body) = (stream.unwrap(), Arc::clone(&body));
            thread::spawn(move || {
                let mut seen = Vec::new();
                let mut byte = [0];
                while stream.read(&mut byte).is_ok_and(|got| got == 1) {
                    seen.push(byte[0]);
                    if seen.ends_with(b"\r\n\r\n") {
                        seen.clear();
                        stream.write_all(head.replace('\n', "\r\n").as_bytes()).unwrap();
                        stream.write_all(&body).unwrap();
                    }
                }
            });
        }
    });
    (address, connections)
}

#[tokio::test]
async fn connections_are_used_again_if_nothing_is_left_on_them() {
    const LEN: usize = 2_000_000;
    for (len, head, connections) in [
        (10, "HTTP/1.1 200 OK\nContent-Length: 10\n\n", 1),
        (LEN, "HTTP/1.1 200 OK\nContent-Length: 2000000\nConnection: keep-alive\n\n", 1),
        (LEN, "HTTP/1.1 200 OK\nContent-Length: 2000000\nConnection: Close\n\n", 3),
        (LEN, "HTTP/1.0 200 OK\nContent-Length: 2000000\n\n", 3),
    ] {
        let data = conformance::bytes(1, len);
        let (address, counted) = patient(data.clone(), head);
        let transport = http();
        for _ in 0..3 {
            let mut opened =
                transport.open(&at(address, "x"), ReadRequest::default()).await.unwrap();
            assert!(rest(&mut opened).await.unwrap() == data, "{head}");
        }
        assert_eq!(counted.load(Ordering::SeqCst), connections, "{head}");
    }
}

#[tokio::test]
async fn more_than_the_length_is_no_part_of_the_body() {
    const LEN: usize = 2_000_000;
    let data = conformance::bytes(1, LEN + 7);
    let head = "HTTP/1.1 200 OK\nContent-Length: 2000000\n\n";
    let (address, _) = patient(data.clone(), head);
    let transport = http();
    for _ in 0..2 {
        let mut opened = transport.open(&at(address, "x"), ReadRequest::default()).await.unwrap();
        assert!(rest(&mut opened).await.unwrap() == data[..LEN]);
    }
}

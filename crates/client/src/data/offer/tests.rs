use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};

use super::*;

/// An answer, all of it.
struct Told {
    status: StatusCode,
    head: HeaderMap,
    body: Vec<u8>,
    trailers: HeaderMap,
}

async fn ask(url: &str, method: &str, headers: &[(&str, &str)]) -> Option<Told> {
    let uri: http::Uri = url.parse().unwrap();
    let stream = TcpStream::connect(uri.authority().unwrap().as_str()).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(uri.path()).header("host", "h");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
    let (parts, body) = sender.send_request(request).await.ok()?.into_parts();
    let body = body.collect().await.ok()?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let body = body.to_bytes().to_vec();
    Some(Told { status: parts.status, head: parts.headers, body, trailers })
}

async fn offering(bytes: &[u8]) -> (tempfile::TempDir, Offer, DataRef) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a mesh?.msh");
    fs::write(&path, bytes).unwrap();
    let offer = Offer::at("127.0.0.1").await.unwrap();
    let reference = offer.add(&path).await.unwrap();
    (dir, offer, reference)
}

fn digest_of(bytes: &[u8]) -> String {
    let mut digesting = digesting::DigestPair::new(None);
    digesting.update(bytes);
    digesting.finish().0.to_string()
}

/// Waits until the digest of an offered file is known.
async fn with_digest(url: &str) -> Told {
    loop {
        let told = ask(url, "HEAD", &[]).await.unwrap();
        if told.head.contains_key("repr-digest") {
            return told;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_whole_a_range_and_the_head_are_told_with_version_and_digest() {
    let (_dir, _offer, reference) = offering(b"0123456789").await;
    let url = &reference.url;
    assert!(url.ends_with("/a%20mesh%3F.msh"), "{url}");
    assert_eq!(reference.len, Some(10));
    let head = with_digest(url).await;
    assert_eq!((head.status.as_u16(), &head.body[..]), (200, &b""[..]));
    assert_eq!(head.head[header::CONTENT_LENGTH], "10");
    assert_eq!(head.head["repr-digest"], digest_of(b"0123456789").as_str());
    let etag = head.head[header::ETAG].to_str().unwrap();
    for (headers, status, body, content_range) in [
        (&[][..], 200, &b"0123456789"[..], None),
        (&[("range", "bytes=3-")], 206, b"3456789", Some("bytes 3-9/10")),
        (&[("range", "bytes=3-4")], 206, b"34", Some("bytes 3-4/10")),
        (&[("range", "bytes=-2")], 206, b"89", Some("bytes 8-9/10")),
        (&[("range", "bytes=3-99"), ("if-range", etag)], 206, b"3456789", Some("bytes 3-9/10")),
        (&[("range", "bytes=3-"), ("if-range", "\"other\"")], 200, b"0123456789", None),
        (&[("range", "bytes=1-2,4-5")], 200, b"0123456789", None),
        (&[("range", "bytes=10-")], 416, b"", Some("bytes */10")),
    ] {
        let told = ask(url, "GET", headers).await.unwrap();
        assert_eq!((told.status.as_u16(), &told.body[..]), (status, body), "{headers:?}");
        let range = told.head.get(header::CONTENT_RANGE).map(|range| range.to_str().unwrap());
        assert_eq!(range, content_range, "{headers:?}");
        // RFC 9110, section 14.2.
        let told = ask(url, "HEAD", headers).await.unwrap();
        assert_eq!((told.status.as_u16(), &told.body[..]), (200, &b""[..]), "{headers:?}");
        assert_eq!(told.head[header::CONTENT_LENGTH], "10");
        assert!(!told.head.contains_key(header::CONTENT_RANGE));
    }
}

#[tokio::test]
async fn a_digest_that_is_not_known_before_is_told_after() {
    let bytes = vec![7; 3_000_000];
    let (_dir, _offer, reference) = offering(&bytes).await;
    let told = ask(&reference.url, "GET", &[("te", "trailers")]).await.unwrap();
    assert!(told.body == bytes);
    let digest = told.head.get("repr-digest").or(told.trailers.get("repr-digest"));
    assert_eq!(digest.unwrap(), digest_of(&bytes).as_str());
}

#[tokio::test]
async fn nothing_else_is_served_and_nothing_after_the_end() {
    let (dir, offer, reference) = offering(b"secret").await;
    let (base, rest) = reference.url.rsplit_once('/').unwrap();
    let (root, secret) = base.rsplit_once('/').unwrap();
    assert_eq!(secret.len(), 64);
    assert!(!rest.contains(secret));
    let other = format!("{}0", &secret[..63]);
    let file = dir.path().display();
    for path in [
        "/".to_owned(),
        format!("/{file}"),
        format!("/../{file}"),
        format!("/{}", &secret[..63]),
        format!("/{other}x/mesh"),
        "/etc/passwd".to_owned(),
    ] {
        let told = ask(&format!("{root}{path}"), "GET", &[]).await.unwrap();
        assert_eq!((told.status.as_u16(), &told.body[..]), (404, &b""[..]), "{path}");
    }
    // What stands after the secret leads nowhere.
    let told = ask(&format!("{base}/../../etc/passwd"), "GET", &[]).await.unwrap();
    assert_eq!(told.body, b"secret");
    assert_eq!(ask(&reference.url, "PUT", &[]).await.unwrap().status.as_u16(), 405);
    drop(offer);
    // The port is closed once the runtime has seen to it.
    while ask(&reference.url, "GET", &[]).await.is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_address_is_the_one_on_the_way_to_the_service_or_as_told() {
    let offer = Offer::towards("http://127.0.0.1:9/service").await.unwrap();
    assert!(offer.base.starts_with("http://127.0.0.1:"), "{}", offer.base);
    let error = Offer::at("nowhere/x").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot offer files at nowhere/x: write HOST or HOST:PORT");
    for (text, expected) in [
        ("h", Some(("h", 0))),
        ("h:81", Some(("h", 81))),
        ("[::1]:81", Some(("::1", 81))),
        ("[::1]", Some(("::1", 0))),
        ("::1", Some(("::1", 0))),
        (":81", None),
        ("h:x", None),
        ("", None),
    ] {
        assert_eq!(split(text), expected, "{text}");
    }
}

#[tokio::test]
async fn a_directory_cannot_be_offered() {
    let offer = Offer::at("127.0.0.1").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let error = offer.add(dir.path()).await.unwrap_err();
    assert!(matches!(error, Error::File { doing: "read", .. }), "{error:?}");
}

//! Connections: what is asked where, answers as they come, `100 Continue`.

use std::io::Read as _;

use flate2::read::GzDecoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::server::{Server, call, read, request, status};

const HOST: &str = "Host: localhost\r\n";

#[tokio::test]
async fn each_path_has_its_methods() {
    let server = Server::start().await;
    for (line, expected) in [
        ("GET /", 200),
        ("HEAD /", 200),
        ("POST /", 405),
        ("GET /matrix", 200),
        ("GET /matrix/", 200),
        ("GET /matrix?wsdl", 200),
        ("GET /matrix?wsdl&view=none", 404),
        ("DELETE /matrix", 405),
        ("GET /session?wsdl", 200),
        ("GET /metrics", 200),
        ("POST /metrics", 405),
        ("GET /nothing", 404),
        ("POST /nothing", 500),
        ("DELETE /nothing", 404),
        ("GET /data", 405),
        ("GET /data/TOKEN/name", 404),
        ("GET /session/TOKEN/name", 404),
        ("PUT /session/TOKEN/name", 405),
    ] {
        let answer = server.ask(&request(line, HOST, "")).await;
        assert_eq!(status(&answer), expected, "{line}: {answer}");
        if expected == 405 {
            assert!(answer.contains("\r\nAllow: "), "{line}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_description_is_compressed_for_who_takes_that() {
    let server = Server::start().await;
    let plain = server.ask(&request("GET /matrix?wsdl", HOST, "")).await;
    let (head, plain) = plain.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("\r\nVary: Accept-Encoding") && !head.contains("Content-Encoding"),
        "{head}"
    );
    let mut stream = server.connect().await;
    let fields = format!("{HOST}Accept-Encoding: gzip, deflate\r\n");
    stream.write_all(request("GET /matrix?wsdl", &fields, "").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]);
    for field in ["Content-Encoding: gzip", "Vary: Accept-Encoding", "Content-Type: text/xml"] {
        assert!(head.contains(field), "{head}");
    }
    let compressed = &answer[end + 4..];
    assert!(compressed.len() < plain.len() / 4, "{} of {} bytes", compressed.len(), plain.len());
    let mut text = String::new();
    GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
    assert_eq!(text, plain);
}

#[tokio::test]
async fn names_of_fields_are_written_as_the_specifications_do() {
    let server = Server::start().await;
    let answer = server.ask(&request("GET /", HOST, "")).await;
    let head = answer.split("\r\n\r\n").next().unwrap();
    for line in head.lines().skip(1) {
        let (name, _) = line.split_once(": ").unwrap();
        let begins = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
        assert!(name.split('-').all(begins), "{line}");
    }
    assert!(head.contains("\r\nContent-Type: text/html"), "{head}");
}

#[tokio::test]
async fn a_sender_who_waits_is_told_to_go_on_if_the_body_is_wanted() {
    let server = Server::start().await;
    let head = |line: &str, fields: &str| {
        format!("{line} HTTP/1.1\r\n{fields}Content-Length: 4\r\nExpect: 100-continue\r\n\r\n")
    };
    let mut stream = server.connect().await;
    stream.write_all(head("PUT /data/a", HOST).as_bytes()).await.unwrap();
    let mut said = [0; 25];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"data").await.unwrap();
    stream.read_exact(&mut said[..12]).await.unwrap();
    assert_eq!(&said[..12], b"HTTP/1.1 201");
    // Who is refused is not asked for what nobody wants.
    for (line, fields, expected) in [
        ("PUT /data/a", "Host: localhost\r\nContent-Range: bytes 0-3/9\r\n", "400"),
        ("PUT /data/a", "Host: evil.example\r\n", "421"),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(head(line, fields).as_bytes()).await.unwrap();
        stream.read_exact(&mut said[..12]).await.unwrap();
        assert_eq!(&said[9..12], expected.as_bytes(), "{line} {fields}");
    }
}

/// A message, after which the connection stays.
fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /matrix HTTP/1.1\r\n{HOST}Content-Type: text/xml\r\nContent-Length: {length}\r\n\r\n\
         {body}"
    )
}

#[tokio::test]
async fn who_sends_more_than_a_request_is_not_reset() {
    let server = Server::start().await;
    let body = call("add", "<t:x>40</t:x><t:y>2</t:y>");
    let fields = format!("{HOST}Content-Type: text/xml\r\n");
    let mut stream = server.connect().await;
    stream.write_all(request("POST /matrix", &fields, &body).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"</soap:Envelope>") {
        answer.push(stream.read_u8().await.unwrap());
    }
    // Some clients end a message with a line of their own (RFC 9112, 2.2). The server has closed its
    // side by now.
    for _ in 0..3 {
        stream.write_all(b"\r\n").await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "the end, and no error");
}

#[tokio::test]
async fn a_large_answer_comes_whole_to_a_slow_reader_and_the_connection_goes_on() {
    // What a function is sent, and gives back, is in memory or in a file.
    let text = "QUJD".repeat(1_000_000);
    for in_memory in [256 << 20, 1 << 10] {
        let server = Server::with(|limits| limits.faces.function_memory = in_memory).await;
        let mut stream = server.connect().await;
        let echo = post(&call("echoFile", &format!("<t:data>{text}</t:data>")));
        stream.write_all(echo.as_bytes()).await.unwrap();
        // It waits for its reader, and others are answered.
        assert_eq!(stream.peek(&mut [0]).await.unwrap(), 1);
        let other = call("add", "<t:x>40</t:x><t:y>2</t:y>");
        let fields = format!("{HOST}Content-Type: text/xml\r\n");
        let other = server.ask(&request("POST /matrix", &fields, &other)).await;
        assert!(status(&other) == 200 && other.contains(">42<"), "{other}");
        stream.write_all(request("GET /metrics", HOST, "").as_bytes()).await.unwrap();
        let both = read(&mut stream).await;
        assert_eq!(status(&both), 200, "{}", &both[..500]);
        let (first, second) = both.split_once("</soap:Envelope>").expect("the first answer's end");
        assert!(first.contains(&text), "{} bytes", first.len());
        assert_eq!(status(second), 200);
    }
}

#[tokio::test]
async fn a_connection_that_was_answered_idles_and_makes_room() {
    let server = Server::with(|limits| {
        limits.faces.max_connections = 16;
        limits.faces.header_timeout = std::time::Duration::from_secs(3600);
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..16 {
        let mut stream = server.connect().await;
        let body = call("add", "<t:x>40</t:x><t:y>2</t:y>");
        stream.write_all(post(&body).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"</soap:Envelope>") {
            answer.push(stream.read_u8().await.unwrap());
        }
        idle.push(stream);
    }
    // Each of them could ask again, and none does.
    for _ in 0..3 {
        let answer = server.ask(&request("GET /", HOST, "")).await;
        assert_eq!(status(&answer), 200, "{answer}");
    }
    assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0, "who idled longest was closed");
}

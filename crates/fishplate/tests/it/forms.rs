//! The forms of an array on the wire: who is answered in which, and how long the answer says it is.

use std::io::{Read, Write};

use crate::server::Server;
use crate::soap::{Version, connect};

/// A call of `getMatrix` by these versions of HTTP, to this address below the service's. Bytes,
/// because an answer need not be text.
fn get_matrix(server: &Server, http: &str, query: &str, header: &str, n: u32) -> (String, Vec<u8>) {
    let body = format!("<getMatrix xmlns=\"urn:fishplate:matrix\"><n>{n}</n></getMatrix>");
    let message = Version::V11.envelope(header, &body);
    let head = format!(
        "POST /matrix{query} HTTP/{http}\r\nHost: localhost\r\nContent-Type: text/xml\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        message.len()
    );
    let mut stream = connect(server);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(message.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_ascii_lowercase();
    assert!(head.contains(" 200 "), "{head}");
    (head, answer.split_off(end + 4))
}

/// The body without the framing of chunks.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let line = body.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = std::str::from_utf8(&body[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return whole;
        }
        let chunk = &body[line + 2..];
        whole.extend_from_slice(&chunk[..size]);
        body = &chunk[size + 2..];
    }
}

fn contains(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn an_answer_of_elements_is_as_long_as_it_says_or_says_nothing() {
    let mut server = Server::prepare();
    server.serve(&["--builtin", "matrix"]);
    let (head, small) = get_matrix(&server, "1.1", "", "", 2);
    assert!(head.contains(&format!("content-length: {}", small.len())), "{head}");
    assert!(contains(&small, "<item><item>0."));

    let (head, large) = get_matrix(&server, "1.1", "", "", 300);
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert!(!head.contains("content-length"), "{head}");
    let large = unchunked(&large);
    let numbers = large.windows(6).filter(|window| *window == b"<item>").count();
    assert_eq!(numbers, 300 + 300 * 300);
    assert!(large.ends_with(b"</soap:Envelope>"));

    // HTTP/1.0 knows no chunks: the end of the connection is the end of the answer.
    let (head, closed) = get_matrix(&server, "1.0", "", "", 300);
    assert!(!head.contains("transfer-encoding") && !head.contains("content-length"), "{head}");
    assert_eq!(closed, large);
}

#[test]
fn the_address_and_the_header_tell_the_form() {
    let mut server = Server::prepare();
    server.serve(&["--builtin", "matrix"]);
    let bytes = " type=\"float\" shape=\"2 2\"";
    let asks = |form: &str| {
        format!("<e:Header><arrays xmlns=\"urn:fishplate:options:1\">{form}</arrays></e:Header>")
    };
    for (query, header, binary) in [
        ("", String::new(), false),
        ("?arrays=elements", String::new(), false),
        ("?arrays=binary", String::new(), true),
        ("", asks("binary"), true),
        ("?arrays=binary", asks("elements"), false),
    ] {
        let (head, body) = get_matrix(&server, "1.1", query, &header, 2);
        assert!(head.contains("content-type: text/xml"), "{head}");
        assert_eq!(contains(&body, bytes), binary, "{query} {header}");
        assert_eq!(contains(&body, "<item>"), !binary, "{query} {header}");
    }
    let (head, body) = get_matrix(&server, "1.1", "?binding=dime", "", 2);
    assert!(head.contains("content-type: application/dime") && contains(&body, bytes), "{head}");
    let (head, body) = get_matrix(&server, "1.1", "?binding=swa", "", 2);
    assert!(head.contains("content-type: multipart/related; type=\"text/xml\""), "{head}");
    assert!(contains(&body, bytes) && contains(&body, ">cid:"), "{head}");
}

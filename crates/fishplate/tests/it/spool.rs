//! What a message leaves in the spool: nothing, however it ends, in each packaging.

use std::io::Write;

use bytes::Bytes;
use fishplate_contract::{Argument, CallOptions, Payload, Value};
use fishplate_wire::{
    BodyStep, OutgoingBody, Packaging, QName, RequestForm, SoapVersion, pack, write_request,
};

use crate::server::{Server, until};
use crate::soap::{Answer, connect, head, post_as};

/// More than is kept in memory, several times.
const SIZE: usize = 3_000_000;

const DESCRIPTION: &str = r#"
name = "test"
namespace = "urn:test"
command = "./program [in file deck:raw] [out file copy:raw] [in val x:int]"
"#;

fn server() -> Server {
    Server::of_file("ln $1 $2", DESCRIPTION)
}

struct Message {
    content_type: String,
    body: Vec<u8>,
}

/// A call with a large file.
fn message(packaging: Packaging, x: &str) -> Message {
    let form = RequestForm {
        wrapper: QName::new("urn:test", "call"),
        qualified: true,
        version: SoapVersion::V11,
        options: CallOptions::default(),
        arrays: None,
        items: Vec::new(),
    };
    let bytes: Vec<u8> = (0..SIZE).map(|n| u8::try_from(n * 7 % 251).unwrap_or_default()).collect();
    let deck = Value::Data(Payload::Inline(Bytes::from(bytes)));
    let arguments = [Argument::new("deck", deck), Argument::text("x", x)];
    let packed = pack(&write_request(&form, &arguments).unwrap(), packaging, Some("call"));
    let mut outgoing = OutgoingBody::new(packed.segments, SIZE);
    let mut body = Vec::new();
    while let Some(step) = outgoing.step() {
        let BodyStep::Send(bytes) = step else { panic!("a message from memory has no file") };
        body.extend_from_slice(&bytes);
    }
    Message { content_type: packed.content_type.into_owned(), body }
}

fn send(server: &Server, message: &Message) -> Answer {
    post_as(server, &message.content_type, "", &message.body)
}

/// Files and directories that are left of messages and jobs.
fn left(server: &Server) -> usize {
    let entries = |path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let spools = entries(server.path("data/spool"));
    let spooled: usize = spools.map(|spool| entries(spool.path()).count()).sum();
    spooled + entries(server.path("data/jobs")).count()
}

/// Sends half of a message, until the server has spooled some of it.
fn send_half(server: &Server, message: &Message) -> std::net::TcpStream {
    let mut stream = connect(server);
    let length = format!("Content-Length: {}\r\n", message.body.len());
    stream.write_all(head(&message.content_type, &length).as_bytes()).unwrap();
    stream.write_all(&message.body[..message.body.len() / 2]).unwrap();
    until("half a message is in the spool", || left(server) == 1);
    stream
}

#[test]
fn nothing_is_left_after_success_and_after_a_refusal() {
    let server = server();
    for &packaging in Packaging::ALL {
        let name = packaging.name();
        assert_eq!(send_and_status(&server, packaging, "1"), 200, "{name}");
        until(&format!("nothing is left of a call in {name}"), || left(&server) == 0);
        // The file is in the spool before it is known that the call is wrong.
        let refused = send(&server, &message(packaging, "one"));
        assert_eq!(refused.status, 500, "{name}");
        assert!(refused.body.contains("InvalidValue"), "{name}: {refused:#?}");
        until(&format!("nothing is left of a refused call in {name}"), || left(&server) == 0);
    }
}

/// The status alone: the answer holds bytes that are no text.
fn send_and_status(server: &Server, packaging: Packaging, x: &str) -> u16 {
    use std::io::Read;
    let message = message(packaging, x);
    let mut stream = connect(server);
    let length = format!("Content-Length: {}\r\n", message.body.len());
    stream.write_all(head(&message.content_type, &length).as_bytes()).unwrap();
    stream.write_all(&message.body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > SIZE, "{}: {} bytes", packaging.name(), answer.len());
    std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap()
}

#[test]
fn nothing_is_left_of_a_sender_who_is_gone() {
    let server = server();
    for &packaging in Packaging::ALL {
        drop(send_half(&server, &message(packaging, "1")));
        let what = format!("nothing is left of half a message in {}", packaging.name());
        until(&what, || left(&server) == 0);
        assert_eq!(send_and_status(&server, packaging, "1"), 200);
        until("nothing is left of a whole one", || left(&server) == 0);
    }
}

#[test]
fn nothing_is_left_when_a_killed_server_is_started_again() {
    let mut server = server();
    for &packaging in Packaging::ALL {
        let _half = send_half(&server, &message(packaging, "1"));
        server.kill();
        assert_eq!(left(&server), 1, "{}: what was spooled is still there", packaging.name());
        server.restart();
        let what = format!("nothing is left of a killed server in {}", packaging.name());
        until(&what, || left(&server) == 0);
    }
}

//! Streams of unknown length between a connection and a function: what breaks off is an error on the
//! other side, whichever side breaks.

use std::io::{Read as _, Write as _};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use fishplate_contract::{Argument, ByteStream, CallOptions, Fault, FaultCode, Payload, Value};
use fishplate_jobs::function::FunctionEntry;
use fishplate_jobs::function::{Context, Functions, PayloadReader};
use fishplate_wire::{
    BodyStep, OutgoingBody, Packaging, QName, RequestForm, SoapVersion, pack, write_request,
};

use crate::bed::{PATIENCE, Server, Setup, envelope, until};

const SIZE: usize = 3_000_000;

/// What a function tells of how it ended.
type Told = Result<usize, String>;

fn content() -> Vec<u8> {
    (0..SIZE).map(|n| u8::try_from(n * 7 % 251).unwrap_or_default()).collect()
}

/// A service of functions that read and give streams, and what they tell.
fn serve() -> (Server, Receiver<Told>) {
    let (tell, told) = channel();
    let telling = |tell: &Sender<Told>| Mutex::new(tell.clone());
    let (taker, giver) = (telling(&tell), telling(&tell));
    let take = move |mut data: PayloadReader| {
        let mut read = Vec::new();
        let outcome = data.read_to_end(&mut read).map_err(|error| error.to_string());
        taker.lock().unwrap().send(outcome).unwrap();
        i64::try_from(read.len()).map_err(|_| Fault::new(FaultCode::Internal, "too many"))
    };
    let endless = move |context: &Context| {
        let tell = giver.lock().unwrap().clone();
        context.stream(move |to| {
            let ended = (0..usize::MAX).try_for_each(|_| to.push(Bytes::from_static(&[7; 50_000])));
            tell.send(Err(format!("{ended:?}"))).unwrap();
            Ok(())
        })
    };
    let functions = Functions::new("streams", "urn:fishplate:streams")
        // It waits for its caller, who must not hold up a thread of the runtime.
        .with(FunctionEntry::new("take", ["data"], ["length"], take).quick())
        .with(FunctionEntry::with_context("endless", [], ["data"], endless))
        .with(FunctionEntry::with_context("broken", ["n"], ["data"], broken))
        .with(FunctionEntry::with_context("echo", ["data"], ["data"], echo));
    (Setup::new().with_functions(functions).serve(), told)
}

/// Some bytes, and then a fault.
fn broken(context: &Context, n: i32) -> Result<ByteStream, Fault> {
    let bytes = vec![7; usize::try_from(n).unwrap_or_default()];
    context.stream(move |to| {
        to.push(bytes.into())?;
        Err(Fault::new(FaultCode::ProgramFailed, "it does not go on"))
    })
}

fn echo(context: &Context, mut data: PayloadReader) -> Result<ByteStream, Fault> {
    context.stream(move |to| {
        while let Some(chunk) = data.chunk()? {
            to.push(chunk)?;
        }
        Ok(())
    })
}

/// A call with a file: its content type and its body.
fn message(packaging: Packaging, operation: &str) -> (String, Vec<u8>) {
    message_of(packaging, operation, content())
}

fn message_of(packaging: Packaging, operation: &str, content: Vec<u8>) -> (String, Vec<u8>) {
    let form = RequestForm {
        wrapper: QName::new("urn:fishplate:streams", operation),
        qualified: true,
        version: SoapVersion::V11,
        options: CallOptions::default(),
        arrays: None,
        items: Vec::new(),
    };
    let data = Value::Data(Payload::Inline(content.into()));
    let envelope = write_request(&form, &[Argument::new("data", data)]).unwrap();
    let packed = pack(&envelope, packaging, Some(""));
    let mut outgoing = OutgoingBody::new(packed.segments, SIZE);
    let mut body = Vec::new();
    while let Some(step) = outgoing.step() {
        let BodyStep::Send(bytes) = step else { panic!("a message from memory") };
        body.extend_from_slice(&bytes);
    }
    (packed.content_type.into_owned(), body)
}

/// The head of a call whose body comes in chunks.
fn head(server: &Server, content_type: &str) -> String {
    format!(
        "POST /streams HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\
         Content-Type: {content_type}\r\nAccept: {content_type}\r\n\r\n",
        server.address
    )
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn next(told: &Receiver<Told>) -> Told {
    told.recv_timeout(PATIENCE).expect("the function tells how it ended")
}

#[test]
fn a_function_reads_a_file_while_it_arrives() {
    let (server, told) = serve();
    for &packaging in Packaging::ALL {
        let (content_type, body) = message(packaging, "take");
        let mut connection = server.connect();
        connection.send(head(&server, &content_type).as_bytes());
        for part in body.chunks(100_001) {
            connection.send(&chunk(part));
        }
        connection.send(b"0\r\n\r\n");
        let answer = connection.answer();
        assert_eq!(next(&told), Ok(SIZE), "{packaging:?}");
        assert!(String::from_utf8_lossy(&answer.body).contains("3000000"), "{packaging:?}");
        assert_eq!(server.names("spool").len(), 1, "nothing but the directory of this process");
    }
}

#[test]
fn a_sender_that_dies_is_an_error_to_the_function_and_never_the_end() {
    let (server, told) = serve();
    let mut places = 88_172_645_463_325_252_u64;
    for &packaging in Packaging::ALL {
        let (content_type, body) = message(packaging, "take");
        for _ in 0..8 {
            places ^= places << 13;
            places ^= places >> 7;
            places ^= places << 17;
            // Enough that the function has been called.
            let at = 200_000 + usize::try_from(places).unwrap() % (body.len() - 200_000);
            let mut connection = server.connect();
            connection.send(head(&server, &content_type).as_bytes());
            connection.send(&chunk(&body[..at]));
            drop(connection);
            let ended = next(&told).unwrap_err();
            assert!(ended.contains("MalformedMessage"), "{packaging:?} {at}: {ended}");
        }
        // HTTP says that it is whole, and the message is not.
        let mut connection = server.connect();
        connection.send(head(&server, &content_type).as_bytes());
        connection.send(&chunk(&body[..body.len() - 20]));
        connection.send(b"0\r\n\r\n");
        assert!(next(&told).unwrap_err().contains("MalformedMessage"), "{packaging:?}");
    }
}

#[test]
fn a_function_that_faults_in_the_middle_breaks_the_answer_off() {
    let (server, _told) = serve();
    for &packaging in Packaging::ALL {
        for n in [0, 10, 500_000] {
            let envelope = envelope("streams", "broken", &format!("<n>{n}</n>"));
            let fields = format!("Content-Type: text/xml\r\nAccept: {}\r\n", packaging.accept());
            let mut connection = server.connect();
            connection.send(&server.request("POST", "/streams", &fields, envelope.as_bytes()));
            let answer = connection.answer_to("POST");
            assert!(answer.is_err(), "{packaging:?} {n}: {answer:?}");
        }
    }
}

#[test]
fn a_function_whose_caller_has_gone_is_told() {
    let (server, told) = serve();
    for &packaging in Packaging::ALL {
        let envelope = envelope("streams", "endless", "");
        let fields = format!("Content-Type: text/xml\r\nAccept: {}\r\n", packaging.accept());
        let mut connection = server.connect();
        connection.send(&server.request("POST", "/streams", &fields, envelope.as_bytes()));
        connection.read(1_000_000);
        drop(connection);
        assert!(next(&told).unwrap_err().contains("Closed"), "{packaging:?}");
    }
}

#[test]
fn what_is_made_of_a_file_is_sent_before_all_of_the_file_has_come() {
    let (server, _told) = serve();
    for &packaging in Packaging::ALL {
        let (content_type, body) = message(packaging, "echo");
        let mut connection = server.connect();
        connection.send(head(&server, &content_type).as_bytes());
        let (first, rest) = body.split_at(body.len() / 2);
        let mut sending = connection.writer();
        let rest = rest.to_vec();
        let (go, gate) = channel();
        let first = chunk(first);
        let sender = std::thread::spawn(move || {
            sending.write_all(&first).unwrap();
            gate.recv().unwrap();
            sending.write_all(&chunk(&rest)).unwrap();
            sending.write_all(b"0\r\n\r\n").unwrap();
        });
        let mut seen = connection.read(500_000);
        go.send(()).unwrap();
        seen.extend(connection.read(usize::MAX));
        sender.join().unwrap();
        let text = String::from_utf8_lossy(&seen);
        assert!(text.starts_with("HTTP/1.1 200"), "{packaging:?}: {}", &text[..200]);
        assert!(text.ends_with("0\r\n\r\n"), "{packaging:?}: it has ended");
    }
}

#[test]
fn what_stands_behind_a_file_that_is_being_read_is_spooled() {
    let (server, told) = serve();
    let (content_type, body) = message(Packaging::Mtom, "take");
    let mut connection = server.connect();
    connection.send(head(&server, &content_type).as_bytes());
    // A part that nobody refers to, before the boundary that ends the message.
    let end = body.windows(4).rposition(|at| at == b"\r\n--").unwrap();
    connection.send(&chunk(&body[..end]));
    let boundary = &body[end..body.len() - 4];
    connection.send(&chunk(&[boundary, b"\r\nContent-ID: <more>\r\n\r\n", &content()].concat()));
    let spool = format!("spool/{}", server.names("spool")[0]);
    until("the part is in the spool", || !server.names(&spool).is_empty());
    connection.send(&chunk(&body[end..]));
    connection.send(b"0\r\n\r\n");
    assert_eq!(connection.answer().status, 200);
    assert_eq!(next(&told), Ok(SIZE));
}

/// More than the system's buffers of a connection and our own take together.
const LARGE: usize = 40 << 20;

#[test]
fn who_reads_the_answer_only_after_sending_all_of_the_file_gets_it() {
    let (server, _told) = serve();
    for packaging in [Packaging::Plain, Packaging::Mtom] {
        let large: Vec<u8> = content().into_iter().cycle().take(LARGE).collect();
        let (content_type, body) = message_of(packaging, "echo", large);
        let mut connection = server.connect();
        connection.writer().set_write_timeout(Some(PATIENCE)).unwrap();
        connection.send(head(&server, &content_type).as_bytes());
        for part in body.chunks(1 << 20) {
            connection.send(&chunk(part));
        }
        connection.send(b"0\r\n\r\n");
        let answer = connection.answer();
        assert_eq!(answer.status, 200, "{packaging:?}");
        let file = if packaging == Packaging::Plain { element_text } else { second_part };
        assert!(file(&answer.body) == file(&body), "{packaging:?}: another file came back");
    }
    assert!(server.names("spool").iter().all(|of| server.names(&format!("spool/{of}")).is_empty()));
}

/// The text of the element `data`.
fn element_text(message: &[u8]) -> &[u8] {
    let text = std::str::from_utf8(message).unwrap();
    let from = text.find("data>").unwrap() + "data>".len();
    text[from..].split('<').next().unwrap().as_bytes()
}

/// The file in the second part.
fn second_part(message: &[u8]) -> &[u8] {
    let ends = message.windows(4).enumerate().filter(|(_, at)| at == b"\r\n\r\n");
    let from = ends.map(|(at, _)| at + 4).nth(1).unwrap();
    &message[from..from + LARGE]
}

#[test]
fn a_peer_of_http_1_0_gets_a_stream_until_the_connection_closes() {
    let (server, _told) = serve();
    let (content_type, body) = message(Packaging::Plain, "echo");
    let mut connection = server.connect();
    let head = format!(
        "POST /streams HTTP/1.0\r\nContent-Length: {}\r\nContent-Type: {content_type}\r\n\r\n",
        body.len()
    );
    let mut sending = connection.writer();
    let sender = std::thread::spawn(move || {
        sending.write_all(head.as_bytes()).unwrap();
        sending.write_all(&body).unwrap();
    });
    let answer = connection.read(usize::MAX);
    sender.join().unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(!text.to_ascii_lowercase().contains("transfer-encoding"), "{}", &text[..200]);
    assert!(text.ends_with("Envelope>"));
    until("the connection is forgotten", || {
        server.get("/metrics").text().contains("\nfishplate_connections 1\n")
    });
}

//! How fast payloads pass: `cargo run --release -p fishplate-wire --example throughput`.
//! Each figure is the best of five runs over 256 MiB in memory, in chunks of 256 KiB; the copy of
//! memory beside it is the physical limit. Arrays are a million numbers, best of nine; parts of
//! their names as arguments run only those.

#![expect(clippy::print_stdout, reason = "an example prints its figures")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fishplate_contract::{
    Argument, Array, DataType, ElementType, FileHandle, Parameter, Payload, Signature, Value, Verb,
    VerbDefinition,
};
use fishplate_wire::{
    ArrayForm, Base64Encoder, BodyStep, ExpectedTable, MessageHead, OutgoingBody, Packaging, QName,
    ReplyForm, SpoolSink, Unpacker, WireLimits, bind_reply, pack, write_reply,
};

const SIZE: usize = 256 << 20;
const CHUNK: usize = 256 << 10;

#[derive(Debug)]
struct Nowhere;

impl FileHandle for Nowhere {
    fn path(&self) -> &Path {
        Path::new("")
    }

    fn len(&self) -> u64 {
        0
    }

    fn keep(&self) {}
}

#[derive(Default)]
struct Counting {
    bytes: u64,
}

impl SpoolSink for Counting {
    fn create(&mut self) -> Arc<dyn FileHandle> {
        Arc::new(Nowhere)
    }

    fn write(&mut self, _to: &Arc<dyn FileHandle>, data: Bytes) {
        self.bytes += data.len() as u64;
    }
}

fn best(what: &str, bytes: usize, mut run: impl FnMut()) {
    let seconds = (0..5).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    let seconds = seconds.fold(f64::INFINITY, f64::min);
    println!("{what:<40} {:8.2} GB/s", bytes as f64 / seconds / 1e9);
}

fn unpack(content_type: &str, message: &Bytes) -> u64 {
    let wrapper = QName::new("urn:t", "call");
    let expected = ExpectedTable::response(wrapper, &[Parameter::new("data", DataType::Raw)]);
    let head = MessageHead { content_type, ..MessageHead::default() };
    let mut sink = Counting::default();
    let go = || {
        let mut unpacker = Unpacker::new(&head, Box::new(expected), &WireLimits::default())?;
        let mut rest = message.clone();
        while !rest.is_empty() {
            unpacker.feed(rest.split_to(CHUNK.min(rest.len())), &mut sink)?;
        }
        unpacker.finish(&mut sink)
    };
    go().expect("a good message");
    sink.bytes
}

fn envelope(data: &str) -> String {
    format!(
        "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>\
         <call xmlns=\"urn:t\"><data>{data}</data></call></e:Body></e:Envelope>"
    )
}

fn attachment(what: &str, content_type: &str, message: &Bytes) {
    best(what, SIZE, || assert_eq!(unpack(content_type, message), SIZE as u64));
}

/// A DIME message of an envelope and a payload with the ID `a`, in chunks of that size.
fn dime(envelope: &str, payload: &[u8], chunk: usize) -> Bytes {
    let mut message = Vec::with_capacity(payload.len() + payload.len() / 1000 + 4096);
    let mut record = |flags: u8, type_format: u8, id: &str, kind: &str, data: &[u8]| {
        let len = |text: &str| u8::try_from(text.len()).expect("short");
        message.extend_from_slice(&[flags, type_format << 4, 0, 0, 0, len(id), 0, len(kind)]);
        message.extend_from_slice(&u32::try_from(data.len()).expect("short").to_be_bytes());
        for field in [id.as_bytes(), kind.as_bytes(), data] {
            message.extend_from_slice(field);
            message.resize(message.len().next_multiple_of(4), 0);
        }
    };
    let soap = "http://schemas.xmlsoap.org/soap/envelope/";
    record(0x0C, 2, "", soap, envelope.as_bytes());
    let last = payload.len().div_ceil(chunk) - 1;
    for (at, data) in payload.chunks(chunk).enumerate() {
        let (type_format, id) = if at == 0 { (1, "a") } else { (0, "") };
        record(if at == last { 0x0A } else { 0x09 }, type_format, id, "", data);
    }
    message.into()
}

/// A matrix of so many rows and columns: numbers of 9 or 10 characters.
fn matrix(rows: u64, columns: u64) -> Array {
    let mut state = 1u32;
    let numbers = (0..rows * columns).flat_map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state as f32 / u32::MAX as f32).to_le_bytes()
    });
    let bytes: Vec<u8> = numbers.collect();
    let pieces = bytes.chunks(64 << 10).map(Bytes::copy_from_slice).collect();
    Array { element: ElementType::Float, shape: vec![rows, columns], data: Payload::Pieces(pieces) }
}

/// The answer that holds it, in chunks; their length.
fn write_matrix(array: &Array, arrays: ArrayForm, take: &mut dyn FnMut(Bytes)) {
    let head = MessageHead { content_type: "text/xml", ..MessageHead::default() };
    let form = ReplyForm { arrays: Some(arrays), ..ReplyForm::of_head(&head) };
    let definition = VerbDefinition {
        name: "get".to_owned(),
        verb: Verb::Call,
        operation: "get".to_owned(),
        documentation: String::new(),
        signature: Signature::default(),
    };
    let outputs = [Argument::new("data", Value::Array(array.clone()))];
    let packed =
        pack(&write_reply(&form, "urn:t", &definition, &outputs, None), Packaging::Plain, None);
    let mut outgoing = OutgoingBody::new(packed.segments, CHUNK);
    while let Some(BodyStep::Send(bytes)) = outgoing.step() {
        take(bytes);
    }
}

fn read_matrix(message: &Bytes, chunk: usize) -> Vec<Argument> {
    let of = DataType::from_name("float[][]").expect("a type");
    let outputs = [Parameter::new("data", of)];
    let expected = ExpectedTable::response(QName::new("urn:t", "getResponse"), &outputs);
    let head = MessageHead { content_type: "text/xml", ..MessageHead::default() };
    let limits = WireLimits { inline_size: SIZE, inline_total: SIZE, ..WireLimits::default() };
    let mut sink = Counting::default();
    let mut go = || {
        let mut unpacker = Unpacker::new(&head, Box::new(expected.clone()), &limits)?;
        let mut rest = message.clone();
        while !rest.is_empty() {
            unpacker.feed(rest.split_to(chunk.min(rest.len())), &mut sink)?;
        }
        bind_reply(unpacker.finish(&mut sink)?, &outputs)
    };
    go().expect("a good message").outputs
}

/// What is the least: the numbers alone, printed by zmij, and found by memchr and parsed by
/// fast-float2.
fn alone() {
    let array = matrix(1000, 1000);
    let bytes = array.data.pieces().unwrap_or_default().concat();
    let mut text = Vec::new();
    write_matrix(&array, ArrayForm::Elements, &mut |bytes| text.extend_from_slice(&bytes));
    fastest("float printing alone", text.len(), || {
        let mut buffer = zmij::Buffer::new();
        for number in bytes.as_chunks().0 {
            std::hint::black_box(buffer.format_finite(f32::from_le_bytes(*number)));
        }
    });
    fastest("float parsing alone", text.len(), || {
        let mut rest = &text[..];
        while let Some(end) = memchr::memchr(b'>', rest) {
            rest = &rest[end + 1..];
            let next = memchr::memchr(b'<', rest).unwrap_or(0);
            if next > 0 {
                let number = fast_float2::parse::<f32, _>(&rest[..next]).unwrap_or_default();
                std::hint::black_box(number);
            }
            rest = &rest[next..];
        }
    });
}

/// An array of a million numbers, in milliseconds.
fn arrays() {
    alone();
    for (rows, columns) in [(1000, 1000), (333_333, 3)] {
        let array = matrix(rows, columns);
        let shape = format!("{rows} x {columns}");
        for form in ArrayForm::ALL {
            let mut message = Vec::new();
            write_matrix(&array, form, &mut |bytes| message.extend_from_slice(&bytes));
            let message = Bytes::from(message);
            let what = format!("float {shape} as {}", form.name());
            fastest(&format!("{what}, out"), message.len(), || {
                write_matrix(&array, form, &mut |bytes| {
                    std::hint::black_box(bytes);
                });
            });
            for chunk in [64 << 10, 400 << 10] {
                fastest(&format!("{what}, in by {} KiB", chunk >> 10), message.len(), || {
                    std::hint::black_box(read_matrix(&message, chunk));
                });
            }
        }
    }
}

/// Names of measurements, or parts of them, may be given; then only those are run.
fn is_wanted(what: &str) -> bool {
    let mut wanted = std::env::args().skip(1).peekable();
    wanted.peek().is_none() || wanted.any(|part| what.contains(&part))
}

fn fastest(what: &str, bytes: usize, mut run: impl FnMut()) {
    if !is_wanted(what) {
        return;
    }
    let seconds = (0..9).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    let seconds = seconds.fold(f64::INFINITY, f64::min);
    println!("{what:<48} {:8.2} ms {:8.2} GB/s", seconds * 1e3, bytes as f64 / seconds / 1e9);
}

fn main() {
    arrays();
    if std::env::args().len() > 1 {
        return;
    }
    let payload: Vec<u8> =
        (0..SIZE).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
    let mut copy = vec![0u8; SIZE];
    best("copy of memory", SIZE, || {
        copy.copy_from_slice(&payload);
        std::hint::black_box(&mut copy);
    });
    drop(copy);

    let include = "<i:Include xmlns:i=\"http://www.w3.org/2004/08/xop/include\" href=\"cid:a\"/>";
    let related = |root: &str| {
        let head = format!("--b\r\n\r\n{}\r\n--b\r\nContent-ID: <a>\r\n\r\n", envelope(root));
        Bytes::from([head.as_bytes(), &payload, b"\r\n--b--"].concat())
    };
    let boundary = "multipart/related; boundary=b";
    attachment("MTOM attachment in", boundary, &related(include));
    let swa = format!("{boundary}; type=\"text/xml\"");
    attachment("SwA attachment in", &swa, &related("cid:a"));
    attachment("DIME attachment in", "application/dime", &dime(&envelope("cid:a"), &payload, SIZE));
    let chunked = dime(&envelope("cid:a"), &payload, 64 << 10);
    attachment("DIME attachment in, chunks of 64 KiB", "application/dime", &chunked);
    drop(chunked);

    let mut text = Vec::new();
    best("base64 out", SIZE, || {
        let mut encoder = Base64Encoder::default();
        for chunk in payload.chunks(CHUNK) {
            text.clear();
            encoder.encode(chunk, &mut text);
        }
        encoder.finish(&mut text);
    });
    text.clear();
    let mut encoder = Base64Encoder::default();
    encoder.encode(&payload, &mut text);
    encoder.finish(&mut text);
    let text = String::from_utf8(text).expect("base64 is ASCII");
    let message = Bytes::from(envelope(&text));
    best("base64 in, one line (of text)", text.len(), || {
        assert_eq!(unpack("text/xml", &message), SIZE as u64);
    });
    drop(message);
    for (what, end) in
        [("base64 in, lines of 76 (LF)", "\n"), ("base64 in, lines of 76 (CRLF)", "\r\n")]
    {
        let mut lines = String::with_capacity(text.len() + text.len() / 30);
        for line in text.as_bytes().chunks(76) {
            lines.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
            lines.push_str(end);
        }
        let message = Bytes::from(envelope(&lines));
        best(what, lines.len(), || assert_eq!(unpack("text/xml", &message), SIZE as u64));
    }
}

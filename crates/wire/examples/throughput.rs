//! How fast payloads pass: `cargo run --release -p fishplate-wire --example throughput`.
//! Each figure is the best of five runs over 256 MiB in memory, in chunks of 256 KiB; the copy of
//! memory beside it is the physical limit.

#![expect(clippy::print_stdout, reason = "an example prints its figures")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fishplate_contract::{DataType, Held, Parameter};
use fishplate_wire::{Base64Encoder, Expected, Head, QName, SpoolSink, Unpacker, WireLimits};

const SIZE: usize = 256 << 20;
const CHUNK: usize = 256 << 10;

#[derive(Debug)]
struct Nowhere;

impl Held for Nowhere {
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
    fn create(&mut self) -> Arc<dyn Held> {
        Arc::new(Nowhere)
    }

    fn write(&mut self, _to: &Arc<dyn Held>, data: Bytes) {
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
    let expected = Expected::response(wrapper, &[Parameter::new("data", DataType::Raw)]);
    let head = Head { content_type, ..Head::default() };
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

fn main() {
    let payload: Vec<u8> =
        (0..SIZE).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
    let mut copy = vec![0u8; SIZE];
    best("copy of memory", SIZE, || {
        copy.copy_from_slice(&payload);
        std::hint::black_box(&mut copy);
    });
    drop(copy);

    let include = "<i:Include xmlns:i=\"http://www.w3.org/2004/08/xop/include\" href=\"cid:a\"/>";
    let mut mtom = format!("--b\r\n\r\n{}\r\n--b\r\nContent-ID: <a>\r\n\r\n", envelope(include));
    let mut message = std::mem::take(&mut mtom).into_bytes();
    message.extend_from_slice(&payload);
    message.extend_from_slice(b"\r\n--b--");
    let message = Bytes::from(message);
    best("MTOM attachment in", SIZE, || {
        assert_eq!(unpack("multipart/related; boundary=b", &message), SIZE as u64);
    });
    drop(message);

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

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode, FileHandle, Payload};

use super::*;
use crate::envelope::SoapVersion;
use crate::limits::WireLimits;
use crate::name::{SOAP_11, SOAP_12};
use crate::outgoing::Segment;
use crate::pack::{PackedMessage, SegmentBuilder};
use crate::packaging::{PackagingReader, PackagingWriter, ReadEvent};

const MB: u8 = 0x04;
const ME: u8 = 0x02;
const CF: u8 = 0x01;

/// A record as a stranger writes it.
#[derive(Clone, Copy)]
struct Record<'a> {
    flags: u8,
    type_format: u8,
    options: &'a [u8],
    id: &'a str,
    kind: &'a str,
    data: &'a [u8],
}

const RECORD: Record<'_> = Record {
    flags: 0,
    type_format: MEDIA_TYPE,
    options: b"",
    id: "",
    kind: "application/octet-stream",
    data: b"",
};

const ROOT: Record<'_> =
    Record { flags: MB, type_format: ABSOLUTE_URI, kind: SOAP_11, data: b"<root/>", ..RECORD };

const CHUNK: Record<'_> = Record { type_format: UNCHANGED, kind: "", ..RECORD };

impl Record<'_> {
    fn bytes(&self) -> Vec<u8> {
        let two = |len: usize| u16::try_from(len).unwrap().to_be_bytes();
        let mut bytes = vec![VERSION << 3 | self.flags, self.type_format << 4];
        bytes.extend(two(self.options.len()));
        bytes.extend(two(self.id.len()));
        bytes.extend(two(self.kind.len()));
        bytes.extend(u32::try_from(self.data.len()).unwrap().to_be_bytes());
        for field in [self.options, self.id.as_bytes(), self.kind.as_bytes(), self.data] {
            bytes.extend_from_slice(field);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }
}

fn message(records: &[Record<'_>]) -> Vec<u8> {
    records.iter().flat_map(Record::bytes).collect()
}

/// Payloads as (names, content); the root's only name is `root`.
type Payloads = Vec<(Vec<String>, Vec<u8>)>;

fn read_within(message: &[u8], size: usize, limits: &WireLimits) -> Result<Payloads, Fault> {
    let mut reader = DimeReader::new(limits);
    let mut payloads: Payloads = Vec::new();
    let mut open = false;
    let mut found = |piece: ReadEvent| {
        match piece {
            ReadEvent::RootStart { .. } => {
                assert!(!std::mem::replace(&mut open, true) && payloads.is_empty());
                payloads.push((vec!["root".to_owned()], Vec::new()));
            }
            ReadEvent::PartStart { names } => {
                assert!(!std::mem::replace(&mut open, true) && !payloads.is_empty());
                payloads.push((names, Vec::new()));
            }
            ReadEvent::Root(data) | ReadEvent::Part(data) => {
                assert!(open && !data.is_empty());
                payloads.last_mut().unwrap().1.extend_from_slice(&data);
            }
            ReadEvent::RootEnd | ReadEvent::PartEnd => assert!(std::mem::replace(&mut open, false)),
        }
        Ok(())
    };
    for chunk in message.chunks(size) {
        reader.feed(Bytes::copy_from_slice(chunk), &mut found)?;
    }
    reader.finish(&mut found)?;
    assert!(!open);
    Ok(payloads)
}

/// Reads it whole and byte by byte, which must agree.
fn read(message: &[u8]) -> Result<Payloads, Fault> {
    let whole = read_within(message, usize::MAX, &WireLimits::default());
    assert_eq!(read_within(message, 1, &WireLimits::default()), whole);
    whole
}

fn refused(message: &[u8]) -> Fault {
    let fault = read(message).unwrap_err();
    assert_eq!(fault.code, FaultCode::MalformedMessage, "{fault:?}");
    fault
}

fn payload(names: &[&str], content: &[u8]) -> (Vec<String>, Vec<u8>) {
    (names.iter().map(|name| (*name).to_owned()).collect(), content.to_vec())
}

#[test]
fn a_header_is_twelve_bytes() {
    let header = RecordHeader {
        version: 1,
        begins: true,
        ends: false,
        chunked: true,
        type_format: 2,
        options: 0x0102,
        id: 0x0304,
        kind: 0x0506,
        data: 0x0708_090A,
    };
    let bytes = header.write();
    assert_eq!(bytes, [0b0000_1101, 0x20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(RecordHeader::read(&bytes), header);
    assert_eq!([0, 1, 2, 3, 4, u32::MAX].map(padding), [0, 3, 2, 1, 0, 1]);
}

#[test]
fn payloads_are_named_by_their_ids_and_joined_from_chunks() {
    let message = message(&[
        Record { flags: MB | CF, data: b"<ro", id: "root-id", ..ROOT },
        Record { data: b"ot/>", ..CHUNK },
        Record { id: "uuid:1", options: b"\0\x01\0\x02ab", data: b"one", ..RECORD },
        Record { id: "cid:2", kind: "", data: b"", ..RECORD },
        Record { flags: CF, id: "3", data: b"", ..RECORD },
        Record { flags: CF, data: b"th", ..CHUNK },
        Record { flags: CF, data: b"", ..CHUNK },
        Record { data: b"ree", ..CHUNK },
        Record { type_format: NONE, kind: "", ..RECORD },
        Record { flags: ME, type_format: 3, kind: "", id: "4", data: b"four", ..RECORD },
    ]);
    let expected = vec![
        payload(&["root"], b"<root/>"),
        payload(&["uuid:1", "cid:uuid:1"], b"one"),
        payload(&["2", "cid:2"], b""),
        payload(&["3", "cid:3"], b"three"),
        payload(&[], b""),
        payload(&["4", "cid:4"], b"four"),
    ];
    for size in 1..message.len() {
        let payloads = read_within(&message, size, &WireLimits::default()).unwrap();
        assert_eq!(payloads, expected, "{size}");
    }
}

#[test]
fn the_last_record_need_not_be_padded() {
    let whole = message(&[ROOT, Record { flags: ME, id: "a", data: b"12345", ..RECORD }]);
    for missing in 0..=3 {
        let payloads = read(&whole[..whole.len() - missing]).unwrap();
        assert_eq!(payloads[1].1, b"12345");
    }
    assert!(refused(&whole[..whole.len() - 4]).message.contains("within a DIME record"));
}

#[test]
fn a_message_cut_short_or_too_long_is_refused() {
    let whole = message(&[ROOT, Record { flags: ME, id: "a", data: b"1234", ..RECORD }]);
    assert!(read(&whole).is_ok());
    for end in 0..whole.len() {
        refused(&whole[..end]);
    }
    assert!(refused(b"").message.contains("no DIME record"));
    assert!(refused(&message(&[ROOT])).message.contains("flag ME"));
    for rest in [&b"\0"[..], b"\r\n", &whole] {
        assert!(refused(&[&whole, rest].concat()).message.contains("bytes follow"));
    }
}

#[test]
fn flags_and_types_stand_where_they_may() {
    let only = Record { flags: MB | ME, ..ROOT };
    let last = Record { flags: ME, id: "a", ..RECORD };
    let begun = Record { flags: CF, id: "a", ..RECORD };
    let ended = Record { flags: ME, ..CHUNK };
    assert!(read(&message(&[only])).is_ok());
    assert!(read(&message(&[ROOT, begun, ended])).is_ok());
    for (records, told) in [
        (&[Record { flags: ME, ..only }][..], "lacks the flag MB"),
        (&[ROOT, Record { flags: MB | ME, ..last }], "begins with the flag MB"),
        (&[Record { flags: MB | ME | CF, ..only }], "flag CF"),
        (&[Record { type_format: UNCHANGED, kind: "", ..only }], "never begun"),
        (&[ROOT, ended], "never begun"),
        (&[ROOT, begun, last], "last chunk is missing"),
        (&[ROOT, begun, Record { kind: "a/b", ..ended }], "a type or an ID"),
        (&[ROOT, begun, Record { id: "a", ..ended }], "a type or an ID"),
        (&[ROOT, Record { type_format: NONE, ..last }], "TYPE_T 4"),
        (&[ROOT, Record { type_format: NONE, kind: "", data: b"x", ..last }], "TYPE_T 4"),
    ] {
        let fault = refused(&message(records));
        assert!(fault.message.contains(told), "{told}: {}", fault.message);
    }
    for version in [0, 2, 31] {
        let mut bytes = message(&[only]);
        bytes[0] = version << 3 | MB | ME;
        let fault = refused(&bytes);
        assert!(fault.message.contains(&format!("version {version}")), "{}", fault.message);
    }
    let mut bytes = message(&[only]);
    bytes[1] |= 0x0F;
    assert!(read(&bytes).is_ok(), "reserved bits are passed over");
}

#[test]
fn lengths_that_lie_are_found_out() {
    let whole = message(&[ROOT, Record { flags: ME, id: "a", data: b"1234", ..RECORD }]);
    let second = ROOT.bytes().len();
    // The high byte of each length of the second record: options, ID, type and data.
    for at in [2, 4, 6, 8] {
        for more in [1, 0x0F, 0xFF] {
            let mut lying = whole.clone();
            lying[second + at] = more;
            let fault = read(&lying).unwrap_err();
            let told = fault.limit.map_or("none".to_owned(), |limit| limit.name);
            assert!(told == "none" || told == "header_length", "{told}");
        }
    }
    // One byte less: what follows is no record.
    for at in [5, 7, 11] {
        let mut lying = whole.clone();
        lying[at] = lying[at].wrapping_sub(4);
        assert!(read(&lying).is_err(), "{at}");
    }
}

#[test]
fn the_first_record_is_the_envelope() {
    for (type_format, kind, good) in [
        (ABSOLUTE_URI, SOAP_11, true),
        (ABSOLUTE_URI, SOAP_12, true),
        (ABSOLUTE_URI, "http://e.example/", false),
        (MEDIA_TYPE, "text/xml", true),
        (MEDIA_TYPE, "text/xml; charset=utf-16", true),
        (MEDIA_TYPE, "text/xml; charset=klingon", false),
        (MEDIA_TYPE, "", true),
        (3, "", true),
    ] {
        let read = read(&message(&[Record { flags: MB | ME, type_format, kind, ..ROOT }]));
        assert_eq!(read.is_ok(), good, "{type_format} {kind}");
        if let Err(fault) = read {
            assert_eq!(fault.code, FaultCode::UnsupportedMediaType);
        }
    }
}

#[test]
fn limits_are_enforced_and_named() {
    let limits = WireLimits { parts: 2, header_length: 50, ..WireLimits::default() };
    let text = |len: usize| "x".repeat(len);
    let part = Record { flags: CF, id: "a", ..RECORD };
    let end = Record { flags: ME, ..CHUNK };
    let chunks = |count: usize| {
        let mut records = vec![ROOT, part];
        records.extend(vec![Record { flags: CF, data: b"x", ..CHUNK }; count]);
        message(&[&records[..], &[end]].concat())
    };
    let last = Record { flags: ME, id: "a", ..RECORD };
    let parts = |count: usize| {
        let mut records = vec![ROOT];
        records.extend(vec![Record { flags: 0, ..part }; count]);
        message(&[&records[..], &[last]].concat())
    };
    let (short, long) = (text(50), text(51));
    let with = |record: Record<'_>| message(&[ROOT, record]);
    for (name, good, bad) in [
        ("parts", parts(0), parts(1)),
        ("header_length", with(Record { id: &short, ..last }), with(Record { id: &long, ..last })),
        (
            "header_length",
            with(Record { kind: &short, ..last }),
            with(Record { kind: &long, ..last }),
        ),
        (
            "header_length",
            with(Record { options: short.as_bytes(), ..last }),
            with(Record { options: long.as_bytes(), ..last }),
        ),
    ] {
        for size in [1, 1000] {
            assert!(read_within(&good, size, &limits).is_ok(), "{name} {size}");
            let fault = read_within(&bad, size, &limits).unwrap_err();
            assert_eq!(fault.limit.unwrap().name, name);
        }
    }
    assert!(read_within(&chunks(100), 10, &limits).is_ok(), "chunks are no parts");
}

/// A file that says how long it is.
#[derive(Debug)]
struct Long(u64);

impl FileHandle for Long {
    fn path(&self) -> &Path {
        Path::new("")
    }

    fn len(&self) -> u64 {
        self.0
    }

    fn keep(&self) {}
}

fn written(mut writer: DimeWriter, version: SoapVersion, payloads: &[Payload]) -> PackedMessage {
    let mut root = SegmentBuilder::default();
    root.push("<root");
    for payload in payloads {
        writer.attributes(payload, &mut root);
    }
    root.push("/>");
    Box::new(writer).finish(root, version, None)
}

fn joined(packed: &PackedMessage) -> Vec<u8> {
    let bytes = packed.segments.iter().map(|segment| match segment {
        Segment::Bytes(bytes) => bytes.clone(),
        Segment::Data { .. } => panic!("all of it is in memory"),
    });
    let bytes = bytes.collect::<Vec<_>>().concat();
    assert_eq!(Some(bytes.len() as u64), packed.len);
    bytes
}

#[test]
fn the_envelope_has_the_type_of_its_version() {
    for (version, namespace) in [(SoapVersion::V11, SOAP_11), (SoapVersion::V12, SOAP_12)] {
        let packed = written(DimeWriter::default(), version, &[]);
        assert_eq!(packed.content_type, "application/dime");
        let expected =
            message(&[Record { flags: MB | ME, kind: namespace, data: b"<root/>", ..ROOT }]);
        assert_eq!(joined(&packed), expected);
    }
}

#[test]
fn what_is_longer_than_a_record_is_written_in_chunks() {
    let content: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let pieces: Vec<Bytes> = content.chunks(300).map(Bytes::copy_from_slice).collect();
    for most in [4, 5, 16, 99, 100, 999, 1000, 1001] {
        let payloads = [
            Payload::Inline(content.clone().into()),
            Payload::Pieces(pieces.clone().into()),
            Payload::Inline(Bytes::new()),
        ];
        let writer = DimeWriter::default().with_most(most);
        let bytes = joined(&written(writer, SoapVersion::V11, &payloads));
        let read = read(&bytes).unwrap();
        let contents: Vec<&[u8]> = read[1..].iter().map(|(_, content)| &content[..]).collect();
        assert_eq!(contents, [&content[..], &content, b""], "{most}");
        let root = String::from_utf8(read[0].1.clone()).unwrap();
        for (names, _) in &read[1..] {
            assert!(root.contains(&format!("href=\"{}\"", names[0])), "{root}");
        }
    }
}

#[test]
fn files_above_four_gibibytes_are_written_and_read() {
    const MOST: u64 = u32::MAX as u64;
    let block = Bytes::from(vec![7; 64 << 20]);
    for (len, records) in [(MOST, 1), (MOST + 1, 2), ((9 << 30) + 5, 3)] {
        let held: Arc<dyn FileHandle> = Arc::new(Long(len));
        let packed = written(DimeWriter::default(), SoapVersion::V11, &[Payload::Spooled(held)]);
        let mut reader = DimeReader::new(&WireLimits::default());
        let (mut sent, mut files, mut received, mut ended) = (0, 0, 0, 0);
        let mut found = |piece: ReadEvent| {
            match piece {
                ReadEvent::Part(data) => received += data.len() as u64,
                ReadEvent::PartEnd => ended += 1,
                _ => {}
            }
            Ok(())
        };
        for segment in &packed.segments {
            match segment {
                Segment::Bytes(bytes) => reader.feed(bytes.clone(), &mut found).unwrap(),
                Segment::Data { range, .. } => {
                    assert_eq!(range.start, sent, "one run after the other");
                    files += 1;
                    while sent < range.end {
                        let size = usize::try_from(range.end - sent).unwrap().min(block.len());
                        reader.feed(block.slice(..size), &mut found).unwrap();
                        sent += size as u64;
                    }
                }
            }
        }
        reader.finish(&mut found).unwrap();
        assert_eq!((files, sent, received, ended), (records, len, len, 1));
        assert_eq!(packed.len, packed.segments.iter().map(Segment::len).sum());
    }
}

#[test]
fn a_stream_is_records_of_its_chunks_whose_last_is_not_empty() {
    const LARGEST: usize = record::LARGEST;
    let content: Vec<u8> = (0..=250).cycle().take(3 * LARGEST + 18).collect();
    let header =
        RecordHeader { version: VERSION, ends: true, type_format: MEDIA_TYPE, ..<_>::default() };
    let first = FirstRecord { header, id: "a".to_owned(), kind: RECORD.kind.to_owned() };
    let mut encoder = RecordEncoder::new(first.into());
    let (mut bytes, mut rest) = (message(&[ROOT]), &content[..]);
    for len in [0, 3, 4, LARGEST + 6, 2 * LARGEST + 5] {
        let now;
        (now, rest) = rest.split_at(len);
        encoder.encode(now, &mut bytes);
    }
    encoder.finish(&mut bytes);
    assert!(rest.is_empty());
    let mut ends = [4, LARGEST, 8, LARGEST, LARGEST, 4, 2].into_iter();
    let mut from = 0;
    let records = std::iter::from_fn(|| {
        let at = from;
        from += ends.next()?;
        Some(&content[at..from])
    });
    let mut records: Vec<_> = records.map(|data| Record { flags: CF, data, ..CHUNK }).collect();
    records[0] = Record { id: "a", type_format: MEDIA_TYPE, kind: RECORD.kind, ..records[0] };
    records.last_mut().unwrap().flags = ME;
    records.insert(0, ROOT);
    assert!(bytes == message(&records));
    assert_eq!(read_within(&bytes, usize::MAX, &WireLimits::default()).unwrap()[1].1, content);
}

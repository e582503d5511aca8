//! What every packaging must do: the same envelope in gives the same values back, whatever carries
//! it and however its bytes are cut.

mod streams;

use std::collections::BTreeMap;

use fishplate_contract::{Argument, CallOptions, DataType, Parameter, Value};
use proptest::prelude::*;

use super::*;
use crate::bind::{bind, bind_reply};
use crate::envelope::Body;
use crate::name::QName;
use crate::pack::pack;
use crate::spool::SpoolSink;
use crate::unpack::tests::Sink;
use crate::unpack::{ExpectedTable, MessageHead, UnpackedMessage, Unpacker};
use crate::write::{ReplyForm, RequestForm, write_fault, write_request};

const VERSIONS: [SoapVersion; 2] = [SoapVersion::V11, SoapVersion::V12];

/// Sizes at which buffers have edges.
const SIZES: [usize; 5] = [0, 1, 8191, 8192, 8193];

/// Content that looks like delimiters and record headers.
const TRICKY: &[u8] = b"\r\n--\r\n\x0C\x20\0\0\0\0\0\0\0\0\0\x04--b--\r\n\x0A\x10\0\0\r\n-";

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::new("data", DataType::Raw).repeated(),
        Parameter::new("title", DataType::String).optional(),
    ]
}

/// A message as it travels.
struct Sent {
    content_type: String,
    soap_action: Option<String>,
    body: Vec<u8>,
}

/// Content of so many bytes, no two of them alike.
fn content(size: usize, seed: usize) -> Vec<u8> {
    TRICKY.iter().copied().cycle().skip(seed).take(size).collect()
}

fn arguments(payloads: Vec<Payload>) -> Vec<Argument> {
    let labelled = payloads.into_iter().enumerate().map(|(at, payload)| Argument {
        name: "data".to_owned(),
        label: Some(format!("n{at}")),
        value: Value::Data(payload),
    });
    labelled.chain([Argument::text("title", "a & b")]).collect()
}

/// A call with these payloads.
fn sent(packaging: Packaging, version: SoapVersion, payloads: Vec<Payload>, from: &Sink) -> Sent {
    packed(packaging, version, &arguments(payloads), from)
}

fn form(version: SoapVersion, arrays: Option<ArrayForm>) -> RequestForm {
    RequestForm {
        wrapper: QName::new("urn:t", "call"),
        qualified: true,
        version,
        options: CallOptions::default(),
        arrays,
        items: Vec::new(),
    }
}

fn packed(packaging: Packaging, version: SoapVersion, given: &[Argument], from: &Sink) -> Sent {
    let envelope = write_request(&form(version, None), given).unwrap();
    let packed = pack(&envelope, packaging, Some("urn:t#call"));
    let body = from.body(&packed);
    Sent { content_type: packed.content_type.into_owned(), soap_action: packed.soap_action, body }
}

fn inline(contents: &[Vec<u8>]) -> Vec<Payload> {
    contents.iter().map(|content| Payload::Inline(content.clone().into())).collect()
}

fn call(packaging: Packaging, version: SoapVersion, contents: &[Vec<u8>]) -> Sent {
    sent(packaging, version, inline(contents), &Sink::default())
}

impl Sent {
    /// The same, to be changed.
    fn again(&self) -> Self {
        let Self { content_type, soap_action, body } = self;
        Self {
            content_type: content_type.clone(),
            soap_action: soap_action.clone(),
            body: body.clone(),
        }
    }

    fn unpack(&self, cuts: &[usize], sink: &mut Sink) -> Result<UnpackedMessage, Fault> {
        let head = MessageHead {
            content_type: &self.content_type,
            soap_action: self.soap_action.as_deref(),
            ..MessageHead::default()
        };
        let expected = ExpectedTable::response(QName::new("urn:t", "call"), &parameters());
        let mut unpacker = Unpacker::new(&head, Box::new(expected), &WireLimits::default())?;
        let mut rest = Bytes::copy_from_slice(&self.body);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            unpacker.feed(rest.split_to((*cut).min(rest.len())), sink)?;
        }
        unpacker.finish(sink)
    }

    /// The payloads as they arrive, cut into chunks of these sizes again and again.
    fn contents(&self, cuts: &[usize]) -> Result<Vec<Vec<u8>>, Fault> {
        let mut sink = Sink::default();
        let Body::Wrapper { children, .. } = self.unpack(cuts, &mut sink)?.envelope.body else {
            panic!("no wrapper");
        };
        let arguments = bind("call", &parameters(), children)?;
        let (title, data) = arguments.split_last().unwrap();
        assert!(matches!(&title.value, Value::Text(text) if text == "a & b"));
        let bytes = data.iter().enumerate().map(|(at, argument)| {
            assert_eq!(argument.label, Some(format!("n{at}")), "in the order in which they went");
            let Value::Data(payload) = &argument.value else { panic!("{argument:?}") };
            sink.bytes(payload)
        });
        Ok(bytes.collect())
    }
}

#[test]
fn names_and_media_types_tell_packagings() {
    for packaging in Packaging::ALL {
        assert_eq!(Packaging::from_name(packaging.name()), Some(*packaging));
        for version in VERSIONS {
            let sent = call(*packaging, version, &[vec![1]]);
            assert_eq!(Packaging::of_content_type(&sent.content_type), Some(*packaging));
            let unpacked = sent.unpack(&[100], &mut Sink::default()).unwrap();
            assert_eq!(unpacked.packaging, *packaging);
            assert_eq!(unpacked.envelope.version, version);
            assert_eq!(unpacked.action.as_deref(), Some("urn:t#call"));
            assert_eq!(unpacked.reply_form.packaging, *packaging, "an answer is in the same form");
            let head = MessageHead { content_type: &sent.content_type, ..MessageHead::default() };
            let told = ReplyForm::of_head(&head).version;
            assert!(told == version || *packaging == Packaging::Dime, "faults of the head too");
        }
    }
    assert_eq!(Packaging::from_name("MTOM"), None);
    for none in ["", "image/png", "multipart/form-data", "multipart/related; type=\"a/b\""] {
        assert_eq!(Packaging::of_content_type(none), None, "{none}");
    }
}

#[test]
fn any_number_of_attachments_of_any_size_arrive() {
    for &packaging in Packaging::ALL {
        for version in VERSIONS {
            for size in SIZES {
                for count in [0, 1, 3, 20] {
                    let contents: Vec<_> = (0..count).map(|at| content(size, at)).collect();
                    let sent = call(packaging, version, &contents);
                    for cuts in [&[usize::MAX][..], &[8192], &[1000, 1, 77]] {
                        assert_eq!(sent.contents(cuts).unwrap(), contents, "{packaging:?} {size}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_message_may_be_cut_at_any_byte() {
    let contents = [TRICKY.to_vec(), Vec::new(), b"x".to_vec()];
    for &packaging in Packaging::ALL {
        for version in VERSIONS {
            let sent = call(packaging, version, &contents);
            for at in 1..sent.body.len() {
                let read = sent.contents(&[at, usize::MAX]).unwrap();
                assert_eq!(read, contents, "{packaging:?} cut at {at}");
            }
            assert_eq!(sent.contents(&[1]).unwrap(), contents, "{packaging:?}");
        }
    }
}

#[test]
fn the_edge_of_a_buffer_may_be_at_any_byte() {
    for &packaging in Packaging::ALL {
        for size in SIZES {
            let contents = [content(size, 3), b"after".to_vec()];
            let sent = call(packaging, SoapVersion::V11, &contents);
            for buffer in 8192 - 40..8192 + 40 {
                assert_eq!(sent.contents(&[buffer]).unwrap(), contents, "{packaging:?} {buffer}");
            }
            let end = sent.body.len();
            for at in end.saturating_sub(600)..end {
                let read = sent.contents(&[at, usize::MAX]).unwrap();
                assert_eq!(read, contents, "{packaging:?} {size} cut at {at}");
            }
        }
    }
}

#[test]
fn inline_in_pieces_and_spooled_are_the_same() {
    let bytes = content(100_000, 5);
    let mut sink = Sink::default();
    let held = sink.create();
    sink.write(&held, bytes.clone().into());
    let pieces: Vec<Bytes> = bytes.chunks(9999).map(Bytes::copy_from_slice).collect();
    let payloads = vec![
        Payload::Spooled(held.clone()),
        Payload::Inline(bytes.clone().into()),
        Payload::Pieces(pieces.into()),
        Payload::Spooled(held),
    ];
    for &packaging in Packaging::ALL {
        for version in VERSIONS {
            let sent = sent(packaging, version, payloads.clone(), &sink);
            let read = sent.contents(&[5000]).unwrap();
            assert!(read.len() == 4 && read.iter().all(|read| *read == bytes), "{packaging:?}");
        }
    }
}

#[test]
fn a_message_cut_short_is_refused() {
    for &packaging in Packaging::ALL {
        let sent = call(packaging, SoapVersion::V12, &[b"1234".to_vec(), TRICKY[..8].to_vec()]);
        // What follows the last boundary of a multipart message is no part of it.
        let end = match packaging {
            Packaging::Mtom | Packaging::Swa => sent.body.len() - 2,
            Packaging::Plain | Packaging::Dime => sent.body.len(),
        };
        for at in 0..end {
            let cut = Sent {
                content_type: sent.content_type.clone(),
                soap_action: None,
                body: sent.body[..at].to_vec(),
            };
            let fault = cut.contents(&[usize::MAX]).unwrap_err();
            assert_eq!(fault.code, FaultCode::MalformedMessage, "{packaging:?} {at}");
            assert_eq!(cut.contents(&[1]).unwrap_err().code, fault.code);
        }
    }
}

#[test]
fn answers_and_faults_arrive() {
    let contents = [content(8193, 0), Vec::new()];
    for &packaging in Packaging::ALL {
        for version in VERSIONS {
            let sent = call(packaging, version, &contents);
            let unpacked = sent.unpack(&[4096], &mut Sink::default()).unwrap();
            let form = unpacked.reply_form.clone();
            let reply = bind_reply(unpacked, &parameters()).unwrap();
            assert_eq!(reply.outputs.len(), 3);
            let fault = Fault::new(FaultCode::QueueFull, "full");
            let packed = pack(&write_fault(&form, None, &fault), form.packaging, None);
            let back = Sent {
                body: Sink::default().body(&packed),
                content_type: packed.content_type.into_owned(),
                soap_action: None,
            };
            let unpacked = back.unpack(&[1], &mut Sink::default()).unwrap();
            assert_eq!(bind_reply(unpacked, &parameters()).unwrap_err(), fault, "{packaging:?}");
        }
    }
}

#[test]
fn without_attachments_it_is_plain_but_for_dime() {
    for &packaging in Packaging::ALL {
        let sent = call(packaging, SoapVersion::V11, &[]);
        let expected = match packaging {
            Packaging::Dime => "application/dime",
            _ => "text/xml; charset=utf-8",
        };
        assert_eq!(sent.content_type, expected);
    }
}

#[test]
fn data_of_attachments_are_slices_of_their_chunk() {
    let size = 100_000;
    for &packaging in Packaging::ALL {
        let sent = call(packaging, SoapVersion::V11, &[content(size, 0)]);
        let message = Bytes::from(sent.body);
        let mut opened =
            reader(&MediaType::parse(&sent.content_type), &WireLimits::default()).unwrap();
        let mut seen = 0;
        let within = message.as_ptr_range();
        let mut found = |piece: ReadEvent| {
            if let ReadEvent::Part(data) = piece {
                // What looked like the start of a delimiter and was none is made up again.
                let outside = !within.contains(&data.as_ptr());
                assert!(!outside || data.len() < 50, "{packaging:?}");
                seen += data.len();
            }
            Ok(())
        };
        opened.reader.feed(message.clone(), &mut found).unwrap();
        opened.reader.finish(&mut found).unwrap();
        assert_eq!(seen, if packaging == Packaging::Plain { 0 } else { size });
    }
}

#[test]
fn what_stays_in_memory_is_kept_as_it_came_or_as_one_block() {
    const SIZES: [usize; 3] = [1000, 100_000, usize::MAX];
    let content = content(1_000_000, 0);
    let limits =
        WireLimits { inline_size: 2_000_000, inline_total: 3_000_000, ..WireLimits::default() };
    for &packaging in Packaging::ALL {
        let sent = call(packaging, SoapVersion::V11, &[content.clone(), content[..10].to_vec()]);
        let message = Bytes::from(sent.body);
        let expected = ExpectedTable::response(QName::new("urn:t", "call"), &parameters());
        let head = MessageHead { content_type: &sent.content_type, ..MessageHead::default() };
        for (size, contiguous) in SIZES.map(|size| [(size, false), (size, true)]).concat() {
            let expected = Box::new(expected.clone());
            let mut unpacker = Unpacker::new(&head, expected, &limits).unwrap();
            if contiguous {
                unpacker = unpacker.contiguous();
            }
            let mut sink = Sink::default();
            for at in (0..message.len()).step_by(size.min(message.len())) {
                let end = at.saturating_add(size).min(message.len());
                unpacker.feed(message.slice(at..end), &mut sink).unwrap();
            }
            let unpacked = unpacker.finish(&mut sink).unwrap();
            let Body::Wrapper { children, .. } = unpacked.envelope.body else { panic!() };
            let arguments = bind("call", &parameters(), children).unwrap();
            let Value::Data(payload) = &arguments[0].value else { panic!() };
            assert_eq!(sink.bytes(payload), content, "{packaging:?} {size}");
            assert!(sink.writes.is_empty(), "nothing is spooled");
            let pieces = payload.pieces().unwrap();
            let range = message.as_ptr_range();
            let slices = pieces.iter().filter(|piece| range.contains(&piece.as_ptr()));
            assert!(!contiguous || matches!(payload, Payload::Inline(_)), "{packaging:?} {size}");
            let uncopied = if contiguous { 100_000 } else { 1000 };
            let sliced = size > uncopied && packaging != Packaging::Plain;
            assert_eq!(slices.count() > 0, sliced, "{packaging:?} {size}");
            let shortest = pieces[..pieces.len() - 1].iter().map(Bytes::len).min();
            assert!(shortest.is_none_or(|len| len > 10_000 && pieces.len() < 30), "{shortest:?}");
        }
    }
}

/// The parts of a multipart message, each with what is before it, and what is after the last.
fn parts(sent: &Sent) -> (Vec<Vec<u8>>, Vec<u8>) {
    let boundary = MediaType::parse(&sent.content_type).parameter("boundary").unwrap().to_owned();
    let whole = [b"\r\n", &sent.body[..]].concat();
    let delimiter = format!("\r\n--{boundary}");
    let mut starts: Vec<usize> = memchr::memmem::find_iter(&whole, delimiter.as_bytes()).collect();
    let end = whole[starts.pop().unwrap()..].to_vec();
    starts.push(whole.len() - end.len());
    (starts.windows(2).map(|edge| whole[edge[0]..edge[1]].to_vec()).collect(), end)
}

/// All orders of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let insert = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(move |at| insert(order, at))).collect()
}

#[test]
fn parts_may_stand_in_any_order() {
    let contents = [content(70_000, 1), Vec::new(), b"three".to_vec()];
    for packaging in [Packaging::Mtom, Packaging::Swa] {
        for version in VERSIONS {
            let sent = call(packaging, version, &contents);
            let (parts, end) = parts(&sent);
            assert_eq!(parts.len(), 4);
            for order in orders(4) {
                let ordered: Vec<u8> = order.iter().flat_map(|at| parts[*at].clone()).collect();
                let turned = Sent {
                    body: [ordered, end.clone()].concat(),
                    content_type: sent.content_type.clone(),
                    soap_action: None,
                };
                for cuts in [&[usize::MAX][..], &[8192], &[100]] {
                    assert_eq!(turned.contents(cuts).unwrap(), contents, "{order:?}");
                }
            }
        }
    }
}

#[test]
fn attachments_before_a_late_root_are_spooled() {
    const SIZE: usize = 1 << 20;
    for packaging in [Packaging::Mtom, Packaging::Swa] {
        let sent = call(packaging, SoapVersion::V11, &[content(SIZE, 1), content(SIZE, 2)]);
        let (mut parts, end) = parts(&sent);
        parts.rotate_left(1);
        let body = [parts.concat(), end].concat();
        let root = body.len() - 2000;
        let expected = ExpectedTable::response(QName::new("urn:t", "call"), &parameters());
        let head = MessageHead { content_type: &sent.content_type, ..MessageHead::default() };
        let limits = WireLimits::default();
        let mut unpacker = Unpacker::new(&head, Box::new(expected), &limits).unwrap();
        let mut sink = Sink::default();
        for chunk in body[..root].chunks(64 << 10) {
            unpacker.feed(Bytes::copy_from_slice(chunk), &mut sink).unwrap();
        }
        let spooled: usize = sink.writes.iter().sum();
        assert!(unpacker.wrapper().is_none(), "the root has not come yet");
        assert!(spooled > 2 * SIZE - (128 << 10), "{spooled}");
        unpacker.feed(Bytes::copy_from_slice(&body[root..]), &mut sink).unwrap();
        unpacker.finish(&mut sink).unwrap();
    }
}

#[test]
fn a_message_is_bounded_as_a_whole_and_in_its_envelope() {
    for &packaging in Packaging::ALL {
        let sent = call(packaging, SoapVersion::V11, &[content(5000, 0)]);
        let len = sent.body.len() as u64;
        let told = |limits: WireLimits| {
            let expected = ExpectedTable::response(QName::new("urn:t", "call"), &parameters());
            let head = MessageHead { content_type: &sent.content_type, ..MessageHead::default() };
            let mut unpacker = Unpacker::new(&head, Box::new(expected), &limits).unwrap();
            let mut sink = Sink::default();
            let mut chunks = sent.body.chunks(100).map(Bytes::copy_from_slice);
            let fed = chunks.try_for_each(|chunk| unpacker.feed(chunk, &mut sink));
            let read = fed.and_then(|()| unpacker.finish(&mut sink));
            read.err().map(|fault| fault.limit.unwrap().name)
        };
        let total = |most| WireLimits { message_size: Some(most), ..WireLimits::default() };
        assert_eq!(told(total(len)), None);
        assert_eq!(told(total(len - 1)).as_deref(), Some("message_size"), "{packaging:?}");
        let envelope = |most| WireLimits { envelope_size: most, ..WireLimits::default() };
        assert_eq!(told(envelope(1000)), None, "{packaging:?}");
        assert_eq!(told(envelope(100)).as_deref(), Some("envelope_size"), "{packaging:?}");
    }
}

/// What a message of another packaging's bytes is told.
#[test]
fn a_body_that_is_not_of_its_content_type_is_refused() {
    let mut bodies = BTreeMap::new();
    for &packaging in Packaging::ALL {
        bodies.insert(packaging.name(), call(packaging, SoapVersion::V11, &[vec![7]]));
    }
    for (name, sent) in &bodies {
        for (other, body) in &bodies {
            let crossed = Sent {
                content_type: sent.content_type.clone(),
                soap_action: None,
                body: body.body.clone(),
            };
            assert_eq!(crossed.contents(&[10]).is_ok(), name == other, "{name} {other}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_message_in_any_packaging_cut_anywhere_is_the_same(
        contents in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..60),
                (0usize..30_000, 0usize..40).prop_map(|(size, seed)| content(size, seed)),
            ],
            0..5,
        ),
        packaging in prop::sample::select(Packaging::ALL),
        version in prop::sample::select(&VERSIONS[..]),
        cuts in prop_oneof![
            proptest::collection::vec(1usize..80, 1..6),
            proptest::collection::vec(1usize..20_000, 1..4),
        ],
    ) {
        let sent = call(packaging, version, &contents);
        prop_assert_eq!(sent.contents(&cuts).unwrap(), contents);
    }

    #[test]
    fn a_changed_message_is_the_same_however_it_is_cut(
        packaging in prop::sample::select(Packaging::ALL),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cuts in proptest::collection::vec(1usize..80, 1..6),
    ) {
        let mut sent = call(packaging, SoapVersion::V11, &[TRICKY.to_vec(), b"abc".to_vec()]);
        for (at, byte) in changes {
            let at = at.index(sent.body.len());
            sent.body[at] = byte;
        }
        let read = |cuts: &[usize]| {
            let mut sink = Sink::default();
            let unpacked = sent.unpack(cuts, &mut sink).ok()?;
            Some(format!("{:?}", unpacked.envelope))
        };
        prop_assert_eq!(read(&cuts), read(&[usize::MAX]));
    }
}

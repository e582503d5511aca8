//! Streams: what is written as it comes is read as it comes, and what breaks off is never whole.

use std::task::{Context, Poll, Waker};

use fishplate_contract::{Array, ByteStream, ElementType};
use futures_util::stream;

use super::*;
use crate::envelope::ArrayForm;
use crate::outgoing::{BodyStep, OutgoingBody};

/// Content in chunks of these sizes, again and again.
fn chunks(content: &[u8], sizes: &[usize]) -> Vec<Result<Bytes, Fault>> {
    let mut rest = Bytes::copy_from_slice(content);
    let mut chunks = Vec::new();
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        chunks.push(Ok(rest.split_to((*size).min(rest.len()))));
    }
    chunks
}

fn streamed(content: &[u8], sizes: &[usize]) -> Payload {
    Payload::Stream(ByteStream::new(stream::iter(chunks(content, sizes))))
}

/// A call of a service that takes its file while it arrives.
fn one(packaging: Packaging, version: SoapVersion, data: Payload) -> Sent {
    let arguments = [Argument::text("title", "a & b"), Argument::new("data", Value::Data(data))];
    packed(packaging, version, &arguments, &Sink::default())
}

fn taken() -> Vec<Parameter> {
    let title = Parameter::new("title", DataType::String).optional();
    vec![title, Parameter::new("data", DataType::Raw).streamed()]
}

/// What came of the file, whether it was given ahead, and how the message ended.
type Received = (Vec<u8>, bool, Result<(), Fault>);

/// The same as a server reads it and as a client, which has it in one block.
fn received(sent: &Sent, parameters: &[Parameter], cuts: &[usize]) -> Received {
    let [server, client] = [false, true].map(|block| received_as(sent, parameters, cuts, block));
    assert_eq!(server, client);
    client
}

fn received_as(sent: &Sent, parameters: &[Parameter], cuts: &[usize], block: bool) -> Received {
    let head = MessageHead { content_type: &sent.content_type, ..MessageHead::default() };
    let expected = ExpectedTable::response(QName::new("urn:t", "call"), parameters);
    let unpacker = Unpacker::new(&head, Box::new(expected), &WireLimits::default());
    let mut unpacker = unpacker.unwrap().streaming();
    if block {
        unpacker = unpacker.contiguous();
    }
    let (mut sink, mut data, mut ahead) = (Sink::default(), Vec::new(), false);
    let mut rest = Bytes::copy_from_slice(&sent.body);
    let mut read = || {
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            unpacker.feed(rest.split_to((*cut).min(rest.len())), &mut sink)?;
            if let Some(unpacked) = unpacker.ahead(|| ByteStream::new(stream::empty())) {
                let arguments = bound(unpacked, parameters)?;
                assert!(matches!(&arguments[0].value, Value::Text(text) if text == "a & b"));
                assert!(matches!(&arguments[1].value, Value::Data(Payload::Stream(_))));
                ahead = true;
            }
            if ahead {
                data.extend(unpacker.take_streamed().concat());
            }
        }
        bound(unpacker.finish(&mut sink)?, parameters)
    };
    let ended = read();
    if let (Ok(arguments), false) = (&ended, ahead) {
        let Value::Data(payload) = &arguments.last().unwrap().value else {
            panic!("{arguments:?}")
        };
        assert!(!block || matches!(payload, Payload::Inline(_)), "{payload:?}");
        data = sink.bytes(payload);
    }
    (data, ahead, ended.map(drop))
}

fn bound(unpacked: UnpackedMessage, parameters: &[Parameter]) -> Result<Vec<Argument>, Fault> {
    let Body::Wrapper { children, .. } = unpacked.envelope.body else { panic!("no wrapper") };
    bind("call", parameters, children)
}

#[test]
fn an_empty_stream_is_an_empty_file() {
    for &packaging in Packaging::ALL {
        let sent = one(packaging, SoapVersion::V11, streamed(b"", &[1]));
        assert_eq!(received(&sent, &taken(), &[usize::MAX]), (Vec::new(), false, Ok(())));
    }
}

#[test]
fn a_file_is_given_before_it_has_come_and_what_is_cut_short_is_no_end() {
    let content = content(1000, 7);
    for &packaging in Packaging::ALL {
        for version in VERSIONS {
            let sent = one(packaging, version, streamed(&content, &[10, 300]));
            let end = match packaging {
                Packaging::Mtom | Packaging::Swa => sent.body.len() - 2,
                Packaging::Plain | Packaging::Dime => sent.body.len(),
            };
            for at in 0..end {
                let cut = Sent { body: sent.body[..at].to_vec(), ..sent.again() };
                let (data, ahead, ended) = received(&cut, &taken(), &[97]);
                assert_eq!(
                    ended.unwrap_err().code,
                    FaultCode::MalformedMessage,
                    "{packaging:?} {at}"
                );
                assert!(!ahead || content.starts_with(&data));
            }
            for (cut, ahead) in [(97, true), (usize::MAX, false)] {
                let whole = received(&sent, &taken(), &[cut]);
                assert_eq!(whole, (content.clone(), ahead, Ok(())), "{packaging:?} {cut}");
            }
        }
    }
}

#[test]
fn a_file_before_which_or_behind_which_something_may_come_is_read_whole_first() {
    let content = content(3000, 1);
    for &packaging in Packaging::ALL {
        let turned = [
            Argument::new("data", Value::Data(streamed(&content, &[100]))),
            Argument::text("title", "x"),
        ];
        let sent = packed(packaging, SoapVersion::V11, &turned, &Sink::default());
        let mut parameters = taken();
        parameters.reverse();
        let head = MessageHead { content_type: &sent.content_type, ..MessageHead::default() };
        let expected = ExpectedTable::response(QName::new("urn:t", "call"), &parameters);
        let mut unpacker =
            Unpacker::new(&head, Box::new(expected), &WireLimits::default()).unwrap().streaming();
        let (mut sink, mut ahead) = (Sink::default(), false);
        for chunk in sent.body.chunks(50) {
            unpacker.feed(Bytes::copy_from_slice(chunk), &mut sink).unwrap();
            ahead |= unpacker.ahead(|| ByteStream::new(stream::empty())).is_some();
            drop(unpacker.take_streamed());
        }
        // An attachment comes behind the root whatever the order of the values.
        assert_eq!(ahead, packaging != Packaging::Plain, "{packaging:?}");
        let arguments = bound(unpacker.finish(&mut sink).unwrap(), &parameters).unwrap();
        let Value::Data(data) = &arguments[0].value else { panic!() };
        assert_eq!(sink.bytes(data).len(), if ahead { 0 } else { 3000 });
    }
}

#[test]
fn a_call_with_a_key_may_become_a_job_and_gives_no_file_ahead() {
    let content = content(3000, 0);
    for &packaging in Packaging::ALL {
        let arguments = [
            Argument::text("title", "a & b"),
            Argument::new("data", Value::Data(streamed(&content, &[100]))),
        ];
        let options = CallOptions { key: Some("once".to_owned()), ..CallOptions::default() };
        let form = RequestForm { options, ..form(SoapVersion::V11, None) };
        let packed =
            pack(&write_request(&form, &arguments).unwrap(), packaging, Some("urn:t#call"));
        let body = Sink::default().body(&packed);
        let PackedMessage { content_type, soap_action, .. } = packed;
        let sent = Sent { content_type: content_type.into_owned(), soap_action, body };
        let (data, ahead, ended) = received(&sent, &taken(), &[50]);
        ended.unwrap();
        assert!(!ahead && data == content, "{packaging:?}");
    }
}

#[test]
fn what_stands_behind_a_file_that_was_given_is_a_fault_at_the_end() {
    let content = content(300, 0);
    let sent = one(Packaging::Plain, SoapVersion::V11, streamed(&content, &[50]));
    let text = String::from_utf8(sent.body.clone()).unwrap();
    for more in ["<w:data>AAAA</w:data>", "<w:title>again</w:title>", "<w:other/>"] {
        let body = text.replace("</w:call>", &format!("{more}</w:call>")).into_bytes();
        assert_ne!(body, sent.body);
        let (data, ahead, ended) = received(&Sent { body, ..sent.again() }, &taken(), &[60]);
        assert!(ahead && content.starts_with(&data));
        assert_eq!(ended.unwrap_err().code, FaultCode::UnexpectedParameter, "{more}");
    }
}

#[test]
fn a_stream_that_ends_with_a_fault_stops_the_message_before_its_end() {
    for &packaging in Packaging::ALL {
        let broken = chunks(&content(500, 0), &[77]).into_iter();
        let broken = broken.chain([Err(Fault::new(FaultCode::ProgramFailed, "no"))]);
        let payload = Payload::Stream(ByteStream::new(stream::iter(broken)));
        let envelope = write_request(
            &form(SoapVersion::V11, None),
            &[Argument::new("data", Value::Data(payload))],
        );
        let packed = pack(&envelope.unwrap(), packaging, None);
        assert_eq!(packed.len, None);
        let mut outgoing = OutgoingBody::new(packed.segments.iter().cloned(), 100);
        let mut body = Vec::new();
        let fault = loop {
            match outgoing.step().expect("the fault comes first") {
                BodyStep::Send(bytes) => body.extend_from_slice(&bytes),
                BodyStep::Read { .. } => panic!("there is no file"),
                BodyStep::Wait => {
                    match outgoing.poll_stream(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(Ok(bytes)) => body.extend_from_slice(&bytes),
                        Poll::Ready(Err(fault)) => break fault,
                        Poll::Pending => {}
                    }
                }
            }
        };
        assert_eq!(fault.code, FaultCode::ProgramFailed);
        let content_type = packed.content_type.into_owned();
        let cut = Sent { content_type, soap_action: None, body };
        let parameters = [Parameter::new("data", DataType::Raw)];
        let (_, _, ended) = received(&cut, &parameters, &[64]);
        assert_eq!(ended.unwrap_err().code, FaultCode::MalformedMessage, "{packaging:?}");
    }
}

/// What becomes of an array whose data come in chunks.
fn array(
    packaging: Packaging,
    form: ArrayForm,
    shape: &[u64],
    data: Payload,
) -> Result<Array, Fault> {
    let of = Array { element: ElementType::Int, shape: shape.to_vec(), data };
    let envelope = write_request(
        &super::form(SoapVersion::V11, Some(form)),
        &[Argument::new("grid", Value::Array(of))],
    )?;
    let sink = Sink::default();
    let packed = pack(&envelope, packaging, None);
    let body = sink.try_body(&packed)?;
    let sent = Sent { content_type: packed.content_type.into_owned(), soap_action: None, body };
    let rank = "[]".repeat(shape.len());
    let grid = DataType::from_name(&format!("int{rank}")).unwrap();
    let parameters = [Parameter::new("grid", grid)];
    let mut sink = Sink::default();
    let head = MessageHead { content_type: &sent.content_type, ..MessageHead::default() };
    let expected = ExpectedTable::response(QName::new("urn:t", "call"), &parameters);
    let mut unpacker = Unpacker::new(&head, Box::new(expected), &WireLimits::default())?;
    unpacker.feed(sent.body.into(), &mut sink)?;
    let arguments = bound(unpacker.finish(&mut sink)?, &parameters)?;
    let Value::Array(array) = arguments[0].value.clone() else { panic!("{arguments:?}") };
    Ok(Array { data: Payload::Inline(sink.bytes(&array.data).into()), ..array })
}

#[test]
fn an_array_may_have_as_many_rows_as_come() {
    let bytes: Vec<u8> = (0..300_i32).flat_map(i32::to_le_bytes).collect();
    for &packaging in Packaging::ALL {
        for form in ArrayForm::ALL {
            for (shape, found) in [
                (&[Array::UNKNOWN][..], &[300][..]),
                (&[Array::UNKNOWN, 3], &[100, 3]),
                (&[300], &[300]),
            ] {
                let read = array(packaging, form, shape, streamed(&bytes, &[5, 64])).unwrap();
                assert_eq!(read.shape, found, "{packaging:?} {form:?}");
                assert_eq!(read.data.pieces().unwrap().concat(), bytes);
            }
            let empty = array(packaging, form, &[Array::UNKNOWN], streamed(b"", &[1])).unwrap();
            assert_eq!(empty.shape, [0]);
            for shape in [&[Array::UNKNOWN, 7][..], &[299, 2]] {
                let cut = array(packaging, form, shape, streamed(&bytes[..1196], &[100]));
                assert!(cut.is_err(), "{packaging:?} {form:?} {shape:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_streams_in_any_chunks_cut_anywhere_are_the_same(
        contents in proptest::collection::vec(
            (0usize..5_000, 0usize..40).prop_map(|(size, seed)| content(size, seed)),
            0..4,
        ),
        packaging in prop::sample::select(Packaging::ALL),
        version in prop::sample::select(&VERSIONS[..]),
        sizes in proptest::collection::vec(1usize..700, 1..5),
        cuts in proptest::collection::vec(1usize..900, 1..5),
    ) {
        let payloads = contents.iter().map(|content| streamed(content, &sizes)).collect();
        let several = sent(packaging, version, payloads, &Sink::default());
        prop_assert_eq!(several.contents(&cuts).unwrap(), contents.clone());
        if let Some(content) = contents.first() {
            let one = one(packaging, version, streamed(content, &sizes));
            let (data, _, ended) = received(&one, &taken(), &cuts);
            prop_assert_eq!(ended, Ok(()));
            prop_assert_eq!(&data, content);
        }
    }
}

//! Any message, in any packaging and version, cut anywhere, is the same message; and what is
//! written reads back.

use fishplate_contract::{CallOptions, JobId, SubmittedJob};
use proptest::prelude::*;

use super::*;
use crate::bind::bind_reply;
use crate::envelope::{HeaderBlock, SoapVersion, XmlElement};
use crate::pack::pack;
use crate::packaging::Packaging;
use crate::write::{RequestForm, write_fault, write_reply, write_request};

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[\r\n-]{0,20}".prop_map(String::into_bytes),
        (0usize..90_000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é€\r\n\t]{0,30}"
}

fn version() -> impl Strategy<Value = SoapVersion> {
    prop_oneof![Just(SoapVersion::V11), Just(SoapVersion::V12)]
}

fn packaging() -> impl Strategy<Value = Packaging> {
    prop::sample::select(Packaging::ALL)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        proptest::collection::vec(1usize..60, 1..6),
        proptest::collection::vec(1usize..50_000, 1..4),
    ]
}

fn payload(bytes: &[u8]) -> Value {
    Value::Data(Payload::Inline(Bytes::copy_from_slice(bytes)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_call_arrives_as_it_was_sent(
        data in value(),
        title in text(),
        more in proptest::collection::vec((text(), value()), 0..3),
        version in version(),
        packaging in packaging(),
        cuts in cuts(),
        key in proptest::option::of("[a-z]{1,8}"),
    ) {
        let mut arguments = vec![
            Argument::new("data", payload(&data)),
            Argument::text("title", &*title),
        ];
        for (label, bytes) in &more {
            arguments.push(Argument {
                name: "more".to_owned(),
                label: Some(label.clone()),
                value: payload(bytes),
            });
        }
        let form = RequestForm {
            wrapper: QName::new(NS, "call"),
            qualified: true,
            version,
            options: CallOptions { key: key.clone(), ..CallOptions::default() },
            arrays: None,
            items: Vec::new(),
        };
        let action = "urn:test#call";
        let packed = pack(&write_request(&form, &arguments).unwrap(), packaging, Some(action));
        prop_assert_eq!(packed.soap_action.is_some(), version == SoapVersion::V11);
        let body = Sink::default().body(&packed);
        let message = Message {
            content_type: &packed.content_type,
            soap_action: packed.soap_action.as_deref(),
            body,
        };
        let mut expected = vec![pair("data", &data), pair("title", title.as_bytes())];
        expected.extend(more.iter().map(|(label, bytes)| pair(&format!("more[{label}]"), bytes)));
        prop_assert_eq!(message.arguments(&cuts).unwrap(), expected);
        let (request, _) = message.request(&cuts);
        let request = request.unwrap();
        prop_assert_eq!(request.options.key, key);
        prop_assert_eq!(request.action.as_deref(), Some(action));
        prop_assert_eq!(request.version, version);
        prop_assert_eq!(request.packaging, packaging);
    }

    #[test]
    fn a_message_cut_short_or_changed_never_makes_it_panic(
        data in proptest::collection::vec(any::<u8>(), 0..40),
        packaging in packaging(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cuts in cuts(),
    ) {
        let form = RequestForm {
            wrapper: QName::new(NS, "call"),
            qualified: false,
            version: SoapVersion::V11,
            options: CallOptions::default(),
            arrays: None,
            items: Vec::new(),
        };
        let arguments = [Argument::new("data", payload(&data))];
        let packed = pack(&write_request(&form, &arguments).unwrap(), packaging, None);
        let mut body = Sink::default().body(&packed);
        let at = at.index(body.len());
        body[at] = byte;
        let message = Message { content_type: &packed.content_type, soap_action: None, body };
        let whole = message.arguments(&[usize::MAX]);
        prop_assert_eq!(message.arguments(&cuts).ok(), whole.ok());
    }
}

fn outputs() -> Vec<Parameter> {
    let job = vec![
        Parameter::new("id", DataType::String),
        Parameter::new("progress", DataType::Double).optional(),
    ];
    vec![
        Parameter::new("result", DataType::Int),
        Parameter::new("file", DataType::Raw),
        Parameter::new("log", DataType::String),
        Parameter::new("job", DataType::Record(job)).repeated(),
    ]
}

fn definition() -> fishplate_contract::VerbDefinition {
    let mut definition = interface().verbs[0].clone();
    definition.signature = Signature { inputs: Vec::new(), outputs: outputs() };
    definition
}

fn answer_to(packed: &PackedMessage, sink: &Sink) -> UnpackedMessage {
    let head = MessageHead { content_type: &packed.content_type, ..MessageHead::default() };
    let expected = ExpectedTable::response(QName::new(NS, "callResponse"), &outputs());
    let mut unpacker = Unpacker::new(&head, Box::new(expected), &WireLimits::default()).unwrap();
    let mut back = Sink::default();
    for chunk in sink.body(packed).chunks(100) {
        unpacker.feed(Bytes::copy_from_slice(chunk), &mut back).unwrap();
    }
    unpacker.finish(&mut back).unwrap()
}

fn form(version: SoapVersion, packaging: Packaging) -> ReplyForm {
    let content_type = version.media_type();
    ReplyForm {
        packaging,
        ..ReplyForm::of_head(&MessageHead { content_type, ..MessageHead::default() })
    }
}

#[test]
fn an_answer_arrives_as_it_was_sent() {
    let mut sink = Sink::default();
    let held = sink.create();
    sink.write(&held, Bytes::from(vec![b'z'; 70_001]));
    let record = |id: &str| Argument::new("job", Value::Record(vec![Argument::text("id", id)]));
    let values = [
        record("a"),
        Argument::text("result", "3"),
        record("b"),
        Argument::text("log", "esc \u{1b}[0m\r\n"),
        Argument::new("file", Value::Data(Payload::Spooled(held))),
    ];
    let job = SubmittedJob { id: JobId::from_bytes([9; 16]), existing: false };
    for version in [SoapVersion::V11, SoapVersion::V12] {
        for &packaging in Packaging::ALL {
            let form = form(version, packaging);
            let envelope = write_reply(&form, NS, &definition(), &values, Some(job));
            let packed = pack(&envelope, packaging, None);
            let reply = bind_reply(answer_to(&packed, &sink), &outputs()).unwrap();
            assert_eq!(reply.job, Some(job));
            let names: Vec<&str> = reply.outputs.iter().map(|o| o.name.as_str()).collect();
            assert_eq!(names, ["result", "file", "log", "job", "job"], "in the operation's order");
            let Value::Data(Payload::Spooled(file)) = &reply.outputs[1].value else { panic!() };
            assert_eq!(file.len(), 70_001);
            let Value::Text(log) = &reply.outputs[2].value else { panic!() };
            assert_eq!(log, "esc \u{FFFD}[0m\r\n", "what XML cannot hold is replaced");
            let Value::Record(fields) = &reply.outputs[4].value else { panic!() };
            assert_eq!(fields[0].name, "id");
        }
    }
}

#[test]
fn an_answer_without_files_is_plain_for_everybody() {
    let form = form(SoapVersion::V11, Packaging::Mtom);
    let envelope = write_reply(&form, NS, &definition(), &[Argument::text("result", "3")], None);
    let packed = pack(&envelope, form.packaging, None);
    assert_eq!(packed.content_type, "text/xml; charset=utf-8");
    let lacking = bind_reply(answer_to(&packed, &Sink::default()), &outputs()).unwrap_err();
    assert_eq!(lacking.parameter.as_deref(), Some("file"));
}

#[test]
fn every_fault_arrives_as_it_was_sent() {
    for version in [SoapVersion::V11, SoapVersion::V12] {
        for code in FaultCode::ALL {
            let mut form = form(version, Packaging::Plain);
            let block = |namespace: &str, local: &str| {
                let element = XmlElement::with_text(QName::new(namespace, local), "urn:uuid:1");
                HeaderBlock { must_understand: true, ..HeaderBlock::optional(element) }
            };
            form.headers = vec![block("urn:w", "Security"), block(crate::name::WSA, "MessageID")];
            let fault = Fault::new(*code, "what & why").parameter("x").limit("parts", 3);
            for namespace in [Some(NS), None] {
                let packed = pack(&write_fault(&form, namespace, &fault), form.packaging, None);
                let unpacked = answer_to(&packed, &Sink::default());
                let headers = &unpacked.envelope.headers;
                let addressing = crate::headers::addressing::read(headers);
                assert_eq!(addressing.relates_to.as_deref(), Some("urn:uuid:1"));
                let told = headers.iter().any(|h| h.element.name.local == "NotUnderstood");
                let should = *code == FaultCode::MustUnderstand && version == SoapVersion::V12;
                assert_eq!(told, should);
                assert_eq!(bind_reply(unpacked, &outputs()).unwrap_err(), fault);
            }
        }
    }
}

#[test]
fn fault_codes_are_those_of_the_version() {
    let text = |version, code| {
        let envelope = write_fault(&form(version, Packaging::Plain), None, &Fault::new(code, "no"));
        let packed = pack(&envelope, Packaging::Plain, None);
        String::from_utf8(Sink::default().body(&packed)).unwrap()
    };
    let older = text(SoapVersion::V11, FaultCode::MissingParameter);
    assert!(older.contains("<faultcode>soap:Client</faultcode>"), "{older}");
    let older = text(SoapVersion::V11, FaultCode::ProgramFailed);
    assert!(older.contains("<faultcode>soap:Server</faultcode>"), "{older}");
    let newer = text(SoapVersion::V12, FaultCode::QueueFull);
    assert!(newer.contains("<soap:Value>soap:Receiver</soap:Value>"), "{newer}");
    assert!(newer.contains(">code:QueueFull</soap:Value>"), "{newer}");
    let newer = text(SoapVersion::V12, FaultCode::InvalidAddressing);
    assert!(newer.contains(">code:InvalidAddressingHeader<"), "{newer}");
    for text in [older, newer] {
        roxmltree::Document::parse(&text).unwrap();
    }
}

//! Data by reference (paper 000, section 4.5) in every place and packaging, both ways.

use fishplate_contract::{
    Array, CallOptions, DataRef, Digest, ElementType, OutputChoice, OutputForm, SessionId,
};
use proptest::prelude::*;

use super::*;
use crate::bind::bind_reply;
use crate::envelope::{self, ArrayForm, HeaderBlock};
use crate::name::{WSA, WSA_2004, XDESCR};
use crate::pack::{pack, pack_reply};
use crate::write::{RequestForm, write_reply, write_request};
use crate::wsdl::DataView;

const VERSIONS: [SoapVersion; 2] = [SoapVersion::V11, SoapVersion::V12];

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::new("data", DataType::Raw),
        Parameter::new("model", DataType::Xml).optional(),
        Parameter::new("case", DataType::Dir).optional(),
        Parameter::new("m", DataType::from_name("float[,3]").unwrap()).optional(),
        Parameter::new("more", DataType::Raw).repeated(),
        Parameter::new("title", DataType::String).optional(),
        Parameter::new("x", DataType::Int).optional(),
    ]
}

/// The arguments of a call with these children, or why there are none.
fn bound(children: &str) -> Result<Vec<Argument>, Fault> {
    let root = envelope(SoapVersion::V11, "", children);
    bound_by("text/xml", root.as_bytes(), &[usize::MAX], &WireLimits::default())
}

fn bound_by(
    content_type: &str,
    body: &[u8],
    cuts: &[usize],
    limits: &WireLimits,
) -> Result<Vec<Argument>, Fault> {
    let unpacked = unpacked(content_type, "call", body, cuts, limits)?;
    let Body::Wrapper { children, .. } = unpacked.envelope.body else { panic!("no wrapper") };
    bind("call", &parameters(), children)
}

fn unpacked(
    content_type: &str,
    wrapper: &str,
    body: &[u8],
    cuts: &[usize],
    limits: &WireLimits,
) -> Result<UnpackedMessage, Fault> {
    let head = MessageHead { content_type, ..MessageHead::default() };
    let expected = ExpectedTable::response(QName::new(NS, wrapper), &parameters());
    let mut unpacker = Unpacker::new(&head, Box::new(expected), limits)?;
    let mut sink = Sink::default();
    let mut rest = Bytes::copy_from_slice(body);
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        unpacker.feed(rest.split_to((*cut).min(rest.len())), &mut sink)?;
    }
    unpacker.finish(&mut sink)
}

/// A reference of either version of WS-Addressing.
fn reference(namespace: &str, more: &str) -> String {
    format!(
        "<w:EndpointReference xmlns:w='{namespace}' xmlns:d='{XDESCR}'><w:Address>\n \
         http://foo.com/a?b&amp;c\n</w:Address>{more}</w:EndpointReference>"
    )
}

fn sha() -> Digest {
    Digest::Sha256([7; 32])
}

fn refers_to(argument: &Argument) -> &DataRef {
    match &argument.value {
        Value::Data(Payload::Reference(reference))
        | Value::Array(Array { data: Payload::Reference(reference), .. }) => reference,
        other => panic!("{other:?}"),
    }
}

#[test]
fn length_and_digest_are_told_in_the_metadata_or_beside_the_address() {
    let told = format!(
        "<d:Length> 5\n</d:Length><x xmlns='urn:x'>1<y/></x><d:Digest>{}</d:Digest>",
        sha()
    );
    let within = |namespace: &str| {
        reference(
            namespace,
            &format!(
                "<w:ReferenceParameters><z/></w:ReferenceParameters><w:Metadata>{told}</w:Metadata>"
            ),
        )
    };
    for text in [within(WSA), within(WSA_2004), reference(WSA, &told), reference(WSA_2004, &told)] {
        for (name, label) in
            [("data", ""), ("model", ""), ("case", ""), ("m", ""), ("more", " name='n'")]
        {
            let data = if name == "data" { "" } else { "<data/>" };
            let arguments = bound(&format!("{data}<{name}{label}> {text} </{name}>")).unwrap();
            let expected = DataRef {
                url: "http://foo.com/a?b&c".to_owned(),
                len: Some(5),
                digest: Some(sha()),
            };
            assert_eq!(refers_to(arguments.last().unwrap()), &expected, "{name}: {text}");
        }
    }
    let plain = bound(&format!("<data>{}</data>", reference(WSA, ""))).unwrap();
    assert_eq!(refers_to(&plain[0]), &DataRef::new("http://foo.com/a?b&c"));
}

#[test]
fn what_is_wrong_in_a_reference_is_named() {
    let long = format!("<d:Length>{}</d:Length>", "0".repeat(5000));
    let named = [
        ("<d:Length>-1</d:Length>", "Length", FaultCode::InvalidValue),
        ("<d:Length>+1</d:Length>", "Length", FaultCode::InvalidValue),
        ("<d:Length/>", "Length", FaultCode::InvalidValue),
        ("<d:Length>18446744073709551616</d:Length>", "Length", FaultCode::InvalidValue),
        (
            "<d:Length>1</d:Length><w:Metadata><d:Length>1</d:Length></w:Metadata>",
            "two lengths",
            FaultCode::InvalidValue,
        ),
        ("<d:Digest/>", "sha-256", FaultCode::InvalidValue),
        ("<d:Digest>md5=:AAAA:</d:Digest>", "md5=:AAAA:", FaultCode::InvalidValue),
        ("<d:Digest>sha-256=:AAAA:</d:Digest>", "sha-256=:AAAA:", FaultCode::InvalidValue),
        (
            "<d:Digest>sha-512=:AAAA:</d:Digest><d:Digest/>",
            "sha-512=:AAAA:",
            FaultCode::InvalidValue,
        ),
        ("<w:Address>http://h/</w:Address>", "one Address", FaultCode::InvalidValue),
        ("text", "text", FaultCode::MalformedMessage),
        ("<d:Length><d:Length>1</d:Length></d:Length>", "Length", FaultCode::MalformedMessage),
        (&long, "header_length", FaultCode::MessageTooLarge),
    ];
    for (more, why, code) in named {
        for name in ["data", "m"] {
            let fault = bound(&format!("<{name}>{}</{name}>", reference(WSA, more))).unwrap_err();
            assert_eq!(fault.code, code, "{more}");
            assert!(fault.message.contains(why), "{more}: {}", fault.message);
            if code == FaultCode::InvalidValue {
                assert_eq!(fault.parameter.as_deref(), Some(name), "{more}");
            }
        }
    }
    let two = format!("<d:Digest>{}</d:Digest>", sha()).repeat(2);
    let fault = bound(&format!("<data>{}</data>", reference(WSA, &two))).unwrap_err();
    assert!(fault.message.contains("two digests"), "{}", fault.message);
    for address in ["", " \n", "cid:a", "CID:a", "http://h/\u{FFFE}"] {
        let text = format!(
            "<data><EndpointReference xmlns='{WSA}'><Address>{address}</Address>\
             </EndpointReference></data>"
        );
        assert_eq!(bound(&text).unwrap_err().code, FaultCode::InvalidValue, "{address}");
    }
    let none = format!("<data><EndpointReference xmlns='{WSA}'/></data>");
    assert!(bound(&none).unwrap_err().message.contains("without an Address"));
}

#[test]
fn only_files_and_arrays_go_by_reference() {
    for name in ["title", "x"] {
        let fault = bound(&format!("<data/><{name}>{}</{name}>", reference(WSA, ""))).unwrap_err();
        assert_eq!(fault.code, FaultCode::InvalidValue);
        assert_eq!(fault.parameter.as_deref(), Some(name));
        assert!(fault.message.contains("by value only"), "{}", fault.message);
    }
    let text = reference(WSA, "");
    for beside in [
        format!("<data>aGVs{text}</data>"),
        format!("<data>{text}aGVs</data>"),
        format!("<data>{text}{text}</data>"),
        format!("<data><v:Value xmlns:v='{XDESCR}'>{text}</v:Value></data>"),
        format!("<data><v:Value xmlns:v='{XDESCR}'/>{text}</data>"),
        format!("<data/><m><i>1</i>{text}</m>"),
        format!("<data/><m>{text}<i>1</i></m>"),
        format!("<data/><m><v:XMLData xmlns:v='{XDESCR}'><a/></v:XMLData></m>"),
    ] {
        assert_eq!(bound(&beside).unwrap_err().code, FaultCode::InvalidValue, "{beside}");
    }
}

#[test]
fn a_reference_to_an_array_may_tell_its_shape() {
    let text = reference(WSA, "<d:Length>24</d:Length>");
    let arguments = bound(&format!("<data/><m shape='2 3' type='float'>{text}</m>")).unwrap();
    let Value::Array(array) = &arguments[1].value else { panic!("{arguments:?}") };
    assert_eq!((array.element, &array.shape[..]), (ElementType::Float, &[2, 3][..]));
    let arguments = bound(&format!("<data/><m>{text}</m>")).unwrap();
    assert!(matches!(arguments[1].value, Value::Data(Payload::Reference(_))), "it shows there");
    for wrong in ["shape='2 4'", "shape='2'", "type='int'"] {
        let fault = bound(&format!("<data/><m {wrong}>{text}</m>")).unwrap_err();
        assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some("m")));
    }
    // It does not tell how arrays are wanted in the answer.
    let root = envelope(SoapVersion::V11, "", &format!("<data/><m shape='2 3'>{text}</m>"));
    let unpacked =
        unpacked("text/xml", "call", root.as_bytes(), &[usize::MAX], &WireLimits::default())
            .unwrap();
    assert_eq!(unpacked.reply_form.arrays, None);
}

#[test]
fn a_value_may_have_an_element_of_its_own() {
    let value = |content: &str| format!("<v:Value xmlns:v='{XDESCR}'{content}</v:Value>");
    for (content, bytes) in [(">aGVsbG8=", &b"hello"[..]), ("> aGVs\nbG8=\n", b"hello"), (">", b"")]
    {
        let arguments = bound(&format!("<data>\n{}\n</data>", value(content))).unwrap();
        let Value::Data(payload) = &arguments[0].value else { panic!() };
        assert_eq!(Sink::default().bytes(payload), bytes);
    }
    let floats = "AACAPwAAAEAAAEBA";
    let arguments = bound(&format!("<data/><m>{}</m>", value(&format!(">{floats}")))).unwrap();
    let Value::Array(array) = &arguments[1].value else { panic!() };
    assert_eq!(array.shape, [1, 3]);
    for wrong in [">aGVs<x/>", "><v:Value/>", "><v:XMLData><a/></v:XMLData>"] {
        let fault = bound(&format!("<data>{}</data>", value(wrong))).unwrap_err();
        assert_eq!(fault.code, FaultCode::InvalidValue, "{wrong}");
    }
    for outside in ["aGVs", "<v/>"] {
        for text in [format!("{}{outside}", value(">aGVs")), format!("{outside}{}", value(">aGVs"))]
        {
            let fault = bound(&format!("<data>{text}</data>")).unwrap_err();
            assert_eq!(fault.code, FaultCode::InvalidValue, "{text}");
        }
    }
}

fn data_ref() -> impl Strategy<Value = DataRef> {
    let digest = prop_oneof![
        Just(None),
        any::<[u8; 32]>().prop_map(|bytes| Some(Digest::Sha256(bytes))),
        proptest::collection::vec(any::<u8>(), 64)
            .prop_map(|bytes| Some(Digest::Sha512(bytes.try_into().unwrap()))),
    ];
    let url = "(https?|ftp|s3|session)://?[a-z&<>'\"é%0-9/?;=]{1,40}[a-z]";
    (url, proptest::option::of(any::<u64>()), digest).prop_map(|(url, len, digest)| DataRef {
        url,
        len,
        digest,
    })
}

fn file() -> impl Strategy<Value = Payload> {
    prop_oneof![
        data_ref().prop_map(Payload::Reference),
        proptest::collection::vec(any::<u8>(), 0..30)
            .prop_map(|bytes| Payload::Inline(bytes.into())),
    ]
}

fn matrix() -> impl Strategy<Value = Value> {
    let array = |shape, data| Value::Array(Array { element: ElementType::Float, shape, data });
    prop_oneof![
        data_ref().prop_map(|to| Value::Data(Payload::Reference(to))),
        (0u64..9, data_ref()).prop_map(move |(n, to)| array(vec![n, 3], Payload::Reference(to))),
        (1u64..4).prop_map(move |n| {
            let bytes: Vec<u8> = (0..n * 3).flat_map(|n| (n as f32).to_le_bytes()).collect();
            array(vec![n, 3], Payload::Inline(bytes.into()))
        }),
    ]
}

fn values() -> impl Strategy<Value = Vec<Argument>> {
    let more = proptest::collection::vec(("[a-z&]{0,4}", file()), 0..3);
    (file(), matrix(), more).prop_map(|(data, m, more)| {
        let mut values = vec![Argument::new("data", Value::Data(data)), Argument::new("m", m)];
        values.extend(more.into_iter().map(|(label, payload)| Argument {
            name: "more".to_owned(),
            label: Some(label),
            value: Value::Data(payload),
        }));
        values
    })
}

/// What a value is, for comparison.
fn told(value: &Value) -> String {
    let payload = |payload: &Payload| match payload {
        Payload::Reference(to) => format!("-> {to:?}"),
        other => format!("{:?}", Sink::default().bytes(other)),
    };
    match value {
        Value::Data(data) => payload(data),
        Value::Array(Array { element, shape, data }) => {
            format!("{element:?}{shape:?} {}", payload(data))
        }
        other => format!("{other:?}"),
    }
}

fn all_told(values: &[Argument]) -> Vec<(String, Option<String>, String)> {
    let of = |value: &Argument| (value.name.clone(), value.label.clone(), told(&value.value));
    values.iter().map(of).collect()
}

fn choices() -> impl Strategy<Value = Vec<OutputChoice>> {
    let choice = (
        "[a-z]{1,4}|\\*",
        prop::sample::select(&OutputForm::ALL[..]),
        proptest::option::of("(mailto:|s3://)[a-z@\"&<]{1,9}z"),
    );
    proptest::collection::vec(choice, 0..4).prop_map(|choices| {
        let mut made: Vec<OutputChoice> = Vec::new();
        for (name, form, to) in choices {
            let to = to.filter(|_| form != OutputForm::Value);
            if made.iter().all(|other| other.name != name) {
                made.push(OutputChoice { name, form, to });
            }
        }
        made
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_call_with_references_and_options_arrives_as_it_was_sent(
        values in values(),
        outputs in choices(),
        session in proptest::option::of(any::<[u8; 16]>()),
        key in proptest::option::of("[a-z]{1,8}"),
        version in prop::sample::select(&VERSIONS[..]),
        arrays in prop::sample::select(&[None, Some(ArrayForm::Binary), Some(ArrayForm::Elements)][..]),
        cut in 1usize..300,
    ) {
        let options = CallOptions {
            key,
            session: session.map(SessionId::from_bytes),
            outputs,
            ..CallOptions::default()
        };
        for &packaging in Packaging::ALL {
            let form = RequestForm {
                wrapper: QName::new(NS, "call"),
                qualified: true,
                version,
                options: options.clone(),
                arrays,
                items: Vec::new(),
            };
            let packed = pack(&write_request(&form, &values).unwrap(), packaging, Some("urn:test#call"));
            let body = Sink::default().body(&packed);
            let limits = WireLimits::default();
            let arguments = bound_by(&packed.content_type, &body, &[cut], &limits).unwrap();
            prop_assert_eq!(all_told(&arguments), all_told(&values), "{:?}", packaging);
            let sent = unpacked(&packed.content_type, "call", &body, &[cut], &limits).unwrap();
            prop_assert_eq!(read(sent).unwrap().options, options.clone());
        }
    }

    #[test]
    fn an_answer_with_references_arrives_in_every_view(
        values in values(),
        version in prop::sample::select(&VERSIONS[..]),
        arrays in prop::sample::select(&[None, Some(ArrayForm::Binary)][..]),
        cut in 1usize..300,
    ) {
        let name = QName::new(crate::name::OPTIONS, "outputs");
        let chosen = vec![HeaderBlock::optional(envelope::XmlElement { name, ..Default::default() })];
        for &packaging in Packaging::ALL {
            for data in [DataView::Plain, DataView::Xdescr] {
                let content_type = version.media_type();
                let form = ReplyForm {
                    packaging,
                    arrays,
                    data,
                    headers: chosen.clone(),
                    ..ReplyForm::of_head(&MessageHead { content_type, ..MessageHead::default() })
                };
                let definition = &interface().verbs[0];
                let envelope = write_reply(&form, NS, definition, &values, None);
                let packed = pack_reply(&envelope, &form);
                let body = Sink::default().body(&packed);
                let limits = WireLimits::default();
                let unpacked =
                    unpacked(&packed.content_type, "callResponse", &body, &[cut], &limits).unwrap();
                let reply = bind_reply(unpacked, &parameters()).unwrap();
                prop_assert_eq!(all_told(&reply.outputs), all_told(&values), "{:?}", packaging);
                for value in &values {
                    let form = match &value.value {
                        Value::Data(Payload::Reference(_))
                        | Value::Array(Array { data: Payload::Reference(_), .. }) => {
                            OutputForm::Reference
                        }
                        _ => OutputForm::Value,
                    };
                    let choice = OutputChoice { name: value.name.clone(), form, to: None };
                    prop_assert!(reply.chosen.contains(&choice));
                }
            }
        }
    }
}

#[test]
fn an_answer_is_as_figure_7_shows() {
    let reference = DataRef {
        url: "http://foo.com/aaaa".to_owned(),
        len: Some(5),
        digest: Some(Digest::Sha256([0; 32])),
    };
    let values = [Argument::new("data", Value::Data(Payload::Reference(reference)))];
    let head = MessageHead { content_type: "text/xml", ..MessageHead::default() };
    let form = ReplyForm { packaging: Packaging::Mtom, ..ReplyForm::of_head(&head) };
    let envelope = write_reply(&form, NS, &interface().verbs[0], &values, None);
    let packed = pack_reply(&envelope, &form);
    assert_eq!(packed.content_type, "text/xml; charset=utf-8", "there is nothing to attach");
    let text = String::from_utf8(Sink::default().body(&packed)).unwrap();
    let zeros = "A".repeat(43);
    let expected = format!(
        "<w:data><wsa:EndpointReference xmlns:wsa=\"{WSA}\"><wsa:Address>http://foo.com/aaaa\
         </wsa:Address><wsa:Metadata xmlns:x=\"{XDESCR}\"><x:Length>5</x:Length>\
         <x:Digest>sha-256=:{zeros}=:</x:Digest></wsa:Metadata></wsa:EndpointReference></w:data>"
    );
    assert!(text.contains(&expected), "{text}");
    assert!(!text.contains("outputs"), "nobody chose");
}

#[test]
fn a_list_of_jobs_holds_reports_that_hold_transfers() {
    let interface = interface();
    let definition = interface.find("jobs").unwrap();
    let record = |name: &str, fields| Argument::new(name, Value::Record(fields));
    let transfer = |of: &str| {
        record(
            "transfer",
            vec![
                Argument::text("parameter", of),
                Argument::text("state", "done"),
                Argument::text("bytes", "1"),
            ],
        )
    };
    let job = |id: &str, transfers: Vec<Argument>| {
        let mut fields = vec![Argument::text("id", id), Argument::text("state", "fetching")];
        fields.extend(transfers);
        record("job", fields)
    };
    let values = [
        job("a", vec![transfer("x"), transfer("y")]),
        job("b", Vec::new()),
        job("c", vec![transfer("z")]),
        Argument::text("more", "false"),
    ];
    for version in VERSIONS {
        let content_type = version.media_type();
        let form = ReplyForm::of_head(&MessageHead { content_type, ..MessageHead::default() });
        let packed = pack_reply(&write_reply(&form, NS, definition, &values, None), &form);
        let head = MessageHead { content_type: &packed.content_type, ..MessageHead::default() };
        let outputs = &definition.signature.outputs;
        let expected = ExpectedTable::response(QName::new(NS, "jobsResponse"), outputs);
        let mut unpacker =
            Unpacker::new(&head, Box::new(expected), &WireLimits::default()).unwrap();
        let mut sink = Sink::default();
        unpacker.feed(Sink::default().body(&packed).into(), &mut sink).unwrap();
        let unpacked = unpacker.finish(&mut sink).unwrap();
        let Body::Wrapper { children, .. } = unpacked.envelope.body else { panic!("no wrapper") };
        // Only what these reports leave out is missing.
        let back = crate::bind::arguments(outputs, children).unwrap();
        assert_eq!(format!("{back:?}"), format!("{values:?}"));
    }
}

#[test]
fn a_url_that_xml_cannot_hold_is_refused() {
    let form = RequestForm {
        wrapper: QName::new(NS, "call"),
        qualified: true,
        version: SoapVersion::V11,
        options: CallOptions::default(),
        arrays: None,
        items: Vec::new(),
    };
    let argument = Argument::new("data", Value::Data(Payload::Reference(DataRef::new("a\u{1}"))));
    let fault = write_request(&form, &[argument]).unwrap_err();
    assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some("data")));
}

#[test]
fn a_session_and_its_context_come_back_with_the_answer() {
    let id = SessionId::from_bytes([5; 16]);
    for must in ["", "s:mustUnderstand='1' "] {
        for version in VERSIONS {
            let namespace = version.namespace();
            let context = |identifier: &str| {
                format!(
                    "<c:context xmlns:c='{}' xmlns:s='{namespace}' {must}expiresAt='x'>\
                     <c:context-identifier>{identifier}</c:context-identifier></c:context>",
                    crate::name::WSCTX
                )
            };
            let sent = |identifier: &str| {
                let root = envelope(version, &context(identifier), "<data/>");
                let limits = WireLimits::default();
                unpacked(version.media_type(), "call", root.as_bytes(), &[9], &limits).unwrap()
            };
            let ours = sent(&format!("urn:fishplate:session:{id}"));
            let form = ours.reply_form.clone();
            assert_eq!(read(ours).unwrap().options.session, Some(id));
            for text in [
                write_reply(&form, NS, &interface().verbs[0], &[], None),
                crate::write::write_fault(&form, None, &Fault::new(FaultCode::NoSuchSession, "x")),
            ] {
                let packed = pack_reply(&text, &form);
                let text = String::from_utf8(Sink::default().body(&packed)).unwrap();
                assert!(
                    text.contains(&format!("urn:fishplate:session:{id}</context-id")),
                    "{text}"
                );
                assert!(!text.contains("mustUnderstand=") && !text.contains("expiresAt"), "{text}");
            }
            let other = read(sent("http://e.example/transaction"));
            match must {
                "" => assert_eq!(other.unwrap().options.session, None),
                _ => assert_eq!(other.unwrap_err().code, FaultCode::MustUnderstand),
            }
        }
    }
}

//! Arrays in both forms: the same numbers, or a fault that says where it is wrong.

use fishplate_contract::{Array, ElementType};
use proptest::prelude::*;

use super::*;
use crate::bind::bind_reply;
use crate::envelope::ArrayForm;
use crate::pack::pack;
use crate::packaging::Packaging;
use crate::write::{RequestForm, write_reply, write_request};

fn of(text: &str) -> DataType {
    DataType::from_name(text).unwrap()
}

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::new("n", DataType::Int).optional(),
        Parameter::new("v", of("float[]")).optional(),
        Parameter::new("m", of("double[][]")).optional(),
        Parameter::new("k", of("int[3]")).optional(),
        Parameter::new("t", of("long[n,3]")).optional(),
        Parameter::new("c", of("int[][][]")).optional(),
        Parameter::new("r", of("int[]")).repeated(),
        Parameter::new("s", DataType::String).optional(),
    ]
}

fn limits() -> WireLimits {
    WireLimits { inline_size: 100, children: 50, ..WireLimits::default() }
}

/// The parcel of a message cut into chunks of these sizes again and again.
fn unpacked(
    content_type: &str,
    body: &[u8],
    sizes: &[usize],
    limits: &WireLimits,
) -> Result<(UnpackedMessage, Sink), Fault> {
    let expected = ExpectedTable::response(QName::new(NS, "call"), &parameters());
    let head = MessageHead { content_type, ..MessageHead::default() };
    let mut unpacker = Unpacker::new(&head, Box::new(expected), limits)?;
    let mut sink = Sink::default();
    let mut rest = Bytes::copy_from_slice(body);
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        unpacker.feed(rest.split_to((*size).min(rest.len())), &mut sink)?;
    }
    Ok((unpacker.finish(&mut sink)?, sink))
}

/// Name, shape and bytes.
type Shown = Vec<(String, Vec<u64>, Vec<u8>)>;

fn shown(arguments: Vec<Argument>, sink: &Sink) -> Shown {
    let shown = |argument: Argument| match argument.value {
        Value::Array(Array { shape, data, .. }) => (argument.name, shape, sink.bytes(&data)),
        Value::Text(text) => (argument.name, Vec::new(), text.into_bytes()),
        other => panic!("no {other:?} here"),
    };
    arguments.into_iter().map(shown).collect()
}

fn read_cut(children: &str, sizes: &[usize]) -> Result<Shown, Fault> {
    let body = envelope(SoapVersion::V11, "", children);
    let (unpacked, sink) = unpacked("text/xml", body.as_bytes(), sizes, &limits())?;
    let request = read(unpacked)?;
    Ok(shown(bind("call", &parameters(), request.children)?, &sink))
}

/// What the values of a call come to, however it is cut.
fn values(children: &str) -> Result<Shown, Fault> {
    let whole = read_cut(children, &[usize::MAX]);
    for sizes in [&[1][..], &[2], &[7, 3], &[64]] {
        assert_eq!(read_cut(children, sizes), whole, "{sizes:?}");
    }
    whole
}

fn fault(children: &str) -> String {
    let fault = values(children).expect_err(children);
    assert_eq!(fault.code, FaultCode::InvalidValue, "{fault:?}");
    assert!(fault.parameter.is_some(), "{fault:?}");
    fault.message
}

fn le<const N: usize>(numbers: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    numbers.into_iter().flatten().collect()
}

fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let mut encoder = crate::Base64Encoder::default();
    encoder.encode(bytes, &mut text);
    encoder.finish(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn both_forms_are_the_same_array() {
    let floats = le([1.5f32, -0.0, f32::INFINITY, 1e-45].map(f32::to_le_bytes));
    let doubles = le([1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0].map(f64::to_le_bytes));
    let rows = [
        "<s:m><s:item><s:item>1</s:item><s:item>2</s:item><s:item>3</s:item></s:item>\
         <s:item><s:item>4</s:item><s:item>5</s:item><s:item>6</s:item></s:item></s:m>",
        "<m>\n <x>\n <y> 1.0 </y><!-- a --><z a='b'>2<!-- b -->e0</z>\r\n <y>&#x33;</y></x>\n\
         <x><y>4</y><y><![CDATA[5]]></y><y>6.</y></x></m>",
    ];
    for rows in rows {
        let expected = vec![("m".to_owned(), vec![2, 3], doubles.clone())];
        assert_eq!(values(rows).unwrap(), expected, "{rows}");
    }
    let list = "<v><i>1.5</i><i>-0</i><i>INF</i><i>1e-45</i></v>";
    assert_eq!(values(list).unwrap(), [("v".to_owned(), vec![4], floats.clone())]);
    let text = base64(&floats);
    for list in [
        format!("<v>{text}</v>"),
        format!("<v type='float' shape='4'>\n{text}\n</v>"),
        format!("<v type=' xs:float ' shape=' 4 '>{text}</v>"),
    ] {
        assert_eq!(values(&list).unwrap(), [("v".to_owned(), vec![4], floats.clone())], "{list}");
    }
    let rows = format!("<m shape='2 3'>{}</m>", base64(&doubles));
    assert_eq!(values(&rows).unwrap(), [("m".to_owned(), vec![2, 3], doubles)]);
}

#[test]
fn a_shape_is_taken_from_what_is_known() {
    let ints = le([1i32, 2, 3].map(i32::to_le_bytes));
    let text = base64(&ints);
    assert_eq!(values(&format!("<k>{text}</k>")).unwrap()[0].1, [3]);
    let longs = base64(&le((0..6i64).map(i64::to_le_bytes)));
    assert_eq!(values(&format!("<t>{longs}</t>")).unwrap()[0].1, [2, 3]);
    assert!(fault(&format!("<m>{longs}</m>")).contains("give it in the attribute shape"));
    assert!(fault(&format!("<t>{text}</t>")).contains("12 bytes do not tell its shape"));
    assert!(fault("<v>AAAA</v>").contains("3 bytes do not tell its shape"));
}

#[test]
fn empty_arrays_have_the_lengths_that_are_known() {
    for (children, shape) in [
        ("<v/>", &[0][..]),
        ("<v> \n</v>", &[0]),
        ("<v shape='0'/>", &[0]),
        ("<m/>", &[0, 0]),
        ("<m shape='0 7'/>", &[0, 7]),
        ("<m shape='7 0'></m>", &[7, 0]),
        ("<m><r/><r/></m>", &[2, 0]),
        ("<m shape='2 0'><r/><r> </r></m>", &[2, 0]),
        ("<t/>", &[0, 3]),
        ("<c><p><r/><r/></p></c>", &[1, 2, 0]),
        ("<c><p/><p/></c>", &[2, 0, 0]),
    ] {
        let values = values(children).unwrap();
        assert_eq!((&values[0].1[..], values[0].2.len()), (shape, 0), "{children}");
    }
    assert!(fault("<k/>").contains("it is 0"));
    // Rows without numbers are children like others.
    let many = "<r/>".repeat(51);
    for children in [format!("<m>{many}</m>"), "<m shape='51 0'/>".to_owned()] {
        let fault = values(&children).unwrap_err();
        assert_eq!(fault.limit.unwrap().name, "children");
    }
    let huge = u64::MAX;
    assert!(values(&format!("<c shape='{huge} {huge} 0'/>")).is_err());
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (children, told) in [
        (
            "<m><r><x>1</x><x>2</x></r><r><x>3</x></r></m>",
            "row 2 has 1 items, where the first has 2",
        ),
        (
            "<m><r><x>1</x></r><r><x>2</x><x>3</x></r></m>",
            "row 2 has 2 items, where the first has 1",
        ),
        ("<m><r><x>1</x><x>abc</x></r></m>", "row 1, column 2: \"abc\" is not a number such as"),
        ("<m><r><x/></r></m>", "row 1, column 1: \"\" is not"),
        ("<v><x>1</x><x>1 2</x></v>", "item 2: \"1 2\" is not"),
        ("<v><x>1</x><x>1.5.2</x></v>", "item 2: \"1.5.2\" is not"),
        ("<c><p><r><x>1</x><x>1.5</x></r></p></c>", "item 1, 1, 2: \"1.5\" is not a whole number"),
        ("<k><x>1</x><x>2</x></k>", "it is 2"),
        ("<k><x>2147483648</x></k>", "is not a whole number from"),
        ("<m><r>7</r></m>", "row 1 holds the text \"7\", not elements"),
        ("<m><r><x>1</x></r>7</m>", "it holds the text \"7\", not elements"),
        ("<v><x>1</x><x><y/></x></v>", "item 2 holds the element y, not a number"),
        (
            "<v xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><x>1</x><x i:nil='1'/></v>",
            "item 2 is nil",
        ),
        ("<v type='double'><x>1</x></v>", "its attribute type says \"double\""),
        ("<v type='decimal'/>", "its attribute type says \"decimal\""),
        ("<m shape='3'/>", "its attribute shape is \"3\""),
        ("<v shape='-1'/>", "its attribute shape is \"-1\""),
        ("<v shape='2'><x>1</x></v>", "its elements are 1, where its attribute shape says 2"),
        ("<v shape='3'>AAAAAAAAAAA=</v>", "as 3 it has 12 bytes, but 8 came"),
        ("<v shape='18446744073709551614'/>", "more bytes than can be counted"),
        ("<v>AA!A</v>", "not base64"),
        ("<v>AAAAAA==<x>1</x></v>", "more than one value"),
        ("<n>2</n><t><r><x>1</x><x>2</x><x>3</x></r></t>", "dimension n is 1, but the parameter n"),
        ("<t><r><x>1</x><x>2</x></r></t>", "it is 1 x 2"),
    ] {
        let message = fault(children);
        assert!(message.contains(told), "{children}: {message}");
    }
    let nil = "<v xmlns:i='http://www.w3.org/2001/XMLSchema-instance' i:nil='true'/>";
    assert_eq!(values(nil).unwrap(), []);
}

#[test]
fn an_array_may_be_a_part_of_the_message() {
    let root = envelope(
        SoapVersion::V11,
        "",
        "<v type='float' shape='2'><i:Include xmlns:i='http://www.w3.org/2004/08/xop/include' \
         href='cid:a'/></v>",
    );
    let floats = le([0.1f32, 0.2].map(f32::to_le_bytes));
    let mut body = format!("--b\r\n\r\n{root}\r\n--b\r\nContent-ID: <a>\r\n\r\n").into_bytes();
    body.extend_from_slice(&floats);
    body.extend_from_slice(b"\r\n--b--");
    for sizes in [[1], [1000]] {
        let media = "multipart/related; boundary=b";
        let (unpacked, sink) = unpacked(media, &body, &sizes, &limits()).unwrap();
        assert_eq!(unpacked.reply_form.arrays, Some(ArrayForm::Binary));
        let request = read(unpacked).unwrap();
        let bound = bind("call", &parameters(), request.children).unwrap();
        assert_eq!(shown(bound, &sink), [("v".to_owned(), vec![2], floats.clone())]);
    }
}

#[test]
fn items_are_neither_children_nor_part_of_the_envelope() {
    let limits = WireLimits { envelope_size: 1000, children: 10, ..WireLimits::default() };
    let rows = "<row><item>1.5</item><item/></row>".replace("<item/>", "<item>2</item>\n");
    let body = envelope(SoapVersion::V11, "", &format!("<m>{}</m>", rows.repeat(1000)));
    for size in [1, 50, usize::MAX] {
        let (unpacked, _) = unpacked("text/xml", body.as_bytes(), &[size], &limits).unwrap();
        assert!(matches!(unpacked.envelope.body, Body::Wrapper { .. }));
    }
    let long = format!("<v><x>{}</x></v>", "1".repeat(2000));
    let limits = WireLimits { text_size: 1999, ..WireLimits::default() };
    let body = envelope(SoapVersion::V11, "", &long);
    let fault = unpacked("text/xml", body.as_bytes(), &[100], &limits).err().unwrap();
    assert_eq!(fault.limit.unwrap().name, "text_size");
}

#[test]
fn an_answer_is_in_the_form_of_its_request() {
    let form = |header: &str, query: &str, children: &str| {
        let body = envelope(SoapVersion::V11, header, children);
        let head =
            MessageHead { content_type: "text/xml", query: Some(query), ..MessageHead::default() };
        let expected = ExpectedTable::response(QName::new(NS, "call"), &parameters());
        let mut unpacker =
            Unpacker::new(&head, Box::new(expected), &WireLimits::default()).unwrap();
        let mut sink = Sink::default();
        unpacker.feed(body.into(), &mut sink).unwrap();
        unpacker.finish(&mut sink).unwrap().reply_form
    };
    let told =
        |text: &str| format!("<o:arrays xmlns:o='urn:fishplate:options:1'>{text}</o:arrays>");
    let (rows, bytes) = ("<v><x>1</x></v>", "<v>AAAAAA==</v>");
    for (header, query, children, arrays) in [
        ("", "", "", None),
        ("", "", rows, Some(ArrayForm::Elements)),
        ("", "", bytes, Some(ArrayForm::Binary)),
        ("", "arrays=binary", rows, Some(ArrayForm::Binary)),
        ("", "binding=dime", "", Some(ArrayForm::Binary)),
        (&*told("elements"), "arrays=binary", bytes, Some(ArrayForm::Elements)),
        (&*told("binary"), "", rows, Some(ArrayForm::Binary)),
    ] {
        let form = form(header, query, children);
        assert_eq!(form.arrays, arrays, "{header} {query} {children}");
        let dime = query == "binding=dime";
        assert_eq!(form.packaging, if dime { Packaging::Dime } else { Packaging::Plain });
    }
}

#[test]
fn elements_have_the_names_that_a_description_gives() {
    let numbers = le([1i32, 2].map(i32::to_le_bytes));
    let data = Payload::Inline(numbers.into());
    let array = Array { element: ElementType::Int, shape: vec![1, 2], data };
    let arguments = [Argument::new("m", Value::Array(array))];
    let written = |qualified: bool, names: &[(&str, &str)]| {
        let names = names.iter().map(|(namespace, local)| QName::new(*namespace, *local));
        let form = RequestForm {
            wrapper: QName::new("urn:a", "call"),
            qualified,
            version: SoapVersion::V11,
            options: fishplate_contract::CallOptions::default(),
            arrays: None,
            items: vec![("m".to_owned(), names.collect())],
        };
        let packed = pack(&write_request(&form, &arguments).unwrap(), Packaging::Plain, None);
        let text = String::from_utf8(Sink::default().body(&packed)).unwrap();
        roxmltree::Document::parse(&text).unwrap();
        let begin = text.find("<w:call").unwrap();
        text[begin..text.find("</w:call>").unwrap()].replace("<w:call xmlns:w=\"urn:a\">", "")
    };
    for (qualified, names, expected) in [
        (true, &[][..], "<w:m xmlns=\"urn:a\"><item><item>1</item><item>2</item></item></w:m>"),
        (false, &[], "<m><item><item>1</item><item>2</item></item></m>"),
        (true, &[("", "r"), ("", "x")], "<w:m><r><x>1</x><x>2</x></r></w:m>"),
        (
            false,
            &[("urn:b", "r"), ("urn:b", "x")],
            "<m xmlns=\"urn:b\"><r><x>1</x><x>2</x></r></m>",
        ),
        (
            true,
            &[("urn:b", "r"), ("", "x")],
            "<w:m xmlns:i0=\"urn:b\"><i0:r><x>1</x><x>2</x></i0:r></w:m>",
        ),
    ] {
        assert_eq!(written(qualified, names), expected);
    }
}

fn element() -> impl Strategy<Value = ElementType> {
    prop::sample::select(&ElementType::ALL[..])
}

/// Any bits, NaN in its one form, and many that are alike.
fn numbers(element: ElementType, count: usize) -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![any::<u64>(), 0u64..100, Just(f64::NAN.to_bits())];
    proptest::collection::vec(number, count).prop_map(move |bits| {
        let bytes = |bits: u64| match element {
            ElementType::Int => bits.to_le_bytes()[..4].to_vec(),
            ElementType::Long => bits.to_le_bytes().to_vec(),
            ElementType::Float => {
                let low = bits.to_le_bytes();
                let number = f32::from_le_bytes([low[0], low[1], low[2], low[3]]);
                if number.is_nan() { f32::NAN } else { number }.to_le_bytes().to_vec()
            }
            ElementType::Double => {
                let number = f64::from_bits(bits);
                if number.is_nan() { f64::NAN } else { number }.to_le_bytes().to_vec()
            }
        };
        bits.into_iter().flat_map(bytes).collect()
    })
}

fn array() -> impl Strategy<Value = (ElementType, Vec<u64>, Vec<u8>)> {
    let shape = proptest::collection::vec(0u64..6, 1..4);
    let long = (0u64..4000).prop_map(|length| vec![length]);
    (element(), prop_oneof![4 => shape, 1 => long]).prop_flat_map(|(element, shape)| {
        let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
        (Just(element), Just(shape), numbers(element, count))
    })
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        proptest::collection::vec(1usize..60, 1..6),
        proptest::collection::vec(1usize..50_000, 1..4),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_array_arrives_to_the_last_bit(
        (element, shape, bytes) in array(),
        pieces in 1usize..5000,
        spooled in any::<bool>(),
        arrays in prop::sample::select(&ArrayForm::ALL[..]),
        packaging in prop::sample::select(Packaging::ALL),
        cuts in cuts(),
        call in any::<bool>(),
    ) {
        let mut sink = Sink::default();
        let held = sink.create();
        let data = if spooled && !bytes.is_empty() {
            sink.write(&held, Bytes::copy_from_slice(&bytes));
            Payload::Spooled(held)
        } else {
            Payload::Pieces(bytes.chunks(pieces).map(Bytes::copy_from_slice).collect())
        };
        let array = Array { element, shape: shape.clone(), data };
        let parameter = Parameter::new("a", DataType::Array(
            fishplate_contract::ArrayType::new(element, shape.len())
        ));
        let arguments = [Argument::new("a", Value::Array(array))];
        let parameters = [parameter];
        let packed = if call {
            let form = RequestForm {
                wrapper: QName::new(NS, "call"),
                qualified: pieces % 2 == 0,
                version: SoapVersion::V12,
                options: fishplate_contract::CallOptions::default(),
                arrays: Some(arrays),
                items: Vec::new(),
            };
            pack(&write_request(&form, &arguments).unwrap(), packaging, Some("urn:test#call"))
        } else {
            let head = MessageHead { content_type: "text/xml", ..MessageHead::default() };
            let form = ReplyForm { packaging, arrays: Some(arrays), ..ReplyForm::of_head(&head) };
            let mut definition = interface().verbs[0].clone();
            definition.name = "call".to_owned();
            pack(&write_reply(&form, NS, &definition, &arguments, None), packaging, None)
        };
        let body = sink.body(&packed);
        let name = if call { "call" } else { "callResponse" };
        let expected = ExpectedTable::response(QName::new(NS, name), &parameters);
        let head = MessageHead { content_type: &packed.content_type, ..MessageHead::default() };
        let mut unpacker =
            Unpacker::new(&head, Box::new(expected), &WireLimits::default()).unwrap();
        let mut back = Sink::default();
        let mut rest = Bytes::from(body);
        for size in cuts.iter().cycle() {
            if rest.is_empty() { break }
            unpacker.feed(rest.split_to((*size).min(rest.len())), &mut back).unwrap();
        }
        let unpacked = unpacker.finish(&mut back).unwrap();
        let binary = arrays == ArrayForm::Binary || packaging == Packaging::Dime;
        let told = if call { Some(arrays) } else if binary { Some(ArrayForm::Binary) } else {
            Some(ArrayForm::Elements)
        };
        prop_assert_eq!(unpacked.reply_form.arrays, told);
        let values = bind_reply(unpacked, &parameters).unwrap().outputs;
        // The lengths within an axis of no length are not told by elements.
        let empty = shape.iter().position(|length| *length == 0).unwrap_or(shape.len());
        let lengths = shape.iter().enumerate();
        let kept = lengths.map(|(at, length)| if binary || at <= empty { *length } else { 0 });
        prop_assert_eq!(shown(values, &back), [("a".to_owned(), kept.collect(), bytes)]);
    }
}

/// What may stand in an array, and what may not. Chunks of one byte are read token by token, so
/// that they tell whether runs are read as what they are.
const PIECES: &[&str] = &[
    "<r>",
    "</r>",
    "<r a='b'>",
    "<r xmlns:p='urn:p'>",
    "<x>1</x>",
    "<x>-2.5e3</x>",
    "<x>1</x><x>2</x><x>3</x>",
    "</r><r><x>4</x>",
    "</r> <r>\n<x> 5 </x>",
    "<x>INF</x>",
    "<x >6</x >",
    "<p:x>7</p:x>",
    "<x a='b'>8</x>",
    "<x/>",
    "<x></x>",
    "<x>1.5.2</x>",
    "<x>9<!-- c --></x>",
    "<x><![CDATA[10]]></x>",
    "<x>1&#49;</x>",
    "<!-- c -->",
    " \r\n",
    "<y>12</y>",
    "<x>0000000000000000000000000000000000000000000000000000000000000000000000001</x>",
    "é",
    "7",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_run_is_read_as_its_elements_are(
        rows in any::<bool>(),
        prefix in any::<bool>(),
        pieces in proptest::collection::vec(prop::sample::select(PIECES), 0..12),
        cuts in cuts(),
    ) {
        let declared = if prefix { " xmlns:p='urn:p'" } else { "" };
        let content = pieces.concat();
        let children = if rows {
            format!("<m{declared}><r><x>1</x><x>2</x>{content}</r></m>")
        } else {
            format!("<v{declared}><x>1</x>{content}</v>")
        };
        let slow = read_cut(&children, &[1]);
        let unplaced = |read: Result<Shown, Fault>| read.map_err(|fault| {
            // Texts come in pieces, and what is not well-formed is told with where its piece began.
            let told = fault.message.split(['"', ',']).next().map(str::to_owned);
            (fault.code, told)
        });
        for cuts in [&cuts[..], &[usize::MAX], &[2], &[5, 11]] {
            let read = read_cut(&children, cuts);
            prop_assert_eq!(unplaced(read), unplaced(slow.clone()), "{} {:?}", &children, cuts);
        }
    }
}

use fishplate_contract::FaultCode;
use proptest::prelude::*;

use super::*;

/// Writes what it is told, so that tests can compare texts.
#[derive(Default)]
struct Told(String);

impl Handler for Told {
    fn start(&mut self, tag: &StartTag<'_>) -> Result<(), Fault> {
        self.0.push_str(&format!("<{}", tag.name()));
        for attribute in tag.attributes {
            let name = crate::QName::new(attribute.namespace, attribute.local);
            self.0.push_str(&format!(" {name}={:?}", attribute.value));
        }
        self.0.push('>');
        Ok(())
    }

    fn end(&mut self, raw: &str) -> Result<(), Fault> {
        self.0.push_str(&format!("</{raw}>"));
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        assert!(!text.is_empty());
        self.0.push_str(text);
        Ok(())
    }

    fn comment(&mut self, piece: &str) -> Result<(), Fault> {
        self.0.push_str(piece);
        Ok(())
    }
}

fn tokens_in(chunks: &[&[u8]], limits: &WireLimits) -> Result<String, Fault> {
    let mut tokenizer = Tokenizer::new(None, limits);
    let mut told = Told::default();
    for chunk in chunks {
        tokenizer.feed(chunk, &mut told)?;
    }
    tokenizer.finish(&mut told)?;
    Ok(told.0)
}

fn tokens(document: &[u8]) -> Result<String, Fault> {
    let whole = tokens_in(&[document], &WireLimits::default());
    let bytes: Vec<&[u8]> = document.chunks(1).collect();
    assert_eq!(tokens_in(&bytes, &WireLimits::default()).ok(), whole.as_ref().ok().cloned());
    whole
}

fn code(document: &str) -> Option<FaultCode> {
    tokens(document.as_bytes()).err().map(|fault| fault.code)
}

#[test]
fn elements_attributes_and_text() {
    let document = "<?xml version='1.0' encoding=\"utf-8\"?>\n<!-- c -->\
        <a xmlns='urn:a' xmlns:b=\"urn:b\" x='1 > 0' b:y=\"&lt;&#65;\t&apos;\">\
        t&amp;u<b:c/> <!-- in - it --><![CDATA[<x>]]]&]]>é</a >\n<!---->";
    assert_eq!(
        tokens(document.as_bytes()).unwrap(),
        "<{urn:a}a x=\"1 > 0\" {urn:b}y=\"<A '\">t&u<{urn:b}c></b:c> <!-- in - it --><x>]]]&é</a>",
    );
}

#[test]
fn line_ends_become_line_feeds_and_references_stay() {
    assert_eq!(
        tokens(b"<a>1\r\n2\r3\n4&#13;\n5\r\r\n6</a>").unwrap(),
        "<a>1\n2\n3\n4\r\n5\n\n6</a>"
    );
}

#[test]
fn a_default_namespace_is_inherited_and_taken_back() {
    assert_eq!(
        tokens(b"<a xmlns='urn:a'><b xmlns=''><c/></b><d/></a>").unwrap(),
        "<{urn:a}a><b><c></c></b><{urn:a}d></d></a>"
    );
}

#[test]
fn what_soap_forbids_is_refused() {
    for document in [
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE lolz [<!ENTITY lol \"lol\"><!ENTITY lol2 \"&lol;&lol;\">]><a>&lol2;</a>",
        "<a><!ELEMENT a ANY></a>",
        "<?php echo ?><a/>",
        "<?xml-stylesheet href='x'?><a/>",
        "<a><?xml version='1.0'?></a>",
        "<a/><?pi?>",
        " <?xml version='1.0'?><a/>",
        "<a>&lol;</a>",
        "<?>?><a/>",
    ] {
        assert_eq!(code(document), Some(FaultCode::ForbiddenContent), "{document}");
    }
}

#[test]
fn what_is_not_well_formed_is_refused() {
    for document in [
        "",
        " ",
        "x",
        "x<a/>",
        "<a/>x",
        "<a/><b/>",
        "<a>",
        "<a></b>",
        "</a>",
        "<a/",
        "<>",
        "< a/>",
        "<a b/>",
        "<a b=c/>",
        "<a b='1'c='2'/>",
        "<a b='1' b='2'/>",
        "<a b='<'/>",
        "<a b='&x;'/>",
        "<a b='&amp'/>",
        "<a>&#0;</a>",
        "<a>&#xFFFF;</a>",
        "<a>&#x110000;</a>",
        "<a>&#+65;</a>",
        "<a>&#;</a>",
        "<b:a/>",
        "<a b:c='1'/>",
        "<a xmlns:b=''/>",
        "<a xmlns:xmlns='urn:x'/>",
        "<a:b:c xmlns:a='urn:a'/>",
        "<1/>",
        "<a.b/ >",
        "&amp;<a/>",
        "<![CDATA[x]]><a/>",
        "<a xmlns:x='urn:x' xmlns:y='urn:x' x:b='1' y:b='2'/>",
        "<a><!-- </a>",
        "<a>\u{0}&</a>",
        "<a b='\u{1}'/>",
        "{\"json\": true}",
        "<a></a",
        "<a><![CDATA[ </a>",
        "<a b='1/>",
    ] {
        assert_eq!(code(document), Some(FaultCode::MalformedMessage), "{document}");
    }
}

#[test]
fn a_document_cut_anywhere_is_not_complete() {
    let document = "<?xml version='1.0'?><a b='c'>d<e/>&amp;<![CDATA[f]]><!-- g --></a>";
    assert!(tokens(document.as_bytes()).is_ok());
    for end in 0..document.len() {
        assert!(tokens(&document.as_bytes()[..end]).is_err(), "{}", &document[..end]);
    }
}

#[test]
fn limits_are_enforced_and_named() {
    let limits = WireLimits {
        xml_depth: 3,
        attributes: 2,
        namespaces: 3,
        children: 4,
        tag_size: 40,
        ..WireLimits::default()
    };
    let long = "x".repeat(41);
    let cases: [(&str, String, String); 5] = [
        ("xml_depth", "<a><a><a/></a></a>".into(), "<a><a><a><a/></a></a></a>".into()),
        ("attributes", "<a b='' c=''/>".into(), "<a b='' c='' d=''/>".into()),
        (
            "namespaces",
            "<a xmlns='1' xmlns:b='2'><a xmlns='3'/><a xmlns='3'/></a>".into(),
            "<a xmlns='1' xmlns:b='2'><a xmlns='3' xmlns:c='4'/></a>".into(),
        ),
        ("children", "<a><b/><b/><b/><b/></a>".into(), "<a><b/><b/><b/><b/><b/></a>".into()),
        ("tag_size", format!("<a b='{}'/>", &long[..30]), format!("<a b='{long}'/>")),
    ];
    for (name, good, bad) in cases {
        for size in [1, 7, 1000] {
            let cut = |text: &str| -> Result<String, Fault> {
                let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                tokens_in(&chunks, &limits)
            };
            assert!(cut(&good).is_ok(), "{name} {size} {:?}", cut(&good));
            let fault = cut(&bad).unwrap_err();
            assert_eq!(fault.code, FaultCode::MessageTooLarge);
            let hit = fault.limit.unwrap();
            assert_eq!(hit.name, name);
            assert!(hit.value.starts_with(|c: char| c.is_ascii_digit()), "{}", hit.value);
        }
    }
}

#[test]
fn encodings_are_read_as_marked_told_or_declared() {
    let text = "<?xml version=\"1.0\" encoding=\"UTF-16\"?><a>grüße €</a>";
    let told = "<a>grüße €</a>";
    let wide = |bom: &str, order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("{bom}{text}").encode_utf16().flat_map(order).collect()
    };
    for bom in ["", "\u{FEFF}"] {
        assert_eq!(tokens(&wide(bom, u16::to_le_bytes)).unwrap(), told);
        assert_eq!(tokens(&wide(bom, u16::to_be_bytes)).unwrap(), told);
    }
    assert_eq!(tokens("\u{FEFF}<a>grüße €</a>".as_bytes()).unwrap(), told);
    let latin = b"<?xml version=\"1.0\" encoding='ISO-8859-1'?><a>gr\xFC\xDFe</a>";
    assert_eq!(tokens(latin).unwrap(), "<a>grüße</a>");

    let mut tokenizer =
        Tokenizer::new(Some(super::super::charset("iso-8859-1").unwrap()), &WireLimits::default());
    let mut heard = Told::default();
    tokenizer.feed(b"<a>\xFC</a>", &mut heard).unwrap();
    tokenizer.finish(&mut heard).unwrap();
    assert_eq!(heard.0, "<a>ü</a>");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    for document in [&b"<a>\xFF</a>"[..], b"<a>\xE2\x82</a>", b"<a/>\xE2", b"\x00\x01\x02\x03"] {
        let fault = tokens(document).unwrap_err();
        assert_eq!(fault.code, FaultCode::MalformedMessage);
    }
    let other = tokens(b"<?xml version='1.0' encoding='EBCDIC-XX'?><a/>").unwrap_err();
    assert_eq!(other.code, FaultCode::UnsupportedMediaType);
}

fn xml() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "[a-z é€\n]{0,12}",
        Just("&amp;".to_owned()),
        Just("&#x20AC;".to_owned()),
        Just("<![CDATA[a]]b<>&]]>".to_owned()),
        Just("<!-- x -->".to_owned()),
        Just("\r\n".to_owned()),
    ];
    let leaf = proptest::collection::vec(text, 0..5).prop_map(|parts| parts.concat());
    leaf.prop_recursive(4, 24, 4, |inner| {
        (proptest::collection::vec(inner, 0..4), "[a-z]{1,5}", "[a-z '>é]{0,6}").prop_map(
            |(children, name, value)| {
                format!("<{name} p:x=\"{value}\" xmlns:p='urn:p'>{}</{name}>", children.concat())
            },
        )
    })
    .prop_map(|inner| format!("<root>{inner}</root>"))
}

proptest! {
    #[test]
    fn any_split_gives_the_same_tokens(
        document in xml(),
        cuts in proptest::collection::vec(1usize..40, 1..6),
    ) {
        let whole = tokens_in(&[document.as_bytes()], &WireLimits::default()).unwrap();
        let mut chunks: Vec<&[u8]> = Vec::new();
        let mut rest = document.as_bytes();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break }
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        prop_assert_eq!(tokens_in(&chunks, &WireLimits::default()).unwrap(), whole);
    }

    #[test]
    fn no_input_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 1usize..50) {
        let chunks: Vec<&[u8]> = bytes.chunks(cut).collect();
        let _ = tokens_in(&chunks, &WireLimits::default());
    }

    #[test]
    fn no_near_xml_makes_it_panic(text in "[<>/!?\\[\\]&;#x='\" a:-]{0,40}", cut in 1usize..9) {
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(cut).collect();
        let whole = tokens_in(&[text.as_bytes()], &WireLimits::default());
        let split = tokens_in(&chunks, &WireLimits::default());
        prop_assert_eq!(whole.is_ok(), split.is_ok());
    }
}

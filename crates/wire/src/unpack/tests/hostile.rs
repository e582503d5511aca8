//! What must be refused, and how.

use super::*;
use crate::envelope::SoapVersion;

fn refused(message: &Message<'_>) -> Fault {
    let whole = message.arguments(&[usize::MAX]).unwrap_err();
    let bytes = message.arguments(&[1]).unwrap_err();
    assert_eq!(whole.code, bytes.code);
    whole
}

fn refused_call(children: &str) -> Fault {
    refused(&call(children))
}

fn refused_mtom(parts: &[(&str, &str)], end: &str) -> Fault {
    let mut body = String::new();
    for (header, content) in parts {
        body.push_str(&format!("--b\r\n{header}\r\n\r\n{content}\r\n"));
    }
    body.push_str(end);
    let content_type = "multipart/related; type=\"application/xop+xml\"; boundary=b";
    refused(&Message { content_type, soap_action: None, body: body.into_bytes() })
}

fn include(href: &str) -> String {
    format!("<data><i:Include xmlns:i='{}' href='{href}'/></data>", crate::name::XOP)
}

#[test]
fn a_message_cut_at_any_byte_is_refused() {
    let xdescr = crate::name::XDESCR;
    let children = format!(
        "<data>aGVsbG8=</data><model><x:XMLData xmlns:x='{xdescr}'><m/></x:XMLData></model>"
    );
    let whole = call(&children);
    assert!(whole.both().is_ok());
    for end in 0..whole.body.len() {
        let cut = Message::plain(&whole.body[..end]);
        let fault = cut.arguments(&[usize::MAX]).unwrap_err();
        assert_eq!(fault.code, FaultCode::MalformedMessage, "{end}");
    }
}

#[test]
fn an_mtom_message_cut_at_any_byte_is_refused() {
    let root = envelope(SoapVersion::V11, "", &include("cid:a"));
    let body = format!("--b\r\n\r\n{root}\r\n--b\r\nContent-ID: <a>\r\n\r\nxyz\r\n--b--");
    let content_type = "multipart/related; boundary=b";
    let cut = |end: usize| Message {
        content_type,
        soap_action: None,
        body: body.as_bytes()[..end].to_vec(),
    };
    assert!(cut(body.len()).both().is_ok());
    for end in 0..body.len() {
        let fault = cut(end).arguments(&[usize::MAX]).unwrap_err();
        assert_eq!(fault.code, FaultCode::MalformedMessage, "{end}");
    }
}

#[test]
fn only_parts_of_the_message_are_included() {
    for href in ["http://10.0.0.1/x", "file:///etc/passwd", "", "//h/x", "data:,x", "ftp://h/x"] {
        let fault = refused_call(&include(href));
        assert_eq!(fault.code, FaultCode::ForbiddenContent, "{href}");
        assert_eq!(fault.parameter.as_deref(), Some("data"));
    }
    let fault = refused_call(&include("cid:nobody"));
    assert_eq!(fault.code, FaultCode::MalformedMessage);
    assert!(fault.message.contains("cid:nobody"), "{}", fault.message);
    let reference = "<data><w:EndpointReference \
        xmlns:w='http://www.w3.org/2005/08/addressing'><w:Address>cid:a</w:Address>\
        </w:EndpointReference></data>";
    assert_eq!(refused_call(reference).code, FaultCode::InvalidValue);
}

fn refused_swa(children: &str, parts: &[&str]) -> Fault {
    let root = envelope(SoapVersion::V11, "", children);
    let mut body = format!("--b\r\n\r\n{root}\r\n");
    for header in parts {
        body.push_str(&format!("--b\r\n{header}\r\n\r\nx\r\n"));
    }
    body.push_str("--b--");
    let content_type = "multipart/related; type=\"text/xml\"; boundary=b";
    refused(&Message { content_type, soap_action: None, body: body.into_bytes() })
}

#[test]
fn only_parts_of_the_message_are_referred_to() {
    let parts = ["Content-ID: <a>", "Content-Location: http://e.example/b"];
    for href in ["http://10.0.0.1/x", "file:///etc/passwd", "a", "", "#id1", "http://e.example/"] {
        for fault in [
            refused_swa(&format!("<data href='{href}'/>"), &parts),
            refused_call(&format!("<data href='{href}'/>")),
        ] {
            assert_eq!(fault.code, FaultCode::ForbiddenContent, "{href}");
            assert_eq!(fault.parameter.as_deref(), Some("data"));
        }
    }
    for children in ["<data href='cid:nobody'/>", "<data>cid:nobody</data>", "<data>cid:</data>"] {
        for fault in [refused_swa(children, &parts), refused_call(children)] {
            assert_eq!(fault.code, FaultCode::MalformedMessage, "{children}");
            assert!(fault.message.contains("no part has that name"), "{}", fault.message);
        }
    }
    // Text is base64 unless it is a `cid:` URL: no other URL is ever looked at.
    for children in [
        "<data>http://e.example/b</data>",
        "<data>ci:a</data>",
        "<data href='cid:a'>cid:b</data>",
        "<data href='cid:a'>aGVsbG8=</data>",
        "<data href='cid:a'><b/></data>",
        "<data>cid:a<b/></data>",
        "<data>ci<b/></data>",
        "<data>cid</data>",
    ] {
        assert_eq!(refused_swa(children, &parts).code, FaultCode::InvalidValue, "{children}");
    }
    let long = format!("<data>cid:{}</data>", "a".repeat(5000));
    assert_eq!(refused_swa(&long, &parts).limit.unwrap().name, "header_length");
    let text = format!("<data href='cid:a'>{}</data>", " ".repeat(5000));
    assert_eq!(refused_swa(&text, &parts).limit.unwrap().name, "header_length");
}

#[test]
fn two_parts_of_one_name_are_refused() {
    for (one, other) in [
        ("Content-ID: <a>", "content-id: a"),
        ("Content-Location: a", "Content-Location: a"),
        ("Content-Location: cid:a", "Content-ID: <a>"),
    ] {
        let fault = refused_swa("<data href='cid:a'/>", &[one, other]);
        assert_eq!(fault.code, FaultCode::MalformedMessage);
        assert!(fault.message.contains("two parts"), "{}", fault.message);
    }
}

/// A DIME message of an envelope and attachments, by their IDs.
fn dime(children: &str, ids: &[&str]) -> Message<'static> {
    let root = envelope(SoapVersion::V11, "", children);
    let mut body = Vec::new();
    let mut record = |flags: u8, kind: &str, type_format: u8, id: &str, data: &str| {
        let len = |text: &str| u8::try_from(text.len()).unwrap();
        let size = u16::try_from(data.len()).unwrap().to_be_bytes();
        body.extend_from_slice(&[flags, type_format << 4, 0, 0, 0, len(id), 0, len(kind), 0, 0]);
        body.extend_from_slice(&size);
        for field in [id, kind, data] {
            body.extend_from_slice(field.as_bytes());
            body.resize(body.len().next_multiple_of(4), 0);
        }
    };
    let last = |at: usize| if at == ids.len() { 0x02 } else { 0 };
    record(0x0C | last(0), "http://schemas.xmlsoap.org/soap/envelope/", 2, "", &root);
    for (at, id) in ids.iter().enumerate() {
        record(0x08 | last(at + 1), "", 1, id, id);
    }
    Message { content_type: "application/dime", soap_action: None, body }
}

#[test]
fn dime_payloads_are_referred_to_in_both_forms() {
    let ids = ["uuid:1", "cid:two", "http://e.example/3", "a%b"];
    for (children, value) in [
        ("<data href='uuid:1'/>", "uuid:1"),
        ("<data href='cid:uuid:1'/>", "uuid:1"),
        ("<data href='two'/>", "cid:two"),
        ("<data href='cid:two'/>", "cid:two"),
        ("<data>cid:two</data>", "cid:two"),
        ("<data href='http://e.example/3'/>", "http://e.example/3"),
        ("<data href='cid:a%25b'/>", "a%b"),
    ] {
        let read = dime(children, &ids).both().unwrap();
        assert_eq!(read, [pair("data", value.as_bytes())], "{children}");
    }
    let twice = "<data href='two'/><more name='a' href='cid:two'/>";
    let expected = [pair("data", b"cid:two"), pair("more[a]", b"cid:two")];
    assert_eq!(dime(twice, &ids).both().unwrap(), expected);
    assert!(dime("<data href='uuid:1'/>", &["uuid:1", "", ""]).both().is_ok(), "no name, no clash");
}

#[test]
fn dime_references_to_what_is_not_there_are_refused() {
    for (children, ids, code) in [
        ("<data href='uuid:2'/>", &["uuid:1"][..], FaultCode::ForbiddenContent),
        ("<data href='http://10.0.0.1/'/>", &["uuid:1"], FaultCode::ForbiddenContent),
        ("<data href='cid:2'/>", &["uuid:1"], FaultCode::MalformedMessage),
        ("<data href='cid:2'/>", &[], FaultCode::MalformedMessage),
        ("<data href='a'/>", &["a", "a"], FaultCode::MalformedMessage),
        ("<data href='a'/>", &["a", "cid:a"], FaultCode::MalformedMessage),
        ("<data>aGVs</data><x href='a'/>", &["a"], FaultCode::InvalidValue),
    ] {
        assert_eq!(refused(&dime(children, ids)).code, code, "{children} {ids:?}");
    }
}

#[test]
fn parts_are_unmistakable() {
    let root = envelope(SoapVersion::V11, "", &include("cid:a"));
    let part = ("Content-ID: <a>", "x");
    let fault = refused_mtom(&[("", &root), part, part], "--b--");
    assert_eq!(fault.code, FaultCode::MalformedMessage);
    assert!(fault.message.contains("two parts"), "{}", fault.message);
    let fault = refused_mtom(&[("", &root)], "--b--");
    assert!(fault.message.contains("no part has"), "{}", fault.message);
    let fault = refused_mtom(&[], "--b--");
    assert_eq!(fault.code, FaultCode::MalformedMessage);
    let message = Message {
        content_type: "multipart/related; boundary=b; start=\"<c>\"",
        soap_action: None,
        body: format!("--b\r\nContent-ID: <r>\r\n\r\n{root}\r\n--b--").into_bytes(),
    };
    assert!(refused(&message).message.contains("start"));
}

#[test]
fn binary_values_are_one_thing() {
    let xdescr = crate::name::XDESCR;
    let xml =
        |inner: &str| format!("<data><x:XMLData xmlns:x='{xdescr}'>{inner}</x:XMLData></data>");
    for children in [
        "<data>not base64!</data>".to_owned(),
        "<data>aGVs<b/></data>".to_owned(),
        "<data><unknown/></data>".to_owned(),
        xml("<a/>").replace("</data>", "aGVs</data>"),
        xml("<a/>").replace("</data>", "<b/></data>"),
        "<data>a</data>".to_owned(),
        "<data/><x>1<b/></x>".to_owned(),
    ] {
        let fault = refused_call(&children);
        assert_eq!(fault.code, FaultCode::InvalidValue, "{children}");
        assert!(fault.parameter.is_some());
    }
    for children in [xml(""), xml("<a/><b/>"), xml("text"), xml("<a>\u{1}</a>")] {
        assert_eq!(refused_call(&children).code, FaultCode::MalformedMessage, "{children}");
    }
    let fault = refused_call("<data/><x href='#id1'/>");
    assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some("x")));
    let fault = refused_call("<data href='http://10.0.0.1/x'/>");
    assert_eq!(fault.code, FaultCode::ForbiddenContent);
    let fault = refused_call("<data href='cid:a'/>");
    assert!(fault.message.contains("no part has"), "{}", fault.message);
    let fault = refused_call("<data href='cid:a'>aGVs</data>");
    assert_eq!(fault.code, FaultCode::InvalidValue);
}

#[test]
fn parameters_are_known_and_stand_once() {
    let fault = refused_call("<data/><dada/>");
    assert_eq!(fault.code, FaultCode::UnexpectedParameter);
    assert_eq!(fault.parameter.as_deref(), Some("dada"));
    let fault = refused_call("<data/><data/>");
    assert_eq!(fault.code, FaultCode::UnexpectedParameter);
    let fault = refused_call("<data/><o:x xmlns:o='urn:other'>1</o:x>");
    assert_eq!(fault.code, FaultCode::UnexpectedParameter);
    let fault = refused_call("<x>1</x>");
    assert_eq!(fault.code, FaultCode::MissingParameter);
    assert_eq!(refused_call("<data/>loose text").code, FaultCode::MalformedMessage);
    assert_eq!(refused_call("<data/><title>\u{8}</title>").code, FaultCode::MalformedMessage);
}

#[test]
fn unknown_operations_are_told_with_the_known_ones() {
    let text = envelope(SoapVersion::V11, "", "<data/>");
    for (other, told) in [
        (text.replace("s:call", "s:dance"), "call, spawn"),
        (text.replace("urn:test", "urn:other"), "this service's is \"urn:test\""),
    ] {
        let fault = refused(&Message::plain(other));
        assert_eq!(fault.code, FaultCode::UnknownOperation);
        assert!(fault.message.contains(told), "{}", fault.message);
    }
}

#[test]
fn envelopes_are_envelopes() {
    let text = envelope(SoapVersion::V11, "", "<data/>");
    for (from, to, code) in [
        ("schemas.xmlsoap.org/soap/envelope/", "e.example/", FaultCode::VersionMismatch),
        ("e:Envelope", "e:Letter", FaultCode::MalformedMessage),
        ("e:Body", "e:Torso", FaultCode::MalformedMessage),
        ("</e:Body>", "</e:Body><e:Body/>", FaultCode::MalformedMessage),
        ("</s:call>", "</s:call><s:call/>", FaultCode::MalformedMessage),
        ("<e:Header>", "text<e:Header>", FaultCode::MalformedMessage),
    ] {
        let fault = refused(&Message::plain(text.replace(from, to)));
        assert_eq!(fault.code, code, "{to}");
    }
    let empty = text.replace("<s:call><data/></s:call>", "");
    assert_eq!(refused(&Message::plain(empty)).code, FaultCode::MalformedMessage);
    for body in ["", "{\"not\": \"XML\"}", "x=1&y=2", "%PDF-1.4\u{0}"] {
        assert_eq!(refused(&Message::plain(body)).code, FaultCode::MalformedMessage, "{body}");
    }
}

#[test]
fn envelopes_are_as_strict_as_their_specification() {
    use FaultCode::{DataEncodingUnknown as Encoding, MalformedMessage as Malformed};
    let must = |told: &str| format!("<e:Header><w:h xmlns:w='urn:w' e:mustUnderstand='{told}'/>");
    let encoded = |tag: &str, style: &str| format!("<{tag} e:encodingStyle='{style}'");
    let section_5 = "http://www.w3.org/2003/05/soap-encoding";
    let none = "http://www.w3.org/2003/05/soap-envelope/encoding/none";
    for (from, to, older, newer) in [
        ("<e:Header>", must("wrong"), Some(Malformed), Some(Malformed)),
        ("<e:Header>", must("9"), Some(Malformed), Some(Malformed)),
        ("<e:Header>", must("false"), None, None),
        ("<e:Header>", must(" 0 "), None, None),
        ("<e:Envelope", "<e:Envelope id='1'".to_owned(), Some(Malformed), Some(Malformed)),
        ("<e:Envelope", "<e:Envelope xml:lang='en'".to_owned(), None, None),
        ("<e:Envelope", encoded("e:Envelope", section_5), None, Some(Malformed)),
        ("<e:Header", encoded("e:Header", section_5), None, Some(Malformed)),
        ("<e:Body", encoded("e:Body", none), None, Some(Malformed)),
        ("<s:call", encoded("s:call", "urn:mine"), None, Some(Encoding)),
        ("<data", encoded("data", "urn:mine"), None, Some(Encoding)),
        ("<s:call", encoded("s:call", section_5), None, None),
        ("<data", encoded("data", none), None, None),
        ("</e:Body>", "</e:Body><w:x xmlns:w='urn:w'/>".to_owned(), None, Some(Malformed)),
        ("</e:Body>", "</e:Body><e:Header/>".to_owned(), Some(Malformed), Some(Malformed)),
        ("<e:Header>", "<e:Header/><e:Header>".to_owned(), Some(Malformed), Some(Malformed)),
    ] {
        for (version, code) in [(SoapVersion::V11, older), (SoapVersion::V12, newer)] {
            let text = envelope(version, "", "<data/>").replacen(from, &to, 1);
            let read = Message::plain(&*text).both();
            assert_eq!(read.err().map(|fault| fault.code), code, "{version:?} {to}");
        }
    }
    let header = "<h xmlns='urn:w' e:encodingStyle='urn:mine'/>";
    let fault = refused(&Message::plain(envelope(SoapVersion::V12, header, "<data/>")));
    assert_eq!(fault.code, Encoding);
    assert!(fault.message.contains("urn:mine"), "{fault}");
}

#[test]
fn actions_and_headers_are_checked() {
    let message = |action: &'static str| Message { soap_action: Some(action), ..call("<data/>") };
    assert!(message("\"urn:test#call\"").both().is_ok());
    assert!(message("").both().is_ok());
    let fault = refused(&message("\"urn:test#kill\""));
    assert_eq!(fault.code, FaultCode::ActionMismatch);
    for version in [SoapVersion::V11, SoapVersion::V12] {
        for must in ["1", "true"] {
            let header = format!(
                "<w:Security xmlns:w='urn:w' e:mustUnderstand='{must}'><w:t/></w:Security>"
            );
            let fault = refused(&Message::plain(envelope(version, &header, "<data/>")));
            assert_eq!(fault.code, FaultCode::MustUnderstand);
        }
        let header = "<w:Security xmlns:w='urn:w' e:mustUnderstand='0'/>";
        assert!(Message::plain(envelope(version, header, "<data/>")).both().is_ok());
    }
    let header = "<a:ReplyTo xmlns:a='http://www.w3.org/2005/08/addressing'><a:Address>\
                  http://10.0.0.1/</a:Address></a:ReplyTo>";
    let fault = refused(&Message::plain(envelope(SoapVersion::V12, header, "<data/>")));
    assert_eq!(fault.code, FaultCode::InvalidAddressing);
    let acts = |action: &str| {
        let wsa = "http://www.w3.org/2005/08/addressing";
        let header = format!("<a:Action xmlns:a='{wsa}'>{action}</a:Action>");
        let message = Message::plain(envelope(SoapVersion::V12, &header, "<data/>"));
        let interface = interface();
        message
            .request(&[usize::MAX])
            .0
            .unwrap()
            .verb(NS, &interface)
            .map(|found| found.name.clone())
    };
    for good in ["urn:test#call", "urn:test/port/callRequest", "urn:elsewhere"] {
        assert_eq!(acts(good).unwrap(), "call", "{good}");
    }
    for bad in ["urn:test#spawn", "urn:test/port/spawnRequest"] {
        let fault = acts(bad).unwrap_err();
        assert_eq!(fault.code, FaultCode::ActionMismatch);
        assert!(fault.message.contains("spawn") && fault.message.contains("call"), "{fault}");
    }
    let header = "<o:key xmlns:o='urn:fishplate:options:1'> k-1 </o:key>";
    let (request, _) = Message::plain(envelope(SoapVersion::V11, header, "<data/>")).request(&[9]);
    assert_eq!(request.unwrap().options.key.as_deref(), Some("k-1"));
}

#[test]
fn headers_are_kept_within_bounds() {
    let many = "<o:a/>".repeat(1001);
    let header = format!("<o:key xmlns:o='urn:fishplate:options:1'>{many}</o:key>");
    let fault = refused(&Message::plain(envelope(SoapVersion::V11, &header, "<data/>")));
    assert_eq!(fault.limit.unwrap().name, "header_elements");
    let foreign = format!("<o:key xmlns:o='urn:other'>{many}</o:key>");
    let message = Message::plain(envelope(SoapVersion::V11, &foreign, "<data/>"));
    assert!(message.both().is_ok(), "what is not understood is not kept");
}

#[test]
fn media_types_of_others_are_refused() {
    for content_type in [
        "application/json",
        "",
        "multipart/related; type=\"image/png\"; boundary=b",
        "multipart/form-data; boundary=b",
        "application/xop+xml",
        "text/xml; charset=EBCDIC",
    ] {
        let message = Message { content_type, soap_action: None, body: Vec::new() };
        assert_eq!(refused(&message).code, FaultCode::UnsupportedMediaType, "{content_type}");
    }
    let unbounded = Message {
        content_type: "multipart/related; type=\"application/xop+xml\"",
        soap_action: None,
        body: Vec::new(),
    };
    assert_eq!(refused(&unbounded).code, FaultCode::MalformedMessage);
}

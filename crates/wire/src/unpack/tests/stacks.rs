//! Messages in the form in which real stacks send them.

use super::*;
use crate::envelope::SoapVersion;
use crate::packaging::Packaging;

/// An MTOM message of these parts: header and content each.
fn mtom<'a>(
    content_type: &'a str,
    boundary: &str,
    before: &str,
    parts: &[(&str, &[u8])],
) -> Message<'a> {
    let mut body = before.as_bytes().to_vec();
    for (header, content) in parts {
        body.extend_from_slice(format!("--{boundary}\r\n{header}\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--").as_bytes());
    Message { content_type, soap_action: Some("\"\""), body }
}

const BINARY: &[u8] = b"\x00\r\n--not a boundary\xFF\r\n";

fn include(cid: &str) -> String {
    format!("<xop:Include xmlns:xop=\"http://www.w3.org/2004/08/xop/include\" href=\"cid:{cid}\"/>")
}

fn with_include(version: SoapVersion, cid: &str) -> String {
    envelope(version, "", &format!("<s:data>{}</s:data><s:x>5</s:x>", include(cid)))
}

fn expected() -> Vec<(String, Vec<u8>)> {
    vec![pair("data", BINARY), pair("x", b"5")]
}

#[test]
fn cxf_begins_with_a_line_end_and_percent_encodes_cids() {
    let root = with_include(SoapVersion::V11, "9f3c-1%40urn%3Atest");
    let message = mtom(
        "multipart/related; type=\"application/xop+xml\"; boundary=\"uuid:1f0-9e\"; \
         start=\"<root.message@cxf.apache.org>\"; start-info=\"text/xml\"",
        "uuid:1f0-9e",
        "\r\n",
        &[
            (
                "Content-Type: application/xop+xml; charset=UTF-8; type=\"text/xml\"\r\n\
                 Content-Transfer-Encoding: binary\r\nContent-ID: <root.message@cxf.apache.org>",
                root.as_bytes(),
            ),
            (
                "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n\
                 Content-ID: <9f3c-1@urn:test>\r\nContent-Disposition: attachment;name=\"d\"",
                BINARY,
            ),
        ],
    );
    assert_eq!(message.both().unwrap(), expected());
    let (unpacked, _) = message.unpack(&[7], &WireLimits::default());
    let unpacked = unpacked.unwrap();
    assert_eq!(unpacked.packaging, Packaging::Mtom);
    assert_eq!(unpacked.reply_form.packaging, Packaging::Mtom);
    assert_eq!(unpacked.action, None, "an empty action is none");
}

#[test]
fn axis_folds_headers_and_spells_them_otherwise() {
    let root = with_include(SoapVersion::V11, "B2");
    let message = mtom(
        "multipart/related; type=\"application/xop+xml\"; start=\"<A1>\"; \n\tboundary=\"----=_Part_0_1.2\"",
        "----=_Part_0_1.2",
        "\r\n",
        &[
            (
                "Content-Type: application/xop+xml;\r\n\tcharset=UTF-8\r\n\
                 Content-Transfer-Encoding: binary\r\nContent-Id: <A1>",
                root.as_bytes(),
            ),
            ("Content-Type: application/octet-stream\r\nContent-Id:\r\n\t<B2>", BINARY),
        ],
    );
    assert_eq!(message.both().unwrap(), expected());
}

#[test]
fn gsoap_has_content_ids_without_at_and_odd_boundaries() {
    let root = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<SOAP-ENV:Envelope \
         xmlns:SOAP-ENV=\"http://www.w3.org/2003/05/soap-envelope\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xmlns:xop=\"http://www.w3.org/2004/08/xop/include\" xmlns:ns1=\"{NS}\"><SOAP-ENV:Body>\
         <ns1:call><ns1:data><xop:Include href=\"cid:id1\"></xop:Include></ns1:data>\
         <ns1:x xsi:type=\"xsd:int\">5</ns1:x></ns1:call></SOAP-ENV:Body></SOAP-ENV:Envelope>"
    );
    let message = mtom(
        "multipart/related; charset=utf-8; boundary=\"==oQq/9=A+b==\"; \
         type=\"application/xop+xml\"; start=\"<SOAP-ENV:Envelope>\"; \
         start-info=\"application/soap+xml; charset=utf-8\"; action=\"urn:test#call\"",
        "==oQq/9=A+b==",
        "",
        &[
            (
                "Content-Type: application/xop+xml; charset=utf-8; type=\"application/soap+xml\"\r\n\
                 Content-Transfer-Encoding: binary\r\nContent-ID: <SOAP-ENV:Envelope>",
                root.as_bytes(),
            ),
            ("Content-Type: \r\nContent-Transfer-Encoding: binary\r\nContent-ID: <id1>", BINARY),
        ],
    );
    assert_eq!(message.both().unwrap(), expected());
    let message = Message { soap_action: None, ..message };
    let (request, _) = message.request(&[64]);
    let request = request.unwrap();
    assert_eq!(request.action.as_deref(), Some("urn:test#call"));
    assert_eq!(request.version, SoapVersion::V12);
}

#[test]
fn node_soap_does_not_quote_its_boundary() {
    let root = with_include(SoapVersion::V11, "part1@soap");
    let message = mtom(
        "multipart/related; type=\"application/xop+xml\"; start=\"<5b2c@soap>\"; \
         start-info=\"text/xml\"; boundary=1f6a-77",
        "1f6a-77",
        "",
        &[
            (
                "Content-Type: application/xop+xml; charset=UTF-8; type=\"text/xml; charset=utf-8\"\r\n\
                 Content-ID: <5b2c@soap>",
                root.as_bytes(),
            ),
            (
                "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n\
                 Content-ID: <part1@soap>\r\nContent-Disposition: attachment; filename=\"f\"",
                BINARY,
            ),
        ],
    );
    assert_eq!(message.both().unwrap(), expected());
}

#[test]
fn wcf_numbers_its_boundaries_and_tells_the_action_in_start_info() {
    let root = with_include(SoapVersion::V12, "http%3A%2F%2Ftempuri.org%2F1%2F6398");
    let content_type = "multipart/related; type=\"application/xop+xml\";\
        start=\"<http://tempuri.org/0>\";boundary=\"uuid:e6f5-4f+id=1\";\
        start-info=\"application/soap+xml; action=\\\"urn:test#call\\\"\"";
    let message = mtom(
        content_type,
        "uuid:e6f5-4f+id=1",
        "\r\n",
        &[
            (
                "Content-ID: <http://tempuri.org/0>\r\nContent-Transfer-Encoding: 8bit\r\n\
                 Content-Type: application/xop+xml;charset=utf-8;type=\"application/soap+xml\"",
                root.as_bytes(),
            ),
            (
                "Content-ID: <http://tempuri.org/1/6398>\r\nContent-Transfer-Encoding: binary\r\n\
                 Content-Type: application/octet-stream",
                BINARY,
            ),
        ],
    );
    assert_eq!(message.both().unwrap(), expected());
    let message = Message { soap_action: None, ..message };
    let (request, _) = message.request(&[1000]);
    assert_eq!(request.unwrap().action.as_deref(), Some("urn:test#call"));
}

#[test]
fn attachments_may_come_before_the_root_and_serve_twice() {
    let children = format!(
        "<data>{}</data><more name=\"a\">{}</more><more name=\"b\">{}</more>",
        include("one"),
        include("one"),
        include("two")
    );
    let root = envelope(SoapVersion::V11, "", &children);
    let message = mtom(
        "Multipart/Related; boundary=b; start=root",
        "b",
        "",
        &[
            ("Content-ID: <one>", BINARY),
            ("Content-ID: <unused>", b"?"),
            ("Content-ID: <root>", root.as_bytes()),
            ("Content-ID: <two>\r\nContent-Transfer-Encoding: base64", b"aGVsbG8="),
        ],
    );
    assert_eq!(
        message.both().unwrap(),
        [pair("data", BINARY), pair("more[a]", BINARY), pair("more[b]", b"hello")]
    );
}

#[test]
fn zeep_php_and_others_send_plain_envelopes() {
    let zeep = "<?xml version='1.0' encoding='utf-8'?>\n<soap-env:Envelope \
        xmlns:soap-env=\"http://schemas.xmlsoap.org/soap/envelope/\"><soap-env:Body>\
        <ns0:call xmlns:ns0=\"urn:test\"><ns0:data>aGVs\nbG8=</ns0:data><ns0:x>5</ns0:x></ns0:call>\
        </soap-env:Body></soap-env:Envelope>";
    let php = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<SOAP-ENV:Envelope \
        xmlns:SOAP-ENV=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:ns1=\"urn:test\">\
        <SOAP-ENV:Body><ns1:call><ns1:data>aGVsbG8=</ns1:data><ns1:x>5</ns1:x></ns1:call>\
        </SOAP-ENV:Body></SOAP-ENV:Envelope>\n";
    let soap_lite = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><soap:Envelope \
        soap:encodingStyle=\"http://schemas.xmlsoap.org/soap/encoding/\" \
        xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\" \
        xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
        xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><soap:Body>\
        <call xmlns=\"urn:test\"><data xsi:type=\"xsd:base64Binary\">aGVsbG8=</data>\
        <x xsi:type=\"xsd:int\">5</x><title xsi:nil=\"true\"/></call></soap:Body></soap:Envelope>";
    let suds = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><SOAP-ENV:Envelope \
        xmlns:ns0=\"urn:test\" xmlns:SOAP-ENV=\"http://schemas.xmlsoap.org/soap/envelope/\">\
        <SOAP-ENV:Header/><ns1:Body xmlns:ns1=\"http://schemas.xmlsoap.org/soap/envelope/\">\
        <ns0:call><x xmlns=''>5</x><data xmlns=''>aGVsbG8=</data></ns0:call></ns1:Body>\
        </SOAP-ENV:Envelope>";
    let plain = [pair("data", b"hello"), pair("x", b"5")];
    for text in [zeep, php, soap_lite] {
        assert_eq!(Message::plain(text).both().unwrap(), plain);
    }
    let mut turned = plain;
    turned.reverse();
    assert_eq!(Message::plain(suds).both().unwrap(), turned, "any order, unqualified");
}

#[test]
fn figures_6_and_7_of_the_paper_are_read() {
    let xdescr = crate::name::XDESCR;
    let children = format!(
        "<s:model><xdescr:XMLData xmlns:xdescr='{xdescr}'>\n <GeoModel GeoModelID=\"Pipe &quot;1\" \
         xmlns:q='urn:q'><!-- Model --><q:p a='1'/>x &lt; y</GeoModel>\n</xdescr:XMLData></s:model>\
         <s:data><w:EndpointReference xmlns:w='http://www.w3.org/2005/08/addressing'><w:Address>\n\
         http://foo.com/aaaa\n</w:Address><w:Metadata><z/></w:Metadata></w:EndpointReference></s:data>"
    );
    let bound = call(&children).both().unwrap();
    let model = String::from_utf8(bound[0].1.clone()).unwrap();
    assert_eq!(
        model,
        format!(
            "<GeoModel xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:s=\"urn:test\" \
             xmlns:xdescr=\"{xdescr}\" xmlns:q=\"urn:q\" GeoModelID=\"Pipe &quot;1\">\
             <!-- Model --><q:p a=\"1\"></q:p>x &lt; y</GeoModel>"
        )
    );
    assert!(roxmltree::Document::parse(&model).is_ok());
    assert_eq!(bound[1], pair("data", b"-> http://foo.com/aaaa"));
}

#[test]
fn inline_xml_has_as_many_children_as_it_likes() {
    let points = "<p/>".repeat(20_000);
    let xdescr = crate::name::XDESCR;
    let children =
        format!("<data/><model><x:XMLData xmlns:x='{xdescr}'><m>{points}</m></x:XMLData></model>");
    let bound = call(&children).arguments(&[4096]).unwrap();
    assert!(bound[1].1.ends_with(b"<p></p></m>"));
}

/// What the stacks sent as five bytes of data and x=5.
const RECORDED: [(&str, Packaging, &[u8]); 4] = [
    (
        "multipart/related; type=\"text/xml\"; start=\"<D93D04A1ADADA3813B3487D942AC68CB>\"; \
         \tboundary=\"----=_Part_0_577405636.1795241974038\"",
        Packaging::Swa,
        include_bytes!("recorded/axis-1.4-swa"),
    ),
    ("application/dime", Packaging::Dime, include_bytes!("recorded/axis-1.4-dime")),
    ("application/dime", Packaging::Dime, include_bytes!("recorded/gsoap-2.8-dime")),
    (
        "multipart/related; charset=utf-8; \
         boundary=\"==nGpzR/KspN6ry7jG8CU4bonN2aujzfJamyN3xYjaldFXYpeUryNGb0UROC0B==\"; \
         type=\"application/xop+xml\"; start=\"<SOAP-ENV:Envelope>\"; start-info=\"text/xml\"",
        Packaging::Mtom,
        include_bytes!("recorded/gsoap-2.8-mtom"),
    ),
];

#[test]
fn recorded_messages_are_read() {
    for (content_type, packaging, body) in RECORDED {
        let message = Message { content_type, soap_action: Some("\"\""), body: body.to_vec() };
        let expected = vec![pair("data", &[3, 10, 17, 24, 31]), pair("x", b"5")];
        assert_eq!(message.both().unwrap(), expected);
        let (unpacked, _) = message.unpack(&[50], &WireLimits::default());
        assert_eq!(unpacked.unwrap().packaging, packaging);
    }
}

/// A message of a SOAP 1.1 root with these children, and attachments.
fn swa(children: &str, parts: &[(&str, &[u8])]) -> Message<'static> {
    let root = envelope(SoapVersion::V11, "", children);
    let root = [("Content-Type: text/xml\r\nContent-ID: <root>", root.as_bytes())];
    let content_type = "multipart/related; type=\"text/xml\"; boundary=b";
    mtom(content_type, "b", "", &[&root, parts].concat())
}

#[test]
fn a_part_is_referred_to_by_href_or_by_text() {
    let parts: [(&str, &[u8]); 3] = [
        ("CONTENT-ID:\r\n\t<a@b:c>", BINARY),
        ("content-location: http://e.example/x?a=1&b=2", b"located"),
        ("Content-Id: <two>\r\nContent-Location: two.bin", b"both"),
    ];
    for (children, value) in [
        ("<data href='cid:a@b:c'/>", BINARY),
        ("<data href=' CID:a%40b%3Ac '> </data>", BINARY),
        ("<data>cid:a@b:c</data>", BINARY),
        ("<data> \n CID:a%40b%3ac \n</data>", BINARY),
        ("<data>c<!-- -->id<![CDATA[:]]>a@b:c</data>", BINARY),
        ("<data href='cid:a@b:c'>cid:a@b:c</data>", BINARY),
        ("<data href='http://e.example/x?a=1&amp;b=2'/>", b"located"),
        ("<data href='two.bin'/>", b"both"),
        ("<data>cid:two</data>", b"both"),
        ("<data>cid4</data>", b"\x72\x27\x78"),
        ("<data>Ci dA</data>", b"\x0a\x27\x40"),
        ("<data>C<!-- -->id<!-- -->A</data>", b"\x0a\x27\x40"),
    ] {
        assert_eq!(swa(children, &parts).both().unwrap(), [pair("data", value)], "{children}");
    }
}

#[test]
fn a_soap_12_root_with_attachments_is_read_too() {
    let root = envelope(SoapVersion::V12, "", "<data>cid:a</data>");
    let message = mtom(
        "multipart/related; type=\"application/soap+xml\"; start-info=\"application/soap+xml\"; \
         boundary=\"uuid:1\"; start=\"<root.message@cxf.apache.org>\"; action=\"urn:test#call\"",
        "uuid:1",
        "\r\n",
        &[
            (
                "Content-Type: application/soap+xml; charset=UTF-8\r\n\
                 Content-Transfer-Encoding: binary\r\nContent-ID: <root.message@cxf.apache.org>",
                root.as_bytes(),
            ),
            ("Content-Type: application/octet-stream\r\nContent-ID: <a>", BINARY),
        ],
    );
    assert_eq!(message.both().unwrap(), [pair("data", BINARY)]);
    let (unpacked, _) = message.unpack(&[9], &WireLimits::default());
    let unpacked = unpacked.unwrap();
    assert_eq!((unpacked.packaging, unpacked.envelope.version), (Packaging::Swa, SoapVersion::V12));
}

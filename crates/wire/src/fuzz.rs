//! What the fuzz targets run: any bytes, whole and cut, must give the same and never panic.

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{
    ArrayType, DataType, ElementType, Fault, FileHandle, Interface, Operation, Parameter, Service,
    Signature,
};

use crate::limits::WireLimits;
use crate::name::QName;
use crate::packaging::{fuzz_multipart, fuzz_reader};
use crate::spool::SpoolSink;
use crate::unpack::{ExpectedTable, MessageHead, Unpacker};
use crate::xml::{Handler, StartTag, Tokenizer};

/// The first byte says how the rest is cut.
fn cut(data: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = data.split_first()?;
    Some((usize::from(*first) + 1, rest))
}

/// Tokens as text.
#[derive(Default)]
struct TokenText(String);

impl Handler for TokenText {
    fn start(&mut self, tag: &StartTag<'_>) -> Result<(), Fault> {
        self.0.push_str(&format!("<{}{:?}>", tag.name(), tag.attributes));
        Ok(())
    }

    fn end(&mut self, raw: &str) -> Result<(), Fault> {
        self.0.push_str(&format!("</{raw}>"));
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        self.0.push_str(text);
        Ok(())
    }
}

/// The tokenizer.
pub fn tokenizer(data: &[u8]) {
    let Some((size, document)) = cut(data) else { return };
    let tokens = |size: usize| {
        let mut tokenizer = Tokenizer::new(None, &WireLimits::default());
        let mut told = TokenText::default();
        for chunk in document.chunks(size) {
            tokenizer.feed(chunk, &mut told).ok()?;
        }
        tokenizer.finish(&mut told).ok()?;
        Some(told.0)
    };
    assert_eq!(tokens(size), tokens(usize::MAX));
}

/// The multipart reader, with the boundary `b`.
pub fn multipart(data: &[u8]) {
    let Some((size, message)) = cut(data) else { return };
    assert_eq!(fuzz_multipart(message, size), fuzz_multipart(message, usize::MAX));
}

const MTOM: &str = "multipart/related; boundary=b";
const SWA: &str = "multipart/related; type=\"text/xml\"; boundary=b";

/// SOAP with Attachments, with the boundary `b`: the reader and the whole unpacker. The first byte
/// says whether the root is told, too.
pub fn swa(data: &[u8]) {
    let told = data.first().is_some_and(|first| first % 2 == 0);
    let start = if told { "; start=r" } else { "" };
    packaging(&format!("{SWA}{start}"), data);
}

/// DIME: the reader and the whole unpacker.
pub fn dime(data: &[u8]) {
    packaging("application/dime", data);
}

fn packaging(content_type: &str, data: &[u8]) {
    let Some((size, message)) = cut(data) else { return };
    let found = |size: usize| fuzz_reader(content_type, message, size);
    assert_eq!(found(size), found(usize::MAX));
    unpacked(content_type, message, size);
}

#[derive(Debug)]
struct NullSink;

impl FileHandle for NullSink {
    fn path(&self) -> &std::path::Path {
        std::path::Path::new("")
    }

    fn len(&self) -> u64 {
        0
    }

    fn keep(&self) {}
}

#[derive(Default)]
struct CountingSink(usize);

impl SpoolSink for CountingSink {
    fn create(&mut self) -> Arc<dyn FileHandle> {
        Arc::new(NullSink)
    }

    fn write(&mut self, _to: &Arc<dyn FileHandle>, data: Bytes) {
        self.0 += data.len();
    }
}

/// The whole unpacker: the first byte says the packaging too.
pub fn unpacker(data: &[u8]) {
    let Some((size, message)) = cut(data) else { return };
    let content_type = match size % 4 {
        0 => "text/xml",
        1 => MTOM,
        2 => SWA,
        _ => "application/dime",
    };
    unpacked(content_type, message, size);
}

/// A whole request over HTTP, as `interop/record.py` keeps it: its head, and its body without transfer
/// coding. It calls `echo-file` of `interop/services`.
pub fn request(data: &[u8]) {
    requested(data);
}

pub(crate) fn requested(data: &[u8]) -> Option<(String, usize)> {
    let (head, body) = data.split_at(memchr::memmem::find(data, b"\r\n\r\n")? + 4);
    let head = String::from_utf8_lossy(head).replace("\r\n\t", " ").replace("\r\n ", " ");
    let field = |name: &str| {
        let fields = head.lines().filter_map(|line| line.split_once(':'));
        let mut values = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.trim())
    };
    let head = MessageHead {
        content_type: field("Content-Type").unwrap_or_default(),
        soap_action: field("SOAPAction"),
        accept: field("Accept"),
        ..MessageHead::default()
    };
    let service = echo_file();
    let interface = Interface::of(&service);
    let expected = || ExpectedTable::requests(&service.namespace, &interface);
    unpacked_by(&head, expected, body, body.len() % 97 + 1)
}

fn echo_file() -> Service {
    let signature =
        Signature { inputs: vec![Parameter::new("data", DataType::Raw)], outputs: Vec::new() };
    let call = Operation { name: "call".to_owned(), documentation: String::new(), signature };
    Service {
        name: "echo-file".to_owned(),
        namespace: "urn:fishplate:echo-file".to_owned(),
        title: String::new(),
        documentation: String::new(),
        operations: vec![call],
    }
}

fn unpacked(content_type: &str, message: &[u8], size: usize) -> Option<(String, usize)> {
    let parameters = [
        Parameter::new("data", DataType::Raw),
        Parameter::new("x", DataType::String).repeated(),
        Parameter::new("m", DataType::Array(ArrayType::new(ElementType::Float, 2))).optional(),
    ];
    let expected = || ExpectedTable::response(QName::new("urn:t", "call"), &parameters);
    unpacked_by(&MessageHead { content_type, ..MessageHead::default() }, expected, message, size)
}

fn unpacked_by(
    head: &MessageHead<'_>,
    expected: impl Fn() -> ExpectedTable,
    message: &[u8],
    size: usize,
) -> Option<(String, usize)> {
    let unpack = |size: usize| {
        let limits = WireLimits { inline_size: 16, ..WireLimits::default() };
        let mut sink = CountingSink::default();
        let mut unpacker = Unpacker::new(head, Box::new(expected()), &limits).ok()?;
        let mut security = None;
        for chunk in message.chunks(size) {
            unpacker.feed(Bytes::copy_from_slice(chunk), &mut sink).ok()?;
            if security.is_none() && unpacker.has_headers() {
                security = Some(unpacker.take_security());
            }
        }
        let unpacked = unpacker.finish(&mut sink).ok()?;
        Some((format!("{security:?} {:?}", unpacked.envelope), sink.0))
    };
    let cut = unpack(size);
    assert_eq!(cut, unpack(usize::MAX));
    cut
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_targets_take_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            super::tokenizer(&data);
            super::multipart(&data);
            super::swa(&data);
            super::dime(&data);
            super::unpacker(&data);
            super::request(&data);
        }

        #[test]
        fn the_targets_take_what_is_nearly_right(
            first in any::<u8>(),
            pieces in proptest::collection::vec(prop::sample::select(PIECES), 0..14),
        ) {
            let mut data = vec![first];
            data.extend(pieces.concat().into_bytes());
            super::tokenizer(&data);
            super::multipart(&data);
            super::swa(&data);
            super::dime(&data);
            super::unpacker(&data);
            super::request(&data);
        }
    }

    /// What the targets begin with: messages of real stacks, their namespace and boundary changed.
    #[test]
    fn the_corpus_holds_messages() {
        for (content_type, seed) in [
            ("application/dime", &include_bytes!("../../../fuzz/corpus/dime/axis-1.4-dime")[..]),
            ("application/dime", include_bytes!("../../../fuzz/corpus/dime/gsoap-2.8-dime")),
            (super::SWA, include_bytes!("../../../fuzz/corpus/swa/axis-1.4-swa")),
            (super::MTOM, include_bytes!("../../../fuzz/corpus/unpacker/gsoap-2.8-mtom")),
        ] {
            let (size, message) = super::cut(seed).unwrap();
            let (envelope, _) = super::unpacked(content_type, message, size).unwrap();
            assert!(envelope.contains("\\x03\\n\\x11\\x18\\x1f"), "{envelope}");
        }
    }

    /// Written by hand: what stacks send of these is in `request`.
    #[test]
    fn the_corpus_holds_references_and_options() {
        let message = |seed: &[u8]| {
            let (size, message) = super::cut(seed).unwrap();
            assert_eq!(size % 4, 0, "an envelope alone");
            super::unpacked("text/xml", message, size).unwrap().0
        };
        for reference in [
            &include_bytes!("../../../fuzz/corpus/unpacker/reference-2005-08")[..],
            include_bytes!("../../../fuzz/corpus/unpacker/reference-2004-08"),
            include_bytes!("../../../fuzz/corpus/unpacker/reference-array"),
        ] {
            let envelope = message(reference);
            assert!(envelope.contains("http://a.example/data/t/mesh?x=1&y=2"), "{envelope}");
            assert!(envelope.contains("len: Some("), "{envelope}");
        }
        assert!(message(include_bytes!("../../../fuzz/corpus/unpacker/value")).contains("hello"));
        let options = message(include_bytes!("../../../fuzz/corpus/unpacker/options"));
        assert!(options.contains("mailto:a@b.example"), "{options}");
        assert!(options.contains("urn:fishplate:session:"), "{options}");
    }

    const PIECES: &[&str] = &[
        "<data href='cid:a'>",
        "cid:a",
        "Content-Location: a\r\n",
        "Content-ID: <r>\r\n",
        "\u{c}\u{20}\0\0\0\0\0\u{29}\0\0\0\0http://schemas.xmlsoap.org/soap/envelope/\0\0\0",
        "\u{d}\u{20}\0\0\0\0\0\u{29}\0\0\0\u{8}http://schemas.xmlsoap.org/soap/envelope/\0\0\0",
        "\u{a}\u{10}\0\0\0\u{1}\0\0\0\0\0\0a\0\0\0",
        "\u{9}\u{10}\0\0\0\u{1}\0\0\0\0\0\u{8}a\0\0\0",
        "\u{9}\0\0\0\0\0\0\0\0\0\0\u{1}a\0\0\0",
        "\u{a}\0\0\0\0\0\0\0\0\0\0\0",
        "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'>",
        "<e:Header>",
        "</e:Header>",
        "<e:Body>",
        "</e:Body>",
        "</e:Envelope>",
        "<call xmlns='urn:t'>",
        "</call>",
        "<data>",
        "</data>",
        "<x name='a'>",
        "</x>",
        "<i:Include xmlns:i='http://www.w3.org/2004/08/xop/include' href='cid:a'/>",
        "<x:XMLData xmlns:x='urn:fishplate:xdescr:1'>",
        "</x:XMLData>",
        "<x:Value xmlns:x='urn:fishplate:xdescr:1'>",
        "</x:Value>",
        "<w:EndpointReference xmlns:w='http://www.w3.org/2005/08/addressing'>",
        "</w:EndpointReference>",
        "<w:Address>http://h/</w:Address>",
        "<w:Metadata>",
        "</w:Metadata>",
        "<x:Length xmlns:x='urn:fishplate:xdescr:1'>5</x:Length>",
        "<x:Digest xmlns:x='urn:fishplate:xdescr:1'>",
        "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:",
        "</x:Digest>",
        "<o:outputs xmlns:o='urn:fishplate:options:1'><o:output name='a' as='auto'/></o:outputs>",
        "aGVsbG8=",
        "<m>",
        "<m shape='1 2'>",
        "</m>",
        "<r>",
        "</r>",
        "<i>1.5</i>",
        "<i>1</i><i>2</i></r><r><i>3</i>",
        "<i>",
        "</i>",
        "&amp;",
        "&#13;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "\r\n",
        "\r\n\r\n",
        "--b",
        "\r\n--b\r\n",
        "--b--",
        "Content-ID: <a>\r\n",
        "\r",
        "\n",
        " ",
        "é",
        "<?xml version='1.0'?>",
    ];
}

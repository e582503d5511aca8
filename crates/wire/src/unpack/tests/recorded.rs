//! What stacks sent while they called us, as it came: `interop/run.py --record fuzz/corpus`.

use std::collections::BTreeSet;
use std::fs;

use fishplate_contract::{ArrayType, ElementType};

use super::*;
use crate::fuzz;
use crate::media::MediaType;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/request");

/// Of whom there must be a recording, lest the test pass without any.
const RECORDED: [(Packaging, &[&str]); 4] = [
    (Packaging::Plain, &["axis", "cxf", "gsoap", "node", "php", "zeep"]),
    (Packaging::Mtom, &["cxf", "gsoap"]),
    (Packaging::Swa, &["axis", "cxf"]),
    (Packaging::Dime, &["axis", "dime-tools", "gsoap"]),
];

/// A request: its head, its body, and who sent it.
struct Recorded {
    file: String,
    bytes: Vec<u8>,
    head: String,
    body: Bytes,
}

impl Recorded {
    fn of(packaging: Packaging) -> Vec<Self> {
        let directory = format!("{CORPUS}/{}", packaging.name());
        let files = fs::read_dir(&directory).unwrap_or_else(|e| panic!("{directory}: {e}"));
        let paths = files.map(|file| file.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|it| it == "http"));
        paths.map(|path| Self::read(&path)).collect()
    }

    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let end = memchr::memmem::find(&bytes, b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        Self {
            file: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            head: head.replace("\r\n\t", " ").replace("\r\n ", " "),
            body: Bytes::from(bytes.clone()).split_off(end),
            bytes,
        }
    }

    /// The stack and the operation: `STACK-OPERATION-LENGTH`.
    fn told(&self) -> (&str, &str) {
        let (name, length) = self.file.rsplit_once('-').unwrap();
        assert_eq!(length, self.body.len().to_string(), "{}", self.file);
        name.rsplit_once('-').unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut values = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.trim())
    }

    /// The name of the service that was called, and the query.
    fn target(&self) -> (&str, Option<&str>) {
        let target = self.head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
        target.split_once('?').map_or((target, None), |(name, query)| (name, Some(query)))
    }

    fn unpacked(&self, size: usize) -> (Result<UnpackedMessage, Fault>, Sink) {
        let head = MessageHead {
            content_type: self.header("Content-Type").unwrap_or_default(),
            soap_action: self.header("SOAPAction"),
            accept: self.header("Accept"),
            query: self.target().1,
        };
        let (namespace, interface) = called(self.target().0);
        let expected = ExpectedTable::requests(namespace, &interface);
        let limits = WireLimits::default();
        let mut sink = Sink::default();
        let mut unpacker = Unpacker::new(&head, Box::new(expected), &limits).unwrap();
        let mut unpack = || {
            let mut rest = self.body.clone();
            while !rest.is_empty() {
                unpacker.feed(rest.split_to(size.min(rest.len())), &mut sink)?;
            }
            unpacker.finish(&mut sink)
        };
        (unpack(), sink)
    }

    /// The arguments and their bytes.
    fn arguments(&self, packaging: Packaging, size: usize) -> Vec<(String, Vec<u8>)> {
        let file = &self.file;
        let (unpacked, sink) = self.unpacked(size);
        let unpacked = unpacked.unwrap_or_else(|fault| panic!("{file}: {fault:?}"));
        assert_eq!(unpacked.packaging, packaging, "{file}");
        let request = read(unpacked).unwrap_or_else(|fault| panic!("{file}: {fault:?}"));
        let (namespace, interface) = called(self.target().0);
        let definition = request.verb(namespace, &interface).unwrap();
        assert_eq!(definition.name, self.told().1, "{file}");
        let bound = bind(&definition.name, &definition.signature.inputs, request.children);
        let bytes = |value| match value {
            Value::Text(text) => text.into_bytes(),
            Value::Data(Payload::Reference(to)) => format!("-> {}", to.url).into_bytes(),
            Value::Data(payload) => sink.bytes(&payload),
            Value::Array(array) => sink.bytes(&array.data),
            Value::Record(_) => panic!("{file}: no parameter is a record"),
        };
        let bound = bound.unwrap_or_else(|fault| panic!("{file}: {fault:?}"));
        bound.into_iter().map(|argument| (argument.name, bytes(argument.value))).collect()
    }
}

/// The services of `interop/services`.
fn called(service: &str) -> (&'static str, Interface) {
    let (namespace, inputs) = match service {
        "arithmetic-test" => (
            "urn:test",
            // `bad-value` sends one that is no number; the engine refuses it, not the reader.
            vec![Parameter::new("x", DataType::Int), Parameter::new("y", DataType::Int)],
        ),
        "echo-file" => {
            let namespace = "urn:fishplate:echo-file";
            return (namespace, interface("echo-file", namespace, vec![echo_file()]));
        }
        "matrix" => return (MATRIX, matrix()),
        "session" => {
            let namespace = "urn:fishplate:session:1";
            let session = Parameter::new("session", DataType::String);
            let operations = vec![operation("open", Vec::new()), operation("close", vec![session])];
            return (namespace, interface("session", namespace, operations));
        }
        other => panic!("no service {other}"),
    };
    (namespace, interface(service, namespace, vec![operation("call", inputs)]))
}

const MATRIX: &str = "urn:fishplate:matrix";

/// The service of the server itself, as far as `interop/run.py` calls it.
fn matrix() -> Interface {
    let rows = DataType::Array(ArrayType::new(ElementType::Float, 2));
    let operations = vec![
        operation("echo", vec![Parameter::new("matrix", rows)]),
        operation("getMatrix", vec![Parameter::new("n", DataType::Int)]),
    ];
    interface("matrix", MATRIX, operations)
}

fn operation(name: &str, inputs: Vec<Parameter>) -> Operation {
    let signature = Signature { inputs, outputs: Vec::new() };
    Operation { name: name.to_owned(), documentation: String::new(), signature }
}

fn echo_file() -> Operation {
    let mut call = operation("call", vec![Parameter::new("data", DataType::Raw)]);
    call.signature.outputs.push(Parameter::new("copy", DataType::Raw));
    call
}

fn interface(name: &str, namespace: &str, operations: Vec<Operation>) -> Interface {
    Interface::of(&Service {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        title: String::new(),
        documentation: String::new(),
        operations,
    })
}

#[test]
fn what_stacks_sent_is_read_however_it_is_cut() {
    for (packaging, stacks) in RECORDED {
        let recorded = Recorded::of(packaging);
        let senders: BTreeSet<&str> = recorded.iter().map(|message| message.told().0).collect();
        assert_eq!(senders, BTreeSet::from_iter(stacks.iter().copied()), "{packaging:?}");
        for message in &recorded {
            let whole = message.arguments(packaging, usize::MAX);
            for size in [1, 7, 100] {
                assert_eq!(message.arguments(packaging, size), whole, "{}", message.file);
            }
            if message.target().0 == "echo-file" {
                assert!(fuzz::requested(&message.bytes).is_some(), "{}", message.file);
            }
            for (name, value) in &whole {
                assert!(is_sent(name, value), "{}: {name} is {value:?}", message.file);
            }
        }
    }
}

/// Whether `interop/run.py` sends that: files short enough to be recorded, the rows of numbers.
fn is_sent(name: &str, value: &[u8]) -> bool {
    const ROWS: [f32; 6] = [0.1, -0.0, 1e-45, f32::MAX, 16_777_216.0, -f32::MIN_POSITIVE];
    const SPECIAL: [f32; 4] = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0];
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    let (rows, special): (Vec<u8>, Vec<u8>) = (bytes(&ROWS), bytes(&SPECIAL));
    match name {
        "data" => {
            let text = String::from_utf8_lossy(value);
            let inline = text.starts_with("<GeoModel ") && text.contains("\"PipeExample\"");
            let refers = text.starts_with("-> http://127.0.0.1:") || text == "-> session:copy";
            value.is_empty() || value == [0] || inline || refers
        }
        "matrix" => value == rows || value == special,
        "job" | "session" => value.len() == 32,
        "n" => value == b"50",
        "x" => [&b"1"[..], b"abc"].contains(&value),
        "y" => value == b"2",
        _ => false,
    }
}

#[test]
fn content_types_of_stacks_are_told_apart() {
    for (packaging, _) in RECORDED {
        for message in Recorded::of(packaging) {
            let media = MediaType::parse(message.header("Content-Type").unwrap());
            assert_eq!(Packaging::of_media(&media), Some(packaging), "{}", message.file);
        }
    }
}

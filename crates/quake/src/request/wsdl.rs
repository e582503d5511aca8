//! The template of an operation that a WSDL describes.
//!
//! The message is packed once, by the client's own means, with a mark in the place of each value that changes from
//! request to request; then the marks are replaced by words of a template.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use fishplate_client::arguments::{self, ArgumentWord, WordError};
use fishplate_client::{Options, Packaging, Service};
use fishplate_contract::{
    Argument, ArrayType, DataType, Dimension, ElementType, Parameter, Payload, Value,
};
use fishplate_wire::wsdl::DescribedOperation;
use fishplate_wire::{BodyStep, OutgoingBody, PackedMessage};
use memchr::memmem;

use super::outgoing::Outgoing;
use super::template::{RequestId, Template, TemplateError};
use crate::experiment::fill;
use crate::random::{Random, Stream};

/// Bytes of a file that is generated.
const FILE_LENGTH: usize = 256;
/// Length of an axis that is generated.
const AXIS_LENGTH: u64 = 3;
/// Numbers of an array that change from request to request, its first ones.
const CHANGING_NUMBERS: usize = 64;
/// Records within records that are generated.
const DEPTH: usize = 8;
/// What is read from a file at once.
const CHUNK: usize = 1 << 20;

/// Why no request could be made from a WSDL.
#[derive(Debug, thiserror::Error)]
pub enum WsdlRequestError {
    /// The description, the operation or its arguments.
    #[error(transparent)]
    Client(#[from] fishplate_client::Error),
    /// An argument that can't be read.
    #[error(transparent)]
    Word(#[from] WordError),
    /// A word in braces.
    #[error("the argument {name}")]
    Template {
        /// Of which parameter.
        name: String,
        /// What is wrong.
        source: TemplateError,
    },
    /// A value in braces where only bytes can be.
    #[error(
        "the argument {name} is a file, whose bytes can't be filled for each request: give it without braces, or \
         leave it out to have random bytes"
    )]
    FileWords {
        /// Of which parameter.
        name: String,
    },
    /// A record that is generated has something that can't be.
    #[error("the record {name} {why}: write a template of the whole request")]
    Record {
        /// The type of the record, as the WSDL names it.
        name: String,
        /// What it has.
        why: &'static str,
    },
    /// DIME tells lengths ahead.
    #[error(
        "the argument {name} changes from request to request, which DIME's lengths do not allow: give it one value, \
         or choose the packaging mtom"
    )]
    Dime {
        /// Of which parameter.
        name: String,
    },
    /// A file that is sent.
    #[error("cannot read a file that is sent")]
    File(#[from] io::Error),
}

/// A value that changes from request to request.
struct Changing {
    parameter: String,
    /// What stands for it in the packed message.
    mark: Vec<u8>,
    template: Template,
    /// It is a number of an array, which stays as it is where arrays travel as bytes.
    is_number: bool,
}

/// The request of an operation: its body, `Content-Type` and `SOAPAction` (quoted).
pub(crate) struct WsdlRequest {
    pub(crate) body: Template,
    pub(crate) content_type: String,
    pub(crate) action: Option<String>,
}

/// How requests are made from WSDLs: words that are filled once, the folder where paths begin, the seed of what DIME
/// can't have changing.
pub(crate) struct WsdlRequests<'e> {
    pub(crate) values: &'e BTreeMap<String, String>,
    pub(crate) here: &'e Path,
    pub(crate) seed: u64,
}

impl WsdlRequests<'_> {
    /// The request of an operation with these arguments, as they are written for `fishplate call`.
    pub(crate) async fn make(
        &self,
        service: &Service,
        operation: &str,
        words: &[String],
    ) -> Result<WsdlRequest, WsdlRequestError> {
        let described = service.operation(operation)?;
        let mut changing = Vec::new();
        let words = self.with_generated(described, words, &mut changing)?;
        let (mut inputs, outputs) = arguments::parse_all(&words)?;
        for input in &mut inputs {
            match input {
                ArgumentWord::Value { name, text } => {
                    *text = self.mark(name, text, &mut changing)?;
                }
                ArgumentWord::File { name, path } => {
                    let path_text = path.to_string_lossy();
                    let filled = fill(&path_text, self.values).map_err(|unknown| {
                        let (name, source) = (name.clone(), unknown.into());
                        WsdlRequestError::Template { name, source }
                    })?;
                    *path = self.here.join(filled);
                }
                _ => {}
            }
        }
        let mut given = arguments::load(described, inputs, None).await?;
        given.extend(self.generated_files(described, &given, &mut changing)?);
        if service.settings().packaging == Some(Packaging::Dime) {
            self.hold_still(&mut given, &changing)?;
            changing.clear();
        }
        let mut options = Options::default();
        options.call.outputs = arguments::choices(&outputs, false);
        let packed = service.request(operation, given, &options)?;
        let body = assembled(&bytes_of(&packed)?, &changing)?;
        let content_type = packed.content_type.into_owned();
        Ok(WsdlRequest { body, content_type, action: packed.soap_action })
    }

    /// The words, and more for required inputs that are not named.
    fn with_generated(
        &self,
        described: &DescribedOperation,
        words: &[String],
        changing: &mut Vec<Changing>,
    ) -> Result<Vec<String>, WsdlRequestError> {
        let mut all = words.to_vec();
        let named = |name: &str| {
            let name_of = |word: &String| word.split(['=', ':', '@']).next() == Some(name);
            words.iter().any(name_of)
        };
        let inputs = &described.definition.signature.inputs;
        let missing = inputs.iter().filter(|it| it.is_required() && !named(&it.name));
        for input in missing {
            let value = match &input.data_type {
                DataType::Array(array) => Some(self.array_text(&input.name, array, changing)?),
                _ => generated(input, inputs),
            };
            all.extend(value.map(|value| format!("{}={value}", input.name)));
        }
        Ok(all)
    }

    /// Lists within lists, of numbers that change.
    fn array_text(
        &self,
        name: &str,
        array: &ArrayType,
        changing: &mut Vec<Changing>,
    ) -> Result<String, WsdlRequestError> {
        let (suffix, word) = match array.element {
            ElementType::Int | ElementType::Long => ("", "random:-2147483648..2147483647"),
            ElementType::Float | ElementType::Double => (".5", "real:-1000000..1000000"),
        };
        let template = Template::parse(format!(">{{{word}}}<").as_bytes(), self.values, self.here)
            .map_err(|source| WsdlRequestError::Template { name: name.to_owned(), source })?;
        let before = changing.len();
        let mut number = || {
            if changing.len() - before == CHANGING_NUMBERS {
                return format!("1{suffix}");
            }
            // Each once; with few digits, so that a float has them all.
            let number = format!("{}{suffix}", 100_000 + changing.len());
            let (parameter, mark) = (name.to_owned(), format!(">{number}<").into());
            changing.push(Changing {
                parameter,
                mark,
                template: template.clone(),
                is_number: true,
            });
            number
        };
        Ok(nested(&array.dimensions, &mut number))
    }

    /// A text as it is sent, or the mark in its place if something in it changes.
    fn mark(
        &self,
        name: &str,
        text: &str,
        changing: &mut Vec<Changing>,
    ) -> Result<String, WsdlRequestError> {
        let parse = |text: &str| {
            Template::parse(text.as_bytes(), self.values, self.here)
                .map_err(|source| WsdlRequestError::Template { name: name.to_owned(), source })
        };
        let plain = parse(text)?;
        if plain.is_constant() {
            let text = plain.text(RequestId { request: 0, client: 0 });
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        let template =
            parse(&text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))?;
        let mark = format!("quake-mark-{}-{:016x}", changing.len(), self.unlikely(changing.len()));
        let parameter = name.to_owned();
        let marked = mark.clone().into();
        changing.push(Changing { parameter, mark: marked, template, is_number: false });
        Ok(mark)
    }

    /// A number that stands nowhere else by chance.
    fn unlikely(&self, number: usize) -> i64 {
        Random::new(self.seed, Stream::Request(u64::MAX - number as u64)).whole(0, i64::MAX)
    }

    /// Random bytes for required files, and values for the fields of required records, that are not named.
    fn generated_files(
        &self,
        described: &DescribedOperation,
        given: &[Argument],
        changing: &mut Vec<Changing>,
    ) -> Result<Vec<Argument>, WsdlRequestError> {
        let inputs = described.definition.signature.inputs.iter();
        let missing = inputs.filter(|input| {
            input.is_required()
                && (input.data_type.is_binary() || matches!(input.data_type, DataType::Record(_)))
                && given.iter().all(|argument| argument.name != input.name)
        });
        missing.map(|input| self.generate(input, &[], 0, changing)).collect()
    }

    /// A value of any type, but of an array, whose elements' names are known outside of records only.
    fn generate(
        &self,
        of: &Parameter,
        beside: &[Parameter],
        depth: usize,
        changing: &mut Vec<Changing>,
    ) -> Result<Argument, WsdlRequestError> {
        let cannot = |why| WsdlRequestError::Record { name: of.name.clone(), why };
        let value = match &of.data_type {
            DataType::Record(_) if depth == DEPTH => return Err(cannot("lies too deep")),
            DataType::Record(fields) => {
                let required = fields.iter().filter(|field| field.is_required());
                let values =
                    required.map(|field| self.generate(field, fields, depth + 1, changing));
                Value::Record(values.collect::<Result<_, _>>()?)
            }
            DataType::Array(_) => return Err(cannot("is an array in another record")),
            binary if binary.is_binary() => self.random_file(of, changing),
            _ => {
                let text = generated(of, beside).unwrap_or_default();
                Value::Text(self.mark(&of.name, &text, changing)?)
            }
        };
        Ok(Argument::new(&of.name, value))
    }

    fn random_file(&self, of: &Parameter, changing: &mut Vec<Changing>) -> Value {
        let bytes = match of.data_type {
            DataType::Xml => b"<quake/>".to_vec(),
            // The end of an archive: a directory that is empty.
            DataType::Dir => vec![0; 1024],
            _ => {
                let mut bytes = vec![0; FILE_LENGTH];
                let number = u64::MAX - changing.len() as u64;
                Random::new(self.seed, Stream::Request(number)).fill(&mut bytes);
                let mut template = Template::default();
                template.push_random_bytes(FILE_LENGTH);
                let (parameter, mark) = (of.name.clone(), bytes.clone());
                changing.push(Changing { parameter, mark, template, is_number: false });
                bytes
            }
        };
        Value::Data(Payload::Inline(bytes.into()))
    }

    /// The marks replaced by what they stand for in the first request, where the user asked for no more.
    fn hold_still(
        &self,
        given: &mut [Argument],
        changing: &[Changing],
    ) -> Result<(), WsdlRequestError> {
        let marked = |text: &str| changing.iter().find(|it| it.mark == text.as_bytes());
        for argument in given {
            if let Value::Record(fields) = &mut argument.value {
                self.hold_still(fields, changing)?;
            }
            let Value::Text(text) = &mut argument.value else { continue };
            let Some(change) = marked(text) else { continue };
            if change.template.is_numbered() {
                return Err(WsdlRequestError::Dime { name: argument.name.clone() });
            }
            let mut outgoing = Outgoing::default();
            let mut random = Random::new(self.seed, Stream::Request(0));
            change.template.fill(RequestId { request: 0, client: 0 }, &mut random, &mut outgoing);
            *text = String::from_utf8_lossy(outgoing.own()).into_owned();
        }
        Ok(())
    }
}

/// A random value of a type, as a word of a template; `None` for files, arrays and records.
fn generated(input: &Parameter, inputs: &[Parameter]) -> Option<String> {
    if !input.choices.is_empty() {
        return Some(format!("{{choice:{}}}", input.choices.join("|")));
    }
    let bound = |told: &Option<String>, otherwise: &str| {
        told.clone().unwrap_or_else(|| otherwise.to_owned())
    };
    let between = |word: &str, low: &str, high: &str| {
        Some(format!("{{{word}:{}..{}}}", bound(&input.min, low), bound(&input.max, high)))
    };
    match &input.data_type {
        DataType::Int | DataType::Long if names_an_axis(&input.name, inputs) => {
            Some(AXIS_LENGTH.to_string())
        }
        DataType::Int => between("random", "-2147483648", "2147483647"),
        DataType::Long => between("random", "-9223372036854775808", "9223372036854775807"),
        DataType::Float | DataType::Double => between("real", "-1000000", "1000000"),
        DataType::Bool => Some("{flag}".to_owned()),
        DataType::String => Some("{text:16}".to_owned()),
        DataType::DateTime => {
            let [month, day] = [12, 28].map(|most| two_digits(1, most));
            let [hour, minute, second] = [23, 59, 59].map(|most| two_digits(0, most));
            Some(format!("{{random:1970..2099}}-{month}-{day}T{hour}:{minute}:{second}Z"))
        }
        DataType::Raw | DataType::Xml | DataType::Dir => None,
        DataType::Array(_) | DataType::Record(_) => None,
    }
}

/// Whether an array among the inputs has an axis of this name.
fn names_an_axis(name: &str, inputs: &[Parameter]) -> bool {
    let arrays = inputs.iter().filter_map(|input| input.data_type.as_array());
    let mut axes = arrays.flat_map(|array| &array.dimensions);
    axes.any(|axis| matches!(axis, Dimension::Named(axis) if axis == name))
}

/// One of these numbers, each as likely, with a leading 0 if it is small.
fn two_digits(least: u32, most: u32) -> String {
    let all: Vec<String> = (least..=most).map(|number| format!("{number:02}")).collect();
    format!("{{choice:{}}}", all.join("|"))
}

/// Lists within lists of numbers.
fn nested(dimensions: &[Dimension], number: &mut dyn FnMut() -> String) -> String {
    let Some((first, within)) = dimensions.split_first() else { return number() };
    let length = match first {
        Dimension::Fixed(length) => *length,
        Dimension::Any | Dimension::Named(_) => AXIS_LENGTH,
    };
    let rows: Vec<String> = (0..length).map(|_| nested(within, number)).collect();
    format!("[{}]", rows.join(","))
}

/// All bytes of a message.
fn bytes_of(packed: &PackedMessage) -> io::Result<Vec<u8>> {
    let mut body = OutgoingBody::new(packed.segments.iter().cloned(), CHUNK);
    let mut all = Vec::new();
    while let Some(step) = body.step() {
        match step {
            BodyStep::Send(bytes) => all.extend_from_slice(&bytes),
            BodyStep::Read { held, at, len } => {
                let mut chunk = vec![0; len];
                File::open(held.path())?.read_exact_at(&mut chunk, at)?;
                all.extend_from_slice(&body.took(chunk));
            }
            // Streams come from callers in the same process; a word of an experiment is none.
            BodyStep::Wait => return Err(io::ErrorKind::Unsupported.into()),
        }
    }
    Ok(all)
}

/// The message as a template: each mark replaced, wherever it stands.
fn assembled(message: &[u8], changing: &[Changing]) -> Result<Template, WsdlRequestError> {
    let mut found: Vec<(usize, usize, Template)> = Vec::new();
    for change in changing {
        let before = found.len();
        let encoded = base64_simd::STANDARD.encode_to_string(&change.mark).into_bytes();
        for at in memmem::find_iter(message, &change.mark) {
            found.push((at, change.mark.len(), change.template.clone()));
        }
        // A file in the envelope alone travels as base64.
        if let Some(template) = change.template.in_base64() {
            for at in memmem::find_iter(message, &encoded) {
                found.push((at, encoded.len(), template.clone()));
            }
        }
        if found.len() == before && !change.is_number {
            return Err(WsdlRequestError::FileWords { name: change.parameter.clone() });
        }
    }
    found.sort_by_key(|(at, ..)| *at);
    let mut template = Template::default();
    let mut from = 0;
    for (at, length, piece) in found {
        template.push_literal(Bytes::copy_from_slice(&message[from..at]));
        template.extend(piece);
        from = at + length;
    }
    template.push_literal(Bytes::copy_from_slice(&message[from..]));
    Ok(template)
}

#[cfg(test)]
mod tests;

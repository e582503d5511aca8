//! Outputs as an answer: raw or as a document, by value or by reference (18-062r2, table 11).

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{
    Argument, Array, DataRef, Fault, FaultCode, Parameter, Payload, Principal, Value,
};
use fishplate_formats::json::scalar;
use fishplate_formats::schema::media_type;
use fishplate_wire::{Encoding, ItemFormat, PackedMessage, Segment};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use serde_json::json;

use super::execute::{ResponseForm, ResultsChoice};
use super::links::JSON;
use crate::data::blocking;
use crate::host::Host;
use crate::http::accept::Accepted;
use crate::http::{HttpBody, HttpResponse, reply_with};

const TEXT: &str = "text/plain; charset=utf-8";

/// Outputs of one parameter: several only if it may stand several times.
struct NamedOutputs<'o> {
    parameter: &'o Parameter,
    values: Vec<Argument>,
}

/// The answer that holds outputs.
///
/// # Errors
/// If a scalar that is wanted by reference can't be stored.
pub(super) async fn reply(
    host: &Host,
    caller: &Principal,
    known: &[Parameter],
    outputs: Vec<Argument>,
    choice: &ResultsChoice,
    headers: &HeaderMap,
) -> Result<HttpResponse, Fault> {
    let outputs = named(host, caller, known, outputs, choice).await?;
    let accepted = Accepted::of(headers);
    let form = choice.response.unwrap_or_else(|| {
        let is_raw = match known_of(known, choice) {
            // As the OpenAPI document tells, whose clients take JSON alone.
            1 if accepted.is_json_alone() => matches!(known, [one] if is_json(one)),
            1 => true,
            _ => accepted.names("multipart/related", JSON),
        };
        if is_raw { ResponseForm::Raw } else { ResponseForm::Document }
    });
    let count: usize = outputs.iter().map(|output| output.values.len()).sum();
    Ok(match (form, &outputs[..]) {
        (ResponseForm::Document, _) => document(&outputs),
        (ResponseForm::Raw, [NamedOutputs { parameter, values }]) if values.len() == 1 => {
            one(parameter, &values[0].value, &accepted)
        }
        (ResponseForm::Raw, all) if count == 0 || all.iter().all(NamedOutputs::is_elsewhere) => {
            elsewhere(all)
        }
        (ResponseForm::Raw, all) => multipart(all, &boundary()?),
    })
}

/// Whether an output is JSON as it is.
pub(super) fn is_json(output: &Parameter) -> bool {
    !output.repeated && !output.data_type.is_binary()
}

/// How many outputs are asked for.
fn known_of(known: &[Parameter], choice: &ResultsChoice) -> usize {
    if choice.outputs.is_empty() { known.len() } else { choice.outputs.len() }
}

/// Outputs that are wanted, in the order of their process.
async fn named<'o>(
    host: &Host,
    caller: &Principal,
    known: &'o [Parameter],
    mut outputs: Vec<Argument>,
    choice: &ResultsChoice,
) -> Result<Vec<NamedOutputs<'o>>, Fault> {
    let is_wanted =
        |name: &String| choice.outputs.is_empty() || choice.outputs.iter().any(|it| it == name);
    let mut all = Vec::new();
    for parameter in known.iter().filter(|parameter| is_wanted(&parameter.name)) {
        let (mut values, others): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|output| output.name == parameter.name);
        outputs = others;
        if choice.references.contains(&parameter.name) {
            for output in &mut values {
                if let Value::Text(text) = &mut output.value {
                    let bytes = Bytes::from(std::mem::take(text));
                    let reference = store(host, caller, &parameter.name, bytes).await?;
                    output.value = Value::Data(Payload::Reference(reference));
                }
            }
        }
        // What was not made, and need not be, is not told of.
        if !values.is_empty() || parameter.repeated {
            all.push(NamedOutputs { parameter, values });
        }
    }
    Ok(all)
}

/// Gives a text an address.
async fn store(host: &Host, owner: &Principal, name: &str, bytes: Bytes) -> Result<DataRef, Fault> {
    let (data, owner, name) = (Arc::clone(&host.data), owner.clone(), format!("{name}.txt"));
    blocking(move || {
        let len = bytes.len() as u64;
        let lease = data.pool.store(&owner, &[bytes], None, true)?;
        let grant = data.grant(&lease, &owner, &name, TEXT)?;
        Ok::<_, fishplate_data::PoolError>(DataRef { len: Some(len), ..DataRef::new(grant.url) })
    })
    .await
}

impl NamedOutputs<'_> {
    /// All of it is at an address.
    fn is_elsewhere(&self) -> bool {
        self.values.iter().all(|output| reference(&output.value).is_some())
    }

    /// The media type of a value that is not a reference.
    fn media_type(&self) -> &str {
        media_type_of(self.parameter)
    }
}

fn media_type_of(parameter: &Parameter) -> &str {
    let data_type = &parameter.data_type;
    if data_type.is_binary() || data_type.as_array().is_some() {
        media_type(parameter)
    } else {
        TEXT
    }
}

fn reference(value: &Value) -> Option<&DataRef> {
    match value {
        Value::Data(Payload::Reference(reference)) => Some(reference),
        _ => None,
    }
}

/// The numbers of an array as lists of JSON.
fn lists(array: &Array) -> Segment {
    let items = ItemFormat::json(array.element, &array.shape);
    Segment::of(&array.data, Encoding::Items(Arc::new(items)))
}

/// A body that is being put together.
#[derive(Default)]
struct BodyWriter {
    segments: Vec<Segment>,
    text: String,
}

impl BodyWriter {
    fn push(&mut self, segment: Segment) {
        let text = Bytes::from(std::mem::take(&mut self.text));
        self.segments.extend([Segment::Bytes(text), segment]);
    }

    fn body(mut self) -> HttpBody {
        self.segments.push(Segment::Bytes(self.text.into()));
        let len = self.segments.iter().map(Segment::len).sum();
        HttpBody::packed(PackedMessage { segments: self.segments, len, ..PackedMessage::nothing() })
    }

    /// A value as it stands in a document.
    fn value(&mut self, parameter: &Parameter, output: &Argument) {
        let media_type = media_type_of(parameter);
        match &output.value {
            Value::Text(text) => {
                self.text.push_str(&scalar(text, Some(&parameter.data_type)).to_string());
            }
            Value::Data(Payload::Reference(reference)) => {
                let mut link = json!({ "href": reference.url, "type": media_type });
                if let Some(label) = &output.label {
                    link["title"] = json!(label);
                }
                self.text.push_str(&link.to_string());
            }
            Value::Data(payload) => {
                self.text.push_str("{\"value\":\"");
                self.push(Segment::of(payload, Encoding::Base64));
                let mut rest = json!({ "encoding": "base64", "mediaType": media_type });
                if let Some(label) = &output.label {
                    rest["title"] = json!(label);
                }
                let rest = rest.to_string();
                self.text.push_str("\",");
                self.text.push_str(rest.trim_start_matches('{'));
            }
            Value::Array(array) => self.push(lists(array)),
            Value::Record(_) => self.text.push_str("null"),
        }
    }
}

/// JSON with all outputs (`results.yaml`). What is in files is encoded while it is sent.
fn document(outputs: &[NamedOutputs<'_>]) -> HttpResponse {
    let mut body = BodyWriter::default();
    body.text.push('{');
    for (at, NamedOutputs { parameter, values }) in outputs.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        body.text.push_str(&format!("{comma}{}:", json!(parameter.name)));
        if !parameter.repeated {
            values.iter().for_each(|output| body.value(parameter, output));
            continue;
        }
        body.text.push('[');
        for (at, output) in values.iter().enumerate() {
            body.text.push_str(if at == 0 { "" } else { "," });
            body.value(parameter, output);
        }
        body.text.push(']');
    }
    body.text.push('}');
    answer(StatusCode::OK, Some(JSON), body.body())
}

/// One output as it is.
fn one(parameter: &Parameter, value: &Value, accepted: &Accepted) -> HttpResponse {
    let (media_type, segment) = match value {
        Value::Data(Payload::Reference(_)) => {
            let output = Argument::new(&*parameter.name, value.clone());
            return elsewhere(&[NamedOutputs { parameter, values: vec![output] }]);
        }
        Value::Text(text) if accepted.names(JSON, "text/plain") => {
            let text = scalar(text, Some(&parameter.data_type)).to_string();
            (JSON, Segment::Bytes(text.into()))
        }
        value => (media_type_of(parameter), raw(value)),
    };
    let body = BodyWriter { segments: vec![segment], text: String::new() };
    answer(StatusCode::OK, Some(media_type), body.body())
}

/// A value's own bytes.
fn raw(value: &Value) -> Segment {
    match value {
        Value::Text(text) => Segment::Bytes(text.clone().into()),
        Value::Data(payload) => Segment::of(payload, Encoding::Raw),
        Value::Array(array) => lists(array),
        Value::Record(_) => Segment::Bytes(Bytes::new()),
    }
}

/// Nothing but the addresses of outputs, in the header.
fn elsewhere(outputs: &[NamedOutputs<'_>]) -> HttpResponse {
    let mut reply = answer(StatusCode::NO_CONTENT, None, HttpBody::bytes(""));
    for output in outputs {
        let (name, media_type) = (&output.parameter.name, output.media_type());
        for reference in output.values.iter().filter_map(|it| reference(&it.value)) {
            let link = format!(
                "<{}>; rel=\"item\"; title=\"{name}\"; type=\"{media_type}\"",
                reference.url
            );
            if let Ok(link) = HeaderValue::from_str(&link) {
                reply.headers_mut().append(header::LINK, link);
            }
        }
    }
    reply
}

/// What separates the parts of an answer: no output holds it, as nobody can know it before.
fn boundary() -> Result<String, Fault> {
    let mut bits = [0; 16];
    match getrandom::fill(&mut bits) {
        Ok(()) => Ok(format!("{:032x}", u128::from_le_bytes(bits))),
        Err(error) => Err(Fault::new(FaultCode::Internal, format!("no random bits: {error}"))),
    }
}

/// A part for each output (RFC 2387), which is named by its `Content-ID`.
fn multipart(outputs: &[NamedOutputs<'_>], boundary: &str) -> HttpResponse {
    let mut body = BodyWriter::default();
    for output in outputs {
        for value in &output.values {
            let (name, media_type) = (&output.parameter.name, output.media_type());
            let place = reference(&value.value).map_or_else(String::new, |reference| {
                format!("Content-Location: {}\r\n", reference.url)
            });
            body.text.push_str(&format!(
                "\r\n--{boundary}\r\nContent-ID: <{name}>\r\nContent-Type: {media_type}\r\n{place}\r\n"
            ));
            if place.is_empty() {
                body.push(raw(&value.value));
            }
        }
    }
    body.text.push_str(&format!("\r\n--{boundary}--\r\n"));
    answer(StatusCode::OK, Some(&format!("multipart/related; boundary={boundary}")), body.body())
}

fn answer(status: StatusCode, media_type: Option<&str>, body: HttpBody) -> HttpResponse {
    let mut fields = vec![
        (header::CACHE_CONTROL, "private"),
        // What a program wrote is no page of ours, whatever it says it is.
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
    ];
    fields.extend(media_type.map(|it| (header::CONTENT_TYPE, it)));
    reply_with(status, &fields, body)
}

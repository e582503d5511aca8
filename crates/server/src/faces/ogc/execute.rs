//! A request to run a process (18-062r2, section 7.11): its inputs, which outputs are wanted and how, and who is told.

use std::collections::BTreeMap;
use std::fmt::Display;

use bytes::Bytes;
use fishplate_contract::{
    Argument, CallOptions, Fault, FaultCode, OutputChoice, OutputForm, Parameter, lexical,
};
use fishplate_formats::schema;
use fishplate_wire::bind;
use fishplate_wire::media::MediaType;
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bounded;
use super::callback::Subscriber;
use super::form;
use super::given::GivenInputs;
use super::input::InputReader;
use super::process::Process;
use crate::faces::whole_body;
use crate::host::Host;
use crate::http::body::Incoming;
use crate::memory::MemoryReservation;
use crate::spool::spool_fault;

/// How a client wants to be answered (RFC 7240).
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Makes a request safe to repeat (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What a request in JSON may hold in memory while it is read, as a multiple of its length: its text, and the numbers of an
/// array, `[1,1]` being eight bytes each.
const GROWTH: u64 = 5;

/// The body of a request.
#[derive(Debug, Deserialize)]
struct Execute<'a> {
    #[serde(borrow)]
    inputs: Option<&'a RawValue>,
    #[serde(borrow)]
    outputs: Option<&'a RawValue>,
    response: Option<ResponseForm>,
    subscriber: Option<Subscriber>,
}

/// How one output is wanted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputRequest {
    transmission_mode: Option<TransmissionMode>,
    format: Option<Format>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Format {
    media_type: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TransmissionMode {
    Value,
    Reference,
}

/// What the body of the results is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ResponseForm {
    /// The outputs themselves.
    Raw,
    /// JSON with all of them.
    Document,
}

/// How results are answered: kept with a job, for whoever asks for them later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ResultsChoice {
    /// The outputs that are wanted; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) outputs: Vec<String>,
    /// Those that are wanted by reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) references: Vec<String>,
    /// `None`: as there is one output or there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<ResponseForm>,
    /// Who is told how it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subscriber: Option<Subscriber>,
    /// What it was given, for whoever wants to run it again; no more than `inputs_kept`.
    #[serde(default, skip_serializing_if = "GivenInputs::is_empty")]
    pub(super) given: GivenInputs,
}

impl ResultsChoice {
    /// As it was kept with a job; of one of another face there is none, and all is told.
    pub(super) fn of_note(note: Option<&str>) -> Self {
        let all = Self { response: Some(ResponseForm::Document), ..Self::default() };
        note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or(all)
    }

    pub(super) fn note(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

/// A request that was read.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) arguments: Vec<Argument>,
    pub(super) options: CallOptions,
    pub(super) choice: ResultsChoice,
    /// The client would rather have a job than wait.
    pub(super) is_async: bool,
}

/// What of `Prefer` means something here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Preferences {
    respond_async: bool,
    /// `return=minimal`: files and arrays by reference.
    minimal: bool,
}

impl Preferences {
    fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        let fields = headers.get_all(PREFER).iter().filter_map(|field| field.to_str().ok());
        for preference in fields.flat_map(|field| field.split(',')) {
            let preference = preference.split(';').next().unwrap_or_default();
            match preference.to_ascii_lowercase().replace([' ', '"'], "").as_str() {
                "respond-async" => found.respond_async = true,
                "return=minimal" => found.minimal = true,
                _ => {}
            }
        }
        found
    }
}

/// Reads the body of a request. `memory` is what its arguments hold then; `given` tells what of it was read, even if something
/// is wrong with it.
///
/// # Errors
/// What is wrong with it.
pub(super) async fn read<B>(
    host: &Host,
    process: Process<'_>,
    headers: &HeaderMap,
    body: &mut Incoming<B>,
    memory: &mut MemoryReservation,
    given: &mut GivenInputs,
) -> Result<Execution, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let media = media_type(headers);
    let known = &process.call.signature.inputs;
    if let Some(media) = media.as_ref().filter(|media| form::is_form(media)) {
        let arguments = Box::pin(form::read(host, known, media, body, memory, given)).await?;
        return execution(host, process, headers, arguments, ExecuteOptions::default(), given);
    }
    let (arguments, wanted) = Box::pin(read_json(host, process, media, body, memory)).await?;
    *given = GivenInputs::of(&arguments);
    execution(host, process, headers, arguments, wanted, given)
}

/// What a request says beside its inputs.
#[derive(Debug, Default)]
struct ExecuteOptions {
    outputs: BTreeMap<String, Option<OutputRequest>>,
    response: Option<ResponseForm>,
    subscriber: Option<Subscriber>,
}

/// A request of these arguments.
fn execution(
    host: &Host,
    process: Process<'_>,
    headers: &HeaderMap,
    arguments: Vec<Argument>,
    wanted: ExecuteOptions,
    given: &GivenInputs,
) -> Result<Execution, Fault> {
    let definition = process.call;
    let arguments = bind::accept(&definition.name, &definition.signature.inputs, arguments)?;
    let preferences = Preferences::of(headers);
    let (outputs, references) = choices(process.outputs(), &wanted.outputs, preferences.minimal)?;
    let choice = ResultsChoice {
        outputs: wanted.outputs.into_keys().collect(),
        references,
        response: wanted.response,
        subscriber: wanted.subscriber,
        given: given.clone().within(host.settings.inputs_kept),
    };
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()).map(str::to_owned);
    let options = CallOptions { key, outputs, ..CallOptions::default() };
    Ok(Execution { arguments, options, choice, is_async: preferences.respond_async })
}

fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    let told = headers.get(header::CONTENT_TYPE)?;
    Some(MediaType::parse(told.to_str().unwrap_or("?")))
}

/// Reads a request in JSON.
async fn read_json<B>(
    host: &Host,
    process: Process<'_>,
    media: Option<MediaType>,
    body: &mut Incoming<B>,
    memory: &mut MemoryReservation,
) -> Result<(Vec<Argument>, ExecuteOptions), Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let bytes = whole(host, media, body, memory).await?;
    let malformed = |error: serde_json::Error| {
        let what = format!("this is no request to run a process: {error}");
        Fault::new(FaultCode::MalformedMessage, what)
    };
    let request: Execute<'_> = match &bytes[..] {
        [] => serde_json::from_str("{}"),
        bytes => serde_json::from_slice(bytes),
    }
    .map_err(malformed)?;
    let members = host.settings.wire.children;
    let inputs = request.inputs.map_or("{}", RawValue::get);
    let inputs = bounded::object::<&RawValue>(inputs, members, malformed)?;
    let wanted = request.outputs.map_or("{}", RawValue::get);
    let wanted = bounded::object::<Option<OutputRequest>>(wanted, members, malformed)?;
    let known = &process.call.signature.inputs;
    let mut sink = host.spool.sink();
    let mut reader =
        InputReader { sink: &mut sink, inline_size: host.settings.wire.inline_size, members };
    let mut arguments = Vec::with_capacity(inputs.len());
    for (name, given) in &inputs {
        match known.iter().find(|parameter| parameter.name == *name) {
            Some(parameter) => reader.read(parameter, given, &mut arguments)?,
            // That it is not known is told with what is.
            None => arguments.push(Argument::text(name, "")),
        }
    }
    sink.finish().await.map_err(|error| spool_fault(&error))?;
    let Execute { response, subscriber, .. } = request;
    Ok((arguments, ExecuteOptions { outputs: wanted, response, subscriber }))
}

/// All of a body in JSON.
async fn whole<B>(
    host: &Host,
    media: Option<MediaType>,
    body: &mut Incoming<B>,
    memory: &mut MemoryReservation,
) -> Result<Vec<u8>, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let is_json =
        |media: &MediaType| media.essence == "application/json" || media.essence.ends_with("+json");
    if let Some(media) = media.filter(|media| !is_json(media)) {
        let shown = lexical::shortened(&media.essence);
        let what = format!("{shown:?} is not taken here; send application/json, or a form");
        return Err(Fault::new(FaultCode::UnsupportedMediaType, what));
    }
    let most = ("json_size", host.settings.json_size);
    whole_body::read(host, most, GROWTH, body, memory).await
}

/// How each output goes, as dispatch is told, and which go by reference.
fn choices(
    known: &[Parameter],
    wanted: &BTreeMap<String, Option<OutputRequest>>,
    minimal: bool,
) -> Result<(Vec<OutputChoice>, Vec<String>), Fault> {
    if let Some(name) = wanted.keys().find(|name| known.iter().all(|it| it.name != **name)) {
        let names: Vec<&str> = known.iter().map(|it| it.name.as_str()).collect();
        let what = format!("there is no output {name}; there are {}", names.join(", "));
        return Err(Fault::new(FaultCode::UnexpectedParameter, what).parameter(name));
    }
    let (mut choices, mut references) = (Vec::new(), Vec::new());
    for parameter in known {
        let is_file = parameter.data_type.is_binary() || parameter.data_type.as_array().is_some();
        let request = wanted.get(&parameter.name).and_then(Option::as_ref);
        let told = request.and_then(|it| it.format.as_ref()?.media_type.as_deref());
        check_format(parameter, told)?;
        let by_reference = match request.and_then(|it| it.transmission_mode) {
            Some(mode) => mode == TransmissionMode::Reference,
            None => minimal && is_file,
        };
        if by_reference {
            references.push(parameter.name.clone());
        }
        if by_reference && is_file {
            let (name, form) = (parameter.name.clone(), OutputForm::Reference);
            choices.push(OutputChoice { name, form, to: None });
        }
    }
    Ok((choices, references))
}

/// An output has one media type: that which its description tells.
fn check_format(parameter: &Parameter, wanted: Option<&str>) -> Result<(), Fault> {
    let own = schema::media_type(parameter);
    let fits = |wanted: &str| wanted == own || !parameter.data_type.is_binary();
    match wanted {
        Some(wanted) if !fits(wanted) => {
            let what = format!("output {} is {own}; it can't be had as {wanted}", parameter.name);
            Err(Fault::new(FaultCode::InvalidValue, what).parameter(&*parameter.name))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use fishplate_contract::DataType;
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn preferences_are_read_in_whatever_fields_they_stand() {
        let mut headers = HeaderMap::new();
        assert_eq!(Preferences::of(&headers), Preferences::default());
        headers.append(PREFER, HeaderValue::from_static("wait=5, Respond-Async ;x=y"));
        headers.append(PREFER, HeaderValue::from_static("return = \"minimal\""));
        assert_eq!(Preferences::of(&headers), Preferences { respond_async: true, minimal: true });
    }

    #[test]
    fn outputs_are_chosen_by_name_and_files_go_as_dispatch_is_told() {
        let known = [Parameter::new("mesh", DataType::Raw), Parameter::new("n", DataType::Int)];
        let wanted = |text: &str| {
            let asked = serde_json::from_str::<Execute<'_>>(text).unwrap().outputs;
            let asked = asked.map_or("{}", RawValue::get).to_owned();
            serde_json::from_str::<BTreeMap<String, Option<OutputRequest>>>(&asked).unwrap()
        };
        let both = r#"{"outputs": {"mesh": {"transmissionMode": "reference"}, "n": {"transmissionMode": "reference"}}}"#;
        let (found, references) = choices(&known, &wanted(both), false).unwrap();
        assert_eq!(found.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["mesh"]);
        assert_eq!(references, ["mesh", "n"]);
        let minimal = choices(&known, &BTreeMap::new(), true).unwrap();
        assert_eq!(minimal.1, ["mesh"]);
        for (text, code) in [
            (r#"{"outputs": {"other": {}}}"#, FaultCode::UnexpectedParameter),
            (
                r#"{"outputs": {"mesh": {"format": {"mediaType": "image/png"}}}}"#,
                FaultCode::InvalidValue,
            ),
        ] {
            assert_eq!(choices(&known, &wanted(text), false).unwrap_err().code, code);
        }
    }

    #[test]
    fn what_is_kept_with_a_job_is_found_again() {
        let choice = ResultsChoice {
            outputs: vec!["mesh".to_owned()],
            response: Some(ResponseForm::Raw),
            ..ResultsChoice::default()
        };
        assert_eq!(ResultsChoice::of_note(choice.note().as_deref()), choice);
        assert_eq!(ResultsChoice::of_note(None).response, Some(ResponseForm::Document));
    }
}

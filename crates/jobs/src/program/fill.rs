//! A call's arguments into words and files. What a caller sends becomes text within one word, or
//! a file's bytes; it can add no word, name no file and begin no option.

use std::borrow::Cow;

use fishplate_contract::lexical::trimmed;
use fishplate_contract::{
    Argument, Array, DataRef, DataType, Fault, FaultCode, Parameter, Payload, Value,
};
use fishplate_formats::array_file::{self, Format};
use fishplate_formats::dimension::Dimensions;

use super::{InputPlacement, PlacedInput, command_line};
use crate::arguments;
use crate::descriptor::{Input, Invocation};
use crate::plan::{FetchedForm, InputContent, InputFile, OutputRule, ReferencedInput};
use crate::template::{
    ArgumentPassing, CommandItem, Slot, StandardStream, StreamTarget, Word, WordPart,
};

/// A command line with its values.
#[derive(Debug, Default)]
pub(super) struct FilledCommand {
    pub(super) arguments: Vec<String>,
    pub(super) stdin: Option<String>,
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
    pub(super) inputs: Vec<InputFile>,
    pub(super) placements: Vec<InputPlacement>,
    pub(super) dimensions: Dimensions,
    /// The parameter whose text is the longest that stands in an argument.
    pub(super) longest: Option<String>,
    /// Bytes of files that are in `inputs`.
    in_plan: usize,
}

/// A value that was accepted.
#[derive(Debug)]
enum AcceptedValue {
    Text(String),
    Data(Payload),
    Array(Array),
    /// To be fetched; an array's shape, if it was told.
    Refers(DataRef, Option<Vec<u64>>),
    /// Left out, and nothing stands in for it.
    Absent,
}

pub(super) fn fill(
    invocation: &Invocation,
    mut given: Vec<Argument>,
) -> Result<FilledCommand, Fault> {
    let parameters = invocation.inputs.iter().map(|input| &input.parameter);
    arguments::check(&invocation.operation, parameters.clone(), &given)?;
    let accepted: Vec<AcceptedValue> = parameters.map(|it| accepted(it, &mut given)).collect();
    let dimensions = dimensions(invocation, &accepted)?;
    let mut filled = FilledCommand { dimensions, ..FilledCommand::default() };
    let values = FillValues { invocation, accepted: &accepted };
    for (index, item) in invocation.template.items.iter().enumerate() {
        match item {
            CommandItem::Word(_) if index == 0 => {}
            CommandItem::Word(word) => filled.arguments.extend(values.words(word)?),
            CommandItem::Redirect(stream, target) => {
                let file = match target {
                    StreamTarget::File(name) => Some(name.clone()),
                    StreamTarget::Slot(slot) => values.file(slot),
                };
                match stream {
                    StandardStream::Input => filled.stdin = file,
                    StandardStream::Output => filled.stdout = file,
                    StandardStream::Error => filled.stderr = file,
                }
            }
        }
    }
    let texts = invocation.inputs.iter().zip(&accepted).filter_map(|(input, value)| match value {
        AcceptedValue::Text(text) if input.filename.is_none() => Some((text.len(), input)),
        _ => None,
    });
    let longest = texts.max_by_key(|(len, _)| *len);
    filled.longest = longest.map(|(_, input)| input.parameter.name.clone());
    for (input, value) in invocation.inputs.iter().zip(accepted) {
        if let Some(path) = &input.filename {
            let private = input.private || invocation.changes(path);
            filled.place(path, value, input, private)?;
        }
    }
    Ok(filled)
}

/// The lengths that the call tells: of the arrays in it, and of axes that are named as one of its
/// whole numbers.
fn dimensions(invocation: &Invocation, accepted: &[AcceptedValue]) -> Result<Dimensions, Fault> {
    let mut known = Dimensions::default();
    let invalid =
        |name: &str, message| Fault::new(FaultCode::InvalidValue, message).parameter(name);
    for (input, value) in invocation.inputs.iter().zip(accepted) {
        let Parameter { name, data_type, .. } = &input.parameter;
        let AcceptedValue::Text(text) = value else { continue };
        let whole = matches!(data_type, DataType::Int | DataType::Long);
        let Some(array) = invocation.array_with_axis(name).filter(|_| whole) else { continue };
        let length = text.parse::<i64>().ok().and_then(|length| u64::try_from(length).ok());
        let length = length.ok_or_else(|| {
            let message =
                format!("parameter {name} is the length of an axis ({array}): {text} is none");
            invalid(name, message)
        })?;
        known.tell(name, length, format!("parameter {name}"));
    }
    for (input, value) in invocation.inputs.iter().zip(accepted) {
        let Parameter { name, data_type, .. } = &input.parameter;
        let (
            AcceptedValue::Array(Array { shape, .. }) | AcceptedValue::Refers(_, Some(shape)),
            DataType::Array(wanted),
        ) = (value, data_type)
        else {
            continue;
        };
        known
            .bind(wanted, shape, &format!("parameter {name}"))
            .map_err(|message| invalid(name, message))?;
    }
    Ok(known)
}

/// What to collect, the same for every call.
pub(super) fn output_rules(invocation: &Invocation) -> Vec<OutputRule> {
    let rule = |output: &crate::descriptor::Output| OutputRule {
        name: output.parameter.name.clone(),
        data_type: output.parameter.data_type.name().into_owned(),
        source: output.source.clone(),
        required: !output.parameter.optional,
        format: output.parameter.data_type.as_array().map(|_| output.format),
        media_type: output.parameter.media_type.clone(),
    };
    invocation.outputs.iter().map(rule).collect()
}

/// The value of a parameter, taken out of the arguments, which were checked.
fn accepted(parameter: &Parameter, arguments: &mut Vec<Argument>) -> AcceptedValue {
    let at = arguments.iter().position(|argument| argument.name == parameter.name);
    match at.map(|at| arguments.remove(at).value) {
        Some(Value::Text(text)) => AcceptedValue::Text(normal(parameter, text)),
        Some(Value::Data(Payload::Reference(reference))) => AcceptedValue::Refers(reference, None),
        Some(Value::Array(Array { data: Payload::Reference(reference), shape, .. })) => {
            AcceptedValue::Refers(reference, Some(shape))
        }
        Some(Value::Data(payload)) => AcceptedValue::Data(payload),
        Some(Value::Array(array)) => AcceptedValue::Array(array),
        Some(Value::Record(_)) => AcceptedValue::Absent,
        None => parameter.default.clone().map_or(AcceptedValue::Absent, AcceptedValue::Text),
    }
}

/// A text may be large: as a rule nothing of it is copied.
fn normal(parameter: &Parameter, text: String) -> String {
    match parameter.normal(&text) {
        Cow::Borrowed(all) if all == text => text,
        other => other.into_owned(),
    }
}

struct FillValues<'v> {
    invocation: &'v Invocation,
    accepted: &'v [AcceptedValue],
}

impl FillValues<'_> {
    fn of(&self, slot: &Slot) -> Option<(&Input, &AcceptedValue)> {
        let inputs = self.invocation.inputs.iter().zip(self.accepted);
        inputs.into_iter().find(|(input, _)| input.parameter.name == slot.name)
    }

    /// The words that a word becomes: itself with its prefix, or none.
    fn words(&self, word: &Word) -> Result<Vec<String>, Fault> {
        let mut words = Vec::new();
        let mut text = String::new();
        let (mut led_by_nothing, mut last) = (None, None);
        for part in &word.parts {
            let slot = match part {
                WordPart::Text(literal) => {
                    text.push_str(literal);
                    continue;
                }
                WordPart::Slot(slot) => slot,
            };
            let Some(value) = self.text(slot) else { return Ok(Vec::new()) };
            if text.is_empty() && trimmed(&value).is_empty() {
                led_by_nothing = Some(&slot.name);
            }
            command_line::check_word(&slot.name, text.len() + value.len())?;
            text.push_str(&value);
            last = Some(&slot.name);
            if slot.direction.takes()
                && let Some((input, _)) = self.of(slot)
            {
                words.extend(input.prefix.clone());
            }
        }
        if let Some(name) = led_by_nothing.filter(|_| trimmed(&text).starts_with('-')) {
            let message = format!(
                "parameter {name} may not be empty: what follows it begins with '-' and could \
                 pass for an option of the program"
            );
            return Err(Fault::new(FaultCode::InvalidValue, message).parameter(name));
        }
        if let Some(name) = last {
            command_line::check_word(name, text.len())?;
        }
        words.push(text);
        Ok(words)
    }

    /// The text that a slot becomes; `None` leaves out its word.
    fn text(&self, slot: &Slot) -> Option<Cow<'_, str>> {
        if slot.passing == ArgumentPassing::File {
            return self.file(slot).map(Cow::Owned);
        }
        let (input, value) = self.of(slot)?;
        match (value, &input.flag) {
            (AcceptedValue::Text(text), Some(flag)) => {
                matches!(text.as_str(), "true" | "1").then_some(Cow::Borrowed(flag.as_str()))
            }
            (AcceptedValue::Text(text), None) => Some(Cow::Borrowed(text)),
            (
                AcceptedValue::Data(_)
                | AcceptedValue::Array(_)
                | AcceptedValue::Refers(..)
                | AcceptedValue::Absent,
                _,
            ) => None,
        }
    }

    /// The file of a slot that is passed by file, or that a stream is connected with.
    fn file(&self, slot: &Slot) -> Option<String> {
        if !slot.direction.takes() {
            return self.invocation.output_file(&slot.name).map(str::to_owned);
        }
        let (input, value) = self.of(slot)?;
        if matches!(value, AcceptedValue::Absent) { None } else { input.filename.clone() }
    }
}

/// Bytes of all files that are persisted in the plan; what is more is put into its place when the
/// job is accepted, so that a plan stays small whatever a caller sends.
const MOST_IN_PLAN: usize = 64 << 10;

/// How much longer an array's file may be than the array, as text.
const ARRAY_AS_TEXT: usize = 5;

/// Bytes of an array whose file is persisted in the plan.
const SMALL_ARRAY: usize = 8 << 10;

fn fetch(
    parameter: &Parameter,
    reference: &DataRef,
    shape: Option<Vec<u64>>,
    format: Format,
    private: bool,
) -> ReferencedInput {
    let arrival = match &parameter.data_type {
        DataType::Array(array) => {
            FetchedForm::Array { data_type: array.to_string(), format, shape }
        }
        DataType::Dir => FetchedForm::Directory,
        _ => FetchedForm::File,
    };
    ReferencedInput::new(&parameter.name, reference, private, arrival)
        .read_as(&parameter.media_type)
}

impl FilledCommand {
    fn place(
        &mut self,
        path: &str,
        value: AcceptedValue,
        input: &Input,
        private: bool,
    ) -> Result<(), Fault> {
        let format = &input.format;
        let left = MOST_IN_PLAN - self.in_plan;
        let small = |data: &Payload, most: usize| {
            data.pieces().is_some() && data.len().is_some_and(|len| len <= most as u64)
        };
        let content = match value {
            AcceptedValue::Absent => return Ok(()),
            AcceptedValue::Refers(reference, shape) => {
                InputContent::Fetch(fetch(&input.parameter, &reference, shape, *format, private))
            }
            AcceptedValue::Text(text) if text.len() <= left => self.keep(text.into_bytes()),
            AcceptedValue::Text(text) => {
                self.put(path, PlacedInput::Bytes(Payload::Inline(text.into())))
            }
            AcceptedValue::Data(data) if input.parameter.data_type == DataType::Dir => {
                self.put(path, PlacedInput::Directory(data, input.parameter.name.clone()))
            }
            AcceptedValue::Data(data) if small(&data, left) => {
                self.keep(data.pieces().unwrap_or_default().concat())
            }
            AcceptedValue::Array(array)
                if small(&array.data, SMALL_ARRAY.min(left / ARRAY_AS_TEXT)) =>
            {
                let bytes = array_file::to_bytes(&array, format).map_err(|error| {
                    Fault::new(FaultCode::Internal, format!("{path} can't be made: {error}"))
                })?;
                self.keep(bytes)
            }
            AcceptedValue::Data(data) => self.put(path, PlacedInput::Bytes(data)),
            AcceptedValue::Array(Array { data, .. }) if *format == Format::PLAIN => {
                self.put(path, PlacedInput::Bytes(data))
            }
            AcceptedValue::Array(array) => self.put(path, PlacedInput::Array(array, *format)),
        };
        self.inputs.push(InputFile { path: path.to_owned(), content });
        Ok(())
    }

    fn keep(&mut self, bytes: Vec<u8>) -> InputContent {
        // An array's file may be a little longer than was reckoned with.
        self.in_plan = self.in_plan.saturating_add(bytes.len()).min(MOST_IN_PLAN);
        match String::from_utf8(bytes) {
            Ok(text) => InputContent::Text(text),
            Err(error) => InputContent::Bytes(error.into_bytes()),
        }
    }

    fn put(&mut self, path: &str, content: PlacedInput) -> InputContent {
        self.placements.push(InputPlacement { path: path.to_owned(), content });
        InputContent::InPlace
    }
}

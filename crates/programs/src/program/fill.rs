//! A call's arguments into words and files. What a caller sends becomes text within one word, or
//! a file's bytes; it can add no word, name no file and begin no option.

use std::borrow::Cow;
use std::path::PathBuf;

use fishplate_contract::{
    Argument, Array, DataRef, DataType, Fault, FaultCode, Parameter, Payload, Value,
};
use fishplate_formats::array_file::{self, Format};
use fishplate_formats::dimension::Dimensions;

use super::{InputPlacement, PlacedInput, groups, outputs, words};
use crate::arguments;
use crate::descriptor::{Input, Invocation};
use crate::plan::{FetchedForm, InputContent, InputFile, OutputRule, ReferencedInput, StagedFile};
use crate::template::{CommandItem, StandardStream, StreamTarget};

/// A command line with its values.
#[derive(Debug, Default)]
pub(super) struct FilledCommand {
    pub(super) arguments: Vec<String>,
    pub(super) stdin: Option<String>,
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
    pub(super) inputs: Vec<InputFile>,
    pub(super) placements: Vec<InputPlacement>,
    /// Files of the owner that stand in for what was left out.
    pub(super) staged: Vec<StagedFile>,
    pub(super) outputs: Vec<OutputRule>,
    pub(super) dimensions: Dimensions,
    /// The parameter whose text is the longest that stands in an argument.
    pub(super) longest: Option<String>,
    /// Bytes of files that are in `inputs`.
    in_plan: usize,
}

/// A value that was accepted.
#[derive(Debug)]
pub(super) enum AcceptedValue {
    Text(String),
    Data(Payload),
    Array(Array),
    /// To be fetched; an array's shape, if it was told.
    Refers(DataRef, Option<Vec<u64>>),
    /// Those of a list, one or more.
    Several(Vec<AcceptedValue>),
    /// The owner's file stands in for it.
    Staged(PathBuf),
    /// Left out, and nothing stands in for it.
    Absent,
}

impl AcceptedValue {
    /// Bytes of its text, or texts.
    fn text_len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Several(values) => values.iter().map(Self::text_len).sum(),
            _ => 0,
        }
    }
}

pub(super) fn fill(
    invocation: &Invocation,
    mut given: Vec<Argument>,
) -> Result<FilledCommand, Fault> {
    let parameters = invocation.inputs.iter().map(|input| &input.parameter);
    arguments::check(&invocation.operation, parameters, &given)?;
    groups::check(invocation, &given)?;
    let accepted: Vec<AcceptedValue> =
        invocation.inputs.iter().map(|input| accepted_of(input, &mut given)).collect();
    let dimensions = dimensions(invocation, &accepted)?;
    let outputs = outputs::rules(invocation, &accepted)?;
    let mut filled = FilledCommand { dimensions, outputs, ..FilledCommand::default() };
    let values = words::FillValues { invocation, accepted: &accepted };
    for (index, item) in invocation.template.items.iter().enumerate() {
        match item {
            CommandItem::Word(_) if index == 0 => {}
            CommandItem::Word(word) => filled.arguments.extend(values.words(word)?),
            CommandItem::Redirect(stream, target) => {
                let file = match target {
                    StreamTarget::File(name) => Some(name.clone()),
                    StreamTarget::Slot(slot) => values.files(slot).into_iter().flatten().next(),
                };
                match stream {
                    StandardStream::Input => filled.stdin = file,
                    StandardStream::Output => filled.stdout = file,
                    StandardStream::Error => filled.stderr = file,
                }
            }
        }
    }
    let texts = invocation.inputs.iter().zip(&accepted).filter(|(it, _)| it.filename.is_none());
    let longest = texts.max_by_key(|(_, value)| value.text_len());
    filled.longest = longest
        .filter(|(_, value)| value.text_len() > 0)
        .map(|(input, _)| input.parameter.name.clone());
    for (input, value) in invocation.inputs.iter().zip(accepted) {
        let Some(filename) = &input.filename else { continue };
        let private = input.private || invocation.changes(filename);
        let values = match value {
            AcceptedValue::Several(values) => values,
            value => vec![value],
        };
        for (index, value) in values.into_iter().enumerate() {
            let path = input.file(index + 1).unwrap_or_default();
            filled.place(&path, value, input, private)?;
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

/// The value of an input, taken out of the arguments, which were checked.
fn accepted_of(input: &Input, arguments: &mut Vec<Argument>) -> AcceptedValue {
    let parameter = &input.parameter;
    let is_it = |argument: &Argument| argument.name == parameter.name;
    if input.list.is_some() {
        let values = arguments.extract_if(.., |argument| is_it(argument));
        let values: Vec<_> = values.map(|argument| accepted(parameter, argument.value)).collect();
        return if values.is_empty() {
            AcceptedValue::Absent
        } else {
            AcceptedValue::Several(values)
        };
    }
    let at = arguments.iter().position(is_it);
    match (at.map(|at| arguments.remove(at).value), &parameter.default, &input.default_file) {
        (Some(value), ..) => accepted(parameter, value),
        (None, Some(text), _) => AcceptedValue::Text(text.clone()),
        (None, None, Some(file)) => AcceptedValue::Staged(file.clone()),
        (None, None, None) => AcceptedValue::Absent,
    }
}

fn accepted(parameter: &Parameter, value: Value) -> AcceptedValue {
    match value {
        Value::Text(text) => AcceptedValue::Text(normal(parameter, text)),
        Value::Data(Payload::Reference(reference)) => AcceptedValue::Refers(reference, None),
        Value::Array(Array { data: Payload::Reference(reference), shape, .. }) => {
            AcceptedValue::Refers(reference, Some(shape))
        }
        Value::Data(payload) => AcceptedValue::Data(payload),
        Value::Array(array) => AcceptedValue::Array(array),
        Value::Record(_) => AcceptedValue::Absent,
    }
}

/// A text may be large: as a rule nothing of it is copied.
fn normal(parameter: &Parameter, text: String) -> String {
    match parameter.normal(&text) {
        Cow::Borrowed(all) if all == text => text,
        other => other.into_owned(),
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
            AcceptedValue::Absent | AcceptedValue::Several(_) => return Ok(()),
            AcceptedValue::Staged(from) => {
                self.staged.push(StagedFile { from, to: path.to_owned() });
                return Ok(());
            }
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

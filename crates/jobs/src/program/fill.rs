//! A call's arguments into words and files. What a caller sends becomes text within one word, or
//! a file's bytes; it can add no word, name no file and begin no option.

use fishplate_contract::{Argument, Fault, FaultCode, Parameter, Payload, Value};

use super::Placement;
use crate::descriptor::{Input, Invocation};
use crate::plan::{InputContent, InputFile, OutputRule};
use crate::template::{Item, Part, Passing, Slot, Stream, Target, Word};

/// A command line with its values.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) arguments: Vec<String>,
    pub(super) stdin: Option<String>,
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
    pub(super) inputs: Vec<InputFile>,
    pub(super) placements: Vec<Placement>,
}

/// A value that was accepted.
#[derive(Debug)]
enum Accepted {
    Text(String),
    Data(Payload),
    /// Left out, and nothing stands in for it.
    Absent,
}

pub(super) fn fill(invocation: &Invocation, arguments: &[Argument]) -> Result<Filled, Fault> {
    reject_strays(invocation, arguments)?;
    let accepted = invocation
        .inputs
        .iter()
        .map(|input| accept(&input.parameter, arguments))
        .collect::<Result<Vec<_>, Fault>>()?;
    let mut filled = Filled::default();
    let values = Values { invocation, accepted: &accepted };
    for (index, item) in invocation.template.items.iter().enumerate() {
        match item {
            Item::Word(_) if index == 0 => {}
            Item::Word(word) => filled.arguments.extend(values.words(word)?),
            Item::Redirect(stream, target) => {
                let file = match target {
                    Target::File(name) => Some(name.clone()),
                    Target::Slot(slot) => values.file(slot),
                };
                match stream {
                    Stream::Input => filled.stdin = file,
                    Stream::Output => filled.stdout = file,
                    Stream::Error => filled.stderr = file,
                }
            }
        }
    }
    for (input, value) in invocation.inputs.iter().zip(accepted) {
        if let Some(path) = &input.filename {
            filled.place(path, value);
        }
    }
    Ok(filled)
}

/// What to collect, the same for every call.
pub(super) fn output_rules(invocation: &Invocation) -> Vec<OutputRule> {
    let rule = |output: &crate::descriptor::Output| OutputRule {
        name: output.parameter.name.clone(),
        data_type: output.parameter.data_type.name().into_owned(),
        source: output.source.clone(),
        required: !output.parameter.optional,
    };
    invocation.outputs.iter().map(rule).collect()
}

/// Arguments that no parameter takes, or that stand twice.
fn reject_strays(invocation: &Invocation, arguments: &[Argument]) -> Result<(), Fault> {
    for (index, argument) in arguments.iter().enumerate() {
        let name = &argument.name;
        let stray =
            |message| Err(Fault::new(FaultCode::UnexpectedParameter, message).parameter(name));
        if invocation.input(name).is_none() {
            let known: Vec<&str> =
                invocation.inputs.iter().map(|input| input.parameter.name.as_str()).collect();
            let known = match known.as_slice() {
                [] => "it takes none".to_owned(),
                known => format!("it takes {}", known.join(", ")),
            };
            let shown = fishplate_contract::lexical::shortened(name);
            return stray(format!(
                "operation {} has no parameter {shown:?}; {known}",
                invocation.operation
            ));
        }
        if arguments[..index].iter().any(|earlier| earlier.name == *name) {
            return stray(format!("parameter {name} stands twice; send it once"));
        }
    }
    Ok(())
}

fn accept(parameter: &Parameter, arguments: &[Argument]) -> Result<Accepted, Fault> {
    let name = &parameter.name;
    let Some(argument) = arguments.iter().find(|argument| argument.name == *name) else {
        return match &parameter.default {
            Some(text) => Ok(Accepted::Text(text.clone())),
            None if parameter.optional => Ok(Accepted::Absent),
            None => Err(missing(parameter)),
        };
    };
    let type_name = parameter.data_type.name();
    let wrong = |message| Err(Fault::new(FaultCode::InvalidValue, message).parameter(name));
    match &argument.value {
        Value::Data(Payload::Reference(reference)) => Err(Fault::new(
            FaultCode::NotSupported,
            format!(
                "parameter {name} is a reference to {:?}, and this server does not accept \
                 references yet; send the data itself",
                fishplate_contract::lexical::shortened(&reference.url)
            ),
        )
        .parameter(name)),
        Value::Text(text) if !parameter.data_type.is_binary() => {
            parameter.accept(text).map(|text| Accepted::Text(text.to_owned()))
        }
        Value::Data(payload) if parameter.data_type.is_binary() => {
            Ok(Accepted::Data(payload.clone()))
        }
        Value::Text(_) => {
            wrong(format!("parameter {name} is of type {type_name}: send a file's bytes"))
        }
        Value::Data(_) => {
            wrong(format!("parameter {name} is of type {type_name}: send it as text"))
        }
        Value::Array(_) => {
            wrong(format!("parameter {name} is of type {type_name}, not an array of numbers"))
        }
        Value::Record(_) => {
            wrong(format!("parameter {name} is of type {type_name}: send one value without fields"))
        }
    }
}

fn missing(parameter: &Parameter) -> Fault {
    let (name, type_name) = (&parameter.name, parameter.data_type.name());
    let help =
        if parameter.help.is_empty() { String::new() } else { format!(" ({})", parameter.help) };
    let message = format!("parameter {name} is missing; it is of type {type_name}{help}");
    Fault::new(FaultCode::MissingParameter, message).parameter(name)
}

struct Values<'v> {
    invocation: &'v Invocation,
    accepted: &'v [Accepted],
}

impl Values<'_> {
    fn of(&self, slot: &Slot) -> Option<(&Input, &Accepted)> {
        let inputs = self.invocation.inputs.iter().zip(self.accepted);
        inputs.into_iter().find(|(input, _)| input.parameter.name == slot.name)
    }

    /// The words that a word becomes: itself with its prefix, or none.
    fn words(&self, word: &Word) -> Result<Vec<String>, Fault> {
        let mut words = Vec::new();
        let mut text = String::new();
        let mut led_by_nothing = None;
        for part in &word.parts {
            let slot = match part {
                Part::Text(literal) => {
                    text.push_str(literal);
                    continue;
                }
                Part::Slot(slot) => slot,
            };
            let Some(value) = self.text(slot) else { return Ok(Vec::new()) };
            if text.is_empty() && value.is_empty() {
                led_by_nothing = Some(&slot.name);
            }
            text.push_str(&value);
            if slot.direction.takes()
                && let Some((input, _)) = self.of(slot)
            {
                words.extend(input.prefix.clone());
            }
        }
        if let Some(name) = led_by_nothing.filter(|_| text.starts_with('-')) {
            let message = format!(
                "parameter {name} may not be empty: what follows it begins with '-' and could \
                 pass for an option of the program"
            );
            return Err(Fault::new(FaultCode::InvalidValue, message).parameter(name));
        }
        words.push(text);
        Ok(words)
    }

    /// The text that a slot becomes; `None` leaves out its word.
    fn text(&self, slot: &Slot) -> Option<String> {
        if slot.passing == Passing::File {
            return self.file(slot);
        }
        let (input, value) = self.of(slot)?;
        match (value, &input.flag) {
            (Accepted::Text(text), Some(flag)) => {
                matches!(text.as_str(), "true" | "1").then(|| flag.clone())
            }
            (Accepted::Text(text), None) => Some(text.clone()),
            (Accepted::Data(_) | Accepted::Absent, _) => None,
        }
    }

    /// The file of a slot that is passed by file, or that a stream is connected with.
    fn file(&self, slot: &Slot) -> Option<String> {
        if !slot.direction.takes() {
            return self.invocation.output_file(&slot.name).map(str::to_owned);
        }
        let (input, value) = self.of(slot)?;
        if matches!(value, Accepted::Absent) { None } else { input.filename.clone() }
    }
}

impl Filled {
    fn place(&mut self, path: &str, value: Accepted) {
        let content = match value {
            Accepted::Absent => return,
            Accepted::Text(text) => InputContent::Text(text),
            Accepted::Data(Payload::Inline(bytes)) => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => InputContent::Text(text),
                Err(error) => InputContent::Bytes(error.into_bytes()),
            },
            Accepted::Data(Payload::Pieces(pieces)) => InputContent::Bytes(pieces.concat()),
            Accepted::Data(Payload::Spooled(held)) => {
                self.placements.push(Placement { path: path.to_owned(), held });
                InputContent::InPlace
            }
            // Refused when it was accepted.
            Accepted::Data(Payload::Reference(_)) => return,
        };
        self.inputs.push(InputFile { path: path.to_owned(), content });
    }
}

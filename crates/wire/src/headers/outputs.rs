//! The header `outputs`: how a caller wants outputs, and in an answer how they came.

use std::collections::HashSet;

use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{
    Argument, Array, Fault, FaultCode, Interface, OutputChoice, OutputForm, Payload, Value, Verb,
    VerbDefinition,
};

use super::options::{OUTPUTS, invalid};
use crate::envelope::{HeaderBlock, XmlElement};
use crate::name::{OPTIONS, QName};

/// One of them.
const OUTPUT: &str = "output";

/// The choices of a call.
pub(super) fn read(header: &XmlElement) -> Result<Vec<OutputChoice>, Fault> {
    let mut choices = Vec::with_capacity(header.children.len());
    let mut names = HashSet::new();
    for child in &header.children {
        if !child.name.is(OPTIONS, OUTPUT) {
            let name = child.name.to_string();
            let what = format!("holds {}; it holds {OUTPUT} elements only", shortened(&name));
            return Err(invalid(OUTPUTS, what));
        }
        let choice = choice(child)?;
        if !names.insert(choice.name.clone()) {
            let what = format!("chooses {} twice; choose it once", shortened(&choice.name));
            return Err(invalid(OUTPUTS, what).parameter(choice.name));
        }
        choices.push(choice);
    }
    Ok(choices)
}

fn choice(element: &XmlElement) -> Result<OutputChoice, Fault> {
    let told = |local: &str| element.attribute("", local).map(trimmed);
    let name = told("name").unwrap_or_default();
    if name.is_empty() {
        let all = OutputChoice::ALL;
        let what = format!("has an {OUTPUT} without a name: give the output's, or {all} for all");
        return Err(invalid(OUTPUTS, what));
    }
    let wrong = |what: &str, right: &str| {
        let name = shortened(name);
        invalid(OUTPUTS, format!("{what} for {name}: {right}")).parameter(name)
    };
    let to = told("to");
    if to == Some("") {
        return Err(wrong("has an empty to", "give a URL, or leave it out"));
    }
    let form = match told("as") {
        None if to.is_some() => OutputForm::Reference,
        None => return Err(wrong("says no form", &format!("give as, {}", forms()))),
        Some(told) => OutputForm::from_name(told).ok_or_else(|| {
            wrong(&format!("says as={:?}", shortened(told)), &format!("give {}", forms()))
        })?,
    };
    if form == OutputForm::Value && to.is_some() {
        let right = "what is delivered is a reference, so leave out as or to";
        return Err(wrong("says as=\"value\" and where to deliver to", right));
    }
    Ok(OutputChoice { name: name.to_owned(), form, to: to.map(str::to_owned) })
}

fn forms() -> String {
    OutputForm::ALL.map(OutputForm::name).join(" or ")
}

/// Whether the outputs that a call chose are those of what it asks for. Those that are text go by
/// value only.
///
/// # Errors
/// `UnexpectedParameter`, `InvalidValue`.
pub(crate) fn check(
    chosen: &[OutputChoice],
    definition: &VerbDefinition,
    interface: &Interface,
) -> Result<(), Fault> {
    let run = |other: &&VerbDefinition| {
        other.verb == Verb::Call && other.operation == definition.operation
    };
    let Some(run) = interface.verbs.iter().find(run) else { return Ok(()) };
    for OutputChoice { name, form, to } in chosen {
        if name == OutputChoice::ALL {
            continue;
        }
        let outputs = &run.signature.outputs;
        let Some(output) = outputs.iter().find(|output| output.name == *name) else {
            let known: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
            let message = format!(
                "the header {OUTPUTS} chooses {:?}, but operation {} gives {}",
                shortened(name),
                run.name,
                if known.is_empty() { "nothing".to_owned() } else { known.join(", ") }
            );
            return Err(Fault::new(FaultCode::UnexpectedParameter, message).parameter(name));
        };
        let referable = output.data_type.is_binary() || output.data_type.as_array().is_some();
        if !referable && (*form == OutputForm::Reference || to.is_some()) {
            let of = output.data_type.name();
            let what =
                format!("asks for {name} by reference, which is of type {of}: only by value");
            return Err(invalid(OUTPUTS, what).parameter(name));
        }
    }
    Ok(())
}

/// The header of a call with these choices, or of an answer that keeps to them.
pub(super) fn write(choices: &[OutputChoice]) -> HeaderBlock {
    let attribute = |local: &str, value: &str| (QName::new("", local), value.to_owned());
    let output = |choice: &OutputChoice| {
        let mut attributes =
            vec![attribute("name", &choice.name), attribute("as", choice.form.name())];
        attributes.extend(choice.to.iter().map(|to| attribute("to", to)));
        XmlElement { name: QName::new(OPTIONS, OUTPUT), attributes, ..XmlElement::default() }
    };
    let children = choices.iter().map(output).collect();
    let element =
        XmlElement { name: QName::new(OPTIONS, OUTPUTS), children, ..XmlElement::default() };
    HeaderBlock::optional(element)
}

/// The header of an answer that tells how its files and arrays came; none if it has none of them.
/// Of values that share a name it tells each form once.
pub(super) fn write_answer(outputs: &[Argument]) -> Option<HeaderBlock> {
    let mut choices: Vec<OutputChoice> = Vec::new();
    for output in outputs {
        let payload = match &output.value {
            Value::Data(payload) | Value::Array(Array { data: payload, .. }) => payload,
            Value::Text(_) | Value::Record(_) => continue,
        };
        let form = match payload {
            Payload::Reference(_) => OutputForm::Reference,
            _ => OutputForm::Value,
        };
        let choice = OutputChoice { name: output.name.clone(), form, to: None };
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    (!choices.is_empty()).then(|| write(&choices))
}

/// How the outputs of an answer came, as it tells; what is no choice of ours is passed over.
pub(crate) fn of_answer(headers: &[HeaderBlock]) -> Vec<OutputChoice> {
    let ours = headers.iter().filter(|header| header.element.name.is(OPTIONS, OUTPUTS));
    let children = ours.flat_map(|header| &header.element.children);
    children.filter_map(|child| choice(child).ok()).collect()
}

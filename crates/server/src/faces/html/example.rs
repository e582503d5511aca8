//! Commands that call an operation, ready to be pasted.

use std::fmt::Write as _;

use fishplate_contract::{ArrayType, DataType, Dimension, ElementType, Operation, Parameter};
use fishplate_wire::wsdl;

use super::escaped;
use crate::host::ServiceEntry;

/// The command for our own client.
pub(super) fn fishplate(entry: &ServiceEntry, operation: &Operation) -> String {
    let mut command = format!("fishplate call {}", entry.url);
    if operation.name != fishplate_contract::interface::SOLE_OPERATION {
        let _ = write!(command, " --operation {}", operation.name);
    }
    for parameter in wanted(operation) {
        let _ = match &parameter.data_type {
            DataType::Array(array) => match numbers(array, operation, &LISTS) {
                // Quoted: a shell takes brackets for a pattern.
                Some(numbers) => write!(command, " '{}={numbers}'", parameter.name),
                None => write!(command, " {}:FILE.npy", parameter.name),
            },
            of if of.is_binary() => write!(command, " {}:FILE", parameter.name),
            _ => write!(command, " {}={}", parameter.name, value(parameter)),
        };
    }
    for parameter in &operation.signature.outputs {
        let _ = write!(command, " out:{}", parameter.name);
    }
    command
}

/// The command for curl: a SOAP 1.1 message.
pub(super) fn curl(entry: &ServiceEntry, operation: &Operation) -> String {
    let service = entry.service();
    let mut arguments = String::new();
    for parameter in wanted(operation) {
        let text = match &parameter.data_type {
            DataType::Array(array) => numbers(array, operation, &ELEMENTS)
                .unwrap_or_else(|| "ITS NUMBERS, AN ELEMENT item EACH".to_owned()),
            of if of.is_binary() => "BASE64 OF THE FILE".to_owned(),
            _ => escaped(&value(parameter)),
        };
        let _ = writeln!(arguments, "      <s:{0}>{text}</s:{0}>", parameter.name);
    }
    format!(
        "curl -s {url} -H 'Content-Type: text/xml; charset=utf-8' \\\n  \
         -H 'SOAPAction: \"{action}\"' --data-binary @- <<'END'\n\
         <soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\"\n    \
         xmlns:s=\"{namespace}\">\n  <soap:Body>\n    <s:{name}>\n{arguments}    </s:{name}>\n  \
         </soap:Body>\n</soap:Envelope>\nEND",
        url = entry.url,
        action = wsdl::action(&service.namespace, &operation.name),
        namespace = escaped(&service.namespace),
        name = operation.name,
    )
}

fn wanted(operation: &Operation) -> impl Iterator<Item = &Parameter> {
    operation.signature.inputs.iter().filter(|parameter| !parameter.optional)
}

/// How a row of an array is written: what is before and after each of its items, between two of
/// them, and around all of a row.
struct RowForm {
    item: (&'static str, &'static str),
    between: &'static str,
    row: (&'static str, &'static str),
}

const LISTS: RowForm = RowForm { item: ("", ""), between: ",", row: ("[", "]") };
const ELEMENTS: RowForm = RowForm { item: ("<s:item>", "</s:item>"), between: "", row: ("", "") };

/// Most numbers of an array that is written out.
const SHOWN_NUMBERS: u64 = 16;

/// An array that the parameter takes; `None` if it is too large to be shown.
fn numbers(array: &ArrayType, operation: &Operation, form: &RowForm) -> Option<String> {
    let length = |dimension: &Dimension| match dimension {
        Dimension::Fixed(length) => *length,
        Dimension::Named(name) => {
            let scalar = operation.signature.inputs.iter().find(|input| input.name == *name);
            scalar.and_then(|scalar| value(scalar).parse().ok()).unwrap_or(2)
        }
        Dimension::Any => 2,
    };
    let lengths: Vec<u64> = array.dimensions.iter().map(length).collect();
    let count = lengths.iter().try_fold(1, |count: u64, length| count.checked_mul(*length))?;
    let number = match array.element {
        ElementType::Int | ElementType::Long => "1",
        ElementType::Float | ElementType::Double => "1.5",
    };
    let row = |inner: String, length: &u64| {
        let item = format!("{}{inner}{}", form.item.0, form.item.1);
        let items = vec![item; usize::try_from(*length).unwrap_or(0)].join(form.between);
        format!("{}{items}{}", form.row.0, form.row.1)
    };
    (count <= SHOWN_NUMBERS).then(|| lengths.iter().rev().fold(number.to_owned(), row))
}

/// A value that the parameter takes.
fn value(parameter: &Parameter) -> String {
    let candidates =
        [parameter.default.as_ref(), parameter.choices.first(), parameter.min.as_ref()];
    if let Some(given) = candidates.into_iter().flatten().next() {
        return given.clone();
    }
    match parameter.data_type {
        DataType::Int | DataType::Long => "1",
        DataType::Float | DataType::Double => "1.5",
        DataType::Bool => "true",
        _ => "text",
    }
    .to_owned()
}

//! What examples give for the parameters of an operation.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fishplate_contract::{ArrayType, DataType, Dimension, ElementType, Operation, Parameter};
use fishplate_formats::json::{array_as_json, parse_array};
use serde_json::Value;

/// Behind a parameter's name: the name of a file that was chosen, and an address.
const FILE: &str = ":file";
const URL: &str = ":url";

/// Most numbers of an array that is written out.
const NUMBERS: u64 = 64;

/// Values that a form holds, by their parameters.
#[derive(Debug, Default)]
pub(in crate::faces::html) struct GivenValues(BTreeMap<String, Vec<GivenValue>>);

#[derive(Clone, Debug)]
enum GivenValue {
    Text(String),
    File(String),
    Url(String),
}

/// What an argument is written as.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExampleValue {
    /// One scalar, in the lexical form of its type.
    Scalar(String),
    /// The scalars of a list.
    Scalars(Vec<String>),
    /// Files of these names.
    Files(Vec<String>),
    /// The text of a file.
    Content(String),
    /// The address of a file.
    Url(String),
    /// Numbers: lists within lists.
    Array(Value),
}

/// An argument.
#[derive(Clone, Debug)]
pub(super) struct ExampleArgument<'e> {
    pub(super) parameter: &'e Parameter,
    pub(super) value: ExampleValue,
}

impl GivenValues {
    /// Those of the fields of a form: empty ones say nothing, and neither do those of no parameter.
    pub(super) fn of<'f>(
        operation: &Operation,
        fields: impl Iterator<Item = (Cow<'f, str>, Cow<'f, str>)>,
    ) -> Self {
        let mut given = Self::default();
        for (field, text) in fields.filter(|(_, text)| !text.trim().is_empty()) {
            let text = text.into_owned();
            let (name, value) = if let Some(name) = field.strip_suffix(FILE) {
                (name, GivenValue::File(text))
            } else if let Some(name) = field.strip_suffix(URL) {
                (name, GivenValue::Url(text))
            } else {
                (&*field, GivenValue::Text(text))
            };
            if operation.signature.input(name).is_some() {
                given.0.entry(name.to_owned()).or_default().push(value);
            }
        }
        given
    }
}

/// The arguments of an example: what was given, and something for each parameter that must be.
pub(super) fn of<'e>(operation: &'e Operation, given: &GivenValues) -> Vec<ExampleArgument<'e>> {
    let argument = |parameter: &'e Parameter| {
        let values = given.0.get(&parameter.name);
        let value = values.and_then(|values| written(parameter, values));
        let value = match value {
            Some(value) => value,
            None if parameter.is_required() => made_up(parameter, operation),
            None => return None,
        };
        Some(ExampleArgument { parameter, value })
    };
    operation.signature.inputs.iter().filter_map(argument).collect()
}

fn written(parameter: &Parameter, values: &[GivenValue]) -> Option<ExampleValue> {
    let files: Vec<String> = values
        .iter()
        .filter_map(|value| match value {
            GivenValue::File(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    let is_file = parameter.data_type.is_binary() || parameter.data_type.as_array().is_some();
    if !files.is_empty() {
        return is_file.then_some(ExampleValue::Files(files));
    }
    match values.first()? {
        GivenValue::Url(url) => is_file.then(|| ExampleValue::Url(url.clone())),
        GivenValue::Text(text) => Some(match &parameter.data_type {
            DataType::Array(array) => ExampleValue::Array(lists(array, text)?),
            of if of.is_binary() => ExampleValue::Content(text.clone()),
            _ if parameter.repeated => {
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                ExampleValue::Scalars(lines.map(str::to_owned).collect())
            }
            DataType::String => ExampleValue::Scalar(text.clone()),
            _ => ExampleValue::Scalar(text.trim().to_owned()),
        }),
        GivenValue::File(_) => None,
    }
}

/// Numbers as they are typed: lists, or rows of numbers. `None` if they are none, or too many to be shown.
fn lists(array: &ArrayType, text: &str) -> Option<Value> {
    let text = text.trim();
    let lists = match text.starts_with('[') {
        true => text.to_owned(),
        false => {
            let is_between = |sign: char| sign == ',' || sign == ';' || sign.is_whitespace();
            let row = |line: &str| {
                line.split(is_between).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(",")
            };
            let rows: Vec<String> = text.lines().map(row).filter(|row| !row.is_empty()).collect();
            match array.rank() {
                1 => format!("[{}]", rows.join(",")),
                _ => format!("[[{}]]", rows.join("],[")),
            }
        }
    };
    let (shape, bytes) = parse_array(array.element, array.rank(), &lists).ok()?;
    let count: u64 = shape.iter().product();
    (count <= NUMBERS).then(|| array_as_json(array.element, &shape, &bytes))
}

/// Something that the parameter takes.
fn made_up(parameter: &Parameter, operation: &Operation) -> ExampleValue {
    match &parameter.data_type {
        DataType::Array(array) => match numbers(array, operation) {
            Some(numbers) => ExampleValue::Array(numbers),
            None => ExampleValue::Files(vec!["FILE.npy".to_owned()]),
        },
        of if of.is_binary() => ExampleValue::Files(vec!["FILE".to_owned()]),
        _ => ExampleValue::Scalar(value(parameter)),
    }
}

/// An array that the parameter takes; `None` if it is too large to be shown.
fn numbers(array: &ArrayType, operation: &Operation) -> Option<Value> {
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
        ElementType::Int | ElementType::Long => Value::from(1),
        ElementType::Float | ElementType::Double => Value::from(1.5),
    };
    let row = |inner: Value, length: &u64| {
        Value::Array(vec![inner; usize::try_from(*length).unwrap_or(0)])
    };
    (count <= NUMBERS).then(|| lengths.iter().rev().fold(number, row))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation() -> Operation {
        let array = |name: &str| Parameter::new(name, DataType::from_name("double[n,m]").unwrap());
        let inputs = vec![
            Parameter::new("n", DataType::Int).default("3"),
            array("grid"),
            Parameter::new("mesh", DataType::Raw),
            Parameter::new("tags", DataType::String).repeated(),
        ];
        Operation::new("call", "", inputs, vec![])
    }

    fn values(query: &str) -> Vec<(String, ExampleValue)> {
        let operation = operation();
        let given = GivenValues::of(&operation, url::form_urlencoded::parse(query.as_bytes()));
        let all = of(&operation, &given);
        all.into_iter().map(|it| (it.parameter.name.clone(), it.value)).collect()
    }

    #[test]
    fn without_a_form_each_required_parameter_has_a_value() {
        let grid = json!([[1.5, 1.5], [1.5, 1.5], [1.5, 1.5]]);
        assert_eq!(
            values(""),
            [
                ("grid".to_owned(), ExampleValue::Array(grid)),
                ("mesh".to_owned(), ExampleValue::Files(vec!["FILE".to_owned()])),
            ]
        );
    }

    #[test]
    fn what_a_form_holds_stands_in_the_examples() {
        let found = values("n=+4+&grid=1,2%0A3+4&mesh%3Afile=a+b.msh&tags=x%0A%0Ay&other=1&mesh=");
        let named = |name: &str| found.iter().find(|(it, _)| it == name).unwrap().1.clone();
        assert_eq!(named("n"), ExampleValue::Scalar("4".to_owned()));
        assert_eq!(named("grid"), ExampleValue::Array(json!([[1.0, 2.0], [3.0, 4.0]])));
        assert_eq!(named("mesh"), ExampleValue::Files(vec!["a b.msh".to_owned()]));
        let tags = vec!["x".to_owned(), "y".to_owned()];
        assert_eq!(named("tags"), ExampleValue::Scalars(tags));
        let found = values("mesh%3Aurl=http%3A%2F%2Fh%2Fx&grid=no+numbers");
        assert_eq!(found[1].1, ExampleValue::Url("http://h/x".to_owned()));
        assert!(matches!(found[0].1, ExampleValue::Array(_)));
    }
}

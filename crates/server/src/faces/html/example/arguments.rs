//! What examples give for the parameters of an operation.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fishplate_contract::{ArrayType, DataType, Dimension, ElementType, Operation, Parameter};
use fishplate_formats::json::{array_as_json, parse_array};
use serde_json::Value;

use crate::faces::ogc::{FIELD_BOX, FIELD_URL, is_free_text};

/// Behind a parameter's name: the name of a file that was chosen, and that what its field holds is too long for an address.
const FIELD_FILE: &str = ":file";
const FIELD_LONG: &str = ":long";

/// Most numbers of an array that is made up.
const NUMBERS: u64 = 64;

/// Values that a form holds, by their parameters.
#[derive(Debug, Default)]
pub(in crate::faces::html) struct GivenValues(BTreeMap<String, GivenField>);

/// What a form holds for one parameter (`faces::ogc::form` says what each field means).
#[derive(Debug, Default)]
struct GivenField {
    /// Texts that are not empty.
    texts: Vec<String>,
    files: Vec<String>,
    urls: Vec<String>,
    text_shown: bool,
    box_shown: bool,
    is_too_long: bool,
}

/// What an argument is written as.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExampleValue {
    /// One scalar, in the lexical form of its type.
    Scalar(String),
    /// The scalars of a list.
    Scalars(Vec<String>),
    /// Files, or an array that is in one.
    Data(Vec<ExampleData>),
    /// Numbers: lists within lists.
    Array(Value),
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExampleData {
    /// In a file of this name.
    File(String),
    /// Here.
    Text(String),
    /// At this address.
    Url(String),
}

/// An argument.
#[derive(Clone, Debug)]
pub(super) struct ExampleArgument<'e> {
    pub(super) parameter: &'e Parameter,
    pub(super) value: ExampleValue,
}

impl ExampleArgument<'_> {
    /// Where its bytes are, if it has some.
    pub(super) fn data(&self) -> &[ExampleData] {
        if let ExampleValue::Data(data) = &self.value { data } else { &[] }
    }

    /// Whether it is an array that is in a file.
    pub(super) fn is_array_file(&self) -> bool {
        let is_array = self.parameter.data_type.as_array().is_some();
        is_array && self.data().iter().any(|it| matches!(it, ExampleData::File(_)))
    }
}

impl GivenValues {
    /// Those of the fields of a form; those of no parameter say nothing.
    pub(super) fn of<'f>(
        operation: &Operation,
        fields: impl Iterator<Item = (Cow<'f, str>, Cow<'f, str>)>,
    ) -> Self {
        let mut given = Self::default();
        for (field, text) in fields {
            let (name, suffix) = field.split_at(field.find(':').unwrap_or(field.len()));
            if operation.signature.input(name).is_none() {
                continue;
            }
            let known = given.0.entry(name.to_owned()).or_default();
            let values = match suffix {
                "" => {
                    known.text_shown = true;
                    &mut known.texts
                }
                FIELD_FILE => &mut known.files,
                FIELD_URL => &mut known.urls,
                FIELD_BOX => {
                    known.box_shown = true;
                    continue;
                }
                FIELD_LONG => {
                    known.is_too_long = true;
                    continue;
                }
                _ => continue,
            };
            values.extend((!text.is_empty()).then(|| text.into_owned()));
        }
        given
    }
}

/// The arguments of an example: what the form would send, and something for each parameter that must be.
///
/// # Errors
/// Why there is no example, for people.
pub(super) fn of<'e>(
    operation: &'e Operation,
    given: &GivenValues,
) -> Result<Vec<ExampleArgument<'e>>, String> {
    let mut arguments = Vec::new();
    for parameter in &operation.signature.inputs {
        let field = given.0.get(&parameter.name);
        let value = match field.map(|field| written(parameter, field)).transpose()?.flatten() {
            Some(value) => value,
            None if parameter.is_required() => made_up(parameter, operation),
            None => continue,
        };
        arguments.push(ExampleArgument { parameter, value });
    }
    Ok(arguments)
}

/// What a field's form would send.
fn written(parameter: &Parameter, field: &GivenField) -> Result<Option<ExampleValue>, String> {
    let (name, data_type) = (&parameter.name, &parameter.data_type);
    if field.is_too_long {
        let instead = match data_type.is_binary() || data_type.as_array().is_some() {
            true => ": if it is chosen as a file, the file's name stands there",
            false => "",
        };
        return Err(format!("What {name} holds is too long for an example{instead}."));
    }
    let files = field.files.iter().cloned().map(ExampleData::File);
    let urls = field.urls.iter().map(|url| ExampleData::Url(url.trim().to_owned()));
    let elsewhere = files.chain(urls);
    Ok(match data_type {
        DataType::Array(array) => match field.texts.first() {
            Some(text) => {
                let numbers = lists(array, text)
                    .ok_or_else(|| format!("What {name} holds is no array of type {array}."))?;
                Some(ExampleValue::Array(numbers))
            }
            None => data(elsewhere.take(1)),
        },
        of if of.is_binary() => {
            let all = field.texts.iter().cloned().map(ExampleData::Text).chain(elsewhere);
            data(all.take(if parameter.repeated { usize::MAX } else { 1 }))
        }
        _ if parameter.repeated => {
            let lines = field.texts.iter().flat_map(|text| text.lines());
            let lines: Vec<_> = lines.filter(|it| !it.is_empty()).map(str::to_owned).collect();
            (!lines.is_empty()).then_some(ExampleValue::Scalars(lines))
        }
        DataType::String if field.texts.is_empty() => {
            let is_sent = field.text_shown && is_free_text(parameter);
            is_sent.then(|| ExampleValue::Scalar(String::new()))
        }
        DataType::String => field.texts.first().cloned().map(ExampleValue::Scalar),
        _ => {
            let text = field.texts.iter().map(|text| text.trim()).find(|text| !text.is_empty());
            let text = text.or(field.box_shown.then_some("false"));
            text.map(|text| ExampleValue::Scalar(text.to_owned()))
        }
    })
}

fn data(all: impl Iterator<Item = ExampleData>) -> Option<ExampleValue> {
    let all: Vec<ExampleData> = all.collect();
    (!all.is_empty()).then_some(ExampleValue::Data(all))
}

/// Numbers as they are typed: lists, or rows of numbers. `None` if they are none.
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
    Some(array_as_json(array.element, &shape, &bytes))
}

/// Something that the parameter takes.
fn made_up(parameter: &Parameter, operation: &Operation) -> ExampleValue {
    match &parameter.data_type {
        DataType::Array(array) => match numbers(array, operation) {
            Some(numbers) => ExampleValue::Array(numbers),
            None => ExampleValue::Data(vec![ExampleData::File("FILE.npy".to_owned())]),
        },
        of if of.is_binary() => ExampleValue::Data(vec![ExampleData::File("FILE".to_owned())]),
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
            Parameter { min_count: 1, ..Parameter::new("mesh", DataType::Raw).repeated() },
            Parameter::new("tags", DataType::String).repeated(),
            Parameter::new("dry", DataType::Bool),
            Parameter::new("loud", DataType::Bool).default("true"),
            Parameter::new("word", DataType::String).default("rail"),
        ];
        Operation::new("call", "", inputs, vec![])
    }

    fn written(query: &str) -> Result<Vec<(String, ExampleValue)>, String> {
        let operation = operation();
        let given = GivenValues::of(&operation, url::form_urlencoded::parse(query.as_bytes()));
        let all = of(&operation, &given)?;
        Ok(all.into_iter().map(|it| (it.parameter.name.clone(), it.value)).collect())
    }

    fn value(query: &str, name: &str) -> Option<ExampleValue> {
        written(query).unwrap().into_iter().find(|(it, _)| it == name).map(|(_, value)| value)
    }

    fn scalar(text: &str) -> Option<ExampleValue> {
        Some(ExampleValue::Scalar(text.to_owned()))
    }

    fn file(name: &str) -> ExampleData {
        ExampleData::File(name.to_owned())
    }

    #[test]
    fn without_a_form_each_required_parameter_has_a_value() {
        let grid = json!([[1.5, 1.5], [1.5, 1.5], [1.5, 1.5]]);
        assert_eq!(
            written("").unwrap(),
            [
                ("grid".to_owned(), ExampleValue::Array(grid)),
                ("mesh".to_owned(), ExampleValue::Data(vec![file("FILE")])),
                ("dry".to_owned(), ExampleValue::Scalar("true".to_owned())),
            ]
        );
    }

    #[test]
    fn what_a_form_holds_stands_in_the_examples() {
        let query = "n=+4+&grid=1,2%0A3+4&mesh%3Afile=a+b.msh&mesh=&mesh%3Aurl=http%3A%2F%2Fh%2Fx&tags=x%0A%0Ay&other=1";
        assert_eq!(value(query, "n"), scalar("4"));
        let grid = ExampleValue::Array(json!([[1.0, 2.0], [3.0, 4.0]]));
        assert_eq!(value(query, "grid"), Some(grid));
        let meshes = vec![file("a b.msh"), ExampleData::Url("http://h/x".to_owned())];
        assert_eq!(value(query, "mesh"), Some(ExampleValue::Data(meshes)));
        let tags = ["x", "y"].map(str::to_owned).to_vec();
        assert_eq!(value(query, "tags"), Some(ExampleValue::Scalars(tags)));
        let found = value("grid%3Afile=a.csv&grid=", "grid");
        assert_eq!(found, Some(ExampleValue::Data(vec![file("a.csv")])));
    }

    #[test]
    fn what_a_form_sends_of_empty_fields_does_too() {
        for name in ["dry", "loud"] {
            assert_eq!(value(&format!("{name}%3Abox=1"), name), scalar("false"), "{name}");
            assert_eq!(value(&format!("{name}%3Abox=1&{name}=true"), name), scalar("true"));
        }
        assert_eq!((value("word=", "word"), value("", "word")), (scalar(""), None));
        // They mean the default, or nothing.
        assert_eq!((value("n=", "n"), value("tags=", "tags")), (None, None));
    }

    #[test]
    fn numbers_are_shown_however_many_and_what_cant_be_shown_is_told_of() {
        let row = vec!["1"; 100].join("+");
        let found = value(&format!("grid={row}"), "grid");
        assert_eq!(found, Some(ExampleValue::Array(json!([vec![1.0; 100]]))));
        for (query, name) in [("grid=no+numbers", "grid"), ("word%3Along=", "word")] {
            let told = written(query).unwrap_err();
            assert!(told.contains(&format!("What {name} holds")), "{told}");
        }
    }
}

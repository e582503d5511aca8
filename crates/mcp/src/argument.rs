//! JSON as arguments: each as its parameter's type says.

use std::fmt::Display;

use base64_simd::forgiving_decode_to_vec;
use bytes::Bytes;
use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{
    Argument, Array, DataRef, DataType, Fault, FaultCode, Parameter, Payload, Value as Given,
};
use fishplate_formats::json;
use serde_json::{Map, Value};

use crate::directory::Directory;

/// The arguments of a call; `null` is nothing. That a name is not known, whoever is called tells with what is.
///
/// # Errors
/// `InvalidValue`, with the parameter and what would be right.
pub(crate) fn read(
    known: &[Parameter],
    given: Map<String, Value>,
    directory: Option<&Directory>,
) -> Result<Vec<Argument>, Fault> {
    let mut arguments = Vec::with_capacity(given.len());
    for (name, value) in given {
        let Some(parameter) = known.iter().find(|parameter| parameter.name == name) else {
            arguments.push(Argument::text(name, ""));
            continue;
        };
        let values = match value {
            Value::Null => Vec::new(),
            Value::Array(several) if parameter.repeated => several,
            one => vec![one],
        };
        let most = DEFAULTS.children;
        if values.len() > most {
            let what = format!("input {name} has more than {most} values (limit children)");
            let fault = Fault::new(FaultCode::MessageTooLarge, what).limit("children", most);
            return Err(fault.parameter(&name));
        }
        for value in values {
            arguments.push(Argument::new(&*parameter.name, one(parameter, value, directory)?));
        }
    }
    Ok(arguments)
}

fn one(parameter: &Parameter, value: Value, directory: Option<&Directory>) -> Result<Given, Fault> {
    match (&parameter.data_type, value) {
        (DataType::Raw | DataType::Xml | DataType::Dir, value) => {
            file(parameter, value, directory).map(Given::Data)
        }
        (DataType::Array(_), Value::Object(form)) => match form.get("href") {
            Some(Value::String(url)) => Ok(Given::Data(Payload::Reference(DataRef::new(&**url)))),
            _ => Err(invalid(parameter, "an array is lists within lists, or {\"href\": URL}")),
        },
        (DataType::Array(of), value) => {
            let read = json::array_of(of, &value.to_string());
            let (shape, bytes) = read.map_err(|what| invalid(parameter, what))?;
            Ok(Given::Array(Array { element: of.element, shape, data: Bytes::from(bytes).into() }))
        }
        (data_type, value) => {
            let text = value.to_string();
            let text = json::scalar_text(data_type, &text);
            Ok(Given::Text(text.map_err(|what| invalid(parameter, what))?.into_owned()))
        }
    }
}

/// The forms of a file, for messages.
const FORMS: &str = "a file is its text, {\"text\": ...}, {\"base64\": ...} or {\"href\": URL}";

/// A file's bytes, in the form in which they came. What else is told of it (as in an output that is handed on) means nothing.
fn file(
    parameter: &Parameter,
    value: Value,
    directory: Option<&Directory>,
) -> Result<Payload, Fault> {
    let mut form = match value {
        Value::String(text) if parameter.data_type != DataType::Dir => {
            return Ok(Bytes::from(text).into());
        }
        Value::Object(form) => form,
        _ => return Err(invalid(parameter, FORMS)),
    };
    let names = ["text", "base64", "href", "path"];
    let mut told = names.into_iter().filter_map(|name| Some((name, form.remove(name)?)));
    let (Some((name, Value::String(text))), None) = (told.next(), told.next()) else {
        return Err(invalid(parameter, FORMS));
    };
    match (name, directory) {
        ("text", _) => Ok(Bytes::from(text).into()),
        ("href", _) => Ok(Payload::Reference(DataRef::new(text))),
        ("base64", _) => {
            let bytes = forgiving_decode_to_vec(text.as_bytes());
            bytes
                .map(|bytes| Bytes::from(bytes).into())
                .map_err(|_| invalid(parameter, "it is no base64; a text goes as {\"text\": ...}"))
        }
        (_, Some(directory)) => directory.file(&text).map_err(|error| {
            let why =
                std::error::Error::source(&error).map_or_else(String::new, |it| format!(": {it}"));
            invalid(parameter, format!("{error}{why}"))
        }),
        (_, None) => {
            let what = "paths of files are not taken here; give its text, {\"base64\": ...} or {\"href\": URL}";
            Err(invalid(parameter, what))
        }
    }
}

fn invalid(parameter: &Parameter, what: impl Display) -> Fault {
    let what = format!("input {}: {what}", parameter.name);
    Fault::new(FaultCode::InvalidValue, what).parameter(&*parameter.name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parameter(data_type: &str) -> Parameter {
        Parameter::new("x", DataType::from_name(data_type).unwrap())
    }

    fn given(parameter: &Parameter, value: Value) -> Result<Vec<Given>, Fault> {
        let given = Map::from_iter([("x".to_owned(), value)]);
        let read = read(std::slice::from_ref(parameter), given, None)?;
        Ok(read.into_iter().map(|argument| argument.value).collect())
    }

    fn text_of(value: &Given) -> String {
        match value {
            Given::Text(text) => text.clone(),
            Given::Data(Payload::Inline(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Given::Data(Payload::Reference(of)) => format!("at {}", of.url),
            Given::Array(array) => format!("{:?}", array.shape),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_value_is_read_as_its_type_says() {
        for (data_type, value, expected) in [
            ("int", json!(3), "3"),
            ("int", json!(3.0), "3"),
            ("long", json!(i64::MAX), "9223372036854775807"),
            ("double", json!("-INF"), "-INF"),
            ("bool", json!(true), "true"),
            ("string", json!("a\nb"), "a\nb"),
            ("raw", json!("plain"), "plain"),
            ("raw", json!({ "text": "plain" }), "plain"),
            ("raw", json!({ "base64": "YWJj", "mediaType": "text/plain" }), "abc"),
            (
                "raw",
                json!({ "href": "http://h/a", "uri": "fishplate://x", "size": 3 }),
                "at http://h/a",
            ),
            ("dir", json!({ "base64": "YWJj" }), "abc"),
            ("int[][]", json!([[1, 2], [3, 4]]), "[2, 2]"),
            ("double[n,3]", json!([]), "[0, 3]"),
            ("int[]", json!({ "href": "http://h/a" }), "at http://h/a"),
        ] {
            let read = given(&parameter(data_type), value.clone()).unwrap();
            assert_eq!(read.iter().map(text_of).collect::<Vec<_>>(), [expected], "{value}");
        }
        let several = parameter("string").repeated();
        assert_eq!(given(&several, json!(["a", "b"])).unwrap().len(), 2);
        assert_eq!(given(&several, json!("a")).unwrap().len(), 1);
        assert!(given(&parameter("int"), Value::Null).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_parameter_and_what_would_be_right() {
        for (data_type, value, right) in [
            ("int", json!("3"), "a whole number"),
            ("bool", json!(1), "true or false"),
            ("string", json!(3), "a string"),
            ("string", json!(["a"]), "a string"),
            ("raw", json!(3), "{\"base64\": ...}"),
            ("raw", json!({}), "{\"base64\": ...}"),
            ("raw", json!({ "text": "a", "href": "http://h/" }), "{\"base64\": ...}"),
            ("raw", json!({ "base64": "*" }), "{\"text\": ...}"),
            ("raw", json!({ "path": "/etc/passwd" }), "{\"href\": URL}"),
            ("dir", json!("text"), "{\"base64\": ...}"),
            ("int[]", json!([1, "a"]), "of type int"),
            ("int[]", json!({ "text": "[1]" }), "{\"href\": URL}"),
        ] {
            let fault = given(&parameter(data_type), value.clone()).unwrap_err();
            assert_eq!(
                (fault.code, fault.parameter.as_deref()),
                (FaultCode::InvalidValue, Some("x"))
            );
            assert!(fault.message.contains(right), "{value}: {fault}");
        }
    }

    #[test]
    fn a_name_that_is_not_known_is_passed_on() {
        let read = read(&[], Map::from_iter([("y".to_owned(), json!(1))]), None).unwrap();
        assert_eq!(read[0].name, "y");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let name =
                prop_oneof![Just("text"), Just("base64"), Just("href"), Just("path"), Just("x")];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name, inner), 0..4).prop_map(|members| {
                    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_is_a_value_or_an_error_about_its_parameter(
            value in any_json(),
            data_type in prop::sample::select(vec!["int", "double", "string", "raw", "dir", "int[][]"]),
            repeated in any::<bool>(),
        ) {
            let mut parameter = parameter(data_type);
            parameter.repeated = repeated;
            if let Err(fault) = given(&parameter, value) {
                prop_assert_eq!(fault.code, FaultCode::InvalidValue);
                prop_assert_eq!(fault.parameter.as_deref(), Some("x"));
            }
        }
    }
}

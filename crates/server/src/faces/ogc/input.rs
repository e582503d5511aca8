//! One input of a process: inline, qualified (`{"value": ..., "encoding": ...}`) or by reference (`{"href": ...}`).

use std::borrow::Cow;
use std::fmt::Display;

use base64_simd::forgiving_decode_to_vec;
use bytes::Bytes;
use fishplate_contract::{
    Argument, Array, ArrayType, DataRef, DataType, Fault, FaultCode, Parameter, Payload, Value,
    lexical,
};
use fishplate_formats::{json, schema};
use fishplate_wire::SpoolSink;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::bounded;
use crate::spool::Spooler;

/// A value with what is told of it, or a link (18-062r2, `qualifiedInputValue.yaml` and `link.yaml`).
#[derive(Debug, Deserialize)]
struct Qualified<'a> {
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    href: Option<String>,
    encoding: Option<String>,
    #[serde(rename = "mediaType")]
    media_type: Option<String>,
}

/// What was told of a value beside it.
#[derive(Clone, Copy, Default)]
struct Qualifiers<'q> {
    encoding: Option<&'q str>,
    media_type: Option<&'q str>,
    /// It stood in an object: what is not told of it, its media type tells.
    is_qualified: bool,
}

/// Reads inputs.
pub(super) struct InputReader<'s> {
    /// Where large ones go.
    pub(super) sink: &'s mut Spooler,
    /// Bytes of one that stay in memory.
    pub(super) inline_size: usize,
    /// The most members of a list of values.
    pub(super) members: usize,
}

impl InputReader<'_> {
    /// Appends what was given for a parameter; `null` is nothing.
    ///
    /// # Errors
    /// `InvalidValue`, with the parameter and what would be right.
    pub(super) fn read(
        &mut self,
        parameter: &Parameter,
        given: &RawValue,
        to: &mut Vec<Argument>,
    ) -> Result<(), Fault> {
        let text = given.get();
        if parameter.repeated && text.starts_with('[') {
            let several = bounded::list(text, self.members, |error| invalid(parameter, error))?;
            return several.into_iter().try_for_each(|one| self.read_one(parameter, one, to));
        }
        self.read_one(parameter, given, to)
    }

    fn read_one(
        &mut self,
        parameter: &Parameter,
        given: &RawValue,
        to: &mut Vec<Argument>,
    ) -> Result<(), Fault> {
        let text = given.get();
        let value = match text.as_bytes().first() {
            Some(b'n') => return Ok(()),
            Some(b'{') => {
                let told: Qualified<'_> = parse(parameter, text)?;
                match (told.value, told.href) {
                    (Some(value), None) => {
                        let qualifiers = Qualifiers {
                            encoding: told.encoding.as_deref(),
                            media_type: told.media_type.as_deref(),
                            is_qualified: true,
                        };
                        self.value(parameter, value.get(), qualifiers)?
                    }
                    (None, Some(url)) => reference(parameter, url)?,
                    _ => {
                        let what = "an object here is {\"value\": ...} or {\"href\": URL}";
                        return Err(invalid(parameter, what));
                    }
                }
            }
            _ => self.value(parameter, text, Qualifiers::default())?,
        };
        to.push(Argument::new(&*parameter.name, value));
        Ok(())
    }

    fn value(
        &mut self,
        parameter: &Parameter,
        text: &str,
        told: Qualifiers<'_>,
    ) -> Result<Value, Fault> {
        match &parameter.data_type {
            DataType::Raw | DataType::Xml | DataType::Dir => {
                Ok(Value::Data(self.payload(file(parameter, text, told)?)))
            }
            DataType::Array(of) => self.array(parameter, of, text).map(Value::Array),
            data_type => match json::scalar_text(data_type, text) {
                Ok(text) => Ok(Value::Text(text.into_owned())),
                Err(what) => Err(invalid(parameter, what)),
            },
        }
    }

    /// Reads an array that is written as lists within lists.
    ///
    /// # Errors
    /// `InvalidValue`
    pub(super) fn array(
        &mut self,
        parameter: &Parameter,
        of: &ArrayType,
        text: &str,
    ) -> Result<Array, Fault> {
        let read = json::array_of(of, text);
        let (shape, bytes) = read.map_err(|what| invalid(parameter, what))?;
        Ok(Array { element: of.element, shape, data: self.payload(bytes) })
    }

    fn payload(&mut self, bytes: Vec<u8>) -> Payload {
        if bytes.len() <= self.inline_size {
            return Payload::Inline(bytes.into());
        }
        let held = self.sink.create();
        self.sink.write(&held, Bytes::from(bytes));
        Payload::Spooled(held)
    }
}

/// The fault of an input.
pub(super) fn invalid(parameter: &Parameter, what: impl Display) -> Fault {
    let what = format!("input {}: {what}", parameter.name);
    Fault::new(FaultCode::InvalidValue, what).parameter(&*parameter.name)
}

fn parse<'a, T: Deserialize<'a>>(parameter: &Parameter, text: &'a str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| invalid(parameter, error))
}

fn reference(parameter: &Parameter, url: String) -> Result<Value, Fault> {
    let data_type = &parameter.data_type;
    if !data_type.is_binary() && data_type.as_array().is_none() {
        let what = format!("it is of type {}, and goes by value only", data_type.name());
        return Err(invalid(parameter, what));
    }
    Ok(Value::Data(Payload::Reference(DataRef::new(url))))
}

/// A file's bytes: base64 where that is told, or nothing is; else the text, or the JSON, itself.
fn file(parameter: &Parameter, text: &str, told: Qualifiers<'_>) -> Result<Vec<u8>, Fault> {
    if !text.starts_with('"') {
        return if told.is_qualified && text.starts_with(['{', '[']) {
            Ok(text.as_bytes().to_vec())
        } else {
            Err(invalid(
                parameter,
                "a file is a string in base64, {\"value\": ...} or {\"href\": URL}",
            ))
        };
    }
    let string: Cow<'_, str> = parse(parameter, text)?;
    let media_type = told.media_type.unwrap_or(schema::media_type(parameter));
    let is_base64 = match told.encoding.map(str::to_ascii_lowercase).as_deref() {
        Some("base64" | "binary") => true,
        Some("utf-8" | "utf8" | "us-ascii") => false,
        Some(other) => {
            let what = format!(
                "encoding {:?} is not known; take base64 or utf-8",
                lexical::shortened(other)
            );
            return Err(invalid(parameter, what));
        }
        None => !(told.is_qualified && schema::is_text(media_type)),
    };
    if !is_base64 {
        return Ok(string.into_owned().into_bytes());
    }
    forgiving_decode_to_vec(string.as_bytes()).map_err(|_| {
        invalid(
            parameter,
            "it is no base64; a text goes as {\"value\": TEXT, \"encoding\": \"utf-8\"}",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::SpoolDirectory;

    fn read(parameter: &Parameter, given: &str) -> Result<Vec<Argument>, Fault> {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = SpoolDirectory::open(directory.path(), 0).unwrap().sink();
        let mut reader = InputReader { sink: &mut sink, inline_size: 8, members: 100 };
        let mut read = Vec::new();
        let given: &RawValue = serde_json::from_str(given).unwrap();
        reader.read(parameter, given, &mut read).map(|()| read)
    }

    fn parameter(data_type: &str) -> Parameter {
        Parameter::new("x", DataType::from_name(data_type).unwrap())
    }

    #[test]
    fn scalars_have_the_type_of_json_that_their_schema_says() {
        for (data_type, given, text) in [
            ("int", "3", "3"),
            ("int", "3.0", "3"),
            ("long", "-1e2", "-100"),
            ("long", "9223372036854775807", "9223372036854775807"),
            ("double", "1.50e0", "1.50e0"),
            ("double", "\"-INF\"", "-INF"),
            ("bool", "true", "true"),
            ("string", "\"a\\n\\u00e4\"", "a\n\u{e4}"),
            ("string", "{\"value\": \"b\"}", "b"),
        ] {
            let read = read(&parameter(data_type), given).unwrap();
            assert!(
                matches!(&read[..], [one] if matches!(&one.value, Value::Text(it) if it == text)),
                "{given}: {read:?}"
            );
        }
        for (data_type, given) in [
            ("int", "\"3\""),
            ("int", "true"),
            ("double", "\"x\""),
            ("bool", "1"),
            ("string", "3"),
            ("string", "[\"a\"]"),
            ("string", "{}"),
            ("int", "{\"href\": \"http://h/\"}"),
        ] {
            let fault = read(&parameter(data_type), given).unwrap_err();
            assert_eq!(
                (fault.code, fault.parameter.as_deref()),
                (FaultCode::InvalidValue, Some("x")),
                "{given}"
            );
        }
        // It is the type's affair that this is none.
        assert!(
            matches!(&read(&parameter("int"), "1.5").unwrap()[0].value, Value::Text(it) if it == "1.5")
        );
        assert!(read(&parameter("int"), "null").unwrap().is_empty());
    }

    #[test]
    fn a_file_is_base64_text_or_json_as_it_is_told() {
        let bytes = |given: &str| {
            let read = read(&parameter("raw"), given).unwrap();
            let Value::Data(Payload::Inline(bytes)) = &read[0].value else { panic!("{read:?}") };
            bytes.clone()
        };
        for (given, expected) in [
            ("\"YWJj\"", "abc"),
            ("{\"value\": \"YWJj\"}", "abc"),
            (
                "{\"value\": \"YWJj\", \"encoding\": \"base64\", \"mediaType\": \"text/plain\"}",
                "abc",
            ),
            ("{\"value\": \"YWJj\", \"mediaType\": \"text/plain\"}", "YWJj"),
            ("{\"value\": \"<a/>\", \"mediaType\": \"application/gml+xml; version=3.2\"}", "<a/>"),
            ("{\"value\": \"abc\", \"encoding\": \"UTF-8\"}", "abc"),
            ("{\"value\": {\"a\": 1}}", "{\"a\": 1}"),
        ] {
            assert_eq!(bytes(given), expected, "{given}");
        }
        for given in
            ["\"a*c\"", "3", "{\"a\": 1}", "[1]", "{\"value\": \"\", \"encoding\": \"zip\"}"]
        {
            assert_eq!(
                read(&parameter("raw"), given).unwrap_err().code,
                FaultCode::InvalidValue,
                "{given}"
            );
        }
        let large = read(&parameter("raw"), "\"YWJjYWJjYWJj\"").unwrap();
        assert!(matches!(&large[0].value, Value::Data(Payload::Spooled(held)) if held.len() == 9));
        let elsewhere =
            read(&parameter("raw"), "{\"href\": \"http://h/a\", \"type\": \"text/plain\"}")
                .unwrap();
        assert!(
            matches!(&elsewhere[0].value, Value::Data(Payload::Reference(of)) if of.url == "http://h/a")
        );
    }

    #[test]
    fn arrays_are_lists_of_their_shape() {
        let shape = |data_type: &str, given: &str| {
            read(&parameter(data_type), given).map(|read| match &read[0].value {
                Value::Array(array) => array.shape.clone(),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(shape("int[][]", "[[1, 2], [3, 4]]").unwrap(), [2, 2]);
        assert_eq!(shape("double[n,3]", "{\"value\": []}").unwrap(), [0, 3]);
        for given in ["[1]", "[[1, 2], [3]]", "[[1, 2]]", "3", "[[\"a\", 1, 2]]"] {
            assert_eq!(
                shape("double[n,3]", given).unwrap_err().code,
                FaultCode::InvalidValue,
                "{given}"
            );
        }
    }

    #[test]
    fn what_may_stand_several_times_is_a_list() {
        let several = parameter("string").repeated();
        assert_eq!(read(&several, "[\"a\", {\"value\": \"b\"}]").unwrap().len(), 2);
        assert_eq!(read(&several, "\"a\"").unwrap().len(), 1);
    }
}

//! Parameters as JSON Schema: types, ranges, choices, defaults, media types, arrays.

use fishplate_contract::{ArrayType, DataType, Dimension, ElementType, Parameter};
use serde_json::{Map, Value, json};

use crate::json::scalar;

/// Where a schema stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// In a description of a process: OpenAPI 3.0's, and how bytes are written beside (18-062r2, `schema.yaml`).
    Description,
    /// OpenAPI 3.0: its own.
    OpenApi30,
    /// JSON Schema 2020-12, as in OpenAPI 3.1 and tools of MCP.
    JsonSchema,
}

/// Which way a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the process.
    In,
    /// From the process.
    Out,
}

/// Strings that could pass for an option of the program are refused.
const NO_LEADING_DASH: &str = "^(?![ \\t\\r\\n]*-)";

/// The schema of one value of a parameter.
pub fn of(parameter: &Parameter, dialect: Dialect, direction: Direction) -> Value {
    let mut schema = Map::new();
    match &parameter.data_type {
        DataType::Int => {
            number(&mut schema, "integer", "int32", Some((i32::MIN.into(), i32::MAX.into())));
        }
        DataType::Long => number(&mut schema, "integer", "int64", Some((i64::MIN, i64::MAX))),
        DataType::Float => number(&mut schema, "number", "float", None),
        DataType::Double => number(&mut schema, "number", "double", None),
        DataType::Bool => put(&mut schema, "type", "boolean"),
        DataType::String | DataType::Record(_) => {
            put(&mut schema, "type", "string");
            let may_have_any = parameter.allow_leading_dash || !parameter.choices.is_empty();
            if direction == Direction::In && !may_have_any {
                put(&mut schema, "pattern", NO_LEADING_DASH);
            }
        }
        DataType::DateTime => {
            put(&mut schema, "type", "string");
            put(&mut schema, "format", "date-time");
        }
        DataType::Raw | DataType::Xml | DataType::Dir => {
            bytes(&mut schema, media_type(parameter), dialect);
        }
        DataType::Array(of) => return array(of, direction),
    }
    let told = |text: &String| scalar(text, Some(&parameter.data_type));
    for (name, text) in [("minimum", &parameter.min), ("maximum", &parameter.max)] {
        if let Some(number) = text.as_ref().map(told).filter(Value::is_number) {
            schema.insert(name.to_owned(), number);
        }
    }
    if !parameter.choices.is_empty() {
        schema.insert("enum".to_owned(), parameter.choices.iter().map(told).collect());
    }
    if let Some(default) = &parameter.default {
        schema.insert("default".to_owned(), told(default));
    }
    let is_real = matches!(parameter.data_type, DataType::Float | DataType::Double);
    if is_real && direction == Direction::Out {
        or_none(&Value::Object(schema))
    } else {
        Value::Object(schema)
    }
}

/// The media type of a file.
pub fn media_type(parameter: &Parameter) -> &str {
    match &parameter.data_type {
        _ if !parameter.media_type.is_empty() => &parameter.media_type,
        DataType::Xml => "application/xml",
        DataType::Dir => "application/x-tar",
        DataType::Array(_) => "application/json",
        _ => "application/octet-stream",
    }
}

/// Whether the content of a media type is text.
pub fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let ends = ["+xml", "+json", "/xml", "/json"];
    essence.starts_with("text/") || ends.into_iter().any(|end| essence.ends_with(end))
}

/// A parameter's help, with its unit.
pub fn about(parameter: &Parameter) -> String {
    match (parameter.help.trim(), parameter.unit.as_str()) {
        (help, "") => help.to_owned(),
        ("", unit) => format!("in {unit}"),
        (help, unit) => format!("{help} (in {unit})"),
    }
}

fn put(schema: &mut Map<String, Value>, name: &str, text: &str) {
    schema.insert(name.to_owned(), json!(text));
}

fn number(schema: &mut Map<String, Value>, kind: &str, format: &str, range: Option<(i64, i64)>) {
    put(schema, "type", kind);
    put(schema, "format", format);
    if let Some((least, most)) = range {
        schema.insert("minimum".to_owned(), json!(least));
        schema.insert("maximum".to_owned(), json!(most));
    }
}

fn bytes(schema: &mut Map<String, Value>, media_type: &str, dialect: Dialect) {
    put(schema, "type", "string");
    if dialect != Dialect::JsonSchema {
        put(schema, "format", "byte");
    }
    if dialect != Dialect::OpenApi30 {
        put(schema, "contentEncoding", "base64");
        put(schema, "contentMediaType", media_type);
    }
}

/// Lists within lists.
fn array(of: &ArrayType, direction: Direction) -> Value {
    let element = match of.element {
        ElementType::Int => DataType::Int,
        ElementType::Long => DataType::Long,
        ElementType::Float => DataType::Float,
        ElementType::Double => DataType::Double,
    };
    let number = self::of(&Parameter::new("", element), Dialect::Description, direction);
    of.dimensions.iter().rev().fold(number, |items, dimension| {
        let mut list = json!({ "type": "array", "items": items });
        if let Dimension::Fixed(length) = dimension {
            list["minItems"] = json!(length);
            list["maxItems"] = json!(length);
        }
        list
    })
}

/// A real number, or what JSON has no number for.
fn or_none(number: &Value) -> Value {
    json!({ "title": "Real number", "oneOf": [number, { "type": "string", "enum": ["NaN", "INF", "-INF"] }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(parameter: &Parameter, dialect: Dialect) -> String {
        of(parameter, dialect, Direction::In).to_string()
    }

    #[test]
    fn what_a_parameter_takes_is_in_its_schema() {
        let mut order = Parameter::new("order", DataType::Int).default("2");
        order.max = Some("3".to_owned());
        let all = [Dialect::Description, Dialect::OpenApi30, Dialect::JsonSchema];
        for dialect in all {
            assert_eq!(
                of(&order, dialect, Direction::In),
                json!({ "type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": 3, "default": 2 })
            );
        }
        order.choices = vec!["1".to_owned(), "3".to_owned()];
        assert_eq!(of(&order, all[0], Direction::In)["enum"], json!([1, 3]));
        let name = Parameter::new("name", DataType::String);
        assert_eq!(of(&name, all[0], Direction::In)["pattern"], json!(NO_LEADING_DASH));
        assert_eq!(of(&name, all[0], Direction::Out), json!({ "type": "string" }));
        let of_array = |text: &str| Parameter::new("m", DataType::from_name(text).unwrap());
        assert_eq!(
            of(&of_array("int[n,2]"), all[0], Direction::Out)["items"]["maxItems"],
            json!(2)
        );
        assert!(of(&of_array("double[]"), all[0], Direction::Out)["items"]["oneOf"].is_array());
    }

    #[test]
    fn bytes_are_told_in_the_words_of_each_dialect() {
        let mut deck = Parameter::new("deck", DataType::Raw);
        deck.media_type = "text/plain".to_owned();
        assert_eq!(of_text(&deck, Dialect::OpenApi30), r#"{"format":"byte","type":"string"}"#);
        assert_eq!(
            of_text(&deck, Dialect::JsonSchema),
            r#"{"contentEncoding":"base64","contentMediaType":"text/plain","type":"string"}"#
        );
        let described = of(&deck, Dialect::Description, Direction::In);
        assert_eq!(
            (&described["format"], &described["contentEncoding"]),
            (&json!("byte"), &json!("base64"))
        );
    }
}

//! Python: with our package, and with zeep.

use std::fmt::Write as _;

use fishplate_contract::{DataType, Parameter};
use serde_json::Value;

use super::arguments::{ExampleArgument, ExampleData, ExampleValue};
use super::{ExampleCall, ExampleLogin};

/// With the package `fishplate`.
pub(super) fn fishplate(call: &ExampleCall<'_>) -> String {
    let data = |data: &ExampleData| match data {
        ExampleData::File(file) => format!("Path({})", string(file)),
        ExampleData::Url(url) => format!("fishplate.Reference({})", string(url)),
        ExampleData::Text(text) => format!("{}.encode()", string(text)),
    };
    let value = |argument: &ExampleArgument<'_>| match &argument.value {
        ExampleValue::Data(all) => several(all, data),
        ExampleValue::Array(numbers) => lists(numbers),
        ExampleValue::Scalar(text) => scalar(text, argument.parameter),
        ExampleValue::Scalars(texts) => several(texts, |text| scalar(text, argument.parameter)),
    };
    let mut program = String::from("import fishplate\n");
    if has(call, |data| matches!(data, ExampleData::File(_))) {
        program.insert_str(0, "from pathlib import Path\n\n");
    }
    let function = match call.is_sole() {
        true => "service".to_owned(),
        false => format!("service.{}", identifier(&call.operation.name)),
    };
    let arguments: Vec<String> = call
        .arguments
        .iter()
        .map(|it| format!("{}={}", identifier(&it.parameter.name), value(it)))
        .collect();
    let _ = write!(
        program,
        "\nservice = fishplate.Service({})\nresult = {function}({})\n",
        string(&call.entry.url),
        arguments.join(", "),
    );
    for output in &call.operation.signature.outputs {
        let _ = writeln!(program, "print(result.{})", identifier(&output.name));
    }
    program.trim_end().to_owned()
}

/// With zeep, from the WSDL; if something is at an address, from the one that has types for that.
pub(super) fn zeep(call: &ExampleCall<'_>) -> String {
    let has_reference = has(call, |data| matches!(data, ExampleData::Url(_)));
    let bytes = |bytes: String| match has_reference {
        true => format!("{{\"Value\": {bytes}}}"),
        false => bytes,
    };
    let data = |data: &ExampleData| match data {
        ExampleData::File(file) => bytes(format!("Path({}).read_bytes()", string(file))),
        ExampleData::Text(text) => bytes(format!("{}.encode()", string(text))),
        ExampleData::Url(url) => {
            let address = string(url);
            format!("{{\"EndpointReference\": {{\"Address\": {{\"_value_1\": {address}}}}}}}")
        }
    };
    let value = |argument: &ExampleArgument<'_>| match &argument.value {
        ExampleValue::Data(all) => several(all, data),
        ExampleValue::Array(numbers) => items(numbers),
        ExampleValue::Scalar(text) => scalar(text, argument.parameter),
        ExampleValue::Scalars(texts) => several(texts, |text| scalar(text, argument.parameter)),
    };
    let mut program = String::new();
    if call.login.is_some() {
        program.push_str("import os\n");
    }
    if has(call, |data| matches!(data, ExampleData::File(_))) {
        program.push_str("from pathlib import Path\n");
    }
    if !program.is_empty() {
        program.push('\n');
    }
    let (import, session, transport) = match call.login {
        Some(ExampleLogin::Basic) => (
            "import requests\n",
            "session = requests.Session()\nsession.auth = (os.environ[\"FISHPLATE_USER\"], os.environ[\"FISHPLATE_PASSWORD\"])\n",
            ", transport=zeep.Transport(session=session)",
        ),
        Some(ExampleLogin::Bearer) => (
            "import requests\n",
            "session = requests.Session()\nsession.headers[\"Authorization\"] = f\"Bearer {os.environ['FISHPLATE_TOKEN']}\"\n",
            ", transport=zeep.Transport(session=session)",
        ),
        None => ("", "", ""),
    };
    program.push_str(import);
    program.push_str("import zeep\n");
    let (own, others): (Vec<_>, Vec<_>) =
        call.arguments.iter().partition(|it| identifier(&it.parameter.name) == it.parameter.name);
    let mut arguments: Vec<String> =
        own.into_iter().map(|it| format!("{}={}", it.parameter.name, value(it))).collect();
    if !others.is_empty() {
        // Names that are none of Python's.
        let named =
            |it: &&ExampleArgument<'_>| format!("{}: {}", string(&it.parameter.name), value(it));
        let named: Vec<String> = others.iter().map(named).collect();
        arguments.push(format!("**{{{}}}", named.join(", ")));
    }
    let _ = write!(
        program,
        "\n{session}client = zeep.Client({}{transport})\nprint(client.service[{}]({}))",
        string(&format!(
            "{}?wsdl{}",
            call.entry.url,
            if has_reference { "&data=xdescr" } else { "" }
        )),
        string(&call.operation.name),
        arguments.join(", "),
    );
    program
}

fn has(call: &ExampleCall<'_>, is_it: fn(&ExampleData) -> bool) -> bool {
    call.arguments.iter().flat_map(ExampleArgument::data).any(is_it)
}

/// One as it is, several as a list.
fn several<T>(all: &[T], write: impl Fn(&T) -> String) -> String {
    match all {
        [one] => write(one),
        all => format!("[{}]", all.iter().map(write).collect::<Vec<_>>().join(", ")),
    }
}

fn scalar(text: &str, parameter: &Parameter) -> String {
    match parameter.data_type {
        DataType::Bool if matches!(text, "true" | "1") => "True".to_owned(),
        DataType::Bool => "False".to_owned(),
        DataType::Int | DataType::Long if text.parse::<i64>().is_ok() => integer(text),
        DataType::Float | DataType::Double if text.parse::<f64>().is_ok_and(f64::is_finite) => {
            text.trim_start_matches('+').to_owned()
        }
        DataType::Float | DataType::Double => format!("float({})", string(text)),
        _ => string(text),
    }
}

/// Python takes no zeros before a number.
fn integer(text: &str) -> String {
    text.parse::<i64>().map_or_else(|_| string(text), |number| number.to_string())
}

fn lists(numbers: &Value) -> String {
    match numbers {
        Value::Array(rows) => {
            format!("[{}]", rows.iter().map(lists).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => format!("float({})", string(text)),
        number => number.to_string(),
    }
}

/// As the plain WSDL has arrays: `item` within `item`.
fn items(numbers: &Value) -> String {
    let Value::Array(rows) = numbers else { return lists(numbers) };
    let rows: Vec<String> = rows.iter().map(items).collect();
    format!("{{\"item\": [{}]}}", rows.join(", "))
}

/// A string of Python's.
fn string(text: &str) -> String {
    let mut string = String::from('"');
    for sign in text.chars() {
        match sign {
            '"' => string.push_str("\\\""),
            '\\' => string.push_str("\\\\"),
            '\n' => string.push_str("\\n"),
            '\r' => string.push_str("\\r"),
            sign if sign.is_control() => {
                let _ = write!(string, "\\u{:04x}", u32::from(sign));
            }
            sign => string.push(sign),
        }
    }
    string.push('"');
    string
}

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// A name as the package has it: `-` and `.` are `_`, and so is what follows a word of Python's own.
fn identifier(name: &str) -> String {
    let word = name.replace(['-', '.'], "_");
    if KEYWORDS.contains(&word.as_str()) { format!("{word}_") } else { word }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_python_reads_them() {
        let of = |name: &str, text: &str| {
            scalar(text, &Parameter::new("x", DataType::from_name(name).unwrap()))
        };
        assert_eq!((of("int", "007"), of("bool", "1")), ("7".to_owned(), "True".to_owned()));
        assert_eq!(
            (of("double", "1e3"), of("double", "INF")),
            ("1e3".to_owned(), "float(\"INF\")".to_owned())
        );
        assert_eq!(of("string", "a\"\\\n\u{1}"), "\"a\\\"\\\\\\n\\u0001\"");
        assert_eq!(items(&json!([[1, 2]])), "{\"item\": [{\"item\": [1, 2]}]}");
        assert_eq!(
            (identifier("mesh-size"), identifier("lambda")),
            ("mesh_size".to_owned(), "lambda_".to_owned())
        );
    }
}

//! Commands for a POSIX shell.

use std::fmt::Write as _;

use fishplate_contract::lexical::escaped;
use fishplate_contract::{DataType, Parameter};
use fishplate_formats::json::scalar;
use fishplate_wire::wsdl;
use serde_json::{Value, json};

use super::arguments::{ExampleArgument, ExampleData, ExampleValue};
use super::{ExampleCall, ExampleLogin};
use crate::faces::ogc::FIELD_URL;

/// For our own client.
pub(super) fn fishplate(call: &ExampleCall<'_>) -> String {
    let mut command = format!("fishplate call {}", quoted(&call.entry.url));
    if !call.is_sole() {
        let _ = write!(command, " --operation {}", quoted(&call.operation.name));
    }
    let mut word = |text: &str| {
        let _ = write!(command, " {}", quoted(text));
    };
    for argument in &call.arguments {
        let name = &argument.parameter.name;
        match &argument.value {
            ExampleValue::Scalar(text) => word(&format!("{name}={text}")),
            ExampleValue::Scalars(texts) => {
                texts.iter().for_each(|text| word(&format!("{name}={text}")));
            }
            ExampleValue::Data(all) => all.iter().for_each(|data| match data {
                ExampleData::File(file) => word(&format!("{name}:{file}")),
                ExampleData::Text(text) => word(&format!("{name}={text}")),
                ExampleData::Url(url) => word(&format!("{name}@{url}")),
            }),
            ExampleValue::Array(numbers) => word(&format!("{name}={numbers}")),
        }
    }
    for parameter in &call.operation.signature.outputs {
        word(&format!("out:{}", parameter.name));
    }
    command
}

/// For curl, a request of OGC API - Processes. Arrays in files go as a form: the server reads their formats there.
pub(super) fn curl_json(call: &ExampleCall<'_>) -> String {
    if call.arguments.iter().any(ExampleArgument::is_array_file) {
        return curl_form(call);
    }
    let (request, files) = request(call);
    format!(
        "curl -s {}{} \\\n  -H 'Content-Type: application/json' --data-binary @- {}",
        quoted(&call.execution),
        login(call),
        here(&request, &files),
    )
}

fn curl_form(call: &ExampleCall<'_>) -> String {
    let mut command = format!(
        "curl -s {}{} \\\n  -H 'Accept: application/json'",
        quoted(&call.execution),
        login(call)
    );
    let mut text = |name: &str, text: &str| {
        let _ = write!(command, " --form-string {}", quoted(&format!("{name}={text}")));
    };
    let mut files = String::new();
    for argument in &call.arguments {
        let name = argument.parameter.name.as_str();
        match &argument.value {
            ExampleValue::Scalar(value) => text(name, value),
            ExampleValue::Scalars(values) => values.iter().for_each(|value| text(name, value)),
            ExampleValue::Array(numbers) => text(name, &numbers.to_string()),
            ExampleValue::Data(all) => all.iter().for_each(|data| match data {
                ExampleData::Text(value) => text(name, value),
                ExampleData::Url(url) => text(&format!("{name}{FIELD_URL}"), url),
                ExampleData::File(file) => {
                    let file = file.replace('\\', "\\\\").replace('"', "\\\"");
                    let _ = write!(files, " -F {}", quoted(&format!("{name}=@\"{file}\"")));
                }
            }),
        }
    }
    command + &files
}

/// What tells curl who calls.
fn login(call: &ExampleCall<'_>) -> &'static str {
    match call.login {
        Some(ExampleLogin::Basic) => " -u \"$FISHPLATE_USER:$FISHPLATE_PASSWORD\"",
        Some(ExampleLogin::Bearer) => " -H \"Authorization: Bearer $FISHPLATE_TOKEN\"",
        None => "",
    }
}

/// For curl, a SOAP 1.1 message.
pub(super) fn curl_soap(call: &ExampleCall<'_>) -> String {
    let service = call.entry.service();
    let (mut arguments, mut files) = (String::new(), Vec::new());
    let mut element = |name: &str, content: &str| {
        let _ = writeln!(arguments, "      <s:{name}>{content}</s:{name}>");
    };
    for argument in &call.arguments {
        let name = argument.parameter.name.as_str();
        match &argument.value {
            ExampleValue::Scalar(text) => element(name, &escaped(text)),
            ExampleValue::Scalars(texts) => {
                texts.iter().for_each(|text| element(name, &escaped(text)));
            }
            ExampleValue::Data(all) => all.iter().for_each(|data| match data {
                ExampleData::Text(text) => {
                    element(name, &base64_simd::STANDARD.encode_to_string(text));
                }
                ExampleData::Url(url) => element(name, &endpoint_reference(url)),
                ExampleData::File(file) => {
                    element(name, &placeholder(file));
                    files.push(file.clone());
                }
            }),
            ExampleValue::Array(numbers) => element(name, &items(numbers)),
        }
    }
    let message = format!(
        "<soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\"\n    \
         xmlns:s=\"{namespace}\">\n  <soap:Body>\n    <s:{name}>\n{arguments}    </s:{name}>\n  \
         </soap:Body>\n</soap:Envelope>",
        namespace = escaped(&service.namespace),
        name = call.operation.name,
    );
    let action = format!("\"{}\"", wsdl::action(&service.namespace, &call.operation.name));
    format!(
        "curl -s {}{} -H 'Content-Type: text/xml; charset=utf-8' \\\n  -H {} --data-binary @- {}",
        quoted(&call.entry.url),
        login(call),
        quoted(&format!("SOAPAction: {action}")),
        here(&message, &files),
    )
}

/// What stands for the data at an address.
fn endpoint_reference(url: &str) -> String {
    format!(
        "<a:EndpointReference xmlns:a=\"http://www.w3.org/2005/08/addressing\"><a:Address>{}</a:Address></a:EndpointReference>",
        escaped(url)
    )
}

/// The elements of an array, as the plain WSDL has them.
fn items(numbers: &Value) -> String {
    match numbers {
        Value::Array(rows) => {
            rows.iter().map(|row| format!("<s:item>{}</s:item>", items(row))).collect()
        }
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

/// A request to run the process, in which [`placeholder`] stands for the content of each file; and the names of those.
pub(super) fn request(call: &ExampleCall<'_>) -> (String, Vec<String>) {
    let mut inputs = serde_json::Map::new();
    let mut files = Vec::new();
    for argument in &call.arguments {
        let parameter = argument.parameter;
        let value = match &argument.value {
            ExampleValue::Scalar(text) => json_scalar(text, parameter),
            ExampleValue::Scalars(texts) => {
                texts.iter().map(|text| json_scalar(text, parameter)).collect()
            }
            ExampleValue::Data(all) => {
                let mut written = all.iter().map(|data| match data {
                    ExampleData::Text(text) => json!({ "value": text, "encoding": "utf-8" }),
                    ExampleData::Url(url) => json!({ "href": url }),
                    ExampleData::File(name) => {
                        files.push(name.clone());
                        json!({ "value": placeholder(name), "encoding": "base64" })
                    }
                });
                match &all[..] {
                    [_] => written.next().unwrap_or_default(),
                    _ => written.collect(),
                }
            }
            ExampleValue::Array(numbers) => numbers.clone(),
        };
        inputs.insert(parameter.name.clone(), value);
    }
    // With `document` every output is in the answer as JSON.
    (json!({ "inputs": inputs, "response": "document" }).to_string(), files)
}

fn json_scalar(text: &str, parameter: &Parameter) -> Value {
    match parameter.data_type {
        DataType::Bool => json!(matches!(text, "true" | "1")),
        _ => scalar(text, Some(&parameter.data_type)),
    }
}

/// What stands for the content of a file until it is known: letters, digits and signs that mean nothing in any of the languages.
pub(super) fn placeholder(file: &str) -> String {
    format!("BASE64-{:016x}", xxhash_rust::xxh3::xxh3_64(file.as_bytes()))
}

/// A text as a here-document, in which the shell puts files in place of what stands for them.
fn here(text: &str, files: &[String]) -> String {
    if files.is_empty() {
        let end = end_of(text);
        return format!("<<'{end}'\n{text}\n{end}");
    }
    let mut shell = String::new();
    for sign in text.chars() {
        if matches!(sign, '\\' | '$' | '`') {
            shell.push('\\');
        }
        shell.push(sign);
    }
    for file in files {
        shell = shell.replace(&placeholder(file), &format!("$(base64 -w0 {})", path(file)));
    }
    let end = end_of(&shell);
    format!("<<{end}\n{shell}\n{end}")
}

/// A word that ends a here-document, which no line of its text does.
fn end_of(text: &str) -> String {
    let mut end = "END".to_owned();
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    end
}

/// A file's name that is no option.
fn path(file: &str) -> String {
    quoted(&if file.starts_with('-') { format!("./{file}") } else { file.to_owned() })
}

/// A word that a shell takes as it is.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_sees_what_was_meant() {
        assert_eq!(quoted("a=1.5"), "a=1.5");
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(quoted(""), "''");
        let text = format!("{{\"a\":\"$x `\\\",\"f\":\"{}\"}}", placeholder("my file"));
        let document = here(&text, &["my file".to_owned()]);
        assert!(document.contains("\\$x \\`\\\\\""), "{document}");
        assert!(document.contains("$(base64 -w0 'my file')"), "{document}");
        assert!(here("a", &[]).starts_with("<<'END'\n"));
    }

    #[test]
    fn numbers_are_elements_within_elements() {
        assert_eq!(
            items(&json!([[1, 2]])),
            "<s:item><s:item>1</s:item><s:item>2</s:item></s:item>"
        );
    }
}

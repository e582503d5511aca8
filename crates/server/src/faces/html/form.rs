//! The form that runs an operation, made from its parameters. It is sent as `multipart/form-data` to the process's own address
//! (`faces::ogc::form` says what each field means), and a browser checks before what it can.

use std::fmt::Write as _;

use fishplate_contract::interface::OGC;
use fishplate_contract::lexical::escaped;
use fishplate_contract::{DataType, Fault, FaultCode, Operation, Parameter, Principal, Verb};

use super::{about, limit};
use crate::dispatch::authorise::{Access, Action};
use crate::faces::ogc::{FIELD_BOX, FIELD_URL, GivenInputs, GivenValue, ProcessId};
use crate::host::{Host, ServiceEntry};

/// What a form is filled with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled<'f> {
    /// The operation of which it is the form; of others, there is nothing.
    pub(crate) operation: &'f str,
    /// What was given.
    pub(crate) given: Option<&'f GivenInputs>,
    /// What was wrong with it.
    pub(crate) fault: Option<&'f Fault>,
}

impl<'f> Filled<'f> {
    /// What an operation's form is filled with.
    fn of(self, operation: &Operation) -> Self {
        if self.operation == operation.name { self } else { Self::default() }
    }

    fn texts(self, name: &'f str) -> Vec<&'f str> {
        let given = self.given.into_iter().flat_map(move |given| given.of_parameter(name));
        given
            .filter_map(|it| if let GivenValue::Text(text) = it { Some(&**text) } else { None })
            .collect()
    }

    fn url(self, name: &'f str) -> Option<&'f str> {
        let mut given = self.given.into_iter().flat_map(move |given| given.of_parameter(name));
        given.find_map(|it| if let GivenValue::Url(url) = it { Some(&**url) } else { None })
    }

    fn file(self, name: &'f str) -> Option<&'f str> {
        let mut given = self.given.into_iter().flat_map(move |given| given.of_parameter(name));
        given.find_map(|it| if let GivenValue::File(name) = it { Some(&**name) } else { None })
    }

    fn error(self, name: &str) -> Option<&'f str> {
        let fault = self.fault.filter(|fault| fault.parameter.as_deref() == Some(name))?;
        Some(&fault.message)
    }
}

/// Whether a caller may run an operation.
fn may_run(host: &Host, caller: &Principal, service: &str, operation: &str) -> bool {
    [Verb::Spawn, Verb::Call].into_iter().any(|verb| {
        let action = Action::Verb(verb);
        let access = Access { principal: caller, service, operation, action };
        host.authoriser.authorise(&access).is_ok()
    })
}

/// Appends the form of an operation, for whoever may run it.
pub(super) fn write(
    body: &mut String,
    host: &Host,
    caller: &Principal,
    entry: &ServiceEntry,
    operation: &Operation,
    filled: Filled<'_>,
) {
    let service = entry.service().name.as_str();
    if entry.is_built_in() || !may_run(host, caller, service, &operation.name) {
        return;
    }
    let filled = filled.of(operation);
    let process = ProcessId { service, operation: &operation.name };
    // What makes no job is answered with its outputs, which the browser has to get itself.
    let mut verbs = entry.interface.verbs.iter();
    let makes_job = verbs.any(|it| it.verb == Verb::Spawn && it.operation == operation.name);
    let _ = writeln!(
        body,
        "<form class=\"run\" method=\"post\" enctype=\"multipart/form-data\" \
         action=\"{}/{OGC}/processes/{process}/execution\"{}>",
        escaped(host.public_path()),
        if makes_job { " data-upload" } else { "" },
    );
    wrong(body, operation, filled);
    for parameter in &operation.signature.inputs {
        Field { operation: &operation.name, parameter, filled }.write(body);
    }
    body.push_str(
        "<p class=\"actions\"><button class=\"main\">Run</button> <span class=\"sending\" role=\"status\"></span></p>\n\
         <div class=\"upload\" hidden><progress max=\"1\" aria-label=\"Upload\"></progress>\
         <span></span><button type=\"button\">Cancel</button></div>\n</form>\n",
    );
}

/// What is wrong, if something is, with a link to where.
fn wrong(body: &mut String, operation: &Operation, filled: Filled<'_>) {
    let Some(fault) = filled.fault else { return };
    let named = fault.parameter.as_deref().filter(|name| operation.signature.input(name).is_some());
    let place = named.map_or_else(String::new, |name| {
        let (id, name) = (escaped(&id(&operation.name, name)), escaped(name));
        format!(" <a href=\"#{id}\">Go to {name}</a>")
    });
    let limit = limit(fault);
    let said = match fault.code {
        FaultCode::ProgramFailed | FaultCode::JobKilled | FaultCode::LimitExceeded => "It failed.",
        _ => "Nothing was run.",
    };
    let _ = writeln!(
        body,
        "<p class=\"alert\" role=\"alert\"><b>{said}</b> {}{limit}.{place}</p>",
        escaped(fault.message.trim_end_matches('.')),
    );
}

fn id(operation: &str, parameter: &str) -> String {
    format!("{operation}.{parameter}")
}

/// Whether a browser reads a text as a number as we do (HTML, "valid floating-point number").
fn is_plain_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.parse::<f64>().is_ok_and(f64::is_finite)
        && digits.bytes().all(|c| c.is_ascii_digit() || b".eE+-".contains(&c))
}

/// What goes into a field, in words; the service's description has the types.
fn kind(parameter: &Parameter) -> String {
    let one = match &parameter.data_type {
        DataType::Raw => "file".to_owned(),
        DataType::Xml => "XML file".to_owned(),
        DataType::Dir => "directory".to_owned(),
        DataType::Int | DataType::Long => "whole number".to_owned(),
        DataType::Float | DataType::Double => "number".to_owned(),
        DataType::String => "text".to_owned(),
        DataType::Bool => "yes or no".to_owned(),
        other => other.name().into_owned(),
    };
    if parameter.repeated { format!("{one}, {}", parameter.count_text()) } else { one }
}

/// One parameter's field.
struct Field<'f> {
    operation: &'f str,
    parameter: &'f Parameter,
    filled: Filled<'f>,
}

impl Field<'_> {
    fn write(&self, body: &mut String) {
        let parameter = self.parameter;
        let name = escaped(&parameter.name);
        let id = escaped(&id(self.operation, &parameter.name));
        let error = self.filled.error(&parameter.name);
        let unit = match parameter.unit.as_str() {
            "" => String::new(),
            unit => format!(" <span class=\"unit\">{}</span>", escaped(unit)),
        };
        let need =
            if parameter.is_required() { "" } else { " <span class=\"need\">optional</span>" };
        let class = if error.is_some() { "field wrong" } else { "field" };
        let _ = writeln!(
            body,
            "<div class=\"{class}\">\n<label for=\"{id}\">{name}</label>{unit} <span class=\"type\">{}</span>{need}",
            escaped(&kind(parameter)),
        );
        let about = about(parameter);
        if !about.is_empty() {
            let _ = writeln!(body, "<p class=\"help\" id=\"{id}-help\">{}</p>", escaped(&about));
        }
        if let Some(error) = error {
            let _ = writeln!(body, "<p class=\"error\" id=\"{id}-error\">{}</p>", escaped(error));
        }
        let mut described = Vec::new();
        described.extend((!about.is_empty()).then(|| format!("{id}-help")));
        described.extend(error.map(|_| format!("{id}-error")));
        let mut common = format!("id=\"{id}\" name=\"{name}\"");
        if !described.is_empty() {
            let _ = write!(common, " aria-describedby=\"{}\"", described.join(" "));
        }
        if error.is_some() {
            common.push_str(" aria-invalid=\"true\"");
        }
        self.control(body, &common, &id);
        body.push_str("</div>\n");
    }

    fn control(&self, body: &mut String, common: &str, id: &str) {
        let parameter = self.parameter;
        match &parameter.data_type {
            DataType::Raw | DataType::Xml | DataType::Dir => self.file(body, common, id),
            DataType::Array(_) => self.array(body, common, id),
            _ if parameter.repeated => self.lines(body, common),
            _ if !parameter.choices.is_empty() => self.select(body, common, &parameter.choices),
            DataType::Bool => self.boolean(body, common),
            DataType::Int | DataType::Long => self.number(body, common, "1"),
            DataType::Float | DataType::Double => self.number(body, common, "any"),
            _ => self.text(body, common),
        }
    }

    /// What the field holds: what was given, or the default if nothing was.
    fn value(&self) -> &str {
        let given = self.filled.texts(&self.parameter.name);
        // A field that was left empty means the default.
        let default = self.parameter.default.as_deref().unwrap_or_default();
        given.first().copied().unwrap_or(default)
    }

    fn required(&self) -> &'static str {
        if self.parameter.is_required() { " required" } else { "" }
    }

    fn number(&self, body: &mut String, common: &str, step: &str) {
        let (parameter, value) = (self.parameter, self.value());
        let bounds = [("min", &parameter.min), ("max", &parameter.max)];
        let mut all = bounds.iter().filter_map(|(_, bound)| bound.as_deref()).chain(Some(value));
        // What a browser does not read is not refused by it.
        if !all.all(|text| text.is_empty() || is_plain_number(text)) {
            return self.text(body, &format!("{common} inputmode=\"decimal\""));
        }
        let _ = write!(body, "<input type=\"number\" {common} step=\"{step}\"");
        for (name, bound) in bounds.iter().filter_map(|(name, bound)| Some((name, bound.as_ref()?)))
        {
            let _ = write!(body, " {name}=\"{}\"", escaped(bound));
        }
        let _ = writeln!(body, " value=\"{}\"{}>", escaped(value), self.required());
    }

    fn text(&self, body: &mut String, common: &str) {
        let (parameter, value) = (self.parameter, self.value());
        if value.contains('\n') {
            let _ = writeln!(body, "<textarea {common} rows=\"4\">\n{}</textarea>", escaped(value));
            return;
        }
        let is_string = parameter.data_type == DataType::String;
        // It could pass for an option of the program (`Parameter::accept`).
        let pattern = if is_string && !parameter.allow_leading_dash {
            " pattern=\"(?!\\s*-).*\" title=\"It may not begin with -\""
        } else {
            ""
        };
        // The empty string is a string.
        let required = if is_string { "" } else { self.required() };
        let _ = writeln!(
            body,
            "<input type=\"text\" {common} value=\"{}\" autocomplete=\"off\" spellcheck=\"false\"{pattern}{required}>",
            escaped(value),
        );
    }

    fn select(&self, body: &mut String, common: &str, choices: &[String]) {
        let (parameter, value) = (self.parameter, self.value());
        let _ = writeln!(body, "<select {common}{}>", self.required());
        if parameter.default.is_none() {
            let none = if parameter.is_required() { "Choose" } else { "None" };
            let _ = writeln!(body, "<option value=\"\">{none}</option>");
        }
        for choice in choices {
            let selected = if choice == value { " selected" } else { "" };
            let choice = escaped(choice);
            let _ = writeln!(body, "<option value=\"{choice}\"{selected}>{choice}</option>");
        }
        body.push_str("</select>\n");
    }

    fn boolean(&self, body: &mut String, common: &str) {
        let parameter = self.parameter;
        if parameter.optional && parameter.default.is_none() {
            return self.select(body, common, &["true".to_owned(), "false".to_owned()]);
        }
        let checked = if matches!(self.value(), "true" | "1") { " checked" } else { "" };
        let name = escaped(&parameter.name);
        let _ = writeln!(
            body,
            "<input type=\"hidden\" name=\"{name}{FIELD_BOX}\" value=\"1\">\
             <input type=\"checkbox\" {common} value=\"true\"{checked}>"
        );
    }

    fn lines(&self, body: &mut String, common: &str) {
        let given = self.filled.texts(&self.parameter.name).join("\n");
        let _ = writeln!(
            body,
            "<textarea {common} rows=\"3\" spellcheck=\"false\" placeholder=\"One a line\">\n{}</textarea>",
            escaped(&given)
        );
    }

    fn file(&self, body: &mut String, common: &str, id: &str) {
        let parameter = self.parameter;
        let multiple = if parameter.repeated { " multiple" } else { "" };
        self.begin_file(body);
        let _ = writeln!(body, "<input type=\"file\" {common}{multiple}>");
        if parameter.data_type == DataType::Dir {
            let _ = writeln!(
                body,
                "<p class=\"hint\">A tar archive, which zstd may have compressed.</p>\n\
                 <p class=\"or\" hidden><label for=\"{id}-directory\">or a whole directory</label> \
                 <input type=\"file\" id=\"{id}-directory\" webkitdirectory></p>"
            );
        }
        self.address(body, id);
        if parameter.data_type != DataType::Dir {
            let text = self.filled.texts(&parameter.name).join("\n");
            let open = if text.is_empty() { "" } else { " open" };
            let name = escaped(&parameter.name);
            let _ = writeln!(
                body,
                "<details{open}><summary>or write it here</summary>\n\
                 <textarea name=\"{name}\" aria-label=\"{name}, as text\" rows=\"6\" spellcheck=\"false\">\n{}</textarea></details>",
                escaped(&text)
            );
        }
        body.push_str("</div>\n");
    }

    fn array(&self, body: &mut String, common: &str, id: &str) {
        let name = escaped(&self.parameter.name);
        let text = self.filled.texts(&self.parameter.name).join("\n");
        self.begin_file(body);
        let _ = writeln!(
            body,
            "<textarea {common} rows=\"3\" spellcheck=\"false\" placeholder=\"1 2 3, a row a line, or [[1, 2], [3, 4]]\">\n{}</textarea>\n\
             <p class=\"or\"><label for=\"{id}-file\">or a file</label> <input type=\"file\" id=\"{id}-file\" name=\"{name}\"></p>\n\
             <p class=\"hint\">Numbers as text, .csv, .npy, or raw (.bin).</p>",
            escaped(&text)
        );
        self.address(body, id);
        body.push_str("</div>\n");
    }

    fn begin_file(&self, body: &mut String) {
        let required = if self.parameter.is_required() { " data-required" } else { "" };
        let _ = writeln!(body, "<div class=\"file\" data-drop{required}>");
        if let Some(file) = self.filled.file(&self.parameter.name) {
            let named =
                if file.is_empty() { String::new() } else { format!(" ({})", escaped(file)) };
            let _ = writeln!(body, "<p class=\"hint\">It was a file{named}: choose it again.</p>");
        }
    }

    fn address(&self, body: &mut String, id: &str) {
        let name = escaped(&self.parameter.name);
        let url = self.filled.url(&self.parameter.name).unwrap_or_default();
        let _ = writeln!(
            body,
            "<p class=\"or\"><label for=\"{id}-url\">or its address</label> \
             <input type=\"url\" id=\"{id}-url\" name=\"{name}{FIELD_URL}\" value=\"{}\" placeholder=\"https://\"></p>",
            escaped(url)
        );
    }
}

#[cfg(test)]
mod tests {
    use fishplate_contract::FaultCode;

    use super::*;

    fn field(parameter: &Parameter, filled: Filled<'_>) -> String {
        let mut body = String::new();
        Field { operation: "call", parameter, filled }.write(&mut body);
        body
    }

    fn parameter(data_type: &str) -> Parameter {
        Parameter::new("x", DataType::from_name(data_type).unwrap())
    }

    #[test]
    fn each_type_has_its_control() {
        let mut number = parameter("double").help("Mesh size").default("5.5");
        number.min = Some("0.1".to_owned());
        number.unit = "mm".to_owned();
        let shown = field(&number, Filled::default());
        for part in [
            "<label for=\"call.x\">x</label> <span class=\"unit\">mm</span>",
            "type=\"number\" id=\"call.x\" name=\"x\" aria-describedby=\"call.x-help\" step=\"any\" min=\"0.1\" value=\"5.5\">",
            "optional</span>",
        ] {
            assert!(shown.contains(part), "no {part} in {shown}");
        }
        assert!(!shown.contains("required"), "{shown}");
        // What a browser would refuse and we take is no `number`.
        number.default = Some("INF".to_owned());
        assert!(field(&number, Filled::default()).contains("type=\"text\""));
        let mut choice = parameter("string");
        choice.choices = vec!["a\"".to_owned(), "b".to_owned()];
        let shown = field(&choice, Filled::default());
        assert!(
            shown.contains("<option value=\"a&quot;\">")
                && shown.contains("<select id=\"call.x\"")
                && shown.contains(" required>"),
            "{shown}"
        );
        for (data_type, parts) in [
            ("int", &["step=\"1\"", "required"][..]),
            ("bool", &["type=\"checkbox\"", "name=\"x:box\""]),
            ("string", &["type=\"text\"", "(?!\\s*-)"]),
            ("raw", &["type=\"file\"", "name=\"x:url\"", "<textarea name=\"x\"", "data-required"]),
            ("dir", &["type=\"file\"", "tar archive"]),
            (
                "double[n,3]",
                &["<textarea id=\"call.x\" name=\"x\"", "type=\"file\"", "name=\"x:url\""],
            ),
        ] {
            let shown = field(&parameter(data_type), Filled::default());
            for part in parts {
                assert!(shown.contains(part), "{data_type}: no {part} in {shown}");
            }
        }
        assert!(field(&parameter("int").repeated(), Filled::default()).contains("One a line"));
    }

    #[test]
    fn what_was_given_stands_in_it_again_and_never_as_markup() {
        let mut given = GivenInputs::default();
        given.push("x", GivenValue::Text("</textarea><script>\"'&".to_owned()));
        given.push("x", GivenValue::Url("javascript:\"><b>".to_owned()));
        given.push("x", GivenValue::File("<i>.txt".to_owned()));
        let fault = Fault::new(FaultCode::InvalidValue, "<u>no</u>").parameter("x");
        let filled = Filled { operation: "call", given: Some(&given), fault: Some(&fault) };
        for data_type in ["int", "double", "string", "bool", "raw", "xml", "dir", "int[]"] {
            for repeated in [false, true] {
                let shown = field(&Parameter { repeated, ..parameter(data_type) }, filled);
                for part in ["<script>", "<b>", "<i>", "<u>"] {
                    assert!(!shown.contains(part), "{data_type}: {part} in {shown}");
                }
                assert!(
                    shown.contains("&lt;u&gt;no&lt;/u&gt;") && shown.contains("aria-invalid"),
                    "{shown}"
                );
            }
        }
    }

    #[test]
    fn numbers_are_plain_where_a_browser_reads_them() {
        for (text, is_plain) in [
            ("1", true),
            ("-1.5e-3", true),
            ("1.", false),
            (".5", false),
            ("+5", false),
            ("INF", false),
            ("1e999", false),
            ("0x1", false),
        ] {
            assert_eq!(is_plain_number(text), is_plain, "{text}");
        }
    }
}

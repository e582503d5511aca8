//! A tool as a service file.

use fishplate_contract::DataType;
use fishplate_programs::template::{ArgumentPassing, Direction, Slot};
use serde_json::{Map, Value};

use super::command;
use super::document::{self, named};
use super::output;
use super::requirement;
use super::types::{self, CwlType};
use crate::field::{items, lexical, one_line, text};
use crate::names::{Names, name};
use crate::report::{Gaps, ImportError, Imported};
use crate::service_file::{Keys, ServiceFile};

/// An input, as far as it can be said.
#[derive(Clone, Debug)]
pub(super) struct ToolInput {
    pub(super) id: String,
    /// The parameter's name, and its file's if it is one.
    pub(super) name: String,
    pub(super) of: CwlType,
    pub(super) data_type: DataType,
    pub(super) optional: bool,
    pub(super) binding: Option<Map<String, Value>>,
    /// Of its table.
    pub(super) keys: Keys,
    /// It stands on the command line, or on standard input.
    pub(super) used: bool,
    /// It cannot be said.
    pub(super) left_out: bool,
}

impl ToolInput {
    pub(super) fn field(&self) -> String {
        format!("inputs.{}", self.id)
    }

    pub(super) fn is_file(&self) -> bool {
        self.data_type.is_binary()
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.of, CwlType::Array(..))
    }

    pub(super) fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|(name, _)| *name == key)
    }

    pub(super) fn slot(&self) -> Slot {
        let passing = if self.is_file() { ArgumentPassing::File } else { ArgumentPassing::Val };
        let (name, data_type) = (self.name.clone(), self.data_type.clone());
        Slot { direction: Direction::In, passing, name, data_type, trim: false }
    }
}

/// Makes a service file of a CommandLineTool.
///
/// # Errors
/// If the text is no YAML, or another kind of document.
pub fn import(tool: &str, default_name: &str) -> Result<Imported, ImportError> {
    let tool = document::read(tool)?;
    let mut gaps = Gaps::default();
    let told = |key: &str| tool.get(key).and_then(Value::as_str);
    let id = told("id").map(document::local).filter(|id| !id.is_empty() && *id != "main");
    let mut service = ServiceFile {
        origin: "a CommandLineTool of CWL",
        name: name(id.unwrap_or(default_name)),
        title: told("label").map(one_line).unwrap_or_default(),
        documentation: text(tool.get("doc")).unwrap_or_default(),
        ..ServiceFile::default()
    };
    let mut names = Names::new("inputs");
    let mut inputs: Vec<ToolInput> = named(tool.get("inputs"), "id", "type")
        .into_iter()
        .map(|(id, told)| input(id, &told, &mut names, &mut gaps))
        .collect();
    let mut output_names = Names::new("outputs");
    let outputs: Vec<output::ToolOutput> = named(tool.get("outputs"), "id", "type")
        .into_iter()
        .map(|(id, told)| output::ToolOutput::new(id, told, &mut output_names))
        .collect();
    requirement::read(&tool, &mut service, &mut gaps);
    command::read(&tool, &mut inputs, &mut service, &mut gaps);
    output::read(&tool, &outputs, &inputs, &mut service, &mut gaps);
    files_without_words(&mut inputs, &mut gaps);
    let said = inputs.iter().filter(|input| input.used && !input.left_out);
    service.inputs = said.map(|input| (input.name.clone(), input.keys.clone())).collect();
    rest(&tool, &mut service, &mut gaps);
    let mut renamed = names.renamed;
    renamed.extend(output_names.renamed);
    Ok(service.finish(gaps, renamed))
}

/// Reads an input, but for where it stands on the command line.
fn input(id: String, told: &Map<String, Value>, names: &mut Names, gaps: &mut Gaps) -> ToolInput {
    let (of, optional) = types::read(told.get("type"));
    let item = match &of {
        CwlType::Array(item, _) => item,
        other => other,
    };
    let (data_type, symbols) = match item {
        CwlType::One(data_type) => (data_type.clone(), Vec::new()),
        CwlType::Enum(symbols) => (DataType::String, symbols.clone()),
        _ => (DataType::String, Vec::new()),
    };
    let binding = told.get("inputBinding").and_then(Value::as_object).cloned();
    let default = told.get("default").filter(|default| !default.is_null());
    let name = names.of(&id);
    let optional = optional || default.is_some();
    let (keys, used, left_out) = (Vec::new(), false, false);
    let mut input = ToolInput { id, name, of, data_type, optional, binding, keys, used, left_out };
    odd_fields(&input, told, gaps);
    if let CwlType::Other(why) = &input.of {
        let why = why.clone();
        gaps.needed(!input.optional, format!("{}.type", input.field()), why);
        if default.is_some() {
            gaps.lost(format!("{}.default", input.field()), "its input is left out");
        }
        input.left_out = true;
        return input;
    }
    let help = text(told.get("doc")).or_else(|| text(told.get("label"))).map(|it| one_line(&it));
    if let Some(help) = help.filter(|help| !help.is_empty()) {
        input.keys.push(("help", help.into()));
    }
    if !symbols.is_empty() {
        if symbols.iter().any(|symbol| symbol.starts_with('-')) {
            input.keys.push(("allow_leading_dash", true.into()));
        }
        input.keys.push(("choices", symbols.into()));
    }
    if input.is_list() {
        input.keys.push(("repeated", true.into()));
        // A list may be empty.
        input.optional = true;
    }
    stand_in(&mut input, default, gaps);
    input
}

/// What stands in for an input that is left out.
fn stand_in(input: &mut ToolInput, default: Option<&Value>, gaps: &mut Gaps) {
    let field = format!("{}.default", input.field());
    let Some(default) = default else {
        if input.optional && input.data_type != DataType::Bool {
            input.keys.push(("optional", true.into()));
        }
        return;
    };
    let location = default.get("location").or_else(|| default.get("path")).and_then(Value::as_str);
    match (lexical(default), location) {
        (Some(text), _) if !input.is_file() && !input.is_list() => {
            if input.data_type != DataType::Bool {
                input.keys.push(("default", text.into()));
            } else {
                input.keys.push(("default", (text == "true").into()));
            }
        }
        (_, Some(path)) if input.data_type == DataType::Raw && !path.contains("://") => {
            input.keys.push(("default_file", path.into()));
            if let Some(default) = default.as_object() {
                gaps.unread(default, &field, &["class", "location", "path"]);
            }
        }
        _ => {
            gaps.lost(field, "nothing stands in for it");
            input.keys.push(("optional", true.into()));
        }
    }
}

fn odd_fields(input: &ToolInput, told: &Map<String, Value>, gaps: &mut Gaps) {
    let field = input.field();
    for key in told.keys() {
        match key.as_str() {
            "id" | "type" | "inputBinding" | "default" | "doc" | "label" => {}
            "secondaryFiles" => gaps.lost(format!("{field}.{key}"), "a file comes alone"),
            "format" | "streamable" | "loadListing" | "loadContents" => {
                gaps.noted(format!("{field}.{key}"), "not checked, and not needed to run it");
            }
            _ => gaps.unread_member(&field, key),
        }
    }
    if let Some(binding) = &input.binding {
        let separator = if input.is_list() { "itemSeparator" } else { "" };
        let read = ["position", "prefix", "separate", "valueFrom", separator];
        command::odd_keys(binding, &format!("{field}.inputBinding"), &read, gaps);
    }
    if let CwlType::Array(_, Some(each)) = &input.of {
        let read = ["prefix", "separate", "valueFrom"];
        command::odd_keys(each, &format!("{field}.type.inputBinding"), &read, gaps);
    }
    named_twice(told, "inputs", gaps);
    if !matches!(input.of, CwlType::Other(_)) {
        types::unread(told.get("type"), &format!("{field}.type"), gaps);
    }
}

/// A label beside a documentation.
pub(super) fn named_twice(told: &Map<String, Value>, side: &str, gaps: &mut Gaps) {
    if told.contains_key("label") && told.contains_key("doc") {
        gaps.noted_of_all(&format!("{side}.*.label"), "for people; `doc` is told to them");
    }
}

/// Files that no word names are put into the workspace; other inputs have no use.
fn files_without_words(inputs: &mut [ToolInput], gaps: &mut Gaps) {
    for input in inputs.iter_mut().filter(|input| !input.used && !input.left_out) {
        if input.is_file() && !input.is_list() && !input.has_key("default_file") {
            input.keys.push(("type", input.data_type.name().as_ref().into()));
            input.keys.push(("filename", input.name.as_str().into()));
            input.used = true;
        } else {
            let reason = "no word of the command line has it, so callers can't send it";
            gaps.noted(input.field(), reason);
        }
    }
}

/// Exit codes, and what nobody needs to run it.
fn rest(tool: &Map<String, Value>, service: &mut ServiceFile, gaps: &mut Gaps) {
    for code in items(tool.get("successCodes")) {
        match code.as_i64().and_then(|code| i32::try_from(code).ok()) {
            Some(code) => service.success.push(code),
            None => gaps.lost("successCodes", format!("{code} is no exit code")),
        }
    }
    for key in tool.keys() {
        match key.as_str() {
            "class" | "cwlVersion" | "id" | "label" | "doc" | "inputs" | "outputs"
            | "requirements" | "hints" | "baseCommand" | "arguments" | "stdin" | "stdout"
            | "stderr" | "successCodes" => {}
            "temporaryFailCodes" | "permanentFailCodes" => {
                gaps.noted(key, "all codes but those of success are failures");
            }
            "$namespaces" | "$schemas" | "$base" | "intent" => gaps.noted(key, "for other tools"),
            other if other.contains(':') => gaps.noted(other, "for other tools"),
            other => gaps.lost(other, "not known here"),
        }
    }
}

//! What is collected: files, directories and streams.

use fishplate_contract::DataType;
use fishplate_programs::template::{
    ArgumentPassing, CommandItem, Direction, Slot, StandardStream, StreamTarget, reject_file_name,
};
use serde_json::{Map, Value};

use super::import::{ToolInput, named_twice};
use super::reference::{self, Member, TextPart};
use super::types::{self, CwlType};
use crate::field::{items, one_line, text};
use crate::names::Names;
use crate::report::Gaps;
use crate::service_file::{Keys, ServiceFile};

/// The file in which a tool may say itself what its outputs are (CommandLineTool, section 4.6).
const OBJECT: &str = "cwl.output.json";

/// An output.
#[derive(Debug)]
pub(super) struct ToolOutput {
    id: String,
    name: String,
    told: Map<String, Value>,
    of: CwlType,
    optional: bool,
}

impl ToolOutput {
    pub(super) fn new(id: String, told: Map<String, Value>, names: &mut Names) -> Self {
        let (of, optional) = types::read(told.get("type"));
        Self { name: names.of(&id), id, told, of, optional }
    }

    fn field(&self) -> String {
        format!("outputs.{}", self.id)
    }

    fn binding(&self) -> Option<&Map<String, Value>> {
        self.told.get("outputBinding").and_then(Value::as_object)
    }

    /// What a stream was redirected to, if this is all that it collects.
    fn collects(&self, stream: StandardStream, file: Option<&str>) -> bool {
        match (&self.of, stream) {
            (CwlType::Stdout, StandardStream::Output)
            | (CwlType::Stderr, StandardStream::Error) => true,
            (CwlType::One(DataType::Raw), _) => {
                let glob = self.binding().and_then(|it| it.get("glob")).and_then(Value::as_str);
                let computed = self.binding().is_some_and(|it| it.contains_key("outputEval"));
                glob.is_some() && glob == file && !self.optional && !computed
            }
            _ => false,
        }
    }

    fn help(&self) -> Keys {
        let help = text(self.told.get("doc")).or_else(|| text(self.told.get("label")));
        let help = help.map(|help| one_line(&help)).filter(|help| !help.is_empty());
        help.map(|help| ("help", help.into())).into_iter().collect()
    }
}

/// Reads streams and outputs.
pub(super) fn read(
    tool: &Map<String, Value>,
    outputs: &[ToolOutput],
    inputs: &[ToolInput],
    service: &mut ServiceFile,
    gaps: &mut Gaps,
) {
    outputs.iter().for_each(|output| odd_fields(output, gaps));
    let mut taken: Vec<&str> = Vec::new();
    for (key, stream) in [("stdout", StandardStream::Output), ("stderr", StandardStream::Error)] {
        let told = tool.get(key).and_then(Value::as_str);
        let output = outputs
            .iter()
            .find(|output| !taken.contains(&&*output.id) && output.collects(stream, told));
        let file = told.and_then(reference::literal).filter(|it| reject_file_name(it).is_none());
        if told.is_some() && file.is_none() {
            gaps.noted(key, "the file has another name here");
        }
        let Some(output) = output else {
            redirect(stream, key, told, file, service, gaps);
            continue;
        };
        taken.push(&output.id);
        let (direction, passing) = (Direction::Out, ArgumentPassing::File);
        let (name, data_type) = (output.name.clone(), DataType::Raw);
        let mut keys = output.help();
        keys.extend(file.map(|file| ("filename", file.into())));
        service.outputs.push((name.clone(), keys));
        let slot = Slot { direction, passing, name, data_type, trim: false };
        service.template.items.push(CommandItem::Redirect(stream, StreamTarget::Slot(slot)));
    }
    let mut by_itself = false;
    for output in outputs.iter().filter(|output| !taken.contains(&&*output.id)) {
        by_itself |= output.binding().is_none_or(Map::is_empty);
        collected(output, inputs, service, gaps);
    }
    by_itself |= tool.get("stdout").and_then(Value::as_str) == Some(OBJECT);
    if by_itself && !outputs.is_empty() {
        let help = "What the program says of its outputs itself (CWL).";
        let keys: Keys = vec![
            ("help", help.into()),
            ("type", "raw".into()),
            ("path", OBJECT.into()),
            ("optional", true.into()),
        ];
        service.outputs.push((OBJECT.to_owned(), keys));
    }
}

/// A stream that is no output by itself.
fn redirect(
    stream: StandardStream,
    key: &str,
    told: Option<&str>,
    file: Option<String>,
    service: &mut ServiceFile,
    gaps: &mut Gaps,
) {
    match (told, file) {
        (_, Some(file)) => {
            let target = StreamTarget::File(file);
            service.template.items.push(CommandItem::Redirect(stream, target));
        }
        (Some(name), None) => gaps.lost(key, format!("`{name}` is no fixed name of a file")),
        (None, None) => {}
    }
}

/// Names what of an output is not read.
fn odd_fields(output: &ToolOutput, gaps: &mut Gaps) {
    let field = output.field();
    for key in output.told.keys() {
        match key.as_str() {
            "id" | "type" | "doc" | "label" => {}
            "outputBinding" if matches!(output.of, CwlType::Stdout | CwlType::Stderr) => {
                gaps.lost(format!("{field}.{key}"), "the stream is the output, as it is");
            }
            "outputBinding" => {}
            "secondaryFiles" => gaps.lost(format!("{field}.{key}"), "a file goes alone"),
            "format" | "streamable" => gaps.noted(format!("{field}.{key}"), "not checked"),
            _ => gaps.unread_member(&field, key),
        }
    }
    named_twice(&output.told, "outputs", gaps);
    if !matches!(output.of, CwlType::Other(_)) {
        types::unread(output.told.get("type"), &format!("{field}.type"), gaps);
    }
    for key in output.binding().into_iter().flat_map(Map::keys) {
        match key.as_str() {
            "glob" | "outputEval" => {}
            "loadContents" | "loadListing" => {
                gaps.noted(format!("{field}.outputBinding.{key}"), "for expressions");
            }
            _ => gaps.unread_member(&format!("{field}.outputBinding"), key),
        }
    }
}

/// An output that the program leaves somewhere.
fn collected(
    output: &ToolOutput,
    inputs: &[ToolInput],
    service: &mut ServiceFile,
    gaps: &mut Gaps,
) {
    let field = output.field();
    let Some(binding) = output.binding().filter(|binding| !binding.is_empty()) else {
        gaps.noted(field, format!("it stands in the output {OBJECT}, if the program writes that"));
        return;
    };
    let (data_type, several) = match kind(output, binding) {
        Ok(kind) => kind,
        Err(reason) => {
            gaps.lost(field, format!("{reason}; it is not collected"));
            return;
        }
    };
    let place = match glob(binding.get("glob"), inputs) {
        Ok(place) => place,
        Err(reason) => {
            gaps.lost(
                format!("{field}.outputBinding.glob"),
                format!("{reason}; it is not collected"),
            );
            return;
        }
    };
    let is_pattern = place.path.contains(['*', '?', '[']) || place.path.contains(',');
    if data_type == "dir" && (is_pattern || several) {
        gaps.lost(field, "directories are collected by their names only");
        return;
    }
    if is_pattern && !several {
        gaps.noted(field.clone(), "the file that matches is a list of one");
    }
    let mut keys = output.help();
    keys.push(("type", data_type.into()));
    keys.push((if is_pattern || several { "glob" } else { "path" }, place.path.into()));
    if output.optional || place.optional || several {
        keys.push(("optional", true.into()));
    }
    service.outputs.push((output.name.clone(), keys));
}

/// The type of an output's slot, and whether there may be several.
fn kind(output: &ToolOutput, binding: &Map<String, Value>) -> Result<(&'static str, bool), String> {
    let computed = binding.get("outputEval").and_then(Value::as_str);
    let is_text = matches!(&output.of, CwlType::One(DataType::String));
    match computed {
        Some("$(self[0].contents)") if is_text => return Ok(("string", false)),
        Some(_) => return Err("its value is computed, and expressions are not run".to_owned()),
        None => {}
    }
    match &output.of {
        CwlType::One(DataType::Raw) => Ok(("raw", false)),
        CwlType::One(DataType::Dir) => Ok(("dir", false)),
        CwlType::Array(item, _) if **item == CwlType::One(DataType::Raw) => Ok(("raw", true)),
        CwlType::Array(item, _) if **item == CwlType::One(DataType::Dir) => Ok(("dir", true)),
        CwlType::Other(why) => Err(why.clone()),
        _ => Err("it is no file".to_owned()),
    }
}

struct GlobPattern {
    path: String,
    /// An input that may be left out is in it.
    optional: bool,
}

/// A glob with inputs' names in the place of references.
fn glob(value: Option<&Value>, inputs: &[ToolInput]) -> Result<GlobPattern, String> {
    let globs: Vec<&str> = items(value).into_iter().filter_map(Value::as_str).collect();
    let texts: Result<Vec<GlobPattern>, String> =
        globs.iter().map(|text| one(text, inputs)).collect();
    let mut texts = texts?;
    let place = match texts.len() {
        0 => return Err("there is no glob".to_owned()),
        1 => texts.remove(0),
        _ if texts.iter().any(|place| place.path.contains(['{', '}', ','])) => {
            return Err("several globs with braces".to_owned());
        }
        _ => {
            let paths: Vec<&str> = texts.iter().map(|place| place.path.as_str()).collect();
            let optional = texts.iter().any(|place| place.optional);
            GlobPattern { path: format!("{{{}}}", paths.join(",")), optional }
        }
    };
    match reject_file_name(&place.path) {
        Some(right) => Err(right.to_owned()),
        None => Ok(place),
    }
}

fn one(text: &str, inputs: &[ToolInput]) -> Result<GlobPattern, String> {
    let mut place = GlobPattern { path: String::new(), optional: false };
    for part in reference::parts(text)? {
        let (id, member) = match part {
            TextPart::Text(text) if text.contains(['{', '}']) => {
                return Err("braces stand for inputs here".to_owned());
            }
            TextPart::Text(text) => {
                place.path.push_str(&text);
                continue;
            }
            TextPart::Input(id, member) => (id, member),
            TextPart::WorkingDirectory => {
                return Err("it is the whole directory in which the program runs".to_owned());
            }
            TextPart::Itself(_) | TextPart::Cores => {
                return Err("it is named after what is no input".to_owned());
            }
        };
        let input = inputs.iter().find(|input| input.id == id);
        let input = input.filter(|it| it.used && !it.left_out && !it.is_list());
        let input = input.ok_or_else(|| format!("{id} is no single input of the service"))?;
        match member {
            Member::Whole if !input.is_file() => {
                place.path.push_str(&format!("{{{}}}", input.name));
                place.optional |= input.optional && !input.has_key("default");
            }
            Member::Whole | Member::Name if input.is_file() => place.path.push_str(&input.name),
            _ => return Err(format!("what of {id} is meant is not known")),
        }
    }
    let path = place.path.strip_prefix("./").unwrap_or(&place.path).trim_end_matches('/');
    Ok(GlobPattern { path: path.to_owned(), ..place })
}

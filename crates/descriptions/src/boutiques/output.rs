//! Output files of a descriptor, and (an extension of NiWrap's) the program's streams as outputs.

use std::cmp::Reverse;

use fishplate_contract::DataType;
use fishplate_programs::template::{
    ArgumentPassing, CommandItem, Direction, Slot, StandardStream, StreamTarget, reject_file_name,
};
use serde_json::{Map, Value};

use super::command::mark;
use super::input::DescribedInput;
use crate::field::{is_true, one_line};
use crate::names::Names;
use crate::report::Gaps;
use crate::service_file::{Keys, ServiceFile};

/// Fields of a descriptor that make a stream an output.
pub(super) const STREAMS: [(&str, StandardStream); 2] =
    [("stdout-output", StandardStream::Output), ("stderr-output", StandardStream::Error)];

/// Fields of an output file that are read here, or for people.
const KNOWN: [&str; 8] = [
    "id",
    "name",
    "description",
    "path-template",
    "path-template-stripped-extensions",
    "optional",
    "list",
    "media-types",
];

/// Where an output is, with the inputs that it is named after.
struct NamedPath {
    path: String,
    /// An input that may be left out is among them.
    optional: bool,
}

/// The table of an output file; `None` if it cannot be said.
pub(super) fn file(
    described: &Value,
    inputs: &[DescribedInput],
    names: &mut Names,
    gaps: &mut Gaps,
) -> Option<(String, Keys)> {
    let told = described.as_object()?;
    let (id, help) = about(told);
    let field = format!("output-files.{id}");
    if told.contains_key("description") {
        gaps.for_people(told, "output-files", &["name"]);
    }
    for key in told.keys().filter(|key| !KNOWN.contains(&key.as_str())) {
        let reason = match key.as_str() {
            "file-template" => {
                "a file that is made of inputs; `stage` puts one that is the same for all"
            }
            "conditional-path-template" => "its name depends on conditions",
            _ => "not known here",
        };
        gaps.lost(format!("{field}.{key}"), reason);
    }
    const EXTENSIONS: &str = "path-template-stripped-extensions";
    if told.contains_key(EXTENSIONS) {
        gaps.noted(format!("{field}.{EXTENSIONS}"), "files are called as their parameters here");
    }
    let Some(template) = told.get("path-template").and_then(Value::as_str) else {
        gaps.lost(field, "it has no `path-template`, so it is not collected");
        return None;
    };
    let named = match resolve(template, told, inputs) {
        Ok(named) => named,
        Err(reason) => {
            gaps.lost(format!("{field}.path-template"), format!("{reason}; it is not collected"));
            return None;
        }
    };
    let path = named.path.strip_prefix("./").unwrap_or(&named.path);
    let (path, is_directory) = match path.strip_suffix('/') {
        Some(directory) => (directory, true),
        None => (path, false),
    };
    if let Some(right) = reject_file_name(path) {
        gaps.lost(format!("{field}.path-template"), format!("{right}; it is not collected"));
        return None;
    }
    let mut keys: Keys = help.into_iter().collect();
    if let Some(media_type) = gaps.media_type(told, &field, !is_directory) {
        keys.push(("media_type", media_type.into()));
    }
    let is_glob = path.contains(['*', '?']);
    keys.push(("type", if is_directory && !is_glob { "dir" } else { "raw" }.into()));
    keys.push((if is_glob || is_true(told, "list") { "glob" } else { "path" }, path.into()));
    if named.optional || is_true(told, "optional") {
        keys.push(("optional", true.into()));
    }
    // What the program makes of an input's file is an output of that name.
    let changed = inputs.iter().find(|it| it.data_type == DataType::Raw && it.name == path);
    let wish = changed.map_or(id.as_str(), |input| input.name.as_str());
    Some((names.like(&id, wish), keys))
}

fn about(told: &Map<String, Value>) -> (String, Option<(&'static str, toml::Value)>) {
    let text = |key: &str| told.get(key).and_then(Value::as_str);
    let id = text("id").or(text("name")).unwrap_or("output").to_owned();
    let help = text("description").or(text("name")).map(one_line).filter(|help| !help.is_empty());
    (id, help.map(|help| ("help", help.into())))
}

/// A template with inputs' names, or the files that they are, in the place of their keys.
fn resolve(
    template: &str,
    told: &Map<String, Value>,
    inputs: &[DescribedInput],
) -> Result<NamedPath, String> {
    if template.contains(['{', '}']) {
        return Err("braces stand for inputs here".to_owned());
    }
    let strips = told.contains_key("path-template-stripped-extensions");
    let mut named = NamedPath { path: template.to_owned(), optional: false };
    // As in command lines: of keys that begin alike the longest, and none is looked for in what stands for another.
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    order.sort_by_key(|at| Reverse(inputs[*at].value_key.as_deref().map_or(0, str::len)));
    let mut texts = Vec::new();
    for at in order {
        let input = &inputs[at];
        let Some(key) = input.value_key.as_deref().filter(|key| !key.is_empty()) else { continue };
        if !named.path.contains(key) {
            continue;
        }
        let id = &input.id;
        if !input.used || input.left_out {
            return Err(format!("it is named after {id}, which is no input of the service"));
        }
        if input.is_flag || input.list {
            return Err(format!("it is named after {id}, which is no single value"));
        }
        let is_file = input.data_type == DataType::Raw;
        if strips && !is_file {
            return Err(format!("it is named after {id} without its extension"));
        }
        // The file's name is the parameter's, whatever the caller calls it.
        let text = if is_file { input.name.clone() } else { format!("{{{}}}", input.name) };
        named.path = named.path.replace(key, &mark(at).to_string());
        texts.push((at, text));
        let has_default = input.has_key("default");
        named.optional |= input.optional && !has_default;
    }
    for (at, text) in texts {
        named.path = named.path.replace(mark(at), &text);
    }
    Ok(named)
}

/// A stream as an output.
pub(super) fn stream(
    key: &str,
    stream: StandardStream,
    described: &Value,
    service: &mut ServiceFile,
    names: &mut Names,
    gaps: &mut Gaps,
) {
    let taken = service
        .template
        .items
        .iter()
        .any(|item| matches!(item, CommandItem::Redirect(other, _) if *other == stream));
    let Some(told) = described.as_object().filter(|_| !taken) else {
        gaps.lost(key, "the stream is redirected already");
        return;
    };
    let (id, help) = about(told);
    if told.contains_key("description") {
        gaps.for_people(told, key, &["name"]);
    }
    gaps.unread(told, key, &["id", "name", "description"]);
    let (direction, passing) = (Direction::Out, ArgumentPassing::File);
    let (name, data_type) = (names.of(&id), DataType::Raw);
    service.outputs.push((name.clone(), help.into_iter().collect()));
    let slot = Slot { direction, passing, name, data_type, trim: false };
    service.template.items.push(CommandItem::Redirect(stream, StreamTarget::Slot(slot)));
}

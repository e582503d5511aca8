//! A descriptor as a service file.

use std::collections::BTreeMap;

use fishplate_programs::template::{CommandItem, Direction, Template, Word, WordPart};
use serde_json::{Map, Value};

use super::command::{self, Token};
use super::input::{self, DescribedInput};
use super::output;
use crate::field::{is_true, items, lexical, one_line, text};
use crate::names::{Names, name};
use crate::report::{Gaps, ImportError, Imported};
use crate::service_file::{Keys, ServiceFile};

/// Fields of a descriptor that are for people and for other tools.
const FOR_PEOPLE: [&str; 17] = [
    "id",
    "author",
    "url",
    "tool-version",
    "doi",
    "tool-doi",
    "tags",
    "tests",
    "custom",
    "descriptor-url",
    "deprecated-by-doi",
    "online-platform-urls",
    "suggested-resources",
    "invocation-schema",
    "citation",
    "schema-version",
    "shell",
];

/// Makes a service file of a descriptor.
///
/// # Errors
/// If the text is no JSON, or no descriptor.
pub fn import(text: &str) -> Result<Imported, ImportError> {
    let read: Value = serde_json::from_str(text)
        .map_err(|error| ImportError::Syntax { format: "JSON", reason: error.to_string() })?;
    let lacks = |reason: &str| ImportError::Kind {
        wanted: "Boutiques descriptor",
        reason: reason.to_owned(),
    };
    let descriptor = read.as_object().ok_or_else(|| lacks("it is no JSON object"))?;
    let told = |key: &str| descriptor.get(key).and_then(Value::as_str);
    let title = told("name").ok_or_else(|| lacks("it has no `name`"))?;
    let line = told("command-line").ok_or_else(|| lacks("it has no `command-line`"))?;
    let mut gaps = Gaps::default();
    let mut service = ServiceFile {
        origin: "a Boutiques descriptor",
        name: name(title),
        title: title.to_owned(),
        documentation: told("description").unwrap_or_default().to_owned(),
        ..ServiceFile::default()
    };
    let mut names = Names::new("inputs");
    let mut inputs = Vec::new();
    let members = grouped(descriptor);
    for described in items(descriptor.get("inputs")) {
        inputs.extend(input::read(described, &members, &mut names, &mut gaps));
    }
    let tokens = command::tokens(line, &inputs, &mut gaps);
    let mut maker = Maker { inputs, service: &mut service, gaps: &mut gaps };
    maker.command(&tokens);
    let inputs = maker.inputs;
    let renamed = outputs(descriptor, &inputs, names.renamed, &mut service, &mut gaps);
    groups(descriptor, &inputs, &mut service, &mut gaps);
    surroundings(descriptor, &mut service, &mut gaps);
    Ok(service.finish(gaps, renamed))
}

/// Inputs that stand in a group: one of them being given, the others need not be.
fn grouped(descriptor: &Map<String, Value>) -> Vec<String> {
    let groups = items(descriptor.get("groups"));
    let members = groups.iter().flat_map(|group| items(group.get("members")));
    members.filter_map(Value::as_str).map(str::to_owned).collect()
}

struct Maker<'m> {
    inputs: Vec<DescribedInput>,
    service: &'m mut ServiceFile,
    gaps: &'m mut Gaps,
}

impl Maker<'_> {
    fn command(&mut self, tokens: &[Token]) {
        let mut items = Vec::new();
        for token in tokens {
            match token {
                Token::Redirect(stream, parts) => {
                    let target = command::target(*stream, parts, &self.inputs, self.gaps);
                    if let Some((target, used)) = target {
                        items.push(CommandItem::Redirect(*stream, target));
                        self.used(used);
                    }
                }
                Token::Word(parts) => {
                    items.extend(self.word(parts).map(CommandItem::Word));
                }
            }
        }
        self.service.template = Template { items };
        // Without a command line, nothing stands on it.
        let there = !self.gaps.fatal;
        for input in self.inputs.iter().filter(|it| there && !it.used && !it.left_out) {
            let reason = "it stands nowhere on the command line, so callers can't send it";
            self.gaps.lost(input.field(), reason);
        }
        let tables = self.inputs.iter().filter(|input| input.used && !input.left_out);
        self.service.inputs =
            tables.map(|input| (input.name.clone(), input.keys.clone())).collect();
    }

    fn used(&mut self, index: Option<usize>) {
        if let Some(index) = index {
            self.inputs[index].used = true;
        }
    }

    /// A word; `None` if its only input had to be left out.
    fn word(&mut self, parts: &[command::Part]) -> Option<Word> {
        let indices: Vec<usize> = parts.iter().filter_map(command::Part::input).collect();
        let alone = parts.len() == 1;
        for index in &indices {
            let input = &mut self.inputs[*index];
            if std::mem::replace(&mut input.used, true) {
                let field = input.field();
                self.gaps.fatal(field, "its value key stands twice on the command line");
                return None;
            }
        }
        if let [index] = indices[..] {
            if self.inputs[index].left_out {
                return None;
            }
            if !alone && !self.within_text(index) {
                return None;
            }
        } else if indices.len() > 1 {
            self.check_shared(&indices);
        }
        let mut word = Word::default();
        for part in parts {
            match part {
                command::Part::Text(text) => push_text(&mut word, text),
                command::Part::Input(index) => {
                    let input = &self.inputs[*index];
                    push_text(&mut word, &input.glued);
                    word.parts.push(WordPart::Slot(input.slot(Direction::In)));
                }
            }
        }
        Some(word)
    }

    /// An input whose key has text around it, which stays when the value is left out.
    fn within_text(&mut self, index: usize) -> bool {
        let input = &mut self.inputs[index];
        let field = input.field();
        if input.is_flag || !input.glued.is_empty() || input.has_key("prefix") {
            self.gaps.needed(!input.optional, field, "its flag stands within a word");
            input.left_out = true;
            return false;
        }
        if input.list {
            let joined = input.has_key("separator");
            if !joined {
                self.gaps.needed(!input.optional, field, "a list with blanks stands within a word");
                input.left_out = true;
                return false;
            }
        }
        if input.optional && !input.has_key("default") {
            self.gaps.lost(field, "left out, it takes the text around its value key with it");
        }
        true
    }

    /// Several inputs in one word: each is needed, and a value.
    fn check_shared(&mut self, indices: &[usize]) {
        for index in indices {
            let input = &self.inputs[*index];
            if input.is_flag || input.list || input.has_key("prefix") {
                let reason =
                    "it shares a word with other inputs, and is a flag, a list or behind a flag";
                self.gaps.fatal(input.field(), reason);
            } else if input.optional && !input.has_key("default") {
                let reason = "it shares a word with other inputs, and may be left out";
                self.gaps.fatal(input.field(), reason);
            }
        }
    }
}

fn push_text(word: &mut Word, text: &str) {
    match word.parts.last_mut() {
        _ if text.is_empty() => {}
        Some(WordPart::Text(before)) => before.push_str(text),
        _ => word.parts.push(WordPart::Text(text.to_owned())),
    }
}

/// Output files and streams; gives what was renamed.
fn outputs(
    descriptor: &Map<String, Value>,
    inputs: &[DescribedInput],
    mut renamed: BTreeMap<String, String>,
    service: &mut ServiceFile,
    gaps: &mut Gaps,
) -> BTreeMap<String, String> {
    let mut names = Names::new("outputs");
    for described in items(descriptor.get("output-files")) {
        service.outputs.extend(output::file(described, inputs, &mut names, gaps));
    }
    for (key, stream) in output::STREAMS {
        if let Some(described) = descriptor.get(key) {
            output::stream(key, stream, described, service, &mut names, gaps);
        }
    }
    renamed.extend(names.renamed);
    renamed
}

fn groups(
    descriptor: &Map<String, Value>,
    inputs: &[DescribedInput],
    service: &mut ServiceFile,
    gaps: &mut Gaps,
) {
    let there = |id: &str| inputs.iter().find(|it| it.id == id && it.used && !it.left_out);
    for (index, group) in items(descriptor.get("groups")).into_iter().enumerate() {
        let id =
            group.get("id").and_then(Value::as_str).map_or(format!("group{index}"), str::to_owned);
        let field = format!("groups.{id}");
        let members = items(group.get("members"));
        let known: Vec<&DescribedInput> =
            members.iter().filter_map(|id| there(id.as_str()?)).collect();
        let Some(rules) =
            group.as_object().filter(|_| known.len() == members.len() && known.len() > 1)
        else {
            gaps.lost(field, "its members are not all inputs of the service");
            continue;
        };
        if let Some(member) = known.iter().find(|it| it.has_key("default") && !it.is_flag) {
            let reason = format!("its member {} has a default, so it is never left out", member.id);
            gaps.lost(field, reason);
            continue;
        }
        let names: Vec<String> = known.iter().map(|input| input.name.clone()).collect();
        let mut keys: Keys = vec![("inputs", names.into())];
        for (theirs, ours) in [
            ("mutually-exclusive", "exclusive"),
            ("one-is-required", "required"),
            ("all-or-none", "together"),
        ] {
            if is_true(rules, theirs) {
                keys.push((ours, true.into()));
            }
        }
        gaps.for_people(rules, "groups", &["name", "description"]);
        let read = ["id", "members", "mutually-exclusive", "one-is-required", "all-or-none"];
        gaps.unread(rules, &field, &[&read[..], &["name", "description"]].concat());
        if keys.len() > 1 {
            service.groups.push((name(&id), keys));
        } else {
            gaps.noted(field, "it has no rule");
        }
    }
    for input in inputs.iter().filter(|input| input.used && !input.left_out) {
        for other in &input.disables {
            let other = there(other).filter(|other| other.optional && input.optional);
            let Some(other) = other else {
                gaps.lost(
                    format!("{}.disables-inputs", input.field()),
                    "one of the two is required",
                );
                continue;
            };
            let keys: Keys = vec![
                ("inputs", vec![input.name.clone(), other.name.clone()].into()),
                ("exclusive", true.into()),
            ];
            service.groups.push((format!("{}_or_{}", input.name, other.name), keys));
        }
    }
}

/// Environment, container, exit codes; what is for people.
fn surroundings(descriptor: &Map<String, Value>, service: &mut ServiceFile, gaps: &mut Gaps) {
    for variable in items(descriptor.get("environment-variables")) {
        const FIELD: &str = "environment-variables";
        let told = |key: &str| variable.get(key).and_then(lexical);
        if let Some(variable) = variable.as_object() {
            gaps.for_people(variable, FIELD, &["description"]);
            gaps.unread(variable, FIELD, &["name", "value", "description"]);
        }
        match (told("name"), told("value")) {
            (Some(name), Some(value)) if value.contains('[') => {
                gaps.lost(format!("{FIELD}.{name}"), "its value is made of inputs");
            }
            (Some(name), Some(value)) => drop(service.environment.insert(name, value)),
            (Some(name), None) => gaps.lost(format!("{FIELD}.{name}"), "it has no value"),
            (None, _) => gaps.lost(FIELD, "one has no name"),
        }
    }
    for code in items(descriptor.get("error-codes")) {
        let number = code.get("code").and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok());
        let meaning = code.get("description").and_then(lexical);
        match (number.filter(|number| (1..=255).contains(number)), meaning) {
            (Some(number), Some(meaning)) => {
                drop(service.meanings.insert(number, one_line(&meaning)));
            }
            _ => gaps.noted("error-codes", "a code is a number from 1 to 255"),
        }
        if let Some(code) = code.as_object() {
            gaps.unread(code, "error-codes", &["code", "description"]);
        }
    }
    if descriptor.contains_key("container-image") {
        let reason = "the program is the one of the server's machine; `container` in the service file \
                      has it run in an image of Apptainer's";
        gaps.noted("container-image", reason);
    }
    let told = FOR_PEOPLE.iter().filter(|key| descriptor.contains_key(**key));
    for key in told {
        gaps.noted(*key, "for people and other tools");
    }
    const READ: [&str; 11] = [
        "name",
        "description",
        "command-line",
        "inputs",
        "output-files",
        "stdout-output",
        "stderr-output",
        "groups",
        "environment-variables",
        "error-codes",
        "container-image",
    ];
    let unknown = descriptor
        .keys()
        .filter(|key| !READ.contains(&key.as_str()) && !FOR_PEOPLE.contains(&key.as_str()));
    for key in unknown {
        let what = text(descriptor.get(key)).unwrap_or_default();
        gaps.lost(key, format!("not known here {}", one_line(&what)).trim().to_owned());
    }
}

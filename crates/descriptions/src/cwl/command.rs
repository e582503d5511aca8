//! Bindings as words, in the order of their positions (CommandLineTool, section 4.1).

use fishplate_contract::DataType;
use fishplate_programs::template::{
    CommandItem, StandardStream, StreamTarget, Template, Word, WordPart, reject_file_name,
};
use serde_json::{Map, Value};

use super::import::ToolInput;
use super::reference::{self, Member, TextPart};
use super::requirement;
use super::types::CwlType;
use crate::field::items;
use crate::report::Gaps;
use crate::service_file::ServiceFile;

/// Where a binding stands: by position, arguments before inputs, arguments as they stand, inputs by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(i64, bool, usize, String);

/// Reads base command, arguments, bindings and standard input.
pub(super) fn read(
    tool: &Map<String, Value>,
    inputs: &mut [ToolInput],
    service: &mut ServiceFile,
    gaps: &mut Gaps,
) {
    let base = items(tool.get("baseCommand"));
    if base.iter().any(|word| !word.is_string()) {
        gaps.fatal("baseCommand", "a word of it is no text");
    }
    let base = base.into_iter().filter_map(Value::as_str);
    let cores = requirement::cores(tool);
    let mut ranked: Vec<(Rank, Vec<Word>)> = Vec::new();
    for (index, argument) in items(tool.get("arguments")).into_iter().enumerate() {
        let field = format!("arguments[{index}]");
        let binding = match argument {
            Value::Object(binding) => binding.clone(),
            text => Map::from_iter([("valueFrom".to_owned(), text.clone())]),
        };
        odd_keys(&binding, &field, &["position", "prefix", "separate", "valueFrom"], gaps);
        let Some(position) = position(&binding, &field, true, gaps) else { continue };
        let words = argument_words(&binding, cores, &field, inputs, gaps);
        ranked.push((Rank(position, false, index, String::new()), words));
    }
    for index in 0..inputs.len() {
        let Some(binding) = inputs[index].binding.clone().filter(|_| !inputs[index].left_out)
        else {
            continue;
        };
        let field = format!("{}.inputBinding", inputs[index].field());
        let needed = !inputs[index].optional;
        let Some(position) = position(&binding, &field, needed, gaps) else {
            inputs[index].left_out = true;
            continue;
        };
        let id = inputs[index].id.clone();
        let words = input_words(index, &binding, &field, inputs, gaps);
        ranked.push((Rank(position, true, 0, id), words));
    }
    ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut words: Vec<CommandItem> =
        base.map(|text| CommandItem::Word(Word::literal(text))).collect();
    words.extend(ranked.into_iter().flat_map(|(_, words)| words).map(CommandItem::Word));
    let program = words.first().and_then(|item| match item {
        CommandItem::Word(word) => word.as_literal(),
        CommandItem::Redirect(..) => None,
    });
    if program.is_none_or(|program| program.starts_with('-')) {
        gaps.fatal("baseCommand", "no program: it is the image's, or an input's");
    }
    let is_operator = |item: &CommandItem| match item {
        CommandItem::Word(word) => {
            word.as_literal().is_some_and(|text| StandardStream::from_operator(text).is_some())
        }
        CommandItem::Redirect(..) => false,
    };
    if words.iter().any(is_operator) {
        gaps.fatal(
            "arguments",
            "a word `<`, `>` or `2>` would be a redirection here: put it into a script",
        );
    }
    service.template = Template { items: words };
    if let Some(stdin) = tool.get("stdin").and_then(Value::as_str) {
        standard_input(stdin, inputs, service, gaps);
    }
}

/// Names what of a binding is not read.
pub(super) fn odd_keys(binding: &Map<String, Value>, field: &str, read: &[&str], gaps: &mut Gaps) {
    for key in binding.keys().filter(|key| !read.contains(&key.as_str())) {
        let reason = match key.as_str() {
            "shellQuote" => "no shell runs, so nothing is quoted",
            "loadContents" => "not needed to run it",
            "itemSeparator" => "it is no list",
            "position" => "items stand in the order of their list",
            _ => {
                gaps.unread_member(field, key);
                continue;
            }
        };
        gaps.noted(format!("{field}.{key}"), reason);
    }
}

/// A binding's position; `None` if it is computed.
fn position(
    binding: &Map<String, Value>,
    field: &str,
    needed: bool,
    gaps: &mut Gaps,
) -> Option<i64> {
    match binding.get("position") {
        None | Some(Value::Null) => Some(0),
        Some(Value::Number(number)) if number.is_i64() => number.as_i64(),
        Some(_) => {
            gaps.needed(needed, format!("{field}.position"), "the expression is not run");
            None
        }
    }
}

fn is_separate(binding: &Map<String, Value>) -> bool {
    binding.get("separate").and_then(Value::as_bool).unwrap_or(true)
}

fn prefix_of(binding: &Map<String, Value>) -> Option<String> {
    binding.get("prefix").and_then(Value::as_str).map(str::to_owned)
}

/// The words of an argument.
fn argument_words(
    binding: &Map<String, Value>,
    cores: u64,
    field: &str,
    inputs: &mut [ToolInput],
    gaps: &mut Gaps,
) -> Vec<Word> {
    let Some(value) = binding.get("valueFrom").and_then(Value::as_str) else {
        gaps.lost(field, "without a text as `valueFrom` it says nothing to the program");
        return Vec::new();
    };
    let Some(mut word) = filled(value, None, cores, field, inputs, gaps) else { return Vec::new() };
    let mut words = Vec::new();
    if let Some(prefix) = prefix_of(binding) {
        let lone = word.slots().count() == 1;
        let optional = word
            .slots()
            .any(|slot| inputs.iter().any(|input| input.name == slot.name && input.optional));
        if !is_separate(binding) {
            word.parts.insert(0, WordPart::Text(prefix));
            merge(&mut word);
        } else if lone && optional {
            let name = word.slots().map(|slot| slot.name.clone()).next().unwrap_or_default();
            let input = inputs.iter_mut().find(|input| input.name == name);
            input.into_iter().for_each(|it| it.keys.push(("prefix", prefix.as_str().into())));
        } else {
            words.push(Word::literal(prefix));
        }
    }
    words.push(word);
    words
}

/// Neighbouring texts as one.
fn merge(word: &mut Word) {
    let mut merged: Vec<WordPart> = Vec::new();
    for part in word.parts.drain(..) {
        match (merged.last_mut(), part) {
            (Some(WordPart::Text(text)), WordPart::Text(more)) => text.push_str(&more),
            (_, WordPart::Text(text)) if text.is_empty() => {}
            (_, part) => merged.push(part),
        }
    }
    word.parts = merged;
}

/// A text with references as a word; `None` if it cannot be said, which is fatal.
fn filled(
    text: &str,
    itself: Option<usize>,
    cores: u64,
    field: &str,
    inputs: &mut [ToolInput],
    gaps: &mut Gaps,
) -> Option<Word> {
    let parts = match reference::parts(text) {
        Ok(parts) => parts,
        Err(reason) => {
            gaps.fatal(field, reason);
            return None;
        }
    };
    let mut word = Word::default();
    for part in parts {
        let (index, member) = match part {
            TextPart::Text(text) => {
                word.parts.push(WordPart::Text(text));
                continue;
            }
            TextPart::WorkingDirectory => {
                word.parts.push(WordPart::Text(".".to_owned()));
                continue;
            }
            TextPart::Cores => {
                let reason =
                    "`$(runtime.cores)` is the number of processors that the tool asks for";
                gaps.noted(field, reason);
                word.parts.push(WordPart::Text(cores.to_string()));
                continue;
            }
            TextPart::Itself(member) => (itself, member),
            TextPart::Input(id, member) => (inputs.iter().position(|it| it.id == id), member),
        };
        let Some(index) = index else {
            gaps.fatal(field, format!("`{text}` refers to what is not there"));
            return None;
        };
        word.parts.push(of_input(&mut inputs[index], member, field, gaps)?);
    }
    merge(&mut word);
    Some(word)
}

/// An input within a word.
fn of_input(
    input: &mut ToolInput,
    member: Member,
    field: &str,
    gaps: &mut Gaps,
) -> Option<WordPart> {
    let id = input.id.clone();
    let file = input.data_type == DataType::Raw && !input.is_list();
    let is_directory = input.data_type == DataType::Dir;
    if input.left_out || input.is_list() || input.data_type == DataType::Bool {
        gaps.fatal(field, format!("{id} is no single value"));
        return None;
    }
    let again = input.used;
    match member {
        Member::Whole | Member::Name if !again && (member == Member::Whole || input.is_file()) => {
            input.used = true;
            Some(WordPart::Slot(input.slot()))
        }
        // The name of its file is known, so it may stand again.
        Member::Whole | Member::Name if (file || is_directory) && !input.optional => {
            Some(WordPart::Text(input.name.clone()))
        }
        Member::Root | Member::Extension if file && !input.optional => {
            let (root, extension) = match input.name.rfind('.') {
                Some(at) if at > 0 => input.name.split_at(at),
                _ => (input.name.as_str(), ""),
            };
            let text = if member == Member::Root { root } else { extension };
            gaps.noted(field, format!("the file of {id} is called {} here", input.name));
            Some(WordPart::Text(text.to_owned()))
        }
        Member::Whole | Member::Name if again => {
            gaps.fatal(field, format!("{id} stands twice on the command line"));
            None
        }
        _ => {
            gaps.fatal(field, format!("{id} is no file that is always there"));
            None
        }
    }
}

/// The words of an input with its binding.
fn input_words(
    index: usize,
    binding: &Map<String, Value>,
    field: &str,
    inputs: &mut [ToolInput],
    gaps: &mut Gaps,
) -> Vec<Word> {
    let mut value_from = binding.get("valueFrom").and_then(Value::as_str);
    if matches!(value_from, Some("$(self)" | "$(self.path)" | "$(self.basename)")) {
        value_from = None;
    }
    if let Some(text) = value_from {
        return computed(index, text, binding, field, inputs, gaps);
    }
    let input = &mut inputs[index];
    if input.used {
        gaps.needed(!input.optional, field.to_owned(), "it stands twice on the command line");
        return Vec::new();
    }
    let prefix = prefix_of(binding);
    let mut word = Word::default();
    match (&input.of.clone(), prefix) {
        (CwlType::Array(_, of_items), prefix) => {
            list(input, &mut word, binding, of_items.as_ref(), prefix, field, gaps);
            if input.left_out {
                return Vec::new();
            }
        }
        (CwlType::One(DataType::Bool), None) => {
            // CWL puts nothing on the command line for it.
            return Vec::new();
        }
        (CwlType::One(DataType::Bool), Some(prefix)) => {
            input.keys.push(("flag", prefix.into()));
            if !input.has_key("default") {
                input.keys.push(("default", false.into()));
            }
        }
        (_, Some(prefix)) if is_separate(binding) => input.keys.push(("prefix", prefix.into())),
        (_, Some(prefix)) => word.parts.push(WordPart::Text(prefix)),
        (_, None) => {}
    }
    input.used = true;
    word.parts.push(WordPart::Slot(input.slot()));
    merge(&mut word);
    vec![word]
}

/// The keys of a list, and the text in front of each value.
fn list(
    input: &mut ToolInput,
    word: &mut Word,
    binding: &Map<String, Value>,
    of_items: Option<&Map<String, Value>>,
    prefix: Option<String>,
    field: &str,
    gaps: &mut Gaps,
) {
    let separator = binding.get("itemSeparator").and_then(Value::as_str);
    let each = of_items.and_then(prefix_of);
    let each_separate = of_items.is_none_or(is_separate);
    let computed = of_items.is_some_and(|of| of.contains_key("valueFrom"));
    let together = match (&prefix, &each, separator) {
        (_, Some(_), Some(_)) => Some("a prefix of each item, and a separator"),
        (Some(_), Some(_), None) if each_separate => {
            Some("a prefix of the list, and one of each item")
        }
        (Some(_), None, None) if !is_separate(binding) => {
            Some("its prefix is part of the first value's word, and no part of the others'")
        }
        _ if computed => Some("its items are computed"),
        _ => None,
    };
    if let Some(reason) = together {
        gaps.lost(field, reason);
        input.left_out = true;
        return;
    }
    match (prefix, each, separator) {
        (prefix, _, Some(separator)) => {
            input.keys.push(("separator", separator.into()));
            match prefix {
                Some(prefix) if is_separate(binding) => input.keys.push(("prefix", prefix.into())),
                Some(prefix) => word.parts.push(WordPart::Text(prefix)),
                None => {}
            }
        }
        (None, Some(each), None) if each_separate => {
            input.keys.push(("prefix", each.into()));
            input.keys.push(("repeat_prefix", true.into()));
        }
        (prefix, each, None) => {
            if let Some(prefix) = prefix {
                input.keys.push(("prefix", prefix.into()));
            }
            if let Some(each) = each {
                word.parts.push(WordPart::Text(each));
            }
        }
    }
}

/// The words of an input whose text is made of others.
fn computed(
    index: usize,
    text: &str,
    binding: &Map<String, Value>,
    field: &str,
    inputs: &mut [ToolInput],
    gaps: &mut Gaps,
) -> Vec<Word> {
    let field = format!("{field}.valueFrom");
    let optional = inputs[index].optional && !inputs[index].has_key("default");
    if let Some(literal) = reference::literal(text) {
        if optional && !inputs[index].is_list() {
            gaps.lost(field, "a fixed text that stands there if the input is given");
            return Vec::new();
        }
        let mut words: Vec<Word> = Vec::new();
        match prefix_of(binding) {
            Some(prefix) if !is_separate(binding) => words.push(Word::literal(prefix + &literal)),
            prefix => {
                words.extend(prefix.map(Word::literal));
                words.push(Word::literal(literal));
            }
        }
        return words;
    }
    let mut parts = Vec::new();
    if let Some(prefix) = prefix_of(binding) {
        if is_separate(binding) {
            inputs[index].keys.push(("prefix", prefix.into()));
        } else {
            parts.push(WordPart::Text(prefix));
        }
    }
    let before = inputs[index].used;
    let Some(word) = filled(text, Some(index), 1, &field, inputs, gaps) else { return Vec::new() };
    if before || !inputs[index].used {
        gaps.fatal(field, "its word has another input and not itself");
        return Vec::new();
    }
    let mut word = Word { parts: [parts, word.parts].concat() };
    merge(&mut word);
    vec![word]
}

/// Standard input: an input, or a file of the workspace.
fn standard_input(
    text: &str,
    inputs: &mut [ToolInput],
    service: &mut ServiceFile,
    gaps: &mut Gaps,
) {
    let stream = StandardStream::Input;
    let target = match reference::parts(text).as_deref() {
        Ok([TextPart::Text(name)]) if reject_file_name(name).is_none() => {
            Some(StreamTarget::File(name.clone()))
        }
        Ok([TextPart::Input(id, Member::Whole | Member::Name)]) => {
            let input = inputs.iter_mut().find(|input| input.id == *id);
            let input = input.filter(|it| it.data_type == DataType::Raw && !it.is_list());
            input.filter(|input| !input.left_out).map(|input| match input.used {
                true => StreamTarget::File(input.name.clone()),
                false => {
                    input.used = true;
                    StreamTarget::Slot(input.slot())
                }
            })
        }
        _ => None,
    };
    match target {
        Some(target) => service.template.items.push(CommandItem::Redirect(stream, target)),
        None => gaps.fatal("stdin", format!("`{text}` is no file of the caller's")),
    }
}

//! One input of a descriptor.

use fishplate_contract::DataType;
use fishplate_programs::template::{ArgumentPassing, Direction, Slot};
use serde_json::{Map, Value};

use crate::field::{is_true, items, lexical, one_line};
use crate::names::Names;
use crate::report::Gaps;
use crate::service_file::Keys;

/// An input, as far as it can be said.
#[derive(Clone, Debug)]
pub(super) struct DescribedInput {
    pub(super) id: String,
    /// The parameter's name.
    pub(super) name: String,
    pub(super) value_key: Option<String>,
    pub(super) data_type: DataType,
    pub(super) is_flag: bool,
    pub(super) list: bool,
    pub(super) optional: bool,
    /// Text in front of each value, in the value's word.
    pub(super) glued: String,
    /// Of its table.
    pub(super) keys: Keys,
    pub(super) disables: Vec<String>,
    /// It stands on the command line.
    pub(super) used: bool,
    /// It cannot be said, and need not be.
    pub(super) left_out: bool,
}

/// Fields that are read here or in `import`, or that are for people.
const KNOWN: [&str; 25] = [
    "id",
    "name",
    "description",
    "type",
    "value-key",
    "optional",
    "list",
    "list-separator",
    "min-list-entries",
    "max-list-entries",
    "command-line-flag",
    "command-line-flag-separator",
    "value-choices",
    "minimum",
    "maximum",
    "exclusive-minimum",
    "exclusive-maximum",
    "integer",
    "default-value",
    "disables-inputs",
    "media-types",
    "mutable",
    "uses-absolute-path",
    "requires-inputs",
    "resolve-parent",
];

/// Those of them that say nothing of a flag.
const OF_VALUES: [&str; 11] = [
    "list",
    "list-separator",
    "min-list-entries",
    "max-list-entries",
    "command-line-flag-separator",
    "value-choices",
    "minimum",
    "maximum",
    "exclusive-minimum",
    "exclusive-maximum",
    "integer",
];

impl DescribedInput {
    pub(super) fn field(&self) -> String {
        format!("inputs.{}", self.id)
    }

    pub(super) fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|(name, _)| *name == key)
    }

    pub(super) fn slot(&self, direction: Direction) -> Slot {
        let passing =
            if self.data_type.is_binary() { ArgumentPassing::File } else { ArgumentPassing::Val };
        let (name, data_type) = (self.name.clone(), self.data_type.clone());
        Slot { direction, passing, name, data_type, trim: false }
    }
}

/// Reads an input; `None` if it is none at all. Of those in a group, none need be given.
pub(super) fn read(
    described: &Value,
    grouped: &[String],
    names: &mut Names,
    gaps: &mut Gaps,
) -> Option<DescribedInput> {
    let Some(told) = described.as_object() else {
        gaps.fatal("inputs", "an input is a JSON object");
        return None;
    };
    let text = |key: &str| told.get(key).and_then(Value::as_str);
    let id = text("id").or(text("name")).unwrap_or("input").to_owned();
    let field = format!("inputs.{id}");
    let optional = is_true(told, "optional") || grouped.contains(&id);
    let mut input = DescribedInput {
        name: names.of(&id),
        id,
        value_key: text("value-key").map(str::to_owned),
        data_type: DataType::String,
        is_flag: false,
        list: is_true(told, "list") && told.get("max-list-entries") != Some(&1.into()),
        optional,
        glued: String::new(),
        keys: Vec::new(),
        disables: texts(told, "disables-inputs"),
        used: false,
        left_out: false,
    };
    odd_fields(&input, told, gaps);
    input.data_type = match told.get("type") {
        Some(Value::String(name)) => match name.as_str() {
            "String" => DataType::String,
            "File" => DataType::Raw,
            "Flag" => DataType::Bool,
            "Number" if is_true(told, "integer") => DataType::Long,
            "Number" => DataType::Double,
            other => {
                gaps.needed(!optional, field, format!("the type {other} is not known"));
                return Some(without(input));
            }
        },
        Some(Value::Object(_)) => {
            let reason = "a command of its own within the command (an extension of NiWrap's)";
            gaps.needed(!optional, format!("{field}.type"), reason);
            return Some(without(input));
        }
        Some(Value::Array(_)) => {
            let reason = "one of several commands within the command (an extension of NiWrap's)";
            gaps.needed(!optional, format!("{field}.type"), reason);
            return Some(without(input));
        }
        _ => {
            gaps.needed(!optional, field, "it has no type");
            return Some(without(input));
        }
    };
    input.is_flag = input.data_type == DataType::Bool;
    describe(&mut input, told, gaps);
    on_command_line(&mut input, told, gaps);
    values(&mut input, told, gaps);
    Some(input)
}

fn without(mut input: DescribedInput) -> DescribedInput {
    input.left_out = true;
    input
}

fn texts(told: &Map<String, Value>, key: &str) -> Vec<String> {
    items(told.get(key)).into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn describe(input: &mut DescribedInput, told: &Map<String, Value>, gaps: &mut Gaps) {
    let text = |key: &str| told.get(key).and_then(Value::as_str).map(one_line);
    let help = text("description").filter(|it| !it.is_empty()).or_else(|| text("name"));
    if let Some(help) = help.filter(|help| !help.is_empty()) {
        input.keys.push(("help", help.into()));
    }
    if text("description").is_some() {
        gaps.for_people(told, "inputs", &["name"]);
    }
    let is_file = input.data_type == DataType::Raw;
    if let Some(media_type) = gaps.media_type(told, &input.field(), is_file) {
        input.keys.push(("media_type", media_type.into()));
    }
    if is_true(told, "mutable") && is_file {
        input.keys.push(("share", "copy".into()));
    } else if is_true(told, "mutable") {
        gaps.noted(format!("{}.mutable", input.field()), "it is no file");
    }
}

/// Flag, separators, lists.
fn on_command_line(input: &mut DescribedInput, told: &Map<String, Value>, gaps: &mut Gaps) {
    let field = input.field();
    let text = |key: &str| told.get(key).and_then(Value::as_str);
    let flag = text("command-line-flag").unwrap_or_default();
    let mut words: Vec<String> = flag.split_whitespace().map(str::to_owned).collect();
    if input.is_flag {
        if words.is_empty() {
            gaps.lost(
                field,
                "a flag without a `command-line-flag`: it says nothing to the program",
            );
            input.left_out = true;
            return;
        }
        input.keys.push(("flag", word_or_words(words)));
        for key in told.keys().filter(|key| OF_VALUES.contains(&key.as_str())) {
            gaps.noted(format!("{field}.{key}"), "a flag has no value");
        }
        let on = told.get("default-value") == Some(&Value::Bool(true));
        input.keys.push(("default", on.into()));
        return;
    }
    let separator = text("command-line-flag-separator").unwrap_or(" ");
    let is_glued = !words.is_empty() && !separator.starts_with(char::is_whitespace);
    if is_glued && separator.contains(char::is_whitespace) {
        gaps.needed(!input.optional, field, format!("its flag's separator is {separator:?}"));
        input.left_out = true;
        return;
    }
    if is_glued {
        input.glued = words.pop().unwrap_or_default() + separator;
    }
    if input.list {
        list(input, told, &words, gaps);
    }
    if !words.is_empty() {
        input.keys.push(("prefix", word_or_words(words)));
    }
}

fn list(input: &mut DescribedInput, told: &Map<String, Value>, prefix: &[String], gaps: &mut Gaps) {
    let field = input.field();
    let separator = told.get("list-separator").and_then(Value::as_str).unwrap_or(" ");
    input.keys.push(("repeated", true.into()));
    // `-x 1 -x 2` is a list whose separator is ` -x `.
    let repeated = prefix.join(" ");
    let trimmed = separator.trim();
    if trimmed.is_empty() && !separator.is_empty() {
        if !input.glued.is_empty() {
            let reason = "its flag is part of the first value's word, and no part of the others'";
            gaps.needed(!input.optional, field.clone(), reason);
            input.left_out = true;
        }
    } else if separator.starts_with(char::is_whitespace)
        && trimmed == format!("{repeated} {}", input.glued).trim()
    {
        if !prefix.is_empty() {
            input.keys.push(("repeat_prefix", true.into()));
        }
    } else if separator.contains(char::is_whitespace) {
        gaps.needed(
            !input.optional,
            field.clone(),
            format!("its list's separator is {separator:?}"),
        );
        input.left_out = true;
    } else {
        input.keys.push(("separator", separator.into()));
    }
    for (theirs, ours) in [("min-list-entries", "min_count"), ("max-list-entries", "max_count")] {
        let count = told.get(theirs).and_then(Value::as_i64);
        match count {
            Some(count) if count >= 1 => input.keys.push((ours, count.into())),
            Some(0) | None => {}
            Some(count) => gaps.lost(format!("{field}.{theirs}"), format!("it is {count}")),
        }
    }
}

fn word_or_words(mut words: Vec<String>) -> toml::Value {
    match words.len() {
        1 => words.remove(0).into(),
        _ => words.into(),
    }
}

/// Choices, bounds, default; whether it may be left out.
fn values(input: &mut DescribedInput, told: &Map<String, Value>, gaps: &mut Gaps) {
    if input.is_flag || input.left_out {
        return;
    }
    let field = input.field();
    let is_file = input.data_type == DataType::Raw;
    let choices: Vec<String> =
        items(told.get("value-choices")).into_iter().filter_map(lexical).collect();
    if !choices.is_empty() && is_file {
        gaps.lost(format!("{field}.value-choices"), "of files");
    } else if !choices.is_empty() {
        // They are the owner's, so none is an option that a caller made up.
        if input.data_type == DataType::String && choices.iter().any(|it| it.starts_with('-')) {
            input.keys.push(("allow_leading_dash", true.into()));
        }
        input.keys.push(("choices", choices.into()));
    }
    for (theirs, excludes, ours) in
        [("minimum", "exclusive-minimum", "min"), ("maximum", "exclusive-maximum", "max")]
    {
        let Some(bound) = told.get(theirs).filter(|bound| bound.is_number()) else { continue };
        let whole = bound.as_i64().or_else(|| bound.as_f64().and_then(whole));
        let excluded = is_true(told, excludes);
        match (&input.data_type, whole) {
            (DataType::Long, Some(bound)) => {
                let step = if ours == "min" { 1 } else { -1 };
                let bound = if excluded { bound.saturating_add(step) } else { bound };
                input.keys.push((ours, bound.into()));
            }
            (DataType::Double, _) => {
                if let Some(text) = lexical(bound) {
                    input.keys.push((ours, text.into()));
                }
                if excluded {
                    gaps.lost(format!("{field}.{excludes}"), "the bound itself is allowed here");
                }
            }
            _ => gaps.lost(format!("{field}.{theirs}"), "it is no bound of such a value"),
        }
    }
    let default = told.get("default-value").filter(|default| !default.is_null());
    match default.map(lexical) {
        Some(Some(text)) if !is_file && !input.list => input.keys.push(("default", text.into())),
        Some(_) => {
            let reason = if is_file { "a file of whoever made the descriptor" } else { "a list" };
            gaps.lost(format!("{field}.default-value"), reason);
            if input.optional {
                input.keys.push(("optional", true.into()));
            }
        }
        None if input.optional => input.keys.push(("optional", true.into())),
        None => {}
    }
}

/// A number without fractions that a double holds exactly.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && number.abs() <= EXACT;
    is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// Fields that ask for what a service file cannot say.
fn odd_fields(input: &DescribedInput, told: &Map<String, Value>, gaps: &mut Gaps) {
    let field = input.field();
    let demands = [
        ("uses-absolute-path", "the program gets the file's name in its directory"),
        ("resolve-parent", "the file comes alone, without what lies beside it"),
    ];
    for (key, reason) in demands {
        if is_true(told, key) {
            gaps.lost(format!("{field}.{key}"), reason);
        }
    }
    if told.contains_key("requires-inputs") {
        gaps.lost(
            format!("{field}.requires-inputs"),
            "that one input needs another is not checked",
        );
    }
    for key in told.keys().filter(|key| !KNOWN.contains(&key.as_str())) {
        gaps.lost(format!("{field}.{key}"), "not known here");
    }
}

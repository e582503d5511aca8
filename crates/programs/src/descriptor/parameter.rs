//! `[input.NAME]` and `[output.NAME]`.

use std::borrow::Cow;
use std::ops::Range;

use fishplate_contract::lexical::closest;
use fishplate_contract::{DataType, Parameter};
use fishplate_formats::array_file::{ByteOrder, Format, Order};

use super::description::{Input, Output};
use super::diagnostic::DiagnosticReport;
use super::list;
use super::table::{Table, as_lexical, wrong_type};
use super::text::SpannedText;
use crate::output_name;
use crate::plan::OutputSource;
use crate::template::{
    ArgumentPassing, Direction, Slot, array_problem, probable_type, reject_file_name, type_names,
};

/// Where a slot stands, as far as its parameter's keys depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotPlacement {
    /// It is a word.
    Whole,
    /// It is the only slot of a word that has text too.
    Part,
    /// Its word has other slots.
    Shared,
    /// A stream is redirected to it.
    Redirected,
}

/// An input slot with the table that says more about it, if there is one.
pub(super) fn slot_input(
    slot: &Slot,
    standing: SlotPlacement,
    table: Option<Table<'_>>,
    report: &mut DiagnosticReport<'_>,
) -> Input {
    let in_file = slot.passing == ArgumentPassing::File || standing == SlotPlacement::Redirected;
    let mut input = Input {
        parameter: Parameter {
            trim: slot.trim,
            ..Parameter::new(&slot.name, slot.data_type.clone())
        },
        filename: in_file.then(|| slot.name.clone()),
        prefix: Vec::new(),
        flag: Vec::new(),
        list: None,
        default_file: None,
        format: Format::default(),
        private: false,
    };
    let Some(mut table) = table else { return input };
    describe(&mut input.parameter, &mut table, report);
    if let Some(value) = table.get("type") {
        report
            .error(value.span(), format!("the slot `{slot}` tells the type already"))
            .hint("leave `type` out here");
    }
    presence(&mut input.parameter, standing, &mut table, report);
    values(&mut input.parameter, &mut table, report);
    if let Some(text) = table.string("filename", report) {
        if in_file {
            input.filename = Some(file_name(text, report));
        } else {
            report
                .error(
                    text.span,
                    format!("`{}` is a value on the command line, not a file", slot.name),
                )
                .hint(format!("write `[in file {}:{}]`", slot.name, slot.data_type.name()));
        }
    }
    words(&mut input, slot, standing, &mut table, report);
    list::read(&mut input, slot, standing, &mut table, report);
    input.format = format(&slot.data_type, Format::default(), &mut table, report);
    input.private = private(in_file, &mut table, report);
    table.finish(report);
    input
}

/// An input file that the command line does not mention.
pub(super) fn file_input(
    name: &SpannedText,
    mut table: Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Option<Input> {
    let data_type = table.string("type", report).and_then(|text| data_type(&text, report));
    let mut parameter = Parameter::new(&name.value, data_type.clone().unwrap_or(DataType::String));
    describe(&mut parameter, &mut table, report);
    presence(&mut parameter, SlotPlacement::Whole, &mut table, report);
    if data_type.is_some() {
        values(&mut parameter, &mut table, report);
    } else {
        for key in ["default", "choices", "min", "max", "allow_leading_dash", "trim"] {
            table.get(key);
        }
    }
    let filename = table.string("filename", report).map(|text| file_name(text, report));
    for key in ["type", "filename"] {
        if table.key_span(key).is_none() {
            report
                .error(table.span.clone(), format!("{} has no `{key}`", table.name))
                .hint("a file that the command line does not mention needs `type` and `filename`");
        }
    }
    for key in ["prefix", "flag"].into_iter().chain(list::KEYS) {
        if let Some(value) = table.get(key) {
            report.error(value.span(), format!("`{key}` is for slots of the command line"));
        }
    }
    let format = format_if_known(data_type.as_ref(), &mut table, report);
    let private = private(true, &mut table, report);
    table.finish(report);
    let (prefix, flag, list, default_file) = Default::default();
    let filename = Some(filename?);
    Some(Input { parameter, filename, prefix, flag, list, default_file, format, private })
}

/// An output slot with the table that says more about it. The parameter of an `in out` slot is
/// made of its input's.
pub(super) fn slot_output(
    slot: &Slot,
    input: Option<&Input>,
    table: Option<Table<'_>>,
    report: &mut DiagnosticReport<'_>,
) -> Output {
    let mut parameter = Parameter::new(&slot.name, slot.data_type.clone());
    let mut path = slot.name.clone();
    let mut format = Format::default();
    let mut non_empty = false;
    if let Some(input) = input {
        parameter.help.clone_from(&input.parameter.help);
        parameter.unit.clone_from(&input.parameter.unit);
        parameter.media_type.clone_from(&input.parameter.media_type);
        parameter.optional = input.parameter.optional && input.parameter.default.is_none();
        path = input.filename.clone().unwrap_or(path);
        format = input.format;
    }
    if let Some(mut table) = table {
        describe(&mut parameter, &mut table, report);
        if let Some((optional, _)) = table.boolean("optional", report) {
            parameter.optional = optional;
        }
        if let Some(text) = table.string("filename", report) {
            if slot.direction == Direction::InOut {
                report
                    .error(
                        text.span,
                        format!("`{}` is one file, and its input names it", slot.name),
                    )
                    .hint(format!("`filename` stands in [input.{}]", slot.name));
            } else {
                path = file_name(text, report);
            }
        }
        for key in ["type", "path", "glob"] {
            if let Some(value) = table.get(key) {
                report
                    .error(value.span(), format!("`{key}` is for outputs without a slot"))
                    .hint(format!("`{}` is a slot; `filename` names its file", slot.name));
            }
        }
        format = self::format(&slot.data_type, format, &mut table, report);
        non_empty = self::non_empty(&slot.data_type, &mut table, report);
        table.finish(report);
    }
    let (source, references) = (OutputSource::Path(path), Vec::new());
    Output { parameter, source, references, format, non_empty }
}

/// An output that the program names itself.
pub(super) fn found_output(
    name: &SpannedText,
    inputs: &[Input],
    mut table: Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Option<Output> {
    let data_type = table.string("type", report).and_then(|text| data_type(&text, report));
    let mut parameter = Parameter::new(&name.value, data_type.clone().unwrap_or(DataType::String));
    describe(&mut parameter, &mut table, report);
    if let Some((optional, _)) = table.boolean("optional", report) {
        parameter.optional = optional;
    }
    let path = table.string("path", report);
    let glob = table.string("glob", report);
    let place = path.as_ref().or(glob.as_ref());
    let references = place.map(|place| references(place, &parameter, inputs, report));
    if table.key_span("type").is_none() {
        report
            .error(table.span.clone(), format!("{} has no `type`", table.name))
            .hint("type = \"raw\" fits every file");
    }
    if let Some(text) = table.string("filename", report) {
        report.error(text.span, "`filename` is for slots").hint("here it is `path` or `glob`");
    }
    let source = match (path, glob) {
        (Some(path), None) => Some(OutputSource::Path(file_name(path, report))),
        (None, Some(glob)) => {
            parameter.repeated = true;
            if data_type == Some(DataType::Dir) {
                report
                    .error(glob.span.clone(), "a `glob` collects files, and a directory is one")
                    .hint("path = \"case\" collects the directory with all that is in it");
            }
            check_glob(&glob, report);
            Some(OutputSource::Glob(glob.value))
        }
        (Some(_), Some(glob)) => {
            report.error(glob.span, "an output has a `path` or a `glob`, not both");
            None
        }
        (None, None) => {
            if table.key_span("path").is_none() && table.key_span("glob").is_none() {
                report
                    .error(
                        table.span.clone(),
                        format!("{} has no `path` and no `glob`", table.name),
                    )
                    .hint("path = \"job.frd\" collects one file, glob = \"*.frd\" all that match");
            }
            None
        }
    };
    let format = format_if_known(data_type.as_ref(), &mut table, report);
    let non_empty = non_empty(&parameter.data_type, &mut table, report);
    table.finish(report);
    let references = references.unwrap_or_default();
    Some(Output { parameter, source: source?, references, format, non_empty })
}

/// Whether the output's file has to hold something.
fn non_empty(
    data_type: &DataType,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> bool {
    let Some((value, span)) = table.boolean("non_empty", report) else { return false };
    if *data_type == DataType::Dir {
        report
            .error(span, "`non_empty` is for files, not `dir`")
            .hint("collect a file of the directory as an output of its own: `path = \"case/log\"`");
    }
    value
}

/// The inputs whose values stand in an output's name.
fn references(
    place: &SpannedText,
    parameter: &Parameter,
    inputs: &[Input],
    report: &mut DiagnosticReport<'_>,
) -> Vec<String> {
    let names: Vec<&str> = output_name::references(&place.value).collect();
    for name in &names {
        let Some(input) = inputs.iter().find(|input| input.parameter.name == *name) else {
            report
                .error(place.span.clone(), format!("there is no input `{name}`"))
                .hint("`{NAME}` stands for the value of an input");
            continue;
        };
        let span = place.span.clone();
        if input.filename.is_some() || !input.flag.is_empty() || input.list.is_some() {
            report
                .error(span, format!("`{name}` has no value that could stand in a file's name"))
                .hint("`{NAME}` is for a single value that stands on the command line by `val`");
        } else if input.parameter.optional
            && input.parameter.default.is_none()
            && !parameter.optional
        {
            report
                .error(span, format!("`{name}` may be left out, and the output is required"))
                .hint("write `optional = true` for the output, or a `default` for the input");
        }
    }
    names.into_iter().map(str::to_owned).collect()
}

/// What is for people.
fn describe(parameter: &mut Parameter, table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) {
    if let Some(text) = table.string("help", report) {
        parameter.help = text.value;
    }
    if let Some(text) = table.string("unit", report) {
        parameter.unit = text.value;
    }
    if let Some(text) = table.string("media_type", report) {
        parameter.media_type = text.value;
    }
}

/// `default` is read by [`values`]; here is whether the input may be left out.
fn presence(
    parameter: &mut Parameter,
    standing: SlotPlacement,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) {
    let Some((optional, span)) = table.boolean("optional", report) else { return };
    parameter.optional = optional;
    let has_default = table.key_span("default").is_some();
    if has_default && !optional {
        report
            .error(span, "an input with a `default` may be left out")
            .hint("leave out `optional`, or the `default`");
    } else if optional && !has_default && standing == SlotPlacement::Shared {
        report
            .error(span, "the slot's word has other slots and cannot be left out")
            .hint("give it a `default`, or a word of its own");
    }
}

/// Which values are allowed, and which stands in for none.
fn values(parameter: &mut Parameter, table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) {
    let type_name = parameter.data_type.name();
    for key in ["allow_leading_dash", "trim"] {
        let Some((value, span)) = table.boolean(key, report) else { continue };
        if parameter.data_type != DataType::String {
            report.error(span, format!("`{key}` is for `string`, not `{type_name}`"));
        } else if key == "trim" {
            parameter.trim = value;
        } else {
            parameter.allow_leading_dash = value;
        }
    }
    let mut bounds = Vec::new();
    for key in ["min", "max"] {
        let Some(text) = lexical(table, key, report) else { continue };
        if !is_number(&parameter.data_type) {
            report.error(text.span, format!("`{key}` is for numbers, not `{type_name}`"));
        } else if let Err(fault) = parameter.accept(&text.value) {
            report.error(text.span, format!("`{key}`: {}", fault.message));
        } else {
            bounds.push((key, text));
        }
    }
    if let [(_, min), (_, max)] = bounds.as_slice() {
        let mut above = parameter.clone();
        above.min = Some(min.value.clone());
        if above.accept(&max.value).is_err() {
            report
                .error(max.span.clone(), format!("`max` is below `min`, {}", min.value))
                .label("no value fits");
            bounds.clear();
        }
    }
    for (key, text) in bounds {
        let bound = if key == "min" { &mut parameter.min } else { &mut parameter.max };
        *bound = Some(text.value);
    }
    parameter.choices = choices(parameter, table, report);
    if let Some(text) = lexical(table, "default", report) {
        if in_file_only(&parameter.data_type) {
            report
                .error(text.span, format!("a file of type `{type_name}` has no default"))
                .hint("`optional = true` lets it be left out; `stage` puts a file of yours in");
        } else {
            match parameter.accept(&text.value).map(Cow::into_owned) {
                Ok(default) => {
                    parameter.default = Some(default);
                    parameter.optional = true;
                }
                Err(fault) => {
                    report
                        .error(text.span, format!("`default`: {}", fault.message))
                        .label("no caller could send this");
                }
            }
        }
    }
}

fn choices(
    parameter: &Parameter,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Vec<String> {
    let mut choices: Vec<String> = Vec::new();
    let items = table.list("choices", "a list", report);
    if let (true, Some(span)) = (items.is_empty(), table.key_span("choices")) {
        report.error(span, "`choices` is a list of at least one value");
    }
    for item in items {
        let Some(text) = as_lexical(item) else {
            wrong_type(report, "a choice", "a string or a number", item);
            continue;
        };
        if in_file_only(&parameter.data_type) {
            let message = format!("`choices` are for values, not `{}`", parameter.data_type.name());
            report.error(text.span, message);
            break;
        }
        match parameter.accept(&text.value).map(Cow::into_owned) {
            Ok(choice) if choices.contains(&choice) => {
                report.warning(text.span, format!("the choice {choice:?} stands twice"));
            }
            Ok(choice) => choices.push(choice),
            Err(fault) => {
                report.error(text.span, format!("a choice: {}", fault.message));
            }
        }
    }
    choices
}

/// What is put on the command line in the slot's place.
fn words(
    input: &mut Input,
    slot: &Slot,
    standing: SlotPlacement,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) {
    let prefix = list::words("prefix", table, report);
    let flag = list::words("flag", table, report);
    if let Some((prefix, span)) = prefix {
        match standing {
            SlotPlacement::Redirected => {
                report.error(span, "a redirection has no `prefix`");
            }
            SlotPlacement::Shared => {
                report.error(span, "the slot's word has other slots, so it has no `prefix`");
            }
            _ if prefix.is_empty() || flag.is_some() => {
                report.error(span, "a `prefix` is a word in front of the slot's word");
            }
            SlotPlacement::Whole | SlotPlacement::Part => input.prefix = prefix,
        }
    }
    let Some((flag, span)) = flag else { return };
    if slot.data_type != DataType::Bool || slot.passing != ArgumentPassing::Val {
        report
            .error(span, "`flag` is for a `bool` that is passed by `val`")
            .hint(format!("write `[in val {}:bool]`", slot.name));
    } else if standing != SlotPlacement::Whole {
        report.error(span, "a `flag` stands for a whole word, and the slot is not one");
    } else if flag.is_empty() {
        report.error(span, "a `flag` is the word that stands for true, such as `--verbose`");
    } else {
        input.flag = flag;
    }
}

/// No text stands for such a value.
fn in_file_only(data_type: &DataType) -> bool {
    data_type.is_binary() || data_type.as_array().is_some()
}

/// The keys that tell how an array stands in its file.
const FORMAT_KEYS: [&str; 4] = ["format", "delimiter", "byte_order", "order"];

/// Whether the program writes to its input.
fn private(in_file: bool, table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> bool {
    if !in_file && let Some(value) = table.get("share") {
        report
            .error(value.span(), "`share` is for inputs in files")
            .hint("a value on the command line is the program's own");
        return false;
    }
    one_of("share", &["link", "copy"], table, report) == Some("copy")
}

/// The format of a file whose type may not be known, because it was wrong.
fn format_if_known(
    data_type: Option<&DataType>,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Format {
    match data_type {
        Some(data_type) => format(data_type, Format::default(), table, report),
        None => {
            for key in FORMAT_KEYS {
                table.get(key);
            }
            Format::default()
        }
    }
}

/// How an array stands in its file, unless told otherwise as in `default`.
fn format(
    data_type: &DataType,
    default: Format,
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Format {
    if data_type.as_array().is_none() {
        for key in FORMAT_KEYS {
            let Some(value) = table.get(key) else { continue };
            report
                .error(value.span(), format!("`{key}` is for arrays, not `{}`", data_type.name()))
                .hint("the type of an array has brackets, such as `double[]` or `float[n,m]`");
        }
        return default;
    }
    let mut format = match one_of("format", &["text", "raw", "npy"], table, report) {
        Some("raw") => Format::PLAIN,
        Some("npy") => Format::Npy,
        Some(_) => Format::default(),
        None => default,
    };
    let mut misplaced = Vec::new();
    if let Some((sign, span)) = delimiter(table, report) {
        match &mut format {
            Format::Text { delimiter } => *delimiter = sign,
            _ => misplaced.push(("delimiter", "text", span)),
        }
    }
    let span = |table: &Table<'_>, key| table.key_span(key).unwrap_or(0..0);
    if let Some(name) = one_of("byte_order", &["little", "big"], table, report) {
        match &mut format {
            Format::Raw { byte_order, .. } if name == "big" => *byte_order = ByteOrder::Big,
            Format::Raw { byte_order, .. } => *byte_order = ByteOrder::Little,
            _ => misplaced.push(("byte_order", "raw", span(table, "byte_order"))),
        }
    }
    if let Some(name) = one_of("order", &["c", "fortran"], table, report) {
        match &mut format {
            Format::Raw { order, .. } if name == "fortran" => *order = Order::Fortran,
            Format::Raw { order, .. } => *order = Order::C,
            _ => misplaced.push(("order", "raw", span(table, "order"))),
        }
    }
    for (key, right, span) in misplaced {
        report
            .error(span, format!("`{key}` is for files of the format `{right}`"))
            .hint(format!("write format = \"{right}\", or leave `{key}` out"));
    }
    format
}

/// The value of a key that has only a few.
fn one_of(
    key: &'static str,
    names: &[&'static str],
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Option<&'static str> {
    let text = table.string(key, report)?;
    let found = names.iter().find(|name| **name == text.value);
    if found.is_none() {
        let near = closest(&text.value, names.iter().copied());
        report
            .error(text.span, format!("`{key}` is not {:?}", text.value))
            .label(format!("one of {}", names.join(", ")))
            .maybe_hint(near.map(|near| format!("`{near}` is one")));
    }
    found.copied()
}

fn delimiter(
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> Option<(char, Range<usize>)> {
    let text = table.string("delimiter", report)?;
    let mut signs = text.value.chars();
    let (Some(sign), None) = (signs.next(), signs.next()) else {
        report.error(text.span, "`delimiter` is one character, such as \",\"");
        return None;
    };
    if let Some(why) = Format::reject_delimiter(sign) {
        report.error(text.span, format!("{sign:?} cannot separate numbers")).hint(why);
        return None;
    }
    Some((sign, text.span))
}

fn lexical(
    table: &mut Table<'_>,
    key: &'static str,
    report: &mut DiagnosticReport<'_>,
) -> Option<SpannedText> {
    let value = table.get(key)?;
    let text = as_lexical(value);
    if text.is_none() {
        wrong_type(report, &format!("`{key}`"), "a string, a number or a boolean", value);
    }
    text
}

fn is_number(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int | DataType::Long | DataType::Float | DataType::Double)
}

fn data_type(text: &SpannedText, report: &mut DiagnosticReport<'_>) -> Option<DataType> {
    let found = DataType::from_name(&text.value);
    if found.is_some() {
        return found;
    }
    if let Some((_, message, hint)) = array_problem(&text.value) {
        report.error(text.span.clone(), message).maybe_hint(hint);
    } else {
        report
            .error(text.span.clone(), format!("`{}` is no type of a parameter", text.value))
            .label(format!("one of {}", type_names()))
            .maybe_hint(probable_type(&text.value).map(|near| format!("`{near}` is one")));
    }
    None
}

/// The name of a file in the workspace, reported if it cannot be one.
pub(super) fn file_name(text: SpannedText, report: &mut DiagnosticReport<'_>) -> String {
    if let Some(right) = reject_file_name(&text.value) {
        not_in_workspace(&text.value, text.span, right, report);
    }
    text.value
}

fn not_in_workspace(
    name: &str,
    span: Range<usize>,
    right: &str,
    report: &mut DiagnosticReport<'_>,
) {
    report.error(span, format!("{name:?} is no file of the workspace")).hint(right);
}

fn check_glob(glob: &SpannedText, report: &mut DiagnosticReport<'_>) {
    if let Some(right) = reject_file_name(&glob.value) {
        not_in_workspace(&glob.value, glob.span.clone(), right, report);
    } else if let Err(error) =
        globset::GlobBuilder::new(&glob.value).literal_separator(true).build()
    {
        report.error(glob.span.clone(), format!("the glob cannot be read: {}", error.kind())).hint(
            "`*` and `?` match within a name, `**` across directories, `[a-z]` and `{a,b}` \
                   one of several",
        );
    }
}

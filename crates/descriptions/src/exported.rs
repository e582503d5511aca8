//! What both exports make of a parameter: the word of `fishplate call` that it is.

use fishplate_contract::{DataType, Parameter};

/// What stands in front of a value: `x=` of a text, `x:` of a file.
pub(crate) fn lead(parameter: &Parameter) -> String {
    let sign = if in_file(parameter) { ':' } else { '=' };
    format!("{}{sign}", parameter.name)
}

/// It comes and goes as a file, or a directory.
pub(crate) fn in_file(parameter: &Parameter) -> bool {
    parameter.data_type.is_binary() || parameter.data_type.as_array().is_some()
}

/// Where an output is written: a file called after it, or a directory for several. (A directory around them would have to be there.)
pub(crate) fn place(parameter: &Parameter) -> String {
    let ends = if is_directory(parameter) { "/" } else { "" };
    format!("output.{}{ends}", parameter.name)
}

/// It is written as a directory: one that it is, or one that has several files.
pub(crate) fn is_directory(parameter: &Parameter) -> bool {
    parameter.repeated || parameter.data_type == DataType::Dir
}

/// The help with what else a caller should know.
pub(crate) fn about(parameter: &Parameter) -> String {
    let mut about = parameter.help.trim().to_owned();
    let mut add = |text: String| {
        about = if about.is_empty() { text } else { format!("{about} ({text})") };
    };
    if !parameter.unit.is_empty() {
        add(format!("in {}", parameter.unit));
    }
    if parameter.data_type.as_array().is_some() {
        add(format!("an array {}", parameter.data_type.name()));
    }
    if let Some(default) = &parameter.default {
        add(format!("default {default}"));
    }
    about
}

//! Whether what a description names is there: the program, staged files, an image. Only a file
//! that each job needs is an error; a program may be installed later.

use std::ops::Range;
use std::path::Path;

use super::command::Command;
use super::description::Description;
use super::diagnostic::{DiagnosticReport, Severity};
use super::service::absolute;
use crate::program::locate;
use crate::template::{CommandItem, reject_file_name};

/// Where a description says what.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceSpans {
    pub(super) name: Range<usize>,
    pub(super) commands: Vec<Command>,
    /// Files of the workspace that inputs, outputs and redirections name.
    pub(super) files: Vec<String>,
    pub(super) staged: Vec<Range<usize>>,
    pub(super) image: Range<usize>,
    pub(super) cores: Range<usize>,
}

/// Reports what is missing beside a description.
pub(super) fn files(
    description: &Description,
    places: &SourceSpans,
    report: &mut DiagnosticReport<'_>,
) {
    for (staged, span) in description.staged.iter().zip(&places.staged) {
        if !staged.from.exists() {
            report
                .error(span.clone(), "the staged file is not there")
                .label(format!("no {}", staged.from.display()));
        }
    }
    if let Some(container) = &description.container
        && !container.image.contains("://")
        && !Path::new(&container.image).exists()
    {
        report
            .warning(places.image.clone(), "the container's image is not there")
            .label(format!("no {}", container.image));
    }
    let present = std::thread::available_parallelism().map_or(1, usize::from);
    if let Some(cores) = description.limits.cores.filter(|cores| *cores as usize > present) {
        report.warning(
            places.cores.clone(),
            format!("{cores} cores are more than the {present} of this machine"),
        );
    }
    for (invocation, command) in description.invocations.iter().zip(&places.commands) {
        for input in &invocation.inputs {
            if let Some(file) = input.default_file.as_ref().filter(|file| !file.exists()) {
                report
                    .error(
                        command.span.clone(),
                        format!("the default file of `{}` is not there", input.parameter.name),
                    )
                    .label(format!("no {}", file.display()));
            }
        }
        program(description, invocation.template.program(), command, report);
        literal_words(description, &invocation.template.items, command, places, report);
    }
}

fn program(
    description: &Description,
    program: &str,
    command: &Command,
    report: &mut DiagnosticReport<'_>,
) {
    let span = command.locate_word(0);
    let outside = match &description.container {
        Some(container) => container.runtime.as_str(),
        None => program,
    };
    let search = std::env::var_os("PATH").unwrap_or_default();
    match locate::find(outside, &description.directory, &search) {
        Ok(path) if !outside.contains('/') && description.container.is_none() => {
            let message = format!("`{outside}` is {}, from PATH", path.display());
            report.push(Severity::Note, span, message);
        }
        Ok(_) => {}
        // A module may bring it; that is known when the service is loaded.
        Err(_) if !description.modules.is_empty() && !outside.contains('/') => {}
        Err(missing) if !outside.is_empty() => {
            report
                .warning(span, missing.to_string())
                .hint("the service can be offered, but its jobs fail until the program is there");
        }
        Err(_) => {}
    }
}

/// Words that name a file beside the service file: the program runs elsewhere.
fn literal_words(
    description: &Description,
    items: &[CommandItem],
    command: &Command,
    places: &SourceSpans,
    report: &mut DiagnosticReport<'_>,
) {
    let mut index = 0;
    for item in items {
        let CommandItem::Word(word) = item else {
            index += 2;
            continue;
        };
        let here = index;
        index += 1;
        let Some(text) = word.as_literal().filter(|_| here > 0) else { continue };
        let name = text.strip_prefix("./").unwrap_or(text);
        let in_workspace = places.files.iter().any(|file| file == name)
            || description.staged.iter().any(|staged| staged.to == name);
        if reject_file_name(name).is_none()
            && !in_workspace
            && absolute(&description.directory, name).is_file()
        {
            report
                .warning(command.locate_word(here), format!("the program will not find `{text}`"))
                .label("beside the service, not in the workspace")
                .hint(format!(
                    "each job has a workspace of its own; stage = [{name:?}] copies it there"
                ));
        }
    }
}

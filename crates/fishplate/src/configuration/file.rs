//! Reads and checks a configuration file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use fishplate_contract::lexical::closest;
use fishplate_programs::descriptor::table::{as_lexical, parse, wrong_type};
use fishplate_programs::descriptor::text::SpannedText;
use fishplate_programs::descriptor::{Diagnostic, DiagnosticReport, SourceText};
use fishplate_server::settings::Limits;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{Key, ValueKind, keys};

/// Keys of places that are made when they are not there.
const MADE: [&str; 2] = ["data", "pool"];

/// A configuration file, and all there is to say about it.
#[derive(Clone, Debug)]
pub(crate) struct ConfigurationFile {
    /// Its text.
    pub(crate) source: SourceText,
    /// What is wrong with it, in its order.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// What it says, by the arguments that say the same.
    pub(super) entries: Vec<Entry>,
    /// Its `[limits]`: the arguments' values are NAME=VALUE.
    pub(super) limits: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The argument that says the same; of a limit, its name.
    pub(super) id: String,
    /// The line in which it stands, from 1.
    pub(super) line: usize,
    /// The values of that argument.
    pub(super) values: Vec<OsString>,
}

impl ConfigurationFile {
    /// Reads a file, and checks it against a command's arguments.
    pub(crate) fn read(path: &Path, command: &Command) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let source = SourceText { name: path.display().to_string(), text };
        let directory = std::path::absolute(path)?.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self::check(source, &directory, command))
    }

    /// Checks a text whose relative paths begin at a directory.
    pub(super) fn check(source: SourceText, directory: &Path, command: &Command) -> Self {
        let mut report = DiagnosticReport::new(&source.text);
        let (mut entries, mut limits) = (Vec::new(), Vec::new());
        if let Some(root) = parse(&source, &mut report) {
            let mut reader =
                Reader { source: &source, directory, command, keys: keys(command), report };
            (entries, limits) = reader.read(root.get_ref());
            report = reader.report;
        }
        let diagnostics = report.finish();
        Self { diagnostics, source, entries, limits }
    }

    /// The service files and directories that it names.
    pub(crate) fn services(&self) -> impl Iterator<Item = PathBuf> {
        self.paths("files")
    }

    /// The policy that it names.
    pub(crate) fn policy(&self) -> impl Iterator<Item = PathBuf> {
        self.paths("policy")
    }

    fn paths(&self, id: &str) -> impl Iterator<Item = PathBuf> {
        let entries = self.entries.iter().filter(move |entry| entry.id == id);
        entries.flat_map(|entry| entry.values.iter().map(PathBuf::from))
    }
}

struct Reader<'a> {
    source: &'a SourceText,
    directory: &'a Path,
    command: &'a Command,
    keys: Vec<Key>,
    report: DiagnosticReport<'a>,
}

/// What stands for a key, each value with its place.
type Values = Vec<SpannedText>;

impl Reader<'_> {
    fn read(&mut self, root: &DeTable<'_>) -> (Vec<Entry>, Vec<Entry>) {
        let (mut entries, mut limits) = (Vec::new(), Vec::new());
        for (name, value) in root {
            let text = name.get_ref().as_ref();
            if text == "limits" {
                limits = self.limits(value);
            } else if let Some(key) = self.keys.iter().find(|key| key.name == text).cloned() {
                let line = self.source.position(name.span().start).0;
                let values = self.values(&key, value);
                let values = values.into_iter().filter_map(|value| self.checked(&key, &value));
                entries.push(Entry { id: key.id.clone(), line, values: values.collect() });
            } else {
                self.unknown(text, name.span());
            }
        }
        (entries, limits)
    }

    fn unknown(&mut self, name: &str, span: std::ops::Range<usize>) {
        let is_limit = fishplate_contract::Limit::all().any(|limit| limit.name == name);
        let near = closest(name, self.keys.iter().map(|key| key.name.as_str()));
        let hint = match near {
            _ if is_limit => format!("`{name}` stands in [limits]"),
            _ if matches!(name, "command" | "operation" | "input" | "output") => {
                "this is for service files, which `services` names".to_owned()
            }
            Some(near) => format!("`{near}` is one"),
            None => "it knows the flags of `fishplate serve`, and [limits]".to_owned(),
        };
        self.report.error(span, format!("the configuration has no key `{name}`")).hint(hint);
    }

    fn values(&mut self, key: &Key, value: &Spanned<DeValue<'_>>) -> Values {
        let name = format!("`{}`", key.name);
        let text = |value: &Spanned<DeValue<'_>>| {
            let text = value.get_ref().as_str()?;
            Some(SpannedText { value: text.to_owned(), span: value.span() })
        };
        let (found, right) = match key.kind {
            ValueKind::Boolean => {
                let found = value.get_ref().as_bool().and_then(|_| as_lexical(value));
                (found.map(|value| vec![value]), "`true` or `false`")
            }
            ValueKind::Text => (text(value).map(|value| vec![value]), "a string"),
            ValueKind::List => {
                let items = value.get_ref().as_array();
                let texts = items.map(|items| items.iter().map(text).collect::<Option<_>>());
                if let (Some(None), Some(items)) = (&texts, items) {
                    for item in items.iter().filter(|item| text(item).is_none()) {
                        wrong_type(
                            &mut self.report,
                            &format!("an item of {name}"),
                            "a string",
                            item,
                        );
                    }
                    return Vec::new();
                }
                (texts.flatten(), "a list of strings")
            }
        };
        found.unwrap_or_else(|| {
            wrong_type(&mut self.report, &name, right, value);
            Vec::new()
        })
    }

    /// The value as the argument takes it, if it does.
    fn checked(&mut self, key: &Key, value: &SpannedText) -> Option<OsString> {
        let taken: OsString = match key.is_path {
            true => self.directory.join(&value.value).into(),
            false => value.value.clone().into(),
        };
        let reason = if key.is_path && value.value.is_empty() {
            Some("is a path, not empty".to_owned())
        } else if key.is_path && !MADE.contains(&key.name.as_str()) && !Path::new(&taken).exists() {
            Some(format!("names {}, which is not there", Path::new(&taken).display()))
        } else {
            refusal(self.command, key.word(&taken))
        };
        match reason {
            None => Some(taken),
            Some(reason) => {
                self.report.error(value.span.clone(), format!("`{}` {reason}", key.name));
                None
            }
        }
    }

    fn limits(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<Entry> {
        let Some(table) = value.get_ref().as_table() else {
            wrong_type(&mut self.report, "`limits`", "a table", value);
            return Vec::new();
        };
        let mut limits = Vec::new();
        for (name, value) in table {
            let Some(text) = as_lexical(value) else {
                wrong_type(&mut self.report, &format!("`{}`", name.get_ref()), "a limit", value);
                continue;
            };
            let setting = format!("{}={}", name.get_ref(), text.value);
            let is_known = fishplate_contract::Limit::all().any(|it| it.name == name.get_ref());
            // Where it is to be kept is no matter here.
            match Limits::new(PathBuf::new(), "").set(&setting) {
                Ok(()) => limits.push(Entry {
                    id: name.get_ref().to_string(),
                    line: self.source.position(name.span().start).0,
                    values: vec![setting.into()],
                }),
                Err(error) => {
                    let span = if is_known { text.span } else { name.span() };
                    self.report.error(span, error.to_string());
                }
            }
        }
        limits
    }
}

/// Why a command does not take a word, whatever else it lacks.
fn refusal(command: &Command, word: OsString) -> Option<String> {
    let words = [OsString::from(command.get_name()), word];
    let error = command.clone().try_get_matches_from(words).err()?;
    match error.kind() {
        ErrorKind::InvalidValue => Some(match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) => format!("is one of {}", values.join(", ")),
            _ => "takes no such value".to_owned(),
        }),
        ErrorKind::ValueValidation => {
            let reason = std::error::Error::source(&error).map(ToString::to_string);
            Some(format!("is not right: {}", reason.unwrap_or_default()))
        }
        _ => None,
    }
}

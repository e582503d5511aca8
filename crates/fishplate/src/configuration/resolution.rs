//! What is in force: flags before environment before file before defaults.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use fishplate_contract::Limit;
use fishplate_contract::limits::LimitSetting;
use fishplate_formats::units;
use fishplate_programs::descriptor::CONFIGURATION;

use super::ConfigurationFile;
use super::file::Entry;
use super::keys::{LIMITS, ValueKind, keys};
use crate::output::diagnostics::Mistakes;

/// Where a machine's own server is configured.
const SYSTEM: &str = "/etc/fishplate/fishplate.toml";

/// A command line of `serve`, or of `config`, joined with the configuration file that it means.
#[derive(Debug)]
pub(crate) struct Resolution {
    /// The arguments in force.
    pub(crate) matches: ArgMatches,
    /// The file, if there is one.
    pub(crate) file: Option<ConfigurationFile>,
    /// Those of command line and environment.
    given: ArgMatches,
    command: Command,
}

/// Who said a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The command line.
    Flag,
    /// This variable of the environment.
    Environment(String),
    /// This line of the file.
    File(String, usize),
    /// Nobody said it: our own.
    Default,
}

/// A setting in force.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Its key.
    pub(crate) name: String,
    /// It stands in `[limits]`.
    pub(crate) is_limit: bool,
    /// What stands for it.
    pub(crate) kind: ValueKind,
    /// Its value, or those of its list; none if it is not set.
    pub(crate) values: Vec<String>,
    /// Who said it.
    pub(crate) origin: Origin,
}

impl Resolution {
    /// Joins a command line with the file that it means. The grammar's subcommand is built of the
    /// arguments of `serve`.
    ///
    /// # Errors
    /// [`Mistakes`] in the file; what clap says.
    pub(crate) fn of(grammar: &Command, words: &[OsString]) -> anyhow::Result<Self> {
        let (name, given) = parsed(grammar, words)?;
        let command = grammar.find_subcommand(&name).context("there is no such command")?.clone();
        let file = match found(&given) {
            None => None,
            Some(path) => {
                let file = ConfigurationFile::read(&path, &command)
                    .with_context(|| format!("cannot read the configuration {}", path.display()))?;
                Some(
                    Mistakes::rejected(file.source.clone(), file.diagnostics.clone())
                        .map(|()| file)?,
                )
            }
        };
        let matches = match &file {
            None => given.clone(),
            Some(file) => {
                let at = words.iter().skip(1).position(|word| **word == *name);
                let (before, after) = words.split_at(at.map_or(words.len(), |at| at + 2));
                let said = said(file, &command, &given);
                parsed(grammar, &[before, &said, after].concat())?.1
            }
        };
        Ok(Self { matches, file, given, command })
    }

    /// The configuration file, if there is one.
    pub(crate) fn file_name(&self) -> Option<&str> {
        self.file.as_ref().map(|file| file.source.name.as_str())
    }

    /// The file names services, though there may be none in its directories yet.
    pub(crate) fn names_services(&self) -> bool {
        !names_services(&self.given)
            && self.file.as_ref().is_some_and(|file| file.services().next().is_some())
    }

    /// Every setting, in the order of the flags, and then the limits.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let keys = keys(&self.command).into_iter().map(|key| {
            let raw = self.matches.get_raw(&key.id).into_iter().flatten();
            Setting {
                origin: self.origin(&key.id),
                name: key.name,
                is_limit: false,
                kind: key.kind,
                values: raw.map(|value| value.to_string_lossy().into_owned()).collect(),
            }
        });
        let limits = Limit::all().filter(|limit| limit.setting == LimitSetting::Server);
        keys.chain(limits.map(|limit| self.limit(limit))).collect()
    }

    fn origin(&self, id: &str) -> Origin {
        match (self.given.value_source(id), self.entry(|file| &file.entries, id)) {
            (Some(ValueSource::CommandLine), _) => Origin::Flag,
            (Some(ValueSource::EnvVariable), _) => {
                let argument =
                    self.command.get_arguments().find(|argument| argument.get_id() == id);
                let name = argument.and_then(|argument| argument.get_env()).unwrap_or_default();
                Origin::Environment(name.to_string_lossy().into_owned())
            }
            (_, Some(origin))
                if self.matches.value_source(id) == Some(ValueSource::CommandLine) =>
            {
                origin
            }
            _ => Origin::Default,
        }
    }

    fn entry(&self, among: impl Fn(&ConfigurationFile) -> &Vec<Entry>, id: &str) -> Option<Origin> {
        let file = self.file.as_ref()?;
        let entry = among(file).iter().find(|entry| entry.id == id)?;
        Some(Origin::File(file.source.name.clone(), entry.line))
    }

    fn limit(&self, limit: &Limit) -> Setting {
        let name = limit.name;
        let (origin, value) = match value_of(&self.given, name) {
            Some(value) => (Origin::Flag, value),
            None => match value_of(&self.matches, name) {
                Some(value) => {
                    let origin = self.entry(|file| &file.limits, name);
                    (origin.unwrap_or(Origin::Default), value)
                }
                None => (Origin::Default, units::limit_default(limit)),
            },
        };
        let (values, kind) = (vec![value], ValueKind::Text);
        Setting { name: name.to_owned(), is_limit: true, kind, values, origin }
    }
}

/// The last value that a command line gives a limit.
fn value_of(matches: &ArgMatches, name: &str) -> Option<String> {
    let settings = matches.get_many::<String>(LIMITS)?;
    let value = |setting: &String| Some(setting.strip_prefix(name)?.strip_prefix('=')?.to_owned());
    settings.filter_map(value).next_back()
}

/// What a file says, as words of the command line, but for what was said there.
fn said(file: &ConfigurationFile, command: &Command, given: &ArgMatches) -> Vec<OsString> {
    let is_given = |id: &str| {
        matches!(given.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let mut words = Vec::new();
    for key in keys(command) {
        // Who names services means those, and no others.
        if is_given(&key.id) || key.flag.is_none() && names_services(given) {
            continue;
        }
        let entries = file.entries.iter().filter(|entry| entry.id == key.id);
        words.extend(entries.flat_map(|entry| entry.values.iter().map(|value| key.word(value))));
    }
    for entry in file.limits.iter().filter(|entry| value_of(given, &entry.id).is_none()) {
        words.extend(
            entry
                .values
                .iter()
                .map(|value| [OsStr::new("--limit="), value].into_iter().collect::<OsString>()),
        );
    }
    words
}

/// The subcommand and its arguments.
fn parsed(grammar: &Command, words: &[OsString]) -> Result<(String, ArgMatches), clap::Error> {
    let mut matches = grammar.clone().try_get_matches_from(words)?;
    let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
    matches.remove_subcommand().ok_or_else(missing)
}

/// The file that is meant: the one named; else, if no services are, the one of this directory or of the machine.
fn found(given: &ArgMatches) -> Option<PathBuf> {
    if let Some(named) = given.get_one::<PathBuf>("config") {
        return Some(named.clone());
    }
    if names_services(given) {
        return None;
    }
    [CONFIGURATION, SYSTEM].into_iter().map(PathBuf::from).find(|path| path.is_file())
}

fn names_services(given: &ArgMatches) -> bool {
    ["files", "words", "name", "builtin"].into_iter().any(|id| given.contains_id(id))
}

//! The keys of the file, made of the flags of `serve`.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

/// Arguments of `serve` that are no keys: what they are about is not the server, or is elsewhere in the file.
pub(super) const NO_KEYS: [&str; 9] = [
    // The file itself; how a command tells its own mistakes.
    "config",
    "json",
    // One service, described on the command line: the file names service files.
    "name",
    "namespace",
    "title",
    "stage",
    "pass_environment",
    "words",
    // The table [limits].
    LIMITS,
];

/// `--limit`, as clap calls it.
pub(super) const LIMITS: &str = "limits";

/// The service files, as clap calls them and as the file does.
const FILES: (&str, &str) = ("files", "services");

/// What stands for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// `true` or `false`.
    Boolean,
    /// A string.
    Text,
    /// A list of strings.
    List,
}

/// A key of the file.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// As the file has it: the flag with underscores.
    pub(super) name: String,
    /// As clap has it.
    pub(super) id: String,
    /// Without its dashes; `None`: a word by itself.
    pub(super) flag: Option<String>,
    pub(super) kind: ValueKind,
    /// A path, which begins at the file's directory.
    pub(super) is_path: bool,
}

impl Key {
    fn of(argument: &Arg) -> Option<Self> {
        let id = argument.get_id().as_str();
        if NO_KEYS.contains(&id)
            || matches!(argument.get_action(), ArgAction::Help | ArgAction::HelpLong)
        {
            return None;
        }
        let flag = argument.get_long().map(str::to_owned);
        let name = match &flag {
            Some(flag) => flag.replace('-', "_"),
            None if id == FILES.0 => FILES.1.to_owned(),
            None => id.to_owned(),
        };
        let kind = match argument.get_action() {
            ArgAction::Append => ValueKind::List,
            _ if is_switch(argument) => ValueKind::Boolean,
            _ => ValueKind::Text,
        };
        let is_path = argument.get_value_parser().type_id() == ValueParser::path_buf().type_id();
        Some(Self { name, id: id.to_owned(), flag, kind, is_path })
    }

    /// The word that says this on a command line.
    pub(super) fn word(&self, value: &std::ffi::OsStr) -> std::ffi::OsString {
        match &self.flag {
            Some(flag) => [format!("--{flag}=").as_ref(), value].into_iter().collect(),
            None => value.to_owned(),
        }
    }
}

/// The keys that a command's arguments make, in their order.
pub(super) fn keys(command: &Command) -> Vec<Key> {
    command.get_arguments().filter_map(Key::of).collect()
}

/// A command whose switches may be given a value, so that `--login=false` overrides a file.
pub(crate) fn with_values(command: Command) -> Command {
    command.mut_args(|argument| match argument.get_action() {
        ArgAction::SetTrue if !NO_KEYS.contains(&argument.get_id().as_str()) => argument
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("true|false")
            .value_parser(ValueParser::bool())
            .default_missing_value("true")
            .default_value("false")
            .hide_default_value(true)
            .hide_possible_values(true),
        _ => argument,
    })
}

/// The keys for people: what stands for each, its default, and what it means.
pub(crate) fn reference(command: &Command) -> String {
    let mut text = String::new();
    for key in keys(command) {
        let argument =
            command.get_arguments().find(|argument| argument.get_id() == key.id.as_str());
        let help = argument.and_then(Arg::get_help).map(ToString::to_string).unwrap_or_default();
        let default = argument.and_then(|argument| argument.get_default_values().first());
        let default = default.map(|default| default.to_string_lossy().into_owned());
        let value = match (key.kind, default) {
            (ValueKind::Boolean, default) => default.unwrap_or_default(),
            (ValueKind::Text, Some(default)) => format!("{default:?}"),
            (ValueKind::Text, None) => "\"...\"".to_owned(),
            (ValueKind::List, _) => "[]".to_owned(),
        };
        let help =
            help.replace("; may stand several times", "").replace(", may stand several times", "");
        text.push_str(&format!("{} = {value}\n    {help}\n", key.name));
    }
    text
}

fn is_switch(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == ValueParser::bool().type_id()
}

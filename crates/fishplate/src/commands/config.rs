//! `fishplate config`: what a server would run with, and who said so.

use anyhow::Result;
use serde_json::{Value, json};

use super::hosting::data_directory;
use super::serve::ServeArgs;
use crate::configuration::{Origin, Resolution, Setting, ValueKind};
use crate::exit::Exit;
use crate::output::Output;

/// Show the settings in force, and where each is from
///
/// Takes the flags of `serve`, and looks for the configuration file as `serve` does. What is printed is a
/// configuration file itself, with the defaults as comments. Secrets are in files of their own, of which this shows the paths only.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate config
  fishplate config --config /etc/fishplate/fishplate.toml
  fishplate config --listen 0.0.0.0:8080 --json")]
pub(crate) struct Args {
    #[command(flatten)]
    _serve: ServeArgs,
}

/// Runs the command.
pub(crate) fn run(resolution: &Resolution, output: Output) -> Result<Exit> {
    let mut settings = resolution.settings();
    // What follows from others, and is no constant.
    let mut data = None;
    for setting in &mut settings {
        match (setting.name.as_str(), setting.values.first()) {
            ("data", told) => {
                let path = data_directory(told.map(AsRef::as_ref))?;
                setting.values = vec![path.display().to_string()];
                data = Some(path);
            }
            ("pool", None) => {
                let pool = data.iter().map(|data| data.join("pool").display().to_string());
                setting.values = pool.collect();
            }
            _ => {}
        }
    }
    if output.json {
        let settings: Vec<Value> = settings.iter().map(json).collect();
        output.value(&json!({ "settings": settings }))?;
    } else {
        output.raw(&text(&settings))?;
    }
    Ok(Exit::Success)
}

/// A configuration file that says the same, and behind each line who said it.
fn text(settings: &[Setting]) -> String {
    let lines: Vec<(bool, String, String)> = settings
        .iter()
        .map(|setting| {
            let said = match &value(setting)[..] {
                "" => setting.name.clone(),
                value => format!("{} = {value}", setting.name),
            };
            // A default is for people: some depend on the machine.
            let line = if setting.origin == Origin::Default { format!("# {said}") } else { said };
            (setting.is_limit, line, origin(&setting.origin))
        })
        .collect();
    let width = lines.iter().map(|(_, line, _)| line.chars().count()).filter(|width| *width < 60);
    let width = width.max().unwrap_or_default();
    let mut text = String::new();
    let mut in_limits = false;
    for (is_limit, line, origin) in lines {
        if is_limit && !in_limits {
            text.push_str("\n[limits]\n");
            in_limits = true;
        }
        text.push_str(&format!("{line:<width$}  # {origin}\n"));
    }
    text
}

/// The value as TOML has it; empty if there is none.
fn value(setting: &Setting) -> String {
    let quoted = |text: &String| toml::Value::String(text.clone()).to_string();
    match (setting.kind, &setting.values[..]) {
        (ValueKind::List, values) => {
            format!("[{}]", values.iter().map(quoted).collect::<Vec<_>>().join(", "))
        }
        (_, []) => String::new(),
        (ValueKind::Boolean, [value, ..]) => value.clone(),
        (ValueKind::Text, [value, ..]) => quoted(value),
    }
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Flag => "command line".to_owned(),
        Origin::Environment(name) => format!("environment, {name}"),
        Origin::File(name, line) => format!("{name}:{line}"),
        Origin::Default => "default".to_owned(),
    }
}

fn json(setting: &Setting) -> Value {
    let value = match (setting.kind, &setting.values[..]) {
        (ValueKind::List, values) => json!(values),
        (_, []) => Value::Null,
        (ValueKind::Boolean, [value, ..]) => json!(value == "true"),
        (ValueKind::Text, [value, ..]) => json!(value),
    };
    let (from, file, line) = match &setting.origin {
        Origin::Flag => ("command line", None, None),
        Origin::Environment(name) => ("environment", Some(name), None),
        Origin::File(name, line) => ("file", Some(name), Some(line)),
        Origin::Default => ("default", None, None),
    };
    let name =
        if setting.is_limit { format!("limits.{}", setting.name) } else { setting.name.clone() };
    let mut object = json!({ "name": name, "value": value, "from": from });
    match &setting.origin {
        Origin::Environment(_) => object["variable"] = json!(file),
        Origin::File(..) => {
            object["file"] = json!(file);
            object["line"] = json!(line);
        }
        _ => {}
    }
    object
}

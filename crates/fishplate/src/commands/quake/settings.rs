//! `--set KEY=VALUE`: an experiment with some of its values changed.

use std::str::FromStr;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use crate::output::failure::UsageError;

/// A value of an experiment.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Its place, as `operation.0.weight`.
    key: String,
    value: Value,
}

impl FromStr for Setting {
    type Err = &'static str;

    /// A value is TOML; what is none is a text.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = text
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or("write KEY=VALUE, such as workload.duration=20s")?;
        let table = format!("value = {value}").parse::<Table>().ok();
        let parsed =
            table.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
        let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
        Ok(Self { key: key.trim().to_owned(), value })
    }
}

/// The text of an experiment with these values; to the letter, if there are none.
///
/// # Errors
/// The text is no TOML, or there is no such place in it.
pub(super) fn with_settings(text: &str, settings: &[Setting]) -> Result<String> {
    if settings.is_empty() {
        return Ok(text.to_owned());
    }
    let mut root = Value::Table(text.parse::<Table>().context("the experiment is no TOML")?);
    for Setting { key, value } in settings {
        *place(&mut root, key)? = value.clone();
    }
    Ok(toml::to_string(&root)?)
}

fn place<'v>(root: &'v mut Value, key: &str) -> Result<&'v mut Value, UsageError> {
    let mut value = root;
    for part in key.split('.') {
        let none = || UsageError(format!("--set {key}: the experiment has no place {part} there"));
        value = match value {
            // A key that is none is told with all others when the experiment is read.
            Value::Table(table) => table.entry(part).or_insert_with(|| Value::Table(Table::new())),
            Value::Array(items) => {
                part.parse::<usize>().ok().and_then(|at| items.get_mut(at)).ok_or_else(none)?
            }
            _ => return Err(none()),
        };
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "seed = 1\n[workload]\nclients = 8\n[[operation]]\nname = 'add'\n";

    fn set(settings: &[&str]) -> Result<Table> {
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
        Ok(with_settings(TEXT, &settings)?.parse::<Table>().unwrap())
    }

    #[test]
    fn values_are_changed_and_added_and_the_rest_stays() {
        let changed = set(&[
            "workload.duration=20s",
            "workload.clients=2",
            "operation.0.weight=0.5",
            "matrix.heap=[\"64m\"]",
            "watchdog.rejuvenate.every=1h",
        ]);
        let expected = "seed = 1\n[workload]\nclients = 2\nduration = '20s'\n[[operation]]\nname = 'add'\n\
                        weight = 0.5\n[matrix]\nheap = ['64m']\n[watchdog.rejuvenate]\nevery = '1h'\n";
        assert_eq!(changed.unwrap(), expected.parse::<Table>().unwrap());
        assert_eq!(with_settings(TEXT, &[]).unwrap(), TEXT);
    }

    #[test]
    fn a_place_that_is_none_is_named() {
        for setting in ["operation.1.weight=2", "operation.first=2", "seed.of=2"] {
            let error = set(&[setting]).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--set {}", setting.split('=').next().unwrap())),
                "{error}"
            );
        }
        assert!("=1".parse::<Setting>().is_err() && "clients".parse::<Setting>().is_err());
        // A value that would be more than one.
        let odd: Setting = "name=1\nseed = 2".parse().unwrap();
        assert_eq!(odd.value.as_str(), Some("1\nseed = 2"));
    }
}

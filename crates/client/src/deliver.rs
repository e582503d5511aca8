//! Outputs to where they were asked for: files, or what is printed.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{
    Argument, DataRef, DataType, ElementType, OutputChoice, OutputForm, Parameter, Payload, Value,
};
use fishplate_formats::array_file::{self, Format};

use crate::arguments::RequestedOutput;
use crate::array::save_array;
use crate::data::{DownloadTarget, Sources};
use crate::directory::{self, is_archive_name, make_parent};
use crate::error::Error;
use crate::input::file_input;
use crate::meter::Meter;
use crate::save::{is_special, save, spool_dir_for};
use crate::settings::Settings;

/// What became of one value of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveredValue {
    /// Name of the output.
    pub name: String,
    /// Its type, if the description knows it.
    pub data_type: Option<DataType>,
    /// It is one of any number of values.
    pub repeated: bool,
    /// What tells repeated values apart.
    pub label: Option<String>,
    /// What became of it.
    pub fate: ValueFate,
}

/// What became of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueFate {
    /// A text that nobody wanted in a file.
    Shown(String),
    /// An array that nobody wanted in a file.
    Numbers {
        /// What it consists of.
        element: ElementType,
        /// Lengths of its axes.
        shape: Vec<u64>,
        /// Its elements' bytes, if they are few.
        bytes: Option<Vec<u8>>,
        /// How many bytes they are.
        size: u64,
    },
    /// It is in this file.
    Saved {
        /// Path of the file.
        path: PathBuf,
        /// Its length in bytes.
        size: u64,
    },
    /// It stays elsewhere.
    Referred(DataRef),
    /// Bytes that nobody asked for.
    NotAsked {
        /// Their number, if it is known.
        size: Option<u64>,
    },
}

/// A wanted output that cannot be put where it shall go.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The target's directory does not exist.
    #[error("cannot write {}: there is no directory {}", path.display(), dir.display())]
    NoDirectory {
        /// The target.
        path: PathBuf,
        /// Its directory.
        dir: PathBuf,
    },
    /// A directory cannot be unpacked there.
    #[error(
        "cannot unpack into {}: it is there already and not empty; write another name, or one that \
         ends with .tar for the archive",
        path.display()
    )]
    InTheWay {
        /// The target.
        path: PathBuf,
    },
    /// An output that has no bytes of its own.
    #[error("the output {0} is a record, not a file")]
    Record(String),
    /// An output that is elsewhere and was not fetched.
    #[error("the output {0} is a reference to data elsewhere, which is not followed")]
    Elsewhere(String),
    /// A label that leads out of the directory.
    #[error(
        "the output {name} has a value named {label:?}, which is no path inside a directory; it is not written"
    )]
    UnsafeLabel {
        /// Name of the output.
        name: String,
        /// The label.
        label: String,
    },
    /// Two values with one label.
    #[error("the output {name} has two values named {label:?}; the second is not written")]
    SameLabel {
        /// Name of the output.
        name: String,
        /// The label.
        label: String,
    },
}

/// How to get what came as a reference and shall go to a file.
#[derive(Debug)]
pub struct FetchSettings {
    /// How to reach where it is.
    pub settings: Settings,
    /// How far the file that comes now is.
    pub meter: Arc<Meter>,
}

impl FetchSettings {
    async fn write_to(&self, reference: &DataRef, path: &Path) -> Result<u64, Error> {
        let sources = Sources::new(&self.settings)?;
        let to = DownloadTarget::File(path.to_owned());
        sources.get(reference, &to, &self.meter).await.map(|got| got.len)
    }

    /// Gets an archive and unpacks it.
    async fn directory(
        &self,
        reference: &DataRef,
        name: &str,
        to: PathBuf,
    ) -> Result<ValueFate, Error> {
        let beside = directory::temporary()?;
        let archive = beside.path().join("archive.tar");
        let size = self.write_to(reference, &archive).await?;
        let payload = file_input(&archive).await?;
        directory::unpacked(payload, name.to_owned(), to.clone()).await?;
        Ok(ValueFate::Saved { path: to, size })
    }
}

/// Before a program runs: the directories of all targets exist.
pub fn check_targets(wanted: &[RequestedOutput]) -> Result<(), DeliveryError> {
    for wanted in wanted.iter().filter(|wanted| wanted.may_be_file()) {
        let path = wanted.target();
        if is_directory_name(&path) {
            continue; // Made when it is needed.
        }
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        if !dir.is_dir() {
            let dir = dir.to_owned();
            return Err(DeliveryError::NoDirectory { path, dir });
        }
    }
    Ok(())
}

/// Likewise of directories: nothing is in their way.
pub fn check_directories(
    wanted: &[RequestedOutput],
    outputs: &[Parameter],
) -> Result<(), DeliveryError> {
    let is_directory = |wanted: &&RequestedOutput| {
        let of = |output: &&Parameter| output.name == wanted.name;
        let found = outputs.iter().find(of);
        found.is_some_and(|output| output.data_type == DataType::Dir && !output.repeated)
    };
    let wanted = wanted.iter().filter(|wanted| wanted.may_be_file()).filter(is_directory);
    wanted.into_iter().try_for_each(|wanted| directory::check_target(&wanted.target()))
}

/// Where large outputs are best put while they come: where the first wanted file output will be.
pub fn spool_dir(wanted: &[RequestedOutput], outputs: &[Parameter]) -> Option<PathBuf> {
    let is_file = |wanted: &&RequestedOutput| {
        let in_file = |of: &DataType| of.is_binary() || of.as_array().is_some();
        wanted.may_be_file()
            && outputs.iter().any(|output| output.name == wanted.name && in_file(&output.data_type))
    };
    wanted.iter().filter(is_file).find_map(|wanted| {
        let to = wanted.target();
        let to = if to.is_dir() { to.join("output") } else { to };
        // A directory yet to be made: what comes is put beside it.
        let to: PathBuf = to.components().collect();
        spool_dir_for(&to)
    })
}

/// Outputs that are best had while they arrive: where they go they can't come whole or not at all.
pub fn streams(wanted: &[RequestedOutput], outputs: &[Parameter]) -> Vec<String> {
    let is_file = |name: &str| outputs.iter().any(|output| output.name == name && output.is_file());
    let streamed = wanted.iter().filter(|wanted| wanted.may_be_file() && is_file(&wanted.name));
    let streamed = streamed.filter(|wanted| is_special(&wanted.target()));
    streamed.map(|wanted| wanted.name.clone()).collect()
}

/// Puts every wanted output into its file, what came as a reference by `fetch`, and tells what became
/// of all. Wanted outputs that did not come (optional ones) are in the second list.
pub async fn deliver(
    outputs: Vec<Argument>,
    parameters: &[Parameter],
    wanted: &[RequestedOutput],
    fetch: &FetchSettings,
) -> Result<(Vec<DeliveredValue>, Vec<String>), Error> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for output in &outputs {
        *counts.entry(output.name.clone()).or_default() += 1;
    }
    let missing = wanted
        .iter()
        .filter(|wanted| wanted.name != OutputChoice::ALL && !counts.contains_key(&wanted.name));
    let missing = missing.map(|wanted| wanted.name.clone()).collect();
    let mut taken: Vec<PathBuf> = Vec::new();
    let mut delivered = Vec::with_capacity(outputs.len());
    for output in outputs {
        let parameter = parameters.iter().find(|parameter| parameter.name == output.name);
        let repeated = parameter.is_some_and(|parameter| parameter.repeated);
        let asked = wanted.iter().find(|wanted| wanted.name == output.name);
        let fate = match asked {
            None => unasked(&output.value),
            Some(wanted) if stays(wanted, &output.value) => unasked(&output.value),
            Some(wanted) => {
                let many = repeated && counts[&output.name] > 1;
                let is_directory = is_directory(parameter) && !repeated;
                let path = match is_directory {
                    true => wanted.target(),
                    false => target(wanted, &output, repeated, many)?,
                };
                if taken.contains(&path) {
                    let label = output.label.unwrap_or_default();
                    return Err(DeliveryError::SameLabel { name: output.name, label }.into());
                }
                taken.push(path.clone());
                put(&output, parameter, path, fetch).await?
            }
        };
        delivered.push(DeliveredValue {
            name: output.name,
            data_type: parameter.map(|parameter| parameter.data_type.clone()),
            repeated,
            label: output.label,
            fate,
        });
    }
    Ok((delivered, missing))
}

/// Bytes of an array that is shown or told as JSON: 1000 numbers.
const SHOWN_ARRAY: u64 = 8000;

/// What was asked for by reference is not written to a file, even if the server sends it; nor is a
/// reference that answers `auto:`.
fn stays(wanted: &RequestedOutput, value: &Value) -> bool {
    let is_reference = matches!(value, Value::Data(Payload::Reference(_)));
    match wanted.form {
        OutputForm::Value => false,
        OutputForm::Reference => true,
        OutputForm::Auto => is_reference,
    }
}

fn unasked(value: &Value) -> ValueFate {
    match value {
        Value::Text(text) => ValueFate::Shown(text.clone()),
        Value::Data(Payload::Reference(reference)) => ValueFate::Referred(reference.clone()),
        Value::Data(payload) => ValueFate::NotAsked { size: payload.len() },
        Value::Array(array) => {
            let size = array.data.len().unwrap_or(0);
            let bytes = (size <= SHOWN_ARRAY).then(|| array_file::to_bytes(array, &Format::PLAIN));
            let (element, shape) = (array.element, array.shape.clone());
            ValueFate::Numbers { element, shape, bytes: bytes.and_then(Result::ok), size }
        }
        Value::Record(_) => ValueFate::NotAsked { size: None },
    }
}

/// The file for a value: as told, or in a directory under its label.
fn target(
    wanted: &RequestedOutput,
    output: &Argument,
    repeated: bool,
    many: bool,
) -> Result<PathBuf, DeliveryError> {
    let to = wanted.target();
    let into_directory = many || is_directory_name(&to) || to.is_dir();
    if !into_directory {
        return Ok(to);
    }
    match &output.label {
        Some(label) if repeated => {
            let inside = safe(label).ok_or_else(|| DeliveryError::UnsafeLabel {
                name: output.name.clone(),
                label: label.clone(),
            })?;
            Ok(to.join(inside))
        }
        _ => Ok(to.join(&output.name)),
    }
}

/// The label as a path that stays in its directory.
fn safe(label: &str) -> Option<PathBuf> {
    let path = Path::new(label);
    let stays = path.components().all(|component| matches!(component, Component::Normal(_)));
    let named = !label.is_empty() && !label.ends_with('/') && !label.contains('\0');
    (stays && named).then(|| path.to_owned())
}

fn is_directory_name(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

async fn put(
    output: &Argument,
    parameter: Option<&Parameter>,
    path: PathBuf,
    fetch: &FetchSettings,
) -> Result<ValueFate, Error> {
    let payload = match &output.value {
        Value::Data(Payload::Reference(reference)) => {
            make_parent(&path)?;
            if is_directory(parameter) && !is_archive_name(&path) {
                return fetch.directory(reference, &output.name, path).await;
            }
            let size = fetch.write_to(reference, &path).await?;
            return Ok(ValueFate::Saved { path, size });
        }
        Value::Data(payload) => payload.clone(),
        Value::Array(array) => {
            make_parent(&path)?;
            let size = save_array(array, &path).await?;
            return Ok(ValueFate::Saved { path, size });
        }
        Value::Text(text) => Payload::Inline(Bytes::from(as_file(text, parameter))),
        Value::Record(_) => return Err(DeliveryError::Record(output.name.clone()).into()),
    };
    if is_directory(parameter) && !is_archive_name(&path) {
        make_parent(&path)?;
        let size = payload.len().unwrap_or(0);
        directory::unpacked(payload, output.name.clone(), path.clone()).await?;
        return Ok(ValueFate::Saved { path, size });
    }
    make_parent(&path)?;
    let size = save(&payload, &path).await?;
    Ok(ValueFate::Saved { path, size })
}

fn is_directory(parameter: Option<&Parameter>) -> bool {
    parameter.is_some_and(|parameter| parameter.data_type == DataType::Dir)
}

/// A number ends with a line feed, as `cat` shows it best; a string is written to the letter.
fn as_file(text: &str, parameter: Option<&Parameter>) -> String {
    match parameter.map(|parameter| &parameter.data_type) {
        None | Some(DataType::String) => text.to_owned(),
        Some(_) => format!("{text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: &str, to: Option<String>) -> Vec<RequestedOutput> {
        let to = to.map(PathBuf::from);
        vec![RequestedOutput { name: name.to_owned(), to, ..RequestedOutput::default() }]
    }

    fn fetch() -> FetchSettings {
        FetchSettings { settings: Settings::default(), meter: Arc::default() }
    }

    fn labelled(label: &str, bytes: &'static [u8]) -> Argument {
        Argument {
            name: "m".to_owned(),
            label: Some(label.to_owned()),
            value: Value::Data(Payload::Inline(Bytes::from_static(bytes))),
        }
    }

    fn path(dir: &tempfile::TempDir, name: &str) -> Option<String> {
        Some(format!("{}/{name}", dir.path().display()))
    }

    #[tokio::test]
    async fn a_number_gets_a_line_feed_and_a_string_is_written_to_the_letter() {
        let dir = tempfile::tempdir().unwrap();
        for (data_type, expected) in [(DataType::Int, "3\n"), (DataType::String, "3")] {
            let parameters = [Parameter::new("r", data_type)];
            let wanted = wanted("r", path(&dir, "file"));
            deliver(vec![Argument::text("r", "3")], &parameters, &wanted, &fetch()).await.unwrap();
            assert_eq!(std::fs::read_to_string(dir.path().join("file")).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn repeated_values_go_into_a_directory_under_their_labels() {
        let dir = tempfile::tempdir().unwrap();
        let parameters = [Parameter::new("m", DataType::Raw).repeated()];
        for to in ["new/", "several"] {
            let values = vec![labelled("a.msh", b"a"), labelled("sub/b.msh", b"b")];
            let wanted = wanted("m", path(&dir, to));
            deliver(values, &parameters, &wanted, &fetch()).await.unwrap();
            let read = |name: &str| std::fs::read(dir.path().join(to).join(name)).unwrap();
            assert_eq!((read("a.msh"), read("sub/b.msh")), (b"a".to_vec(), b"b".to_vec()));
        }
        let one = wanted("m", path(&dir, "one"));
        deliver(vec![labelled("a.msh", b"a")], &parameters, &one, &fetch()).await.unwrap();
        assert_eq!(std::fs::read(dir.path().join("one")).unwrap(), b"a");
    }

    #[tokio::test]
    async fn a_label_that_leads_out_or_comes_twice_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let parameters = [Parameter::new("m", DataType::Raw).repeated()];
        for label in ["../x", "/etc/x", "a/../../x", "", ".", "x/", "a\0b"] {
            let wanted = wanted("m", path(&dir, "d/"));
            let refused =
                deliver(vec![labelled(label, b"x")], &parameters, &wanted, &fetch()).await;
            let error = refused.unwrap_err();
            assert!(
                matches!(error, Error::Delivery(DeliveryError::UnsafeLabel { .. })),
                "{label:?}: {error}"
            );
        }
        let wanted = wanted("m", path(&dir, "d/"));
        let twice = vec![labelled("a", b"1"), labelled("a", b"2")];
        let error = deliver(twice, &parameters, &wanted, &fetch()).await.unwrap_err();
        assert!(matches!(error, Error::Delivery(DeliveryError::SameLabel { .. })));
    }

    #[tokio::test]
    async fn what_nobody_asked_for_is_shown_or_only_told_and_what_is_missing_is_named() {
        let parameters = [
            Parameter::new("r", DataType::Int),
            Parameter::new("m", DataType::Raw),
            Parameter::new("log", DataType::Raw).optional(),
        ];
        let outputs = vec![
            Argument::text("r", "3"),
            Argument::new("m", Value::Data(Payload::Inline(Bytes::from_static(b"12")))),
        ];
        let (delivered, missing) =
            deliver(outputs, &parameters, &wanted("log", None), &fetch()).await.unwrap();
        let fates: Vec<_> = delivered.into_iter().map(|delivered| delivered.fate).collect();
        assert_eq!(
            fates,
            [ValueFate::Shown("3".to_owned()), ValueFate::NotAsked { size: Some(2) }]
        );
        assert_eq!(missing, ["log"]);
    }

    #[test]
    fn a_target_in_a_directory_that_is_not_there_is_refused_before_the_program_runs() {
        assert!(check_targets(&wanted("r", Some("/nonexistent/d/r".to_owned()))).is_err());
        assert!(check_targets(&wanted("r", Some("new/".to_owned()))).is_ok());
        assert!(check_targets(&wanted("r", None)).is_ok());
    }
}

//! The process that a job of a function is: reads the arguments in its workspace, runs the
//! function, and leaves the outputs there, or the fault.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fishplate_contract::{
    Argument, Array, ArrayType, ElementType, Fault, FaultCode, FileHandle, Payload, Value,
};
use fishplate_formats::array_file::{self, Format};

use super::context::{Context, Scratch, storage_fault};
use super::plan::{ARGUMENTS, FAULT, OUTPUTS, PROGRESS, StoredArgument, StoredValue};
use super::{FunctionEntry, Functions, PayloadReader};
use crate::executor::ProgramFault;

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionExit {
    /// The outputs are there.
    Well,
    /// The function answered with a fault, which is there.
    WithFault,
}

/// Runs a function of one of these services in the workspace of its job.
///
/// # Errors
/// If this is no workspace of such a job, or it cannot be read or written.
pub fn run(
    services: &[Functions],
    service: &str,
    operation: &str,
    workspace: &Path,
) -> io::Result<FunctionExit> {
    let outcome = match services.iter().find(|functions| functions.service().name == service) {
        Some(functions) => functions.entry(operation).and_then(|entry| run_entry(entry, workspace)),
        None => {
            let what = format!("this program has no service {service} any more");
            Err(Fault::new(FaultCode::ProgramMissing, what))
        }
    };
    let Err(fault) = outcome else { return Ok(FunctionExit::Well) };
    let told = serde_json::to_vec(&ProgramFault {
        code: fault.code.name().to_owned(),
        message: fault.message.clone(),
        parameter: fault.parameter.clone(),
    })?;
    fs::write(workspace.join(FAULT), told)?;
    // For people who read the log.
    writeln!(io::stderr(), "{fault}")?;
    Ok(FunctionExit::WithFault)
}

fn run_entry(entry: &FunctionEntry, workspace: &Path) -> Result<(), Fault> {
    let failed = |error: io::Error| storage_fault(&error);
    let arguments = arguments(workspace).map_err(failed)?;
    let outputs = workspace.join(OUTPUTS);
    fs::create_dir_all(&outputs).map_err(failed)?;
    let progress = File::create(workspace.join(PROGRESS)).map_err(failed)?;
    // The executor watches the disk.
    let scratch = Scratch::new(workspace, 0);
    let context = Context::new(&scratch).tell_progress(progress);
    for output in entry.run(arguments, &context)? {
        leave(&output, &outputs.join(&output.name)).map_err(failed)?;
    }
    Ok(())
}

fn arguments(workspace: &Path) -> io::Result<Vec<Argument>> {
    let told: Vec<StoredArgument> = serde_json::from_slice(&fs::read(workspace.join(ARGUMENTS))?)?;
    told.into_iter().map(|told| argument(told, workspace)).collect()
}

fn argument(told: StoredArgument, workspace: &Path) -> io::Result<Argument> {
    let value = match told.value {
        StoredValue::Text(text) => Value::Text(text),
        StoredValue::TextFile(path) => Value::Text(fs::read_to_string(workspace.join(path))?),
        StoredValue::File(path) => Value::Data(input(workspace.join(path))?),
        StoredValue::Array { element, shape, file } => Value::Array(Array {
            element: ElementType::from_name(&element).ok_or(io::ErrorKind::InvalidData)?,
            shape,
            data: input(workspace.join(file))?,
        }),
        StoredValue::Npy { data_type, file } => {
            Value::Array(npy(&data_type, &workspace.join(file))?)
        }
    };
    Ok(Argument::new(told.name, value))
}

/// An array that tells its shape itself; it was checked when it arrived.
fn npy(data_type: &str, path: &Path) -> io::Result<Array> {
    let array: ArrayType = data_type.parse().map_err(|_| io::ErrorKind::InvalidData)?;
    let axes = vec![None; array.rank()];
    let elements = path.with_added_extension("elements");
    let mut create =
        || File::options().read(true).write(true).create(true).truncate(true).open(&elements);
    let found =
        array_file::read(&File::open(path)?, &Format::Npy, array.element, &axes, &mut create)
            .map_err(|error| io::Error::other(error.about("the array")))?;
    let data = match found.bytes {
        array_file::LocatedBytes::Memory(bytes) => Payload::Inline(bytes.into()),
        array_file::LocatedBytes::Same | array_file::LocatedBytes::New(_) => input(elements)?,
    };
    Ok(Array { element: array.element, shape: found.shape, data })
}

fn input(path: PathBuf) -> io::Result<Payload> {
    let len = fs::metadata(&path)?.len();
    Ok(Payload::Spooled(Arc::new(Input { path, len })))
}

/// Leaves an output where the plan looks for it.
fn leave(output: &Argument, path: &Path) -> io::Result<()> {
    match &output.value {
        Value::Text(text) => fs::write(path, text),
        Value::Data(payload) => leave_payload(payload, path),
        Value::Array(array) => array_file::write(array, &Format::Npy, &File::create(path)?),
        Value::Record(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn leave_payload(payload: &Payload, path: &Path) -> io::Result<()> {
    match payload {
        // What was given back, or written beside it: the same file under another name.
        Payload::Spooled(held) => match fs::hard_link(held.path(), path) {
            Ok(()) => Ok(()),
            Err(_) => fs::copy(held.path(), path).map(drop),
        },
        Payload::Reference(_) => Err(io::ErrorKind::Unsupported.into()),
        read => {
            let mut file = File::create(path)?;
            let mut reader = PayloadReader::new(read).map_err(io::Error::other)?;
            while let Some(chunk) = reader.chunk().map_err(io::Error::other)? {
                file.write_all(&chunk)?;
            }
            Ok(())
        }
    }
}

/// An input of the job, which stays where it is.
#[derive(Debug)]
struct Input {
    path: PathBuf,
    len: u64,
}

impl FileHandle for Input {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn keep(&self) {}
}

#[cfg(test)]
mod tests;

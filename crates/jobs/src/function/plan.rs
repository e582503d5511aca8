//! A call of a function as a job: a process of the same binary that runs the function in the job's
//! workspace. So a job of a function survives the server, can be killed and limited, and has a log,
//! like that of any program.
//!
//! The workspace: `arguments.json` tells the arguments, `in/` holds those that are files, `out/`
//! takes the outputs, `progress` and `fault.json` what the function tells.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fishplate_contract::{
    Argument, Array, ArrayType, DataRef, Fault, FaultCode, Operation, Payload, Value,
};
use fishplate_formats::array_file::Format;
use fishplate_formats::dimension::Dimensions;
use serde::{Deserialize, Serialize};

use super::Functions;
use fishplate_programs::plan::{
    FetchedForm, InputContent, InputFile, OutputRule, OutputSource, Plan, ProgressRule,
    ReferencedInput, SuccessRules,
};
use fishplate_programs::program::{InputPlacement, PlacedInput};

/// How to start a process that runs a function of this service: a program that calls
/// [`super::worker::run`] when it is given `arguments`, the service's name and the operation's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProgram {
    /// Absolute path of the program: as a rule, this one.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<String>,
    /// The environment of its processes, in a file
    /// ([`fishplate_programs::program::environment::keep`]).
    pub environment: PathBuf,
}

pub(super) const ARGUMENTS: &str = "arguments.json";
pub(super) const OUTPUTS: &str = "out";
pub(super) const PROGRESS: &str = "progress";
pub(super) const FAULT: &str = "fault.json";

/// An argument in `arguments.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredArgument {
    pub(super) name: String,
    pub(super) value: StoredValue,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StoredValue {
    Text(String),
    /// A long text: a file of the workspace.
    TextFile(String),
    /// A file of the workspace.
    File(String),
    Array {
        element: String,
        shape: Vec<u64>,
        file: String,
    },
    /// An array in a `.npy` file of the workspace, which tells its shape.
    Npy {
        data_type: String,
        file: String,
    },
}

/// How to run this call as a job, and which inputs to put into its workspace. The arguments were
/// accepted.
///
/// # Errors
/// `UnknownOperation`; `NotSupported` for a value that no function takes.
pub fn plan(
    functions: &Functions,
    operation: &str,
    arguments: Vec<Argument>,
    worker: &WorkerProgram,
) -> Result<(Plan, Vec<InputPlacement>), Fault> {
    let entry = functions.entry(operation)?;
    let mut inputs = ArgumentFiles::default();
    let told = arguments.into_iter().map(|it| inputs.told(it, entry.operation()));
    let told: Vec<StoredArgument> = told.collect::<Result<_, _>>()?;
    let told = serde_json::to_string(&told)
        .map_err(|error| Fault::new(FaultCode::Internal, error.to_string()))?;
    if told.len() > MOST_IN_PLAN {
        inputs.put(ARGUMENTS, Payload::Inline(told.into()));
    } else {
        let content = InputContent::Text(told);
        inputs.files.push(InputFile { path: ARGUMENTS.to_owned(), content });
    }
    let outputs = entry.operation().signature.outputs.iter();
    let outputs = outputs.map(|output| OutputRule {
        name: output.name.clone(),
        data_type: output.data_type.name().into_owned(),
        source: OutputSource::Path(format!("{OUTPUTS}/{}", output.name)),
        required: !output.optional,
        non_empty: false,
        // It tells the shape.
        format: output.data_type.as_array().map(|_| Format::Npy),
        media_type: output.media_type.clone(),
    });
    let names = [functions.service().name.clone(), operation.to_owned()];
    let plan = Plan {
        program: worker.program.clone(),
        arguments: worker.arguments.iter().cloned().chain(names).collect(),
        base_environment: Some(worker.environment.clone()),
        environment: BTreeMap::new(),
        stdin: None,
        stdout: None,
        stderr: None,
        inputs: inputs.files,
        staged: Vec::new(),
        outputs: outputs.collect(),
        success: SuccessRules::default(),
        dimensions: Dimensions::default(),
        fault: Some(FAULT.to_owned()),
        progress: Some(ProgressRule {
            pattern: "([0-9.]+)%".to_owned(),
            stream: PROGRESS.to_owned(),
        }),
        answer: fishplate_programs::output_choices::OutputChoices::default(),
        reuse: None,
        limits: entry.job_limits(),
    };
    Ok((plan, inputs.placements))
}

/// Bytes of all files that are persisted in the plan; what is more is put into its place when the job
/// is accepted.
const MOST_IN_PLAN: usize = 64 << 10;

/// Bytes of a text that stands among the arguments; a longer one has a file of its own.
const SHORT_TEXT: usize = 16 << 10;

/// The files of the arguments.
#[derive(Default)]
struct ArgumentFiles {
    files: Vec<InputFile>,
    placements: Vec<InputPlacement>,
    /// Bytes of files that are in `files`.
    in_plan: usize,
}

impl ArgumentFiles {
    fn told(&mut self, argument: Argument, operation: &Operation) -> Result<StoredArgument, Fault> {
        let Argument { name, value, .. } = argument;
        let parameter = operation.signature.input(&name);
        let array = parameter.and_then(|parameter| parameter.data_type.as_array());
        let value = match value {
            Value::Text(text) if text.len() <= SHORT_TEXT => StoredValue::Text(text),
            Value::Text(text) => {
                StoredValue::TextFile(self.file(&name, Payload::Inline(text.into()))?)
            }
            Value::Data(Payload::Reference(reference)) => match array {
                Some(array) => self.fetch_array(&name, &reference, array, None),
                None => StoredValue::File(self.fetch(&name, &reference, FetchedForm::File)),
            },
            Value::Array(Array { data: Payload::Reference(reference), shape, .. }) => {
                let array = array.ok_or_else(|| unfit(&name))?;
                self.fetch_array(&name, &reference, array, Some(shape))
            }
            Value::Data(payload) => StoredValue::File(self.file(&name, payload)?),
            Value::Array(Array { element, shape, data }) => StoredValue::Array {
                element: element.name().to_owned(),
                shape,
                file: self.file(&name, data)?,
            },
            Value::Record(_) => return Err(unfit(&name)),
        };
        Ok(StoredArgument { name, value })
    }

    fn fetch_array(
        &mut self,
        name: &str,
        reference: &DataRef,
        array: &ArrayType,
        shape: Option<Vec<u64>>,
    ) -> StoredValue {
        let data_type = array.to_string();
        let arrival =
            FetchedForm::Array { data_type: data_type.clone(), format: Format::Npy, shape };
        StoredValue::Npy { data_type, file: self.fetch(name, reference, arrival) }
    }

    /// A function only reads what it is given.
    fn fetch(&mut self, name: &str, reference: &DataRef, arrival: FetchedForm) -> String {
        let path = format!("in/{name}");
        let content = InputContent::Fetch(ReferencedInput::new(name, reference, false, arrival));
        self.files.push(InputFile { path: path.clone(), content });
        path
    }

    fn file(&mut self, name: &str, payload: Payload) -> Result<String, Fault> {
        let path = format!("in/{name}");
        match payload {
            Payload::Reference(_) | Payload::Stream(_) => return Err(unfit(name)),
            Payload::Inline(bytes) if bytes.len() <= MOST_IN_PLAN - self.in_plan => {
                self.in_plan += bytes.len();
                let content = InputContent::Bytes(bytes.to_vec());
                self.files.push(InputFile { path: path.clone(), content });
            }
            large => self.put(&path, large),
        }
        Ok(path)
    }

    fn put(&mut self, path: &str, payload: Payload) {
        let (path, content) = (path.to_owned(), PlacedInput::Bytes(payload));
        let in_place = InputFile { path: path.clone(), content: InputContent::InPlace };
        self.files.push(in_place);
        self.placements.push(InputPlacement { path, content });
    }
}

fn unfit(name: &str) -> Fault {
    let what = format!("parameter {name} is of a kind that a job of a function cannot take");
    Fault::new(FaultCode::NotSupported, what).parameter(name)
}

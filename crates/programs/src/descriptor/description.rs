//! What a service file says, once nothing is wrong with it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fishplate_contract::{ArrayType, Dimension, Parameter, Service};
use fishplate_formats::array_file::Format;

use crate::plan::{JobLimits, OutputSource, ProgressRule, StagedFile, SuccessRules};
use crate::template::Template;

/// A program as a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// What callers see.
    pub service: Service,
    /// Where relative paths of the owner begin: the service file's directory, or the one where
    /// `serve` was started. Absolute.
    pub directory: PathBuf,
    /// How each operation of the service runs, in the same order.
    pub invocations: Vec<Invocation>,
    /// Copied into each workspace.
    pub staged: Vec<StagedFile>,
    /// Variables set on top of the environment.
    pub environment: BTreeMap<String, String>,
    /// Variables of the server's environment that its programs get too; a `*` at the end stands for
    /// anything.
    pub pass_environment: Vec<String>,
    /// Environment modules to load.
    pub modules: Vec<String>,
    /// The container to run in.
    pub container: Option<Container>,
    /// How many jobs run at once; `None`: as many as the server allows.
    pub max_running: Option<u32>,
    /// How many ranks its program may be at once, of all domains together; `None`: it is no rank.
    pub ranks: Option<u32>,
    /// What a job may use.
    pub limits: JobLimits,
}

/// How one operation becomes a command line, and its end an outcome. The parameters are a
/// superset of the binding fields of the Common Workflow Language's CommandLineTool: prefix,
/// position (by the template), flag, glob.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// Name of the operation.
    pub operation: String,
    /// The command line.
    pub template: Template,
    /// Inputs: those of the command line in its order, then files that it does not mention.
    pub inputs: Vec<Input>,
    /// Outputs, likewise.
    pub outputs: Vec<Output>,
    /// Which inputs go together, and which exclude each other.
    pub groups: Vec<Group>,
    /// What counts as success.
    pub success: SuccessRules,
    /// How to read the program's progress.
    pub progress: Option<ProgressRule>,
}

/// An input and how it gets to the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// As callers see it.
    pub parameter: Parameter,
    /// Its file in the workspace; `None` if the value itself stands on the command line.
    pub filename: Option<String>,
    /// Words put before the slot's word, and left out together with it.
    pub prefix: Vec<String>,
    /// The words that stand for true; false is no word at all. Empty: the value itself stands there.
    pub flag: Vec<String>,
    /// How the values of a repeated one stand on the command line; `None`: it has one value.
    pub list: Option<ListForm>,
    /// The owner's file that stands in for one that is left out. Absolute.
    pub default_file: Option<PathBuf>,
    /// How an array stands in its file.
    pub format: Format,
    /// The program writes to its file, so it is never one that others have too.
    pub private: bool,
}

/// How several values stand on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListForm {
    /// A word each, the prefix before the first: `-x 1 2`.
    Words,
    /// A word each, the prefix before each: `-x 1 -x 2`.
    Prefixed,
    /// One word, this between two values: `-x 1,2`.
    Joined(String),
}

/// Inputs of which not every choice makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What messages call it.
    pub name: String,
    /// Names of its inputs, two or more.
    pub inputs: Vec<String>,
    /// At most one of them is given.
    pub exclusive: bool,
    /// At least one of them is given.
    pub required: bool,
    /// All of them are given, or none.
    pub together: bool,
}

/// An output and where the program leaves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// As callers see it.
    pub parameter: Parameter,
    /// Where the program leaves it.
    pub source: OutputSource,
    /// Inputs whose values stand in `source`, each as `{NAME}`.
    pub references: Vec<String>,
    /// How an array stands in its file.
    pub format: Format,
    /// A file of 0 bytes means failure.
    pub non_empty: bool,
}

/// A container to run a program in.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// An absolute path, or a URI that the runtime knows, such as `docker://alpine`.
    pub image: String,
    /// The runtime's program: `apptainer`, or one with the same command line.
    pub runtime: String,
}

impl Input {
    /// Its file in the workspace; the one of this number, from 1, if there are several.
    pub fn file(&self, number: usize) -> Option<String> {
        let (name, filename) = (&self.parameter.name, self.filename.as_ref()?);
        Some(match &self.list {
            None => filename.clone(),
            Some(_) if filename == name => format!("{name}/{number}"),
            Some(_) => format!("{name}/{number}-{filename}"),
        })
    }
}

impl Group {
    /// What it demands, as a sentence.
    pub fn sentence(&self) -> String {
        let names = self.inputs.join(", ");
        match (self.exclusive, self.required, self.together) {
            (true, true, _) => format!("Exactly one of {names} is given."),
            (true, false, _) => format!("At most one of {names} is given."),
            (false, true, true) => format!("All of {names} are given."),
            (false, false, _) => format!("All of {names} are given, or none."),
            (false, true, false) => format!("At least one of {names} is given."),
        }
    }
}

impl Invocation {
    /// The input of that name.
    pub fn input(&self, name: &str) -> Option<&Input> {
        self.inputs.iter().find(|input| input.parameter.name == name)
    }

    /// An array of which an axis has this name.
    pub fn array_with_axis(&self, name: &str) -> Option<&ArrayType> {
        let inputs = self.inputs.iter().map(|input| &input.parameter);
        let outputs = self.outputs.iter().map(|output| &output.parameter);
        let named = |axis: &Dimension| matches!(axis, Dimension::Named(it) if it == name);
        inputs
            .chain(outputs)
            .filter_map(|parameter| parameter.data_type.as_array())
            .find(|array| array.dimensions.iter().any(named))
    }

    /// Whether an input's file is an output too: the program changes it.
    pub fn changes(&self, file: &str) -> bool {
        let is_it =
            |source: &OutputSource| matches!(source, OutputSource::Path(path) if path == file);
        self.outputs.iter().any(|output| is_it(&output.source))
    }

    /// The file of an output slot.
    pub fn output_file(&self, name: &str) -> Option<&str> {
        let output = self.outputs.iter().find(|output| output.parameter.name == name)?;
        match &output.source {
            OutputSource::Path(path) => Some(path),
            OutputSource::Glob(_) => None,
        }
    }
}

//! All that is needed to run one job anywhere, without its service file: a plan is persisted with
//! the job, so that any engine that shares the store can start it, watch it and judge it.
//!
//! Paths in a plan are relative to the job's workspace unless they say otherwise; none can leave
//! it, because they come from the service's owner and from parameter names, never from a caller.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{DataRef, Digest};
use fishplate_formats::array_file::Format;
use fishplate_formats::dimension::Dimensions;
use serde::{Deserialize, Serialize};

use crate::output_choices::OutputChoices;

/// How to run one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its arguments, the program's own name not among them. Never seen by a shell.
    pub arguments: Vec<String>,
    /// Absolute path of a JSON object: the environment in which the service was started.
    /// Kept in a file of its own because it is the same for all of a service's jobs.
    pub base_environment: Option<PathBuf>,
    /// Variables set on top of it.
    pub environment: BTreeMap<String, String>,
    /// File of the workspace that is standard input; else it is empty.
    pub stdin: Option<String>,
    /// File of the workspace that takes standard output; else the job's log does.
    pub stdout: Option<String>,
    /// File of the workspace that takes standard error; else the job's log does.
    pub stderr: Option<String>,
    /// Files to be written into the workspace before the start.
    pub inputs: Vec<InputFile>,
    /// The service's own files to be copied into the workspace before the start.
    pub staged: Vec<StagedFile>,
    /// What to collect after the end.
    pub outputs: Vec<OutputRule>,
    /// Lengths of axes that the call tells.
    #[serde(default, skip_serializing_if = "Dimensions::is_empty")]
    pub dimensions: Dimensions,
    /// What counts as success.
    pub success: SuccessRules,
    /// File of the workspace in which the program tells why it failed, as JSON
    /// (`ProgramFault` of the executor); its fault then is the job's.
    #[serde(default)]
    pub fault: Option<String>,
    /// How to read the program's progress.
    pub progress: Option<ProgressRule>,
    /// How the caller wants the outputs.
    #[serde(default, skip_serializing_if = "OutputChoices::is_plain")]
    pub answer: OutputChoices,
    /// Its caller takes the results of an equal job of before, if there is one that they may have: a digest of the service and of what the call
    /// holds, 64 hexadecimal digits. What is fetched comes on top, when the engine has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<String>,
    /// What the job may use.
    pub limits: JobLimits,
}

/// A file in the workspace before the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputFile {
    /// Where the program finds it.
    pub path: String,
    /// Its bytes.
    pub content: InputContent,
}

/// Where an input file's bytes are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum InputContent {
    /// In the plan; small.
    Text(String),
    /// In the plan; small and not UTF-8.
    Bytes(#[serde(with = "base64_bytes")] Vec<u8>),
    /// In the workspace already: moved there when the job was accepted.
    InPlace,
    /// Somewhere else: to be fetched before the job is queued.
    Fetch(ReferencedInput),
    /// Fetched: in a file of the job's directory.
    Fetched(Fetched),
}

/// An input that is given by reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReferencedInput {
    /// The parameter.
    pub parameter: String,
    /// Where it is.
    pub url: String,
    /// How many bytes it must be, if the caller told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// What its digest must be, as a member of a field of RFC 9530, if the caller told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The program writes to it.
    #[serde(default)]
    pub private: bool,
    /// What the program reads, if its description says.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// What it becomes in the workspace.
    pub arrival: FetchedForm,
}

impl Plan {
    /// Its inputs that are still to be fetched.
    pub fn fetches(&self) -> impl Iterator<Item = &ReferencedInput> {
        self.inputs.iter().filter_map(|input| match &input.content {
            InputContent::Fetch(fetch) => Some(fetch),
            _ => None,
        })
    }
}

impl ReferencedInput {
    /// What the parameter of this name refers to.
    pub fn new(parameter: &str, from: &DataRef, private: bool, arrival: FetchedForm) -> Self {
        Self {
            parameter: parameter.to_owned(),
            url: from.url.clone(),
            len: from.len,
            digest: from.digest.map(|digest| digest.to_string()),
            private,
            media_type: String::new(),
            arrival,
        }
    }

    /// The same, of a program that reads this.
    #[must_use]
    pub fn read_as(self, media_type: &str) -> Self {
        Self { media_type: media_type.to_owned(), ..self }
    }

    /// The reference, as the caller sent it.
    pub fn reference(&self) -> DataRef {
        let digest = self.digest.as_deref().and_then(Digest::from_field);
        DataRef { url: self.url.clone(), len: self.len, digest }
    }
}

/// What fetched bytes become in the workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FetchedForm {
    /// A file of just these bytes; of an array that comes as `.npy`, the elements alone, if the program reads
    /// `application/octet-stream`.
    File,
    /// The directory of which they are an archive.
    Directory,
    /// An array's file. What is fetched is a `.npy` file, or the array's elements, little-endian
    /// in C order.
    Array {
        /// Its type, such as `double[n,3]`.
        data_type: String,
        /// How it stands in the workspace.
        format: Format,
        /// Its shape, if the caller told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shape: Option<Vec<u64>>,
    },
}

/// An input that was fetched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetched {
    /// The parameter.
    pub parameter: String,
    /// Where it came from: scheme and authority.
    pub peer: String,
    /// Bytes that were fetched.
    pub bytes: u64,
    /// They were here before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// How they came here ([`fishplate_contract::PlacementMethod::name`]).
    pub placed: String,
    /// Path in the job's directory where it waits; it is moved into the workspace before the start.
    pub at: String,
}

/// A file or directory of the service's owner, copied into each workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagedFile {
    /// Absolute path of the original.
    pub from: PathBuf,
    /// Path in the workspace.
    pub to: String,
}

/// An output to collect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputRule {
    /// Name of the parameter.
    pub name: String,
    /// Name of its data type ([`fishplate_contract::DataType::name`]).
    pub data_type: String,
    /// Where the program leaves it.
    pub source: OutputSource,
    /// The job fails if it is not there.
    pub required: bool,
    /// The job fails if a file of it has 0 bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub non_empty: bool,
    /// How an array stands in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Its media type; empty if not told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
}

/// Where a program leaves an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OutputSource {
    /// In this file.
    Path(String),
    /// In every file that matches, in the order of their names; each value is labelled with the
    /// file's path in the workspace.
    Glob(String),
}

/// What counts as success: exit codes lie (`pipe.md`), so logs and outputs have a say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuccessRules {
    /// Exit codes that mean success.
    pub exit_codes: Vec<i32>,
    /// What other exit codes mean, for the fault.
    pub meanings: BTreeMap<i32, String>,
    /// Regular expressions; a line of standard output or standard error that matches one means
    /// failure whatever the exit code.
    pub failure_patterns: Vec<String>,
}

impl Default for SuccessRules {
    fn default() -> Self {
        Self { exit_codes: vec![0], meanings: BTreeMap::new(), failure_patterns: Vec::new() }
    }
}

/// How to read progress: the last match in a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgressRule {
    /// A regular expression with one group (a percentage) or two (done, of how many).
    pub pattern: String,
    /// `stdout`, `stderr`, or a file of the workspace.
    pub stream: String,
}

/// What a job may use. `None` is no limit but the disk's and the quota's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobLimits {
    /// Seconds from start to end.
    pub wall_time: Option<f64>,
    /// Resident bytes of the whole tree.
    pub memory: Option<u64>,
    /// Processors it may run on.
    pub cores: Option<u32>,
    /// Bytes in the workspace.
    pub output_size: Option<u64>,
    /// Bytes of standard output and of standard error each, where they go to the log.
    pub log_size: u64,
    /// Bytes of an output that is a value (not `raw`, `xml` or an array).
    pub value_size: u64,
    /// Bytes that must stay free on the file system of the workspace.
    pub disk_reserve: u64,
    /// Seconds between SIGTERM and SIGKILL when a job is ended.
    pub kill_grace: f64,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            wall_time: DEFAULTS.wall_time.map(|most| most.as_secs_f64()),
            memory: DEFAULTS.memory,
            cores: DEFAULTS.cores,
            output_size: DEFAULTS.output_size,
            log_size: DEFAULTS.log_size,
            value_size: DEFAULTS.value_size,
            disk_reserve: DEFAULTS.disk_reserve,
            kill_grace: DEFAULTS.kill_grace.as_secs_f64(),
        }
    }
}

/// What a job asks of whoever places it on a machine: what it may use, so far as that is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Processors; `None`: as many as there are.
    pub cores: Option<u32>,
    /// Bytes of memory; `None`: not known.
    pub memory: Option<u64>,
    /// Time from start to end; `None`: not known.
    pub wall_time: Option<Duration>,
}

impl Plan {
    /// What it needs to run: a batch system reserves that much, and more would not be used.
    pub fn needs(&self) -> Needs {
        let JobLimits { cores, memory, wall_time, .. } = self.limits;
        // A time that no duration holds is no bound.
        let wall_time = wall_time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Needs { cores, memory, wall_time }
    }
}

/// Bytes in JSON.
pub mod base64_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    /// As a text in base64.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&base64_simd::STANDARD.encode_to_string(bytes))
    }

    /// From a text in base64.
    ///
    /// # Errors
    /// It is no text, or not in base64.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        base64_simd::STANDARD.decode_to_vec(text).map_err(serde::de::Error::custom)
    }
}

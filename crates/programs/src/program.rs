//! A described program as a service: what callers see of it, and how a call becomes a plan.
//!
//! Reading order:
//!
//! - [`Program`]: a description with its environment, loaded once
//! - `fill`: a call's arguments into words and files
//! - `groups`: inputs that go together, or exclude each other
//! - `words`: one word of the command line
//! - `outputs`: what to collect
//! - [`command_line`]: how long the system lets words be
//! - [`environment`]: what programs get of the server's environment, and its modules
//! - [`locate`]: where a program is

pub mod command_line;
pub mod environment;
mod fill;
mod groups;
pub mod locate;
mod outputs;
mod words;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use fishplate_contract::{Argument, Array, Fault, FaultCode, Payload, Service};
use fishplate_formats::array_file::Format;

use crate::descriptor::{Description, Invocation};
use crate::plan::{Plan, ProgressRule};
use environment::{EnvironmentError, Inheritance};
use locate::MissingProgram;

/// A program that is offered as a service.
#[derive(Debug)]
pub struct Program {
    description: Description,
    /// The environment of its jobs, in a file.
    environment: PathBuf,
    /// What it takes of what the system allows to a command line.
    environment_size: usize,
    /// `PATH` of that environment.
    search: OsString,
    /// Where its programs' libraries are looked for first (ld.so(8)), if they are told.
    library_path: Option<String>,
    /// Where each invocation's program was found last.
    found: Vec<RwLock<Option<PathBuf>>>,
}

/// An input to be put into the workspace before the plan runs. A spooled one that stays as it is,
/// is moved: whoever does so calls [`FileHandle::keep`](fishplate_contract::FileHandle::keep).
#[derive(Clone, Debug)]
pub struct InputPlacement {
    /// Where it belongs in the workspace.
    pub path: String,
    /// Its bytes, and what becomes of them.
    pub content: PlacedInput,
}

/// What is put into a workspace.
#[derive(Clone, Debug)]
pub enum PlacedInput {
    /// These bytes as they are; no reference.
    Bytes(Payload),
    /// An array in this format.
    Array(Array, Format),
    /// The directory of which these bytes are an archive; the parameter, for faults.
    Directory(Payload, String),
}

/// The environment variable that names directories of libraries.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The workspace as a program in a container sees it.
const CONTAINER_WORKSPACE: &str = "/workspace";

impl Program {
    /// Takes a description and what its programs get of this process's environment, with the
    /// description's modules loaded. The environment is kept in a file below `environments`, for jobs
    /// that run after this process has ended. Nobody gets `secrets`, names of variables.
    ///
    /// # Errors
    /// If the modules cannot be loaded or the environment cannot be kept; if it asks for a secret.
    pub fn load(
        description: Description,
        environments: &Path,
        secrets: &BTreeSet<String>,
    ) -> Result<Self, EnvironmentError> {
        let pass = description.pass_environment.clone();
        let inheritance = Inheritance { pass, secrets: secrets.clone() };
        let variables = if description.modules.is_empty() {
            inheritance.own()?
        } else {
            environment::with_modules(&description.modules, &inheritance)?
        };
        let search = variables.get("PATH").map(OsString::from).unwrap_or_default();
        let library_path = description.environment.get(LIBRARY_PATH);
        let library_path = library_path.or_else(|| variables.get(LIBRARY_PATH)).cloned();
        let environment = environment::keep(&variables, environments)?;
        let all = variables.iter().chain(&description.environment);
        let environment_size = all.map(|(name, value)| name.len() + 1 + value.len());
        let environment_size = environment_size.map(command_line::room_of).sum();
        let found = description.invocations.iter().map(|_| RwLock::new(None)).collect();
        Ok(Self { description, environment, environment_size, search, library_path, found })
    }

    /// What callers see.
    pub fn service(&self) -> &Service {
        &self.description.service
    }

    /// All that its owner said.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// How many jobs run at once; `None`: as many as the server allows.
    pub fn max_running(&self) -> Option<u32> {
        self.description.max_running
    }

    /// Has a plan's program find libraries in this directory before all others.
    pub fn lead_to_libraries(&self, plan: &mut Plan, directory: &Path) {
        let own = self.library_path.as_deref().filter(|path| !path.is_empty());
        let directory = directory.to_string_lossy();
        let all = own.map_or(directory.to_string(), |own| format!("{directory}:{own}"));
        plan.environment.insert(LIBRARY_PATH.to_owned(), all);
    }

    /// How many ranks it may be at once; `None`: it is no rank.
    pub fn ranks(&self) -> Option<u32> {
        self.description.ranks
    }

    /// The operations that cannot run now, and why: a warning at the start, since a program may
    /// be installed later.
    pub fn missing(&self) -> Vec<(&str, MissingProgram)> {
        let invocations = self.description.invocations.iter().enumerate();
        invocations
            .filter_map(|(index, invocation)| {
                Some((invocation.operation.as_str(), self.program_of(index).err()?))
            })
            .collect()
    }

    /// How to run this call as a job, and which spooled inputs to move into its workspace.
    ///
    /// # Errors
    /// A fault that names the parameter and says what would be right; or
    /// [`FaultCode::ProgramMissing`].
    pub fn plan(
        &self,
        operation: &str,
        arguments: Vec<Argument>,
    ) -> Result<(Plan, Vec<InputPlacement>), Fault> {
        let index = self.index_of(operation)?;
        let invocation = &self.description.invocations[index];
        let filled = fill::fill(invocation, arguments)?;
        let path = self
            .program_of(index)
            .inspect_err(|missing| tracing::warn!(%missing, operation, "a call can't be run"))
            .map_err(|missing| Fault::new(FaultCode::ProgramMissing, missing.told()))?;
        let staged = [self.description.staged.clone(), filled.staged].concat();
        outputs::reject_staged(invocation, &filled.outputs, &staged)?;
        let (program, arguments) = self.command(path, invocation, filled.arguments);
        command_line::check_all(&program, &arguments, self.environment_size)
            .map_err(|fault| Fault { parameter: filled.longest, ..fault })?;
        let plan = Plan {
            program,
            arguments,
            base_environment: Some(self.environment.clone()),
            environment: self.description.environment.clone(),
            fault: None,
            progress: progress(invocation, filled.stdout.as_deref(), filled.stderr.as_deref()),
            stdin: filled.stdin,
            stdout: filled.stdout,
            stderr: filled.stderr,
            inputs: filled.inputs,
            staged,
            outputs: filled.outputs,
            dimensions: filled.dimensions,
            success: invocation.success.clone(),
            answer: crate::output_choices::OutputChoices::default(),
            reuse: None,
            limits: self.description.limits.clone(),
        };
        Ok((plan, filled.placements))
    }

    fn index_of(&self, operation: &str) -> Result<usize, Fault> {
        let invocations = &self.description.invocations;
        invocations.iter().position(|invocation| invocation.operation == operation).ok_or_else(
            || {
                let known: Vec<&str> =
                    invocations.iter().map(|invocation| invocation.operation.as_str()).collect();
                Fault::new(
                    FaultCode::UnknownOperation,
                    format!(
                        "service {} has no operation {operation:?}; it has {}",
                        self.description.service.name,
                        known.join(", ")
                    ),
                )
            },
        )
    }

    /// Where an invocation's program is now: looked up anew when it is not where it was.
    fn program_of(&self, index: usize) -> Result<PathBuf, MissingProgram> {
        let found = &self.found[index];
        if let Some(path) = found.read().unwrap_or_else(PoisonError::into_inner).as_ref()
            && locate::is_executable(path)
        {
            return Ok(path.clone());
        }
        let program = match &self.description.container {
            Some(container) => container.runtime.as_str(),
            None => self.description.invocations[index].template.program(),
        };
        let path = locate::find(program, &self.description.directory, &self.search)?;
        *found.write().unwrap_or_else(PoisonError::into_inner) = Some(path.clone());
        Ok(path)
    }

    /// The command line that is run: the program's own, or a container runtime's around it.
    fn command(
        &self,
        path: PathBuf,
        invocation: &Invocation,
        arguments: Vec<String>,
    ) -> (PathBuf, Vec<String>) {
        let Some(container) = &self.description.container else { return (path, arguments) };
        // The runtime is started in the workspace, so `.` is the workspace.
        let bind = format!(".:{CONTAINER_WORKSPACE}");
        let around = ["exec", "--bind", &bind, "--pwd", CONTAINER_WORKSPACE, &container.image];
        let mut words: Vec<String> = around.into_iter().map(str::to_owned).collect();
        words.push(invocation.template.program().to_owned());
        words.extend(arguments);
        (path, words)
    }
}

/// The rule with the file that a redirected stream is in.
fn progress(
    invocation: &Invocation,
    stdout: Option<&str>,
    stderr: Option<&str>,
) -> Option<ProgressRule> {
    let mut rule = invocation.progress.clone()?;
    let redirected = match rule.stream.as_str() {
        "stdout" => stdout,
        "stderr" => stderr,
        _ => None,
    };
    if let Some(file) = redirected {
        rule.stream = file.to_owned();
    }
    Some(rule)
}

#[cfg(test)]
mod tests;

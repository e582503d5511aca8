//! `fishplate export`: a service as a Boutiques descriptor or a CommandLineTool of CWL.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use fishplate_descriptions::{Exported, boutiques, cwl};

use super::client::{Connection, operation_of, run_interruptible};
use crate::exit::Exit;
use crate::output::Output;

/// Describe a service as a Boutiques descriptor or a CommandLineTool of CWL
///
/// Both call the service with `fishplate call URL ...`, so whoever runs them needs fishplate on the PATH, and reaches
/// the server. Each output is a file, one with several files a directory of them, called `output.NAME`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate export cwl http://somewhere.com/sample -o sample.cwl && cwltool sample.cwl --x 1 --y 2
  fishplate export boutiques http://somewhere.com/sample -o sample.json && bosh validate sample.json
  fishplate export cwl http://somewhere.com/tools --operation pack")]
pub(crate) struct Args {
    #[command(subcommand)]
    to: Target,
}

#[derive(Debug, Subcommand)]
enum Target {
    /// Describe a service as a Boutiques descriptor (schema 0.5)
    #[command(after_help = "Example:
  fishplate export boutiques http://somewhere.com/sample -o sample.json")]
    Boutiques(ServiceArgs),
    /// Describe a service as a CommandLineTool (CWL 1.2, written as JSON, which is YAML)
    #[command(after_help = "Example:
  fishplate export cwl http://somewhere.com/sample -o sample.cwl")]
    Cwl(ServiceArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServiceArgs {
    #[command(flatten)]
    connection: Connection,
    /// Operation, if the service has several
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// The description [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Args {
    /// The service, for hints.
    pub(crate) fn url(&self) -> &str {
        let (Target::Boutiques(args) | Target::Cwl(args)) = &self.to;
        &args.connection.url
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let (Target::Boutiques(of) | Target::Cwl(of)) = &args.to;
    run_interruptible(&[], async {
        let service = of.connection.connect().await?;
        let operation = operation_of(&service, of.operation.as_deref())?;
        let definition = &service.operation(&operation)?.definition;
        let known = service.description();
        let export = match &args.to {
            Target::Boutiques(_) => boutiques::export,
            Target::Cwl(_) => cwl::export,
        };
        let documentation = match definition.documentation.trim() {
            "" => &known.documentation,
            told => told,
        };
        let several = service.operations().count() > 1;
        let exported = Exported {
            url: &of.connection.url,
            operation: several.then_some(operation.as_str()),
            title: &known.title,
            documentation,
            signature: &definition.signature,
        };
        let text = serde_json::to_string_pretty(&export(&exported))? + "\n";
        match &of.output {
            Some(path) => std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display()))?,
            None => output.raw(&text)?,
        }
        Ok(Exit::Success)
    })
}

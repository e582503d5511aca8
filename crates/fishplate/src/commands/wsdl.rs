//! `fishplate wsdl URL`: a service's description.

use anyhow::Result;
use serde_json::json;

use super::client::{Connection, run_interruptible};
use crate::exit::Exit;
use crate::output::Output;

/// Print the WSDL of a service
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate wsdl http://somewhere.com/sample > sample.wsdl
  fishplate wsdl 'http://somewhere.com/sample?data=xdescr'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let service = args.connection.connect().await?;
        if output.json {
            output.value(&json!({ "url": service.wsdl_url(), "wsdl": service.wsdl() }))?;
        } else {
            output.raw(service.wsdl())?;
        }
        Ok(Exit::Success)
    })
}

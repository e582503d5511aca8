//! `fishplate revoke URL...`: references made good for nothing.

use anyhow::Result;
use fishplate_client::data::revoke;
use fishplate_client::error::without_user;
use serde_json::json;

use super::attempts::BatchResult;
use super::client::{ConnectionArgs, run_interruptible};
use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::FailureContext;

/// Revoke references: nobody gets their data by them any more
///
/// The server removes the data when it needs the room and nothing else refers to it. Only its owner can
/// revoke a reference: the user for whom it was made, or anybody where nobody is asked who they are. All are tried,
/// and each that could not be revoked is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate revoke $MESH
  fishplate revoke http://somewhere.com/data/TOKEN/pipe.msh")]
pub(crate) struct Args {
    /// URLs of references
    #[arg(value_name = "URL", required = true)]
    pub(crate) references: Vec<String>,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let settings = args.reach.settings()?;
        let mut attempts = BatchResult::new(output);
        for url in &args.references {
            let about = FailureContext { url: Some(url), ..FailureContext::default() };
            attempts.note(
                &without_user(url),
                revoke(url, &settings).await.map_err(Into::into),
                about,
            );
        }
        if output.json {
            let (done, failed) = attempts.told("url");
            output.value(&json!({ "revoked": done, "failed": failed }))?;
        }
        Ok(attempts.exit())
    })
}

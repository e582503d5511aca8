//! `fishplate put FILE... --to URL`: brings files to a server and prints references to them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use fishplate_client::data::UploadTarget;
use fishplate_client::{Error, Meter};

use super::client::{ConnectionArgs, going_on, run_interruptible};
use crate::exit::Exit;
use crate::output::{Output, json, progress};

/// Bring files to a server and print references to them
///
/// A reference is a URL: whoever has it may read the file until it expires. Give it to any service as
/// NAME@URL, on that server or another. With --json each line is an object with url, size and digest.
///
/// A broken connection is mended. If the command itself is stopped, the same command goes on where
/// it stopped, unless the file has changed.
///
/// URL is that of a Fishplate server, of one of its services or of its data/. Any other HTTP server
/// that takes PUT does, too: files go under a URL that ends with /.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate put pipe.msh --to http://somewhere.com
  MESH=$(fishplate put pipe.msh --to http://somewhere.com/solver)
  fishplate call http://somewhere.com/solver mesh@$MESH
  fishplate put *.msh --to http://somewhere.com --json | jq -r .url")]
pub(crate) struct Args {
    /// Files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Server, or a service of it
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    for file in &args.files {
        readable(file)?;
    }
    let hints = ["the same command goes on where it stopped".to_owned()];
    run_interruptible(&hints, async {
        let mut target = UploadTarget::find(&args.to, args.reach.settings()?).await?;
        if let Some(dir) = state_dir() {
            target = target.remembering(dir);
        }
        for file in &args.files {
            let meter = Arc::new(Meter::default());
            let putting = target.put(file, &meter);
            let name = if args.files.len() > 1 { file.to_string_lossy() } else { "".into() };
            let reference = progress::moving_file(output, &meter, &name, putting).await;
            let reference = reference.map_err(|error| going_on(error, &hints, &meter))?;
            if output.json {
                output.value(&json::reference(&reference))?;
            } else {
                output.line(&reference.url)?;
            }
        }
        Ok(Exit::Success)
    })
}

/// Before the first is sent: none of them is missing.
fn readable(file: &Path) -> Result<(), Error> {
    let failed = |source| Error::File { doing: "read", path: file.to_owned(), source };
    // To open a pipe would wait for its writer.
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    if metadata.is_file() {
        File::open(file).map_err(failed)?;
    }
    Ok(())
}

/// Where it is noted how far uploads are (XDG Base Directory Specification); nowhere without a home.
fn state_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("fishplate-client/uploads"))
}

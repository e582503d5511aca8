//! `fishplate restore`: a server's state of a backup.

use std::path::PathBuf;

use anyhow::Result;
use fishplate_server::backup;

use super::backup::{tell, told};
use super::hosting::data_directory;
use crate::exit::Exit;
use crate::output::{Output, progress};

/// Make a data directory of a backup
///
/// Then start the server on it. Jobs, references and sessions live on for as long as they had to live
/// when the backup was made. The backup stays as it is. To take the place of a data directory that is
/// there, stop its server and move it away first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate restore /mnt/backups/monday --data /var/lib/fishplate")]
pub(crate) struct Args {
    /// The backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// The data directory to be made: not there yet, or empty [default: ~/.local/state/fishplate]
    #[arg(long, value_name = "DIR", env = "FISHPLATE_DATA")]
    data: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let data = data_directory(args.data.as_deref())?;
    let size = backup::read(&args.from).map_err(|error| told(error, &args.from))?.size;
    let bar = progress::of_bytes(output, "restoring", size);
    let done = backup::restore(&args.from, &data, &mut |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let (made, brought) = done.map_err(|error| told(error, &data))?;
    tell(output, &made, &brought, &data, "restored to")
}

//! `fishplate supervise` (hidden): the supervisor of a data directory's supervisors.

use std::path::PathBuf;

use clap::Args;

/// Keeps the supervisors of a data directory.
#[derive(Debug, Args)]
pub(crate) struct SuperviseArgs {
    /// The data directory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// Keeps them until there are none.
pub(crate) fn run(arguments: &SuperviseArgs) -> ! {
    fishplate_jobs::executor::local::supervisor_main(&arguments.data)
}

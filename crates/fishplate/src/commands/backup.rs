//! `fishplate backup`: a server's state as it is at one moment, in another directory.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fishplate_data::backup::CopySummary;
use fishplate_formats::units::rounded;
use fishplate_server::backup::{self, Backup, BackupError};
use serde_json::{Value, json};

use super::hosting::own_data_directory;
use crate::exit::Exit;
use crate::output::failure::UsageError;
use crate::output::text::moment;
use crate::output::{Output, progress};

/// Back up a server's state while it runs: ended jobs, the pool, sessions
///
/// For the operator, on the server's machine. The backup is consistent: each job that it lists as ended
/// has all of its files in it. Jobs that have not ended are listed as unknown: nothing is run twice.
/// On the same file system files are shared with the server's, so that a backup takes little room and
/// time; on another they are copied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate backup /mnt/backups/monday --data /var/lib/fishplate
  fishplate backup /mnt/backups/$(date +%F) --data /var/lib/fishplate --json")]
pub(crate) struct Args {
    /// Where to: a directory that is not there yet, or an empty one
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Directory that holds the server's state [default: ~/.local/state/fishplate]
    #[arg(long, value_name = "DIR", env = "FISHPLATE_DATA")]
    data: Option<PathBuf>,
    /// Directory of the pool [default: DATA/pool]
    #[arg(long, value_name = "DIR")]
    pool: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let data = own_data_directory(args.data.as_deref())?;
    let pool = args.pool.clone().unwrap_or_else(|| data.join("pool"));
    let bar = progress::of_bytes(output, "backing up", backup::size(&data, &pool));
    let done = backup::backup(&data, &pool, &args.to, &mut |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let (made, brought) = done.map_err(|error| told(error, &args.to))?;
    tell(output, &made, &brought, &args.to, "backed up to")
}

/// Tells what was brought where.
pub(super) fn tell(
    output: Output,
    made: &Backup,
    brought: &CopySummary,
    to: &Path,
    done: &str,
) -> Result<Exit> {
    if output.json {
        output.value(&in_json(made, brought, to))?;
    } else {
        output.line(&format!(
            "{} jobs, {} objects, {} sessions {done} {}: {}, {} of it shared",
            made.jobs,
            made.objects,
            made.sessions,
            to.display(),
            rounded(brought.bytes),
            rounded(brought.linked),
        ))?;
        if made.unfinished > 0 {
            output.note(&format!("{} jobs had not ended: there they are unknown", made.unfinished));
        }
    }
    if brought.left_out > 0 {
        output.note(&format!(
            "{} files could not be read, or are pipes or devices, and were left out",
            brought.left_out
        ));
    }
    Ok(Exit::Success)
}

fn in_json(made: &Backup, brought: &CopySummary, to: &Path) -> Value {
    json!({
        "directory": to.display().to_string(),
        "made": moment(made.made()),
        "jobs": made.jobs,
        "unfinished": made.unfinished,
        "objects": made.objects,
        "sessions": made.sessions,
        "files": brought.files,
        "size": brought.bytes,
        "shared": brought.linked,
        "leftOut": brought.left_out,
    })
}

/// What went wrong, and what to do.
pub(super) fn told(error: BackupError, to: &Path) -> anyhow::Error {
    let mistaken = matches!(
        error,
        BackupError::NoData(_)
            | BackupError::Occupied(_)
            | BackupError::NoBackup(_)
            | BackupError::Newer(_)
    );
    if mistaken {
        return UsageError(error.to_string()).into();
    }
    if error.is_storage_full() {
        return anyhow::anyhow!(
            "there is no room for all of it at {}: free some there, or name a directory on another \
             disk; what was written is removed again",
            to.display()
        );
    }
    error.into()
}

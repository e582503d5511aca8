//! `fishplate engine` (hidden): works on a data directory's jobs until there are none. CGI scripts
//! start it, so that queued jobs advance with no server and no request alive.

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use fishplate_jobs::engine::RunMode;
use fishplate_server::assembly::{self, StoreCheck};
use nix::fcntl::{Flock, FlockArg};

use super::hosting::{HostingArgs, LOG_REST};

/// How long an engine rests before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// Works on queued jobs until there are none.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Below which the addresses of data are
    #[arg(long, value_name = "URL", default_value = "")]
    public_url: String,
    #[command(flatten)]
    hosting: HostingArgs,
}

/// Works until nothing is left.
pub(crate) fn run(arguments: &EngineArgs) -> anyhow::Result<ExitCode> {
    // A session of its own: whoever ends the script that started us does not end us.
    let _ = nix::unistd::setsid();
    let _log = arguments.hosting.start_log(LOG_REST)?;
    let limits = arguments.hosting.limits(arguments.public_url.clone())?;
    let data = limits.jobs.data.clone();
    let runtime = super::hosting::runtime()?;
    // Whoever submits looks at the lock after the submission; we look for work once more after
    // the lock is given up. So one of the two sees the other.
    while let Some(lock) = try_lock(&data)? {
        let left = runtime.block_on(async {
            let data = assembly::data(&limits)?;
            let backends = arguments.hosting.backends(&limits, StoreCheck::Some)?;
            let engine = assembly::engine(&limits, backends, &data)?;
            assembly::limit_owners_by(&engine, &limits)?;
            let housekeeping = tokio::spawn(data.housekeeping(engine.clone()));
            engine.run(RunMode::Idle(IDLE)).await;
            housekeeping.abort();
            drop(lock);
            let backlog = engine.backlog().await;
            anyhow::Ok(backlog.queued + backlog.running)
        })?;
        if left == 0 {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether an engine of ours works on this data directory.
pub(crate) fn is_at_work(data: &Path) -> anyhow::Result<bool> {
    Ok(try_lock(data)?.is_none())
}

fn try_lock(data: &Path) -> anyhow::Result<Option<Flock<File>>> {
    let path = data.join("engine.lock");
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

//! A rank's process.

#![expect(unsafe_code, reason = "what a process does between fork and exec")]

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use fishplate_ranks::launch::LaunchEnvironment;
use fishplate_ranks::launch::environment::APPLICATION;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getppid};

use crate::launch::Program;
use crate::open_files::FileLimit;

/// The environment variable that names directories of libraries.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// What a process gets besides its program's words.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    /// Rank, domain, rendezvous.
    pub(crate) environment: &'a LaunchEnvironment,
    /// Which of the launch's programs it is.
    pub(crate) application: usize,
    /// A directory with the MPI library, if there is one.
    pub(crate) libraries: Option<&'a Path>,
    /// The signal mask that the launcher had before it blocked what it reads.
    pub(crate) mask: SigSet,
    /// The limit of open files that the launcher had before it raised it.
    pub(crate) files: FileLimit,
    /// It has pipes for standard output and standard error, else the launcher's own.
    pub(crate) piped: bool,
    /// Standard output goes to standard error.
    pub(crate) to_stderr: bool,
}

/// A process that was started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: i32,
    /// Its standard output and its standard error.
    pub(crate) outputs: [Option<OwnedFd>; 2],
}

/// Starts a rank. It stays in the launcher's process group, so that a terminal's signals and input are its own as if it
/// had been started by the shell; rank 0 has the launcher's standard input, the others have none.
pub(crate) fn start(program: &Program, surroundings: &Surroundings<'_>) -> io::Result<Started> {
    let mut command = Command::new(&program.program);
    command
        .args(&program.arguments)
        .envs(program.environment.iter().map(|(name, value)| (name, value)));
    command.envs(surroundings.environment.variables());
    command.env(APPLICATION, surroundings.application.to_string());
    if let Some(libraries) = surroundings.libraries {
        let given = program.environment.iter().rev().find(|(name, _)| name == LIBRARY_PATH);
        let given =
            given.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(LIBRARY_PATH));
        command.env(LIBRARY_PATH, before(libraries, given));
    }
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    command.stdin(if surroundings.environment.rank == 0 {
        Stdio::inherit()
    } else {
        Stdio::null()
    });
    if surroundings.piped {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    } else if surroundings.to_stderr {
        command.stdout(io::stderr());
    }
    let (mask, files, launcher) = (surroundings.mask, surroundings.files, Pid::this());
    // SAFETY: all are system calls that may be made between fork and exec, and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The launcher may have been killed before that.
            if getppid() != launcher {
                return Err(Errno::ESRCH.into());
            }
            files.restore()?;
            Ok(mask.thread_set_mask()?)
        });
    }
    // It is reaped by its number, with all that it leaves.
    let mut child = command.spawn()?;
    let outputs = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    Ok(Started { pid: child.id().cast_signed(), outputs })
}

fn before(directory: &Path, others: Option<OsString>) -> OsString {
    let mut all = directory.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}
